"""docs/results/held-back.md from benchmarks/results/held_back.json: no figure is typed by hand."""

import json
import statistics
from pathlib import Path
from typing import Any

from held_back import RULES

ROOT = Path(__file__).parent.parent
RESULT, PAGE = ROOT / "benchmarks/results/held_back.json", ROOT / "docs/results/held-back.md"
LABELS = {
    "none": '`"none"`',
    "temperature": "always a temperature",
    "held_back": '`"held_back"`',
    "at the end": "the best temperature",
}

INTRODUCTION = """# Does calibration on held-back samples help?

The first two thirds of the epochs leave out a tenth of the samples. These can calibrate the probabilities before the
last third trains on them, too. Does that help? All columns come from one fit of the default network with
`sample_level="none"` (a network that mixes samples holds none back): `calibration="none"`; always a temperature,
whether it helps or not; `calibration="held_back"`, which uses a scaling only if it helps on left-out folds by more
than a standard error; and the temperature with the lowest log loss on the scored rows themselves, which no rule can
know in advance. Scores are on held-out training rows; a fifth of each table was set aside and never read. Repeat it
with

```text
python benchmarks/held_back.py && python benchmarks/held_back_page.py
```
"""


def mean(cells: list[dict[str, Any]], rule: str, figure: str) -> float:
    return statistics.mean(cell[rule][figure] for cell in cells)


def table(groups: dict[str, list[dict[str, Any]]], figure: str, text: str, factor: float) -> list[str]:
    """One row per data set, one column per rule; the last row says how often each is better and worse than none."""
    out = ["| | " + " | ".join(LABELS.values()) + " |", "|---" * (len(LABELS) + 1) + "|"]
    for name, cells in groups.items():
        out.append(
            f"| {name} | " + " | ".join(format(factor * mean(cells, rule, figure), text) for rule in RULES) + " |"
        )
    overall = [statistics.mean(mean(cells, rule, figure) for cells in groups.values()) for rule in RULES]
    out.append("| mean | " + " | ".join(format(factor * value, text) for value in overall) + " |")
    every = [cell for cells in groups.values() for cell in cells]
    counted = []
    for rule in RULES:
        change = [cell[rule][figure] - cell["none"][figure] for cell in every]
        counted.append(f"{sum(c < 0 for c in change)} / {sum(c > 0 for c in change)}")
    out.append("| fits better / worse than none | " + " | ".join(counted) + " |")
    return [*out, ""]


def lines() -> list[str]:
    """The page, line by line."""
    stored: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8"))
    groups: dict[str, list[dict[str, Any]]] = {}
    for key, cell in stored["cells"].items():
        groups.setdefault(key.rpartition(" | ")[0], []).append(cell)
    out = [INTRODUCTION, "## Log loss", "", *table(groups, "log_loss", ".4f", 1.0)]
    out += ["## Calibration error (ECE, percent)", "", *table(groups, "ece", ".2f", 100.0)]
    out += [
        "## Does a temperature last?",
        "",
        "The scale of the logits (1 / temperature) that suits the held-back samples best after two thirds of the",
    ]
    out += [
        "epochs, the one that was taken, and the one that suits new rows best at the end of training; geometric means."
    ]
    out += [""]
    out += ["| | samples held back | best for them | taken | best at the end |", "|---|---|---|---|---|"]
    for name, cells in groups.items():
        scales = [statistics.geometric_mean(cell["scale"][rule] for cell in cells) for rule in RULES[1:]]
        held = statistics.mean(cell["held_back_samples"] for cell in cells)
        out.append(f"| {name} | {held:.0f} | " + " | ".join(f"{scale:.2f}" for scale in scales) + " |")
    above = [cell["scale"] for cells in groups.values() for cell in cells if cell["scale"]["temperature"] > 1]
    smaller = sum(scale["at the end"] < scale["temperature"] for scale in above)
    seeds = len({key.rpartition(" | ")[2] for key in stored["cells"]})
    out += ["", CONCLUSION.format(above=len(above), smaller=smaller), "", f"{seeds} seed{'s' * (seeds > 1)}."]
    out.append("Versions: " + ", ".join(f"{name} {version}" for name, version in stored["versions"].items()) + ".")
    return out


CONCLUSION = """Where the network is clearly overconfident, the held-back samples show it, and calibration gets most of
the possible gain. Elsewhere hardly any fit is scaled. So `"held_back"` is the default; a network that mixes samples,
the default with 64 features or more, holds none back. A scale above 1 rarely lasts: of {above} fits that wanted one,
{smaller} wanted a smaller one at the end. Such a scale is never used."""


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
