"""docs/results/calibration.md from benchmarks/results/calibration.json: no figure is typed by hand."""

import json
import statistics
from pathlib import Path
from typing import Any

from calibration import DIVISIONS, ENOUGH, LEVEL, METHODS, SETS

ROOT = Path(__file__).parent.parent
RESULT, PAGE = ROOT / "benchmarks/results/calibration.json", ROOT / "docs/results/calibration.md"
COLUMNS = {"ece": "ECE", "class_ece": "class-wise ECE", "brier": "Brier", "log_loss": "log loss"}
UNCALIBRATED, RIVAL = 'without mixing, calibration="none"', "cross-entropy"
OURS = tuple(name for name, (fit, how) in METHODS.items() if how == "fitted" and not fit.startswith("cross_entropy"))

INTRODUCTION = """# Do probabilities mean what they say?

The estimator's network on VGG16 features of two data sets: CIFAR-10, with nine tenths of the samples of half of the
classes left out (other classes for each seed), and HAM10000, with a third of the lesions held out. Figures are mean ±
standard deviation over seeds; smaller is better. Test samples are weighted so that classes are as common as in
training (natural) or equally common (balanced), and each method predicts at that class prior. ECE, in percent, uses 15
bins of the largest probability; class-wise ECE averages the ECE of each class's own probability. How it works:
[Trust](../trust.md). Repeat it with

```text
python benchmarks/calibration.py && python benchmarks/calibration_page.py
```

"Softmax" is the network's own output, whatever the class prior; all other rows are adjusted to the prior by Bayes'
rule. The default mixes samples here and holds none back to calibrate on. The two rows without mixing
(`sample_level="none"`) come from the same fits, which hold a tenth of the samples back. Mixing alone prevents most of
the overconfidence; samples that were not trained on do still better, and with them cross-entropy has probabilities as
good as ours.
"""


def cells_of(stored: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the results of a data set, one per seed."""
    return [cell for key, cell in stored["cells"].items() if key.split(" | ")[0] == name]


def shown(values: list[float], figure: str) -> str:
    """Mean and standard deviation; of calibration errors in percent."""
    percent = figure.endswith("ece")
    values = [100 * value for value in values] if percent else values
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return (
        f"{statistics.mean(values):.1f} ± {spread:.1f}" if percent else f"{statistics.mean(values):.3f} ± {spread:.3f}"
    )


def table(cells: list[dict[str, Any]], prior: str) -> list[str]:
    """One row per method."""
    out = ["| | " + " | ".join(COLUMNS.values()) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name in METHODS:
        found = [shown([cell[name][prior][figure] for cell in cells], figure) for figure in COLUMNS]
        out.append(f"| {name} | " + " | ".join(found) + " |")
    return [*out, ""]


def bar(stored: dict[str, Any]) -> list[str]:
    """Whether the error is at most half of the uncalibrated model's, and at most cross-entropy's."""
    out = [
        "## Is it good enough?",
        "",
        "The target: ECE at most half that of the method with neither mixing nor calibration, and at most that of",
    ]
    out += ["cross-entropy. Ratios of the means:", ""]
    out += ["| | prior | method | / no mixing, no calibration | / cross-entropy | |", "|---|---|---|---|---|---|"]
    for name, (title, _) in SETS.items():
        cells = cells_of(stored, name)
        for prior in ("natural", "balanced") if cells else ():
            mean = {who: statistics.mean(cell[who][prior]["ece"] for cell in cells) for who in METHODS}
            for ours in OURS:
                half, whole = mean[ours] / mean[UNCALIBRATED], mean[ours] / mean[RIVAL]
                met = "met" if half <= 0.5 and whole <= 1 else "missed"
                out.append(f"| {title} | {prior} | {ours} | {half:.2f} | {whole:.2f} | {met} |")
    return [*out, ""]


def coverage(stored: dict[str, Any]) -> list[str]:
    """How often a set of classes holds the true one, class by class."""
    out = [f"## Prediction sets at {LEVEL:.0%}", ""]
    out += [f"Each seed's test samples are divided {DIVISIONS} times at random into halves, class by class:"]
    out += [
        "one half calibrates, the other is scored. The model is the default. Coverage in percent, mean ± standard "
        "deviation over the divisions, which share their fits.",
        "",
    ]
    for name, found in stored["coverage"].items():
        rows = list(zip(found["calibration_samples"], found["mean"], found["deviation"], strict=True))
        out += [f"### {SETS[name][0]}", "", "| class | calibration samples | covered |", "|---|---|---|"]
        out += [
            f"| {place} | {count} | {100 * mean:.1f} ± {100 * spread:.1f} |"
            for place, (count, mean, spread) in enumerate(rows)
        ]
        off = [abs(mean - LEVEL) for count, mean, _ in rows if count >= ENOUGH]
        out += [
            "",
            f"{DIVISIONS * found['fits']} divisions; a set contains {found['classes_a_set']:.2f} classes on average.",
        ]
        if off:
            out[-1] += (
                f" Among classes with {ENOUGH} calibration samples or more, coverage is off by at most "
                f"{100 * max(off):.1f} points."
            )
        out.append("")
    return out


def lines() -> list[str]:
    """The page, line by line."""
    stored = json.loads(RESULT.read_text(encoding="utf-8"))
    out = [INTRODUCTION]
    for name, (title, _) in SETS.items():
        cells = cells_of(stored, name)
        for prior in ("natural", "balanced") if cells else ():
            out += [
                f"## {title}, {prior} class prior ({len(cells)} seed{'s' * (len(cells) > 1)})",
                "",
                *table(cells, prior),
            ]
    out += [*bar(stored), *coverage(stored)]
    out.append("Versions: " + ", ".join(f"{name} {version}" for name, version in stored["versions"].items()) + ".")
    return out


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
