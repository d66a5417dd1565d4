"""What the loop asks the network: class uncertainty from a capped sample, recalls of rare and common classes."""

import inspect

import pytest
import torch
from accelerate import Accelerator

from equipoise import UncertaintyBalancedClassifier
from equipoise.data.summary import rare_classes
from equipoise.losses import UncertaintyMarginLoss
from equipoise.models import MLP
from equipoise.training import ArrayData, Curriculum, Network, Settings, train
from equipoise.training.measurements import (
    class_recall,
    estimate_class_uncertainty,
    gathered_features,
    validation_scores,
)
from equipoise.uncertainty import ClassMoments, class_uncertainty, margins_from_uncertainty, mc_dropout
from tests.training.digits_run import imbalanced_digits


@pytest.fixture(scope="module")
def accelerator():
    return Accelerator(cpu=True)


@pytest.fixture(scope="module")
def trained():
    """Plain softmax: its class uncertainty is what the margins follow from."""
    torch.manual_seed(0)
    network = Network(MLP(64, (32, 32)), UncertaintyMarginLoss(32, 10, dropout=0.5))
    train(network, imbalanced_digits().train, Settings(epochs=8, batch_size=64, learning_rate=3e-3))
    return network


def test_validation_calls_those_classes_rare_that_a_summary_does():
    counts = torch.tensor([1000, 101, 99, 10])  # their geometric mean is 100, and 99 is medium
    scores = validation_scores(torch.eye(4)[[0, 0, 0, 3]], torch.arange(4), None, counts)
    assert scores == pytest.approx({"balanced_accuracy": 0.5, "recall_rare": 1.0, "recall_common": 1 / 3})


@pytest.mark.parametrize(
    "default", [class_uncertainty, ClassMoments.uncertainty, Curriculum, UncertaintyBalancedClassifier]
)
def test_the_kind_of_class_uncertainty_has_one_default(default):
    assert inspect.signature(default).parameters["kind"].default == "unresolved"


def test_class_recall_counts_each_class_by_itself():
    logits = torch.eye(4)[torch.tensor([0, 0, 1, 1, 2])]
    recall, present = class_recall(logits, torch.tensor([0, 1, 1, 1, 2]))
    torch.testing.assert_close(recall, torch.tensor([1, 2 / 3, 1, 0], dtype=torch.float64))
    assert present.tolist() == [True, True, True, False]


def test_class_recall_of_several_labels_is_that_of_each_attribute():
    predicted = torch.tensor([[1, 0], [1, 0], [0, 1]])
    target = torch.tensor([[1, 0], [0, 0], [0, 0]])
    recall, present = class_recall(torch.nn.functional.one_hot(predicted, 2).float(), target)
    torch.testing.assert_close(recall, torch.tensor([[0.5, 1.0], [2 / 3, 0.0]], dtype=torch.float64))
    assert present.tolist() == [[True, True], [True, False]]


def test_scores_are_means_over_the_classes_present():
    logits = torch.eye(4)[torch.tensor([0, 1, 1, 0])]
    scores = validation_scores(logits, torch.tensor([0, 0, 1, 2]), None, torch.tensor([100, 90, 10, 9]))
    assert scores == pytest.approx({"balanced_accuracy": 0.5, "recall_rare": 0.0, "recall_common": 0.75})


def test_scores_of_balanced_data_name_no_rare_classes():
    scores = validation_scores(torch.eye(2), torch.arange(2), None, torch.tensor([5, 5]))
    assert scores == {"balanced_accuracy": 1.0}


def test_validation_features_are_those_of_the_deterministic_pass(accelerator, trained):
    digits = imbalanced_digits()
    trained.train()
    features = gathered_features(accelerator, trained, digits.validation)
    assert trained.training
    again = gathered_features(accelerator, trained, digits.validation)
    assert torch.equal(features, again)
    x = digits.validation.__getitems__(torch.arange(len(digits.validation)))[0]
    trained.eval()
    torch.testing.assert_close(features, trained.backbone(x).detach())
    trained.train()


