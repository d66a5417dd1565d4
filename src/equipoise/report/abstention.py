"""What sending the most uncertain samples to a human is worth."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.report.record import Floats, HeldOut, Record

STEPS = 100


@dataclass(frozen=True)
class Abstention:
    """One share of the samples sent to a human.

    Args:
        share: of the samples, the most uncertain first.
        sent: how many of the ``samples``.
        accuracy, balanced_accuracy: of the answers to the rest; the latter over the classes that still have a sample
            there, with attributes their mean over ½ (recall + specificity) where both are defined.
        left: how many of the ``tested`` classes these are.
        rare_sent: of the ``rare`` samples of rare classes, those sent.
        wrong_sent: of the ``wrong`` answers, those sent.
    """

    share: float
    sent: int
    samples: int
    accuracy: float
    balanced_accuracy: float
    left: int
    tested: int
    rare_sent: int
    rare: int
    wrong_sent: int
    wrong: int

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for the page."""
        return asdict(self)


def abstention(record: Record) -> list[Abstention]:
    """For every hundredth from 0 to 99 % sent; empty without the held-out answers."""
    held = record.held_out
    if held is None:
        return []
    order = np.argsort(-held.uncertainty, kind="stable")
    samples = len(order)
    sent = np.minimum(np.round(np.arange(STEPS) * samples / STEPS), samples - 1).astype(np.int64)
    last = np.empty(samples, dtype=np.int64)  # the last step at which a sample is still among the rest
    last[order] = np.searchsorted(sent, np.arange(samples), side="right") - 1
    right = held.predicted == held.labels
    wrong, rare = ~right if right.ndim == 1 else ~right.all(1), _rare_samples(record, held)
    recalls = _recalls(held.labels, right, last, len(record.classes))  # (steps, classes)
    known = ~np.isnan(recalls)
    left = known.sum(1)
    balanced = np.where(left > 0, np.where(known, recalls, 0).sum(1) / np.maximum(left, 1), np.nan)
    accuracy = _still(last, right if right.ndim == 1 else right.mean(1)) / (samples - sent)
    rare_left, wrong_left = _still(last, rare), _still(last, wrong)
    return [
        Abstention(
            share=step / STEPS,
            sent=int(sent[step]),
            samples=samples,
            accuracy=float(accuracy[step]),
            balanced_accuracy=float(balanced[step]),
            left=int(left[step]),
            tested=int(left[0]),
            rare_sent=int(rare_left[0] - rare_left[step]),
            rare=int(rare_left[0]),
            wrong_sent=int(wrong_left[0] - wrong_left[step]),
            wrong=int(wrong_left[0]),
        )
        for step in range(STEPS)
    ]


def _rare_samples(record: Record, held: HeldOut) -> NDArray[np.bool_]:
    """Samples whose true class is rare; with attributes, those that have a rare one."""
    rare = record.in_group("rare")
    return rare[held.labels] if not record.multilabel else (held.labels[:, rare] == 1).any(1)


def _still(last: NDArray[np.int64], what: NDArray[Any]) -> Floats:
    """At each step, the sum over the samples that are not sent."""
    each = np.bincount(last, weights=what, minlength=STEPS)
    return np.asarray(each[::-1].cumsum()[::-1])


def _recalls(labels: NDArray[np.int64], right: NDArray[np.bool_], last: NDArray[np.int64], size: int) -> Floats:
    """(steps, classes) of the rest, NaN for a class without a sample; with attributes ½ (recall + specificity)."""
    if labels.ndim == 1:
        place = last * size + labels
        total, hits = (
            np.bincount(place[rows], minlength=STEPS * size).reshape(STEPS, size)[::-1].cumsum(0)[::-1]
            for rows in (slice(None), right)
        )
        return np.where(total > 0, hits / np.maximum(total, 1), np.nan)
    columns = []
    for has, found in zip(labels.T, right.T, strict=True):
        ones, zeros = _still(last, has), _still(last, 1 - has)
        share = [_still(last, value * found) / np.maximum(all_, 1) for value, all_ in ((has, ones), (1 - has, zeros))]
        columns.append(np.where((ones > 0) & (zeros > 0), (share[0] + share[1]) / 2, np.nan))
    return np.stack(columns, axis=1)
