"""Before and after: what changed between the softmax stage's model and the final one, class by class and in groups."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from scipy.special import bdtr

from equipoise.app.report import drawing
from equipoise.app.report.drawing import COLOURS
from equipoise.app.report.markup import Section, fill, percent
from equipoise.app.report.sections.class_table import by_count
from equipoise.app.stored_run import Floats, HeldOut, StoredRun
from equipoise.data.summary import GROUPS, Group
from equipoise.evaluation.intervals import Z, combined

CHANCE = 0.05
MOST_CELLS = 2**26
"""Samples × classes up to which false alarms before and after are compared."""
MOST_LINES = 40
"""Classes with a line of their own; more are a scatter."""
TEMPLATE = """\
{% if figure %}
{% call beside(figure) %}Recall of each {{ run.noun }} with the softmax stage's model and with the final one\
{% if run.classes|length <= 40 %}, the largest {{ run.noun }} first, its training samples in brackets{% else %}; \
above the dashed line it is found more often than before{% endif %}.{% endcall %}
{% else %}<p class="none">There is no softmax stage's model to compare with.</p>{% endif %}
"""


class Gap(NamedTuple):
    """Recall − false alarms, the mean over the classes, 0 for one answer to all; and the change's 95 % interval."""

    before: float
    after: float
    low: float
    high: float


@dataclass(frozen=True)
class Change:
    """What became of a group of classes between the softmax stage's model and the final one, and what it cost.

    Args:
        classes: their names.
        samples: held-out samples of them.
        before, after: mean recall of those classes that were tested; NaN where unknown.
        precision: mean precision before and after, likewise.
        gained, lost: held-out samples that are newly right and newly wrong; None where unknown.
        alarms: wrong answers that name one of the classes, before and after; None where unknown.
        gap: what is left of the change in recall when false alarms count against it; None where unknown.
    """

    name: str
    classes: tuple[str, ...]
    samples: int
    before: float
    after: float
    precision: tuple[float, float]
    gained: int | None
    lost: int | None
    alarms: tuple[int, int] | None
    gap: Gap | None

    @property
    def difference(self) -> float:
        """After minus before."""
        return self.after - self.before

    @property
    def chance(self) -> float | None:
        """How often chance alone would split gained and lost as unevenly; None where unknown.

        It tells whether recall has changed, not whether the model got better: answering with the class always would
        have changed it too.
        """
        return None if self.gained is None or self.lost is None else sign_test(self.gained, self.lost)

    @property
    def clear(self) -> bool:
        """Whether chance is an unlikely explanation of the change in recall, as far as it is known."""
        return self.chance is None or self.chance < CHANCE


def section(run: StoredRun) -> Section:
    """Return the picture and how to read it."""
    return Section("Before and after", "Before and after", fill(TEMPLATE, run=run, figure=recall_figure(run)))


def recall_figure(run: StoredRun) -> Markup | None:
    """Draw the recall of each class before and after."""
    before, after = run.each("recall", before=True), run.each("recall")
    known = ~np.isnan(before) & ~np.isnan(after)
    tips = [
        f"{name}: recall {percent(was)} before, {percent(now)} after, {held:,} held-out samples"
        for name, was, now, held in zip(run.classes, before, after, run.support, strict=True)
    ]
    if not known.any():
        return None
    draw = _lines if known.sum() <= MOST_LINES else _scatter
    return draw(run, before, np.where(known, after, np.nan), tips)


@drawing.house_style()
def _lines(run: StoredRun, before: Floats, after: Floats, tips: list[str]) -> Markup:
    order = [place for place in by_count(run).tolist() if not np.isnan(after[place])]
    axes = drawing.new_axes(90 + 24 * len(order))
    rows, was, now = np.arange(len(order)), before[order], after[order]
    for chosen, colour in ((now >= was, "accent"), (now < was, "warn")):
        axes.hlines(rows[chosen], was[chosen], now[chosen], color=COLOURS[colour], lw=2.5)
    hollow = {"facecolor": "none", "edgecolor": COLOURS["muted"], "lw": 1.6}
    axes.scatter(was, rows, s=48, zorder=3, label="softmax stage", **hollow).set_gid("before")
    axes.scatter(now, rows, s=52, color=COLOURS["accent"], zorder=4, label="final model").set_gid("after")
    axes.set_yticks(rows, [f"{drawing.short(run.classes[which])}  ({run.counts[which]:,})" for which in order])
    for text, which in zip(axes.get_yticklabels(), order, strict=True):
        text.set_color(COLOURS[run.groups[which]])
    axes.set(ylim=(len(order) - 0.4, -0.6), xlabel="recall, the share found")
    drawing.percent_axis(axes, "x")
    axes.grid(False, axis="y")
    drawing.legend_above(axes, 2, handletextpad=0.3)
    shown = [tips[which] for which in order]
    said = f"Recall of each {run.noun} before and after"
    return drawing.inline_svg(axes.figure, "change", said, tips={"before": shown, "after": shown})


