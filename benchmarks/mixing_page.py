"""docs/results/mixing.md from results/mixing.json."""

import math
from collections import defaultdict
from typing import Any

import numpy as np
from scipy.stats import t

BASE, BEFORE = "logit adjustment", "ours before: uncertainty, dropout variance, corrected"
WITHOUT = {
    "counts, mixing": "counts, no sample level",
    "corrected counts, mixing": "corrected counts, no sample level",
    "uncertainty, mixing": "uncertainty, no sample level",
}
"""Each sample level beside the class level that it is added to."""
METRICS = {
    "balanced_accuracy": "balanced accuracy",
    "geometric_mean": "geometric mean of recalls",
    "macro_f1": "macro F1",
}
HEAD = """# A sample level by mixing

Does training on blends of two samples help, and should margins come from counts or from uncertainty? A mixed sample x̃
= λx_i + (1 − λ)x_j is an uncertain one. The partner's class is drawn in proportion to the square root of its frequency.
When this was measured, the margins followed the resulting, more even prior; now they are those of the class counts
([training](../training.md)), as [ahead](ahead.md) measures them. "Ours before" is an [earlier
default](index.md#earlier-defaults).

`python benchmarks/mixing.py` writes this page. Differences are in points, paired over results (one case and seed), with
95 % intervals and the number of results in parentheses. The tables show balanced accuracy, then the geometric mean of
recalls and macro F1. The results come from two versions of the code, which were not compared one by one. The run was
stopped for lack of time, not because of its figures: two of nine test results are missing, and most controls have one
result.
"""
Scores = dict[tuple[str, int], dict[str, dict[str, float]]]


def by_cell(record: dict[str, Any]) -> Scores:
    """(case, seed) -> method -> scores."""
    found: Scores = defaultdict(dict)
    for key, scores in record["cells"].items():
        case, method, seed = key.split(" | ")
        found[case, int(seed)][method] = scores
    return found


def interval(scores: Scores, method: str, base: str, metric: str) -> tuple[float, float, float, int] | None:
    """Mean paired difference in points, its 95 % interval, and the number of cells that have both methods."""
    pairs = [each for each in scores.values() if method in each and base in each]
    points = 100 * np.array([each[method][metric] - each[base][metric] for each in pairs])
    if len(points) < 2:
        return None
    mean, half = points.mean(), t.ppf(0.975, len(points) - 1) * points.std(ddof=1) / math.sqrt(len(points))
    return float(mean), float(mean - half), float(mean + half), len(points)


def difference(scores: Scores, method: str, base: str, metric: str = "balanced_accuracy") -> str:
    """The interval in a cell of a table."""
    found = interval(scores, method, base, metric)
    return "–" if found is None else "{:+.2f} [{:+.2f}, {:+.2f}] ({})".format(*found)


def verdict(scores: Scores, method: str, base: str) -> str:
    """Whether a method is ahead, by balanced accuracy."""
    found = interval(scores, method, base, "balanced_accuracy")
    if found is None:
        return "not measured yet"
    word = "ahead" if found[1] > 0 else "behind" if found[2] < 0 else "not significantly different"
    return f"{word}: {difference(scores, method, base)}"


def summary(groups: dict[str, Scores]) -> list[str]:
    """What follows for the estimator."""
    mixing, plain = "counts, mixing", "counts, no sample level"
    lines = [
        f"- Images, {mixing} against {BASE}: {verdict(groups['images'], mixing, BASE)}.",
        f"- Images, against the same class level without mixing: {verdict(groups['images'], mixing, plain)}.",
        f"- Tables, against the same class level without mixing: {verdict(groups['tables'], mixing, plain)}.",
        f"- Tables, {plain} against the default before mixing: {verdict(groups['tables'], plain, BEFORE)}.",
    ]
    return [
        "## In short",
        "",
        *lines,
        "",
        "Images gain from mixing and tables do not, so the default mixes samples only with 64 features or more. The",
        "constants, Beta(0.4, 0.4) and the square root, were fixed before these results existed.",
        "",
    ]


def table(scores: Scores, methods: list[str]) -> list[str]:
    """One row per method: its mean in each case, and paired differences."""
    cases = list(dict.fromkeys(case for case, _ in scores))
    shown = cases if len(cases) <= 5 else []
    head = ["", *shown, f"against {BASE}", "geometric mean of recalls", "macro F1"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for method in methods:
        if not any(method in each for each in scores.values()):
            continue
        row = [method]
        for case in shown:
            own = [
                each[method]["balanced_accuracy"]
                for (name, _), each in scores.items()
                if name == case and method in each
            ]
            row.append(f"{100 * np.mean(own):.1f}" if own else "–")
        row += ["–"] * 3 if method == BASE else [difference(scores, method, BASE, metric) for metric in METRICS]
        lines.append("| " + " | ".join(row) + " |")
    return lines


def part(title: str, text: str, scores: Scores, methods: list[str]) -> list[str]:
    """A section with its table and what the sample level adds."""
    if not scores:
        return []
    lines = [f"## {title}", "", text, "", *table(scores, methods), ""]
    added = [
        f"- {mixing}: {difference(scores, mixing, plain)}"
        for mixing, plain in WITHOUT.items()
        if difference(scores, mixing, plain) != "–"
    ]
    return lines + (["What mixing adds to the same class level, balanced accuracy:", "", *added, ""] if added else [])


def times(speed: dict[str, dict[str, float]]) -> list[str]:
    """How long a whole training takes, against cross-entropy."""
    if not speed:
        return []
    methods = list(next(iter(speed.values())))
    lines = [
        "## Time",
        "",
        "CPU time of a training step, from drawing the batch to the optimiser, relative to cross-entropy; the minimum",
        "of several alternating runs. Small networks spend most of a step on overhead, not arithmetic.",
        "",
        "| | " + " | ".join(methods) + " |",
        "|---" * (len(methods) + 1) + "|",
    ]
    for name, own in speed.items():
        lines.append(f"| {name} | " + " | ".join(f"{own[each] / own['cross-entropy']:.2f}" for each in methods) + " |")
    return [*lines, ""]


def page(record: dict[str, Any], methods: list[str], tables: list[str]) -> str:
    """The page as Markdown."""
    every = by_cell(record)
    groups: dict[str, Scores] = {"test": {}, "tables": {}, "images": {}}
    for (case, seed), scores in every.items():
        group = "test" if "test images" in case else "tables" if case in tables else "images"
        groups[group][case, seed] = scores
    settings, versions = record["settings"], record["versions"]
    images = (
        f"At most {settings['images_a_class']} images per class before they are thinned out, two layers of "
        f"{settings['width']}, {settings['epochs']} epochs. MNIST at 14×14 pixels, scored on 10,000 other training "
        "images."
    )
    rows = (
        f"The development tables of KEEL and UCI, at most {settings['table_rows']:,} rows to fit, scored on held-out "
        "rows of the part reserved for choices. Text is one-hot encoded, so a mixed row lies between categories."
    )
    lines = [
        HEAD,
        *summary(groups),
        *part("Images, held-out training data", images, groups["images"], methods),
        *part("Tables", rows, groups["tables"], methods),
        *part("MNIST's test images", "Looked at once, after the choice.", groups["test"], methods),
        *times(record.get("speed", {})),
        f"Versions: {', '.join(f'{name} {number}' for name, number in versions.items())}.",
        "",
    ]
    return "\n".join(lines)
