"""The threshold between two answers that costs least on the evidence."""

import numpy as np

from equipoise.decisions.situation import Floats, descending

SURE = 1.0
"""Standard errors by which another threshold must be cheaper to replace the theoretical one."""


def cheapest_threshold(scores: Floats, named: Floats, other: Floats, start: float) -> float:
    """Return the probability from which to give the first of two answers.

    With calibrated probabilities ``start`` is the cheapest threshold. Where the evidence shows another to be cheaper by
    more than a standard error of the difference, the probabilities are not calibrated there, and that one is taken.

    Args:
        scores: probabilities, (rows,).
        named, other: what a row costs, times its weight, if it gets the first answer, and if it gets the second.
        start: (cost of a false alarm) / (cost of a false alarm + cost of a miss).

    >>> p, y = np.linspace(0, 1, 100), np.arange(100) >= 20  # far more positives than the probabilities say
    >>> round(cheapest_threshold(p, 1.0 - y, 1.0 * y, start=0.5), 2)
    0.2
    """
    thresholds, _, (change,) = descending(scores, named - other)
    best = float(thresholds[change.argmin()])
    if change.min() >= 0:  # never to give the first answer is the cheapest
        best = float(scores.max()) + 1e-9
    between = (scores >= min(start, best)) & (scores < max(start, best))
    gained = np.where(between, (other - named) * (1 if best < start else -1), 0.0)
    return best if gained.sum() > SURE * np.sqrt(np.square(gained).sum()) else start
