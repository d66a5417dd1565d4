"""The page of ``equipoise rebalance``: the given predictions beside the corrected answers."""

from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.app.output_files import one_line
from equipoise.app.report.markup import Section, fill, render
from equipoise.app.report.page import subtitle_of, write_page
from equipoise.app.report.sections import confusion, decide, human_review, verdict
from equipoise.app.report.sections.class_table import by_count
from equipoise.app.report.sections.reliability_diagrams import diagram_of, reliability_figure
from equipoise.app.stored_run import StoredRun

MOST_ROWS = 2000
SHOWN = {
    "balanced accuracy": (("balanced_accuracy",), "{:.1%}"),
    "accuracy": (("accuracy",), "{:.1%}"),
    "macro F1": (("f1", "mean"), "{:.1%}"),
    "log loss": (("calibration", "log_loss"), "{:.4f}"),
    "calibration error (ECE)": (("calibration", "ece"), "{:.2%}"),
    "the same class by class, mean": (("calibration", "mean_class_ece"), "{:.2%}"),
}
"""Name of a figure -> its key in ``Scores.as_dict``, and its format."""
FIGURES = """\
<p>{{ run.support.sum()|whole }} labelled rows. Before: the predictions as given, where the most probable class is the \
answer. After: corrected, and decided {{ "by the rule you asked for" if run.record.decision else \
"at a class prior close to a balanced one" }}. The scores are cross-validated: each of {{ folds }} \
parts was answered by a correction fitted to the others.</p>
<div class="scroll" tabindex="0" role="region" aria-label="Figures before and after"><table id="figures">
<thead><tr><th scope="col"></th>{{ heads("before", "after") }}</tr></thead>
<tbody>
{% for name, before, after in figures %}
<tr><th scope="row">{{ name }}</th>{{ n(before) }}{{ n(after) }}</tr>
{% endfor %}
</tbody></table></div>
"""
CLASSES = """\
<p>The margin is how far the logit of a class is moved, given its count and its uncertainty.\
{% if rows|length < run.classes|length %} Of {{ run.classes|length|whole }} classes the {{ (rows|length // 2)|whole }} \
largest and as many of the smallest are listed.{% endif %} <span class="screen">Choose a heading to sort.</span></p>
{% if rows|length > 15 %}{{ finder("class") }}{% endif %}
{% call table("Classes before and after", "classes") %}
<thead><tr>{{ sort("class", "text") }}{{ sort("group", "text") }}{{ sort("rows", dir="descending") }}\
{{ sort("recall before") }}{{ sort("recall after") }}{{ sort("precision before") }}{{ sort("precision after") }}\
{{ sort("margin") }}</tr></thead>
<tbody>
{% for row in rows %}
<tr><th scope="row">{{ row.name }}</th>{{ group_cell(row) }}{{ n(row.count|whole) }}\
<td class="n barred">{{ row.recall[0]|percent }}{{ bar(row.recall[0]) }}</td>\
<td class="n barred">{{ row.recall[1]|percent }}{{ bar(row.recall[1]) }}</td>\
{{ n(row.precision[0]|percent) }}{{ n(row.precision[1]|percent) }}{{ n(row.margin|number) }}</tr>
{% endfor %}
</tbody>{% endcall %}
"""
RELIABILITY = """\
<p>Of the answers given with 80% probability, are 80% right? Dots on the dashed line say yes; below it the model is \
too sure of itself. The larger a dot, the more answers; bars are 95% intervals.</p>
<div class="three">
{% for part, picture in diagrams %}<figure><figcaption><strong>{{ part.title }}</strong><br>ECE \
{{ part.diagram.ece|percent }} · {{ part.diagram.count.sum()|whole }} answers</figcaption>{{ picture }}</figure>
{% endfor %}
</div>
"""


def write_rebalanced(run: StoredRun, path: Path) -> Path:
    """Write the page, one self-contained file.

    Args:
        run: the labelled rows and their cross-fitted answers as held out, and as ``before`` the predictions as given.
    """
    makers = (
        verdict.section,
        decide.section,
        _figures,
        _classes,
        _reliability,
        confusion.section,
        human_review.section,
    )
    sections = [section for make in makers if (section := make(run)) is not None]
    data = {name: value for section in sections for name, value in section.data.items()}
    subtitle = subtitle_of(run, one_line(str(run.predictions)), "rebalanced")
    page = render("report.html.j2", title=run.name, subtitle=subtitle, sections=sections, data=data)
    return write_page(page, path)


def figure_rows(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the name and the values before and after of each figure in ``Scores.as_dict``."""
    return [
        (name, *(form.format(reduce(getitem, path, found)) for found in (before, after)))
        for name, (path, form) in SHOWN.items()
    ]


def _figures(run: StoredRun) -> Section:
    assert run.before is not None
    assert run.record.calibration is not None
    rows = figure_rows(run.before, run.scores)
    body = fill(FIGURES, run=run, folds=run.record.calibration.folds, figures=rows)
    return Section("Before and after", "Before and after", body)


def _classes(run: StoredRun) -> Section:
    both = {name: (run.each(name, before=True), run.each(name)) for name in ("recall", "precision")}
    order = by_count(run).tolist()
    order = order if len(order) <= MOST_ROWS else order[: MOST_ROWS // 2] + order[-MOST_ROWS // 2 :]
    assert run.margins is not None
    rows = [
        {
            "name": run.classes[place],
            "group": run.groups[place],
            "count": int(run.counts[place]),
            "margin": float(run.margins[place]),
            **{name: [float(values[place]) for values in pair] for name, pair in both.items()},
        }
        for place in order
    ]
    return Section("Classes", "Class by class", fill(CLASSES, run=run, rows=rows))


def _reliability(run: StoredRun) -> Section:
    held = run.held_out
    assert held is not None
    assert held.trust is not None
    assert held.before is not None
    sides = {"As given": (held.trust.uncalibrated, held.before), "Corrected": (held.probabilities, held.predicted)}
    rows = np.arange(len(held.labels))
    parts = [
        diagram_of(title, p[rows, named].astype(np.float64).clip(0, 1), named == held.labels)
        for title, (p, named) in sides.items()
    ]
    diagrams = [(part, reliability_figure(part, place)) for place, part in enumerate(parts)]
    return Section("Reliability", "Reliability", fill(RELIABILITY, diagrams=diagrams))
