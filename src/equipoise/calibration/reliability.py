"""Whether probabilities mean what they say."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InvalidInputError

BINS = 15
SMALLEST = np.finfo(np.float64).tiny


@dataclass(frozen=True)
class Calibration:
    r"""Proper scores and calibration errors; smaller is better. Over n samples and 15 bins b of the confidence:

    .. math:: \mathrm{ECE} = \sum_b \frac{n_b}{n} \left| \mathrm{conf}_b - \mathrm{acc}_b \right|, \qquad
              \mathrm{Brier} = \frac1n \sum_i \sum_c (p_{ic} - [y_i = c])^2

    Args:
        ece: expected calibration error: the probability of the predicted class against how often it is right.
        mean_class_ece, class_ece: the same for each class's own probability against how often the class is true, their
            mean and one a class.
        brier: from 0 to 2; with attributes the mean of (p − y)², from 0 to 1.
        log_loss: −ln p of what is true, mean over the samples (and attributes); a probability of 0 counts as 2e−308.
    """

    ece: float
    mean_class_ece: float
    class_ece: tuple[float, ...]
    brier: float
    log_loss: float


def calibration(
    probabilities: ArrayLike,
    true: NDArray[np.intp],
    predicted: NDArray[np.intp],
    size: int,
    *,
    weight: NDArray[np.float64] | None = None,
) -> Calibration:
    """Of class numbers (samples,) and probabilities (samples, classes); or of 0/1, both (samples, attributes).

    Args:
        weight: how much each answer counts, shaped as ``true``; None is all alike.
    """
    p = checked_probabilities(probabilities, (len(true), size), sums_to_one=true.ndim == 1)
    if true.ndim == 1:
        rows = np.arange(len(true))
        confidence, of_truth = p[rows, predicted], p[rows, true]
        is_true = true[:, None] == np.arange(size) if size * len(true) <= 1 << 24 else None
        square = (p * p).sum(1) - 2 * of_truth + 1
    else:
        confidence, of_truth = np.where(predicted == 1, p, 1 - p), np.where(true == 1, p, 1 - p)
        is_true = true == 1
        square = (p - true) ** 2
    each = []
    for c in range(size):
        own = None if weight is None else weight if weight.ndim == 1 else weight[:, c]
        each.append(binned_error(p[:, c], true == c if is_true is None else is_true[:, c], weight=own))
    flat = None if weight is None else weight.ravel()
    return Calibration(
        ece=binned_error(confidence.ravel(), (true == predicted).ravel(), weight=flat),
        mean_class_ece=float(np.mean(each)),
        class_ece=tuple(each),
        brier=float(np.average(square.ravel(), weights=flat)),
        log_loss=float(np.average(-np.log(of_truth.clip(min=SMALLEST)).ravel(), weights=flat)),
    )


def binned_error(
    confidence: NDArray[np.float64],
    right: NDArray[np.bool_],
    *,
    bins: int = BINS,
    weight: NDArray[np.float64] | None = None,
) -> float:
    """Σ_b (n_b / n) |mean confidence − share right| over ``bins`` intervals (b/bins, (b + 1)/bins] of the confidence.

    >>> binned_error(np.array([0.9, 0.9, 0.6, 0.6]), np.array([True, True, True, False])).__round__(6)
    0.1
    """
    edges = np.arange(bins + 1) / bins
    place = np.searchsorted(edges, confidence, side="left").clip(1, bins) - 1
    counts = np.ones(len(confidence)) if weight is None else weight
    gap = np.bincount(place, weights=counts * (confidence - right), minlength=bins)
    return float(np.abs(gap).sum() / counts.sum())


def checked_probabilities(
    probabilities: ArrayLike, shape: tuple[int, ...], *, sums_to_one: bool = True
) -> NDArray[np.float64]:
    """Probabilities of the shape, within 0 and 1, a sample's (the last axis) adding up; else an error."""
    p = np.asarray(probabilities, dtype=np.float64)
    if p.shape != shape:
        raise InvalidInputError(f"probabilities must have the shape {shape}, samples and classes, got {p.shape}.")
    if not bool(((p >= -1e-6) & (p <= 1 + 1e-6)).all()):
        raise InvalidInputError("probabilities must lie between 0 and 1; apply softmax to logits first.")
    if sums_to_one and not np.allclose(p.sum(-1), 1, atol=1e-3):
        raise InvalidInputError("the probabilities of a sample must sum to 1; apply softmax to logits first.")
    return p.clip(0, 1)
