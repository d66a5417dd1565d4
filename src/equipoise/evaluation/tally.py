"""Sums over samples, or over resamples, from which all scores are computed."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.calibration.reliability import sample_losses
from equipoise.evaluation.intervals import Floats, ratio
from equipoise.evaluation.ranking import RankingSums, ranking_sums


@dataclass(frozen=True)
class Answers:
    """Predictions with the true labels.

    Args:
        true, predicted: class indices, (samples,); with attributes 0/1, (samples, attributes).
        size: number of classes or attributes.
        probabilities: (samples, classes); with attributes, of a 1, (samples, attributes).
        k: number of samples ranked first.
        costs: true class by predicted class, (classes, classes) or (attributes, 2, 2).
    """

    true: NDArray[np.intp]
    predicted: NDArray[np.intp]
    size: int
    probabilities: Floats | None
    k: int
    costs: Floats | None

    @property
    def several(self) -> bool:
        """True if a sample has several labels."""
        return self.true.ndim == 2


@dataclass(frozen=True)
class Tally:
    """Sums, one row per resample.

    Args:
        hits, real, named: correct predictions, samples and predictions of each class, (resamples, classes).
        right, exact: share of correct answers, and of samples with only correct answers, (resamples,).
        square, surprise: Brier score and log loss, (resamples,); NaN without probabilities.
        cost: mean cost per sample, (resamples,); NaN without costs.
        matthews: see :func:`matthews`, (resamples,).
        ranking: None without probabilities.
    """

    samples: int
    hits: NDArray[Any]
    real: NDArray[Any]
    named: NDArray[Any]
    right: Floats
    exact: Floats
    square: Floats
    surprise: Floats
    cost: Floats
    matthews: Floats
    ranking: RankingSums | None


def tally(answers: Answers, weights: NDArray[np.float32] | None = None) -> Tally:
    """Sum over the samples.

    Args:
        answers: the predictions, with the true labels.
        weights: how often each sample is drawn, (samples, resamples); None draws each once, in a single resample.
    """
    t, p, samples = answers.true, answers.predicted, len(answers.true)
    hits, real, named = (part[None] for part in prediction_counts(t, p, answers.size))
    if weights is not None:
        own, other = (_indicators(part, answers.size) for part in (t, p))
        hits, real, named = (weights.T @ part for part in (own * other, own, other))
    right = (t == p).reshape(samples, -1)
    losses = np.full((2, samples), np.nan)
    ranked = None
    if answers.probabilities is not None:
        losses = np.stack([part.reshape(samples, -1).mean(1) for part in sample_losses(answers.probabilities, t)])
        ranked = ranking_sums(answers.probabilities, t, answers.k, weights=weights)
    columns = np.stack((right.mean(1), right.all(1), *losses, _costs(answers)))
    means = columns.mean(1)[:, None] if weights is None else columns @ weights / samples
    correlation = matthews(hits, real, named, samples, several=answers.several)
    right_share, exact, square, surprise, cost = means
    return Tally(
        samples, hits, real, named, right_share, exact, square, surprise, cost, matthews=correlation, ranking=ranked
    )


def prediction_counts(
    true: NDArray[Any], predicted: NDArray[Any], size: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Count correct predictions, samples and predictions of each class, or of attributes' ones: (classes,) each."""
    if true.ndim == 2:
        return (true * predicted).sum(0), true.sum(0), predicted.sum(0)
    hits, support, named = (np.bincount(part, minlength=size) for part in (true[true == predicted], true, predicted))
    return hits, support, named


def matthews(
    hits: NDArray[Any], real: NDArray[Any], named: NDArray[Any], samples: int, *, several: bool = False
) -> Floats:
    r"""Return the Matthews correlation of labels and predictions, (resamples,); with attributes their mean.

    .. math:: \frac{n \sum_c h_c - \sum_c t_c p_c}
              {\sqrt{(n^2 - \sum_c p_c^2)(n^2 - \sum_c t_c^2)}}

    with h hits, t samples and p predictions of each class, (resamples, classes) (Gorodkin's form for any number of
    classes). It is 0 for constant predictions.

    >>> matthews(np.array([[90, 6]]), np.array([[92, 8]]), np.array([[92, 8]]), 100).round(4).tolist()
    [0.7283]
    """
    n = float(samples)
    if several:
        spread = np.sqrt(named * (n - named) * 1.0) * np.sqrt(real * (n - real) * 1.0)
        return np.asarray((ratio(hits * n - named * real, spread, empty=0.0)).mean(1))
    covered = hits.sum(1) * n - (named * real).sum(1)
    spread = np.sqrt((n * n - (named**2.0).sum(1)).clip(0)) * np.sqrt((n * n - (real**2.0).sum(1)).clip(0))
    return ratio(covered, spread, empty=0.0)


def _indicators(labels: NDArray[np.intp], size: int) -> NDArray[np.float32]:
    return np.asarray(labels if labels.ndim == 2 else labels[:, None] == np.arange(size), dtype=np.float32)


def _costs(answers: Answers) -> Floats:
    if answers.costs is None:
        return np.full(len(answers.true), np.nan)
    if answers.several:
        return np.asarray(answers.costs[np.arange(answers.size), answers.true, answers.predicted].sum(1))
    return np.asarray(answers.costs[answers.true, answers.predicted])
