"""Which classes are taken for which: a matrix, in blocks where there are many classes, and the worst pairs."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.app.report.record import Record

MOST_CLASSES, MOST_BLOCKS, MOST_NUMBERS, MOST_PAIRS = 40, 40, 20, 10
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Matrix:
    """Rows the true, columns the predicted class, the largest training class first.

    Args:
        heads: names of the rows and columns; a block's are its first and last class.
        counts: (rows, columns) samples.
        levels: 0 to 10, the share of the row in tenths rounded up; 0 is an empty cell.
        blocks: whether a row stands for several classes.
        numbers: whether the cells are large enough for their numbers.
    """

    heads: list[str]
    counts: Integers
    levels: Integers
    blocks: bool

    @property
    def numbers(self) -> bool:
        """Whether there is room for the numbers."""
        return len(self.heads) <= MOST_NUMBERS

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for the page's script."""
        return {"heads": self.heads, "counts": self.counts.tolist(), "blocks": self.blocks}


@dataclass(frozen=True)
class Pair:
    """Samples of one class that were taken for another."""

    true: str
    predicted: str
    count: int
    share: float  # of the true class's samples


def matrix(record: Record) -> Matrix | None:
    """The confusion matrix of classes; None for attributes, and where nothing of it was kept."""
    pairs = _pairs(record)
    if pairs is None:
        return None
    true, predicted, count = pairs
    size = len(record.classes)
    order = by_count(record)
    rank = np.empty(size, dtype=np.int64)
    rank[order] = np.arange(size)
    side = size if size <= MOST_CLASSES else MOST_BLOCKS
    place = rank * side // size
    counts = np.zeros((side, side), dtype=np.int64)
    np.add.at(counts, (place[true], place[predicted]), count)
    total = counts.sum(1, keepdims=True)
    levels = np.ceil(10 * counts / np.maximum(total, 1) - 1e-9).astype(np.int64)
    return Matrix(_heads(record, order, place, side), counts, levels, blocks=side < size)


def worst_pairs(record: Record, most: int = MOST_PAIRS) -> list[Pair]:
    """The most frequent confusions, the largest first; of equal ones that which takes more of its class."""
    pairs = _pairs(record)
    if pairs is None:
        return []
    true, predicted, count = (part[pairs[0] != pairs[1]] for part in pairs)
    share = count / np.maximum(record.support[true], 1)
    order = np.lexsort((-share, -count))[:most]
    return [
        Pair(record.classes[true[place]], record.classes[predicted[place]], int(count[place]), float(share[place]))
        for place in order
        if count[place] > 0
    ]


def rivals(record: Record) -> dict[int, int]:
    """Class -> the other class that its samples are most often taken for."""
    pairs = _pairs(record)
    if pairs is None:
        return {}
    wrong = (pairs[0] != pairs[1]) & (pairs[2] > 0)
    true, predicted, count = (part[wrong] for part in pairs)
    order = np.argsort(-count, kind="stable")[::-1]  # the most frequent last, of equal ones the first: it stays
    return dict(zip(true[order].tolist(), predicted[order].tolist(), strict=True))


def by_count(record: Record) -> Integers:
    """Classes from the largest to the smallest."""
    return np.argsort(-record.counts, kind="stable")


def _heads(record: Record, order: Integers, place: Integers, side: int) -> list[str]:
    if side == len(order):
        return [record.classes[which] for which in order]
    ends = [order[place[order] == block][[0, -1]] for block in range(side)]
    return [f"{record.classes[first]} … {record.classes[last]}" for first, last in ends]


def _pairs(record: Record) -> tuple[Integers, Integers, Integers] | None:
    """True class, predicted class, samples: every pair that occurs."""
    if record.multilabel:
        return None
    size, table = len(record.classes), record.scores.get("confusion")
    if record.held_out is not None:
        pairs, count = np.unique(record.held_out.labels * size + record.held_out.predicted, return_counts=True)
        return pairs // size, pairs % size, count.astype(np.int64)
    if table is None:
        return None
    counts = np.asarray(table, dtype=np.int64).reshape(size, size)
    true, predicted = np.nonzero(counts)
    return true.astype(np.int64), predicted.astype(np.int64), counts[true, predicted]
