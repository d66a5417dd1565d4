"""Decisions by the cost of mistakes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d
from scipy.special import expit, logit

from equipoise.decisions.base_rule import MOST_NAMED, DecisionRule, rare_names
from equipoise.decisions.by_class import ByClass, Label, place_of, plain_label
from equipoise.decisions.policy import Claim, Policy
from equipoise.decisions.situation import Floats, Situation, each_label
from equipoise.decisions.yardstick import PER, Yardstick
from equipoise.errors import InvalidInputError
from equipoise.options import is_number

MOST_COST = 1e12
SURE = 1.0
"""Number of standard errors by which another threshold must be cheaper to replace the theoretical one."""
WIDTH = 0.3
"""Width of the window, in logits, over which the cost of a threshold is averaged."""
STEP = 0.02
"""Distance of the thresholds tried, in logits."""
EXTREME = 1e-9
"""Smallest distance of a probability from 0 and 1."""


@dataclass(frozen=True, repr=False)
class Costs(DecisionRule):
    """Predict the class with the lowest expected cost.

    A mistake costs ``miss`` of its true class if given, else ``false_alarm`` of the predicted class if
    given, else 1; a correct answer costs nothing. A matrix gives the cost of each pair of classes.

    With calibrated probabilities, the thresholds follow from the costs. For two classes, and for several labels, the
    evidence is used too: if it shows another threshold to be cheaper by more than a standard error, the probabilities
    are not well calibrated there, and that threshold is used instead.

    Args:
        matrix: costs by true class (rows) and predicted class (columns), in the order of ``classes``.
        classes: labels of the matrix; None takes the estimator's ``classes_``.
        miss: cost of missing a class, a dict of numbers by class; for ``predict`` also of one cost per row, (rows,).
        false_alarm: cost of predicting a class wrongly, a dict as for ``miss``, or one number for all classes.
        class_prior: class prior where the rule is used, by class, as for :class:`DecisionRule`.

    >>> Costs(miss={"fraud": 50})
    Costs(miss={'fraud': 50.0})
    """

    name: ClassVar[str] = "costs"
    meaning: ClassVar[str] = "costs least on average"
    searches: ClassVar[bool] = True
    needs_evidence: ClassVar[bool] = False
    yardstick: ClassVar[Yardstick] = Yardstick("cost_saved", "expected_cost")

    matrix: Any = None
    classes: tuple[Label, ...] | None = None
    miss: Any = None
    false_alarm: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.matrix is None) == (self.miss is None and self.false_alarm is None):
            raise InvalidInputError("costs must be a matrix, or misses and false alarms by class; give one of these.")
        if self.matrix is not None:
            self._keep("matrix", _checked_matrix(self.matrix))
            if self.classes is not None:
                self._keep("classes", tuple(plain_label(label, "classes") for label in self.classes))
                if len(set(map(str, self.classes))) != len(self.matrix):
                    raise InvalidInputError(
                        f"classes must name each of the {len(self.matrix)} rows of the cost matrix once, got "
                        f"{list(self.classes)}."
                    )
            return
        if self.classes is not None:
            raise InvalidInputError("classes lists the rows of a cost matrix; leave it out without a matrix.")
        for what in ("miss", "false_alarm"):
            value = getattr(self, what)
            if is_number(value) and what == "false_alarm":
                self._keep(what, _positive(float(value), "a false alarm"))
            elif value is not None:
                self._keep(what, _by_class(value, what))

    def _named(self) -> Sequence[Label]:
        given = (part for part in (self.miss, self.false_alarm) if isinstance(part, Mapping))
        return (*(self.classes or ()), *dict.fromkeys(label for part in given for label in part))

    def reported_classes(self, classes: Sequence[Label], samples: Sequence[int], *, several: bool) -> list[str]:
        """Return the ``classes`` whose misses have a cost and, if there are more than two, the other rare ones.

        Args:
            samples, several: as in :meth:`DecisionRule.reported_classes`.
        """
        given = self.miss if isinstance(self.miss, Mapping) else ()
        named = [str(classes[place_of(label, classes)]) for label in given]
        if len(classes) == 2 and not several and named:
            return named
        found = dict.fromkeys([*named, *rare_names(classes, samples, several=several)])
        return list(found)[: max(MOST_NAMED, len(named))]

    def _check_labels(self, size: int, *, several: bool) -> None:
        if self.matrix is not None and several:
            raise InvalidInputError("a cost matrix is for one label per row; give miss and false_alarm by attribute.")
        if self.matrix is not None and len(self.matrix) != size:
            raise InvalidInputError(f"the cost matrix must have {size} rows, one per class, got {len(self.matrix)}.")

    def cost_matrix(self, classes: Sequence[Label], *, several: bool) -> Floats:
        """Return the costs of mistakes, (classes, classes) or (attributes, 2, 2); costs by row add a first axis."""
        size = len(classes)
        if self.matrix is not None:
            order = [place_of(each, classes) for each in self.classes or classes]
            found = np.zeros((size, size))
            found[np.ix_(order, order)] = np.array(self.matrix)
            return found
        misses, alarms = _each(self.miss, classes), _each(self.false_alarm, classes)
        rows = max(np.size(part) for part in (*misses.values(), *alarms.values(), 1.0))
        first = () if rows == 1 else (rows,)
        if several:
            found = np.zeros((*first, size, 2, 2))
            for place in range(size):
                found[..., place, 1, 0], found[..., place, 0, 1] = misses.get(place, 1.0), alarms.get(place, 1.0)
            return found
        found = np.ones((*first, size, size))
        for place, cost in alarms.items():
            found[..., place] = np.asarray(cost)[..., None]
        for place, cost in misses.items():
            found[..., place, :] = np.asarray(cost)[..., None]
        found[..., np.arange(size), np.arange(size)] = 0
        return found

    def judge(self, situation: Situation, predicted: NDArray[np.int64]) -> dict[str, float]:
        """Return the cost per 1,000 cases, and the share saved compared with the cheapest constant answer.

        The saving is 1 for no cost at all, 0 if a constant answer would do as well, and negative if it would do better.
        """
        y, costs = situation.known().labels, self.cost_matrix(situation.classes, several=situation.several)
        cost, constant = 0.0, 0.0
        for place in range(len(costs)) if situation.several else (None,):
            parts = (y, predicted, costs) if place is None else (y[:, place], predicted[:, place], costs[place])
            true, answers, own = parts
            weights = situation.row_weights(place)
            cost += PER * float((weights * own[true, answers]).sum())
            constant += PER * float((weights[:, None] * own[true]).sum(0).min())
        return {"cost_saved": 1 - cost / constant if constant > 0 else float(cost == 0), "expected_cost": cost}

    def _policy(self, situation: Situation) -> Policy:
        costs = self.cost_matrix(situation.classes, several=situation.several)
        if situation.several:
            alarm, miss = costs[..., 0, 1], costs[..., 1, 0]
            theory = np.asarray(alarm / (alarm + miss))
            if situation.evidence is None or theory.ndim == 2:
                return Policy(thresholds=theory)
            places = range(len(theory))
            found = each_label(situation, lambda place: _threshold(situation, costs[place], place), places)
            return Policy(thresholds=found)
        if situation.evidence is None or costs.shape != (2, 2):
            return Policy(costs=costs)
        threshold = _threshold(situation, costs, None)
        return Policy(weights=situation.balanced_weights, claims=(Claim((1,), threshold),))


def _threshold(situation: Situation, costs: Floats, place: int | None) -> float:
    """Return the cheapest threshold of a second class, or of an attribute's ones; costs (2, 2)."""
    labels, q = situation.known().labels, situation.answered  # what new rows get
    y, scores = (labels, q[:, 1]) if place is None else (labels[:, place], q[:, place])
    weights = situation.row_weights(place)
    alarm, miss = costs[0, 1] - costs[0, 0], costs[1, 0] - costs[1, 1]
    start = float(alarm / (alarm + miss))
    return cheapest_threshold(scores, weights * costs[y, 1], weights * costs[y, 0], start)


