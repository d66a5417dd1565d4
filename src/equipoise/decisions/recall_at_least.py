"""Decisions that keep the recall of a class above a floor."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from equipoise.decisions.binomial_bounds import allowed_misses, least_share, samples_needed
from equipoise.decisions.floors import Floor, FloorRule, Kept
from equipoise.decisions.situation import Situation
from equipoise.decisions.yardstick import PER, Yardstick, found_and_missed, group_counts

ROUNDING = 1e-6
"""Share by which a threshold is lowered, since probabilities are stored in single precision and none may be lost."""


@dataclass(frozen=True, repr=False)
class RecallAtLeast(FloorRule):
    """Find at least a given share of a class with the fewest false alarms, guaranteed with 95 % confidence.

    A class is predicted if and only if its probability reaches a threshold t. With n held-out samples of the class, t
    is the (k + 1)-th smallest of their probabilities, where k is the largest number with P(B(n, 1 − floor) ≤ k) ≤ 5 %.
    So the true recall is at least the floor in 95 of 100 draws of the held-out samples, whatever the model: this is the
    exact binomial test of one threshold after another (learn then test), which stops at the first that fails. If n
    is too small even for k = 0, t is the smallest of the probabilities, and a sentence says what can be promised.

    With several classes, the order of the floors is the order of precedence. A row goes to the first class whose
    probability reaches its threshold. For a later class, t is chosen among those of its samples that no earlier class
    takes; samples that are taken count as missed. Each promise is made at 5 % / (number of floors), so that they hold
    jointly with 95 % confidence. If earlier classes take too many, a sentence says what can be promised. Rows that no
    class claims are divided among the other classes as by ``Balanced``. With several labels, each has its own
    threshold, and labels do not compete.

    The recall of a class does not depend on how common it is, so the promise holds at any ``class_prior``; the expected
    number of false alarms depends on it.

    Args:
        floors: recall by class, between 0 and 1.
        class_prior: class prior where the rule is used, by class, as for :class:`DecisionRule`.

    >>> RecallAtLeast({"fraud": 0.95})
    RecallAtLeast(floors={'fraud': 0.95})
    """

    name: ClassVar[str] = "recall_at_least"
    meaning: ClassVar[str] = "by the threshold for the requested recall"
    what: ClassVar[Literal["recall", "precision"]] = "recall"
    yardstick: ClassVar[Yardstick] = Yardstick("false_alarms_spared", "false_alarms")

    def judge(self, situation: Situation, predicted: NDArray[np.int64]) -> dict[str, float]:
        """Return the share of false alarms avoided compared with flagging every case, and the share found."""
        counts = group_counts(situation, predicted, self._groups(situation))
        alarms, most = sum(each.false_alarms for each in counts), sum(each.others for each in counts)
        spared = 1 - alarms / most if most > 0 else 1.0
        return {"false_alarms_spared": spared, "false_alarms": PER * alarms} | found_and_missed(counts)

    def _threshold(self, floor: Floor) -> Kept:
        found = np.sort(floor.scores[floor.own])
        samples, taken = len(found), int((found < 0).sum())
        misses = allowed_misses(samples, floor.asked, floor.risk)
        if taken <= misses < samples:
            return Kept(float(found[misses]) * (1 - ROUNDING), floor.asked, samples, None)
        promised = _left(samples, taken, floor.risk)
        threshold = 1.0 if taken == samples else float(found[taken]) * (1 - ROUNDING)
        if taken:
            why = f"{taken:,} of its {samples:,} samples go to classes listed before it; list it earlier"
        else:
            what = "sample" if samples == 1 else "samples"
            why = f"it has {samples:,} {what} to choose by, and {samples_needed(floor.asked, floor.risk):,} are needed"
        return Kept(threshold, promised, samples, floor.unkept("recall", promised, why))


def _left(samples: int, taken: int, risk: float) -> float:
    """Return the recall guaranteed by the smallest probability among samples that no earlier class takes.

    If some are taken, two shares are bounded at half the risk each: samples not taken, and those of them above the
    smallest probability.
    """
    if taken in (0, samples):
        return least_share(samples - taken, samples, risk)
    return least_share(samples - taken, samples, risk / 2) * float((risk / 2) ** (1 / (samples - taken)))
