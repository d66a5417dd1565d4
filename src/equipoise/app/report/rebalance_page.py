"""The page of ``equipoise rebalance``: the given predictions beside the corrected answers."""

from pathlib import Path
from typing import Any

import numpy as np

from equipoise.app.output_files import one_line
from equipoise.app.report.markup import Section, fill
from equipoise.app.report.run_page import run_page, write_page
from equipoise.app.report.sections import confusion, decide, human_review, verdict
from equipoise.app.report.sections.class_table import ends_by_count
from equipoise.app.report.sections.reliability_diagrams import diagram_of, reliability_figure
from equipoise.app.stored_run import StoredRun
from equipoise.evaluation.metrics import SCORE_NAMES, score_at

FORMATS = {
    **dict.fromkeys(("balanced_accuracy", "accuracy", "f1"), "{:.1%}"),
    "log_loss": "{:.4f}",
    "calibration.ece": "{:.2%}",
    "calibration.mean_class_ece": "{:.2%}",
}
"""Scores that the page shows, and how."""
TITLES = SCORE_NAMES | {
    "calibration.ece": "calibration error (ECE)",
    "calibration.mean_class_ece": "mean ECE of the classes",
}


def write_rebalanced(run: StoredRun, path: Path) -> Path:
    """Write the page, one self-contained file.

    Args:
        run: the labelled rows and their cross-fitted answers as held out, and as ``before`` the predictions as given.
    """
    shared = confusion.section, human_review.section
    makers = (verdict.section, decide.section, _figures, _classes, _reliability, *shared)
    return write_page(run_page(run, makers, one_line(str(run.predictions)), "rebalanced"), path)


def figure_rows(before: dict[str, Any], after: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the name and the values before and after of each figure in ``Scores.as_dict``."""
    return [
        (TITLES[name], *(written.format(score_at(found, name)) for found in (before, after)))
        for name, written in FORMATS.items()
    ]


def _figures(run: StoredRun) -> Section:
    assert run.before is not None
    assert run.record.calibration is not None
    rows = figure_rows(run.before, run.scores)
    body = fill("rebalance_figures.html.j2", run=run, folds=run.record.calibration.folds, figures=rows)
    return Section("Before and after", "Before and after", body)


def _classes(run: StoredRun) -> Section:
    both = {name: np.stack((run.each(name, before=True), run.each(name)), 1) for name in ("recall", "precision")}
    rows = run.rows(ends_by_count(run), margin=run.margins, **both)
    return Section("Classes", "Class by class", fill("rebalance_classes.html.j2", run=run, rows=rows))


def _reliability(run: StoredRun) -> Section:
    held = run.held_out
    assert held is not None
    assert held.trust is not None
    assert held.before is not None
    sides = {"As given": (held.trust.uncalibrated, held.before), "Corrected": (held.probabilities, held.predicted)}
    rows = np.arange(len(held.labels))
    parts = [
        diagram_of(title, p[rows, named].astype(np.float64).clip(0, 1), named == held.labels)
        for title, (p, named) in sides.items()
    ]
    drawn = [(part, reliability_figure(part, place)) for place, part in enumerate(parts)]
    return Section("Reliability", "Reliability", fill("{{ diagrams(parts) }}", parts=drawn))