@drawing.house_style()
def _scatter(run: StoredRun, before: Floats, after: Floats, tips: list[str]) -> Markup:
    axes = drawing.new_axes(420)
    axes.plot([0, 1], [0, 1], **drawing.DASHED)
    drawn = drawing.group_scatter(axes, run, after, tips, x=before)
    drawing.percent_axis(axes, "x")
    drawing.percent_axis(axes, "y")
    axes.set(xlabel="recall of the softmax stage's model", ylabel="recall of the final model")
    drawing.legend_above(axes, handletextpad=0.2)
    return drawing.inline_svg(axes.figure, "change", f"Recall of each {run.noun} after over before", tips=drawn)


def group_changes(run: StoredRun) -> list[Change]:
    """Compare recall before and after in each group that has classes, and in all classes together last."""
    groups = [group for group in GROUPS if group in run.groups]
    return [*(_change(run, group, group) for group in groups), _change(run, "all", *groups)]


def sign_test(gained: int, lost: int) -> float:
    """Return P of a split at least as uneven when a changed sample is as likely to turn right as wrong.

    >>> sign_test(10, 0), sign_test(3, 3)
    (0.001953125, 1.0)
    """
    return float(min(1.0, 2 * bdtr(min(gained, lost), gained + lost, 0.5)))


def _change(run: StoredRun, name: str, *groups: Group) -> Change:
    mine = run.in_group(*groups)
    tested = mine & (run.support > 0)
    recall, precision = (
        [_mean(run.each(metric, before=early)[tested]) for early in (True, False)] for metric in ("recall", "precision")
    )
    gained, lost = _turned(run, tested)
    named = None if run.held_out is None else _named(run, run.held_out, tested)
    return Change(
        name=name,
        classes=tuple(run.classes[place] for place in np.flatnonzero(mine)),
        samples=int(run.support[mine].sum()),
        before=recall[0],
        after=recall[1],
        precision=(precision[0], precision[1]),
        gained=gained,
        lost=lost,
        alarms=None if named is None else (int((named[1] & ~named[0]).sum()), int((named[2] & ~named[0]).sum())),
        gap=None if named is None else _gap(*named),
    )


def _turned(run: StoredRun, tested: NDArray[np.bool_]) -> tuple[int | None, int | None]:
    """Count samples of the classes that turned right and wrong; with attributes, those that have it."""
    held = run.held_out
    if held is None or held.before is None:
        return None, None
    asked = tested & (held.labels == 1) if run.multilabel else tested[held.labels]
    was, now = held.before == held.labels, held.predicted == held.labels
    return int((asked & now & ~was).sum()), int((asked & was & ~now).sum())


def _named(run: StoredRun, held: HeldOut, tested: NDArray[np.bool_]) -> tuple[Any, Any, Any] | None:
    """Which samples have, were given before, and are given now each of the tested classes: (samples, classes) each."""
    places = np.flatnonzero(tested)
    if held.before is None or not len(places) or len(places) * len(held.labels) > MOST_CELLS:
        return None
    parts = (held.labels, held.before, held.predicted)
    own, was, now = (part[:, places] == 1 if run.multilabel else part[:, None] == places for part in parts)
    return own, was, now


def _gap(own: Any, was: Any, now: Any) -> Gap | None:
    """Compare class by class: of its samples those newly found, of the others those newly given it."""
    both = (own, ~own)
    if any((kind.sum(0) == 0).any() for kind in both):  # a class that all samples have: no false alarm is possible
        return None
    shares = [[(given & kind).sum(0) / kind.sum(0) for given in (was, now)] for kind in both]
    before, after = ((shares[0][time] - shares[1][time]).mean() for time in (0, 1))
    found = [_paired((now & ~was & kind).sum(0), (was & ~now & kind).sum(0), kind.sum(0)) for kind in both]
    change, below, above = (np.concatenate(part) for part in zip(*found, strict=True))
    size = own.shape[1]
    low, high = combined(change, below, above, np.repeat([1 / size, -1 / size], size))
    return Gap(float(before), float(after), low, high)


def _paired(gained: Any, lost: Any, samples: Any) -> tuple[Any, Any, Any]:
    """Change of a share with its interval, half a sample added to each of the four cells (Agresti and Min 2005)."""
    more, less, total = gained + 0.5, lost + 0.5, samples + 2
    middle = (more - less) / total
    half = Z * np.sqrt((more + less) / total - middle**2) / np.sqrt(total)
    change = (gained - lost) / samples
    return change, np.minimum(middle - half, change), np.maximum(middle + half, change)


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else float("nan")
