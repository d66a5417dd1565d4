r"""Section 5: each sample is a Gaussian, f ~ N(μ_f, Σ_f), and its error against each rival is one too.

The error against rival j is :math:`E_j = (w_j - w_y)^\top f`. Its moments come from stochastic passes
(:func:`error_moments`) or, for dropout on the last features, in closed form (:func:`dropout_error_moments`).
Neither forms Σ_f, nor any (batch × classes × features) tensor.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from equipoise.errors import InvalidInputError


class ErrorMoments(NamedTuple):
    """Mean μ_E and variance σ_E² of the error against every class; both 0 at the true class itself."""

    mean: Tensor  # (batch, classes), or (batch, attributes, 2) for several labels
    variance: Tensor


def misclassification_probability(mean: Tensor, variance: Tensor) -> Tensor:
    r"""F̂ = P(E > 0) for the error E ~ N(mean, variance): the CCDF of section 5, one value an element.

    .. math:: \hat F = \tfrac12 \bigl(1 + \mathrm{erf}(\mu_E / \sqrt{2 \sigma_E^2})\bigr)

    Without variance it is the step function: 0, ½ or 1 as the mean is below, at or above zero.

    >>> misclassification_probability(torch.tensor([-2.0, 0.0, 2.0]), torch.tensor([4.0, 4.0, 0.0]))
    tensor([0.1587, 0.5000, 1.0000])
    """
    if not mean.is_floating_point():
        raise InvalidInputError(f"mean must be a floating-point tensor, got {mean.dtype}; call .float() first.")
    dtype = torch.promote_types(mean.dtype, torch.float32)  # a half's smallest variance is no step function
    spread = variance.to(dtype).clamp_min(torch.finfo(dtype).tiny).sqrt()
    probability: Tensor = 0.5 * torch.special.erfc(-mean.to(dtype) / spread * math.sqrt(0.5))
    return probability.to(mean.dtype)


def strongest_rival(error: ErrorMoments, target: Tensor) -> Tensor:
    """The largest F̂ over the rivals j ≠ y: (batch, classes) -> (batch,)."""
    probability = misclassification_probability(error.mean, error.variance)
    return probability.scatter(-1, target.long().unsqueeze(-1), 0.0).amax(-1)


def error_moments(logits: Tensor, target: Tensor) -> ErrorMoments:
    """Moments of E over stochastic passes: logits (passes, batch, classes), target (batch,).

    Several labels: logits (passes, batch, attributes, 2) and target (batch, attributes).
    """
    if logits.ndim != target.ndim + 2 or logits.shape[1:-1] != target.shape:
        raise InvalidInputError(
            f"logits must have the shape (passes, *target.shape, classes), got {tuple(logits.shape)} for a target "
            f"of shape {tuple(target.shape)}; stack the passes in front."
        )
    if not logits.is_floating_point() or logits.shape[0] < 2:
        raise InvalidInputError(
            f"logits must be floating point from at least 2 passes, got {logits.dtype} from {logits.shape[0]}; one "
            "pass has no variance."
        )
    _check_labels(target, logits.shape[-1])
    index = target.long().unsqueeze(-1).expand(logits.shape[0], *target.shape, 1)
    error = logits - logits.gather(-1, index)  # (passes, batch, classes)
    variance, mean = torch.var_mean(error, dim=0, correction=0)
    return ErrorMoments(mean, variance)


def dropout_error_moments(features: Tensor, vectors: Tensor, target: Tensor, *, rate: float) -> ErrorMoments:
    r"""Moments of E in closed form, for dropout with ``rate`` = p on the features that meet the class vectors.

    .. math:: \mu_j = (w_j - w_y)^\top f, \qquad
              \sigma_j^2 = \sum_d (w_j - w_y)_d^2 \, f_d^2 \, \frac{p}{1 - p}

    Args:
        features: (batch, D), *before* dropout.
        vectors: class vectors (classes, D), or (attributes, 2, D) for several labels.
        target: (batch,), or (batch, attributes).
        rate: share of the features dropped, in [0, 1).
    """
    variance = dropout_error_variance(features, vectors, target, rate=rate)
    mean = (features @ vectors.flatten(0, -2).T).unflatten(-1, vectors.shape[:-1])
    return ErrorMoments(mean - mean.gather(-1, target.long().unsqueeze(-1)), variance)


def dropout_error_variance(features: Tensor, vectors: Tensor, target: Tensor, *, rate: float) -> Tensor:
    """σ_E² of :func:`dropout_error_moments` alone: two matrix products, whatever the number of classes."""
    if not 0 <= rate < 1:
        raise InvalidInputError(f"rate is the share of features dropped and must lie in [0, 1), got {rate}.")
    _check_features(features, vectors, target)
    _check_labels(target, vectors.shape[-2])
    target = target.long()
    largest = torch.finfo(features.dtype).max ** 0.8  # so that no product below overflows into ∞ − ∞
    spread = features.square().clamp_max_(largest) * (rate / (1 - rate))  # Var[f_d] under dropout, (batch, D)
    if vectors.ndim == 3:  # a pair of class vectors an attribute: one rival, one difference
        own = spread @ (vectors[:, 1] - vectors[:, 0]).square().T  # (batch, attributes)
        return torch.stack((own * target, own * (1 - target)), dim=-1)
    true = vectors[target]  # w_y, (batch, D)
    variance = spread @ vectors.square().T  # Σ w_j² v
    variance.addmm_(spread * true, vectors.T, alpha=-2).add_((spread * true.square()).sum(-1, keepdim=True))
    return variance.clamp_min_(0).scatter_(-1, target.unsqueeze(-1), 0.0)


def _check_features(features: Tensor, vectors: Tensor, target: Tensor) -> None:
    if not features.is_floating_point():
        raise InvalidInputError(f"features must be floating point, got {features.dtype}; call .float() on them.")
    if features.ndim != 2 or vectors.ndim not in (2, 3) or features.shape[1] != vectors.shape[-1]:
        raise InvalidInputError(
            f"features must be (batch, D) and vectors (classes, D) or (attributes, 2, D), got {tuple(features.shape)} "
            f"and {tuple(vectors.shape)}; D must be the same."
        )
    expected = (features.shape[0], *vectors.shape[:-2])
    if tuple(target.shape) != expected:
        raise InvalidInputError(f"target must have the shape {expected}, got {tuple(target.shape)}.")
    if features.numel() == 0 or torch.compiler.is_compiling():
        return
    if not all(math.isfinite(float(bound)) for bound in features.detach().aminmax()):  # a tenth of isfinite's time
        raise InvalidInputError("features must be finite, got NaN or infinity; look at the layers that made them.")


def _check_labels(target: Tensor, classes: int) -> None:
    if target.is_floating_point() or target.is_complex() or target.dtype == torch.bool:
        raise InvalidInputError(f"target must hold integer labels, got {target.dtype}; call .long() first.")
    if target.numel() == 0 or torch.compiler.is_compiling():
        return
    if int(target.min()) < 0 or int(target.max()) >= classes:
        raise InvalidInputError(
            f"target has labels from {int(target.min())} to {int(target.max())} but there are {classes} classes "
            f"(0 to {classes - 1}); check the labels."
        )
