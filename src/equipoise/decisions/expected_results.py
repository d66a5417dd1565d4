"""Expected results of a rule where it is used, with 95 % intervals, from the evidence it was chosen on."""

from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from equipoise.decisions.binomial_bounds import CONFIDENCE, least_share
from equipoise.decisions.situation import Floats, Situation
from equipoise.decisions.yardstick import PER
from equipoise.evaluation.intervals import Estimate, Z, combined, for_next, wilson


class ClassExpectation(Struct, frozen=True):
    """Expected results of a rule for one class, or for the ones of an attribute.

    Args:
        name: the class, as text.
        samples: its samples in the evidence.
        recall, precision: shares; None without samples, or if the class is never predicted.
        false_alarms: other cases predicted as the class, per 1,000 cases.
        recall_holds: lower bound on the true recall, with 95 % confidence if the rule was not chosen on the same
            samples. The guarantees of a chosen rule are in ``promises``.
    """

    name: str
    samples: int
    recall: Estimate | None
    precision: Estimate | None
    false_alarms: Estimate
    recall_holds: float | None


class Expected(Struct, frozen=True):
    """Expected results of a rule per 1,000 cases at the class prior where it is used.

    Args:
        rows: number of rows of evidence.
        classes: one entry per class.
        reviews: cases not predicted as the most common class; None if a row has several labels.
        cost: long-run cost, by the rule's costs; None for a rule without costs.
        cost_spread: standard deviation of the cost of one case, times 1,000.
    """

    rows: int
    classes: list[ClassExpectation]
    reviews: Estimate | None
    cost: Estimate | None
    cost_spread: float | None = None

    def cost_of_next(self, cases: int = PER) -> Estimate | None:
        """Return the cost per 1,000 of the next ``cases`` cases, with a 95 % prediction interval.

        It is wider than the interval of ``cost``, which is for the long run, because a few cases vary by chance.
        """
        if self.cost is None or self.cost_spread is None:
            return None
        return for_next(self.cost, self.cost_spread, cases)


def spanning(one: Expected, other: Expected) -> Expected:
    """Return ``one`` with intervals that contain those of both, and the larger spread of the cost."""
    spread = one.cost_spread
    if spread is not None and one.cost is not None and other.cost is not None and other.cost.value > 0:
        spread = max(spread, (other.cost_spread or 0.0) * float(np.sqrt(one.cost.value / other.cost.value)))
    return replace(
        one,
        classes=[_class_spanning(*each) for each in zip(one.classes, other.classes, strict=True)],
        reviews=_both(one.reviews, other.reviews),
        cost=_both(one.cost, other.cost),
        cost_spread=spread,
    )


def _class_spanning(one: ClassExpectation, other: ClassExpectation) -> ClassExpectation:
    return replace(
        one,
        recall=_both(one.recall, other.recall),
        precision=_both(one.precision, other.precision),
        false_alarms=one.false_alarms.spanning(other.false_alarms),
    )


def _both(one: Estimate | None, other: Estimate | None) -> Estimate | None:
    return one if one is None or other is None else one.spanning(other)


def expect(situation: Situation, predicted: NDArray[np.int64], costs: Floats | None) -> Expected:
    """Measure the results of predictions on the evidence.

    Args:
        situation: with the evidence that was predicted, at the class prior where the rule is used.
        predicted: predicted class indices, (rows,), or 0 and 1, (rows, attributes).
        costs: true class by predicted class, (classes, classes) or (attributes, 2, 2); None without costs.
    """
    evidence = situation.known()
    y = evidence.labels
    classes, cost, spread = [], None, None
    for place, label in enumerate(situation.classes):
        weights = situation.row_weights(place if situation.several else None)
        pair = (y[:, place] == 1, predicted[:, place] == 1) if situation.several else (y == place, predicted == place)
        own, called = pair
        classes.append(_class(str(label), own, called, weights, evidence.weight))
    if situation.several:
        if costs is not None:
            parts = [_costs(situation, y[:, k], predicted[:, k], costs[k], k) for k in range(len(costs))]
            cost = _sum(parts, known_prior=True, rows=len(y))
            spread = _spread(costs[np.arange(len(costs)), y, predicted].sum(1), evidence.weight)
        return Expected(len(y), classes, None, cost, spread)
    if costs is not None:
        spread = _spread(costs[y, predicted], situation.row_weights(None))
        cost = _sum(
            [_costs(situation, y, predicted, costs, None)], known_prior=situation.target_prior is not None, rows=len(y)
        )
    common = int(situation.rarest_first[-1])
    reviews = share_of(predicted != common, situation.row_weights(None)).times(PER)
    return Expected(len(y), classes, reviews, cost, spread)


