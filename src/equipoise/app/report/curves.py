"""The pictures of answers and of training: reliability, what is left when a share goes to a human, training curves."""

from itertools import groupby
from typing import Any

import numpy as np
from markupsafe import Markup

from equipoise.app.report.axes import new_axes, percent_axis, share_axis
from equipoise.app.report.record import Record
from equipoise.app.report.reliability import Reliability
from equipoise.app.report.review import Abstention, Sending, own_class
from equipoise.app.report.svg import COLOURS, drawing, inline_svg
from equipoise.data.summary import GROUPS

STAGES = {"softmax": "softmax", "class": "class margins", "sample": "sample level"}
VALIDATION = {
    "balanced_accuracy": "balanced accuracy",
    "recall_rare": "rarer classes",
    "recall_common": "other classes",
}
MOST_LINES = 20
"""Classes with a line of their own; of more, groups have one."""
VALIDATION_COLOURS = {"balanced_accuracy": "ink", "recall_rare": "rare", "recall_common": "many"}


def reliability_figure(found: Reliability, number: int) -> Markup:
    """Share right over the probability stated; the dot's area is the number of answers."""
    with drawing():
        axes = new_axes(330, width=340)
        axes.plot([0, 1], [0, 1], color=COLOURS["muted"], lw=1, ls=(0, (4, 3)))
        axes.vlines(found.confidence, found.low, found.high, color=COLOURS["accent"], lw=1.2, alpha=0.6)
        area = 14 + 120 * found.answers / found.answers.max()
        marks = axes.scatter(found.confidence, found.right, s=area, color=COLOURS["accent"], lw=0, zorder=3)
        marks.set_gid("bins")
        tips = [
            f"stated {stated:.1%}, right {right:.1%} of {answers:,} answers (95% interval {low:.1%} to {high:.1%})"
            for stated, right, answers, low, high in zip(
                found.confidence, found.right, found.answers.tolist(), found.low, found.high, strict=True
            )
        ]
        percent_axis(axes.xaxis, axes.set_xlim)
        percent_axis(axes.yaxis, axes.set_ylim)
        axes.set_xlabel("probability stated")
        axes.set_ylabel("share right")
        said = f"Reliability: {found.title}, expected calibration error {found.ece:.1%}"
        return inline_svg(axes.figure, f"reliability{number}", said, tips={"bins": tips})


def abstention_figure(found: list[Abstention]) -> tuple[Markup, list[list[float]]]:
    """Accuracies of the rest over the share sent; and where on the picture each share's two marks lie."""
    with drawing():
        axes = new_axes(300)
        share = np.array([step.share for step in found])
        plain, balanced = (
            np.array([getattr(step, name) for step in found]) for name in ("accuracy", "balanced_accuracy")
        )
        whole = np.array([step.left == step.tested for step in found])
        axes.plot(share, plain, color=COLOURS["accent"], label="accuracy")
        axes.plot(share[whole], balanced[whole], color=COLOURS["rare"], ls=(0, (5, 2)), label="balanced accuracy")
        if not whole.all():
            rest = slice(max(int(whole.sum()) - 1, 0), None)
            style = {"ls": (0, (1, 2)), "lw": 1.4}
            axes.plot(share[rest], balanced[rest], color=COLOURS["rare"], label="of those left", **style)
        low = float(np.nanmin([plain, balanced]))
        axes.set_ylim(max(0.0, np.floor(10 * low - 0.5) / 10), 1.01)
        axes.set_xlim(0, 1)
        for axis in (axes.xaxis, axes.yaxis):
            share_axis(axis)
        axes.set_xlabel("share sent to a human, the most uncertain first")
        axes.set_ylabel("on the rest")
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0.2, columnspacing=1.2)
        picture = inline_svg(axes.figure, "coverage", "Accuracy of the rest over the share sent", extra="coverage-mark")
        places = _places(axes, share, [plain, balanced])
    return picture, places


def class_coverage_figure(record: Record, found: Sending) -> Markup:
    """Share of each class answered, and its error there, over the share of all samples answered."""
    with drawing():
        panels = list(new_axes(460, rows=2))
        answered, error = own_class(found.curve.class_answered), own_class(found.curve.class_error)
        tested = np.flatnonzero(np.array(found.shares.samples) > 0)
        for axes, values in zip(panels, (answered, error), strict=True):
            _class_lines(axes, record, found, values, tested)
            axes.set_xlim(0, 1)
            for axis in (axes.xaxis, axes.yaxis):
                share_axis(axis)
        panels[0].plot([0, 1], [0, 1], color=COLOURS["muted"], lw=1, ls=(0, (4, 3)))
        panels[0].set_ylim(-0.02, 1.02)
        panels[0].set_ylabel(f"of the {record.noun}, answered")
        panels[1].set_ylim(bottom=-0.005)
        panels[1].set_ylabel("of these, wrong")
        panels[1].set_xlabel("share answered, the most certain first")
        handles, labels = panels[0].get_legend_handles_labels()
        panels[0].legend(handles, labels, loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0.2)
        said = f"Share answered and share wrong of each {record.noun} over the share of all samples answered"
        return inline_svg(panels[0].figure, "classcoverage", said)


