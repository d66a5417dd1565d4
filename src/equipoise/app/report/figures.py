"""The pictures of the classes: uncertainty against frequency, recall before and after, hard or merely rare."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.ticker import FuncFormatter, NullLocator

from equipoise.app.report.axes import counts_axis, new_axes, percent_axis, share_axis
from equipoise.app.report.formats import percent
from equipoise.app.report.hardness import Hardness
from equipoise.app.report.name_placement import label_points, short
from equipoise.app.report.record import Floats, Record
from equipoise.app.report.svg import COLOURS, drawing, inline_svg
from equipoise.data.summary import Group

MARKS: dict[Group, str] = {"many": "o", "medium": "s", "rare": "^"}
MOST_BARS = 40
"""Classes with a line of their own before and after; more are a scatter."""


def uncertainty_figure(record: Record) -> Markup | None:
    """Class uncertainty over training samples, the latter on a logarithmic axis."""
    if record.uncertainty is None or np.isnan(record.uncertainty).all():
        return None
    with drawing():
        axes = new_axes(320)
        tips = [
            f"{name}: uncertainty {value:.3g}, {count:,} training samples"
            for name, value, count in zip(record.classes, record.uncertainty, record.counts.tolist(), strict=True)
        ]
        drawn = _group_scatter(axes, record, record.uncertainty, tips)
        counts_axis(axes, record)
        known = record.uncertainty[~np.isnan(record.uncertainty)]
        if known.min() > 0 and known.max() > 20 * known.min():
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.yaxis.set_minor_locator(NullLocator())
        else:
            axes.set_ylim(bottom=0)
        axes.margins(x=0.12, y=0.12)
        axes.set_ylabel(f"{record.noun} uncertainty")
        _legend(axes)
        order = np.argsort(-np.nan_to_num(record.uncertainty, nan=-1), kind="stable")
        label_points(axes, np.maximum(record.counts, 1).tolist(), record.uncertainty.tolist(), record.classes, order)
        return inline_svg(axes.figure, "uncertainty", f"Uncertainty of each {record.noun} over its samples", tips=drawn)


def before_after_figure(record: Record) -> Markup | None:
    """Recall of each class, of the softmax stage's model and of the final one."""
    before, after = record.each("recall", before=True), record.each("recall")
    known = np.flatnonzero(~np.isnan(before) & ~np.isnan(after))
    if len(known) == 0:
        return None
    order = known[np.argsort(-record.counts[known], kind="stable")]
    with drawing():
        if len(order) > MOST_BARS:
            return _before_after_scatter(record, before, after, order)
        axes = new_axes(90 + 24 * len(order))
        rows = np.arange(len(order))
        up = after[order] >= before[order]
        for chosen, colour in ((up, "accent"), (~up, "warn")):
            axes.hlines(rows[chosen], before[order][chosen], after[order][chosen], color=COLOURS[colour], lw=2.5)
        tips = [_moved(record, which, before, after) for which in order]
        first = axes.scatter(before[order], rows, s=48, facecolor="none", edgecolor=COLOURS["muted"], lw=1.6, zorder=3)
        first.set_gid("before")
        first.set_label("softmax stage")
        last = axes.scatter(after[order], rows, s=52, color=COLOURS["accent"], zorder=4, label="final model")
        last.set_gid("after")
        axes.set_yticks(rows, [f"{short(record.classes[which])}  ({record.counts[which]:,})" for which in order])
        for text, which in zip(axes.get_yticklabels(), order, strict=True):
            text.set_color(COLOURS[record.groups[which]])
        axes.set_ylim(len(order) - 0.4, -0.6)
        percent_axis(axes.xaxis, axes.set_xlim)
        axes.set_xlabel("recall, the share found")
        axes.grid(False, axis="y")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, borderaxespad=0.2, handletextpad=0.3)
        said = f"Recall of each {record.noun} before and after"
        return inline_svg(axes.figure, "change", said, tips={"before": tips, "after": tips})


def hardness_figure(record: Record, found: Hardness) -> Markup | None:
    """Training samples against the share missed, quarters named; the dot's area is the class's uncertainty."""
    if np.isnan(found.missed).all():
        return None
    with drawing():
        axes = new_axes(380)
        tips = [_hardness_tip(record, found, which) for which in range(len(record.classes))]
        drawn = _group_scatter(axes, record, found.missed, tips, sizes=_areas(record), hollow=_unclear(found))
        counts_axis(axes, record)
        axes.margins(x=0.14)
        top = max(2.2 * found.often_above, 1.12 * float(np.nanmax(found.missed)))
        axes.set_ylim(-0.12 * top, 1.12 * top)
        share_axis(axes.yaxis)
        axes.set_ylabel("share missed (1 − recall)")
        axes.axhline(found.often_above, color=COLOURS["muted"], lw=1, ls=(0, (4, 3)))
        corners = {(1, 1): "overlap with others", (1, 0): "less often missed"}
        if found.few_below is not None:
            axes.axvline(found.few_below, color=COLOURS["muted"], lw=1, ls=(0, (4, 3)))
            corners |= {(0, 1): "need more data", (0, 0): "rare, less often missed"}
        for (right, high), text in corners.items():
            axes.text(
                0.985 if right else 0.015,
                0.98 if high else 0.02,
                text,
                transform=axes.transAxes,
                ha="right" if right else "left",
                va="top" if high else "bottom",
                color=COLOURS["muted"],
                style="italic",
            )
        order = np.argsort(-np.nan_to_num(found.missed, nan=-1), kind="stable")
        if len(order) > MOST_BARS:
            order = order[found.missed[order] > found.often_above]
        label_points(axes, np.maximum(record.counts, 1).tolist(), found.missed.tolist(), record.classes, order)
        said = f"Share missed of each {record.noun} over its training samples"
        return inline_svg(axes.figure, "hardness", said, tips=drawn)


