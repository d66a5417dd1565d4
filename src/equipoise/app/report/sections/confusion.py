"""Confusion: which classes are mistaken for which, in blocks if there are many, and the worst pairs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.app.report.markup import Section, fill
from equipoise.app.report.sections.class_table import by_count
from equipoise.app.stored_run import StoredRun

MOST_CLASSES, MOST_NUMBERS, MOST_PAIRS = 40, 20, 10
Integers = NDArray[np.int64]
TEMPLATE = """\
{% if matrix %}
<p>Rows are the true, columns the predicted {{ "blocks of classes" if matrix.blocks else "class" }}, from the \
largest class to the smallest{% if matrix.blocks %}; each block joins neighbours in that order{% endif %}. The shade \
is the share of the row. <span class="screen">Point at a cell, or move with the arrow keys.</span></p>
<p id="cell" class="readout" aria-live="polite">Blue: right answers. Orange: mistakes.</p>
<div class="side"><div class="scroll"><table id="confusion" role="grid" \
class="matrix{% if not matrix.numbers %} dense{% endif %}" aria-label="Confusion matrix" aria-describedby="cell">
<thead><tr role="row"><td class="corner"></td>{% for head in matrix.heads %}<th scope="col" role="columnheader"><span>\
{% if matrix.blocks %}{{ head.split(" … ")[0]|truncate(17, true, "…", 0) }} …\
{% else %}{{ head|truncate(18, true, "…", 0) }}{% endif %}</span></th>{% endfor %}</tr></thead>
<tbody>
{% for head in matrix.heads %}
{% set row = loop.index0 %}
<tr role="row"><th scope="row" role="rowheader">{{ head|truncate(28, true, "…", 0) }}</th>\
{% for count in matrix.counts[row].tolist() %}\
<td role="gridcell" class="{{ "r" if loop.index0 == row else "w" }}{{ matrix.levels[row, loop.index0] }}">\
{% if matrix.numbers and count %}{{ count|whole }}{% endif %}</td>{% endfor %}</tr>
{% endfor %}
</tbody></table></div>
{% endif %}
{% if pairs %}
<div><h3>Most frequent confusions</h3>
<div class="scroll"><table class="small"><thead><tr><th scope="col">true</th><th scope="col">predicted as</th>\
{{ heads("samples", "of the class") }}</tr></thead><tbody>
{% for pair in pairs %}<tr><th scope="row">{{ pair.true }}</th><td>{{ pair.predicted }}</td>{{ n(pair.count|whole) }}\
{{ n(pair.share|percent) }}</tr>
{% endfor %}</tbody></table></div></div>
{% elif matrix %}<p>No sample was confused.</p>{% endif %}
{% if matrix %}</div>{% endif %}
{% if attributes %}
<p>Answers to each attribute: found and missed among the samples that have it, false alarms among those that have \
not.</p>
<div class="scroll tall" tabindex="0" role="region" aria-label="Answers to each attribute"><table class="sortable" \
id="answers"><thead><tr>{{ sort("attribute", "text") }}{{ sort("found") }}{{ sort("missed") }}\
{{ sort("false alarms") }}{{ sort("rightly absent") }}</tr></thead><tbody>
{% for name, ((absent, alarms), (missed, found)) in attributes %}<tr><th scope="row">{{ name }}</th>\
{{ n(found|whole) }}{{ n(missed|whole) }}{{ n(alarms|whole) }}{{ n(absent|whole) }}</tr>
{% endfor %}</tbody></table></div>
{% elif not matrix and not pairs %}<p class="none">No confusions were kept.</p>{% endif %}
"""


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
    body = fill(TEMPLATE, matrix=found, pairs=worst_pairs(run), attributes=attributes)
    data = found and {"heads": found.heads, "counts": found.counts.tolist(), "blocks": found.blocks}
    return Section("Confusion", "Confusion", body, {"confusion": data})


def matrix(run: StoredRun) -> Matrix | None:
    """Return the confusion matrix of classes; None for attributes, and if none was stored."""
    pairs = _pairs(run)
    if pairs is None:
        return None
    true, predicted, count = pairs
    size = len(run.classes)
    order = by_count(run)
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
