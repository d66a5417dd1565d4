"""Sets of possible classes, part of the section on human review: how often each holds, and what stays unanswered."""

from typing import Any

from markupsafe import Markup

from equipoise.app.report.markup import fill
from equipoise.app.stored_run import StoredRun
from equipoise.calibration.conformal import LEVEL, class_coverage, unanswered_rows
from equipoise.decisions.abstention import AbstainedShares, abstained_shares
from equipoise.errors import listed

MOST_CLASSES = 100
"""Most classes that a table lists."""


def possible_classes(run: StoredRun) -> Markup:
    """Return the table of sets with its sentences; nothing for a run without sets."""
    rows, told = set_rows(run), run.record.calibration
    if not rows:
        return Markup()
    level = LEVEL if told is None or told.level is None else told.level
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
    told = run.record.calibration
    return [] if told is None else [name for name in run.classes if name in set(told.never_ruled_out)]


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
