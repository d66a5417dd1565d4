"""Dropout from random bits is dropout."""

import pytest
import torch
from torch import nn

from equipoise.models import Dropout
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