def _class_lines(axes: Any, record: Record, found: Sending, values: Any, tested: Any) -> None:
    """A line a class in its group's colour; of many classes, the mean of each group."""
    for group in GROUPS:
        mine = [place for place in tested.tolist() if record.groups[place] == group]
        if not mine:
            continue
        lines = values[:, mine]
        if len(tested) > MOST_LINES:
            known = ~np.isnan(lines)
            count = known.sum(1)
            mean = np.where(count > 0, np.where(known, lines, 0).sum(1) / np.maximum(count, 1), np.nan)
            lines = mean[:, None]
        style = {"color": COLOURS[group], "lw": 1.3, "alpha": 0.85}
        for place, line in enumerate(lines.T):
            axes.plot(found.curve.share, line, label="" if place else group, **style)


def training_figure(record: Record) -> Markup | None:
    """Loss, validation scores and margin strength over the epochs, the stages shaded."""
    epochs = record.epochs
    if not epochs:
        return None
    checked = [name for name in VALIDATION if any(_number(epoch.get(name)) is not None for epoch in epochs)]
    stronger = any(_number(epoch.get("strength")) for epoch in epochs)
    with drawing():
        rows = 1 + bool(checked) + stronger
        drawn = new_axes(90 + 125 * rows, rows=rows)
        panels = list(np.atleast_1d(np.array(drawn, dtype=object)))
        _curve(panels[0], epochs, "loss", "accent", "")
        panels[0].set_ylabel("training loss")
        if checked:
            for name in checked:
                _curve(panels[1], epochs, name, VALIDATION_COLOURS[name], VALIDATION[name])
            panels[1].set_ylabel("validation")
            share_axis(panels[1].yaxis)
            panels[1].legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0.2)
        if stronger:
            _curve(panels[-1], epochs, "strength", "warn", "")
            panels[-1].set_ylabel("margin strength")
            panels[-1].set_ylim(bottom=0)
        panels[-1].set_xlabel("epoch")
        panels[-1].xaxis.get_major_locator().set_params(integer=True)
        _shade(panels, epochs)
        return inline_svg(panels[0].figure, "training", "Training curves over the epochs, the stages shaded")


def _curve(axes: Any, epochs: list[dict[str, Any]], name: str, colour: str, label: str) -> None:
    points = [(epoch["epoch"] + 1, _number(epoch.get(name))) for epoch in epochs]
    known = [point for point in points if point[1] is not None]
    if not known:  # a loss that was never a number
        return
    mark = "o" if len(known) < 3 else None
    axes.plot(*zip(*known, strict=True), color=COLOURS[colour], label=label, marker=mark, ms=5)


def _shade(panels: list[Any], epochs: list[dict[str, Any]]) -> None:
    """A band for each stage, named above the first panel."""
    shades = dict(zip(STAGES, ("shade1", "shade2", "shade3"), strict=True))
    for axes in panels:
        axes.set_xlim(0.5, epochs[-1]["epoch"] + 1.5)
    for stage, group in groupby(epochs, key=lambda epoch: str(epoch["stage"])):
        if stage not in STAGES:
            continue
        numbers = [epoch["epoch"] + 1 for epoch in group]
        for axes in panels:
            axes.axvspan(numbers[0] - 0.5, numbers[-1] + 0.5, color=COLOURS[shades[stage]], lw=0, zorder=0)
        middle = (numbers[0] + numbers[-1]) / 2
        place = panels[0].get_xaxis_transform()
        panels[0].text(middle, 1.03, STAGES[stage], transform=place, ha="center", va="bottom", color=COLOURS["muted"])


def _places(axes: Any, share: Any, lines: list[Any]) -> list[list[float]]:
    """x, and y of each line, in the picture's own units; the last two are the ends of the vertical axis."""
    height = axes.figure.get_size_inches()[1] * 72
    bottom, top = (height - y for y in axes.get_window_extent().get_points()[:, 1])
    found = []
    for place, across in enumerate(share):
        spots = [axes.transData.transform((across, line[place])) for line in lines]
        found.append(
            [round(float(number), 2) for number in (spots[0][0], *(height - y for _, y in spots), bottom, top)]
        )
    return [[0.0 if np.isnan(number) else number for number in row] for row in found]


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and np.isfinite(value) else None
