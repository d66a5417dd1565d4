"""The base class of all losses: class vectors, checks, weights, and the sum over several labels (attributes).

A subclass adds only its formula.
"""

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, Protocol, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equipoise.errors import InvalidInputError
from equipoise.losses.class_weights import ClassWeight, class_weights
from equipoise.losses.softmax_loss import gather_classes, member_products
from equipoise.models.layers import Dropout
from equipoise.options import check_choice
from equipoise.tensor_checks import binary_labels, class_labels, floating_tensor, numeric_tensor, required_tensor

Reduction = Literal["mean", "sum", "none"]
Formula = Callable[[Tensor, Tensor], Tensor]
"""From features (batch, D) and target to one loss per sample."""


class Shard(Protocol):
    """The samples of all processes as one of them sees them, where processes divide the classes.

    ``here`` are the samples whose class it has, ``place`` is that class among its own.
    """

    here: Tensor
    place: Tensor

    def gathered(self, own: Tensor) -> Tensor:
        """Return every process's rows, one after the other."""
        ...

    def summed(self, own: Tensor) -> Tensor:
        """Return the sum over the processes, detached."""
        ...

    def largest(self, own: Tensor) -> Tensor:
        """Return the maximum over the processes, detached."""
        ...


class ClassVectorLoss(nn.Module):
    """Class vectors w_j and a loss in one: ``loss(features, target)`` trains, ``loss.logits(features)`` predicts.

    Half-precision features are widened to float32, even under autocast: bfloat16 is too coarse for angles.

    Args:
        in_features: D, the length of a feature vector; with ``members``, the total length of theirs.
        classes: C; with ``multilabel`` the number of attributes, each a two-class problem with its own pair of
            class vectors.
        multilabel: targets are 0/1 of shape (batch, attributes) instead of labels of shape (batch,).
        normalize: class vectors of unit length.
        bias: one bias per class, as in ``nn.Linear``.
        dropout: share of the features dropped in front of the class vectors while training.
        members: networks trained side by side, each with its own part of the features and its own class vectors. The
            loss of a sample is the mean of theirs; a prediction is the mean of their logits.
        class_counts: training samples per class, (classes,) or (attributes, 2), for the losses that need them.
        class_weight: a weight per class, shaped as ``class_counts``; or ``"balanced"`` (inverse frequency) or
            ``"effective"`` (effective number of samples), which need the counts.
        reduction: ``"mean"`` is the weighted mean, as in ``torch.nn.CrossEntropyLoss``; with attributes, the sum of
            their means.

    Your own loss puts its formula into ``sample_losses``; here 1 − p_y:

    >>> class Missed(ClassVectorLoss):
    ...     def sample_losses(self, features, target):
    ...         return 1 - gather_classes(self.project(features).softmax(-1), target)
    >>> loss = Missed(in_features=4, classes=3)
    >>> _ = loss.weight.data.zero_()  # three equally probable classes
    >>> features, target = torch.ones(2, 4), torch.tensor([0, 2])
    >>> loss(features, target).detach(), loss.logits(features).shape, loss.class_vectors().shape
    (tensor(0.6667), torch.Size([2, 3]), torch.Size([3, 4]))
    """

    weight: nn.Parameter
    bias: nn.Parameter | None
    class_counts: Tensor | None
    class_weight: Tensor | None
    margins: Tensor | None  # one per class, in a head with margins; such a head also has the next two
    strength: Tensor  # share of the margins in force, ()
    shift: Tensor  # what a curriculum adds to predictions, shaped like the margins; in a head that it drives

    def __init__(
        self,
        in_features: int,
        classes: int,
        *,
        multilabel: bool = False,
        normalize: bool = False,
        bias: bool = True,
        dropout: float = 0.0,
        members: int = 1,
        class_counts: Tensor | None = None,
        class_weight: ClassWeight = None,
        reduction: Reduction = "mean",
    ) -> None:
        super().__init__()
        if in_features < 1 or classes < (1 if multilabel else 2):
            raise InvalidInputError(
                f"in_features must be at least 1 and classes at least 2 (1 with multilabel), got {in_features} and "
                f"{classes}; for one yes/no label use multilabel=True."
            )
        if members < 1 or in_features % members:
            raise InvalidInputError(
                f"in_features must be a multiple of members, got {in_features} and {members}; each has its own part."
            )
        check_choice("reduction", reduction, get_args(Reduction))
        self.in_features, self.classes, self.multilabel = in_features, classes, multilabel
        self.members, self.normalize, self.reduction = members, normalize, reduction
        self.class_shape = (classes, 2) if multilabel else (classes,)
        self.weight = nn.Parameter(torch.empty(math.prod(self.class_shape), in_features))
        self.bias = nn.Parameter(torch.zeros(math.prod(self.class_shape))) if bias else None
        self.dropout = Dropout(dropout)
        counts = None if class_counts is None else self._class_values(class_counts, "class_counts")
        weights = class_weights(class_weight, counts)
        self.register_buffer("class_counts", counts)
        self.register_buffer("class_weight", None if weights is None else self._class_values(weights, "class_weight"))
        self.register_buffer("margins", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise like ``nn.Linear``, so that softmax starts where torch users expect it."""
        nn.init.kaiming_uniform_(self.weight.view(-1, self.in_features // self.members), a=math.sqrt(5))
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def class_vectors(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return w_j in ``dtype``, at least float32, of unit length if ``normalize``: (classes or 2·attributes, D).

        With ``members`` each has its own w_j, divided by their number, so that w_j·f is the mean of their logits.
        """
        weight = self.weight.to(torch.promote_types(dtype, torch.float32))
        if self.normalize:
            weight = F.normalize(weight.unflatten(-1, (self.members, -1)), dim=-1).flatten(-2)
        return weight if self.members == 1 else weight / self.members

    def logits(self, features: Tensor) -> Tensor:
        """Return logits without any margin for features (batch, D): (batch, classes), or (batch, attributes, 2)."""
        features = self.shaped_features(features)  # without looking at their values, so that vmap works
        with full_precision(features):
            return self.project(self.dropped(features))

    def dropped(self, features: Tensor) -> Tensor:
        """Return features after the head's own dropout."""
        seen: Tensor = features if self.dropout.p == 0 else self.dropout(features)
        return seen

    def project(self, features: Tensor) -> Tensor:
        """Return w_j·f + b_j, in the classes' shape."""
        bias = None if self.bias is None else self.bias.to(features.dtype)
        logits: Tensor = F.linear(features, self.class_vectors(features.dtype), bias).unflatten(-1, self.class_shape)
        return logits

    def member_logits(self, features: Tensor) -> Tensor:
        """Return the logits of each member, whose mean is :meth:`project`.

        For features (batch, D) after :meth:`dropped` they are (members, batch, classes) or (members, batch, attributes,
        2); for a single member, those of :meth:`project`.
        """
        if self.members == 1:
            return self.project(features)
        vectors = self.class_vectors(features.dtype) * self.members
        found: Tensor = member_products(features, vectors, self.members).unflatten(-1, self.class_shape)
        return found if self.bias is None else found + self.bias.to(features.dtype).view(self.class_shape)

    def by_member(self, target: Tensor) -> Tensor:
        """Return a target, (batch,) or (batch, attributes), repeated for each member if there are several."""
        return target if self.members == 1 else target.expand(self.members, *target.shape)

    def over_members(self, losses: Tensor) -> Tensor:
        """Return the mean of the members' losses, (batch,) or (batch, attributes)."""
        return losses if self.members == 1 else losses.mean(0)

    def forward(self, features: Tensor, target: Tensor, *, sample_weight: Tensor | None = None) -> Tensor:
        """Return the loss of a batch: a scalar, or with ``reduction="none"`` one value per sample.

        Args:
            features: (batch, D).
            target: labels (batch,), or 0/1 of shape (batch, attributes).
            sample_weight: weight of each sample, (batch,), not negative; None gives each weight 1.
        """
        return self.evaluate(self.sample_losses, features, target, sample_weight)

    def evaluate(self, formula: Formula, features: Tensor, target: Tensor, sample_weight: Tensor | None) -> Tensor:
        """Check the input, apply the formula in full precision, then weight and reduce."""
        features = self.checked_features(features)
        target, weight = self.checked_target(target, len(features)), self._checked_weight(sample_weight, len(features))
        with full_precision(features):
            return self.reduce(formula(features, target), target, weight)

    def sample_losses(self, features: Tensor, target: Tensor) -> Tensor:  # noqa: ARG002
        """Return one loss per sample, (batch,) or (batch, attributes), for features (batch, D) and target."""
        raise InvalidInputError(f"{type(self).__name__} has no formula; use a loss of equipoise.losses.LOSSES.")

    def mixed_loss(self, features: Tensor, labels: tuple[Tensor, Tensor], weights: tuple[Tensor, Tensor]) -> Tensor:  # noqa: ARG002
        """Return the loss of mixed samples: the sum of weight · loss over both labels, divided by the batch size.

        Args:
            features: features of the mixed samples, (batch, D).
            labels: labels of each sample and of its partner, each like ``target`` in :meth:`forward`.
            weights: weights of these labels, (batch,) each.
        """
        raise InvalidInputError(
            f"{type(self).__name__} does not support mixing; use UncertaintyMarginLoss(sample_level='mixing')."
        )

    @property
    def driven_by_curriculum(self) -> bool:
        """True if only a :class:`equipoise.training.Curriculum` sets the strength of the margins."""
        return False

    @property
    def margin_range(self) -> tuple[float, float]:
        """The margin without effect, and the margin that the head was built with."""
        return 0.0, 0.0

    @property
    def own_strength(self) -> float:
        """The margin strength that the head was built with; 0 leaves it to a curriculum."""
        return 0.0

    @property
    def angular(self) -> bool:
        """True if the effect of a unit of strength on the logits depends on the features' angles and lengths."""
        return False

    @property
    def mixes_samples(self) -> bool:
        """True if a curriculum mixes samples for this loss, see :mod:`equipoise.training.mixing`."""
        return False

    @property
    def divisible(self) -> bool:
        """True if processes can divide the classes: the loss is the softmax loss of :meth:`shard_logits`."""
        return False

    def clear_margins(self) -> None:
        """Reset to plain softmax: zero margin strength and no shift of predictions."""

    def set_strength(self, strength: float, *, sample_strength: float) -> None:  # noqa: ARG002
        """Set the strength of the margins, and of the sample level if the head has one."""
        raise InvalidInputError(
            f"{type(self).__name__} has no margins; use UncertaintyMarginLoss or a CosineMarginLoss."
        )

    def met_features(self, features: Tensor) -> Tensor:
        """Return features (batch, D) as a stochastic pass sees them before dropout and class vectors."""
        return features

    def training_features(self, features: Tensor) -> Tensor:
        """Return features (batch, D) as the class vectors meet them in training."""
        return self.dropped(features)

    def shard_logits(self, features: Tensor, undropped: Tensor, shard: Shard) -> Tensor:  # noqa: ARG002
        """Return the logits of all processes' samples for the classes of this one, with margins: (samples, classes).

        Args:
            features: :meth:`training_features` of all samples, (samples, D).
            undropped: features of this process's own samples, (batch, D).
        """
        return self.project(features)

    def aimed_prior(self, prior: Tensor) -> Tensor:
        """Return the class prior that the logits aim at, ∝ prior · class weight: (classes,) or (attributes, 2).

        Override this in losses that favour some classes; probabilities are converted from this prior to any other.

        Args:
            prior: shares of the training samples, all above 0, (classes,) or (attributes, 2).

        >>> counts = torch.tensor([90.0, 10.0])
        >>> ClassVectorLoss(4, 2).aimed_prior(counts / 100)
        tensor([0.9000, 0.1000])
        >>> ClassVectorLoss(4, 2, class_counts=counts, class_weight="balanced").aimed_prior(counts / 100)
        tensor([0.5000, 0.5000])
        """
        aimed = prior if self.class_weight is None else prior * self.class_weight.to(prior)
        return aimed / aimed.sum(-1, keepdim=True)

    def set_progress(self, share: float) -> None:
        """Set the ``share`` of the epochs completed, in [0, 1], for losses with stages."""

    def reduce(self, losses: Tensor, target: Tensor, sample_weight: Tensor | None = None) -> Tensor:
        """Apply class and sample weights, then the reduction."""
        weights = None if self.class_weight is None else gather_classes(self.class_weight.to(losses.dtype), target)
        if sample_weight is not None:
            own = (sample_weight.unsqueeze(-1) if self.multilabel else sample_weight).to(losses.dtype)
            weights = own.expand_as(losses) if weights is None else weights * own
        if weights is not None:
            losses = losses * weights
        if self.reduction == "mean" and len(losses):
            if weights is None:
                return losses.mean(0).sum() if self.multilabel else losses.mean()
            total = weights.sum(0).clamp_min(torch.finfo(losses.dtype).tiny)  # if all weights are 0, the loss is 0
            return (losses.sum(0) / total).sum()
        losses = losses.sum(-1) if self.multilabel else losses
        return losses if self.reduction == "none" else losses.sum()

    def shaped_features(self, features: Tensor) -> Tensor:
        """Return features as float32 or float64, checked for shape."""
        if floating_tensor(features, "features").ndim != 2 or features.shape[1] != self.in_features:
            raise InvalidInputError(
                f"features must have the shape (batch, {self.in_features}), got {tuple(features.shape)}; flatten or "
                "pool them, or build the loss with in_features to match."
            )
        return features.to(torch.promote_types(features.dtype, torch.float32))

    def checked_features(self, features: Tensor) -> Tensor:
        """Return features that are also finite, and small enough that no square overflows."""
        features = self.shaped_features(features)
        if features.numel() == 0 or torch.compiler.is_compiling():
            return features
        largest = torch.finfo(features.dtype).max ** 0.4
        flat = features.detach().reshape(-1)
        if torch.dot(flat, flat).item() <= largest**2:  # then no entry is larger or NaN; the fastest such check
            return features
        if not bool(features.isfinite().all()):
            raise InvalidInputError(
                "features must be finite, got NaN or infinity; look for a learning rate that is too high, a division "
                "by zero or missing values in the data."
            )
        return features.clamp(-largest, largest)

    def checked_target(self, target: Tensor, batch: int) -> Tensor:
        """Return the target as int64 labels, checked for range."""
        shape = (batch, self.classes) if self.multilabel else (batch,)
        if tuple(required_tensor(target, "target").shape) != shape:
            raise InvalidInputError(f"target must have the shape {shape}, got {tuple(target.shape)}.")
        return binary_labels(target) if self.multilabel else class_labels(target, self.classes)

    def _checked_weight(self, sample_weight: Tensor | None, batch: int) -> Tensor | None:
        if sample_weight is None:
            return None
        if tuple(required_tensor(sample_weight, "sample_weight").shape) != (batch,):
            raise InvalidInputError(f"sample_weight must have the shape ({batch},), got {tuple(sample_weight.shape)}.")
        if not bool(((sample_weight >= 0) & sample_weight.isfinite()).all()):
            raise InvalidInputError("sample_weight must be finite and not negative; use 0 to leave a sample out.")
        return sample_weight

    def _class_values(self, values: Tensor, name: str) -> Tensor:
        values = numeric_tensor(values, name, dtype=torch.get_default_dtype()).detach().clone()
        if tuple(values.shape) != self.class_shape:
            raise InvalidInputError(f"{name} must have the shape {self.class_shape}, got {tuple(values.shape)}.")
        if not bool(((values >= 0) & values.isfinite()).all()):
            raise InvalidInputError(f"{name} must be finite and not negative, got {values.min()} to {values.max()}.")
        return values

    def extra_repr(self) -> str:
        several = f", members={self.members}" if self.members > 1 else ""
        return f"in_features={self.in_features}, classes={self.classes}, multilabel={self.multilabel}{several}"


def full_precision(features: Tensor) -> AbstractContextManager[object]:
    """Disable autocast inside the block."""
    device = features.device.type
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()
