"""Change logits by the uncertainty of a sample: the paper's F̂·ψ (section 5) as printed, and two forms that work."""

import math

import torch
from torch import Tensor

from equipoise.family_names import SampleLevel
from equipoise.uncertainty.sample_level import dropout_error_moments, strongest_rival

NUMBERS_AT_ONCE = 2**18
"""Probabilities computed at a time: 30 samples of 8,631 classes."""


def expected_logits(logits: Tensor, variance: Tensor, *, kappa: float) -> Tensor:
    """Raise rival logits by κ·σ_E²: at κ = ½ their softmax loss bounds the expected loss over f ~ N(μ, Σ).

    E log Σ_j exp(E_j) ≤ log Σ_j E exp(E_j) = log Σ_j exp(μ_j + σ_j²/2), by Jensen; σ² is 0 at the true class.
    """
    return torch.add(logits, variance, alpha=kappa)


def complement_weight(true_logit: Tensor, probability: Tensor) -> Tensor:
    """Return t·(1 − F̂) where t > 0, t·(1 + F̂) where t < 0: stricter the likelier a mistake, never a reward."""
    return true_logit - probability * true_logit.abs()


def printed_weight(true_logit: Tensor, probability: Tensor, share: Tensor | float = 1.0) -> Tensor:
    """Return F̂·t as printed, which erases the true logit of exactly the samples that are certain and right."""
    return true_logit * (1 - share * (1 - probability))


def weighted_true_logit(level: SampleLevel, true_logit: Tensor, probability: Tensor, share: Tensor) -> Tensor:
    """Return the true logit as the level ``"complement"`` or ``"printed"`` weighs it, at a share of its strength."""
    if level == "complement":
        return complement_weight(true_logit, share * probability)
    return printed_weight(true_logit, probability, share)


def closed_probability(features: Tensor, vectors: Tensor, target: Tensor, *, rate: float) -> Tensor:
    """Return F̂ against the strongest rival under dropout, in chunks: intermediate tensors take several times its size.

    Args:
        features, vectors, target, rate: as in :func:`~equipoise.uncertainty.sample_level.dropout_error_moments`.
    """
    rows = max(1, NUMBERS_AT_ONCE // math.prod(vectors.shape[:-1]))
    parts = [
        strongest_rival(dropout_error_moments(part, vectors, labels, rate=rate), labels)
        for part, labels in zip(features.split(rows), target.split(rows), strict=True)
    ]
    return torch.cat(parts)
