r"""The monotone margin function ψ of section 4: L-Softmax's cos(mα), continued to all of [0, π].

Both margin functions here read one curve at two angles. The curve is

.. math:: g(\theta) = (-1)^r \cos\theta - 2r, \qquad r = \lfloor \theta / \pi \rfloor,

the cosine continued downwards: continuous and decreasing for every θ ≥ 0. The paper's multiplicative
margin is ψ(α) = g(mα), ArcFace's additive one is g(α + m). :func:`angular_logits` applies ψ in the loss. The paper's
expansion of cos(mα) holds only for whole m: ``tests/reference/losses.py`` has it, this module does not need it.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from equipoise.errors import InvalidInputError
from equipoise.tensor_checks import floating_tensor, numeric_tensor

STEEPEST = 1e3
"""Bound on sin(θ)/sin(α): reached within 0.06° of α = π, where the slope of ψ is infinite for fractional margins."""
SHORTEST = 1e-12
"""Vectors shorter than this have no direction; their cosine counts as 0."""


def psi(cosine: Tensor, margin: Tensor | float) -> Tensor:
    r"""Return the paper's margin function ψ for cos α and any real margin m ≥ 1.

    .. math:: \psi(\alpha) = (-1)^r \cos(m \alpha) - 2r, \qquad r = \lfloor m \alpha / \pi \rfloor

    Integer margins give the Chebyshev polynomial T_m(cos α) on the first segment, and m = 1 the cosine itself.
    Cosines beyond ±1 count as ±1. The gradient is dψ/dcos α = m·sin(mα)/sin α, bounded where it is infinite.

    Args:
        cosine: cos α, any shape.
        margin: m ≥ 1, a number or a tensor that broadcasts against ``cosine``.

    Returns:
        ψ with the shape of ``cosine`` broadcast with ``margin``, in the cosine's dtype.

    >>> psi(torch.tensor([1.0, 0.0, -1.0]), 2.0)
    tensor([ 1., -1., -3.])
    """
    cosine, margins = _checked(cosine, margin)
    if not bool(((margins >= 1) & margins.isfinite()).all()):  # also refuses NaN
        raise InvalidInputError(
            f"margin must be at least 1 (1 is softmax) and finite, got values from {float(margins.min())} to "
            f"{float(margins.max())}; raise it or use margin=1."
        )
    value: Tensor = _MarginCosine.apply(cosine, margins, torch.zeros_like(margins))  # type: ignore[no-untyped-call]
    plain = (margins == 1) & (cosine.detach().abs() <= 1)
    return torch.where(plain, cosine, value)  # exactly softmax, without the detour through the angle


def shifted_cosine(cosine: Tensor, margin: Tensor | float) -> Tensor:
    """Return ArcFace's cos(α + m) for 0 ≤ m ≤ π, continued beyond α + m = π so that it never increases again.

    Args:
        cosine: cos α, any shape.
        margin: m in radians, a number or a tensor that broadcasts against ``cosine``.

    >>> shifted_cosine(torch.tensor([0.0, -1.0]), math.pi / 2)
    tensor([-1.0000, -2.0000])
    """
    cosine, margins = _checked(cosine, margin)
    if not bool(((margins >= 0) & (margins <= math.pi)).all()):
        raise InvalidInputError(
            f"an additive angle must lie in [0, π], got values from {float(margins.min())} to "
            f"{float(margins.max())}; give it in radians."
        )
    value: Tensor = _MarginCosine.apply(cosine, torch.ones_like(margins), margins)  # type: ignore[no-untyped-call]
    return value


def angular_logits(
    features: Tensor, vectors: Tensor, margins: Tensor, strength: Tensor, *, unit: bool = True
) -> Tensor:
    """Return ‖w‖‖f‖(cos α + s·(ψ(α) − cos α)): softmax at s = 0, the paper's ψ at s = 1, L-Softmax's blend between.

    Args:
        features, vectors: f, (batch, D), and w, (outputs, D); with ``unit`` these have length 1.
        margins: m ≥ 1, (outputs,) or (batch, outputs).
        strength: s, ().
    """
    logits: Tensor = _AngularLogits.apply(features, vectors, margins, strength, unit)  # type: ignore[no-untyped-call]
    return logits


def _margin_curve(
    cosine: Tensor, scale: Tensor, offset: Tensor | None = None, *, slope: bool
) -> tuple[Tensor, Tensor | None]:
    """Return g(scale·α + offset) and its bounded slope d g / d cos α, for cosines in [−1, 1] of at least float32."""
    theta = cosine.acos().mul_(scale)
    if offset is not None:
        theta.add_(offset)
    folds = theta.div(math.pi).floor_()  # r
    within = theta.sub_(folds, alpha=math.pi)  # θ − rπ, for which cos(θ − rπ) = (−1)^r cos θ
    value = within.cos().sub_(folds, alpha=2)
    if not slope:
        return value, None
    # scale·sin(θ − rπ)/sin α, with an ε in both sines so that its limit where both vanish is scale²
    tiny = torch.finfo(cosine.dtype).eps
    sine = (1 - cosine).mul_(1 + cosine).sqrt_().add_(tiny)
    rising = within.sin_().abs_().add_(scale, alpha=tiny)
    return value, rising.div_(sine).clamp_(max=STEEPEST).mul_(scale)


class _MarginCosine(torch.autograd.Function):
    """The curve with its gradient; half precision is widened so that angles survive."""

    @staticmethod
    def forward(ctx: Any, cosine: Tensor, scale: Tensor, offset: Tensor) -> Tensor:
        wide = cosine.to(torch.promote_types(cosine.dtype, torch.float32)).clamp(-1, 1)
        ctx.narrow = cosine.dtype
        value, slope = _margin_curve(wide, scale, offset, slope=ctx.needs_input_grad[0])
        if slope is not None:
            ctx.save_for_backward(slope)
        return value.to(cosine.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None, None]:
        (slope,) = ctx.saved_tensors
        limit = torch.finfo(ctx.narrow).max
        return slope.mul(upstream).clamp_(-limit, limit).to(ctx.narrow), None, None


class _AngularLogits(torch.autograd.Function):
    """The logits, with their gradients in closed form.

    With z = w·f, l = ‖w‖‖f‖ and c = z/l a logit is z + s·l·(ψ − c), whose slopes are

    ∂/∂z = 1 + s·(ψ' − 1) and ∂/∂l = s·(ψ − c·ψ'), where ψ' = dψ/dc.

    Autograd would keep six (batch × outputs) tensors; two suffice.
    """

    @staticmethod
    def forward(ctx: Any, features: Tensor, vectors: Tensor, margins: Tensor, strength: Tensor, unit: bool) -> Tensor:
        logits = F.linear(features, vectors)
        feature_length = torch.linalg.vector_norm(features, dim=-1, keepdim=True)  # (batch, 1)
        vector_length = None if unit else torch.linalg.vector_norm(vectors, dim=-1)  # (outputs,)
        length = feature_length if vector_length is None else feature_length * vector_length
        cosine = (logits / length.clamp_min(SHORTEST)).clamp_(-1, 1)
        value, slope = _margin_curve(cosine, margins, slope=any(ctx.needs_input_grad))
        blend = torch.where(margins == 1, 0, strength)  # exactly softmax where the margin is 1
        moved = torch.addcmul(logits, blend * length, value - cosine)
        if slope is not None:
            by_length = value.addcmul_(cosine, slope, value=-1).mul_(blend)
            by_logit = slope.sub_(1).mul_(blend).add_(1)
            ctx.save_for_backward(features, vectors, feature_length, vector_length, by_logit, by_length)
        return moved

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        features, vectors, feature_length, vector_length, by_logit, by_length = ctx.saved_tensors
        to_logit, to_length = by_logit * upstream, by_length * upstream
        to_features = to_logit @ vectors
        to_vectors = to_logit.T @ features
        if vector_length is not None:
            along = (to_length * feature_length).sum(0).div_(vector_length.clamp_min(SHORTEST)).unsqueeze_(-1)
            to_vectors.addcmul_(vectors, along)
            to_length.mul_(vector_length)
        along = to_length.sum(-1, keepdim=True).div_(feature_length.clamp_min(SHORTEST))
        return to_features.addcmul_(features, along), to_vectors, None, None, None


def _checked(cosine: Tensor, margin: Tensor | float) -> tuple[Tensor, Tensor]:
    """Return the cosine broadcast to the margins' shape, and the margins."""
    dtype = torch.promote_types(floating_tensor(cosine, "cosine").dtype, torch.float32)
    margins = numeric_tensor(margin, "margin", dtype=dtype, device=cosine.device).detach()
    try:
        return cosine.expand(torch.broadcast_shapes(cosine.shape, margins.shape)), margins
    except RuntimeError:
        raise InvalidInputError(
            f"margin of shape {tuple(margins.shape)} does not broadcast against cosine of shape "
            f"{tuple(cosine.shape)}; give one margin per class or one per element."
        ) from None
