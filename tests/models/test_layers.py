"""Layers that networks share: dropout from random bits is dropout, and columns come to mean 0 and variance 1."""

from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from torch import nn

from equipoise.models import Dropout, Standardize
from equipoise.uncertainty import mc_dropout


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.75, 0.999])
@pytest.mark.parametrize("grad", [True, False])
def test_the_share_dropped_is_the_rate_and_the_mean_is_kept(rate, grad):
    x = torch.ones(1000, 401)
    with torch.set_grad_enabled(grad):
        y = Dropout(rate)(x)
    share = float((y == 0).double().mean())
    error = (rate * (1 - rate) / x.numel()) ** 0.5
    assert share == pytest.approx(rate, abs=5 * error)
    assert float(y.double().mean()) == pytest.approx(1, abs=5 * error / (1 - rate))
    assert y.unique().numel() == 2


def test_units_are_dropped_independently_of_one_another_and_of_the_step_before():
    layer = Dropout(0.5)
    first, second = (layer(torch.ones(500, 400)) > 0 for _ in range(2))
    for one, other in ((first, second), (first[:, 1:], first[:, :-1]), (first[1:], first[:-1])):
        assert float((one == other).double().mean()) == pytest.approx(0.5, abs=0.006)
    for apart in (2, 3, 4, 8):  # neighbours cut out of one random word
        assert float((first[:, apart:] == first[:, :-apart]).double().mean()) == pytest.approx(0.5, abs=0.006)


def test_it_is_repeatable_differentiable_and_silent_in_eval():
    x, layer = torch.randn(7, 5, requires_grad=True), Dropout(0.4)
    torch.manual_seed(1)
    first = layer(x)
    torch.manual_seed(1)
    assert torch.equal(first, layer(x))
    (gradient,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(gradient, torch.where(first == 0, 0.0, first / x))
    assert torch.equal(layer.eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x)
    assert torch.equal(Dropout(1.0)(x), torch.zeros(7, 5))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(0, 3), (1,), (3, 5, 2)])
def test_every_shape_and_dtype(shape, dtype):
    y = Dropout(0.5)(torch.ones(shape, dtype=dtype))
    assert y.shape == shape
    assert y.dtype == dtype
    assert set(y.flatten().tolist()) <= {0.0, 2.0}


def test_stochastic_passes_run_together_behind_it():
    calls = []
    first = nn.Linear(4, 6)
    first.register_forward_hook(lambda *_: calls.append(1))
    outputs = mc_dropout(nn.Sequential(first, Dropout(0.5), nn.Linear(6, 3)), torch.randn(5, 4), passes=8)
    assert outputs.shape == (8, 5, 3)
    assert len(calls) == 2  # of one row, which tells the masks' shapes, and of all of them
    assert len({tuple(row) for row in outputs[:, 0].tolist()}) > 1


def table(rows: int = 1000, columns: int = 3) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(rows, columns))


def standardised(x: np.ndarray) -> np.ndarray:
    return Standardize(x.shape[1]).fit(x)(torch.from_numpy(x)).numpy()


def test_mean_and_deviation_are_numpys():
    x = (table() * [1, 50, 1e-3] + [0, -7, 3]).astype(np.float32)
    fitted = Standardize(3).fit(x)
    assert_allclose(fitted.mean, x.mean(0, dtype=np.float64), rtol=1e-6)
    assert_allclose(fitted.scale, x.std(0, dtype=np.float64), rtol=1e-5)


def test_parts_of_the_rows_give_what_all_give_at_once(monkeypatch, tmp_path):
    x = table(1003) * [1, 50, 1e-3] + np.linspace(0, 9, 1003)[:, None]  # the first part is not like the rest
    whole = Standardize(3).fit(x)
    np.save(tmp_path / "x.npy", x)
    monkeypatch.setattr("equipoise.models.layers.ROWS_AT_ONCE", 100)
    parts = Standardize(3).fit(np.load(tmp_path / "x.npy", mmap_mode="r"))
    assert_allclose(parts.mean, whole.mean, rtol=1e-6)
    assert_allclose(parts.scale, whole.scale, rtol=1e-6)


@pytest.mark.parametrize("value", [0.0, 1e-20, 3.7, -1e30])
def test_a_constant_column_becomes_zero(value):
    x = np.full((10, 1), value, dtype=np.float32)
    fitted = Standardize(1).fit(x)
    assert float(fitted.scale) == 1.0
    assert fitted(torch.from_numpy(x)).abs().max() == 0


