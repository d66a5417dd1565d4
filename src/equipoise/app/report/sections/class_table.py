"""Class by class: a table of scores, uncertainty and margins."""

from typing import Any

import numpy as np

from equipoise.app.report.markup import Section, fill
from equipoise.app.stored_run import StoredRun
from equipoise.wording import plural

MOST_ROWS = 2000


def section(run: StoredRun) -> Section:
    """Return the table with a note on which classes are rare."""
    body = fill("class_table.html.j2", run=run, rows=class_rows(run), group_note=group_note(run))
    title = "Attribute by attribute" if run.multilabel else "Class by class"
    return Section(run.nouns.capitalize(), title, body)


def class_rows(run: StoredRun) -> list[dict[str, Any]]:
    """Return one row per class, the largest first; with too many, the largest and the smallest."""
    metrics = {name: run.each(name) for name in ("recall", "precision", "f1")}
    nothing = np.full(len(run.classes), np.nan)
    metrics["uncertainty"] = nothing if run.uncertainty is None else run.uncertainty
    metrics["margin"] = nothing if run.margins is None else run.margins
    return run.rows(ends_by_count(run), **metrics)


def ends_by_count(run: StoredRun) -> list[int]:
    """Return the class indices from the largest to the smallest, with too many those at both ends."""
    order = run.by_count
    return order if len(order) <= MOST_ROWS else order[: MOST_ROWS // 2] + order[-MOST_ROWS // 2 :]


def group_note(run: StoredRun) -> str:
    """Return a note on which classes are called rare."""
    rare = run.in_group("rare")
    if not rare.any():
        return f"No {run.noun} is rare: the largest has less than 1.5 times the samples of the smallest."
    few, rest = int(run.counts[rare].max()), int(run.counts[~rare].min())
    return (
        f"The range of training counts is cut into three parts of equal ratio; rare {run.nouns} have at most "
        f"{few:,} {plural(few, 'sample')}, all others at least {rest:,}."
    )
