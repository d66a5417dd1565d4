"""The angular form of the margin, ‖w‖‖f‖(cos α + s·(ψ(α) − cos α)), as one step of autograd."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

from equipoise.losses.psi import Gradient, margin_curve

SHORTEST = 1e-12
"""Vectors shorter than this have no direction; their cosine counts as 0."""


def angular_logits(
    features: Tensor,
    vectors: Tensor,
    margins: Tensor,
    strength: Tensor,
    *,
    unit: bool = True,
    gradient: Gradient = "exact",
) -> Tensor:
    """‖w‖‖f‖(cos α + s·(ψ(α) − cos α)): softmax at s = 0, the paper's ψ at s = 1, L-Softmax's blend between.

    Args:
        features: f, (batch, D).
        vectors: w, (outputs, D).
        margins: m ≥ 1, (outputs,) or (batch, outputs).
        strength: s, ().
        unit: the class vectors have length 1.
        gradient: ψ's own slope, or the cosine's in its place.
    """
    logits: Tensor = _AngularLogits.apply(  # type: ignore[no-untyped-call]
        features, vectors, margins, strength, unit, gradient
    )
    return logits


class _AngularLogits(torch.autograd.Function):
    """With z = w·f, l = ‖w‖‖f‖ and c = z/l it is z + s·l·(ψ − c), whose slopes are

    ∂/∂z = 1 + s·(ψ' − 1) and ∂/∂l = s·(ψ − c·ψ'), where ψ' = dψ/dc.

    Written out because autograd would keep six (batch × outputs) tensors where two suffice.
    """

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,
        vectors: Tensor,
        margins: Tensor,
        strength: Tensor,
        unit: bool,
        gradient: Gradient,
    ) -> Tensor:
        logits = F.linear(features, vectors)
        feature_length = torch.linalg.vector_norm(features, dim=-1, keepdim=True)  # (batch, 1)
        vector_length = None if unit else torch.linalg.vector_norm(vectors, dim=-1)  # (outputs,)
        length = feature_length if vector_length is None else feature_length * vector_length
        cosine = (logits / length.clamp_min(SHORTEST)).clamp_(-1, 1)
        value, slope = margin_curve(cosine, margins, slope=any(ctx.needs_input_grad))
        blend = torch.where(margins == 1, 0, strength)  # softmax to the last bit where the margin is 1
        moved = torch.addcmul(logits, blend * length, value - cosine)
        if slope is not None:
            slope = torch.ones_like(slope) if gradient == "detached" else slope
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
        return to_features.addcmul_(features, along), to_vectors, None, None, None, None
