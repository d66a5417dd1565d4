"""Human review of the most uncertain samples: its value, and which classes it takes most."""

from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from equipoise.app.report import drawing
from equipoise.app.report.drawing import COLOURS
from equipoise.app.report.markup import Section, fill
from equipoise.app.stored_arrays import Floats, HeldOut
from equipoise.app.stored_run import StoredRun
from equipoise.calibration.conformal import LEVEL, class_coverage, unanswered_rows
from equipoise.data.summary import GROUPS
from equipoise.decisions.abstention import (
    AbstainedShares,
    RiskCoverage,
    abstained_shares,
    abstention_order,
    risk_coverage,
)
from equipoise.errors import listed

STEPS = 100
SHOWN_STEP = 10
"""Initial share on the slider, in hundredths, at which classes are listed."""
MOST_LINES = 20
"""Most classes with a line each; beyond, groups have one."""
MOST_CLASSES = 100
"""Most classes that a table lists."""


class Abstention(NamedTuple):
    """The effect of sending a share of the samples, the most uncertain first, to human review.

    ``balanced_accuracy`` is over those ``left`` of the ``tested`` classes that still have a sample among the rest; with
    attributes, the mean of ½ (recall + specificity) where both are defined. ``rare_sent`` of the ``rare`` samples of
    rare classes and ``wrong_sent`` of the ``wrong`` answers are sent.
    """

    share: float
    sent: int
    samples: int
    accuracy: float
    balanced_accuracy: float
    left: int
    tested: int
    rare_sent: int
    rare: int
    wrong_sent: int
    wrong: int


class Sending(NamedTuple):
    """Effect of sending samples to a human.

    The answers at every hundredth from 0 to 99 % sent, errors over the share answered, and the share sent of each class
    at ``SHOWN_STEP``.
    """

    steps: list[Abstention]
    curve: RiskCoverage
    shares: AbstainedShares


def section(run: StoredRun) -> Section:
    """Return the slider with its curve, the classes sent, and the sets of possible classes."""
    menu, title = "Human review", "Human review of uncertain samples"
    found = sending(run)
    if found is None:
        return Section(menu, title, fill("human_review.html.j2", found=None), {"steps": [], "places": []})
    figure, places = abstention_figure(found.steps)
    rows = sent_rows(run, found)
    body = fill(
        "human_review.html.j2",
        run=run,
        found=found,
        figure=figure,
        share=SHOWN_STEP,
        sentence=sent_sentence(run, found),
        rows=rows,
        most=MOST_CLASSES,
        means=len(rows) > MOST_LINES,
        class_figure=class_coverage_figure(run, found),
        sets=possible_classes(run),
    )
    steps = [  # JSON has no NaN
        {name: None if np.isnan(value) else value for name, value in step._asdict().items()} for step in found.steps
    ]
    return Section(menu, title, body, {"steps": steps, "places": places})


def sending(run: StoredRun) -> Sending | None:
    """Send the most uncertain held-out samples to human review; None without held-out answers."""
    held = run.held_out
    if held is None:
        return None
    right = held.predicted == held.labels
    curve = risk_coverage(right, held.uncertainty, held.labels, len(run.classes), points=STEPS + 1)
    order = abstention_order(held.uncertainty)
    sent = np.zeros(len(order), dtype=bool)
    sent[order[: len(order) - curve.answered[STEPS - SHOWN_STEP]]] = True
    shares = abstained_shares(held.labels, sent, len(run.classes))
    return Sending(_steps(run, held, right, order, curve), curve, shares)


def _steps(
    run: StoredRun, held: HeldOut, right: NDArray[np.bool_], order: NDArray[np.intp], curve: RiskCoverage
) -> list[Abstention]:
    sent = (len(order) - curve.answered)[:0:-1]  # from 0 to 99 %; all sent leaves no answers
    recalls = 1 - curve.class_error[:0:-1]  # (steps, classes); with attributes of their zeros and ones
    recalls = recalls.mean(-1) if run.multilabel else recalls
    left, balanced = (~np.isnan(recalls)).sum(1), _row_means(recalls)
    rare = run.in_group("rare")  # with attributes, samples that have a rare one
    scarce = np.asarray((held.labels[:, rare] == 1).any(1) if run.multilabel else rare[held.labels])
    wrong = np.asarray(~right.reshape(len(order), -1).all(1))
    scarce_sent, wrong_sent = (np.append(0, what[order].cumsum())[sent] for what in (scarce, wrong))
    columns = (
        *(np.arange(STEPS) / STEPS, sent, len(order), 1 - curve.error[:0:-1], balanced, left, left[0]),
        *(scarce_sent, scarce.sum(), wrong_sent, wrong.sum()),
    )
    return [Abstention(*row) for row in zip(*(np.broadcast_to(part, STEPS).tolist() for part in columns), strict=True)]


