"""Reliability: how often the model is right at each stated confidence, before and after calibration."""

from dataclasses import asdict, dataclass

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from equipoise.app.report import drawing
from equipoise.app.report.drawing import COLOURS
from equipoise.app.report.markup import Section, fill
from equipoise.app.stored_arrays import Floats
from equipoise.app.stored_run import StoredRun
from equipoise.calibration.reliability import Calibration, ReliabilityDiagram, calibration_at_prior, reliability_diagram
from equipoise.data.summary import Group
from equipoise.evaluation.intervals import wilson
from equipoise.wording import plural

FIGURES = {
    "ece": ("calibration error (ECE)", "{:.1%}"),
    "mean_class_ece": ("mean ECE of the classes", "{:.1%}"),
    "brier": ("Brier score", "{:.3f}"),
    "log_loss": ("log loss", "{:.3f}"),
}
"""Figure -> its name and format."""
FEW = 30
"""Held-out samples of a class below which figures at a balanced prior are marked as resting on few."""


@dataclass(frozen=True)
class Reliability:
    """Answers of a kind, binned by probability, with the 95 % Wilson interval of the share right in each bin."""

    title: str
    diagram: ReliabilityDiagram
    low: Floats
    high: Floats


def section(run: StoredRun) -> Section:
    """Return the diagrams, and the figures before and after calibration."""
    parts = [(part, reliability_figure(part, place)) for place, part in enumerate(reliability(run))]
    content = {"calibrations": calibration_rows(calibrations(run)), "how": calibrated_how(run)}
    body = fill("reliability.html.j2", run=run, parts=parts, few=few_sentence(run), **content)
    return Section("Reliability", "Reliability", body)


def reliability(run: StoredRun) -> list[Reliability]:
    """Group answers: all, and separately predictions of rare and of common classes.

    They are grouped by the *predicted* class, not the true one, which is unknown when an answer is used. Among samples
    of a rare class, even a perfectly calibrated model would look overconfident. With attributes, every yes-or-no is an
    answer, and the attribute decides.
    """
    held = run.held_out
    if held is None:
        return []
    if run.multilabel:
        confidence = np.where(held.predicted == 1, held.probabilities, 1 - held.probabilities)
        named = np.broadcast_to(np.arange(len(run.classes)), held.predicted.shape)
    else:
        confidence = held.probabilities[np.arange(len(held.predicted)), held.predicted]
        named = held.predicted
    confidence, named = confidence.ravel().astype(np.float64).clip(0, 1), named.ravel()
    right = (held.predicted == held.labels).ravel()
    found = [diagram_of("All answers", confidence, right)]
    groups: tuple[Group, ...] = ("rare", "common")
    for group in groups:
        rows = run.in_group(group)[named]
        if rows.any() and not rows.all():
            title = f"About {group} attributes" if run.multilabel else f"Predictions of {group} classes"
            found.append(diagram_of(title, confidence[rows], right[rows]))
    return found


def diagram_of(title: str, confidence: Floats, right: NDArray[np.bool_]) -> Reliability:
    """Bin answers by their stated probability, (answers,) each, with intervals of the share right."""
    found = reliability_diagram(confidence, right)
    low, high = wilson(np.round(found.right * found.count), found.count.astype(np.float64))
    return Reliability(title, found, low, high)


@drawing.house_style()
def reliability_figure(found: Reliability, number: int) -> Markup:
    """Draw the share right over the stated probability; a dot's area is the number of answers."""
    bins = found.diagram
    axes = drawing.new_axes(330, width=340)
    axes.plot([0, 1], [0, 1], **drawing.DASHED)
    axes.vlines(bins.confidence, found.low, found.high, color=COLOURS["accent"], lw=1.2, alpha=0.6)
    area = 14 + 120 * bins.count / bins.count.max()
    axes.scatter(bins.confidence, bins.right, s=area, color=COLOURS["accent"], lw=0, zorder=3).set_gid("bins")
    tips = [
        f"stated {stated:.1%}, right {right:.1%} of {answers:,} answers (95% interval {low:.1%} to {high:.1%})"
        for stated, right, answers, low, high in zip(
            bins.confidence, bins.right, bins.count, found.low, found.high, strict=True
        )
    ]
    drawing.percent_axis(axes, "x")
    drawing.percent_axis(axes, "y")
    axes.set(xlabel="probability stated", ylabel="share right")
    said = f"Reliability: {found.title}, expected calibration error {bins.ece:.1%}"
    return drawing.inline_svg(axes.figure, f"reliability{number}", said, tips={"bins": tips})


def calibrations(run: StoredRun) -> dict[str, tuple[Calibration, Calibration]]:
    """Measure calibration without and with the scaling, at the training samples' class prior and at a balanced one."""
    held = run.held_out
    if held is None or held.trust is None:
        return {}
    trust = held.trust
    priors = {"natural": trust.prior, "balanced": np.full(trust.prior.shape, 1 / trust.prior.shape[-1])}
    return {
        name: (
            calibration_at_prior(trust.uncalibrated, held.labels, held.predicted, old=trust.prior, new=prior),
            calibration_at_prior(held.probabilities, held.labels, held.predicted, old=trust.prior, new=prior),
        )
        for name, prior in priors.items()
    }


def calibration_rows(found: dict[str, tuple[Calibration, Calibration]]) -> list[tuple[str, list[str]]]:
    """Return one row per figure: its name, and its values before and after at each prior."""
    parts = [asdict(part) for pair in found.values() for part in pair]
    return [(text, [form.format(part[name]) for part in parts]) for name, (text, form) in FIGURES.items() if parts]


def calibrated_how(run: StoredRun) -> str:
    """Return which samples the probabilities are calibrated on, according to the record."""
    calibration = run.record.calibration
    if calibration is not None and calibration.source == "held_out":
        return (
            "The model's probabilities are calibrated on the held-out samples. The figures here are cross-validated: "
            f"each of {calibration.folds} parts of these samples was answered with a calibration on the others."
        )
    if calibration is not None and calibration.source == "out_of_fold":
        return (
            f"The model's probabilities are calibrated on {calibration.samples:,} training samples, each predicted by "
            "members that were not fitted to it. The figures here come from the held-out samples, which were not used "
            "for that."
        )
    if calibration is not None and calibration.source == "held_back":
        return (
            "There are too few held-out samples to calibrate on; the model's probabilities are calibrated on training "
            "samples that the first two stages left out."
        )
    return "There are too few held-out samples to calibrate on, so the model's probabilities are not calibrated."


def few_sentence(run: StoredRun) -> str:
    """Return which class has the fewest held-out samples, if the balanced class prior rests on few."""
    tested = run.support[run.support > 0]
    least = int(tested.min()) if len(tested) else 0
    if not 0 < least < FEW:
        return ""
    name = run.classes[int(np.flatnonzero(run.support == least)[0])]
    return (
        f"At a balanced class prior {name} counts as much as the largest {run.noun} and has {least:,} held-out "
        f"{plural(least, 'sample')}: such figures come out too high by chance."
    )
