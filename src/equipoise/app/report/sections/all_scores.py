"""Scores: all of them with bootstrap intervals, then how well each class is ranked."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from equipoise.app.report.markup import Section, fill, number, percent
from equipoise.app.stored_run import StoredRun
from equipoise.evaluation.bootstrap import FEW
from equipoise.evaluation.metrics import SCORE_NAMES, score_at
from equipoise.wording import counted

MOST_ROWS = 200
OVERALL = [name for name in SCORE_NAMES if name != "calibration.ece"]  # which the section on reliability shows
TITLES = SCORE_NAMES | {"matthews": "Matthews correlation", "auc": "AUC, macro"}  # too long for a column head
SHARES = ("accuracy", "balanced_accuracy", "f1", "g_mean", "precision_at_k", "recall_at_k")
LOSSES = ("brier", "log_loss", "expected_cost")


def section(run: StoredRun) -> Section:
    """Return the tables."""
    spans = has_intervals(run)
    body = fill(
        "all_scores.html.j2",
        run=run,
        about=about(run),
        spans=spans,
        overall=overall_rows(run),
        rows=class_ranks(run, spans),
    )
    return Section("Scores", "Scores", body)


def has_intervals(run: StoredRun) -> bool:
    """Return whether the run has intervals of its scores from enough samples to be shown."""
    return bool(run.scores.get("intervals")) and fewest(run) >= FEW


def fewest(run: StoredRun) -> int:
    """Return the number of held-out samples of the rarest class that has any."""
    return int(min(run.support[run.support > 0], default=0))


def about(run: StoredRun) -> str:
    """Return what k is, and what the intervals rest on, or why there are none."""
    top = run.scores.get("top")
    said = ""
    if top is not None:
        said = f"At k: among the {counted(top['k'], 'held-out sample')} ranked first for each {run.noun}. "
        if len(run.classes) == 2 and not run.multilabel:
            said += "Average precision and the scores at k are those of the rarer class. "
    few = fewest(run)
    if not run.scores.get("intervals"):
        return said + "No intervals were computed."
    if few < FEW:
        return said + (
            f"No intervals: only {counted(few, 'sample')} of the rarest {run.noun} {'was' if few == 1 else 'were'} "
            f"held out; one more or less moves its recall by {percent(1 / few)}."
        )
    kept = "samples are drawn from all" if run.multilabel else "each class keeps its count"
    return said + f"Intervals come from scoring resamples of the held-out samples, in which {kept}."


def overall_rows(run: StoredRun) -> list[tuple[str, str, str]]:
    """Return name, value and interval of each score that the run has."""
    rows = []
    for name in OVERALL:
        value = score_at(run.scores, name)
        if value is not None:
            write = percent if name in SHARES else partial(number, decimals=4 if name in LOSSES else 3)
            rows.append((TITLES[name], write(value), _span(score_at(run.scores.get("intervals"), name), write)))
    return rows


def class_ranks(run: StoredRun, spans: bool) -> list[dict[str, Any]]:
    """Return a row for each class that has a ranking, the largest first."""
    top = run.scores.get("top")
    if top is None or run.scores.get("auc") is None:
        return []
    rows, three = [], partial(number, decimals=3)
    for place in run.by_count:
        auc = run.scores["auc"]["each"][place]
        if auc is None:
            continue
        ranked = {}
        for name in ("average_precision", "auc"):
            value = run.scores[name]["each"][place]
            ends = score_at(run.scores.get("intervals"), f"{name}.each")
            wide = _span(ends[place], three) if spans and ends else ""
            ranked[name] = (value, three(value) + (f" ({wide})" if wide else ""))
        share = run.support[place] / run.scores["samples"]
        at_k = {name: np.nan if top[name]["each"][place] is None else top[name]["each"][place] for name in AT_K}
        rows.append({"name": run.classes[place], "share": share, "support": int(run.support[place])} | ranked | at_k)
    return rows[:MOST_ROWS]


AT_K = ("precision", "recall", "lift")


def _span(ends: Any, write: Callable[[float], str]) -> str:
    return "" if not ends or None in ends else f"{write(ends[0])} to {write(ends[1])}"
