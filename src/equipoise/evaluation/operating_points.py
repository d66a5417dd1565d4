"""Operating points of one class against the rest, and their meaning at any prevalence of the class.

The report's script makes the same calculations from the same counts; a test compares the two.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.evaluation.intervals import Estimate, Floats, combined, wilson

MOST_POINTS = 250
"""Most thresholds kept for a class; with more distinct scores some are left out."""


@dataclass(frozen=True)
class Outcome:
    """The results of a threshold for ``cases`` cases, each with its 95 % interval.

    Args:
        found, missed: cases of the class that are flagged, and that are not.
        alarms: other cases that are flagged.
        reviews: all cases that are flagged.
        cost: of misses and false alarms.
        recall, alarm_rate: share of the class's cases, and of the others, that are flagged.
        precision: share of the flagged cases that belong to the class; None if none is flagged.
    """

    found: Estimate
    missed: Estimate
    alarms: Estimate
    reviews: Estimate
    cost: Estimate
    recall: Estimate
    alarm_rate: Estimate
    precision: Estimate | None


@dataclass(frozen=True)
class OperatingPoints:
    """Counts at thresholds of a score, the highest first.

    Args:
        positives, negatives: number of samples of the class and of all others.
        thresholds: a sample is flagged if its score is at least this, (points,); the first, 2, flags none.
        found, alarms: number of flagged positives and negatives, (points,).
    """

    positives: int
    negatives: int
    thresholds: Floats
    found: NDArray[np.int64]
    alarms: NDArray[np.int64]

    @property
    def prevalence(self) -> float:
        """The class's share of the samples."""
        return self.positives / (self.positives + self.negatives)

    def place(self, threshold: float, *, prevalence: float | None = None, budget: float = 1.0) -> int:
        """Return the index of the lowest point at or above the threshold that flags at most ``budget`` of the cases.

        Args:
            threshold: a score.
            prevalence: prevalence of the class among the cases; None takes that of the samples.
            budget: maximum share of the cases to flag.
        """
        share = self.prevalence if prevalence is None else prevalence
        named = share * self.found / self.positives + (1 - share) * self.alarms / self.negatives
        allowed = (self.thresholds >= threshold) & (named <= budget + 1e-12)
        return int(np.flatnonzero(allowed)[-1])  # the first point, which flags none, is always allowed

    def outcome(self, place: int, *, prevalence: float, miss: float, cases: float = 1000) -> Outcome:
        """Return the results of a point for ``cases`` cases at another prevalence of the class.

        Recall and false-alarm rate are shares of their own kind of samples, so they hold at any prevalence; all else is
        computed from them. Intervals are Wilson's for both, combined by Zou and Donner's MOVER.

        Args:
            place: index of the point.
            prevalence: the class's share of the cases.
            miss: cost of a missed case, in false alarms.
            cases: number of cases.
        """
        sizes = np.array([self.positives, self.negatives], dtype=np.float64)
        hits = np.array([self.found[place], self.alarms[place]], dtype=np.float64)
        shares, (low, high) = hits / sizes, wilson(hits, sizes)
        rate = [Estimate(*map(float, ends)) for ends in zip(shares, low, high, strict=True)]
        mine, others = cases * prevalence, cases * (1 - prevalence)
        return Outcome(
            found=_sum(rate, mine, 0.0),
            missed=_sum(rate, -mine, 0.0, plus=mine),
            alarms=_sum(rate, 0.0, others),
            reviews=_sum(rate, mine, others),
            cost=_sum(rate, -miss * mine, others, plus=miss * mine),
            recall=rate[0],
            alarm_rate=rate[1],
            precision=_precision(rate[0], rate[1], prevalence),
        )


