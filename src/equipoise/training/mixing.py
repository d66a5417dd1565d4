r"""The sample level by mixing: a sample between two classes is an uncertain sample.

A training sample is mixed with a partner, whose class is drawn more evenly than the classes occur:

.. math:: \tilde x = \lambda x_i + (1 - \lambda) x_j, \qquad \lambda \sim \mathrm{Beta}(0.4, 0.4), \qquad
          q_c \propto \pi_c^{1/2}

It carries both labels, with weights λ and 1 − λ. Mixed samples have the class prior :math:`(\pi_c + q_c)/2`, which is
more even than π. The margins are those of π all the same, and the logits count as balanced: on new samples a network
predicts rare classes too seldom, which the wider margins make up for. ``docs/results/ahead.md`` compares both.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from equipoise.training.batches import ArrayData

ALPHA = 0.4
"""Parameter of λ's Beta distribution: most samples stay close to one of the two."""
POWER = 0.5
"""Partners' classes are drawn by the square root of their frequency; 1 is as they occur, 0 all equally often."""


def partner_prior(prior: Tensor, power: float = POWER) -> Tensor:
    """Return q_c ∝ π_c^power, how often a partner is of each class; a class without samples never is.

    Args:
        prior: π, (classes,) or (attributes, 2), not negative.
        power: from 1, as classes occur, to 0, all equally often.

    >>> partner_prior(torch.tensor([0.9, 0.1]))
    tensor([0.7500, 0.2500])
    """
    share = torch.where(prior > 0, prior.pow(power), 0)
    return share / share.sum(-1, keepdim=True)


def draw_partners(
    rows: Tensor, y: Tensor, partners: Tensor, *, seed: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Draw a partner and λ for every row, (n,) each.

    Args:
        rows: (n,); partners are drawn from them as well.
        y: labels of all samples, (samples,); with several labels, (samples, attributes), partners come as rows do.
        partners: q, (classes,), how often a partner is of each class.
        seed: the same numbers draw the same partners.

    >>> draw_partners(torch.tensor([2, 0]), torch.tensor([0, 0, 1]), torch.tensor([0.0, 1.0]), seed=[7])[0]
    array([2, 2])
    """
    rng = np.random.default_rng(seed)
    found = rows.numpy()
    if y.ndim > 1:
        drawn = rng.integers(len(found), size=len(found))
    else:
        labels = y[rows].numpy()
        counts = np.bincount(labels, minlength=len(partners))
        share = np.where(counts > 0, partners.double().numpy(), 0)
        classes = rng.choice(len(share), size=len(found), p=share / share.sum())
        first = counts.cumsum() - counts
        drawn = np.argsort(labels, kind="stable")[first[classes] + rng.integers(counts[classes])]
    return found[drawn], rng.beta(ALPHA, ALPHA, size=len(found))


class Pairs(NamedTuple):
    """A batch of samples to mix.

    Args:
        rows: of the samples, (batch,).
        partners: rows of their partners, (batch,).
        shares: λ of each pair, the share of the first, (batch,).

    >>> Pairs(np.array([0]), np.array([1]), np.array([0.75])).shares
    array([0.75])
    """

    rows: NDArray[np.int64]
    partners: NDArray[np.int64]
    shares: NDArray[np.float64]


class DrawnData(Dataset[tuple[Tensor, ...]]):
    """Batches of samples, plain by row or mixed by :class:`Pairs`.

    A mixed batch is (x̃, y_i, λ·w_i, y_j, (1 − λ)·w_j): a sample with two labels and what each of them weighs. A
    partner's class is drawn, so that its weight counts within that class alone: all classes have the same mean weight.

    Args:
        data: the samples.

    >>> data = DrawnData(ArrayData(torch.tensor([[0.0], [8.0]]), torch.tensor([0, 1])))
    >>> data.__getitems__(Pairs(np.array([0]), np.array([1]), np.array([0.75])))
    (tensor([[2.]]), tensor([0]), tensor([0.7500]), tensor([1]), tensor([0.2500]))
    """

    def __init__(self, data: ArrayData) -> None:
        self.data = data
        self.partner_weight = data.weight
        within = None if data.y.ndim > 1 else data.evenly_weighed().weight
        if within is not None and data.weight is not None:
            self.partner_weight = within * data.weight.double().mean()

    def __len__(self) -> int:
        return len(self.data)

    def __getitems__(self, drawn: Sequence[int] | Pairs) -> tuple[Tensor, ...]:
        if not isinstance(drawn, Pairs):
            return self.data.__getitems__(drawn)
        rows, partners = drawn.rows, drawn.partners
        share = torch.from_numpy(drawn.shares).float()
        x, y = self.data.__getitems__(np.concatenate((rows, partners)))[:2]
        own, rest = share, 1 - share
        if self.data.weight is not None and self.partner_weight is not None:
            own, rest = own * self.data.weight[rows], rest * self.partner_weight[partners]
        (first, other), (target, partner) = x.split(len(rows)), y.split(len(rows))
        return mixed(first, other, share), target, own, partner, rest


def mixed(x: Tensor, other: Tensor, share: Tensor) -> Tensor:
    """Return share·x + (1 − share)·other, in the type of x; bytes are rounded.

    Args:
        x, other: (batch, ...).
        share: (batch,).

    >>> mixed(torch.tensor([[200]], dtype=torch.uint8), torch.tensor([[100]], dtype=torch.uint8), torch.tensor([0.749]))
    tensor([[175]], dtype=torch.uint8)
    """
    kind = x.dtype if x.is_floating_point() else torch.float32
    each = share.to(kind).view(-1, *[1] * (x.ndim - 1))
    found = torch.lerp(other.to(kind), x.to(kind), each)
    return found if x.is_floating_point() else found.round().to(x.dtype)
