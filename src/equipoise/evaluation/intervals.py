"""95 % intervals that hold for few samples: of a share, of sums of shares, of an AUC."""

from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Z = 1.96
HALVINGS = 50


class Estimate(Struct, frozen=True):
    """A value with its 95 % interval.

    Args:
        value: the estimate.
        low, high: ends of the interval.

    >>> Estimate(0.5, 0.25, 0.75).times(1000)
    Estimate(value=500.0, low=250.0, high=750.0)
    """

    value: float
    low: float
    high: float

    def times(self, factor: float) -> "Estimate":
        """Return the estimate multiplied by a ``factor``."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor)

    def spanning(self, other: "Estimate") -> "Estimate":
        """Return the same value with an interval that also contains that of ``other``.

        >>> Estimate(0.5, 0.25, 0.75).spanning(Estimate(0.75, 0.5, 1.0))
        Estimate(value=0.5, low=0.25, high=1.0)
        """
        return Estimate(self.value, min(self.low, other.low), max(self.high, other.high))


def ratio(part: NDArray[Any], whole: NDArray[Any], *, empty: float = float("nan")) -> Floats:
    """Return part / whole, or ``empty`` if the whole is 0."""
    return np.where(whole > 0, part / np.maximum(whole, 1), empty)


def known_mean(values: Floats) -> float:
    """Return the mean of the defined values; NaN if there are none."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def wilson(hits: Floats, trials: Floats) -> tuple[Floats, Floats]:
    """Return Wilson's interval of a share; unlike p ± 1.96·s it stays within 0 and 1 and holds for few trials.

    >>> [round(float(end), 3) for end in wilson(np.array(0.0), np.array(10.0))]
    [0.0, 0.278]
    """
    share, square = hits / trials, Z * Z
    middle = (share + square / (2 * trials)) / (1 + square / trials)
    half = Z / (1 + square / trials) * np.sqrt(share * (1 - share) / trials + square / (4 * trials * trials))
    return np.clip(middle - half, 0, share), np.clip(middle + half, share, 1)


def combined(values: Any, low: Any, high: Any, weights: Any) -> tuple[float, float]:
    """Return the interval of Σ w·value for independent values with their own intervals (Zou and Donner's MOVER).

    With the weights 1 and −1 and Wilson's intervals it is Newcombe's interval of a difference of two shares.

    >>> ends = wilson(np.array([56.0, 48.0]), np.array([70.0, 80.0]))  # Newcombe (1998), table II, (a): 0.20
    >>> [round(end, 4) for end in combined([0.8, 0.6], *ends, [1, -1])]
    [0.0524, 0.3339]
    """
    value, below, above, weight = (np.asarray(part, dtype=np.float64) for part in (values, low, high, weights))
    down, up = value - below, above - value
    middle = float((weight * value).sum())
    lower = np.where(weight > 0, down, up)
    upper = np.where(weight > 0, up, down)
    return (
        middle - float(np.sqrt(((weight * lower) ** 2).sum())),
        middle + float(np.sqrt(((weight * upper) ** 2).sum())),
    )


def for_next(estimate: Estimate, spread: float, cases: int) -> Estimate:
    """Widen the interval of a long-run mean to that of the mean of ``cases`` new cases.

    The variance of counts and costs grows with their mean, so each end gets the variance of the mean there.

    Args:
        estimate: the mean, not negative.
        spread: standard deviation of a single case.
        cases: number of new cases.

    >>> new = for_next(Estimate(100.0, 92.0, 108.0), 96.8, 1000)
    >>> round(new.low), round(new.high)
    (90, 110)
    """
    value, low, high = estimate.value, estimate.low, estimate.high
    luck = Z * spread / np.sqrt(cases * value) if value > 0 else 0.0  # of the root of a mean
    down, up = np.hypot(value - low, luck * np.sqrt(low)), np.hypot(high - value, luck * np.sqrt(high))
    return Estimate(value, max(float(value - down), 0.0), float(value + up))


def auc_interval(auc: Floats, positives: Floats, negatives: Floats) -> tuple[Floats, Floats]:
    """Return the range of AUCs θ with (observed − θ)² ≤ 1.96²·V(θ), where V is Hanley and McNeil's variance at θ.

    So an AUC of 1 from a few samples does not count as certain.

    >>> low, high = auc_interval(np.array([1.0]), np.array([4.0]), np.array([100.0]))
    >>> round(float(low[0]), 2), float(high[0])
    (0.71, 1.0)
    """
    known = (positives > 0) & (negatives > 0) & ~np.isnan(auc)
    m, n = np.maximum(positives, 1), np.maximum(negatives, 1)
    found = np.where(known, auc, 0.5)

    def end(outer: float) -> Floats:
        inside, outside = found.copy(), np.full_like(found, outer)
        for _ in range(HALVINGS):
            middle = (inside + outside) / 2
            holds = (found - middle) ** 2 <= Z * Z * auc_variance(middle, m, n)
            inside, outside = np.where(holds, middle, inside), np.where(holds, outside, middle)
        return np.where(known, inside, np.nan)

    return end(0.0), end(1.0)


def auc_variance(auc: Any, positives: Any, negatives: Any) -> Any:
    """Return Hanley and McNeil's variance (1982) of an AUC from this many positives and negatives.

    At 0.5 it is that of the Mann-Whitney statistic of a random order, (m + n + 1) / 12mn.

    >>> round(auc_variance(0.5, 10, 20), 6) == round(31 / (12 * 200), 6)
    True
    """
    one, two = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    spread = auc * (1 - auc) + (positives - 1) * (one - auc**2) + (negatives - 1) * (two - auc**2)
    return spread / (positives * negatives)
