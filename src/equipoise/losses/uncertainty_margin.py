"""The paper's loss: margins from class uncertainty (section 4) and from sample uncertainty (section 5)."""

import math
from functools import partial
from typing import Any, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from equipoise.errors import InvalidInputError, InvalidStateError
from equipoise.losses.class_vector_loss import ClassVectorLoss, Reduction, Shard, full_precision
from equipoise.losses.class_weights import ClassWeight
from equipoise.losses.psi import angular_logits
from equipoise.losses.sample_level_logits import (
    closed_probability,
    expected_logits,
    shard_probability,
    shard_variance,
    weighted_true_logit,
)
from equipoise.losses.softmax_loss import gather_classes, member_products, softmax_loss
from equipoise.losses.unit_vectors import unit_vectors
from equipoise.options import check_choice
from equipoise.registry_names import MarginForm, Placement, SampleLevel
from equipoise.tensor_checks import numeric_tensor
from equipoise.uncertainty.sample_level import ErrorMoments, dropout_error_variance, given_moments, strongest_rival

LEAST = {"margins": 1.0, "strength": 0.0, "sample_strength": 0.0, "shift": 0.0}
"""Buffers that may be set at any time, with their minima."""


class UncertaintyMarginLoss(ClassVectorLoss):
    """The paper's loss with its class vectors; it is plain softmax until ``margins`` and ``strength`` are set.

    Args:
        in_features, classes: D, the length of a feature vector, and C.
        form: ``"additive"`` lowers logits by s·(m − 1); ``"angular"``, the paper's, changes the angle by ψ.
        placement: ``"all"`` puts every class's margin on its own logit (the paper's constraint), ``"target"``
            only the true class's (the paper's loss, which can change the odds by at most a factor of 2).
        normalize: class vectors of unit length; without it, as printed, training can shrink the vector of exactly
            the class that has a margin.
        sample_level: ``"expected"`` raises the rivals by κ·σ_E², ``"complement"`` and ``"printed"`` weigh the true
            logit by F̂, the probability of a mistake. Each of these needs σ_E²: from ``dropout`` in closed form, or
            from ``error`` in the call. ``"mixing"`` asks the training loop to mix samples (see
            :mod:`equipoise.training.mixing`); the formula stays that of the class level.
        kappa: κ of ``"expected"``; ½ is the bound on the expected loss, less weakens it.
        margin, strength: initial values of ``margins`` and ``strength`` below. A ``strength`` above 0 is kept; at 0 a
            curriculum sets the margins (``driven_by_curriculum``).
        multilabel, dropout, members, class_counts, class_weight, reduction: as in :class:`ClassVectorLoss`. Several
            members have additive margins, and no sample level but ``"mixing"``.

    Buffers, all in the ``state_dict``: ``margins`` (m_c ≥ 1, initially 1) and ``shift`` (added to the logits of a
    prediction but not of a loss, initially 0), (classes,) or (attributes, 2); ``strength`` (s ≥ 0, initially 0) and
    ``sample_strength`` (share of the sample level, initially 1), ().

    >>> loss = UncertaintyMarginLoss(in_features=2, classes=3)
    >>> loss.weight.data = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    >>> features, target = torch.tensor([[3.0, 0.0], [0.0, 3.0]]), torch.tensor([0, 1])
    >>> loss(features, target).detach()  # plain softmax
    tensor(0.0729)
    >>> loss.margins, loss.strength = torch.tensor([1.0, 3.0, 1.0]), 0.5
    >>> loss(features, target).detach()  # the second class must win by s·(m − 1) = 1 more
    tensor(0.1301)
    >>> loss.logits(features).detach()  # predictions have no margin
    tensor([[ 3.,  0., -3.],
            [ 0.,  3.,  0.]])
    """

    margins: Tensor
    strength: Tensor
    sample_strength: Tensor
    shift: Tensor

    def __init__(
        self,
        in_features: int,
        classes: int,
        *,
        form: MarginForm = "additive",
        placement: Placement = "all",
        normalize: bool = True,
        sample_level: SampleLevel = "none",
        kappa: float = 0.25,
        margin: float = 1.0,
        strength: float = 0.0,
        multilabel: bool = False,
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
            bias=False,
            dropout=dropout,
            members=members,
            class_counts=class_counts,
            class_weight=class_weight,
            reduction=reduction,
        )
        check_choice("form", form, get_args(MarginForm))
        check_choice("placement", placement, get_args(Placement))
        check_choice("sample_level", sample_level, get_args(SampleLevel))
        if members > 1 and (form != "additive" or sample_level not in ("none", "mixing")):
            raise InvalidInputError(
                f"several members need form='additive' and sample_level='none' or 'mixing', got {form!r} and "
                f"{sample_level!r}; use members=1 with these."
            )
        if not (kappa >= 0 and math.isfinite(kappa)):
            raise InvalidInputError(
                f"kappa must be finite and not negative, got {kappa}; ½ is the bound on the expected loss."
            )
        self.form, self.placement, self.sample_level, self.kappa = form, placement, sample_level, kappa
        self._margin, self._own_strength = margin, strength
        self.register_buffer("margins", torch.ones(self.class_shape))
        self.register_buffer("strength", torch.zeros(()))
        self.register_buffer("sample_strength", torch.ones(()))
        self.register_buffer("shift", torch.zeros(self.class_shape))
        self.margins, self.strength = torch.full(self.class_shape, margin), torch.tensor(strength)  # checked

    def __setattr__(self, name: str, value: Any) -> None:
        if name in LEAST and name in self._buffers:
            value = self._checked_buffer(name, numeric_tensor(value, name))
        super().__setattr__(name, value)

    @property
    def driven_by_curriculum(self) -> bool:
        return self._own_strength == 0

    @property
    def margin_range(self) -> tuple[float, float]:
        return 1.0, self._margin

    @property
    def own_strength(self) -> float:
        return self._own_strength

    @property
    def angular(self) -> bool:
        return self.form == "angular"

    @property
    def mixes_samples(self) -> bool:
        return self.sample_level == "mixing"

    @property
    def divisible(self) -> bool:
        return True

    def clear_margins(self) -> None:
        self.set_strength(0.0, sample_strength=0.0)
        self.shift = torch.zeros_like(self.shift)

    def set_strength(self, strength: float, *, sample_strength: float) -> None:
        self.strength, self.sample_strength = torch.tensor(strength), torch.tensor(sample_strength)

    def aimed_prior(self, prior: Tensor) -> Tensor:
        """Return a balanced prior once a curriculum has set margins, else that of :class:`ClassVectorLoss`."""
        in_force = bool(self.strength > 0) or bool((self.shift != 0).any())
        if self.driven_by_curriculum and in_force:
            return torch.full_like(prior, 1 / prior.shape[-1])
        return super().aimed_prior(prior)

    def project(self, features: Tensor) -> Tensor:
        """Return w_j·f + shift_j, the logits of a prediction."""
        return super().project(features) + self.shift.to(features.dtype)

    def member_logits(self, features: Tensor) -> Tensor:
        found = super().member_logits(features)
        return found if self.members == 1 else found + self.shift.to(features.dtype)

    def forward(
        self,
        features: Tensor,
        target: Tensor,
        *,
        sample_weight: Tensor | None = None,
        error: ErrorMoments | None = None,
    ) -> Tensor:
        """Return the loss of a batch.

        Args:
            features, target, sample_weight: as in :meth:`ClassVectorLoss.forward`.
            error: mean and variance of the error, (batch, classes) each, instead of the closed form; see
                ``error_moments``.
        """
        return self.evaluate(partial(self.sample_losses, error=error), features, target, sample_weight)

    def sample_losses(self, features: Tensor, target: Tensor, error: ErrorMoments | None = None) -> Tensor:
        vectors = self.training_vectors(features)
        adjusted = self.margin_logits(self.dropped(features), vectors, target)
        if self.sample_level not in ("none", "mixing") and self.sample_strength.item() > 0:
            grouped = vectors.detach().view(*self.class_shape, -1)
            adjusted = self._with_sample_level(adjusted, features.detach(), grouped, target, error)
        return self.over_members(softmax_loss(adjusted, self.by_member(target)))

    def mixed_loss(self, features: Tensor, labels: tuple[Tensor, Tensor], weights: tuple[Tensor, Tensor]) -> Tensor:
        features = self.checked_features(features)
        target = self.checked_target(torch.cat(labels), 2 * len(features))
        weight = torch.cat(weights).to(features).div_(-len(features))  # the loss is −Σ weight · log softmax / batch
        weight = weight.unsqueeze(-1) if self.multilabel else weight
        if self.class_weight is not None:
            weight = weight * gather_classes(self.class_weight.to(weight), target)
        both = list(zip(target.split(len(features)), weight.split(len(features)), strict=True))
        with full_precision(features):
            vectors, seen = self.training_vectors(features), self.dropped(features)
            if self.placement == "all":
                return self._weighted_logs(seen, vectors, both)
            # margins that differ by the label
            return self._weighted_logs(seen, vectors, both[:1]) + self._weighted_logs(seen, vectors, both[1:])

    def _weighted_logs(self, features: Tensor, vectors: Tensor, given: list[tuple[Tensor, Tensor]]) -> Tensor:
        """Return Σ weight · log softmax at the given labels, with the margins of the first."""
        logs = self.over_members(self.margin_logits(features, vectors, given[0][0]).log_softmax(-1))
        total = torch.zeros_like(logs)
        for label, weight in given:
            place = label.unsqueeze(-1)
            total.scatter_add_(-1, place, weight.unsqueeze(-1).expand(place.shape))
        return torch.dot(logs.flatten(), total.flatten())

    def training_vectors(self, features: Tensor) -> Tensor:
        """Return class vectors in the features' type, each member's of unit length or clamped."""
        vectors = self.weight.to(torch.promote_types(features.dtype, torch.float32))
        if self.normalize and self.members == 1:
            return unit_vectors(vectors)
        if self.normalize:
            return unit_vectors(vectors.unflatten(-1, (self.members, -1))).flatten(-2)
        # free vectors contribute their length to every logit, which must not overflow
        longest = torch.finfo(vectors.dtype).max ** 0.4
        return vectors.clamp(-longest, longest)

    def margin_logits(self, features: Tensor, vectors: Tensor, target: Tensor) -> Tensor:
        """Return logits with their margins: (batch, classes) or (batch, attributes, 2), with members in front.

        Args:
            features: (batch, D), after dropout.
            vectors: from :meth:`training_vectors`.
            target: labels; −1 for a class that the head lacks, as when processes divide the classes.
        """
        margins, strength = self._placed_margins(target).to(features.dtype), self.strength.to(features.dtype)
        lowered = torch.addcmul(strength, strength, margins, value=-1)  # −s·(m − 1), exactly 0 without margins
        if self.form == "angular" and strength.item() > 0:
            found = angular_logits(features, vectors, margins, strength, unit=self.normalize)
        elif self.placement == "all":
            found = member_products(features, vectors, self.members, lowered)
        else:
            found = member_products(features, vectors, self.members) + lowered
        return found.unflatten(-1, self.class_shape) if self.multilabel else found

    def shard_logits(self, features: Tensor, undropped: Tensor, shard: Shard) -> Tensor:
        vectors, labels = self.training_vectors(features), torch.full((len(features),), -1, device=features.device)
        logits = self.margin_logits(features, vectors, labels.index_put((shard.here,), shard.place))
        if self.sample_level in ("none", "mixing") or self.sample_strength.item() == 0:
            return logits
        if self.dropout.p == 0:
            raise InvalidInputError(f"sample_level={self.sample_level!r} needs dropout above 0 for its closed form.")
        every, true = shard.gathered(undropped.detach()), (shard.here, shard.place)
        if self.sample_level == "expected":
            variance = shard_variance(every, vectors.detach(), shard, rate=self.dropout.p)
            return expected_logits(logits, variance, kappa=self.sample_strength.item() * self.kappa)
        probability = shard_probability(every, vectors.detach(), shard, rate=self.dropout.p)
        share = self.sample_strength.to(logits.dtype)
        return logits.index_put(true, weighted_true_logit(self.sample_level, logits[true], probability, share))

    def _placed_margins(self, target: Tensor) -> Tensor:
        """Return every class's margin, (outputs,), or the true class's and 1 for its rivals, (batch, outputs)."""
        margins = self.margins.flatten()
        if self.placement == "all":
            return margins
        if self.multilabel:
            true = F.one_hot(target, 2).flatten(1).bool()
        else:
            true = target.unsqueeze(-1) == torch.arange(self.classes, device=target.device)
        return torch.where(true, margins, 1.0)

    def _with_sample_level(
        self, adjusted: Tensor, features: Tensor, vectors: Tensor, target: Tensor, error: ErrorMoments | None
    ) -> Tensor:
        """Apply the sample level with σ_E² and F̂ detached: a network must not lower its loss by becoming uncertain."""
        if error is not None:
            mean, variance = given_moments(error, (len(features), *self.class_shape))
            error = ErrorMoments(mean.detach().to(features.dtype), variance.detach().to(features.dtype))
        elif self.dropout.p == 0:
            raise InvalidStateError(
                f"sample_level={self.sample_level!r} needs the features' variance; build the loss with dropout > 0 for "
                "the closed form, or pass error=error_moments(logits, target) from stochastic passes."
            )
        if self.sample_level == "expected":  # needs no mean, which saves a matrix product
            if error is None:
                variance = dropout_error_variance(features, vectors, target, rate=self.dropout.p)
            else:
                variance = error.variance
            return expected_logits(adjusted, variance, kappa=self.sample_strength.item() * self.kappa)
        if error is None:
            probability = closed_probability(features, vectors, target, rate=self.dropout.p)
        else:
            probability = strongest_rival(error, target)
        own, share = target.unsqueeze(-1), self.sample_strength.to(adjusted.dtype)
        true = adjusted.gather(-1, own)
        return adjusted.scatter(-1, own, weighted_true_logit(self.sample_level, true, probability.unsqueeze(-1), share))

    def _checked_buffer(self, name: str, value: Tensor) -> Tensor:
        old, least = self._buffers[name], LEAST[name]
        assert old is not None  # registered as tensors in __init__
        value = value.detach().to(old)
        if value.shape != old.shape:
            raise InvalidInputError(f"{name} must have the shape {tuple(old.shape)}, got {tuple(value.shape)}.")
        if not bool(((value >= least) & value.isfinite()).all()):
            raise InvalidInputError(
                f"{name} must be finite and at least {least:g}, got values from {float(value.min()):g} to "
                f"{float(value.max()):g}; see margins_from_uncertainty."
            )
        return value.clone()

    def extra_repr(self) -> str:
        return (
            f"{super().extra_repr()}, form={self.form!r}, placement={self.placement!r}, normalize={self.normalize}, "
            f"sample_level={self.sample_level!r}"
        )
