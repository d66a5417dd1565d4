"""A run calibrated on its held-out samples, whose figures no sample flatters."""

import numpy as np
import pytest
import torch

from equipoise.app.run_folder import CalibrationRecord
from equipoise.calibration import held_out_calibration
from equipoise.calibration.calibrated_probabilities import Calibrated
from equipoise.calibration.held_out_calibration import calibrate_held_out
from equipoise.calibration.scaling import FEWEST_SAMPLES, Scaling
from equipoise.estimators.network_prediction import PredictionModule
from equipoise.storage.records import as_record
from tests.estimators.test_network_prediction import features, network

PRIOR = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)


def samples(count, *, seed=0, heat=3.0):
    """Logits that are too sure by a factor, aimed at a balanced mix, of samples at the natural one."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.multinomial(PRIOR, count, replacement=True, generator=generator)
    logits = torch.randn(count, 3, generator=generator) + torch.nn.functional.one_hot(labels, 3)
    return heat * logits, labels.numpy()


def expected_sets(logits, labels, others):
    """By thresholds from the samples marked."""
    rows = torch.from_numpy(others)
    fitted = uncalibrated().with_thresholds(logits[rows], torch.from_numpy(labels)[rows])
    return fitted.sets(logits, 0.9)


def uncalibrated(scaling=None, *, prior=PRIOR):
    """For logits that are aimed at a balanced mix."""
    shape = tuple(prior.shape)
    return Calibrated(prior, torch.full_like(prior, 1 / shape[-1]), scaling or Scaling.identity(shape))


def test_the_model_is_calibrated_on_all_and_each_sample_on_the_others():
    logits, labels = samples(400)
    found = calibrate_held_out(uncalibrated(), logits, labels, groups=None, seed=0)
    whole = uncalibrated().fit_on(logits, torch.from_numpy(labels))
    torch.testing.assert_close(found.model.scaling.scale, whole.scaling.scale)
    told = {"source": "held_out", "samples": 400, "folds": 5, "level": 0.9, "never_ruled_out": []}
    assert found.as_dict(("a", "b", "c")) == told
    assert as_record(told, CalibrationRecord, "run.json", remedy="train again").folds == 5
    assert found.note is None
    flattering = whole.probabilities(logits).float().numpy()
    assert np.abs(found.probabilities - flattering).max() > 1e-4
    rows = np.arange(400)
    own, seen = (-np.log(p[rows, labels]).mean() for p in (found.probabilities, flattering))
    plain = -np.log(found.uncalibrated[rows, labels]).mean()
    assert seen < own < 0.7 * plain
    expected = (logits.double() + PRIOR.log()).softmax(-1)
    np.testing.assert_allclose(found.uncalibrated, expected, rtol=1e-5, atol=1e-7)


def test_a_samples_own_label_does_not_touch_its_answer():
    """Its fold is left out: other labels in the fold change nothing but the other folds' answers."""
    logits, labels = samples(100)
    groups = np.arange(100) % 10
    found = calibrate_held_out(uncalibrated(), logits, labels, groups=groups, seed=0)
    changed = labels.copy()
    changed[groups == 4] = (labels[groups == 4] + 1) % 3
    divided = held_out_calibration._folds
    monkey = divided(labels, groups, 5, 0)
    own = next(part for _, part in monkey if 4 in groups[part])
    for others, part in monkey:  # groups are whole
        assert not set(groups[others]) & set(groups[part])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held_out_calibration, "_folds", lambda _, *rest: divided(labels, *rest))
        other = calibrate_held_out(uncalibrated(), logits, changed, groups=groups, seed=0)
    np.testing.assert_array_equal(other.probabilities[own], found.probabilities[own])
    of_sets = divided(labels, groups, 10, 0)
    assert [len(set(groups[part])) for _, part in of_sets] == [1] * 10
    for name in range(10):
        expected = expected_sets(logits, changed, groups != name)
        np.testing.assert_array_equal(other.sets[groups == name], expected[groups == name])
    rest = np.setdiff1d(np.arange(100), own)
    assert np.abs(other.probabilities[rest] - found.probabilities[rest]).max() > 1e-4


@pytest.mark.parametrize("held_back", [False, True])
def test_too_few_samples_leave_the_scaling_as_it_is(held_back):
    scaling = Scaling(torch.full((3,), 0.4, dtype=torch.float64), torch.zeros(3, dtype=torch.float64))
    calibrated = uncalibrated(scaling=scaling if held_back else None)
    logits, labels = samples(FEWEST_SAMPLES - 1)
    found = calibrate_held_out(calibrated, logits, labels, groups=None, seed=0)
    assert found.source == ("held_back" if held_back else "nothing")
    assert "49 held-out samples are too few to calibrate on, 50 are needed" in found.note
    torch.testing.assert_close(found.model.scaling.scale, calibrated.scaling.scale)
    np.testing.assert_allclose(found.probabilities, calibrated.probabilities(logits), rtol=1e-5)
    assert found.model.thresholds is not None
    assert found.model.thresholds.counts.sum() == 49
    enough = calibrate_held_out(calibrated, *samples(FEWEST_SAMPLES), groups=None, seed=0)
    assert enough.source == "held_out"
    assert (enough.model.scaling.scale != calibrated.scaling.scale).all()


