"""The paper's loss: margins from class uncertainty (section 4) and from sample uncertainty (section 5)."""

from functools import partial
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from equipoise.errors import InvalidInputError, InvalidStateError
from equipoise.losses.class_weights import ClassWeight
from equipoise.losses.head import SHORTEST, ClassVectorLoss, Reduction, gather_classes, softmax_loss
from equipoise.losses.psi import Gradient, psi
from equipoise.uncertainty.samples import (
    ErrorMoments,
    dropout_error_moments,
    dropout_error_variance,
    strongest_rival,
)

Form = Literal["angular", "additive"]
Placement = Literal["target", "all"]
SampleLevel = Literal["none", "expected", "complement", "printed"]


def angular_margin(
    logits: Tensor, length: Tensor, margins: Tensor, strength: Tensor, *, gradient: Gradient = "exact"
) -> Tensor:
    """‖w‖‖f‖(cos α + s·(ψ(α) − cos α)): softmax at s = 0, the paper's ψ at s = 1, L-Softmax's blend between.

    ``length`` is ‖w‖‖f‖, so that logits = length·cos α; a vector without direction is given cos α = 0.
    """
    cosine = logits / length.clamp_min(SHORTEST)
    return logits + strength * length * (psi(cosine, margins, gradient=gradient) - cosine)


def additive_margin(logits: Tensor, margins: Tensor, strength: Tensor) -> Tensor:
    """‖w‖‖f‖cos α − s·(m − 1)."""
    return logits - strength * (margins - 1)


def expected_logits(logits: Tensor, variance: Tensor, *, kappa: Tensor | float) -> Tensor:
    """Rival logits raised by κ·σ_E²: at κ = ½ their softmax loss bounds the expected loss over f ~ N(μ, Σ).

    E log Σ_j exp(E_j) ≤ log Σ_j E exp(E_j) = log Σ_j exp(μ_j + σ_j²/2), by Jensen; σ² is 0 at the true class.
    """
    return logits + kappa * variance


def complement_weight(true_logit: Tensor, probability: Tensor) -> Tensor:
    """t·(1 − F̂) where t > 0 and t·(1 + F̂) where t < 0: the likelier a mistake, the stricter, never a reward."""
    return true_logit - probability * true_logit.abs()


def printed_weight(true_logit: Tensor, probability: Tensor, share: Tensor | float = 1.0) -> Tensor:
    """F̂·t as printed: it wipes out the true logit of just the samples that are certain and right."""
    return true_logit * (1 - share * (1 - probability))


