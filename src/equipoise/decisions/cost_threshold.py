"""The threshold between two answers that costs least on the evidence."""

import numpy as np
from scipy.ndimage import gaussian_filter1d
from scipy.special import expit, logit

from equipoise.decisions.situation import Floats

SURE = 1.0
"""Standard errors by which another threshold must be cheaper to replace the theoretical one."""
WIDTH = 0.3
"""Width of the window, in logits, over which the cost of a threshold is averaged."""
STEP = 0.02
"""Distance of the thresholds tried, in logits."""
EXTREME = 1e-9
"""Smallest distance of a probability from 0 and 1."""


def cheapest_threshold(scores: Floats, named: Floats, other: Floats, start: float) -> float:
    """Return the probability from which to give the first of two answers.

    With calibrated probabilities ``start`` is the cheapest threshold. Where the evidence shows another to be cheaper by
    more than a standard error of the difference, the probabilities are not calibrated there, and that one is used. The
    cost of a threshold is averaged over those nearby: the minimum of the raw costs would follow single rows.

    Args:
        scores: probabilities, (rows,).
        named, other: what a row costs, times its weight, if it gets the first answer, and if it gets the second.
        start: (cost of a false alarm) / (cost of a false alarm + cost of a miss).

    >>> p, y = np.linspace(0, 1, 100), np.arange(100) >= 20  # far more positives than the probabilities say
    >>> round(cheapest_threshold(p, 1.0 - y, 1.0 * y, start=0.5), 1)
    0.2
    """
    best = _lowest(scores, named - other)
    between = (scores >= min(start, best)) & (scores < max(start, best))
    gained = np.where(between, (other - named) * (1 if best < start else -1), 0.0)
    return best if gained.sum() > SURE * np.sqrt(np.square(gained).sum()) else start


def _lowest(scores: Floats, change: Floats) -> float:
    """Return the threshold with the lowest average cost nearby, where ``change`` is what naming a row costs."""
    x = logit(scores.clip(EXTREME, 1 - EXTREME))
    margin = 4 * WIDTH
    edges = np.arange(x.min() - margin, x.max() + margin + STEP, STEP)
    each = np.histogram(x, edges, weights=change)[0]
    cost = np.append(each[::-1].cumsum()[::-1], 0.0)  # of naming all rows from an edge on
    edge = float(edges[gaussian_filter1d(cost, WIDTH / STEP, mode="nearest").argmin()])
    return float(scores.max()) + EXTREME if edge > x.max() else float(expit(edge))