def _before_after_scatter(record: Record, before: Floats, after: Floats, order: Any) -> Markup:
    axes = new_axes(420)
    axes.plot([0, 1], [0, 1], color=COLOURS["muted"], lw=1, ls=(0, (4, 3)))
    tips = [_moved(record, which, before, after) for which in range(len(record.classes))]
    shown = np.full(len(record.classes), np.nan)
    shown[order] = after[order]
    drawn = _group_scatter(axes, record, shown, tips, x=before)
    percent_axis(axes.xaxis, axes.set_xlim)
    percent_axis(axes.yaxis, axes.set_ylim)
    axes.set_xlabel("recall of the softmax stage's model")
    axes.set_ylabel("recall of the final model")
    _legend(axes)
    return inline_svg(axes.figure, "change", f"Recall of each {record.noun} after over before", tips=drawn)


def _group_scatter(
    axes: Any,
    record: Record,
    y: Floats,
    tips: Sequence[str],
    *,
    x: Floats | None = None,
    sizes: Floats | None = None,
    hollow: Any = None,
) -> dict[str, list[str]]:
    """A collection for each group; gives the tool tips of each."""
    across = np.maximum(record.counts, 1).astype(np.float64) if x is None else x
    drawn = {}
    many = len(record.classes) > 100
    for group, mark in MARKS.items():
        for open_ in (False, True):
            rows = (np.array(record.groups) == group) & ~np.isnan(y) & ~np.isnan(across)
            rows &= np.zeros(len(y), bool) == open_ if hollow is None else hollow == open_
            if not rows.any():
                continue
            colour = COLOURS[group]
            area = (24.0 if many else 52.0) if sizes is None else sizes[rows]
            fill = {"facecolor": "none", "lw": 1.5} if open_ else {"facecolor": colour, "lw": 0.5}
            marks = axes.scatter(
                across[rows],
                y[rows],
                s=area,
                marker=mark,
                edgecolor=colour,
                alpha=0.6 if many else 0.85,
                zorder=3,
                **fill,
            )
            marks.set_gid(f"{group}-{'open' if open_ else 'full'}")
            marks.set_label("" if open_ else group)
            drawn[marks.get_gid()] = [tips[which] for which in np.flatnonzero(rows).tolist()]
    return drawn


def _legend(axes: Any) -> None:
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0.2, handletextpad=0.2)


def _areas(record: Record) -> Floats:
    """Area of a dot by the class's uncertainty, the largest 180; alike where it is not known."""
    if record.uncertainty is None or np.isnan(record.uncertainty).all():
        return np.full(len(record.classes), 52.0)
    share = np.nan_to_num(record.uncertainty, nan=0.0)
    return 24 + 156 * np.clip(share / max(float(share.max()), 1e-12), 0, 1)


def _unclear(found: Hardness) -> Any:
    return np.array([kind == "unclear" for kind in found.kinds])


def _moved(record: Record, which: int, before: Floats, after: Floats) -> str:
    return (
        f"{record.classes[which]}: recall {percent(before[which])} before, {percent(after[which])} after, "
        f"{record.support[which]:,} held-out samples"
    )


def _hardness_tip(record: Record, found: Hardness, which: int) -> str:
    rival = found.rivals[which]
    said = (
        f"{record.classes[which]}: {percent(found.missed[which])} missed of {record.support[which]:,} held-out samples"
    )
    return said + ("" if rival is None else f", most often taken for {record.classes[rival]}")


def groups_figure(records: Sequence[Record], names: Sequence[str]) -> Markup:
    """Mean recall of each group of classes, a line a run."""
    with drawing():
        axes = new_axes(90 + 28 * len(records))
        rows = np.arange(len(records))
        drawn: dict[str, list[str]] = {}
        for group, mark in MARKS.items():
            values = np.full(len(records), np.nan)
            for place, record in enumerate(records):
                mine = record.each("recall")[record.in_group(group)]
                values[place] = np.nan if np.isnan(mine).all() else np.nanmean(mine)
            known = ~np.isnan(values)
            if known.any():
                colour = COLOURS[group]
                marks = axes.scatter(values[known], rows[known], s=58, marker=mark, color=colour, zorder=3)
                marks.set_gid(group)
                marks.set_label(group)
                drawn[group] = [f"{names[place]}: {percent(values[place])}" for place in np.flatnonzero(known).tolist()]
        axes.set_yticks(rows, [short(name, 20) for name in names])
        axes.set_ylim(len(records) - 0.4, -0.6)
        percent_axis(axes.xaxis, axes.set_xlim)
        axes.set_xlabel("mean recall of the group's classes")
        _legend(axes)
        return inline_svg(axes.figure, "groups", "Mean recall of each group of classes in every run", tips=drawn)
