"""Class by class: a table of scores, uncertainty and margins."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.app.report.markup import Section, fill
from equipoise.app.stored_run import StoredRun
from equipoise.wording import plural

MOST_ROWS = 2000
TEMPLATE = """\
<p>{{ group_note }}\
{% if rows|length < run.classes|length %} Of {{ run.classes|length|whole }} {{ run.nouns }} the \
{{ (rows|length // 2)|whole }} largest and as many of the smallest are listed.{% endif %} \
<span class="screen">Choose a heading to sort.</span></p>
{% if rows|length > 15 %}{{ finder(run.noun) }}{% endif %}
{% call table(run.nouns|capitalize ~ " and their scores", "classes") %}
<thead><tr>{{ sort(run.noun, "text") }}{{ sort("group", "text") }}\
{{ sort("recall", hint="share of its samples that were found") }}\
{{ sort("precision", hint="share of the answers naming it that were right") }}\
{{ sort("train", dir="descending", hint="training samples") }}{{ held_out_head(run) }}{{ sort("F1") }}\
{{ sort("uncertainty", hint="on samples not trained on" if run.is_blend else "at the end of the softmax stage") }}\
{{ sort("margin") }}</tr></thead>
<tbody>
{% for row in rows %}
<tr><th scope="row">{{ row.name }}</th>{{ group_cell(row) }}\
<td class="n barred">{{ row.recall|percent }}{{ bar(row.recall) }}</td>{{ n(row.precision|percent) }}\
{{ n(row.count|whole) }}{{ n(row.support|whole) }}{{ n(row.f1|percent) }}{{ n(row.uncertainty|number) }}\
{{ n(row.margin|number) }}</tr>
{% endfor %}
</tbody>{% endcall %}
"""


def section(run: StoredRun) -> Section:
    """Return the table with a note on which classes are rare."""
    body = fill(TEMPLATE, run=run, rows=class_rows(run), group_note=group_note(run))
    title = "Attribute by attribute" if run.multilabel else "Class by class"
    return Section(run.nouns.capitalize(), title, body)


def class_rows(run: StoredRun) -> list[dict[str, Any]]:
    """Return one row per class, the largest first; with too many, the largest and the smallest."""
    metrics = {name: run.each(name) for name in ("recall", "precision", "f1")}
    nothing = np.full(len(run.classes), np.nan)
    metrics["uncertainty"] = nothing if run.uncertainty is None else run.uncertainty
    metrics["margin"] = nothing if run.margins is None else run.margins
    order = by_count(run).tolist()
    if len(order) > MOST_ROWS:
        order = order[: MOST_ROWS // 2] + order[-MOST_ROWS // 2 :]
    return [
        {
            "name": run.classes[place],
            "group": run.groups[place],
            "count": int(run.counts[place]),
            "support": int(run.support[place]),
            **{name: float(values[place]) for name, values in metrics.items()},
        }
        for place in order
    ]


def by_count(run: StoredRun) -> NDArray[np.intp]:
    """Return the class indices from the largest to the smallest."""
    return np.argsort(-run.counts, kind="stable")


def group_note(run: StoredRun) -> str:
    """Return a note on which classes are called rare."""
    rare = run.in_group("rare")
    if not rare.any():
        return f"No {run.noun} is rare: the largest has less than 1.5 times the samples of the smallest."
    few, rest = int(run.counts[rare].max()), int(run.counts[~rare].min())
    return (
        f"The range of training counts is cut into three parts of equal ratio; rare {run.nouns} have at most "
        f"{few:,} {plural(few, 'sample')}, all others at least {rest:,}."
    )
