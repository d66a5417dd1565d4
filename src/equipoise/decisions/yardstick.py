"""Yardsticks of a rule's answers: shares where higher is better, and counts per 1,000 cases."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.decisions.situation import Situation

PER = 1000
"""Counts and costs are given per this many cases."""


class Yardstick(NamedTuple):
    """The names of the metrics by which a rule's answers are judged.

    Args:
        score: a share, higher is better; methods are ranked by it.
        counted: a count per 1,000 cases, lower is better.
    """

    score: str
    counted: str


class GroupCounts(NamedTuple):
    """Weighted shares of all cases, for one group of classes.

    Args:
        found, missed: cases of the group that are predicted as such, and that are not.
        false_alarms, others: other cases that are predicted as the group, and all other cases.
    """

    found: float
    missed: float
    false_alarms: float
    others: float


def group_counts(
    situation: Situation, predicted: NDArray[np.int64], groups: Iterable[Sequence[int]]
) -> list[GroupCounts]:
    """Count hits, misses and false alarms of each group of classes, weighted to the class prior where the rule is used.

    Args:
        situation: with the evidence that was predicted.
        predicted: predicted class indices, (rows,), or 0 and 1, (rows, attributes).
        groups: class indices that count as one class; with several labels, one attribute each.
    """
    y, found = situation.known().labels, []
    for group in groups:
        if situation.several:
            own, called = y[:, group[0]] == 1, predicted[:, group[0]] == 1
            weights = situation.row_weights(group[0])
        else:
            own, called, weights = np.isin(y, group), np.isin(predicted, group), situation.row_weights()
        parts = (own & called, own & ~called, ~own & called, ~own)
        found.append(GroupCounts(*(float(weights[part].sum()) for part in parts)))
    return found


def found_and_missed(counts: Sequence[GroupCounts]) -> dict[str, float]:
    """Return the mean share ``found`` of the groups that have cases, and the cases ``missed`` per 1,000.

    >>> found_and_missed([GroupCounts(found=0.03, missed=0.01, false_alarms=0.2, others=0.96)])
    {'found': 0.75, 'missed': 10.0}
    """
    shares = [each.found / (each.found + each.missed) for each in counts if each.found + each.missed > 0]
    return {"found": float(np.mean(shares)) if shares else 0.0, "missed": PER * sum(each.missed for each in counts)}
