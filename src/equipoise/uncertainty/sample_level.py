r"""Section 5: each sample is a Gaussian, f ~ N(μ_f, Σ_f), and so is its error against each rival.

The error against rival j is :math:`E_j = (w_j - w_y)^\top f`. Its moments come from stochastic passes
(:func:`error_moments`) or, for dropout on the last features, in closed form (:func:`dropout_error_moments`).
Neither forms Σ_f, nor any (batch × classes × features) tensor.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from equipoise.errors import InvalidInputError
from equipoise.tensor_checks import class_labels, floating_tensor, required_tensor

NUMBERS_AT_ONCE = 2**19
"""Class-vector entries whose squares are held at a time: 2 MB in float32, 1,024 classes of 512 features."""


class ErrorMoments(NamedTuple):
    """Mean μ_E and variance σ_E² of the error against every class; both 0 at the true class itself.

    Args:
        mean: (batch, classes), or (batch, attributes, 2) for several labels.
        variance: of the same shape.

    >>> moments = ErrorMoments(mean=torch.tensor([[0.0, -2.0, 1.0]]), variance=torch.tensor([[0.0, 4.0, 4.0]]))
    >>> misclassification_probability(*moments)
    tensor([[0.5000, 0.1587, 0.6915]])
    """

    mean: Tensor  # (batch, classes), or (batch, attributes, 2) for several labels
    variance: Tensor


def misclassification_probability(mean: Tensor, variance: Tensor) -> Tensor:
    r"""Return F̂ = P(E > 0) for the error E ~ N(mean, variance): the CCDF of section 5, element by element.

    .. math:: \hat F = \tfrac12 \bigl(1 + \mathrm{erf}(\mu_E / \sqrt{2 \sigma_E^2})\bigr)

    Without variance it is the step function: 0, ½ or 1 as the mean is below, at or above zero.

    Args:
        mean, variance: moments of the error, of any shape, the same for both.

    >>> misclassification_probability(torch.tensor([-2.0, 0.0, 2.0]), torch.tensor([4.0, 4.0, 0.0]))
    tensor([0.1587, 0.5000, 1.0000])
    """
    required_tensor(variance, "variance")
    floating_tensor(mean, "mean")
    if variance.numel() and not torch.compiler.is_compiling() and not variance.detach().amin().item() >= 0:
        raise InvalidInputError(
            f"variance must not be negative, got {variance.min().item():g}; give σ², as error_moments does."
        )
    dtype = torch.promote_types(mean.dtype, torch.float32)  # the smallest half-precision variance is too coarse
    spread = variance.to(dtype).clamp_min(torch.finfo(dtype).tiny).sqrt()
    probability: Tensor = 0.5 * torch.special.erfc(-mean.to(dtype) / spread * math.sqrt(0.5))
    return probability.to(mean.dtype)


def strongest_rival(error: ErrorMoments, target: Tensor) -> Tensor:
    """Return the largest F̂ over the rivals j ≠ y, (batch,), or (batch, attributes).

    Args:
        error: moments of the error, (batch, classes), or (batch, attributes, 2).
        target: (batch,), or (batch, attributes).

    >>> error = ErrorMoments(torch.tensor([[0.0, -2.0, -1.0]]), torch.tensor([[0.0, 4.0, 4.0]]))
    >>> strongest_rival(error, torch.tensor([0]))
    tensor([0.3085])
    """
    probability = misclassification_probability(*error)
    return probability.scatter(-1, required_tensor(target, "target").long().unsqueeze(-1), 0.0).amax(-1)


def error_moments(logits: Tensor, target: Tensor) -> ErrorMoments:
    """Return the moments of E over stochastic passes.

    Args:
        logits: (passes, batch, classes); for several labels (passes, batch, attributes, 2).
        target: (batch,), or (batch, attributes).

    >>> logits = torch.tensor([[[2.0, 0.0]], [[4.0, 0.0]]])  # two passes of one sample
    >>> error_moments(logits, torch.tensor([0]))
    ErrorMoments(mean=tensor([[ 0., -3.]]), variance=tensor([[0., 1.]]))
    """
    required_tensor(logits, "logits")
    required_tensor(target, "target")
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
    index = class_labels(target, logits.shape[-1]).unsqueeze(-1).expand(logits.shape[0], *target.shape, 1)
    error = logits - logits.gather(-1, index)  # (passes, batch, classes)
    variance, mean = torch.var_mean(error, dim=0, correction=0)
    return ErrorMoments(mean, variance)


def dropout_error_moments(features: Tensor, vectors: Tensor, target: Tensor, *, rate: float) -> ErrorMoments:
    r"""Return the moments of E in closed form, for dropout of rate p directly before the class vectors.

    .. math:: \mu_j = (w_j - w_y)^\top f, \qquad
              \sigma_j^2 = \sum_d (w_j - w_y)_d^2 \, f_d^2 \, \frac{p}{1 - p}

    Half precision is widened to float32. Every finite input has finite moments: entries that are too large for their
    products (in float32 and at p ≤ ½ features past 8·10¹²/√D, vectors past 6·10⁵) are clipped to the largest allowed.

    Args:
        features: (batch, D), *before* dropout.
        vectors: class vectors (classes, D), or (attributes, 2, D) for several labels.
        target: (batch,), or (batch, attributes).
        rate: share of the features dropped, in [0, 1).

    >>> features, vectors = torch.tensor([[2.0, 0.0]]), torch.eye(2)
    >>> dropout_error_moments(features, vectors, torch.tensor([0]), rate=0.5)
    ErrorMoments(mean=tensor([[ 0., -2.]]), variance=tensor([[0., 4.]]))
    """
    features, vectors, target = _checked(features, vectors, target, rate)
    variance = _closed_variance(features, vectors, target, rate)
    parts = vectors.flatten(0, -2).split(_rows_at_once(vectors))
    mean = torch.cat([features @ _bounded(part).T for part in parts], dim=-1).unflatten(-1, vectors.shape[:-1])
    return ErrorMoments(mean - mean.gather(-1, target.unsqueeze(-1)), variance)


def dropout_error_variance(features: Tensor, vectors: Tensor, target: Tensor, *, rate: float) -> Tensor:
    """Return only σ_E² of :func:`dropout_error_moments`: two matrix products, whatever the number of classes.

    Args:
        features, vectors, target, rate: as in :func:`dropout_error_moments`.

    Returns:
        (batch, classes), or (batch, attributes, 2)

    >>> dropout_error_variance(torch.tensor([[2.0, 1.0]]), torch.eye(2), torch.tensor([0]), rate=0.2)
    tensor([[0.0000, 1.2500]])
    """
    return _closed_variance(*_checked(features, vectors, target, rate), rate)


def _closed_variance(features: Tensor, vectors: Tensor, target: Tensor, rate: float) -> Tensor:
    largest = torch.finfo(features.dtype).max ** 0.8  # so that a batch of variances has a finite sum
    spread = features.square() * (rate / (1 - rate))  # Var[f_d] under dropout, (batch, D)
    if vectors.ndim == 3:  # one pair of class vectors per attribute: one rival, one difference
        pairs = _bounded(vectors)
        own = (spread @ (pairs[:, 1] - pairs[:, 0]).square().T).clamp_max_(largest)  # (batch, attributes)
        return torch.stack((own * target, own * (1 - target)), dim=-1)
    true = _bounded(vectors[target])  # w_y, (batch, D)
    across = spread * true
    # Square class vectors in chunks: with thousands of classes, their squares would be as large as the head.
    parts = [_part(spread, across, _bounded(part)) for part in vectors.split(_rows_at_once(vectors))]
    variance = parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
    variance = variance.add_((spread * true.square()).sum(-1, keepdim=True))
    return variance.clamp_(0, largest).scatter_(-1, target.unsqueeze(-1), 0.0)


def _part(spread: Tensor, across: Tensor, vectors: Tensor) -> Tensor:
    """Return Σ_d w_j² v − 2 Σ_d w_j w_y v for some of the classes."""
    return (spread @ vectors.square().T).addmm_(across, vectors.T, alpha=-2)


def _bounded(vectors: Tensor) -> Tensor:
    """Clip entries so that no square or sum of them overflows: to ±6·10⁵ in float32."""
    longest = torch.finfo(vectors.dtype).max ** 0.15
    return vectors.clamp(-longest, longest)


def _rows_at_once(vectors: Tensor) -> int:
    return max(1, NUMBERS_AT_ONCE // max(1, vectors.shape[-1]))


def _checked(features: Tensor, vectors: Tensor, target: Tensor, rate: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the three after all checks, at least float32, with features clipped so that no sum over D overflows."""
    if not 0 <= rate < 1:
        raise InvalidInputError(f"rate must lie in [0, 1), got {rate}; it is the share of features dropped.")
    _check_features(features, vectors, target)
    labels = class_labels(target, vectors.shape[-2])
    dtype = torch.promote_types(torch.promote_types(features.dtype, vectors.dtype), torch.float32)
    most, odds = torch.finfo(dtype).max, max(1.0, rate / (1 - rate))
    # bound of a feature: D·odds·f²·(2w)² ≤ most/4, for vectors within _bounded
    farthest = (most**0.7 / (16 * max(1, features.shape[1]) * odds)) ** 0.5
    return features.to(dtype).clamp(-farthest, farthest), vectors.to(dtype), labels


def _check_features(features: Tensor, vectors: Tensor, target: Tensor) -> None:
    required_tensor(vectors, "vectors")
    required_tensor(target, "target")
    floating_tensor(features, "features")
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
    if not all(math.isfinite(float(bound)) for bound in features.detach().aminmax()):  # ten times faster than isfinite
        raise InvalidInputError("features must be finite, got NaN or infinity; check the layers that produced them.")


def given_moments(error: ErrorMoments, shape: tuple[int, ...]) -> ErrorMoments:
    """Return the caller's ``error``, also if it is a plain pair, after checking the shape of both tensors."""
    if not (isinstance(error, tuple) and len(error) == 2):
        raise InvalidInputError(
            f"error must be a pair of a mean and a variance, got {type(error).__name__}; use error_moments."
        )
    mean, variance = required_tensor(error[0], "error's mean"), required_tensor(error[1], "error's variance")
    if mean.shape != shape or variance.shape != shape:
        raise InvalidInputError(
            f"error must hold a mean and a variance of shape {shape}, got {tuple(mean.shape)} and "
            f"{tuple(variance.shape)}; use error_moments."
        )
    return ErrorMoments(mean, variance)