def _each(given: Any, classes: Sequence[Label]) -> dict[int, Any]:
    """Return costs by class index."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        return dict.fromkeys(range(len(classes)), given)
    return {place_of(label, classes): np.array(cost) for label, cost in given.items()}


class RowCosts(dict[Label, Any]):
    """Costs that differ by row: hashable and immutable."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.items()))


def _by_class(value: Any, what: str) -> Any:
    """Return costs by class, all positive: a number for each class, or one for each row."""
    if not isinstance(value, Mapping) and not isinstance(value, list | tuple):
        raise InvalidInputError(f"{what} must be given by class, such as {{'fraud': 50}}, got {value!r}.")
    pairs = dict(value.items() if isinstance(value, Mapping) else value)
    if all(np.ndim(cost) == 0 for cost in pairs.values()):
        return ByClass(pairs, what).within(0, MOST_COST, f"{what}: the cost")
    found = RowCosts()
    lengths = {len(cost) for cost in pairs.values() if np.ndim(cost) == 1}
    if len(lengths) > 1 or any(np.ndim(cost) > 1 for cost in pairs.values()):
        raise InvalidInputError(f"{what} must have one cost, or one for each row, for every class; got {lengths} rows.")
    for label, cost in pairs.items():
        values = np.asarray(cost, dtype=np.float64)
        if not bool(((values > 0) & (values < MOST_COST)).all()):
            raise InvalidInputError(f"{what}: every cost of {label!r} must be a finite number above 0.")
        found[label] = float(values) if values.ndim == 0 else tuple(values.tolist())
    return found


