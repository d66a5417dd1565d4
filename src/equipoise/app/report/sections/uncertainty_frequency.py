"""Uncertainty against frequency: how uncertain the model was about each class."""

import numpy as np
from markupsafe import Markup
from matplotlib.ticker import FuncFormatter, NullLocator

from equipoise.app.report import drawing
from equipoise.app.report.markup import Section, fill
from equipoise.app.stored_run import StoredRun

TEMPLATE = """\
{% if figure %}
{% call beside(figure) %}How unsure the {{ run.model_noun }} was of each {{ run.noun }}\
{% if run.is_blend %}, measured on training samples by members that were not fitted to them\
{% else %} {{ "at the end of the softmax stage" if run.has_softmax_stage else "early in training" }}, measured on \
training samples with dropout switched on{% endif %}. \
A rarer or more uncertain {{ run.noun }} was given a larger margin. \
Rare {{ run.nouns }} tend to lie high; one that lies high though it has many samples is hard.{% endcall %}
{% else %}<p class="none">Not measured: this method estimates no {{ run.noun }} uncertainty, or there were too few \
epochs.</p>{% endif %}
"""


def section(run: StoredRun) -> Section:
    """Return the figure and how to read it."""
    body = fill(TEMPLATE, run=run, figure=uncertainty_figure(run))
    return Section("Uncertainty", "Uncertainty against frequency", body)


@drawing.house_style()
def uncertainty_figure(run: StoredRun) -> Markup | None:
    """Draw class uncertainty over training samples, on a logarithmic axis."""
    if run.uncertainty is None or np.isnan(run.uncertainty).all():
        return None
    axes = drawing.new_axes(320)
    tips = [
        f"{name}: uncertainty {value:.3g}, {count:,} training samples"
        for name, value, count in zip(run.classes, run.uncertainty, run.counts.tolist(), strict=True)
    ]
    drawn = drawing.group_scatter(axes, run, run.uncertainty, tips)
    drawing.counts_axis(axes, run)
    if 0 < np.nanmin(run.uncertainty) < np.nanmax(run.uncertainty) / 20:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(bottom=0)
    axes.margins(x=0.12, y=0.12)
    axes.set_ylabel(f"{run.noun} uncertainty")
    drawing.legend_above(axes, handletextpad=0.2)
    drawing.label_points(axes, run, run.uncertainty)
    said = f"Uncertainty of each {run.noun} over its samples"
    return drawing.inline_svg(axes.figure, "uncertainty", said, tips=drawn)
