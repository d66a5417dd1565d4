"""What sending the most uncertain samples to a human is worth, and which classes are sent most."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.app.report.record import HeldOut, Record
from equipoise.decisions.abstention import (
    AbstainedShares,
    RiskCoverage,
    abstained_shares,
    abstention_order,
    listed,
    risk_coverage,
)

STEPS = 100
SHOWN_STEP = 10
"""The share, in hundredths, at which classes are listed; the slider's own start."""
MOST_CLASSES = 100


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


@dataclass(frozen=True)
class Sending:
    """What :func:`sending` found.

    Args:
        steps: for every hundredth from 0 to 99 % sent.
        curve: errors over the share answered, of all samples and of each class.
        shares: what is sent of each class, at ``SHOWN_STEP``.
    """

    steps: list[Abstention]
    curve: RiskCoverage
    shares: AbstainedShares


def sending(record: Record) -> Sending | None:
    """The most uncertain held-out samples sent to a human; None without the held-out answers."""
    held = record.held_out
    if held is None:
        return None
    right = held.predicted == held.labels
    curve = risk_coverage(right, held.uncertainty, held.labels, len(record.classes), points=STEPS + 1)
    order = abstention_order(held.uncertainty)
    sent = np.zeros(len(order), dtype=bool)
    sent[order[: len(order) - curve.answered[STEPS - SHOWN_STEP]]] = True
    shares = abstained_shares(held.labels, sent, len(record.classes))
    return Sending(_steps(record, held, right, order, curve), curve, shares)


def _steps(
    record: Record, held: HeldOut, right: NDArray[np.bool_], order: NDArray[np.intp], curve: RiskCoverage
) -> list[Abstention]:
    samples = len(order)
    sent = (samples - curve.answered)[:0:-1]  # from 0 to 99 %; all sent leaves no answers
    recalls = 1 - curve.class_error[:0:-1]  # (steps, classes); with attributes of their zeros and ones
    recalls = recalls.mean(-1) if record.multilabel else recalls
    known = ~np.isnan(recalls)
    left = known.sum(1)
    balanced = np.where(left > 0, np.where(known, recalls, 0).sum(1) / np.maximum(left, 1), np.nan)
    accuracy = 1 - curve.error[:0:-1]
    wrong, rare = np.asarray(~right if right.ndim == 1 else ~right.all(1)), _rare_samples(record, held)
    rare_sent, wrong_sent = (np.append(0, what[order].cumsum())[sent] for what in (rare, wrong))
    return [
        Abstention(
            share=step / STEPS,
            sent=int(sent[step]),
            samples=samples,
            accuracy=float(accuracy[step]),
            balanced_accuracy=float(balanced[step]),
            left=int(left[step]),
            tested=int(left[0]),
            rare_sent=int(rare_sent[step]),
            rare=int(rare.sum()),
            wrong_sent=int(wrong_sent[step]),
            wrong=int(wrong.sum()),
        )
        for step in range(STEPS)
    ]


def _rare_samples(record: Record, held: HeldOut) -> NDArray[np.bool_]:
    """Samples whose true class is rare; with attributes, those that have a rare one."""
    rare = record.in_group("rare")
    return rare[held.labels] if not record.multilabel else (held.labels[:, rare] == 1).any(1)


def own_class(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """(points, classes) of a curve; with attributes, of the samples that have each."""
    return values[..., 1] if values.ndim == 3 else values


def sent_rows(record: Record, found: Sending) -> list[dict[str, Any]]:
    """One a class that has held-out samples, those sent most first; of too many the first."""
    error = own_class(found.curve.class_error)
    shares = np.array(found.shares.each)
    order = np.argsort(-np.nan_to_num(shares, nan=-1), kind="stable").tolist()
    return [
        {
            "name": record.classes[place],
            "group": record.groups[place],
            "support": found.shares.samples[place],
            "sent": float(shares[place]),
            "error": float(error[STEPS, place]),
            "left": float(error[STEPS - SHOWN_STEP, place]),
            "verdict": found.shares.verdicts[place],
        }
        for place in order
        if found.shares.samples[place]
    ][:MOST_CLASSES]


def sent_sentence(record: Record, found: Sending) -> str:
    """Which classes are abstained away, in plain words."""
    away = found.shares.abstained_away
    share = f"{SHOWN_STEP}%"
    if not away:
        return f"With {share} sent, no {record.noun} is sent far more often than the rest."
    named = [f"{record.classes[place]} ({found.shares.each[place]:.0%})" for place in away]
    return (
        f"With {share} sent, {len(away):,} of {len(record.classes):,} {record.nouns} "
        f"{'is' if len(away) == 1 else 'are'} left to the human far more often than the rest: {listed(named)}."
    )
