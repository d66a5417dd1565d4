"""Backbone and head as one module."""

import pytest
import torch
from torch import nn

from equipoise.losses import LOSSES, UncertaintyMarginLoss
from equipoise.models import MLP
from equipoise.training import ArrayData, Network, Settings, train
from equipoise.training.network import head_logits

X = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
Y = torch.tensor([0, 1, 2, 0, 1, 2])


def network() -> Network:
    return Network(MLP(4, (8,)), UncertaintyMarginLoss(8, 3, dropout=0.5))


def test_without_target_it_gives_logits_with_one_the_loss():
    whole = network().eval()
    features = whole.backbone(X)
    torch.testing.assert_close(whole(X), whole.head.logits(features))
    torch.testing.assert_close(whole(X, Y), whole.head(features, Y))


def test_sample_weights_reach_the_head():
    whole = network().eval()
    weight = torch.tensor([1.0, 0, 0, 0, 0, 0])
    torch.testing.assert_close(whole(X, Y, weight), whole(X[:1], Y[:1]))


def test_head_logits_are_deterministic_and_restore_the_mode():
    whole = network().train()
    features = whole.backbone(X).detach()
    assert torch.equal(head_logits(whole.head, features), head_logits(whole.head, features))
    assert whole.head.training
    assert whole.head.dropout.training
    assert not torch.equal(whole.head.logits(features), whole.head.logits(features))
    with pytest.raises(ValueError, match="features must have the shape"):
        head_logits(whole.head, features[:, :3])
    assert whole.head.training


@pytest.mark.parametrize("method", LOSSES)
def test_every_loss_trains_in_the_loop_without_a_curriculum(method):
    head = LOSSES[method](8, 3, class_counts=torch.tensor([2, 2, 2]), dropout=0.2)
    history = train(Network(MLP(4, (8,)), head), ArrayData(X, Y), Settings(epochs=2, batch_size=3))
    assert [record["stage"] for record in history] == ["train", "train"]
    assert all(record["loss"] >= 0 for record in history)


def test_a_backbone_with_batch_norm_never_meets_a_batch_of_one():
    backbone = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8))
    data = ArrayData(torch.randn(7, 4), torch.tensor([0, 1, 2, 0, 1, 2, 0]))
    history = train(Network(backbone, LOSSES["cross_entropy"](8, 3)), data, Settings(epochs=2, batch_size=3))
    assert len(history) == 2


def test_one_process_may_train_in_several_precisions():
    for precision in ("no", "bf16", "no"):
        settings = Settings(epochs=1, batch_size=3, precision=precision)
        assert len(train(network(), ArrayData(X, Y), settings)) == 1


@pytest.mark.parametrize("name", ["epochs", "batch_size", "accumulate", "cap"])
def test_settings_below_one_are_refused(name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
        Settings(**({"epochs": 1, "batch_size": 1} | {name: 0}))


def test_a_tracker_without_a_folder_is_refused():
    with pytest.raises(ValueError, match="tracker='tensorboard' writes into the run's folder; pass folder as well"):
        train(network(), ArrayData(X, Y), Settings(epochs=1, batch_size=3), tracker="tensorboard")
