"""Columns to mean 0 and variance 1, whatever their scale, without reading all rows at once."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from equipoise.models import Standardize


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
    monkeypatch.setattr("equipoise.models.standardize.ROWS_AT_ONCE", 100)
    parts = Standardize(3).fit(np.load(tmp_path / "x.npy", mmap_mode="r"))
    assert_allclose(parts.mean, whole.mean, rtol=1e-6)
    assert_allclose(parts.scale, whole.scale, rtol=1e-6)


@pytest.mark.parametrize("value", [0.0, 1e-20, 3.7, -1e30])
def test_a_constant_column_becomes_zero(value):
    x = np.full((10, 1), value, dtype=np.float32)
    fitted = Standardize(1).fit(x)
    assert float(fitted.scale) == 1.0
    assert fitted(torch.from_numpy(x)).abs().max() == 0


@pytest.mark.parametrize("offset", [1e6, -1e9, 1e12])
def test_columns_far_from_zero_lose_no_precision(offset):
    x = table() + offset  # float64: the spread is still there
    fitted = Standardize(3).fit(x)
    if abs(offset) * 1e-7 < 1:
        assert_allclose(fitted.scale, x.std(0), rtol=1e-4)
    else:  # float32 cannot tell these values apart, so the column counts as constant
        assert_allclose(fitted.scale, 1.0)


@pytest.mark.parametrize("scale", [1e-18, 1e-6, 1e6, 1e18, 1e37])
def test_every_scale_float32_knows_becomes_one(scale):
    x = (table() * scale).astype(np.float32)
    out = standardised(x)
    assert_allclose(out.std(0), 1.0, rtol=1e-3)
    assert_allclose(out.mean(0), 0.0, atol=1e-3)


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
