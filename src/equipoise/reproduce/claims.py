"""What is claimed of the method, held against a finished table: each claim with its figures, also where it fails."""

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from equipoise.compare import METHODS, rank
from equipoise.compare.ranking import score_of

Records = Sequence[dict[str, Any]]
OURS = "uncertainty_margin"
BETTER_THAN = (
    (OURS, "cross_entropy"),
    ("uncertainty_class_level", "cross_entropy"),
    (OURS, "uncertainty_class_level"),
    (OURS, "uncertainty_uncorrected"),
    *((f"{head}_uncertainty", head) for head in ("am_softmax", "arcface", "l_softmax", "sphereface")),
)
"""The full method over softmax, each of its levels over the one before, each margin head with uncertainty over its
fixed margin."""
EQUAL_CLASSES = {"balanced_accuracy": "balanced accuracy", "recall_product": "geometric mean of recalls"}
ABOVE = {"accuracy": "accuracy", "f1": "F1", "g_mean": "G-mean", "iba": "IBA"}
BELOW = {f"{name}.deviation": f"deviation of {ABOVE[name]} over the classes" for name in ("f1", "g_mean", "iba")}


def completed(records: Records) -> set[str]:
    """Methods with a score for every seed and fold: a mean over those that happened to work would be another test."""
    return {record["method"] for record in records} - {record["method"] for record in records if "scores" not in record}


def orders(records: Records, *, test_to_train: float = 0.0) -> Iterator[str]:
    """A sentence for each pair that the table holds: the paired differences with their 95 % intervals, in points."""
    there = completed(records)
    for better, worse in BETTER_THAN:
        if {better, worse} <= there:
            pair = [record for record in records if record["method"] in (better, worse)]
            found = [
                f"{title} {_difference(pair, better, worse, metric, test_to_train)}"
                for metric, title in EQUAL_CLASSES.items()
            ]
            yield f"{METHODS[better].label} against {METHODS[worse].label}: {'; '.join(found)}."


def _difference(pair: Records, better: str, worse: str, metric: str, test_to_train: float) -> str:
    ranking = rank(pair, metric=metric, baseline=worse, test_to_train=test_to_train)
    found = next(place.to_baseline for place in ranking.places if place.method == better)
    if found is None or found.low is None or found.high is None:
        return "of one pair, which tells nothing"
    verdict = "not told apart" if found.contains_zero else "better" if found.mean > 0 else "worse"
    return f"{100 * found.mean:+.2f} ({100 * found.low:+.2f} to {100 * found.high:+.2f}), {verdict}"


def against_resampling(records: Records) -> list[str]:
    """Whether the mean of every resampler and support vector machine is behind ours; each that is not is named."""
    there = completed(records)
    names = [name for name in METHODS if name in there and METHODS[name].family in ("resampling", "svm")]
    if not names or OURS not in there:
        return []
    sentences = []
    for metric, title in (ABOVE | BELOW).items():
        sign = -1 if metric in BELOW else 1
        own = percent(records, OURS, metric)
        ahead = [name for name in names if sign * percent(records, name, metric) >= sign * own]
        said = ", ".join(_nearer(records, name, metric) for name in ahead)
        word = "smaller" if metric in BELOW else "higher"
        rest = f"not {word} than {said}" if ahead else f"{word} than all {len(names)}"
        sentences.append(f"{title} {own:.1f}, {rest}")
    return [f"Ours against resampling and support vector machines, by the mean: {'; '.join(sentences)}."]


def _nearer(records: Records, rival: str, metric: str) -> str:
    """A rival that is not behind ours, and whether chance alone could have put it there."""
    pair = [record for record in records if record["method"] in (OURS, rival)]
    there = next(
        place.to_baseline for place in rank(pair, metric=metric, baseline=rival).places if place.method == OURS
    )
    apart = " (not told apart)" if there is None or there.low is None or there.contains_zero else ""
    return f"{METHODS[rival].label} {percent(records, rival, metric):.1f}{apart}"


def percent(records: Records, method: str, metric: str) -> float:
    """A method's mean score, in percent."""
    return 100 * statistics.fmean(score_of(record, metric) for record in records if record["method"] == method)
