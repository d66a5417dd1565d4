"""Unit class vectors: torch's own, with a leaner backward pass."""

import pytest
import torch
import torch.nn.functional as F

from equipoise.losses import unit_vectors as module
from equipoise.losses.unit_vectors import NUMBERS_AT_ONCE, unit_vectors


@pytest.fixture(params=["as torch does", "lean"], autouse=True)
def backward_pass(request, monkeypatch):
    """Every test by torch's own backward pass, which few classes take, and by the lean one of many."""
    if request.param == "lean":
        monkeypatch.setattr(module, "NUMBERS_AT_ONCE", 0)


def gradients(normalise, weight, upstream):
    own = weight.clone().requires_grad_()
    normalise(own).backward(upstream)
    return own.grad


@pytest.mark.parametrize("shape", [(5, 3), (1, 1), (3, NUMBERS_AT_ONCE // 2 + 1)])  # the last in several parts
def test_values_are_torchs_to_the_last_bit_and_gradients_agree(shape):
    weight, upstream = torch.randn(shape, dtype=torch.float64), torch.randn(shape, dtype=torch.float64)
    assert torch.equal(unit_vectors(weight), F.normalize(weight, dim=-1))
    expected = gradients(lambda w: F.normalize(w, dim=-1), weight, upstream)
    torch.testing.assert_close(gradients(unit_vectors, weight, upstream), expected)


def test_gradient_and_its_gradient():
    weight = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(unit_vectors, weight)
    assert torch.autograd.gradgradcheck(unit_vectors, weight)


@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e-13, 1e-6, 1e6, 1e18, 3e38])
def test_every_length_has_a_finite_gradient(scale):
    weight, upstream = torch.full((2, 3), scale), torch.tensor([[1.0, -2.0, 0.5]] * 2)
    found = gradients(unit_vectors, weight, upstream)
    assert found.isfinite().all()
    if 1e-13 <= scale <= 1e6:
        torch.testing.assert_close(
            found, gradients(lambda w: F.normalize(w, dim=-1), weight, upstream), rtol=1e-4, atol=0
        )


def test_it_works_under_vmap():
    weight = torch.randn(6, 4, 3)
    torch.testing.assert_close(torch.vmap(unit_vectors)(weight), F.normalize(weight, dim=-1))
    slope = torch.vmap(torch.func.grad(lambda w: unit_vectors(w)[..., 0].sum()))(weight)
    expected = torch.vmap(torch.func.grad(lambda w: F.normalize(w, dim=-1)[..., 0].sum()))(weight)
    torch.testing.assert_close(slope, expected)
