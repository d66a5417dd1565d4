"""What is claimed of the method, held against a finished table: each claim with its figures, also where it fails."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from equipoise.app.compare import METHODS, rank
from equipoise.app.compare.leaderboard import score_of

Records = Sequence[dict[str, Any]]
OURS = "uncertainty_margin"
BETTER_THAN = (
    (OURS, "cross_entropy"),
    ("uncertainty_class_level", "cross_entropy"),
    (OURS, "uncertainty_class_level"),
    (OURS, "uncertainty_uncorrected"),
    *((f"{head}_uncertainty", head) for head in ("am_softmax", "arcface", "l_softmax", "sphereface")),
)
"""Equipoise over softmax, each of its levels over the one before, each margin head with uncertainty over its
fixed margin."""
EQUAL_CLASSES = {
    "balanced_accuracy": "balanced accuracy",
    "g_mean": "G-mean",
    "recall_product": "geometric mean of recalls",
}
"""Scores that count every class alike; the third is 0 as soon as one class is never found."""
ABOVE = {"accuracy": "accuracy", "f1": "F1", "g_mean": "G-mean", "iba": "IBA"}
BELOW = {
    f"{name}.deviation": f"deviation of {title} over the classes"
    for name, title in {"precision": "precision", "recall": "recall", **ABOVE}.items()
    if name != "accuracy"
}


def completed(records: Records) -> set[str]:
    """Methods with a score for every seed and fold: a mean over those that happened to work would be another test."""
    runs = {(record["seed"], record["fold"]) for record in records}
    scored: dict[str, set[tuple[int, int]]] = {}
    for record in records:
        if "scores" in record:
            scored.setdefault(record["method"], set()).add((record["seed"], record["fold"]))
    return {method for method, own in scored.items() if own == runs}


def percent(records: Records, method: str, metric: str) -> float:
    """A method's mean score, in percent."""
    return 100 * statistics.fmean(score_of(record, metric) for record in records if record["method"] == method)


def orders(records: Records, metrics: Mapping[str, str] = EQUAL_CLASSES, *, test_to_train: float = 0.0) -> list[str]:
    """A table of the pairs that the records hold: the paired differences with their 95 % intervals, in points."""
    there, rows = completed(records), []
    for better, worse in BETTER_THAN:
        if {better, worse} <= there:
            found = [_difference(records, better, worse, metric, test_to_train) for metric in metrics]
            rows.append(f"| {METHODS[better].label} against {METHODS[worse].label} | {' | '.join(found)} |")
    return [f"| claimed | {' | '.join(metrics.values())} |", "|---|" + "---|" * len(metrics), *rows] if rows else []


def _difference(records: Records, one: str, other: str, metric: str, test_to_train: float) -> str:
    pair = [record for record in records if record["method"] in (one, other)]
    ranking = rank(pair, metric=metric, baseline=other, test_to_train=test_to_train)
    found = next(place.to_baseline for place in ranking.places if place.method == one)
    if found is None or found.low is None or found.high is None:
        return f"too few pairs ({0 if found is None else found.pairs}) for an interval"
    wanted = -1 if metric in BELOW else 1
    verdict = "not significantly different" if found.contains_zero else "better" if wanted * found.mean > 0 else "worse"
    return f"{100 * found.mean:+.2f} ({100 * found.low:+.2f} to {100 * found.high:+.2f}), {verdict}"


def against_resampling(records: Records) -> list[str]:
    """A table of Equipoise beside the best of all resamplers and support vector machines, score by score."""
    there = completed(records)
    names = [name for name in METHODS if name in there and METHODS[name].family in ("resampling", "svm")]
    if not names or OURS not in there:
        return []
    rows = []
    for metric, title in (ABOVE | BELOW).items():
        pick = min if metric in BELOW else max
        best = pick(names, key=lambda name: percent(records, name, metric))
        ours, theirs = percent(records, OURS, metric), percent(records, best, metric)
        apart = _difference(records, OURS, best, metric, 0.0)
        rows.append(f"| {title} | {ours:.1f} | {theirs:.1f} ({METHODS[best].label}) | {apart} |")
    head = f"| score | {METHODS[OURS].label} | the best of {len(names)}, picked afterwards | difference |"
    return [head, "|---|---|---|---|", *rows]