def _positive(value: float, what: str) -> float:
    if not 0 < value < MOST_COST:
        raise InvalidInputError(f"the cost of {what} must be a finite number above 0, got {value:g}.")
    return value


def _checked_matrix(given: Any) -> tuple[tuple[float, ...], ...]:
    """Return a matrix checked to be square, finite and non-negative, and to leave no decision undefined."""
    try:
        costs = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        costs = np.zeros(0)
    if costs.ndim != 2 or costs.shape[0] != costs.shape[1] or len(costs) < 2:
        raise InvalidInputError(f"a cost matrix must have a row and a column for each class, got {costs.shape}.")
    if not bool((np.isfinite(costs) & (costs >= 0) & (costs < MOST_COST)).all()):
        raise InvalidInputError("costs must be finite numbers that are not negative; check the cost matrix.")
    if (costs < np.diag(costs)[:, None]).any():
        row = int(np.flatnonzero((costs < np.diag(costs)[:, None]).any(1))[0])
        raise InvalidInputError(f"in row {row + 1} of the cost matrix the right answer costs more than a wrong one.")
    if (costs == costs[:, :1]).all(1).any():
        row = int(np.flatnonzero((costs == costs[:, :1]).all(1))[0])
        raise InvalidInputError(
            f"the cost matrix is singular: in row {row + 1} every answer costs the same, so that class never matters."
        )
    for first in range(len(costs)):
        twins = np.flatnonzero((costs[:, first + 1 :] == costs[:, first : first + 1]).all(0))
        if len(twins):
            raise InvalidInputError(
                f"the cost matrix is singular: columns {first + 1} and {first + 2 + twins[0]} are the same, so that "
                "nothing decides between these classes."
            )
    return tuple(tuple(row) for row in costs.tolist())


def cheapest_threshold(scores: Floats, first: Floats, second: Floats, start: float) -> float:
    """Return the threshold on the probability from which to give the first of two answers.

    With calibrated probabilities ``start`` is the cheapest threshold. If the evidence shows another to be cheaper by
    more than a standard error of the difference, the probabilities are not calibrated there, and that one is used. The
    cost of a threshold is averaged over nearby ones, because the minimum of the raw costs would depend on single rows.

    Args:
        scores: probabilities, (rows,).
        first, second: weighted cost of giving a row the first answer, and of giving it the second, (rows,).
        start: (cost of a false alarm) / (cost of a false alarm + cost of a miss).

    >>> p, y = np.linspace(0, 1, 100), np.arange(100) >= 20  # far more positives than the probabilities say
    >>> round(cheapest_threshold(p, 1.0 - y, 1.0 * y, start=0.5), 1)
    0.2
    """
    best = _lowest(scores, first - second)
    between = (scores >= min(start, best)) & (scores < max(start, best))
    gained = np.where(between, (second - first) * (1 if best < start else -1), 0.0)
    return best if gained.sum() > SURE * np.sqrt(np.square(gained).sum()) else start


def _lowest(scores: Floats, change: Floats) -> float:
    """Return the threshold with the lowest average cost nearby, where ``change`` is what flagging a row costs."""
    x = logit(scores.clip(EXTREME, 1 - EXTREME))
    margin = 4 * WIDTH
    edges = np.arange(x.min() - margin, x.max() + margin + STEP, STEP)
    each = np.histogram(x, edges, weights=change)[0]
    cost = np.append(each[::-1].cumsum()[::-1], 0.0)  # of flagging all rows from an edge on
    edge = float(edges[gaussian_filter1d(cost, WIDTH / STEP, mode="nearest").argmin()])
    return float(scores.max()) + EXTREME if edge > x.max() else float(expit(edge))
