"""What a table's records say of the paper's claims: paired differences with intervals, in points."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from equipoise.app.compare import METHODS, rank
from equipoise.app.compare.leaderboard import score_of

OURS = "uncertainty_margin"
BETTER_THAN = (
    (OURS, "cross_entropy"),
    ("uncertainty_class_level", "cross_entropy"),
    (OURS, "uncertainty_class_level"),
    (OURS, "uncertainty_uncorrected"),
    *((f"{head}_uncertainty", head) for head in ("am_softmax", "arcface", "l_softmax", "sphereface")),
)
"""The claims: Equipoise over softmax, each of its levels over the one before, each margin head with uncertainty
over its fixed margin."""
SCORES = {
    **{"accuracy": "accuracy", "precision": "precision", "recall": "recall"},
    **{"f1": "F1", "g_mean": "G-mean", "iba": "IBA"},
}
EQUAL_CLASSES = {
    "balanced_accuracy": "balanced accuracy",
    "g_mean": "G-mean",
    "recall_product": "geometric mean of recalls",
}
"""Scores that weigh every class equally; the third is 0 as soon as one class is never found."""
ABOVE = {name: SCORES[name] for name in ("accuracy", "f1", "g_mean", "iba")}
BELOW = {
    f"{name}.deviation": f"deviation of {SCORES[name]} over the classes"
    for name in ("precision", "recall", "f1", "g_mean", "iba")
}
Records = Sequence[dict[str, Any]]


def completed(records: Records) -> set[str]:
    """Return methods with a score for every seed and fold: a mean over fewer would be another test."""
    runs = {(record["seed"], record["fold"]) for record in records}
    scored: dict[str, set[tuple[int, int]]] = {}
    for record in records:
        if "scores" in record:
            scored.setdefault(record["method"], set()).add((record["seed"], record["fold"]))
    return {method for method, own in scored.items() if own == runs}


def percent(records: Records, method: str, metric: str) -> float:
    """Return a method's mean score, in percent."""
    return 100 * statistics.fmean(score_of(record, metric) for record in records if record["method"] == method)


def orders(records: Records, metrics: Mapping[str, str] = EQUAL_CLASSES, *, test_to_train: float = 0.0) -> list[str]:
    """Return a table of the claims that the records can test: paired differences with 95 % intervals, in points."""
    there, rows = completed(records), []
    for better, worse in BETTER_THAN:
        if {better, worse} <= there:
            found = [_difference(records, better, worse, metric, test_to_train) for metric in metrics]
            rows.append([f"{METHODS[better].label} against {METHODS[worse].label}", *found])
    return markdown_table(["comparison", *metrics.values()], rows)


def against_resampling(records: Records) -> list[str]:
    """Return a table of Equipoise beside the best of all resamplers and support vector machines, score by score."""
    there = completed(records)
    names = [name for name in METHODS if name in there and METHODS[name].family in ("resampling", "svm")]
    if not names or OURS not in there:
        return []
    rows = []
    for metric, title in (ABOVE | BELOW).items():
        each = {name: percent(records, name, metric) for name in names}
        best = (min if metric in BELOW else max)(each, key=lambda name: each[name])
        theirs = f"{each[best]:.1f} ({METHODS[best].label})"
        ours, apart = f"{percent(records, OURS, metric):.1f}", _difference(records, OURS, best, metric, 0.0)
        rows.append([title, ours, theirs, apart])
    return markdown_table(
        ["score", METHODS[OURS].label, f"the best of {len(names)}, picked afterwards", "difference"], rows
    )


def _difference(records: Records, one: str, other: str, metric: str, test_to_train: float) -> str:
    pair = [record for record in records if record["method"] in (one, other)]
    ranking = rank(pair, metric=metric, baseline=other, test_to_train=test_to_train)
    found = next(place.to_baseline for place in ranking.places if place.method == one)
    if found is None or found.low is None or found.high is None:
        return f"too few pairs ({0 if found is None else found.pairs}) for an interval"
    wanted = -1 if metric in BELOW else 1
    verdict = "not significantly different" if found.contains_zero else "better" if wanted * found.mean > 0 else "worse"
    return f"{100 * found.mean:+.2f} ({100 * found.low:+.2f} to {100 * found.high:+.2f}), {verdict}"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table, padding short rows; none without rows."""
    lines = [f"| {' | '.join(row)} |" + " |" * (len(head) - len(row)) for row in rows]
    return [f"| {' | '.join(head)} |", "|" + "---|" * len(head), *lines] if lines else []
