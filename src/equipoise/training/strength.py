r"""How strong the margins are: what held-out samples still lack, and what an angle is worth as a shift.

A network trained with the margin s·(m_c − 1) on class c and used without it favours c by that much. What it still
lacks on held-out samples is the shift k along the same direction that minimises the class-balanced log loss

.. math:: L(k) = \sum_c \frac{1}{n_c} \sum_{i: y_i = c} -\log \mathrm{softmax}(z_i + k\,(m - 1))_{c},

which is convex in k. The curriculum's ``strength="feedback"`` adds half of it to s after every epoch.
"""

import torch
from torch import Tensor

from equipoise.errors import InvalidInputError
from equipoise.losses import psi
from equipoise.losses.angular import SHORTEST
from equipoise.losses.head import gather_classes
from equipoise.training.measure import count_labels

WIDEST = 20.0
"""Shifts are sought in [−20, 20] for the largest margin: odds of e^20 are beyond any imbalance."""

SMALLEST_SHIFT = 1e-3
"""Angles that move the logits by less on average have collapsed, and set no scale."""


def balancing_weights(target: Tensor, classes: int) -> Tensor:
    """1/n_y for each sample, so that every class present adds up to 1: target (batch,) or (batch, attributes)."""
    return 1 / gather_classes(count_labels(target, classes).double(), target)


def lacking_shift(logits: Tensor, target: Tensor, direction: Tensor, *, iterations: int = 60) -> float:
    """argmin_k of the class-balanced log loss of logits + k·direction, by bisection on its slope.

    Args:
        logits: (batch, classes), or (batch, attributes, 2), without any margin.
        target: (batch,), or (batch, attributes).
        direction: (classes,), or (attributes, 2): where each class's margin pushes it, not negative.
    """
    if len(logits) == 0:
        raise InvalidInputError("the strength of the margins needs at least one validation sample; got none.")
    logits, direction = logits.double(), direction.double()
    steepest = float(direction.max())
    if steepest <= 0:
        return 0.0
    direction = direction / steepest
    weight = balancing_weights(target, logits.shape[-1])
    wanted = (weight * direction.expand_as(logits).gather(-1, target.unsqueeze(-1)).squeeze(-1)).sum()
    low, high = -WIDEST, WIDEST
    for _ in range(iterations):
        middle = (low + high) / 2
        given = (torch.softmax(logits + middle * direction, -1) * direction).sum(-1)
        if float((weight * given).sum() - wanted) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2 / steepest


def angular_strength(logits: Tensor, features: Tensor, target: Tensor, margins: Tensor) -> float:
    """The strength of the angular form whose mean shift of the true logits is that of strength 1 additively.

    Additively a true logit falls by m − 1, in the angular form by ‖f‖(cos α − ψ(α)), which grows as ‖f‖ does.
    """
    length = torch.linalg.vector_norm(features.to(logits.dtype), dim=-1).view(-1, *[1] * (logits.ndim - 1))
    cosine = (logits / length.clamp_min(SHORTEST)).clamp(-1, 1)
    shift = length * (cosine - psi(cosine, margins))  # (batch, classes)
    own = target.unsqueeze(-1)
    wanted = (margins - 1).expand_as(shift).gather(-1, own).mean()
    return float(wanted / shift.gather(-1, own).mean().clamp_min(SMALLEST_SHIFT))
