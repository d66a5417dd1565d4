"""The tables of docs/results/ahead.md that show what was tried on training rows."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ahead_page import HEAD, METRICS, OURS, RIVAL, cells_of, over_cases, p_value, shown

from equipoise.app.compare import paired_interval

RESULTS = Path(__file__).parent / "results"
KEPT, NONE, WHOLE = "ours, a tenth held back", "ours, nothing held back", "ours, whole margins"
START = "mixing from the start"
BY_COLUMNS = {
    "logit adjustment, mean of four": ("logit adjustment", "logit adjustment", "mean of 4"),
    "three stages, one network": ("ours, mixing", "ours", "one"),
    "three stages, mean of four": ("ours, mixing", "ours", "mean of 4"),
    "from the first epoch, one network": ("mixing from the start", HEAD, "one"),
    "from the first epoch, mean of four (now the default)": ("mixing from the start", HEAD, "mean of 4"),
    "the same, tables alone": (None, HEAD, "mean of 4"),
    "the same, tables alone, mixed too": (None, "mixing from the start", "mean of 4"),
    "three stages, four folds, tables alone": (None, "ours, folds", "mean of 4"),
    "the same, shifted by what each class lacks": (None, "ours, folds", "mean of 4, shift 0.25"),
}
"""Option -> its names in the search, with at least 64 features and with fewer, and whose mean it is."""


def search_table(record: dict[str, Any], unmixed: Sequence[str]) -> list[str]:
    """Options of the search against one logit-adjusted network, paired over cases and seeds."""
    cells = record["cells"]
    cases = sorted({key.split(" | ")[0] for key in cells})
    lines = ["| | cases | " + " | ".join(METRICS.values()) + " |", "|---" * (len(METRICS) + 2) + "|"]
    for option, (mixed, small, way) in BY_COLUMNS.items():
        name = {case: small if case in unmixed else mixed for case in cases}
        run = [case for case in cases if f"{case} | {name[case]}" in cells and f"{case} | {RIVAL}" in cells]
        row = []
        for metric in METRICS:
            pairs = [
                (one[way][metric], other["one"][metric])
                for case in run
                for one, other in zip(
                    cells[f"{case} | {name[case]}"]["seeds"], cells[f"{case} | {RIVAL}"]["seeds"], strict=True
                )
            ]
            row.append(shown(paired_interval([100 * (one - other) for one, other in pairs])))
        lines.append(f"| {option} | {len(run)} | " + " | ".join(row) + " |")
    return lines


ROUND = {
    "the default": START,
    "margins of the counts, as without mixing": f"{START}, whole margins",
    "margins a quarter stronger": f"{START}, tau 1.25",
    "partners by frequency^0.75": f"{START}, power 0.75",
    "the first hidden layer mixed, not the input": f"{START}, hidden",
}
"""Options of mixing that were tried last -> their names in the search."""


def mixing_table(record: dict[str, Any]) -> list[str]:
    """Balanced accuracy of one network by each way of mixing, case by case: mean over seeds and networks."""
    cells = record["cells"]
    cases = [key.split(" | ")[0] for key in cells if key.endswith(f" | {START}, whole margins")]
    lines = ["| | " + " | ".join(cases) + " | against the default |", "|---" * (len(cases) + 2) + "|"]
    for option, name in {RIVAL: RIVAL, **ROUND}.items():
        own = {case: scores_of(cells, case, name) for case in cases}
        row = [f"{100 * np.mean(each):.1f}" if each else "–" for each in own.values()]
        gains = [
            100 * (one - other)
            for case in cases
            for one, other in zip(own[case], scores_of(cells, case, START), strict=False)
        ]
        beside = "–" if name == START else shown(paired_interval(gains))
        lines.append(f"| {option} | " + " | ".join(row) + f" | {beside} |")
    return lines


def scores_of(cells: dict[str, Any], case: str, name: str) -> list[float]:
    return [each["one"]["balanced_accuracy"] for each in cells.get(f"{case} | {name}", {"seeds": []})["seeds"]]


TRIALS = {
    "nothing held back, 40 epochs as on this page": ("options", NONE, KEPT),
    "nothing held back, the estimator's own length": ("chosen length", NONE, KEPT),
    "margins of the counts while mixing, 40 epochs": ("options", WHOLE, OURS),
}
"""Title -> part of the trials, the option, and what it is compared with."""


def options_table(record: dict[str, Any]) -> list[str]:
    """What an option changes over the cases; log loss is not in points."""
    names = {**METRICS, "log_loss": "log loss", "ece": "calibration error"}
    lines = ["| | cases | " + " | ".join(names.values()) + " |", "|---" * (len(names) + 2) + "|"]
    for title, (part, one, other) in TRIALS.items():
        cells, row = cells_of(record, part, [one, other], fewest=1), []
        for metric in names if cells else ():
            points = over_cases(cells, one, other, metric)
            interval = paired_interval([each / 100 for each in points] if metric == "log_loss" else points)
            row.append(f"{shown(interval)}, {p_value(points)}")
        lines += [f"| {title} | {len(cells)} | " + " | ".join(row) + " |"] if cells else []
    return lines


def tried(unmixed: Sequence[str]) -> dict[str, list[str]]:
    """The tables, by their places in the text."""
    search, options = (json.loads((RESULTS / f"ahead_{name}.json").read_text()) for name in ("search", "options"))
    return {
        "search": search_table(search, unmixed),
        "mixing_tried": mixing_table(search),
        "options_tried": options_table(options),
    }