def operating_points(own: NDArray[np.bool_], score: NDArray[Any]) -> OperatingPoints:
    """Count positives and negatives above each threshold.

    Of more than ``MOST_POINTS`` distinct scores, those at even steps of the share found, or of the logarithm of the
    false alarms, are kept: for a rare class, few false alarms matter as much as many do elsewhere.

    Args:
        own: which samples belong to the class; some must, and some must not.
        score: higher is more like the class, from 0 to 1, (samples,).

    >>> points = operating_points(np.array([True, False, True, False]), np.array([0.9, 0.4, 0.4, 0.1]))
    >>> points.thresholds.tolist(), points.found.tolist(), points.alarms.tolist()
    ([2.0, 0.9, 0.4, 0.1], [0, 1, 2, 2], [0, 0, 1, 2])
    """
    order = np.argsort(-score, kind="stable")
    ranked = score[order].astype(np.float64)
    ends = np.flatnonzero(np.append(np.diff(ranked) != 0, True))
    found, alarms = own[order].cumsum()[ends], (~own[order]).cumsum()[ends]
    if len(ends) >= MOST_POINTS:
        half = (MOST_POINTS - 1) // 2
        kept = [
            np.searchsorted(values, np.linspace(values[0], values[-1], half))
            for values in (found / found[-1], np.log1p(alarms))
        ]
        chosen = np.unique(np.append(np.concatenate(kept), len(ends) - 1))
        ends, found, alarms = ends[chosen], found[chosen], alarms[chosen]
    return OperatingPoints(
        positives=int(own.sum()),
        negatives=int((~own).sum()),
        thresholds=np.append(2.0, ranked[ends]),
        found=np.append(0, found),
        alarms=np.append(0, alarms),
    )


def against_strongest(probabilities: NDArray[Any], place: int) -> Floats:
    """Return p / (p + the largest of the other classes' probabilities), (samples,); with two classes, p itself.

    A class whose misses cost ``miss`` times as much as every other error is predicted exactly where this reaches
    :func:`cost_threshold`: there its probability times the cost exceeds that of every other class.
    """
    own = probabilities[:, place].astype(np.float64)
    rival = np.delete(probabilities, place, axis=1).max(1).astype(np.float64)
    return np.asarray(own / np.maximum(own + rival, np.finfo(np.float64).tiny))


def cost_threshold(miss: float, *, prior: float, prevalence: float) -> float:
    """Return the score from which predicting the class costs less on average than not predicting it.

    Args:
        miss: cost of a missed case, in false alarms.
        prior: the class's share at which the probabilities hold.
        prevalence: its share where they are used, with the other classes in the same proportions.

    >>> round(51 * cost_threshold(50, prior=0.1, prevalence=0.1), 6)
    1.0
    >>> round(cost_threshold(1, prior=0.5, prevalence=0.1), 6)  # probabilities there are smaller
    0.9
    """
    odds = miss * (prevalence / (1 - prevalence)) * ((1 - prior) / prior)
    return 1 / (1 + odds)


def _sum(rate: list[Estimate], first: float, second: float, *, plus: float = 0.0) -> Estimate:
    """Return plus + first · recall + second · false-alarm rate (MOVER)."""
    values, low, high = zip(*((each.value, each.low, each.high) for each in rate), strict=True)
    bottom, top = combined(values, low, high, (first, second))
    return Estimate(plus + first * values[0] + second * values[1], max(plus + bottom, 0.0), plus + top)


def _precision(recall: Estimate, rate: Estimate, prevalence: float) -> Estimate | None:
    """Return precision from the ratio of false-alarm rate and recall, whose interval is Donner and Zou's."""
    if recall.value == 0 and rate.value == 0:
        return None
    odds = (1 - prevalence) / prevalence
    if recall.value == 0:
        return Estimate(0.0, 0.0, 1 / (1 + odds * rate.low / recall.high))
    product = recall.value * rate.value
    below, above = rate.low * (2 * rate.value - rate.low), rate.high * (2 * rate.value - rate.high)
    less, more = recall.low * (2 * recall.value - recall.low), recall.high * (2 * recall.value - recall.high)
    bottom = below / (product + max(product**2 - below * more, 0) ** 0.5) if below > 0 else 0.0
    top = (product + max(product**2 - above * less, 0) ** 0.5) / less
    ratio = rate.value / recall.value
    return Estimate(1 / (1 + odds * ratio), 1 / (1 + odds * top), 1 / (1 + odds * bottom))
