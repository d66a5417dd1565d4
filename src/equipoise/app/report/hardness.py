"""Hard or merely rare? Classes that need more data, apart from classes that overlap with others."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from equipoise.app.report.confusion import rivals
from equipoise.app.report.record import Floats, Record

Kind = Literal["needs data", "overlaps", "middling", "distinct", "learnt", "unclear"]
LEAST_MISSED, LEAST_TESTED = 0.1, 10

KINDS: dict[Kind, str] = {
    "needs data": "Few samples, often missed: more data may help",
    "overlaps": "Many samples, often missed: overlaps with others",
    "middling": "Missed more often than a tenth, but no more than the mean",
    "distinct": "Few samples, seldom missed: rare but distinct",
    "learnt": "Many samples, seldom missed",
    "unclear": f"Fewer than {LEAST_TESTED} held-out samples: too few to say",
}


@dataclass(frozen=True)
class Hardness:
    """Where each class stands.

    Args:
        missed: share of its held-out samples that were not found; NaN without any.
        few_below: classes with fewer training samples are rare; None where none is.
        often_above: classes missed more often are hard: more than the mean class, and than a tenth.
        kinds: one a class; it is distinct or learnt where at most a tenth is missed, middling between that and
            ``often_above``.
        rivals: place of the class that takes most of the missed samples, None where none does.
    """

    missed: Floats
    few_below: float | None
    often_above: float
    kinds: tuple[Kind, ...]
    rivals: tuple[int | None, ...]


def hardness(record: Record) -> Hardness:
    """Sort the classes by training samples and by how often they are missed."""
    missed = 1 - record.each("recall")
    known = missed[~np.isnan(missed)]
    often = max(LEAST_MISSED, float(known.mean()) if len(known) else 0.0)
    rare = record.in_group("rare")
    kinds: list[Kind] = []
    for share, scarce, tested in zip(missed.tolist(), rare.tolist(), record.support.tolist(), strict=True):
        if tested < LEAST_TESTED:
            kinds.append("unclear")
        elif share > often:
            kinds.append("needs data" if scarce else "overlaps")
        elif share > LEAST_MISSED:
            kinds.append("middling")
        else:
            kinds.append("distinct" if scarce else "learnt")
    taken = rivals(record)
    return Hardness(
        missed=missed,
        few_below=_border(record) if rare.any() else None,
        often_above=often,
        kinds=tuple(kinds),
        rivals=tuple(taken.get(place) for place in range(len(record.classes))),
    )


def _border(record: Record) -> float:
    """Between the largest rare and the smallest other class, on the logarithmic axis."""
    rare, counts = record.in_group("rare"), np.maximum(record.counts, 1)
    return float(np.sqrt(counts[rare].max() * counts[~rare].min()))
