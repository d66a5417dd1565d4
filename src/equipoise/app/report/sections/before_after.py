"""Before and after: each class's recall with the softmax stage's model and with the final one."""

import numpy as np
from markupsafe import Markup

from equipoise.app.report.drawing import (
    COLOURS,
    DASHED,
    drawing,
    group_scatter,
    inline_svg,
    legend_above,
    new_axes,
    percent_axis,
    short,
)
from equipoise.app.report.markup import Section, fill, percent
from equipoise.app.report.record import Floats, Record
from equipoise.app.report.sections.class_table import by_count

MOST_LINES = 40
"""Classes with a line of their own; more are a scatter."""
TEMPLATE = """\
{% if figure %}
{% call beside(figure) %}Recall of each {{ record.noun }} with the softmax stage's model and with the final one\
{% if record.classes|length <= 40 %}, the largest {{ record.noun }} first, its training samples in brackets{% else %}; \
above the dashed line it is found more often than before{% endif %}.{% endcall %}
{% else %}<p class="none">There is no softmax stage's model to compare with.</p>{% endif %}
"""


def section(record: Record) -> Section:
    """Return the picture and how to read it."""
    return Section("Before and after", "Before and after", fill(TEMPLATE, record=record, figure=recall_figure(record)))


def recall_figure(record: Record) -> Markup | None:
    """Draw the recall of each class before and after."""
    before, after = record.each("recall", before=True), record.each("recall")
    known = ~np.isnan(before) & ~np.isnan(after)
    if not known.any():
        return None
    tips = [
        f"{name}: recall {percent(was)} before, {percent(now)} after, {held:,} held-out samples"
        for name, was, now, held in zip(record.classes, before, after, record.support, strict=True)
    ]
    with drawing():
        return (_lines if known.sum() <= MOST_LINES else _scatter)(record, before, np.where(known, after, np.nan), tips)


def _lines(record: Record, before: Floats, after: Floats, tips: list[str]) -> Markup:
    order = [place for place in by_count(record).tolist() if not np.isnan(after[place])]
    axes = new_axes(90 + 24 * len(order))
    rows, was, now = np.arange(len(order)), before[order], after[order]
    for chosen, colour in ((now >= was, "accent"), (now < was, "warn")):
        axes.hlines(rows[chosen], was[chosen], now[chosen], color=COLOURS[colour], lw=2.5)
    hollow = {"facecolor": "none", "edgecolor": COLOURS["muted"], "lw": 1.6}
    axes.scatter(was, rows, s=48, zorder=3, label="softmax stage", **hollow).set_gid("before")
    axes.scatter(now, rows, s=52, color=COLOURS["accent"], zorder=4, label="final model").set_gid("after")
    axes.set_yticks(rows, [f"{short(record.classes[which])}  ({record.counts[which]:,})" for which in order])
    for text, which in zip(axes.get_yticklabels(), order, strict=True):
        text.set_color(COLOURS[record.groups[which]])
    axes.set_ylim(len(order) - 0.4, -0.6)
    percent_axis(axes.xaxis, axes.set_xlim)
    axes.set_xlabel("recall, the share found")
    axes.grid(False, axis="y")
    legend_above(axes, 2, handletextpad=0.3)
    shown = [tips[which] for which in order]
    said = f"Recall of each {record.noun} before and after"
    return inline_svg(axes.figure, "change", said, tips={"before": shown, "after": shown})


def _scatter(record: Record, before: Floats, after: Floats, tips: list[str]) -> Markup:
    axes = new_axes(420)
    axes.plot([0, 1], [0, 1], **DASHED)
    drawn = group_scatter(axes, record, after, tips, x=before)
    percent_axis(axes.xaxis, axes.set_xlim)
    percent_axis(axes.yaxis, axes.set_ylim)
    axes.set_xlabel("recall of the softmax stage's model")
    axes.set_ylabel("recall of the final model")
    legend_above(axes, handletextpad=0.2)
    return inline_svg(axes.figure, "change", f"Recall of each {record.noun} after over before", tips=drawn)
