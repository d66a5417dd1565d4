"""The softmax loss of section 4, and the true class's values and the members' products that losses need."""

import torch
import torch.nn.functional as F
from torch import Tensor


def softmax_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Return the softmax loss of section 4, one value per sample: logits (..., classes), target (...) -> (...)."""
    if logits.ndim == 2:
        return F.cross_entropy(logits, target, reduction="none")
    return F.cross_entropy(logits.flatten(0, -2), target.flatten(), reduction="none").view_as(target)


def gather_classes(values: Tensor, target: Tensor) -> Tensor:
    """Return values[y] of each sample: values (classes,) or (attributes, 2), target (batch,) or (batch, attributes)."""
    return values.expand(*target.shape, values.shape[-1]).gather(-1, target.unsqueeze(-1)).squeeze(-1)


def member_products(features: Tensor, vectors: Tensor, members: int, offset: Tensor | None = None) -> Tensor:
    """Return every member's products of its part of the features with its class vectors, plus ``offset``.

    Args:
        features: (batch, members·D).
        vectors: (outputs, members·D).
        members: how many there are.
        offset: (outputs,).

    Returns:
        (members, batch, outputs), or with one member (batch, outputs)

    >>> member_products(torch.tensor([[1.0, 2.0]]), torch.tensor([[10.0, 100.0]]), 2).flatten()
    tensor([ 10., 200.])
    """
    if members == 1:
        return F.linear(features, vectors, offset)
    own = features.unflatten(-1, (members, -1)).transpose(0, 1)  # (members, batch, D)
    each = vectors.unflatten(-1, (members, -1)).permute(1, 2, 0)  # (members, D, outputs)
    return torch.bmm(own, each) if offset is None else torch.baddbmm(offset, own, each)
