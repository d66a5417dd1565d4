"""Hard, or merely rare? Classes that need more data, and classes that overlap with others."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from markupsafe import Markup

from equipoise.app.report import drawing
from equipoise.app.report.markup import Section, fill, percent
from equipoise.app.report.sections.confusion import rivals
from equipoise.app.stored_arrays import Floats
from equipoise.app.stored_run import StoredRun

HardnessKind = Literal["needs data", "overlaps", "middling", "distinct", "learnt", "unclear"]
LEAST_MISSED, LEAST_TESTED, MOST_NAMED, MOST_LABELLED = 0.1, 10, 12, 40
KINDS: dict[HardnessKind, str] = {
    "needs data": "Few samples, often missed: more data may help",
    "overlaps": "Many samples, often missed: overlaps with others",
    "middling": "Missed more than a tenth of the time, but no more often than average",
    "distinct": "Few samples, seldom missed: rare but distinct",
    "learnt": "Many samples, seldom missed",
    "unclear": f"Fewer than {LEAST_TESTED} held-out samples: too few to say",
}


@dataclass(frozen=True)
class Hardness:
    """Rarity and difficulty of each class.

    Args:
        missed: share of its held-out samples that were not found; NaN without any.
        few_below: classes with fewer training samples are rare, half-way on a logarithmic axis; None if none are.
        often_above: classes missed more often are hard: more than the mean over the classes, and than a tenth.
        rivals: index of the class that most of the missed samples are mistaken for, or None.
    """

    missed: Floats
    few_below: float | None
    often_above: float
    kinds: tuple[HardnessKind, ...]
    rivals: tuple[int | None, ...]


def section(run: StoredRun) -> Section:
    """Return the picture and the classes of each kind."""
    found = hardness(run)
    content = {"figure": hardness_figure(run, found), "kinds": _named(run, found)}
    body = fill("hardness.html.j2", run=run, often_above=found.often_above, **content)
    return Section("Hard or rare", "Hard, or merely rare?", body)


def hardness(run: StoredRun) -> Hardness:
    """Sort the classes by training samples and by how often they are missed."""
    missed = 1 - run.each("recall")
    known = missed[~np.isnan(missed)]
    often = max(LEAST_MISSED, float(known.mean()) if len(known) else 0.0)
    rare, counts = run.in_group("rare"), np.maximum(run.counts, 1)
    kinds: list[HardnessKind] = []
    for share, scarce, tested in zip(missed.tolist(), rare.tolist(), run.support.tolist(), strict=True):
        if tested < LEAST_TESTED:
            kinds.append("unclear")
        elif share > often:
            kinds.append("needs data" if scarce else "overlaps")
        elif share > LEAST_MISSED:
            kinds.append("middling")
        else:
            kinds.append("distinct" if scarce else "learnt")
    taken = rivals(run)
    return Hardness(
        missed=missed,
        few_below=float(np.sqrt(counts[rare].max() * counts[~rare].min())) if rare.any() else None,
        often_above=often,
        kinds=tuple(kinds),
        rivals=tuple(taken.get(place) for place in range(len(run.classes))),
    )


def _named(run: StoredRun, found: Hardness) -> list[dict[str, Any]]:
    """Return the kinds that occur, with their classes, those missed most often first."""
    groups = []
    for kind, text in KINDS.items():
        mine = [place for place in range(len(run.classes)) if found.kinds[place] == kind]
        mine.sort(key=lambda place: -np.nan_to_num(found.missed[place], nan=-1))
        names = []
        for place in mine[:MOST_NAMED]:
            rival = found.rivals[place] if kind in ("needs data", "overlaps") else None
            taken_for = "" if rival is None else run.classes[rival]
            names.append({"name": run.classes[place], "missed": found.missed[place], "rival": taken_for})
        if mine:
            percents = kind not in ("learnt", "distinct")
            groups.append({"text": text, "names": names, "percents": percents, "more": len(mine) - len(names)})
    return groups


@drawing.house_style()
def hardness_figure(run: StoredRun, found: Hardness) -> Markup | None:
    """Draw the share missed over training samples, with named quadrants; a mark's area is the class's uncertainty."""
    if np.isnan(found.missed).all():
        return None
    axes = drawing.new_axes(380)
    tips = [_tip(run, found, which) for which in range(len(run.classes))]
    unclear = np.array([kind == "unclear" for kind in found.kinds])
    drawn = drawing.group_scatter(axes, run, found.missed, tips, sizes=_areas(run), hollow=unclear)
    drawing.counts_axis(axes, run)
    axes.margins(x=0.14)
    top = max(2.2 * found.often_above, 1.12 * float(np.nanmax(found.missed)))
    axes.set(ylim=(-0.12 * top, 1.12 * top), ylabel="share missed (1 − recall)")
    drawing.share_axis(axes.yaxis)
    axes.axhline(found.often_above, **drawing.DASHED)
    corners = {(1, 1): "overlap with others", (1, 0): "less often missed"}
    if found.few_below is not None:
        axes.axvline(found.few_below, **drawing.DASHED)
        corners |= {(0, 1): "need more data", (0, 0): "rare, less often missed"}
    style = {"transform": axes.transAxes, "color": drawing.COLOURS["muted"], "style": "italic"}
    for (right, high), text in corners.items():
        style |= {"ha": "right" if right else "left", "va": "top" if high else "bottom"}
        axes.text(0.985 if right else 0.015, 0.98 if high else 0.02, text, **style)
    least = found.often_above if len(run.classes) > MOST_LABELLED else -np.inf
    drawing.label_points(axes, run, found.missed, above=least)
    said = f"Share missed of each {run.noun} over its training samples"
    return drawing.inline_svg(axes.figure, "hardness", said, tips=drawn)


def _areas(run: StoredRun) -> Floats:
    """Return each mark's area from the class's uncertainty, at most 180; equal if it is unknown."""
    if run.uncertainty is None or np.isnan(run.uncertainty).all():
        return np.full(len(run.classes), 52.0)
    share = np.nan_to_num(run.uncertainty, nan=0.0)
    return 24 + 156 * np.clip(share / max(float(share.max()), 1e-12), 0, 1)


def _tip(run: StoredRun, found: Hardness, which: int) -> str:
    missed, rival = percent(found.missed[which]), found.rivals[which]
    said = f"{run.classes[which]}: {missed} missed of {run.support[which]:,} held-out samples"
    return said + ("" if rival is None else f", most often confused with {run.classes[rival]}")
