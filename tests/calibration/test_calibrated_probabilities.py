"""From logits to probabilities at any class mix, and to sets of classes."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equipoise.calibration import move_prior
from equipoise.calibration.calibrated_probabilities import Calibrated
from equipoise.calibration.scaling import Scaling
from equipoise.errors import InvalidInputError
from equipoise.losses import LOSSES, ClassVectorLoss, UncertaintyMarginLoss

PRIOR = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
LOGITS = torch.randn(50, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def trained(method: str, counts: torch.Tensor) -> ClassVectorLoss:
    """A loss as it is after its last epoch, with margins where a curriculum sets them."""
    loss = LOSSES[method](4, len(counts), multilabel=counts.ndim == 2, class_counts=counts)
    loss.set_progress(0.9)
    if loss.driven_by_curriculum:
        assert isinstance(loss, UncertaintyMarginLoss)
        loss.strength = torch.tensor(0.5)
    return loss


def uncalibrated(method: str, prior: torch.Tensor, scaling: Scaling | None = None) -> Calibrated:
    return Calibrated.of_loss(trained(method, prior), prior, scaling)


def by_hand(logits: torch.Tensor, scale: list[float], bias: list[float], odds: list[float]) -> list[list[float]]:
    found = []
    for row in logits.tolist():
        terms = [np.exp(s * z + b) * o for z, s, b, o in zip(row, scale, bias, odds, strict=True)]
        found.append([term / sum(terms) for term in terms])
    return found


def test_balanced_logits_are_moved_to_the_training_mix() -> None:
    scaling = Scaling(torch.tensor([0.5, 1.0, 2.0]), torch.tensor([0.1, 0.0, -0.3]))
    found = uncalibrated("uncertainty_margin", PRIOR, scaling).probabilities(LOGITS)
    wanted = by_hand(LOGITS, [0.5, 1, 2], [0.1, 0, -0.3], [0.7, 0.2, 0.1])
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6)


def test_logits_of_the_training_mix_stay_there() -> None:
    found = Calibrated.of_plain_softmax(PRIOR).probabilities(LOGITS)
    np.testing.assert_allclose(found.numpy(), LOGITS.softmax(-1).numpy(), rtol=1e-9)


@given(st.lists(st.floats(0.01, 100), min_size=3, max_size=3), st.sampled_from(["cross_entropy", "vs"]))
def test_another_mix_is_bayes_rule(mix: list[float], method: str) -> None:
    calibrated = uncalibrated(method, PRIOR, Scaling(torch.full((3,), 0.4), torch.tensor([0.2, 0.0, 0.1])))
    moved = move_prior(calibrated.probabilities(LOGITS).numpy(), old=PRIOR.numpy(), new=mix)
    np.testing.assert_allclose(calibrated.probabilities(LOGITS, mix).numpy(), moved, rtol=1e-9)


def test_a_fit_does_not_depend_on_the_mix_of_the_samples_it_is_fitted_to() -> None:
    """Labels drawn at 1 : 1 : 1 and at 8 : 1 : 1 from the same classes give the same probabilities."""
    generator = torch.Generator().manual_seed(1)
    z = 3 * torch.randn(40_000, 3, generator=generator, dtype=torch.float64)
    y = torch.multinomial((0.5 * z).softmax(-1), 1, generator=generator).squeeze(1)
    keep = torch.rand(len(y), generator=generator) < torch.tensor([1.0, 0.125, 0.125])[y]
    start = uncalibrated("uncertainty_margin", PRIOR)
    even, uneven = start.fit_on(z, y), start.fit_on(z[keep], y[keep])
    np.testing.assert_allclose(even.probabilities(LOGITS), uneven.probabilities(LOGITS), atol=0.03)
    wanted = by_hand(LOGITS, [0.5] * 3, [0.0] * 3, PRIOR.tolist())
    np.testing.assert_allclose(even.probabilities(LOGITS), wanted, atol=0.03)


def test_sets_hold_every_class_as_often_as_asked_for() -> None:
    generator = torch.Generator().manual_seed(2)
    z = 2 * torch.randn(30_000, 3, generator=generator, dtype=torch.float64)
    y = torch.multinomial((z + PRIOR.log()).softmax(-1), 1, generator=generator).squeeze(1)
    calibrated = uncalibrated("uncertainty_margin", PRIOR).fit_on(z[:15_000], y[:15_000])
    sets = calibrated.sets(z[15_000:], 0.8)
    for label in range(3):
        assert sets[y[15_000:].numpy() == label, label].mean() == pytest.approx(0.8, abs=0.03)


def test_sets_need_samples_that_were_not_trained_on() -> None:
    with pytest.raises(
        InvalidInputError, match=r"prediction sets need samples that no epoch has seen; .* call calibrate\(X, y\)"
    ):
        uncalibrated("vs", PRIOR).sets(LOGITS, 0.9)


def test_several_labels_take_the_share_of_ones() -> None:
    prior = torch.tensor([[0.9, 0.1], [0.5, 0.5]], dtype=torch.float64)
    calibrated = uncalibrated("uncertainty_margin", prior)
    logits = torch.randn(6, 2, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    pairs = calibrated.probabilities(logits, [[0.8, 0.2], [0.3, 0.7]])
    np.testing.assert_allclose(calibrated.probabilities(logits, [0.2, 0.7]).numpy(), pairs.numpy())
    np.testing.assert_allclose(pairs.sum(-1).numpy(), 1)


def test_kept_tensors_give_it_back() -> None:
    y = torch.arange(50) % 3
    calibrated = uncalibrated("uncertainty_margin", PRIOR).fit_on(LOGITS, y)
    again = Calibrated.from_tensors((3,), calibrated.tensors())
    assert torch.equal(again.probabilities(LOGITS), calibrated.probabilities(LOGITS))
    np.testing.assert_array_equal(again.sets(LOGITS, 0.7), calibrated.sets(LOGITS, 0.7))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"prior": torch.ones(4)}, r"tensor 'prior' of finite numbers, \(3,\), was expected"),
        ({"scale": torch.tensor([1.0, float("nan"), 1.0])}, "tensor 'scale' of finite numbers"),
        ({"bias": None}, "tensor 'bias' of finite numbers"),
        ({"aimed": torch.tensor([1.0, 0.0, 1.0])}, "'aimed' is not a class prior"),
        ({"prior": torch.tensor([1.0, -1.0, 1.0])}, "'prior' is not a class prior"),
        ({"conformal_counts": torch.tensor([1, 2])}, "conformal scores"),
    ],
)
def test_damaged_tensors_are_refused(changed: dict[str, torch.Tensor | None], message: str) -> None:
    tensors = uncalibrated("uncertainty_margin", PRIOR).fit_on(LOGITS, torch.arange(50) % 3).tensors()
    broken = {name: tensor for name, tensor in (tensors | changed).items() if tensor is not None}
    with pytest.raises(InvalidInputError, match=message):
        Calibrated.from_tensors((3,), broken)


@pytest.mark.parametrize("method", ["cross_entropy", "vs"])
def test_a_class_that_is_not_in_the_mix_is_ruled_out(method: str) -> None:
    calibrated = uncalibrated(method, PRIOR)
    sure = torch.tensor([[80.0, 0.0, 0.0]])
    assert calibrated.probabilities(sure, [0, 1, 3]).tolist()[0][0] == 0
    np.testing.assert_allclose(calibrated.probabilities(sure, [0, 1, 3]).sum(-1), 1)


def test_a_class_without_samples_has_a_finite_aim() -> None:
    counts = torch.tensor([90.0, 0.0, 10.0])
    for method in LOSSES:
        calibrated = Calibrated.of_loss(trained(method, counts), counts)
        assert bool((calibrated.aimed > 0).all()), method
        assert bool(calibrated.probabilities(LOGITS).isfinite().all()), method
        assert bool(calibrated.probabilities(LOGITS, [1, 1, 1]).isfinite().all()), method


def test_samples_that_chose_the_model_set_no_thresholds() -> None:
    calibrated = uncalibrated("vs", PRIOR).fit_on(LOGITS, torch.arange(50) % 3, unseen=False)
    assert calibrated.thresholds is None
    assert not torch.equal(calibrated.scaling.scale, torch.ones(3, dtype=torch.float64))
