"""Ranking metrics: how well probabilities rank each class's samples before the others, also for resamples."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from equipoise.evaluation.intervals import Floats, ratio

RANKED_CLASSES = 1000
"""Most classes with ranking metrics: each needs all samples sorted again."""
MOST_STEPS = 1000
"""Steps in which resamples are ranked."""


@dataclass(frozen=True)
class RankingSums:
    """Building blocks of ranking metrics, one row per resample; NaN if a class has none or all of the samples.

    Args:
        auc, average_precision: of each class against the rest, (resamples, classes).
        hits_at_k: samples of the class among the k ranked first for it, (resamples, classes); ties across the k-th
            place count as if drawn at random.
        micro_auc, micro_average_precision: over all pairs of a sample and a class ranked together, (resamples,).
    """

    auc: Floats
    average_precision: Floats
    hits_at_k: Floats
    micro_auc: Floats
    micro_average_precision: Floats


def ranking(probabilities: NDArray[Any], true: NDArray[Any]) -> tuple[Floats, Floats]:
    """Return AUC and average precision of each class against the rest; NaN for a class with none or all of the samples.

    A random order has an AUC of 0.5, and an average precision equal to the class's share. Probabilities are
    (samples, classes), labels ``true`` are class indices; with attributes both are (samples, attributes).

    >>> auc, precision = ranking(np.array([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.7, 0.3]]), np.array([0, 0, 1, 1]))
    >>> auc.tolist(), precision.tolist()
    ([1.0, 1.0], [1.0, 1.0])
    """
    found = ranking_sums(probabilities, true, 1, micro=False)
    return found.auc[0], found.average_precision[0]


def ranking_sums(
    probabilities: NDArray[Any],
    true: NDArray[Any],
    k: int,
    *,
    weights: NDArray[np.float32] | None = None,
    micro: bool = True,
) -> RankingSums:
    """Rank the samples by each class's probability; arguments as in :func:`ranking`.

    Args:
        weights: how often each sample is drawn, (samples, resamples); None draws each once, in a single resample.
        micro: whether to rank all classes together as well.
    """
    samples, size = probabilities.shape
    drawn = np.ones((samples, 1), dtype=np.float32) if weights is None else weights
    most = None if weights is None else MOST_STEPS
    each = np.full((3, drawn.shape[1], size), np.nan)
    pooled = np.full((3, drawn.shape[1]), np.nan)
    if size > RANKED_CLASSES or not np.isfinite(probabilities).all():
        return RankingSums(*each, *pooled[:2])
    own = true == 1 if true.ndim == 2 else true[:, None] == np.arange(size)
    for place in range(size):
        each[:, :, place] = _ranked(own[:, [place]], probabilities[:, [place]], drawn, k, most)
    if micro:
        pooled = _ranked(own, probabilities, drawn, k, most)
    return RankingSums(*each, *pooled[:2])


def _ranked(
    own: NDArray[np.bool_], probability: NDArray[Any], drawn: NDArray[np.float32], k: int, most: int | None
) -> Floats:
    """Step down through the probabilities (samples, columns), ties in one step.

    Returns AUC, average precision and hits at k, (3, resamples).
    """
    new, every = _steps(own, probability, drawn, most)
    found, passed = new.cumsum(0), every.cumsum(0)
    positives, total = found[-1], passed[-1]
    area = ((every - new) * (found - new / 2)).sum(0)
    precision = ratio(new * found, passed, empty=0.0).sum(0)
    hits = (new * np.clip(ratio(k - passed + every, every, empty=0.0), 0, 1)).sum(0)
    defined = (positives > 0) & (positives < total)
    pairs = np.where(defined, positives * (total - positives), 1)
    rows = np.stack((area / pairs, precision / np.where(defined, positives, 1), hits))
    return np.where(defined, rows, np.nan)


def _steps(
    own: NDArray[np.bool_], probability: NDArray[Any], drawn: NDArray[np.float32], most: int | None
) -> tuple[Floats, Floats]:
    """Return the positives and all samples of each step, (steps, resamples) each.

    Beyond ``most`` steps, the first half of ``most`` stay separate and the others are merged: resampled precision
    changes fast only at the top.
    """
    samples, columns = probability.shape
    order = np.argsort(-probability.ravel(), kind="stable")
    step = np.append(False, np.diff(probability.ravel()[order]) != 0).cumsum()
    if most is not None and step[-1] >= most:
        apart = most // 2
        step = np.where(step < apart, step, apart + (step - apart) * (most - apart) // (step[-1] + 1 - apart))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = step
    shape = (int(step[-1]) + 1, samples)
    where = (place, np.repeat(np.arange(samples), columns))
    every = sparse.csr_array((np.ones(len(order), dtype=np.float32), where), shape=shape)
    new = sparse.csr_array((own.ravel().astype(np.float32), where), shape=shape)
    return tuple(np.asarray(part @ drawn, dtype=np.float64) for part in (new, every))  # type: ignore[return-value]
