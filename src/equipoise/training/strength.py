r"""How strong the margins are: set from a validation split, never by hand.

A network trained with the margin s·(m_c − 1) on class c and used without it favours c by that much. What it still
lacks on held-out samples is the shift k along the same direction that minimises the class-balanced log loss

.. math:: L(k) = \sum_c \frac{1}{n_c} \sum_{i: y_i = c} -\log \mathrm{softmax}(z_i + k\,(m - 1))_{c},

which is convex in k. Half of it is added to s after every epoch.
"""

import torch
from torch import Tensor

from equipoise.errors import InvalidInputError

WIDEST = 20.0
"""Shifts are sought in [−20, 20] for the largest margin: odds of e^20 are beyond any imbalance."""


def balancing_weights(target: Tensor, classes: int) -> Tensor:
    """1/n_y for each sample, so that every class present adds up to 1: target (batch,) or (batch, attributes)."""
    one_hot = torch.nn.functional.one_hot(target, classes).double()
    counts = one_hot.sum(0, keepdim=True)
    return (one_hot / counts.clamp_min(1)).sum(-1)


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
