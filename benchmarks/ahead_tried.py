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
    "from the first epoch, mean of four (chosen)": ("mixing from the start", HEAD, "mean of 4"),
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


STRENGTHS = {
    "logit adjustment": RIVAL,
    "logit adjustment, a quarter stronger": f"{RIVAL}, tau 1.25",
    "margins of the mixed samples' prior (the default until then)": START,
    "the same, a quarter stronger": f"{START}, tau 1.25",
    "the same, half stronger": f"{START}, tau 1.5",
    "margins of the class counts (chosen)": f"{START}, whole margins",
}
"""How strong margins were while mixing -> their names in the search."""
FORMS = {
    "partners by the square root of the frequency, the input mixed (the default)": START,
    "partners by frequency^0.75": f"{START}, power 0.75",
    "the first hidden layer mixed, not the input": f"{START}, hidden",
}
"""Other ways of mixing -> their names in the search."""
TABLE_STRENGTHS = {
    "logit adjustment": RIVAL,
    "logit adjustment, a quarter stronger": f"{RIVAL}, tau 1.25",
    "our head": HEAD,
    "our head, a quarter stronger": f"{HEAD}, tau 1.25",
}
"""The same for tables without a sample level."""
DRAWN = {
    "every row once per epoch (the default)": HEAD,
    "classes drawn by frequency^0.75": f"{HEAD}, drawn by frequency^0.75",
    "classes drawn by the square root of the frequency": f"{HEAD}, drawn by the square root",
    "classes drawn by frequency^0.25": f"{HEAD}, drawn by frequency^0.25",
    "classes drawn equally often, without margins": "our head, classes drawn equally often",
}
"""How the rows of tables are drawn -> their names in the search."""


def strength_table(record: dict[str, Any], names: dict[str, str], base: str, way: str = "mean of 4") -> list[str]:
    """Scores of options over the cases that all of them were run on, and their differences to one of them."""
    cells = record["cells"]
    cases = [
        case
        for case in dict.fromkeys(key.split(" | ")[0] for key in cells)
        if all(f"{case} | {name}" in cells for name in names.values())
    ]
    lines = ["| | " + " | ".join(cases) + " | " + " | ".join(METRICS.values()) + " |"]
    lines.append("|---" * (len(cases) + len(METRICS) + 1) + "|")
    for option, name in names.items():
        own = {metric: means_of(cells, cases, name, metric, way) for metric in METRICS}
        row = [f"{mean:.1f}" for mean in own["balanced_accuracy"]]
        for metric, means in own.items():
            points = np.subtract(means, means_of(cells, cases, base, metric, way)).tolist()
            row.append("–" if name == base else f"{shown(paired_interval(points))}, {p_value(points)}")
        lines.append(f"| {option} | " + " | ".join(row) + " |")
    return lines


def means_of(cells: dict[str, Any], cases: Sequence[str], name: str, metric: str, way: str) -> list[float]:
    """The mean over the seeds of each case, in percent."""
    return [100 * float(np.mean([each[way][metric] for each in cells[f"{case} | {name}"]["seeds"]])) for case in cases]


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
        "strength_tried": strength_table(search, STRENGTHS, START),
        "forms_tried": strength_table(search, FORMS, START, "one"),
        "tables_tried": strength_table(search, TABLE_STRENGTHS, HEAD),
        "drawn_tried": strength_table(search, DRAWN, HEAD),
        "options_tried": options_table(options),
    }
