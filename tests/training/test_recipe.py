"""A network from plain values, the same one every time."""

import dataclasses
import json

import pytest
import torch
from torch import nn

from equipoise.errors import InvalidInputError
from equipoise.losses import LOSSES, UncertaintyMarginLoss
from equipoise.models import MLP, Standardize
from equipoise.training import Network, Recipe, feature_length

RECIPE = Recipe(
    method="uncertainty_margin",
    classes=3,
    multilabel=False,
    dropout=0.4,
    form="angular",
    sample_level="complement",
    columns=5,
    width=16,
)


@pytest.mark.parametrize("method", LOSSES)
@pytest.mark.parametrize("multilabel", [False, True])
def test_every_method_builds_a_network_that_comes_back_from_json(method, multilabel):
    recipe = dataclasses.replace(RECIPE, method=method, multilabel=multilabel)
    counts = torch.arange(1, 1 + torch.Size(recipe.class_shape).numel()).view(recipe.class_shape)
    network = Network(recipe.table_backbone(), recipe.head(counts, features=16)).eval()
    assert network(torch.randn(7, 5)).shape == (7, *recipe.class_shape)
    again = Recipe(**json.loads(json.dumps(dataclasses.asdict(recipe))))
    assert again == recipe
    other = Network(again.table_backbone(), again.head(counts, features=16)).eval()
    other.load_state_dict(network.state_dict())
    x = torch.randn(4, 5)
    assert torch.equal(other(x), network(x))


def test_the_papers_loss_gets_its_own_options():
    head = RECIPE.head(torch.ones(3), features=16)
    assert isinstance(head, UncertaintyMarginLoss)
    assert (head.form, head.sample_level, head.dropout.p) == ("angular", "complement", 0.4)


def test_the_table_backbone_standardises_first():
    standardize = Standardize(5)
    backbone = RECIPE.table_backbone(standardize)
    assert backbone[0] is standardize
    assert feature_length(backbone, torch.zeros(2, 5)) == 16


def test_an_unknown_method_is_refused():
    with pytest.raises(InvalidInputError, match=r"method must be one of cross_entropy, .*, got 'softmaxx'"):
        dataclasses.replace(RECIPE, method="softmaxx")


def test_feature_length_is_told_or_found_out():
    assert feature_length(MLP(3, (4, 6)), torch.zeros(0)) == 6
    assert feature_length(nn.Sequential(nn.Flatten(), nn.Linear(6, 9)), torch.zeros(2, 3, 2)) == 9


def test_finding_the_feature_length_out_changes_nothing():
    backbone = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).train()
    before = {name: value.clone() for name, value in backbone.state_dict().items()}
    assert feature_length(backbone, torch.randn(2, 3)) == 4
    assert backbone.training
    for name, value in backbone.state_dict().items():
        assert torch.equal(value, before[name])


@pytest.mark.parametrize(
    ("backbone", "shape"),
    [(nn.Identity(), r"\(2, 3, 4\)"), (nn.LSTM(4, 2, batch_first=True), "tuple")],
    ids=["not pooled", "a tuple"],
)
def test_a_backbone_without_features_is_refused(backbone, shape):
    with pytest.raises(InvalidInputError, match=rf"features of shape \(batch, D\), got {shape}; pool or flatten"):
        feature_length(backbone, torch.zeros(2, 3, 4))