def share_of(hits: NDArray[np.bool_], weights: Floats) -> Estimate:
    """Return a weighted share with Wilson's interval at Kish's effective number of rows.

    >>> share_of(np.array([True, False]), np.array([0.5, 0.5])).value
    0.5
    """
    total = weights.sum()
    rows = np.array(total**2 / np.square(weights).sum())
    value = np.array(np.where(hits, weights, 0).sum() / total)
    low, high = wilson(value * rows, rows)
    return Estimate(float(value), float(low), float(high))


def _class(
    name: str, own: NDArray[np.bool_], called: NDArray[np.bool_], weights: Floats, counted: Floats
) -> ClassExpectation:
    samples = int(own.sum())
    found = int((own & called).sum())
    return ClassExpectation(
        name=name,
        samples=samples,
        recall=share_of(called[own], counted[own]) if samples else None,
        precision=share_of(own[called], weights[called]) if called.any() and weights[called].sum() > 0 else None,
        false_alarms=share_of(called & ~own, weights).times(PER),
        recall_holds=least_share(found, samples, 1 - CONFIDENCE) if samples else None,
    )


def _spread(costs: Floats, weights: Floats) -> float:
    """Return the standard deviation of the cost of one case, times 1,000."""
    mean = np.average(costs, weights=weights)
    return PER * float(np.sqrt(np.average(np.square(costs - mean), weights=weights)))


Parts = tuple[list[float], list[float], list[float], list[float]]


def _costs(
    situation: Situation, y: NDArray[np.int64], predicted: NDArray[np.int64], costs: Floats, place: int | None
) -> Parts:
    """Return the mean cost of each true class, both ends of its Wilson interval, and the class's share.

    Wilson's interval is conservative here: between two bounds, no distribution with this mean varies more than one
    that takes only the two bounds.
    """
    shares = situation.used_at if place is None else situation.used_at[place]
    found: Parts = ([], [], [], [])
    counted = situation.known().weight
    for true in np.unique(y).tolist():
        own = y == true
        weights, low, high = counted[own], float(costs[true].min()), float(costs[true].max())
        spread = max(high - low, 1e-300)
        mean = float((weights * costs[true, predicted[own]]).sum() / weights.sum())
        rows = np.array(weights.sum() ** 2 / np.square(weights).sum())
        ends = wilson(np.array((mean - low) / spread) * rows, rows)
        for column, value in zip(
            found, (mean, low + spread * ends[0], low + spread * ends[1], shares[true]), strict=True
        ):
            column.append(float(value))
    total = sum(found[3])
    return found[0], found[1], found[2], [share / total for share in found[3]]


def _sum(parts: list[Parts], *, known_prior: bool, rows: int) -> Estimate:
    """Return the mean cost of 1,000 cases; a class prior estimated from the rows widens the interval."""
    mean, low, high, share = (np.concatenate([part[column] for part in parts]) for column in range(4))
    value = float((share * mean).sum())
    down, up = combined(mean, low, high, share)
    spread: Any = 0.0 if known_prior else Z**2 * max(float((share * mean**2).sum()) - value**2, 0) / rows
    ends = value - np.sqrt((value - down) ** 2 + spread), value + np.sqrt((up - value) ** 2 + spread)
    return Estimate(value, max(float(ends[0]), 0.0), float(ends[1])).times(PER)
