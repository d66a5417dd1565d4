"""Confusion: which classes are mistaken for which, in blocks if there are many, and the worst pairs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.app.report.markup import Section, fill
from equipoise.app.stored_run import StoredRun

MOST_CLASSES, MOST_NUMBERS, MOST_PAIRS = 40, 20, 10
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Matrix:
    """Confusion matrix: true classes in rows, predicted ones in columns, the largest training class first.

    ``levels`` range from 0, an empty cell, to 10: the share of the row in tenths, rounded up. With ``blocks``, a row
    stands for several classes and is headed by the first and the last of them.
    """

    heads: list[str]
    counts: Integers
    levels: Integers
    blocks: bool

    @property
    def numbers(self) -> bool:
        """True if there is room for the numbers."""
        return len(self.heads) <= MOST_NUMBERS


@dataclass(frozen=True)
class Pair:
    """Samples of one class that were mistaken for another."""

    true: str
    predicted: str
    count: int
    share: float  # of the true class's samples


def section(run: StoredRun) -> Section:
    """Return the matrix and the worst pairs of classes, or the counts of each attribute."""
    found, table = matrix(run), run.scores.get("confusion")
    attributes = list(zip(run.classes, table, strict=True)) if run.multilabel and table is not None else []
    body = fill("confusion.html.j2", matrix=found, pairs=worst_pairs(run), attributes=attributes)
    data = found and {"heads": found.heads, "counts": found.counts.tolist(), "blocks": found.blocks}
    return Section("Confusion", "Confusion", body, {"confusion": data})


def matrix(run: StoredRun) -> Matrix | None:
    """Return the confusion matrix of classes; None for attributes, and if none was stored."""
    pairs = _pairs(run)
    if pairs is None:
        return None
    true, predicted, count = pairs
    size = len(run.classes)
    order = np.array(run.by_count)
    rank = np.empty(size, dtype=np.int64)
    rank[order] = np.arange(size)
    side = min(size, MOST_CLASSES)
    place = rank * side // size
    counts = np.zeros((side, side), dtype=np.int64)
    np.add.at(counts, (place[true], place[predicted]), count)
    total = counts.sum(1, keepdims=True)
    levels = np.ceil(10 * counts / np.maximum(total, 1) - 1e-9).astype(np.int64)
    return Matrix(_heads(run, order, place, side), counts, levels, blocks=side < size)


def worst_pairs(run: StoredRun, most: int = MOST_PAIRS) -> list[Pair]:
    """Return the most frequent confusions, the largest first; among equals, the larger share of its class first."""
    pairs = _pairs(run)
    if pairs is None:
        return []
    true, predicted, count = (part[pairs[0] != pairs[1]] for part in pairs)
    share = count / np.maximum(run.support[true], 1)
    order = np.lexsort((-share, -count))[:most]
    return [
        Pair(run.classes[true[place]], run.classes[predicted[place]], int(count[place]), float(share[place]))
        for place in order
        if count[place] > 0
    ]


def rivals(run: StoredRun) -> dict[int, int]:
    """Map a class to the one that its samples are most often mistaken for."""
    pairs = _pairs(run)
    if pairs is None:
        return {}
    wrong = (pairs[0] != pairs[1]) & (pairs[2] > 0)
    true, predicted, count = (part[wrong] for part in pairs)
    order = np.argsort(-count, kind="stable")[::-1]  # the most frequent last, so that it overwrites the others
    return dict(zip(true[order].tolist(), predicted[order].tolist(), strict=True))


def _heads(run: StoredRun, order: Integers, place: Integers, side: int) -> list[str]:
    if side == len(order):
        return [run.classes[which] for which in order]
    ends = [order[place[order] == block][[0, -1]] for block in range(side)]
    return [f"{run.classes[first]} … {run.classes[last]}" for first, last in ends]


def _pairs(run: StoredRun) -> tuple[Integers, Integers, Integers] | None:
    """Return true class, predicted class and count of every pair that occurs."""
    if run.multilabel:
        return None
    size, table = len(run.classes), run.scores.get("confusion")
    if run.held_out is not None:
        pairs, count = np.unique(run.held_out.labels * size + run.held_out.predicted, return_counts=True)
        return pairs // size, pairs % size, count.astype(np.int64)
    if table is None:
        return None
    counts = np.asarray(table, dtype=np.int64).reshape(size, size)
    true, predicted = np.nonzero(counts)
    return true.astype(np.int64), predicted.astype(np.int64), counts[true, predicted]
