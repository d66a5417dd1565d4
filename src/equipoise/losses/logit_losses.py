"""Rival losses on plain logits, each a formula from its own paper.

A criterion takes logits (..., classes), target (...) and class_counts (classes,) or (attributes, 2) and returns one
loss per sample, (...). Use ``functools.partial`` to set its constants. A class without training samples counts as one.
"""

from typing import Protocol

import torch
from torch import Tensor

from equipoise.errors import InvalidInputError
from equipoise.losses.class_vector_loss import ClassVectorLoss, Reduction
from equipoise.losses.class_weights import ClassWeight, needed_counts, positive_counts
from equipoise.losses.softmax_loss import softmax_loss


class Criterion(Protocol):
    """Interface of the functions below and of your own: one loss per sample, (...).

    Args:
        logits: z, (..., classes).
        target: y, (...).
        class_counts: n_c, training samples per class, (classes,) or (attributes, 2); None if not given.

    >>> def squared(logits, target, class_counts):
    ...     return softmax_loss(logits, target) ** 2
    >>> loss = LogitLoss(4, 3, criterion=squared, reduction="none")
    >>> loss(torch.zeros(2, 4), torch.tensor([0, 1])).detach()  # (log 3)²
    tensor([1.2069, 1.2069])
    """

    def __call__(self, logits: Tensor, target: Tensor, class_counts: Tensor | None) -> Tensor:
        """Return one loss per sample."""


def cross_entropy(logits: Tensor, target: Tensor, class_counts: Tensor | None = None) -> Tensor:  # noqa: ARG001
    r"""Return the plain softmax loss, the paper's first.

    .. math:: L = -\log p_y, \qquad p = \mathrm{softmax}(z)

    Args:
        logits, target, class_counts: as in :class:`Criterion`; the counts are not used.

    >>> cross_entropy(torch.tensor([[2.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 1]))
    tensor([0.1269, 2.1269])
    """
    return softmax_loss(logits, target)


def focal(
    logits: Tensor,
    target: Tensor,
    class_counts: Tensor | None = None,  # noqa: ARG001
    *,
    gamma: float = 2.0,
) -> Tensor:
    r"""Return the focal loss (Lin et al. 2017), in its softmax form.

    .. math:: L = -(1 - p_y)^{\gamma} \log p_y

    Args:
        logits, target, class_counts: as in :class:`Criterion`; the counts are not used.
        gamma: γ ≥ 0; 0 is cross-entropy.

    >>> focal(torch.tensor([[2.0, 0.0], [2.0, 0.0]]), torch.tensor([0, 1]))  # easy, hard
    tensor([0.0018, 1.6501])
    """
    loss = softmax_loss(logits, target)
    missed = -torch.expm1(-loss)  # 1 − p_y without cancellation
    # kept away from 0, where a power below 1 has an infinite slope; the product with the loss is still 0 there
    return missed.clamp_min(torch.finfo(loss.dtype).tiny).pow(gamma) * loss


def balanced_softmax(logits: Tensor, target: Tensor, class_counts: Tensor | None) -> Tensor:
    r"""Return the softmax loss with class counts as the prior (Ren et al. 2020).

    .. math:: L = -\log \mathrm{softmax}(z + \log n)_y

    Args:
        logits, target, class_counts: as in :class:`Criterion`.

    >>> counts = torch.tensor([90.0, 10.0])
    >>> balanced_softmax(torch.zeros(2, 2), torch.tensor([0, 1]), counts)  # −log 0.9, −log 0.1
    tensor([0.1054, 2.3026])
    """
    counts = needed_counts(class_counts, "balanced_softmax")
    return softmax_loss(logits + positive_counts(counts).log(), target)


def logit_adjustment(logits: Tensor, target: Tensor, class_counts: Tensor | None, *, tau: float = 1.0) -> Tensor:
    r"""Return the logit-adjusted loss (Menon et al. 2021); :func:`adjust_logits` is its post-hoc counterpart.

    .. math:: L = -\log \mathrm{softmax}(z + \tau \log \pi)_y, \qquad \pi_j = n_j / n

    Args:
        logits, target, class_counts: as in :class:`Criterion`.
        tau: τ; 1 aims at balanced accuracy, 0 is cross-entropy.

    >>> logit_adjustment(torch.zeros(2, 2), torch.tensor([0, 1]), torch.tensor([90.0, 10.0]), tau=0.5)
    tensor([0.2877, 1.3863])
    """
    counts = needed_counts(class_counts, "logit_adjustment")
    return softmax_loss(logits + tau * log_prior(counts), target)


def vector_scaling(
    logits: Tensor, target: Tensor, class_counts: Tensor | None, *, gamma: float = 0.15, tau: float = 1.25
) -> Tensor:
    r"""Return the VS loss (Kini et al. 2021), with its authors' constants.

    .. math:: L = -\log \mathrm{softmax}(\hat z)_y, \qquad
              \hat z_j = (n_j / n_{\max})^{\gamma} \, z_j + \tau \log \pi_j

    Args:
        logits, target, class_counts: as in :class:`Criterion`.
        gamma: γ, how strongly the logits of rare classes are scaled down.
        tau: τ of :func:`logit_adjustment`.

    >>> vector_scaling(torch.tensor([[1.0, 1.0]]), torch.tensor([1]), torch.tensor([90.0, 10.0]))
    tensor([3.0746])
    """
    counts = positive_counts(needed_counts(class_counts, "vector_scaling"))
    scale = (counts / counts.amax(-1, keepdim=True)).pow(gamma)
    return softmax_loss(scale * logits + tau * log_prior(counts), target)


