"""Size of numbers: what float32 holds of a column, its median and its span."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

SMALLEST_FLOAT32, LARGEST_FLOAT32 = 2.0**-100, float(np.finfo(np.float32).max)
"""Magnitudes between which a float32 has all of its digits; the first keeps clear of its subnormal range."""
FARTHEST, SAMPLED = 256, 4096
"""Distance from zero, in spreads, up to which float32 keeps 16 bits of the spread; values used to measure it."""


def fits_float32(numbers: NDArray[np.floating[Any]]) -> bool:
    """Return whether float32 preserves the differences within a column well enough for a network.

    It does not if the values are out of its range, or so far from zero that rounding blurs their spread; zeros and
    missing values are ignored.

    >>> fits_float32(np.array([0.1, 1e6, np.nan])), fits_float32(np.array([1.7e12, 1.7e12 + 1e4]))
    (True, False)
    """
    farthest = max(map(abs, span(numbers)))
    if np.isinf(farthest):
        numbers = numbers[np.isfinite(numbers)]
        farthest = max(map(abs, span(numbers)))
    if not farthest > 0:  # nor where none is known
        return True
    if not SMALLEST_FLOAT32 <= farthest <= LARGEST_FLOAT32:
        return False
    some = _known(numbers[:: -(-len(numbers) // SAMPLED)])
    some = some if len(some) > SAMPLED // 4 else _known(numbers)[-SAMPLED:]
    if bool((some.astype(np.float32) == some).all()):
        return True
    centre = np.median(some)
    return bool(np.abs(centre) <= FARTHEST * np.median(np.abs(some - centre)))


def largest(typical: float) -> float:
    """Return the largest value that does not count as missing: that of float32, unless typical values are larger."""
    return float(np.finfo(np.float64).max) if abs(typical) > LARGEST_FLOAT32 else LARGEST_FLOAT32


def median(known: NDArray[np.floating[Any]]) -> float:
    """Return the median of known numbers as float64; numpy's would be of their own type.

    >>> median(np.array([1, 1 + 2**-23], dtype=np.float32)) == 1 + 2**-24  # float32 would round to 1
    True
    """
    middle = len(known) // 2
    found = np.partition(known, middle)
    lower = found[:middle].max() if len(known) % 2 == 0 else found[middle]  # a second pivot takes longer
    return (float(lower) + float(found[middle])) / 2


def _known(numbers: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Return the numbers that are neither missing nor zero."""
    return np.asarray(numbers[~np.isnan(numbers) & (numbers != 0)])


def span(numbers: NDArray[np.floating[Any]]) -> tuple[float, float]:
    """Return the smallest and the largest number; NaN where none is known.

    >>> span(np.array([2.0, np.nan, -1.0]))
    (-1.0, 2.0)
    """
    return float(np.fmin.reduce(numbers, initial=np.nan)), float(np.fmax.reduce(numbers, initial=np.nan))
