"""Proper scores, calibration errors and reliability diagrams."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.calibration.class_prior import checked_probabilities, move_prior

BINS = 15
SMALLEST = np.finfo(np.float64).tiny
CERTAIN = np.finfo(np.float64).eps
"""Smallest probability in log loss, as in scikit-learn; forests often predict 0."""


@dataclass(frozen=True)
class Calibration:
    r"""Proper scores and calibration errors; smaller is better.

    Over n samples and 15 bins b of the confidence:

    .. math:: \mathrm{ECE} = \sum_b \frac{n_b}{n} \left| \mathrm{conf}_b - \mathrm{acc}_b \right|, \qquad
              \mathrm{Brier} = \frac1n \sum_i \sum_c (p_{ic} - [y_i = c])^2

    Args:
        ece: expected calibration error: the probability of the predicted class against how often it is right.
        mean_class_ece, class_ece: the same for each class's own probability against how often the class is true: their
            mean, and one per class.
        brier: from 0 to 2; with attributes the mean of (p − y)², from 0 to 1.
        log_loss: −ln p of the true label, mean over samples (and attributes); a probability of 0 counts as 2e−16.
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
    """Measure the calibration of probabilities.

    Args:
        probabilities: (samples, classes); with attributes, those of a 1, (samples, attributes).
        true, predicted: class indices, (samples,), or 0 and 1, (samples, attributes).
        size: number of classes or attributes.
        weight: weight of each prediction, shaped like ``true``; None weighs all equally.
    """
    p = checked_probabilities(probabilities, (len(true), size), sums_to_one=true.ndim == 1)
    confidence = p[np.arange(len(true)), predicted] if true.ndim == 1 else np.where(predicted == 1, p, 1 - p)
    square, surprise = sample_losses(p, true)
    each = []
    for c in range(size):
        own = None if weight is None else weight if weight.ndim == 1 else weight[:, c]
        each.append(binned_error(p[:, c], true == c if true.ndim == 1 else true[:, c] == 1, weight=own))
    flat = None if weight is None else weight.ravel()
    return Calibration(
        ece=binned_error(confidence.ravel(), (true == predicted).ravel(), weight=flat),
        mean_class_ece=float(np.mean(each)),
        class_ece=tuple(each),
        brier=float(np.average(square.ravel(), weights=flat)),
        log_loss=float(np.average(surprise.ravel(), weights=flat)),
    )


def sample_losses(
    probabilities: NDArray[np.float64], true: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return each sample's contribution to the Brier score and to log loss, shaped like ``true``.

    >>> [part.round(3).tolist() for part in sample_losses(np.array([[0.8, 0.2]]), np.array([1]))]
    [[1.28], [1.609]]
    """
    if true.ndim == 1:
        of_truth = probabilities[np.arange(len(true)), true]
        square = (probabilities * probabilities).sum(1) - 2 * of_truth + 1
    else:
        of_truth = np.where(true == 1, probabilities, 1 - probabilities)
        square = (probabilities - true) ** 2
    return square, -np.log(of_truth.clip(min=CERTAIN))


def calibration_at_prior(
    probabilities: NDArray[Any],
    true: NDArray[np.int64],
    predicted: NDArray[np.int64],
    *,
    old: ArrayLike,
    new: ArrayLike,
) -> Calibration:
    """Measure calibration at another class prior.

    Samples are weighted so that their classes are as common as in ``new``; classes without samples are left out.

    Args:
        probabilities, true, predicted: as in :func:`calibration`.
        old: the class prior of the probabilities, (classes,) or (attributes, 2).
        new: the prior to measure at, of the same shape.
    """
    p, prior = np.asarray(probabilities, dtype=np.float64), np.asarray(new, dtype=np.float64)
    if true.ndim == 1:
        counts = np.bincount(true, minlength=len(prior))
        weight = (prior / np.maximum(counts, 1))[true] * len(true)
        return calibration(move_prior(p, old=old, new=prior), true, predicted, len(prior), weight=weight)
    moved = move_prior(np.stack((1 - p, p), axis=-1), old=old, new=prior)[..., 1]
    ones = true.mean(0)
    shares = np.stack((1 - ones, ones), axis=-1)
    ratio = prior / np.where(shares > 0, shares, 1)
    weight = np.where(true == 1, ratio[:, 1], ratio[:, 0])
    return calibration(moved, true, predicted, len(prior), weight=weight)


@dataclass(frozen=True)
class ReliabilityDiagram:
    """Predictions binned by their probability; empty bins are left out.

    Args:
        confidence, right: mean probability and share of correct predictions, one entry per bin.
        count: predictions in the bin.
        ece: expected calibration error.
    """

    confidence: NDArray[np.float64]
    right: NDArray[np.float64]
    count: NDArray[np.int64]
    ece: float


def reliability_diagram(confidence: NDArray[np.float64], right: NDArray[np.bool_]) -> ReliabilityDiagram:
    """Bin predictions by their ``confidence``, (predictions,), as :func:`binned_error` does.

    >>> found = reliability_diagram(np.array([0.9, 0.9, 0.6, 0.6]), np.array([True, True, True, False]))
    >>> found.right.tolist(), found.count.tolist()
    ([0.5, 1.0], [2, 2])
    """
    place = _bins(confidence)
    count = np.bincount(place, minlength=BINS)
    filled = count > 0
    sums = (np.bincount(place, weights=values, minlength=BINS)[filled] for values in (confidence, right))
    mean, share = (part / count[filled] for part in sums)
    return ReliabilityDiagram(mean, share, count[filled], binned_error(confidence, right))


def binned_error(
    confidence: NDArray[np.float64], right: NDArray[np.bool_], *, weight: NDArray[np.float64] | None = None
) -> float:
    """Return Σ_b (n_b / n) |mean confidence − share right| over ``BINS`` equal intervals of the confidence.

    >>> binned_error(np.array([0.9, 0.9, 0.6, 0.6]), np.array([True, True, True, False])).__round__(6)
    0.1
    """
    place = _bins(confidence)
    counts = np.ones(len(confidence)) if weight is None else weight
    gap = np.bincount(place, weights=counts * (confidence - right), minlength=BINS)
    return float(np.abs(gap).sum() / counts.sum())


def _bins(confidence: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the interval (b/BINS, (b + 1)/BINS] that each confidence lies in."""
    return np.searchsorted(np.arange(BINS + 1) / BINS, confidence, side="left").clip(1, BINS) - 1
