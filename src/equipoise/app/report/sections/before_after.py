"""Before and after: the model before balancing compared with the final one, by class and by group."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from scipy.special import bdtr

from equipoise.app.report import drawing
from equipoise.app.report.drawing import COLOURS
from equipoise.app.report.markup import Section, fill, percent
from equipoise.app.stored_arrays import Floats, HeldOut
from equipoise.app.stored_run import StoredRun
from equipoise.data.summary import GROUPS, Group
from equipoise.evaluation.intervals import Z, combined, known_mean

CHANCE = 0.05
MOST_LINES = 40
"""Most classes with a line each; more are shown as a scatter plot."""
TEMPLATE = """\
{% if figure %}
{% call beside(figure) %}Recall of each {{ run.noun }} with {{ earlier }} and with the final \
one{% if run.classes|length <= 40 %}, the largest {{ run.noun }} first, its training samples in brackets{% else %}; \
above the dashed line it is found more often than before{% endif %}.{% endcall %}
{% else %}<p class="none">This run has no model without rebalancing to compare with.</p>{% endif %}
"""


class Gap(NamedTuple):
    """Recall − false alarms, averaged over the classes (0 for constant answers), and the change's 95 % interval."""

    before: float
    after: float
    low: float
    high: float


@dataclass(frozen=True)
class Change:
    """The change of a group of classes from the model before balancing to the final one, and its cost.

    ``before`` and ``after`` are mean recalls of the tested classes; ``gained`` and ``lost`` are held-out samples that
    became right and wrong; ``alarms`` are wrong predictions of these classes, before and after; ``gap`` is the
    change after counting false alarms against it. Unknown values are NaN or None.
    """

    name: str
    classes: tuple[str, ...]
    samples: int
    before: float
    after: float
    precision: tuple[float, float]
    gained: int | None = None
    lost: int | None = None
    alarms: tuple[int, int] | None = None
    gap: Gap | None = None

    @property
    def difference(self) -> float:
        """After minus before."""
        return self.after - self.before

    @property
    def chance(self) -> float | None:
        """P-value of the sign test on gained and lost samples; None if unknown.

        It says whether recall has changed, not whether the model is better: always answering with the class would
        change it too.
        """
        return None if self.gained is None or self.lost is None else sign_test(self.gained, self.lost)

    @property
    def clear(self) -> bool:
        """True if chance is an unlikely explanation of the change in recall, as far as known."""
        return self.chance is None or self.chance < CHANCE


def section(run: StoredRun) -> Section:
    """Return the figure and how to read it."""
    body = fill(TEMPLATE, run=run, figure=recall_figure(run), earlier=earlier_model(run))
    return Section("Before and after", "Before and after", body)


def earlier_model(run: StoredRun) -> str:
    """Return the name of the earlier model, for a sentence."""
    return f"the {run.earlier}'s model" if run.has_softmax_stage else f"the {run.earlier}"


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
    order = [place for place in run.by_count if not np.isnan(after[place])]
    axes = drawing.new_axes(90 + 24 * len(order))
    rows, was, now = np.arange(len(order)), before[order], after[order]
    for chosen, colour in ((now >= was, "accent"), (now < was, "warn")):
        axes.hlines(rows[chosen], was[chosen], now[chosen], color=COLOURS[colour], lw=2.5)
    hollow = {"facecolor": "none", "edgecolor": COLOURS["muted"], "lw": 1.6}
    axes.scatter(was, rows, s=48, zorder=3, label=run.earlier, **hollow).set_gid("before")
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
    axes.set(xlabel=f"recall of {earlier_model(run)}", ylabel="recall of the final model")
    drawing.legend_above(axes, handletextpad=0.2)
    return drawing.inline_svg(axes.figure, "change", f"Recall of each {run.noun} after over before", tips=drawn)


def group_changes(run: StoredRun) -> list[Change]:
    """Compare recall before and after in each group that has classes, and last in all classes together."""
    groups = [group for group in GROUPS if group in run.groups]
    return [*(_change(run, group, group) for group in groups), _change(run, "all", *groups)]


def sign_test(gained: int, lost: int) -> float:
    """Return the probability of a split at least as uneven if changed samples are as likely to turn right as wrong.

    >>> sign_test(10, 0), sign_test(3, 3)
    (0.001953125, 1.0)
    """
    return float(min(1.0, 2 * bdtr(min(gained, lost), gained + lost, 0.5)))


def _change(run: StoredRun, name: str, *groups: Group) -> Change:
    mine, held = run.in_group(*groups), run.held_out
    tested = mine & (run.support > 0)
    (was, now), (sure, surer) = (
        [known_mean(run.each(metric, before=early)[tested]) for early in (True, False)]
        for metric in ("recall", "precision")
    )
    names = tuple(run.classes[place] for place in np.flatnonzero(mine))
    found = Change(name, names, int(run.support[mine].sum()), was, now, (sure, surer))
    return found if held is None or held.before is None else replace(found, **_turned(held, held.before, tested))


def _turned(held: HeldOut, before: NDArray[np.int64], tested: NDArray[np.bool_]) -> dict[str, Any]:
    """Count, by class, samples newly found or missed, and others that newly get the class or lose it."""

    def given(by: NDArray[np.int64], *but: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count samples that only the first gives each class."""
        only = np.logical_and.reduce([by != other for other in but]) if but else np.ones(by.shape, dtype=bool)
        counts = (only & (by == 1)).sum(0) if by.ndim == 2 else np.bincount(by[only], minlength=len(tested))
        return np.asarray(counts[tested])

    labels, now = held.labels, held.predicted
    own, alarms = given(labels), given(before, labels)
    more, fewer = given(now, before, labels), given(before, now, labels)
    hits, gained, lost = given(before) - alarms, given(now, before) - more, given(before, now) - fewer
    rest, after = len(labels) - own, alarms + more - fewer
    counts = {"gained": int(gained.sum()), "lost": int(lost.sum()), "alarms": (int(alarms.sum()), int(after.sum()))}
    if not len(own) or not own.all() or not rest.all():  # if all samples have a class, false alarms are impossible
        return counts
    change, below, above = np.hstack([_paired(gained, lost, own), _paired(more, fewer, rest)])
    low, high = combined(change, below, above, np.repeat([1 / len(own), -1 / len(own)], len(own)))
    gap, gap_after = hits / own - alarms / rest, (hits + gained - lost) / own - after / rest
    return counts | {"gap": Gap(float(gap.mean()), float(gap_after.mean()), low, high)}


def _paired(gained: Any, lost: Any, samples: Any) -> tuple[Any, Any, Any]:
    """Return the change of a share with its interval, adding half a sample to each cell (Agresti and Min 2005)."""
    more, less, total = gained + 0.5, lost + 0.5, samples + 2
    middle = (more - less) / total
    half = Z * np.sqrt((more + less) / total - middle**2) / np.sqrt(total)
    change = (gained - lost) / samples
    return change, np.minimum(middle - half, change), np.maximum(middle + half, change)
