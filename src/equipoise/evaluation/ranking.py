"""How well a class's own probability sorts its samples before the others: AUC and average precision, class by class."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_CLASSES = 1000
"""Of more classes neither is computed: each needs all samples sorted anew."""


def ranking(probabilities: NDArray[Any], true: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Give AUC and average precision of each class against the rest; NaN for a class of none or all of the samples.

    A random order has an AUC of 0.5, and an average precision of the class's share of the samples.

    Args:
        probabilities: (samples, classes), of each class; with attributes, of a 1, (samples, attributes).
        true: places in the classes, (samples,); with attributes 0/1, (samples, attributes).

    >>> auc, precision = ranking(np.array([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.7, 0.3]]), np.array([0, 0, 1, 1]))
    >>> auc.tolist(), precision.tolist()
    ([1.0, 1.0], [1.0, 1.0])
    """
    size = probabilities.shape[1]
    area, precision = np.full(size, np.nan), np.full(size, np.nan)
    if size > MOST_CLASSES or not np.isfinite(probabilities).all():
        return area, precision
    for place in range(size):
        own = true[:, place] == 1 if true.ndim == 2 else true == place
        if own.any() and not own.all():
            area[place], precision[place] = _one(own, probabilities[:, place])
    return area, precision


def _one(own: NDArray[np.bool_], probability: NDArray[Any]) -> tuple[float, float]:
    """Step down through the probabilities; equal ones are one step."""
    order = np.argsort(-probability, kind="stable")
    steps = np.flatnonzero(np.append(np.diff(probability[order]) != 0, True))
    found = own[order].cumsum()[steps]
    alarms = steps + 1 - found
    new, new_alarms = np.diff(found, prepend=0), np.diff(alarms, prepend=0)
    area = float((new_alarms * (found - new / 2)).sum() / (found[-1] * alarms[-1]))
    return area, float((new * found / (steps + 1)).sum() / found[-1])