@pytest.mark.parametrize("offset", [1e6, -1e9, 1.7e12])
def test_columns_far_from_zero_lose_no_precision(offset):
    x = table() + offset
    near = x - offset  # exact
    assert_allclose(Standardize(3).fit(x).scale, near.std(0), rtol=1e-6)
    assert_allclose(standardised(x), (near - near.mean(0)) / near.std(0), rtol=1e-5, atol=abs(offset) * 2**-52)


@pytest.mark.parametrize("scale", [1e-310, 1e-40, 1e-18, 1e6, 5e37, 1e300])
def test_every_scale_becomes_one(scale):
    out = standardised(table() * scale)
    assert_allclose(out.std(0), 1.0, rtol=1e-3)
    assert_allclose(out.mean(0), 0.0, atol=1e-3)


@pytest.mark.parametrize("scale", [1e-40, 5e37])
def test_every_scale_float32_knows_becomes_one(scale):
    assert_allclose(standardised((table() * scale).astype(np.float32)).std(0), 1.0, rtol=1e-2)


def exact(column: list[float]) -> tuple[Decimal, Decimal]:
    """Mean and deviation in fractions, with a root of 60 digits."""
    values = [Fraction(value) for value in column]
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / len(values)
    with localcontext(Context(prec=60)):
        return as_decimal(mean), as_decimal(variance).sqrt()


def as_decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


@given(
    steps=st.lists(st.integers(-1000, 1000), min_size=2, max_size=30).filter(lambda steps: len(set(steps)) > 1),
    scale=st.floats(1e-280, 1e280),
    offset=st.sampled_from([0, 1, -1e3, 1e8, 1e10]),
)
def test_it_agrees_with_exact_fractions(steps, scale, offset):
    column = [float(scale * (offset + step)) for step in steps]
    mean, deviation = exact(column)
    with localcontext(Context(prec=60)):
        expected = [float((Decimal(value) - mean) / deviation) for value in column]
        rounding = float(abs(mean) / deviation) * 2**-51
    found = standardised(np.array(column)[:, None])[:, 0]
    assert_allclose(found, np.clip(expected, -20, 20), rtol=1e-6 + rounding, atol=1e-6 + rounding)


def test_one_huge_value_leaves_the_rest_finite_and_equal_values_equal():
    x = np.concatenate([np.tile([1.0, 2.0], 500), [1e300]])[:, None]
    out = standardised(x)
    assert np.isfinite(out).all()
    assert out[-1] == 20
    assert (out[:-1] == out[0]).all()


def test_noise_of_rounding_counts_as_constant():
    x = np.where(np.arange(100) % 2, 0.3, 0.1 + 0.2)[:, None]  # they differ in the last bit
    assert float(Standardize(1).fit(x).scale) == 1.0


def test_weights_saved_in_float32_are_loaded():
    earlier = {"mean": torch.tensor([1.5, 2.0]), "scale": torch.tensor([2.0, 4.0])}
    loaded = Standardize(2)
    loaded.load_state_dict(earlier)
    assert loaded(torch.tensor([[3.5, 6.0]])).tolist() == [[1.0, 1.0]]


def test_the_largest_values_of_float32_stay_finite():
    most = np.finfo(np.float32).max
    x = np.array([[most], [-most], [most], [0]], dtype=np.float32)
    assert np.isfinite(standardised(x)).all()


def test_a_wild_value_is_clipped():
    fitted = Standardize(2, limit=5.0).fit(table(100, 2))
    out = fitted(torch.tensor([[1e30, -1e30], [torch.inf, 0.0]]))
    assert out[0].tolist() == [5, -5]
    assert float(out[1, 0]) == 5


def test_it_is_the_identity_until_it_is_fitted_and_survives_a_state_dict():
    x = torch.randn(4, 3)
    assert torch.equal(Standardize(3)(x), x)
    fitted = Standardize(3).fit(table())
    other = Standardize(3)
    other.load_state_dict(fitted.state_dict())
    assert torch.equal(other(x), fitted(x))


def test_whole_numbers_are_taken():
    x = np.arange(12, dtype=np.uint8).reshape(4, 3)
    assert_allclose(standardised(x), (x - x.mean(0)) / x.std(0), rtol=1e-5)
