"""Networks side by side in one estimator: who has them, and that they are one model in every other respect."""

import numpy as np
import pytest
import torch
from torch import nn

from equipoise import UncertaintyBalancedClassifier
from equipoise.errors import InvalidInputError
from equipoise.training.settings import MEMBERS


def quick(method="uncertainty_margin", **options):
    chosen = {"epochs": 6, "width": 16, "batch_size": 16, "random_state": 0} | options
    return UncertaintyBalancedClassifier(method, **chosen)


def rows(columns=6, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(150, columns)).astype(np.float32)
    return x, np.where(x[:, 0] > 1.2, "rare", "common")


@pytest.mark.parametrize(
    ("options", "members"),
    [
        ({}, MEMBERS),
        ({"members": 2}, 2),
        ({"method": "logit_adjustment"}, 1),
        ({"method": "logit_adjustment", "members": 3}, 3),
        ({"method": "paper_as_printed"}, 1),
        ({"form": "angular"}, 1),
        ({"sample_level": "expected"}, 1),
        ({"backbone": nn.Linear(6, 8)}, 1),
    ],
)
@pytest.mark.filterwarnings("ignore::equipoise.errors.ShortTrainingWarning")
def test_who_has_how_many_members(options, members):
    assert quick(**options).fit(*rows()).network_.head.members == members


@pytest.mark.filterwarnings("ignore::equipoise.errors.ShortTrainingWarning")
@pytest.mark.parametrize("columns", [6, 64])
def test_a_prediction_is_the_mean_of_the_members_logits(columns):
    x, y = rows(columns)
    network = quick(members=3).fit(x, y).network_
    features = network.backbone(torch.from_numpy(x))
    each = network.head.member_logits(features)
    assert each.shape == (3, 150, 2)
    assert float((each[0] - each[1]).abs().mean().detach()) > 0.01
    torch.testing.assert_close(network(torch.from_numpy(x)), each.mean(0), atol=1e-5, rtol=1e-5)


@pytest.mark.filterwarnings("ignore::equipoise.errors.ShortTrainingWarning")
def test_members_are_saved_and_loaded_and_depend_on_the_seed_alone(tmp_path):
    x, y = rows()
    model = quick(members=3).fit(x, y)
    model.save(tmp_path)
    loaded = UncertaintyBalancedClassifier.load(tmp_path)
    assert loaded.members == loaded.network_.head.members == 3
    for again in (loaded, quick(members=3).fit(x, y)):
        assert np.array_equal(again.predict_proba(x), model.predict_proba(x))
        assert np.array_equal(again.uncertainty(x), model.uncertainty(x))
    assert not np.array_equal(quick(members=2).fit(x, y).predict_proba(x), model.predict_proba(x))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::equipoise.errors.ShortTrainingWarning")
def test_several_labels_have_members_too():
    x, _ = rows()
    y = (x[:, :2] > 0.5).astype(int)
    model = quick(members=3, epochs=60).fit(x, y)
    assert model.predict_proba(x).shape == (150, 2)
    assert (model.predict(x) == y).mean() > 0.8


def test_a_backbone_of_ones_own_has_no_members():
    with pytest.raises(InvalidInputError, match="leave out either members or the backbone"):
        quick(members=2, backbone=nn.Linear(6, 8)).fit(*rows())


def test_no_members_are_refused():
    with pytest.raises(InvalidInputError, match="members must be a whole number of at least 1, got 0"):
        quick(members=0).fit(*rows())


@pytest.mark.filterwarnings("ignore::equipoise.errors.ShortTrainingWarning")
def test_members_disagree_where_they_have_seen_nothing():
    x, y = rows()
    model = quick(members=3, epochs=20).fit(x, y)
    far = x.copy()
    far[:, 1:] *= 6  # away from all training rows
    assert model.uncertainty(far, kind="members").mean() > 1.5 * model.uncertainty(x, kind="members").mean()
    logits = model.network_.head.member_logits(model.network_.backbone(torch.from_numpy(x)))
    chances = model.calibrated_.decision(logits.detach()).softmax(-1).numpy()
    expected = ((chances - chances.mean(0)) ** 2).mean(0).sum(-1)
    np.testing.assert_allclose(model.uncertainty(x, kind="members"), expected, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::equipoise.errors.ShortTrainingWarning")
def test_one_network_cannot_disagree():
    x, y = rows()
    with pytest.raises(InvalidInputError, match="fit with members=4"):
        quick(members=1).fit(x, y).uncertainty(x, kind="members")


@pytest.mark.filterwarnings("ignore::equipoise.errors.ShortTrainingWarning")
@pytest.mark.parametrize(
    ("options", "first"),
    [({}, "class"), ({"softmax_epochs": 2}, "softmax"), ({"margins": "uncertainty"}, "softmax")],
)
def test_margins_by_counts_need_no_softmax_stage(options, first):
    model = quick(**options).fit(*rows())
    assert model.history_["epochs"][0]["stage"] == first
    assert model.class_uncertainty_.argmax() == 1  # "rare", though margins are in force
