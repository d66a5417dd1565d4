"""Change logits by the uncertainty of a sample: the paper's F̂·ψ (section 5) as printed, and two forms that work."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from equipoise.losses.class_vector_loss import Shard
from equipoise.registry_names import SampleLevel
from equipoise.uncertainty.sample_level import (
    dropout_error_moments,
    dropout_error_variance,
    misclassification_probability,
    strongest_rival,
)

NUMBERS_AT_ONCE = 2**18
"""Probabilities computed at a time: 30 samples of 8,631 classes."""
VECTORS_AT_ONCE = 8192
"""Number of class vectors of a shard whose errors are computed at a time."""


def expected_logits(logits: Tensor, variance: Tensor, *, kappa: float) -> Tensor:
    """Raise rival logits by κ·σ_E²: at κ = ½ their softmax loss bounds the expected loss over f ~ N(μ, Σ).

    E log Σ_j exp(E_j) ≤ log Σ_j E exp(E_j) = log Σ_j exp(μ_j + σ_j²/2), by Jensen; σ² is 0 at the true class.
    """
    return torch.add(logits, variance, alpha=kappa)


def complement_weight(true_logit: Tensor, probability: Tensor) -> Tensor:
    """Return t·(1 − F̂) if t > 0, t·(1 + F̂) if t < 0: stricter the likelier a mistake, and never a reward."""
    return true_logit - probability * true_logit.abs()


def printed_weight(true_logit: Tensor, probability: Tensor, share: Tensor | float = 1.0) -> Tensor:
    """Return F̂·t as printed, which erases the true logit of exactly those samples that are certain and correct."""
    return true_logit * (1 - share * (1 - probability))


def weighted_true_logit(level: SampleLevel, true_logit: Tensor, probability: Tensor, share: Tensor) -> Tensor:
    """Return the true logit weighted by the level ``"complement"`` or ``"printed"``, at a share of its strength."""
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


def shard_variance(features: Tensor, vectors: Tensor, shard: Shard, *, rate: float) -> Tensor:
    """Return σ_E² under dropout of all samples against the classes of one process: (samples, classes).

    Args:
        features: of the samples of all processes, (samples, D).
        vectors: of the process's classes, (classes, D).
    """
    found = [dropout_error_variance(features, *rivals, rate=rate) for rivals in _rivals(features, vectors, shard)]
    return _without_true([each[:, : -len(features)] for each in found], shard)


def shard_probability(features: Tensor, vectors: Tensor, shard: Shard, *, rate: float) -> Tensor:
    """Return F̂ against the strongest rival on any process, for the samples whose class this one has, (here,)."""
    found = [dropout_error_moments(features, *rivals, rate=rate) for rivals in _rivals(features, vectors, shard)]
    mistakes = [misclassification_probability(*(each[:, : -len(features)] for each in part)) for part in found]
    return shard.largest(_without_true(mistakes, shard).amax(-1))[shard.here]


def _rivals(features: Tensor, vectors: Tensor, shard: Shard) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield some class vectors with every sample's own true vector behind them, and the places of the latter."""
    true = torch.zeros_like(features)
    true[shard.here] = vectors[shard.place]
    true = shard.summed(true)  # w_y of every sample, which other processes may have, (samples, D)
    for part in vectors.split(VECTORS_AT_ONCE):
        yield torch.cat((part, true)), len(part) + torch.arange(len(true), device=part.device)


def _without_true(parts: list[Tensor], shard: Shard) -> Tensor:
    every = torch.cat(parts, dim=-1)
    return every.index_put((shard.here, shard.place), torch.zeros((), dtype=every.dtype))