def sent_rows(run: StoredRun, found: Sending) -> list[dict[str, Any]]:
    """Return one row per class with held-out samples, those sent most first."""
    error = _own_class(found.curve.class_error)
    return share_rows(run, found.shares, error=error[STEPS], left=error[STEPS - SHOWN_STEP])


def sent_sentence(run: StoredRun, found: Sending) -> str:
    """Return a sentence on classes that are abstained away."""
    away = found.shares.abstained_away
    if not away:
        return f"With {SHOWN_STEP}% sent, no {run.noun} is sent far more often than the rest."
    named = [f"{run.classes[place]} ({found.shares.each[place]:.0%})" for place in away]
    return (
        f"With {SHOWN_STEP}% sent, {len(away):,} of {len(run.classes):,} {run.nouns} "
        f"{'is' if len(away) == 1 else 'are'} left to the human far more often than the rest: "
        f"{listed(named, most=8, quoted=False)}."
    )


@drawing.house_style()
def abstention_figure(found: list[Abstention]) -> tuple[Markup, list[list[float]]]:
    """Draw the accuracies of the rest over the share sent, and return where each share's two marks lie."""
    axes = drawing.new_axes(300)
    columns = [(step.share, step.accuracy, step.balanced_accuracy, step.left == step.tested) for step in found]
    share, plain, balanced, known = np.array(columns).T
    whole = known == 1
    axes.plot(share, plain, color=COLOURS["accent"], label="accuracy")
    axes.plot(share[whole], balanced[whole], color=COLOURS["rare"], ls=(0, (5, 2)), label="balanced accuracy")
    if not whole.all():
        rest = slice(max(int(whole.sum()) - 1, 0), None)
        style: Any = {"color": COLOURS["rare"], "ls": (0, (1, 2)), "lw": 1.4}
        axes.plot(share[rest], balanced[rest], label="of those left", **style)
    low = float(np.nanmin([plain, balanced]))
    axes.set(xlim=(0, 1), ylim=(max(0.0, np.floor(10 * low - 0.5) / 10), 1.01))
    drawing.share_axis(axes.xaxis, axes.yaxis)
    axes.set(xlabel="share sent to a human, the most uncertain first", ylabel="on the rest")
    drawing.legend_above(axes, columnspacing=1.2)
    said = "Accuracy of the rest over the share sent"
    return drawing.inline_svg(axes.figure, "coverage", said, extra="coverage-mark"), _places(
        axes, share, plain, balanced
    )


def _places(axes: Any, share: Floats, *lines: Floats) -> list[list[float]]:
    """Return x, and y of each line, in the figure's own units; the last two are the ends of the vertical axis."""
    height = axes.figure.get_size_inches()[1] * 72
    spots = [axes.transData.transform(np.column_stack([share, line])) for line in lines]
    ends = np.broadcast_to(axes.get_window_extent().get_points()[:, 1], (len(share), 2))
    rows = np.column_stack([spots[0][:, 0], height - np.column_stack([*(spot[:, 1] for spot in spots), ends])])
    return [[round(value, 2) for value in row] for row in np.nan_to_num(rows).tolist()]


