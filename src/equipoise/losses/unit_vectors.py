"""Class vectors of unit length, with a memory-efficient backward pass."""

from typing import Any

import torch
from torch import Tensor

from equipoise.losses.psi import SHORTEST

NUMBERS_AT_ONCE = 2**19
"""Class-vector entries whose gradient is computed at a time: 1,024 vectors of 512."""


def unit_vectors(weight: Tensor) -> Tensor:
    """Return w/‖w‖ row by row, bit for bit as ``F.normalize`` does.

    With thousands of classes the backward pass keeps only the weight, which exists anyway. Autograd would keep the
    result and fill three more tensors of its size, most of a head's memory; for fewer classes it is faster.
    """
    if weight.numel() <= NUMBERS_AT_ONCE:
        return _divided(weight)
    unit: Tensor = _UnitVectors.apply(weight)  # type: ignore[no-untyped-call]
    return unit


def _divided(weight: Tensor) -> Tensor:
    """Return what ``F.normalize`` computes, with fewer calls."""
    unit: Tensor = weight / torch.linalg.vector_norm(weight, dim=-1, keepdim=True).clamp_min(SHORTEST)
    return unit


class _UnitVectors(torch.autograd.Function):
    """Normalisation whose backward pass maps the gradient g of u = w/‖w‖ to (g − u·(u·g))/‖w‖."""

    generate_vmap_rule = True

    @staticmethod
    def forward(weight: Tensor) -> Tensor:
        return _divided(weight)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:  # noqa: ARG004
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        (weight,) = ctx.saved_tensors
        if torch.is_grad_enabled():  # the gradient of the gradient is needed
            return _pulled_back(weight, upstream)
        found = torch.empty_like(upstream)
        rows = max(1, NUMBERS_AT_ONCE // max(1, weight.shape[-1]))
        for part, given, own in zip(weight.split(rows), upstream.split(rows), found.split(rows), strict=True):
            own.copy_(_pulled_back(part, given))
        return found


def _pulled_back(weight: Tensor, upstream: Tensor) -> Tensor:
    length = torch.linalg.vector_norm(weight, dim=-1, keepdim=True)
    divisor = length.clamp_min(SHORTEST)
    unit = weight / divisor
    along = (unit * upstream).sum(-1, keepdim=True)
    along = torch.where(length > SHORTEST, along, 0)  # a shorter vector was divided by a constant
    across: Tensor = (upstream - unit * along) / divisor
    return across