def adjust_logits(logits: Tensor, class_counts: Tensor, *, tau: float = 1.0) -> Tensor:
    r"""Adjust the logits of a model trained with plain softmax.

    .. math:: \hat z_j = z_j - \tau \log \pi_j

    Args:
        logits: (..., classes).
        class_counts: training samples per class, (classes,), or (attributes, 2) for logits (..., attributes, 2).
        tau: τ; 1 aims at balanced accuracy.

    >>> adjust_logits(torch.tensor([[1.0, 0.0]]), torch.tensor([90.0, 10.0]))  # the rare class wins
    tensor([[1.1054, 2.3026]])
    """
    return logits - tau * log_prior(class_counts.to(logits))


def log_prior(class_counts: Tensor) -> Tensor:
    """Return log π_j of the training samples.

    Args:
        class_counts: training samples per class, (classes,), or (attributes, 2).

    >>> log_prior(torch.tensor([90.0, 10.0])).exp()
    tensor([0.9000, 0.1000])
    """
    counts = positive_counts(class_counts)
    return (counts / counts.sum(-1, keepdim=True)).log()


@torch.enable_grad()
def neutral_prior(criterion: Criterion, class_counts: Tensor | None, shape: tuple[int, ...]) -> Tensor:
    r"""Return the class prior at which logits of 0 minimise a criterion, (classes,) or (attributes, 2).

    .. math:: \sum_y \pi_y \, \nabla_z L(z, y) \big|_{z = 0} = 0, \qquad \sum_y \pi_y = 1

    It is uniform for a criterion that treats all classes alike; a shift of the logits (logit adjustment, VS) or class
    weights move it. So no criterion, including yours, has to declare what it compensates for.

    Args:
        criterion: see :class:`Criterion`.
        class_counts: as in :class:`Criterion`.
        shape: (classes,) or (attributes, 2).

    >>> neutral_prior(logit_adjustment, torch.tensor([90.0, 10.0]), (2,)), neutral_prior(focal, None, (2,))
    (tensor([0.9000, 0.1000], dtype=torch.float64), tensor([0.5000, 0.5000], dtype=torch.float64))
    """
    classes = shape[-1]
    logits = torch.zeros(classes, *shape, dtype=torch.float64, requires_grad=True)
    target = torch.arange(classes).view(-1, *[1] * (len(shape) - 1)).expand(logits.shape[:-1])  # row y is of class y
    counts = None if class_counts is None else class_counts.detach().double().cpu()
    slopes = torch.autograd.grad(criterion(logits, target, counts).sum(), logits)[0].movedim(0, -1)  # (..., z, y)
    system = torch.cat((slopes, torch.ones_like(slopes[..., :1, :])), dim=-2)
    wanted = torch.zeros_like(system[..., :1])
    wanted[..., -1, :] = 1
    try:
        found: Tensor = torch.linalg.lstsq(system, wanted, driver="gels").solution.squeeze(-1)
    except RuntimeError:  # a criterion without slope; pivoting would work, but takes minutes at 8,000 classes
        found = torch.linalg.lstsq(system, wanted).solution.squeeze(-1)
    return found.clamp_min(torch.finfo(torch.float64).eps)


class LogitLoss(ClassVectorLoss):
    """A linear head with any criterion on its logits.

    Args:
        in_features, classes, multilabel, dropout, members, class_counts, class_weight, reduction: as in
            :class:`ClassVectorLoss`.
        criterion: returns one loss per sample from logits, see :class:`Criterion`.
        normalize: class vectors of unit length and no bias, as in :class:`UncertaintyMarginLoss`.

    >>> loss = LogitLoss(4, 2, criterion=logit_adjustment, class_counts=torch.tensor([90.0, 10.0]))
    >>> _ = loss.weight.data.zero_()
    >>> loss(torch.ones(1, 4), torch.tensor([1])).detach()  # −log 0.1
    tensor(2.3026)
    """

    def __init__(
        self,
        in_features: int,
        classes: int,
        *,
        criterion: Criterion = cross_entropy,
        multilabel: bool = False,
        normalize: bool = False,
        dropout: float = 0.0,
        members: int = 1,
        class_counts: Tensor | None = None,
        class_weight: ClassWeight = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            in_features,
            classes,
            multilabel=multilabel,
            normalize=normalize,
            bias=not normalize,
            dropout=dropout,
            members=members,
            class_counts=class_counts,
            class_weight=class_weight,
            reduction=reduction,
        )
        self.criterion = criterion
        trial = torch.zeros(1, *self.class_shape)
        if (
            criterion(trial, trial[..., 0].long(), self.class_counts).shape != trial.shape[:-1]
        ):  # or it raises an error that says what it needs
            raise InvalidInputError("criterion must return one loss per sample; do not reduce in it.")

    @property
    def divisible(self) -> bool:
        return self.criterion is cross_entropy

    def aimed_prior(self, prior: Tensor) -> Tensor:
        return super().aimed_prior(prior / neutral_prior(self.criterion, self.class_counts, self.class_shape).to(prior))

    def sample_losses(self, features: Tensor, target: Tensor) -> Tensor:
        logits = self.member_logits(self.dropped(features))
        counts = None if self.class_counts is None else self.class_counts.to(logits.dtype)
        return self.over_members(self.criterion(logits, self.by_member(target), counts))
