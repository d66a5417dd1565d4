"""What sending the most uncertain samples to a human is worth."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.report.record import HeldOut, Record

STEPS = 100


@dataclass(frozen=True)
class Abstention:
    """One share of the samples sent to a human.

    Args:
        share: of the samples, the most uncertain first.
        sent: how many.
        accuracy, balanced_accuracy: of the answers to the rest; the latter over the classes that still have a sample
            there, with attributes their mean over ½ (recall + specificity) where both are defined.
        rare_sent: of the ``rare`` samples of rare classes, those sent.
        wrong_sent: of the ``wrong`` answers, those sent.
    """

    share: float
    sent: int
    accuracy: float
    balanced_accuracy: float
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
    right, rare = held.predicted == held.labels, _rare_samples(record, held)
    samples = len(order)
    found = []
    for step in range(STEPS):
        sent = min(round(step * samples / STEPS), samples - 1)
        away, rest = order[:sent], order[sent:]
        wrong = ~right if right.ndim == 1 else ~right.all(1)
        found.append(
            Abstention(
                share=step / STEPS,
                sent=sent,
                accuracy=float(right[rest].mean()),
                balanced_accuracy=_balanced(held.labels[rest], right[rest], len(record.classes)),
                rare_sent=int(rare[away].sum()),
                rare=int(rare.sum()),
                wrong_sent=int(wrong[away].sum()),
                wrong=int(wrong.sum()),
            )
        )
    return found


def _rare_samples(record: Record, held: HeldOut) -> NDArray[np.bool_]:
    """Samples whose true class is rare; with attributes, those that have a rare one."""
    rare = record.in_group("few")
    return rare[held.labels] if not record.multilabel else (held.labels[:, rare] == 1).any(1)


def _balanced(labels: NDArray[np.int64], right: NDArray[np.bool_], size: int) -> float:
    if labels.ndim == 1:
        total = np.bincount(labels, minlength=size)
        hits = np.bincount(labels[right], minlength=size)
        return float((hits[total > 0] / total[total > 0]).mean())
    ones, zeros = labels.sum(0), (1 - labels).sum(0)
    known = (ones > 0) & (zeros > 0)
    if not known.any():
        return float("nan")
    recall = (labels * right).sum(0)[known] / ones[known]
    specificity = ((1 - labels) * right).sum(0)[known] / zeros[known]
    return float((recall + specificity).mean() / 2)
