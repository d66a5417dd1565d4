"""Class by class: each one's scores, uncertainty and margin in a table."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.app.report.markup import Section, fill
from equipoise.app.report.record import Record
from equipoise.wording import plural

MOST_ROWS = 2000
TEMPLATE = """\
<p>{{ group_note }}\
{% if rows|length < record.classes|length %} Of {{ record.classes|length|whole }} {{ record.nouns }} the {{ \
(rows|length // 2)|whole \
}} largest and as many of the smallest are listed.{% endif %} <span class="screen">Choose a heading to sort.</span></p>
{% if rows|length > 15 %}{{ finder(record.noun) }}{% endif %}
{% call table(record.nouns|capitalize ~ " and their scores", "classes") %}
<thead><tr>{{ sort(record.noun, "text") }}{{ sort("group", "text") }}\
{{ sort("recall", hint="share of its samples that were found") }}\
{{ sort("precision", hint="share of the answers naming it that were right") }}\
{{ sort("train", dir="descending", hint="training samples") }}{{ held_out_head(record) }}{{ sort("F1") }}\
{{ sort("uncertainty", hint="at the end of the softmax stage") }}{{ sort("margin") }}</tr></thead>
<tbody>
{% for row in rows %}
<tr><th scope="row">{{ row.name }}</th>{{ group_cell(row) }}\
<td class="n barred">{{ row.recall|percent }}{{ bar(row.recall) }}</td><td class="n">{{ row.precision|percent }}</td>\
<td class="n">{{ row.count|whole }}</td><td class="n">{{ row.support|whole }}</td>\
<td class="n">{{ row.f1|percent }}</td><td class="n">{{ row.uncertainty|number }}</td>\
<td class="n">{{ row.margin|number }}</td></tr>
{% endfor %}
</tbody>{% endcall %}
"""


def section(record: Record) -> Section:
    """Return the table with a note on which classes are rare."""
    body = fill(TEMPLATE, record=record, rows=class_rows(record), group_note=group_note(record))
    title = "Attribute by attribute" if record.multilabel else "Class by class"
    return Section(record.nouns.capitalize(), title, body)


def class_rows(record: Record) -> list[dict[str, Any]]:
    """Return one row a class, the largest first; of too many the largest and the smallest."""
    metrics = {name: record.each(name) for name in ("recall", "precision", "f1")}
    nothing = np.full(len(record.classes), np.nan)
    metrics["uncertainty"] = nothing if record.uncertainty is None else record.uncertainty
    metrics["margin"] = nothing if record.margins is None else record.margins
    order = by_count(record).tolist()
    if len(order) > MOST_ROWS:
        order = order[: MOST_ROWS // 2] + order[-MOST_ROWS // 2 :]
    return [
        {
            "name": record.classes[place],
            "group": record.groups[place],
            "count": int(record.counts[place]),
            "support": int(record.support[place]),
            **{name: float(values[place]) for name, values in metrics.items()},
        }
        for place in order
    ]


def by_count(record: Record) -> NDArray[np.intp]:
    """Return the classes' places from the largest to the smallest."""
    return np.argsort(-record.counts, kind="stable")


def group_note(record: Record) -> str:
    """Say which classes are called rare."""
    rare = record.in_group("rare")
    if not rare.any():
        return f"No {record.noun} is rare: the largest has less than 1.5 times the samples of the smallest."
    few, rest = int(record.counts[rare].max()), int(record.counts[~rare].min())
    return (
        f"The range of training counts is cut into three parts of equal ratio; rare {record.nouns} have at most "
        f"{few:,} {plural(few, 'sample')}, all others at least {rest:,}."
    )