@drawing.house_style()
def class_coverage_figure(run: StoredRun, found: Sending) -> Markup:
    """Draw the share of each class answered, and its error there, over the share of all samples answered."""
    above, below = drawing.new_axes(460, rows=2)
    for axes, values in ((above, found.curve.class_answered), (below, found.curve.class_error)):
        _class_lines(axes, run, found, _own_class(values))
        axes.set_xlim(0, 1)
        drawing.share_axis(axes.xaxis, axes.yaxis)
    above.plot([0, 1], [0, 1], **drawing.DASHED)
    above.set(ylim=(-0.02, 1.02), ylabel=f"of the {run.noun}, answered")
    below.set(ylim=(-0.005, None), ylabel="of these, wrong", xlabel="share answered, the most certain first")
    drawing.legend_above(above)
    said = f"Share answered and share wrong of each {run.noun} over the share of all samples answered"
    return drawing.inline_svg(above.figure, "classcoverage", said)


def _class_lines(axes: Any, run: StoredRun, found: Sending, values: Floats) -> None:
    """Draw a line per class in its group's colour; with many classes, the mean of each group."""
    tested = np.array(found.shares.samples) > 0
    for group in GROUPS:
        lines = values[:, tested & run.in_group(group)]
        if tested.sum() > MOST_LINES and lines.size:
            lines = _row_means(lines)[:, None]
        for place, line in enumerate(lines.T):
            label = "" if place else group
            axes.plot(found.curve.share, line, label=label, color=COLOURS[group], lw=1.3, alpha=0.85)


def _own_class(values: Floats) -> Floats:
    """Return a curve by class, (points, classes); with attributes, over the samples that have each."""
    return values[..., 1] if values.ndim == 3 else values


def _row_means(values: Floats) -> Floats:
    """Return the mean of each row's defined values; NaN if there are none."""
    known = ~np.isnan(values)
    count = known.sum(1)
    return np.where(count > 0, np.where(known, values, 0).sum(1) / np.maximum(count, 1), np.nan)


def possible_classes(run: StoredRun) -> Markup:
    """Return the table of sets with its sentences; nothing for a run without sets."""
    rows, calibration = set_rows(run), run.record.calibration
    if not rows:
        return Markup()
    level = LEVEL if calibration is None or calibration.level is None else calibration.level
    return fill(
        "possible_classes.html.j2",
        run=run,
        sets=rows,
        sets_sentence=set_sentence(run, rows),
        level=level,
        most=MOST_CLASSES,
    )


def share_rows(run: StoredRun, shares: AbstainedShares, **columns: Any) -> list[dict[str, Any]]:
    """Return one row per class with samples, those sent or left unanswered most first."""
    places = [place for place, count in enumerate(shares.samples) if count]
    rows = run.rows(places, support=shares.samples, sent=shares.each, verdict=shares.verdicts, **columns)
    return sorted(rows, key=lambda row: -row["sent"])


def set_rows(run: StoredRun) -> list[dict[str, Any]]:
    """Return one row per class with held-out samples, those left unanswered most first; none without sets."""
    held = run.held_out
    if held is None or held.trust is None:
        return []
    coverage, sizes = class_coverage(held.trust.sets, held.labels)
    shares = abstained_shares(held.labels, unanswered_rows(held.trust.sets), len(run.classes))
    never = never_ruled_out(run)
    return share_rows(run, shares, coverage=coverage, size=sizes, always=[name in never for name in run.classes])


def never_ruled_out(run: StoredRun) -> list[str]:
    """Return the classes with too few calibration samples in the saved model to be ruled out."""
    calibration = run.record.calibration
    return [] if calibration is None else [name for name in run.classes if name in set(calibration.never_ruled_out)]


def set_sentence(run: StoredRun, rows: list[dict[str, Any]]) -> str:
    """Return how many samples are left unanswered, and which classes most."""
    held = run.held_out
    if held is None or held.trust is None:
        return ""
    share = float(unanswered_rows(held.trust.sets).mean())
    settled = "an attribute is not settled" if run.multilabel else "more than one class remains"
    said = f"For {share:.1%} of the held-out samples {settled}."
    always = never_ruled_out(run)
    if always:
        names = listed(always, most=8, quoted=False)
        said += f" Too few samples to be ruled out, and so possible for every sample: {names}."
    away = [f"{row['name']} ({row['sent']:.0%})" for row in rows if row["verdict"] == "abstained away"]
    if not away:
        return f"{said} No {run.noun} is left unanswered far more often than the rest."
    return f"{said} Left unanswered far more often than the rest: {listed(away, most=8, quoted=False)}."
