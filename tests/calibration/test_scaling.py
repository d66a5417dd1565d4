"""Scalings against what the samples were drawn from, and against a grid."""

import numpy as np
import pytest
import torch
from torch import Tensor

from equipoise.calibration import scaling
from equipoise.calibration.scaling import SCALINGS, Scaling, fit_scaling
from equipoise.errors import InvalidInputError


def drawn(truth: Scaling, odds: Tensor, *, rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """Logits, and labels as often as the scaled logits say."""
    generator = torch.Generator().manual_seed(seed)
    z = 3 * torch.randn(rows, *odds.shape, generator=generator, dtype=torch.float64)
    p = truth(z, odds).softmax(-1)
    y = torch.multinomial(p.flatten(0, -2), 1, generator=generator).view(p.shape[:-1])
    return z, y


def numbers(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_the_temperature_that_made_the_labels_is_found() -> None:
    truth = Scaling(numbers(0.4, 0.4, 0.4), numbers(0, 0, 0))
    z, y = drawn(truth, torch.ones(3), rows=4000, seed=0)
    found = fit_scaling(z, y, torch.ones(3))
    assert found.scale.tolist() == pytest.approx([0.4] * 3, rel=0.07)
    assert len(set(found.scale.tolist())) == 1


def test_a_temperature_is_the_least_log_loss_on_a_grid() -> None:
    """Few samples: the temperature alone. A plain loop over temperatures and rows finds no better one."""
    z, y = drawn(Scaling(numbers(0.3, 0.3, 0.3), numbers(0, 0, 0)), numbers(5, 1, 1), rows=55, seed=1)
    found = fit_scaling(z, y, numbers(5, 1, 1))

    def log_loss(scale: float) -> float:
        total = 0.0
        for row, label in zip(z.tolist(), y.tolist(), strict=True):
            terms = [np.exp(scale * value) * odd for value, odd in zip(row, (5, 1, 1), strict=True)]
            total -= np.log(terms[label] / sum(terms))
        return total + np.log(scale) ** 2 / 2  # its logarithm is normal beforehand

    grid = np.linspace(0.05, 3, 600)
    best = grid[int(np.argmin([log_loss(scale) for scale in grid]))]
    assert float(found.scale[0]) == pytest.approx(best, abs=0.01)
    assert found.bias.tolist() == [0, 0, 0]


def test_offsets_and_scales_by_class_are_found_where_they_are_there() -> None:
    offsets = Scaling(numbers(0.5, 0.5, 0.5), numbers(1.5, 0, -1.5))
    z, y = drawn(offsets, torch.ones(3), rows=4000, seed=2)
    found = fit_scaling(z, y, torch.ones(3))
    assert (found.bias - found.bias.mean()).tolist() == pytest.approx([1.5, 0, -1.5], abs=0.2)
    vector = Scaling(numbers(0.2, 0.6, 1.2), numbers(0, 0, 0))
    z, y = drawn(vector, torch.ones(3), rows=4000, seed=3)
    assert fit_scaling(z, y, torch.ones(3)).scale.tolist() == pytest.approx([0.2, 0.6, 1.2], abs=0.12)


def test_the_class_mix_of_the_samples_is_no_part_of_the_scaling() -> None:
    """Fitted to a mix of 9 : 1 and to a balanced one, the same temperature and no offsets."""
    truth = Scaling(numbers(0.5, 0.5), numbers(0, 0))
    for odds in (numbers(9, 1), numbers(1, 1), numbers(0.01, 0.09)):
        z, y = drawn(truth, odds, rows=6000, seed=4)
        found = fit_scaling(z, y, odds)
        assert found.scale.tolist() == pytest.approx([0.5, 0.5], rel=0.1)
        assert float((found.bias[0] - found.bias[1]).abs()) < 0.25


def test_several_labels_share_a_temperature() -> None:
    truth = Scaling(torch.full((4, 2), 0.3, dtype=torch.float64), torch.zeros(4, 2, dtype=torch.float64))
    z, y = drawn(truth, torch.ones(4, 2), rows=1500, seed=5)
    found = fit_scaling(z, y, torch.ones(4, 2))
    assert found.scale.shape == (4, 2)
    assert found.scale.flatten().tolist() == pytest.approx([0.3] * 8, rel=0.25)


def test_samples_all_told_apart_leave_the_scale_finite() -> None:
    z = torch.eye(3, dtype=torch.float64).repeat(30, 1)
    found = fit_scaling(z, torch.arange(3).repeat(30), torch.ones(3))
    assert bool(found.scale.isfinite().all())
    assert 1 < float(found.scale[0]) < 20  # by the normal distribution that its logarithm has beforehand


def test_logits_that_are_right_already_are_left_as_they_are() -> None:
    """The labels are drawn from the logits' own softmax: a scaling could only follow chance."""
    for seed in range(8):
        z, y = drawn(Scaling.identity((3,)), numbers(8, 2, 1), rows=300, seed=20 + seed)
        found = fit_scaling(z, y, numbers(8, 2, 1))
        assert (found.scale.tolist(), found.bias.tolist()) == ([1, 1, 1], [0, 0, 0])


def test_a_scaling_that_helps_is_taken_however_few_classes_it_has() -> None:
    for seed in range(8):
        z, y = drawn(Scaling(numbers(0.2, 0.2), numbers(0, 0)), numbers(1, 1), rows=200, seed=seed)
        assert float(fit_scaling(z, y, numbers(1, 1)).scale[0]) < 0.5


def test_a_network_that_is_trained_further_is_not_made_surer() -> None:
    """Labels that want twice the logits: sharpened only if that is allowed; overconfident logits are lowered anyway."""
    z, y = drawn(Scaling(numbers(2, 2, 2), numbers(0, 0, 0)), torch.ones(3), rows=1000, seed=3)
    assert float(fit_scaling(z, y, torch.ones(3)).scale[0]) > 1.5
    assert fit_scaling(z, y, torch.ones(3), sharpen=False).scale.tolist() == [1, 1, 1]
    z, y = drawn(Scaling(numbers(0.4, 0.4, 0.4), numbers(0, 0, 0)), torch.ones(3), rows=1000, seed=3)
    for sharpen in (True, False):
        assert float(fit_scaling(z, y, torch.ones(3), sharpen=sharpen).scale[0]) == pytest.approx(0.4, rel=0.15)


def test_too_few_samples_scale_nothing() -> None:
    z, y = drawn(Scaling(numbers(0.2, 0.2), numbers(0, 0)), numbers(1, 1), rows=scaling.FEWEST_SAMPLES, seed=0)
    assert float(fit_scaling(z, y, numbers(1, 1)).scale[0]) < 0.5
    assert fit_scaling(z[1:], y[1:], numbers(1, 1)).scale.tolist() == [1, 1]


def test_a_class_without_samples_gets_no_offset_of_its_own() -> None:
    z, y = drawn(Scaling(numbers(0.5, 0.5, 0.5), numbers(0, 0, 0)), numbers(1, 1, 0), rows=500, seed=6)
    found = fit_scaling(z, y, torch.bincount(y, minlength=3))
    assert float(found.bias[2].abs()) < 0.05
    assert float(found.scale[2]) == pytest.approx(0.5, rel=0.3)


def test_more_samples_than_are_looked_at_give_nearly_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = Scaling(numbers(0.4, 0.4, 0.4), numbers(0, 0, 0))
    z, y = drawn(truth, torch.ones(3), rows=6000, seed=7)
    monkeypatch.setattr(scaling, "NUMBERS", 3 * 1500)
    assert fit_scaling(z, y, torch.ones(3)).scale.tolist() == pytest.approx([0.4] * 3, rel=0.12)


def test_no_samples_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"as many logits as labels, at least one, got logits \(0, 3\)"):
        fit_scaling(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long), torch.ones(3))


