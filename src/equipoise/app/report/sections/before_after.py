"""Before and after: each class's recall with the softmax stage's model and with the final one."""

import numpy as np
from markupsafe import Markup

from equipoise.app.report import drawing
from equipoise.app.report.drawing import COLOURS
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
    tips = [
        f"{name}: recall {percent(was)} before, {percent(now)} after, {held:,} held-out samples"
        for name, was, now, held in zip(record.classes, before, after, record.support, strict=True)
    ]
    if not known.any():
        return None
    draw = _lines if known.sum() <= MOST_LINES else _scatter
    return draw(record, before, np.where(known, after, np.nan), tips)


@drawing.house_style()
def _lines(record: Record, before: Floats, after: Floats, tips: list[str]) -> Markup:
    order = [place for place in by_count(record).tolist() if not np.isnan(after[place])]
    axes = drawing.new_axes(90 + 24 * len(order))
    rows, was, now = np.arange(len(order)), before[order], after[order]
    for chosen, colour in ((now >= was, "accent"), (now < was, "warn")):
        axes.hlines(rows[chosen], was[chosen], now[chosen], color=COLOURS[colour], lw=2.5)
    hollow = {"facecolor": "none", "edgecolor": COLOURS["muted"], "lw": 1.6}
    axes.scatter(was, rows, s=48, zorder=3, label="softmax stage", **hollow).set_gid("before")
    axes.scatter(now, rows, s=52, color=COLOURS["accent"], zorder=4, label="final model").set_gid("after")
    axes.set_yticks(rows, [f"{drawing.short(record.classes[which])}  ({record.counts[which]:,})" for which in order])
    for text, which in zip(axes.get_yticklabels(), order, strict=True):
        text.set_color(COLOURS[record.groups[which]])
    axes.set(ylim=(len(order) - 0.4, -0.6), xlabel="recall, the share found")
    drawing.percent_axis(axes, "x")
    axes.grid(False, axis="y")
    drawing.legend_above(axes, 2, handletextpad=0.3)
    shown = [tips[which] for which in order]
    said = f"Recall of each {record.noun} before and after"
    return drawing.inline_svg(axes.figure, "change", said, tips={"before": shown, "after": shown})


@drawing.house_style()
def _scatter(record: Record, before: Floats, after: Floats, tips: list[str]) -> Markup:
    axes = drawing.new_axes(420)
    axes.plot([0, 1], [0, 1], **drawing.DASHED)
    drawn = drawing.group_scatter(axes, record, after, tips, x=before)
    drawing.percent_axis(axes, "x")
    drawing.percent_axis(axes, "y")
    axes.set(xlabel="recall of the softmax stage's model", ylabel="recall of the final model")
    drawing.legend_above(axes, handletextpad=0.2)
    return drawing.inline_svg(axes.figure, "change", f"Recall of each {record.noun} after over before", tips=drawn)
