"""Axes of the page's pictures."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from equipoise.app.report.record import Record

WIDTH = 420
"""Units of a picture's width: little more than a phone's pixels, so that its text is legible there too."""


def new_axes(height: float, *, rows: int = 1, width: float = WIDTH) -> Any:
    """Axes of a figure whose unit is the page's pixel."""
    figure = Figure(figsize=(width / 72, height / 72), layout="constrained")
    return figure.subplots(rows, 1, sharex=True) if rows > 1 else figure.add_subplot()


def counts_axis(axes: Any, record: Record) -> None:
    """Training samples on a logarithmic axis with whole numbers."""
    axes.set_xscale("log")
    spread = max(float(record.counts.max()), 1) / max(float(record.counts.min()), 1)
    places = (1.0, 2.0, 5.0) if spread < 50 else (1.0, 3.0) if spread < 1000 else (1.0,)
    axes.xaxis.set_major_locator(LogLocator(subs=places))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("positive training samples" if record.multilabel else "training samples")


def percent_axis(axis: Any, limits: Any) -> None:
    """0 to 100 %, with room for the marks at both ends."""
    limits(-0.03, 1.03)
    axis.set_ticks([0, 0.25, 0.5, 0.75, 1], ["0%", "25%", "50%", "75%", "100%"])


class ShareLocator(MaxNLocator):
    """Ticks from 0 to 100 % only, whatever room the axis leaves beyond for marks and names.

    >>> ShareLocator().tick_values(-0.1, 1.2).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """

    def __init__(self) -> None:
        super().__init__(nbins=6, steps=[1, 2, 2.5, 5, 10])

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Those of the base class that a share can have."""
        found = np.asarray(super().tick_values(vmin, vmax))
        return found[(found > -1e-9) & (found < 1 + 1e-9)]


def share_axis(axis: Any) -> None:
    """Shares in percent where not all from 0 to 100 % is shown."""
    axis.set_major_locator(ShareLocator())
    axis.set_major_formatter(FuncFormatter(whole_percent))


def whole_percent(share: float, _: object = None) -> str:
    """For the ticks of an axis.

    >>> whole_percent(0.9), whole_percent(0.975)
    ('90%', '97.5%')
    """
    return f"{round(100 * share, 2):g}%"