def test_class_uncertainty_is_that_of_the_passes(accelerator, trained):
    data = imbalanced_digits().train.subset(torch.arange(300))  # few enough for one batch
    estimated = estimate_class_uncertainty(accelerator, trained, data, passes=10, cap=10_000, seed=5, kind="relative")
    x, y = data.__getitems__(torch.arange(len(data)))
    outputs = mc_dropout(trained, x, 10, torch.Generator().manual_seed(5)).softmax(-1)
    torch.testing.assert_close(estimated, class_uncertainty(outputs, y, "relative"))


def test_all_samples_meet_the_same_sub_networks_in_whatever_batches(accelerator, trained, monkeypatch):
    data = imbalanced_digits().train.subset(torch.arange(300))

    def estimated():
        return estimate_class_uncertainty(accelerator, trained, data, passes=4, cap=10_000, seed=5, kind="relative")

    whole = estimated()
    monkeypatch.setattr("equipoise.training.measurements.rows_at_once", lambda _: 7)
    torch.testing.assert_close(estimated(), whole)


def test_class_uncertainty_leaves_training_undisturbed(accelerator, trained):
    trained.train()
    before, weights = torch.get_rng_state(), {k: v.clone() for k, v in trained.state_dict().items()}
    estimate_class_uncertainty(
        accelerator, trained, imbalanced_digits().train, passes=3, cap=20, seed=0, kind="relative"
    )
    assert torch.equal(torch.get_rng_state(), before)
    assert all(module.training for module in trained.modules())
    for name, value in trained.state_dict().items():
        assert torch.equal(value, weights[name])


def test_a_capped_estimate_is_close_to_the_full_one(accelerator, trained):
    """60 of about 145 samples of a common class: margins move by less than two tenths of their range."""
    data = imbalanced_digits().train
    full, capped = (
        estimate_class_uncertainty(accelerator, trained, data, passes=100, cap=cap, seed=0, kind="relative")
        for cap in (10_000, 60)
    )
    torch.testing.assert_close(capped.log(), full.log(), atol=0.25, rtol=0)
    torch.testing.assert_close(margins_from_uncertainty(capped), margins_from_uncertainty(full), atol=0.4, rtol=0)


def test_a_cap_that_makes_all_classes_alike_still_tells_the_rare_from_the_common(accelerator, trained):
    data = imbalanced_digits().train
    cap = int(torch.bincount(data.y).min())
    full, capped = (
        estimate_class_uncertainty(accelerator, trained, data, passes=50, cap=at_most, seed=0, kind="unresolved")
        for at_most in (10_000, cap)
    )
    torch.testing.assert_close(capped.log(), full.log(), atol=0.6, rtol=0)  # unweighted, it would be off by log 10


def test_rare_classes_are_the_uncertain_ones(accelerator, trained):
    data = imbalanced_digits().train
    estimated = estimate_class_uncertainty(accelerator, trained, data, passes=50, cap=10_000, seed=0, kind="relative")
    rare = torch.from_numpy(rare_classes(torch.bincount(data.y)))
    assert estimated[rare].min() > estimated[~rare].max()


def test_several_labels_have_a_pair_of_uncertainties_each(accelerator):
    head = UncertaintyMarginLoss(4, 3, multilabel=True, dropout=0.5)
    network = Network(torch.nn.Linear(4, 4), head)
    data = ArrayData(torch.randn(20, 4), torch.randint(2, (20, 3)))
    assert estimate_class_uncertainty(accelerator, network, data, passes=5, cap=100, seed=0, kind="relative").shape == (
        3,
        2,
    )


def test_more_rows_than_fit_at_once_are_joined(accelerator, trained, monkeypatch):
    data = imbalanced_digits().validation
    whole = gathered_features(accelerator, trained, data)
    monkeypatch.setattr("equipoise.training.measurements.rows_at_once", lambda _: 64)
    parts = gathered_features(accelerator, trained, data)
    torch.testing.assert_close(parts, whole)
    estimated = estimate_class_uncertainty(
        accelerator, trained, imbalanced_digits().train, passes=20, cap=10_000, seed=0, kind="relative"
    )
    assert estimated.isfinite().all()
