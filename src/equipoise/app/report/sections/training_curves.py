"""Training: loss, validation scores and margin strength over the epochs."""

from itertools import groupby
from typing import Any

import numpy as np
from markupsafe import Markup

from equipoise.app.report import drawing
from equipoise.app.report.drawing import COLOURS
from equipoise.app.report.markup import Section, fill
from equipoise.app.stored_run import StoredRun

STAGES = {
    "softmax": ("softmax", "shade1"),
    "class": ("class margins", "shade2"),
    "sample": ("sample level", "shade3"),
}
"""Stage -> its name and shade."""
VALIDATION = {
    "balanced_accuracy": ("balanced accuracy", "ink"),
    "recall_rare": ("rarer classes", "rare"),
    "recall_common": ("other classes", "common"),
}
"""Score -> its name and colour."""
TEMPLATE = """\
{% if figure %}
{% call beside(figure) %}The loss is not comparable across stages: margins make the task harder on purpose. \
{% if epochs|selectattr("balanced_accuracy", "defined")|list %}Validation scores come from samples split off the \
training set, not from the held-out ones. {% endif %}The strength of the margins is set from the data as training goes \
on.{% endcall %}
{% else %}<p class="none">No training curve was kept.</p>{% endif %}
"""


def section(run: StoredRun) -> Section | None:
    """Return the curves and how to read them; None for a blend, which has no epochs."""
    if run.is_blend:
        return None
    return Section("Training", "Training", fill(TEMPLATE, epochs=run.epochs, figure=training_figure(run.epochs)))


@drawing.house_style()
def training_figure(epochs: list[dict[str, Any]]) -> Markup | None:
    """Draw the curves, the stages shaded."""
    if not epochs:
        return None
    checked = [name for name in VALIDATION if any(_number(epoch.get(name)) is not None for epoch in epochs)]
    stronger = any(_number(epoch.get("strength")) for epoch in epochs)
    rows = 1 + bool(checked) + stronger
    panels = list(np.atleast_1d(drawing.new_axes(90 + 125 * rows, rows=rows)))
    _curve(panels[0], epochs, "loss", "accent")
    panels[0].set_ylabel("training loss")
    if checked:
        for name in checked:
            label, colour = VALIDATION[name]
            _curve(panels[1], epochs, name, colour, label)
        panels[1].set_ylabel("validation")
        drawing.share_axis(panels[1].yaxis)
        drawing.legend_above(panels[1])
    if stronger:
        _curve(panels[-1], epochs, "strength", "warn")
        panels[-1].set_ylabel("margin strength")
        panels[-1].set_ylim(bottom=0)
    panels[-1].set_xlabel("epoch")
    panels[-1].xaxis.get_major_locator().set_params(integer=True)
    _shade(panels, epochs)
    return drawing.inline_svg(panels[0].figure, "training", "Training curves over the epochs, the stages shaded")


def _curve(axes: Any, epochs: list[dict[str, Any]], name: str, colour: str, label: str = "") -> None:
    known = [(epoch["epoch"] + 1, value) for epoch in epochs if (value := _number(epoch.get(name))) is not None]
    if known:  # otherwise the loss was never a number
        mark = "o" if len(known) < 3 else None
        axes.plot(*zip(*known, strict=True), color=COLOURS[colour], label=label, marker=mark, ms=5)


def _shade(panels: list[Any], epochs: list[dict[str, Any]]) -> None:
    """Draw a band for each stage, named above the first panel."""
    for axes in panels:
        axes.set_xlim(0.5, epochs[-1]["epoch"] + 1.5)
    for stage, group in groupby(epochs, key=lambda epoch: str(epoch["stage"])):
        if stage not in STAGES:
            continue
        name, shade = STAGES[stage]
        numbers = [epoch["epoch"] + 1 for epoch in group]
        for axes in panels:
            axes.axvspan(numbers[0] - 0.5, numbers[-1] + 0.5, color=COLOURS[shade], lw=0, zorder=0)
        above = {"transform": panels[0].get_xaxis_transform(), "ha": "center", "va": "bottom"}
        panels[0].text((numbers[0] + numbers[-1]) / 2, 1.03, name, color=COLOURS["muted"], **above)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and np.isfinite(value) else None