def test_none_leaves_logits_as_they_are() -> None:
    z = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(Scaling.identity((4,))(z, torch.ones(4)), z)


def test_offsets_of_many_attributes_are_held_back_no_more_than_those_of_one() -> None:
    """The same samples as one attribute, and as one of 30 alike: the same offsets."""
    bias = torch.tensor([[0.0, -1.0]], dtype=torch.float64)
    z, y = drawn(Scaling(torch.ones_like(bias), bias), torch.ones(1, 2), rows=400, seed=8)
    one = fit_scaling(z, y, torch.ones(1, 2), method="offsets")
    many = fit_scaling(z.repeat(1, 30, 1), y.repeat(1, 30), torch.ones(30, 2), method="offsets")
    np.testing.assert_allclose(many.bias[7], one.bias[0], atol=0.02)


@pytest.mark.parametrize("shape", [(3,), (2, 2)])
@pytest.mark.parametrize("method", SCALINGS)
def test_every_method_returns_finite_numbers_that_raise_no_loss(method: str, shape: tuple[int, ...]) -> None:
    odds = torch.ones(shape, dtype=torch.float64)
    z, y = drawn(
        Scaling(0.4 * odds, torch.linspace(-1, 1, shape[-1], dtype=torch.float64).expand(shape)), odds, rows=900, seed=9
    )
    given = z.clone()
    found = fit_scaling(z, y, odds, method=method)
    torch.testing.assert_close(z, given, rtol=0, atol=0)
    assert found.scale.shape == found.bias.shape == shape
    assert found.scale.dtype == found.bias.dtype == torch.float64
    assert bool(found.bias.isfinite().all())
    assert bool((found.scale.isfinite() & (found.scale > 0)).all())
    before, after = (
        torch.nn.functional.cross_entropy(each(z, odds).flatten(0, -2), y.flatten())
        for each in (Scaling.identity(shape), found)
    )
    assert float(after) <= float(before) + 1e-9
    assert (float(after) < float(before) - 1e-3) == (method != "none")
