"""Bootstrap resamples of a test set, and confidence intervals of scores."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from equipoise.evaluation.metrics import METRICS
from equipoise.evaluation.tally import Answers, Tally, tally

if TYPE_CHECKING:
    from equipoise.evaluation.class_metrics import Scores

RESAMPLES, FEWEST_RESAMPLES = 1000, 100
WORK, MOST_WORK, MOST_ENTRIES = 4 * 10**7, 4 * 10**8, 4 * 10**6
"""Limits on the number of probabilities: over all resamples, at the fewest resamples, and in memory at a time."""
LEVEL = 0.95
FEW = 10
"""Fewest samples of a class for showing intervals: with fewer, they are too narrow."""


def bootstrap_intervals(answers: Answers, score: Callable[[Answers, Tally], list["Scores"]]) -> dict[str, Any] | None:
    """Return 95 % intervals of all scores by name, see ``Scores.intervals``; None if there are too many samples.

    Args:
        answers: the predictions, with the true labels.
        score: returns the scores of each resample from sums over it.
    """
    drawn = []
    for weights in resamples(answers.true, answers.size):
        drawn += score(answers, tally(answers, weights))
    if not drawn:
        return None
    found: dict[str, Any] = {name: interval_ends([metric(each) for each in drawn]) for name, metric in METRICS.items()}
    for name, first in vars(drawn[0]).items():
        values = [getattr(each, name) for each in drawn]
        if isinstance(first, float):
            found[name] = interval_ends(values)
        elif hasattr(first, "deviation"):
            found[name] = {
                "mean": interval_ends([each.mean for each in values]),
                "each": interval_ends([each.each for each in values]),
            }
    return found


def resamples(labels: NDArray[np.intp], size: int) -> Iterator[NDArray[np.float32]]:
    """Draw test sets of the same size with replacement; yield how often each sample is drawn, (samples, resamples).

    The bootstrap is stratified: each class is drawn from its own samples and keeps its count. A plain bootstrap would
    leave some draws without a rare class, whose scores would be undefined. Samples with several labels are drawn from
    all.

    There are 1,000 resamples; fewer if samples times classes exceed 40,000, 100 from 400,000 on, and none beyond
    4,000,000.

    Args:
        labels: class indices, (samples,), or 0 and 1, (samples, attributes).
        size: number of classes or attributes.
        seed: the same seed gives the same resamples.
    """
    rng = np.random.default_rng(0)
    samples = len(labels)
    number = min(max(WORK // (samples * size), FEWEST_RESAMPLES), RESAMPLES)
    if samples * size * number > MOST_WORK:
        return
    groups = [np.arange(samples)] if labels.ndim == 2 else [np.flatnonzero(labels == c) for c in np.unique(labels)]
    at_once = max(1, MOST_ENTRIES // (samples * size))
    for start in range(0, number, at_once):
        columns = min(at_once, number - start)
        drawn = np.empty((samples, columns), dtype=np.float32)
        for own in groups:
            picked = rng.integers(len(own), size=(len(own), columns)) * columns + np.arange(columns)
            drawn[own] = np.bincount(picked.ravel(), minlength=len(own) * columns).reshape(-1, columns)
        yield drawn


def interval_ends(values: Sequence[Any]) -> list[Any]:
    """Return the range of the middle 95 % of the resamples' scores: [low, high], or one such pair per class.

    Resamples with an undefined score do not count; NaN if it is always undefined.

    >>> [round(end, 3) for end in interval_ends([0.1, 0.2, 0.3, float("nan")])]
    [0.105, 0.295]
    """
    table = np.asarray(values, dtype=np.float64)  # (resamples,) or (resamples, classes)
    known = np.asarray(~np.isnan(table).all(0))
    ends = np.nanquantile(np.where(known, table, 0.0), [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    plain: list[Any] = np.where(known[..., None], np.moveaxis(ends, 0, -1), np.nan).tolist()
    return plain
