"""The rivals on plain logits, each a formula from its own paper.

A criterion takes logits (..., classes), target (...) and class_counts (classes,) or (attributes, 2) and returns one
loss a sample, (...). ``functools.partial`` sets its constants. A class without a training sample counts as one.
"""

from typing import Protocol

import torch
from torch import Tensor

from equipoise.errors import InvalidInputError
from equipoise.losses.class_weights import ClassWeight, at_least_one, needed_counts
from equipoise.losses.head import ClassVectorLoss, Reduction, softmax_loss


class Criterion(Protocol):
    """Any of the functions below, or one of your own."""

    def __call__(self, logits: Tensor, target: Tensor, class_counts: Tensor | None) -> Tensor:
        """One loss a sample."""


def cross_entropy(logits: Tensor, target: Tensor, class_counts: Tensor | None = None) -> Tensor:  # noqa: ARG001
    """Plain softmax, the paper's first loss."""
    return softmax_loss(logits, target)


def focal(
    logits: Tensor,
    target: Tensor,
    class_counts: Tensor | None = None,  # noqa: ARG001
    *,
    gamma: float = 2.0,
) -> Tensor:
    """(1 − p_y)^γ·(−log p_y) (Lin et al. 2017), in its softmax form."""
    loss = softmax_loss(logits, target)
    missed = -torch.expm1(-loss)  # 1 − p_y without cancellation
    # kept off 0, where a power below 1 has no finite slope; the product with the loss is 0 there all the same
    return missed.clamp_min(torch.finfo(loss.dtype).tiny).pow(gamma) * loss


def balanced_softmax(logits: Tensor, target: Tensor, class_counts: Tensor | None) -> Tensor:
    """Softmax with every class's count as its prior, z_j + log n_j (Ren et al. 2020)."""
    counts = needed_counts(class_counts, "balanced_softmax")
    return softmax_loss(logits + at_least_one(counts).log(), target)


def logit_adjustment(logits: Tensor, target: Tensor, class_counts: Tensor | None, *, tau: float = 1.0) -> Tensor:
    """z_j + τ·log π_j while training (Menon et al. 2021); :func:`adjust_logits` is its post-hoc twin."""
    counts = needed_counts(class_counts, "logit_adjustment")
    return softmax_loss(logits + tau * log_prior(counts), target)


def vector_scaling(
    logits: Tensor, target: Tensor, class_counts: Tensor | None, *, gamma: float = 0.15, tau: float = 1.25
) -> Tensor:
    """(n_j/n_max)^γ·z_j + τ·log π_j (Kini et al. 2021, the VS loss, with its authors' constants)."""
    counts = at_least_one(needed_counts(class_counts, "vector_scaling"))
    scale = (counts / counts.amax(-1, keepdim=True)).pow(gamma)
    return softmax_loss(scale * logits + tau * log_prior(counts), target)


def adjust_logits(logits: Tensor, class_counts: Tensor, *, tau: float = 1.0) -> Tensor:
    """Logit adjustment post hoc: z_j − τ·log π_j on the logits of a model trained with plain softmax."""
    return logits - tau * log_prior(class_counts.to(logits))


def log_prior(class_counts: Tensor) -> Tensor:
    """log π_j of the training samples."""
    counts = at_least_one(class_counts)
    return (counts / counts.sum(-1, keepdim=True)).log()


class LogitLoss(ClassVectorLoss):
    """A linear head under any criterion on its logits; the other options are those of :class:`ClassVectorLoss`."""

    def __init__(
        self,
        in_features: int,
        classes: int,
        *,
        criterion: Criterion = cross_entropy,
        multilabel: bool = False,
        dropout: float = 0.0,
        class_counts: Tensor | None = None,
        class_weight: ClassWeight = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__(
            in_features,
            classes,
            multilabel=multilabel,
            dropout=dropout,
            class_counts=class_counts,
            class_weight=class_weight,
            reduction=reduction,
        )
        self.criterion = criterion
        trial = torch.zeros(1, *self.class_shape)
        if (
            criterion(trial, trial[..., 0].long(), self.class_counts).shape != trial.shape[:-1]
        ):  # or it says what it lacks
            raise InvalidInputError("criterion must return one loss a sample; reduce nothing in it.")

    def sample_losses(self, features: Tensor, target: Tensor) -> Tensor:
        logits = self.project(self.dropped(features))
        counts = None if self.class_counts is None else self.class_counts.to(logits.dtype)
        return self.criterion(logits, target, counts)
