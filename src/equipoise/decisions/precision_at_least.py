"""Decisions that keep the precision of a class above a floor."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

from equipoise.decisions.floors import Floor, FloorRule, Kept
from equipoise.decisions.situation import Situation, descending
from equipoise.decisions.yardstick import Yardstick, found_and_missed, group_counts

GROWTH = 1.25
"""Factor between the numbers of rows that successive thresholds flag."""


@dataclass(frozen=True, repr=False)
class PrecisionAtLeast(FloorRule):
    """Predict a class as often as possible while at least a given share of its predictions is right.

    A class is predicted if and only if its probability reaches a threshold. A series of thresholds is tried, each
    flagging 1.25 times as many held-out rows as the one before. Each is tested by the exact binomial bound (Clopper and
    Pearson) at 5 % divided by the number tried and by the number of floors, and the lowest that passes is used. If
    none passes, the one with the best bound is used, and a sentence says what can be promised.

    The promise, with 95 % confidence: the mean probability of being right among held-out rows above the threshold is at
    least the floor. That is the precision on new rows like these. At another ``class_prior`` the floor is translated by
    Bayes' rule, which is exact for two classes and for several labels; with more, the other classes are taken together.
    With several floors the first class listed takes precedence, and the promises of later ones are approximate, because
    the same labels decide which rows are left.

    Args:
        floors: precision by class, between 0 and 1.
        class_prior: class prior where the rule is used, by class, as for :class:`DecisionRule`.

    >>> PrecisionAtLeast({"fraud": 0.5}).to_json()
    {'rule': 'precision_at_least', 'floors': [['fraud', 0.5]]}
    """

    name: ClassVar[str] = "precision_at_least"
    meaning: ClassVar[str] = "by the threshold for the requested precision"
    what: ClassVar[Literal["recall", "precision"]] = "precision"
    yardstick: ClassVar[Yardstick] = Yardstick("found", "missed")

    def judge(self, situation: Situation, predicted: NDArray[np.int64]) -> dict[str, float]:
        """Return the share of the listed classes' cases that is found, and those missed per 1,000 cases."""
        return found_and_missed(group_counts(situation, predicted, self._groups(situation)))

    def _threshold(self, floor: Floor) -> Kept:
        free = floor.scores >= 0
        if not free.any():
            return Kept(1.0, 0.0, 0, f"no row is left for class {floor.name!r}: classes listed before it take all.")
        thresholds, rows, (hits,) = descending(floor.scores[free], floor.own[free].astype(np.float64))
        tried = _geometric(rows)
        n, right = rows[tried], hits[tried]
        bound = np.where(right > 0, beta.ppf(floor.risk / len(tried), np.maximum(right, 0.5), n - right + 1), 0.0)
        bound = bound * floor.odds / (bound * floor.odds + 1 - bound)  # at the class prior where it is used
        passed = np.flatnonzero(bound >= floor.asked)
        best = int(passed[-1]) if len(passed) else int(bound.argmax())
        note = None
        if not len(passed):
            why = f"the {int(n[best]):,} rows with the largest probabilities have {int(right[best]):,} of it"
            note = floor.unkept("precision", float(bound[best]), why)
        promised = floor.asked if note is None else float(bound[best])
        return Kept(float(thresholds[tried[best]]), promised, int(n[best]), note)


def _geometric(rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the indices of row counts that grow by at least ``GROWTH``.

    >>> _geometric(np.array([1, 2, 3, 4, 5, 6, 7, 8, 9])).tolist()
    [0, 1, 2, 3, 4, 6, 8]
    """
    found, wanted = [], 0.0
    for place, count in enumerate(rows.tolist()):
        if count >= wanted:
            found.append(place)
            wanted = count * GROWTH
    return np.array(found)