class UncertaintyMarginLoss(ClassVectorLoss):
    """Class vectors and the paper's loss in one module; plain softmax until ``margins`` and ``strength`` are set.

    Args:
        form: ``"additive"`` lowers logits by s·(m − 1); ``"angular"``, the paper's, bends the angle by ψ.
        placement: ``"all"`` puts every class's margin on its own logit (the paper's constraint), ``"target"``
            only the true class's (the paper's loss, which can move the odds by a factor of 2 at the most).
        normalize: class vectors of unit length; without it, as printed, training can shrink the vector of just
            the class that has a margin.
        sample_level: ``"expected"`` raises the rivals by κ·σ_E², ``"complement"`` and ``"printed"`` weigh the true
            logit by F̂, the probability of a mistake. Each needs σ_E²: from ``dropout`` in closed form, or
            from ``error`` in the call.
        kappa: κ of ``"expected"``; ½ is the bound on the expected loss, less tempers it.
        gradient: ψ's own (``"exact"``) or the cosine's (``"detached"``).
        multilabel, dropout, class_counts, class_weight, reduction: as in :class:`ClassVectorLoss`.

    Buffers, all in the ``state_dict``: ``margins`` (m_c ≥ 1, 1 at the start), ``strength`` (s ≥ 0, 0 at the start),
    ``sample_strength`` (share of the sample level, 1 at the start).

    >>> loss = UncertaintyMarginLoss(in_features=4, classes=3)
    >>> loss.margins = torch.tensor([1.0, 1.0, 3.0])
    >>> loss.strength = 0.5
    >>> loss(torch.randn(8, 4), torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])).shape
    torch.Size([])
    """

    margins: Tensor
    strength: Tensor
    sample_strength: Tensor

    def __init__(
        self,
        in_features: int,
        classes: int,
        *,
        form: Form = "additive",
        placement: Placement = "all",
        normalize: bool = True,
        sample_level: SampleLevel = "none",
        kappa: float = 0.25,
        gradient: Gradient = "exact",
        margin: float = 1.0,
        strength: float = 0.0,
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
            normalize=normalize,
            bias=False,
            dropout=dropout,
            class_counts=class_counts,
            class_weight=class_weight,
            reduction=reduction,
        )
        for name, value, choices in (
            ("form", form, get_args(Form)),
            ("placement", placement, get_args(Placement)),
            ("sample_level", sample_level, get_args(SampleLevel)),
            ("gradient", gradient, get_args(Gradient)),
        ):
            if value not in choices:
                raise InvalidInputError(f"{name} must be one of {', '.join(choices)}, got {value!r}.")
        if not kappa >= 0:
            raise InvalidInputError(f"kappa must not be negative, got {kappa}; ½ is the bound on the expected loss.")
        self.form, self.placement, self.gradient = form, placement, gradient
        self.sample_level, self.kappa = sample_level, kappa
        self.register_buffer("margins", torch.ones(self.class_shape))
        self.register_buffer("strength", torch.zeros(()))
        self.register_buffer("sample_strength", torch.ones(()))
        self.margins = torch.full(self.class_shape, margin)
        self.strength = torch.tensor(strength)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("margins", "strength", "sample_strength") and name in self._buffers:
            value = self._checked_buffer(name, torch.as_tensor(value))
        super().__setattr__(name, value)

    def forward(
        self,
        features: Tensor,
        target: Tensor,
        *,
        sample_weight: Tensor | None = None,
        error: ErrorMoments | None = None,
    ) -> Tensor:
        """The loss of a batch; ``error`` replaces the closed form of the sample level, see ``error_moments``."""
        return self.evaluate(partial(self.sample_losses, error=error), features, target, sample_weight)

    def sample_losses(self, features: Tensor, target: Tensor, error: ErrorMoments | None = None) -> Tensor:
        vectors = self.class_vectors(features.dtype)
        seen = self.dropout(features)
        logits = (seen @ vectors.T).unflatten(-1, self.class_shape)  # ‖w‖‖f‖cos α
        adjusted = self._with_margins(logits, seen, vectors, target)
        if self.sample_level != "none" and bool(self.sample_strength > 0):
            grouped = vectors.detach().unflatten(0, self.class_shape)
            adjusted = self._with_sample_level(adjusted, features.detach(), grouped, target, error)
        return softmax_loss(adjusted, target)

    def _with_margins(self, logits: Tensor, features: Tensor, vectors: Tensor, target: Tensor) -> Tensor:
        if not bool(self.strength > 0):
            return logits  # softmax, to the last bit
        margins, strength = self.margins.to(logits.dtype), self.strength.to(logits.dtype)
        if self.placement == "all":
            return self._margin(logits, self._length(features, vectors), margins, strength)
        own = target.unsqueeze(-1)
        true = logits.gather(-1, own)
        length = self._length(features, vectors)
        if length is not None:
            length = length.expand_as(logits).gather(-1, own)
        moved = self._margin(true, length, gather_classes(margins, target).unsqueeze(-1), strength)
        return logits.scatter_add(-1, own, moved - true)

    def _margin(self, logits: Tensor, length: Tensor | None, margins: Tensor, strength: Tensor) -> Tensor:
        if length is None:
            return additive_margin(logits, margins, strength)
        return angular_margin(logits, length, margins, strength, gradient=self.gradient)

    def _length(self, features: Tensor, vectors: Tensor) -> Tensor | None:
        """‖w‖‖f‖ where the form needs it: (batch, 1...), or (batch, *class_shape) for free class vectors."""
        if self.form == "additive":
            return None
        length: Tensor = torch.linalg.vector_norm(features, dim=-1).view(-1, *[1] * len(self.class_shape))
        if self.normalize:
            return length
        free: Tensor = length * torch.linalg.vector_norm(vectors, dim=-1).view(self.class_shape)
        return free

    @torch.no_grad()
    def _moments(self, features: Tensor, vectors: Tensor, target: Tensor, error: ErrorMoments | None) -> ErrorMoments:
        """μ_E and σ_E², detached: the network must not earn loss by becoming uncertain."""
        if error is not None:
            shape = (len(features), *self.class_shape)
            if error.mean.shape != shape or error.variance.shape != shape:
                raise InvalidInputError(
                    f"error must hold a mean and a variance of shape {shape}, got {tuple(error.mean.shape)} and "
                    f"{tuple(error.variance.shape)}; error_moments gives them."
                )
            return ErrorMoments(error.mean.detach().to(features.dtype), error.variance.detach().to(features.dtype))
        if self.dropout.p == 0:
            raise InvalidStateError(
                f"sample_level={self.sample_level!r} needs the features' variance; build the loss with dropout > 0 for "
                "the closed form, or pass error=error_moments(logits, target) from stochastic passes."
            )
        if self.sample_level == "expected":  # needs no mean, so one product less
            variance = dropout_error_variance(features, vectors, target, rate=self.dropout.p)
            return ErrorMoments(torch.zeros_like(variance), variance)
        return dropout_error_moments(features, vectors, target, rate=self.dropout.p)

    def _with_sample_level(
        self, adjusted: Tensor, features: Tensor, vectors: Tensor, target: Tensor, error: ErrorMoments | None
    ) -> Tensor:
        moments = self._moments(features, vectors, target, error)
        share = self.sample_strength.to(adjusted.dtype)
        if self.sample_level == "expected":
            return expected_logits(adjusted, moments.variance, kappa=share * self.kappa)
        own = target.unsqueeze(-1)
        probability = strongest_rival(moments, target).unsqueeze(-1)  # F̂
        true = adjusted.gather(-1, own)
        if self.sample_level == "complement":
            return adjusted.scatter(-1, own, complement_weight(true, share * probability))
        return adjusted.scatter(-1, own, printed_weight(true, probability, share))

    def _checked_buffer(self, name: str, value: Tensor) -> Tensor:
        old, least = self._buffers[name], 1.0 if name == "margins" else 0.0
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