def test_sets_hold_the_class_as_often_as_said():
    logits, labels = samples(4000)
    found = calibrate_held_out(uncalibrated(), logits, labels, groups=None, seed=0)
    assert found.folds == 2
    for place in range(3):
        assert found.sets[labels == place, place].mean() == pytest.approx(0.9, abs=0.035)


@pytest.mark.parametrize("count", [10, 15])
def test_a_rare_class_is_ruled_out_in_the_figures_as_in_the_model(count):
    """Half of 15 samples would be too few at 90 %: the class would seem possible everywhere."""
    logits, labels = samples(2400)
    rare = np.flatnonzero(labels == 2)[count:]
    logits, labels = np.delete(logits.numpy(), rare, axis=0), np.delete(labels, rare)
    found = calibrate_held_out(uncalibrated(), torch.from_numpy(logits), labels, groups=None, seed=0)
    assert (found.folds, found.as_dict(("a", "b", "c"))["never_ruled_out"]) == (2, [])
    assert found.sets[:, 2].mean() < 0.9
    few = np.flatnonzero(labels == 2)[8:]
    logits, labels = np.delete(logits, few, axis=0), np.delete(labels, few)
    found = calibrate_held_out(uncalibrated(), torch.from_numpy(logits), labels, groups=None, seed=0)
    assert found.as_dict(("a", "b", "c"))["never_ruled_out"] == ["c"]
    assert found.sets[:, 2].all()


@pytest.mark.parametrize(
    ("count", "said"), [(1, "1 held-out samples are too few"), (200, "of one group, and too alike")]
)
@pytest.mark.parametrize("held_back", [False, True])
def test_samples_that_cannot_be_divided_are_not_calibrated_on(count, said, held_back):
    scaling = Scaling(torch.full((3,), 0.4, dtype=torch.float64), torch.zeros(3, dtype=torch.float64))
    calibrated = uncalibrated(scaling=scaling if held_back else None)
    logits, labels = samples(count)
    found = calibrate_held_out(calibrated, logits, labels, groups=np.zeros(count), seed=0)
    assert (found.folds, found.source) == (0, "held_back" if held_back else "nothing")
    assert said in found.note
    assert found.sets is None
    assert found.uncalibrated is None
    torch.testing.assert_close(found.model.scaling.scale, calibrated.scaling.scale)
    np.testing.assert_allclose(found.probabilities, calibrated.probabilities(logits), rtol=1e-5)


def test_several_labels():
    generator = torch.Generator().manual_seed(0)
    labels = (torch.rand(300, 2, generator=generator) < torch.tensor([0.5, 0.1])).long()
    signs = torch.stack((1 - labels, labels), dim=-1)
    logits = 4 * (signs + torch.randn(300, 2, 2, generator=generator))
    prior = torch.tensor([[0.5, 0.5], [0.9, 0.1]], dtype=torch.float64)
    calibrated = uncalibrated(prior=prior)
    found = calibrate_held_out(calibrated, logits, labels.numpy(), groups=None, seed=0)
    assert (found.probabilities.shape, found.sets.shape) == ((300, 2), (300, 2, 2))

    def loss(p):
        return -np.log(np.where(labels == 1, p, 1 - p)).mean()

    assert loss(found.probabilities) < 0.8 * loss(found.uncalibrated)


@torch.no_grad()
def test_the_module_for_onnx_rules_out_a_class_without_a_share():
    prior = torch.tensor([0.5, 0.0, 0.3, 0.2], dtype=torch.float64)
    scaling = Scaling(torch.ones(4, dtype=torch.float64), torch.zeros(4, dtype=torch.float64))
    calibrated = Calibrated(prior, torch.full((4,), 0.25, dtype=torch.float64), scaling)
    found = PredictionModule(network(multilabel=False), calibrated)(features()).probabilities
    assert bool(found.isfinite().all())
    torch.testing.assert_close(found.sum(1), torch.ones(len(found), dtype=found.dtype))
    assert float(found[:, 1].max()) == 0


@pytest.mark.parametrize("multilabel", [False, True])
@torch.no_grad()
def test_the_module_for_onnx_calibrates_as_the_library_does(multilabel):
    trained = network(multilabel=multilabel)
    shape = (4, 2) if multilabel else (4,)
    generator = torch.Generator().manual_seed(5)
    prior = torch.rand(shape, generator=generator, dtype=torch.float64)
    prior /= prior.sum(-1, keepdim=True)
    scaling = Scaling(*(torch.rand(shape, generator=generator, dtype=torch.float64) for _ in range(2)))
    calibrated = uncalibrated(scaling, prior=prior)
    answer = PredictionModule(trained, calibrated)(features())
    logits = trained.head.logits(features())
    expected = calibrated.probabilities(logits)
    torch.testing.assert_close(answer.probabilities, expected[..., 1] if multilabel else expected)
    torch.testing.assert_close(answer.predicted, calibrated.decided(logits))
