"""docs/results/mislabelled.md from benchmarks/results/mislabelled.json: no figure is typed by hand."""

import json
import statistics
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULT, PAGE = ROOT / "benchmarks/results/mislabelled.json", ROOT / "docs/results/mislabelled.md"
Cells = list[dict[str, float]]
OURS = "left out; softmax stage"

INTRODUCTION = """# Which labels are wrong

A twentieth of the labels, drawn at random, is flipped to any other class before training; `equipoise inspect` is to
find them. Percent, mean over the seeds {seeds}, and the worst seed in brackets. "1:10" keeps a tenth of half of the
classes; flips hit all samples alike, so that a rare class holds about as many wrong labels as a third of its right
ones. "by heart" trains twice as long with little dropout and no weight decay. The
rule was looked for on other seeds. Repeat it with

```text
python benchmarks/mislabelled.py && python benchmarks/mislabelled_page.py
```

## What the command does

"First tenth": flipped labels among the first tenth of the ranking, of which at best half can be flipped. "Suspected":
labels that fit another class better, as the command counts them; "wrongly": right labels of the rare classes.
"""

RULES = """## What was tried

Each rule ranks the same samples from the same fits: flipped labels in the first tenth, then the average precision,
then where there are rare classes how many of their right labels are in the first tenth.

- *left out*: a linear regression from features to labels that has not seen the sample, in closed form; a class of n
  samples weighs √n. This is the rule.
- *classes weigh n* and *alike*: the same without that. Weighing n accuses rare classes for being rare; weighing all
  alike accuses them least, and believes more of the wrong labels among them.
- *own probability*: what the network gives the label; *less the class's mean*: compared with the class's own level.
- *F̂ under dropout*: the sample uncertainty of the paper, the probability that dropout lets a rival win.
- *nearest others*: how many of ten neighbours have another label.

"softmax stage" takes the network at the end of that stage, "trained" the final one.
"""

READING = """## In words

The network's own answers, with or without dropout, fail where labels have been memorised, and the trained
network, whose margins work for rare classes, believes wrong labels among them. A label that is left out is judged well
from the features of either network, which is why a run needs no second training, and why methods without a softmax
stage are served as well. Flips were drawn alike from all classes: people confuse what looks alike, and such errors are
harder to find. Cells that are missing have not been run.
"""


def collect() -> tuple[dict[str, dict[str, Cells]], list[str], dict[str, str]]:
    """Cells by case and rule, the seeds, the versions."""
    stored = json.loads(RESULT.read_text(encoding="utf-8"))
    table: dict[str, dict[str, Cells]] = defaultdict(lambda: defaultdict(list))
    seeds = set()
    for key, cell in stored["cells"].items():
        case, seed = key.split(" | ")
        seeds.add(seed)
        for rule, found in cell.items():
            table[case][rule].append(found)
    return table, sorted(seeds, key=int), stored["versions"]


def shown(cells: Cells, score: str, *, worst: bool = False) -> str:
    """The mean in percent; nothing where it was not measured."""
    values = [100 * cell[score] for cell in cells if score in cell]
    if not values:
        return "–"
    return f"{statistics.mean(values):.1f}" + (f" ({min(values):.1f})" if worst else "")


def lines() -> list[str]:
    """The page, line by line."""
    table, seeds, versions = collect()
    out = [INTRODUCTION.format(seeds=", ".join(seeds))]
    headings = ("seeds", "learnt as given", "first tenth", "suspected of all", "flipped that are suspected")
    headings += ("suspected that are flipped", "rare suspected wrongly")
    out += ["| | " + " | ".join(headings) + " |", "|---" * (len(headings) + 1) + "|"]
    for case, rows in table.items():
        cells = rows[OURS] if OURS in rows else rows["left out; trained"]
        scores = ("suspected", "suspected, found", "suspected, right", "suspected, rare accused")
        found = [str(len(cells)), shown(rows[""], "learnt"), shown(cells, "found", worst=True)]
        out.append(f"| {case} | " + " | ".join(found + [shown(cells, score) for score in scores]) + " |")
    out += ["", RULES]
    cases = [case for case, rows in table.items() if any("found" in cell for cell in rows["left out; trained"])]
    names = list(dict.fromkeys(rule for case in cases for rule in table[case] if rule))
    out += ["| | " + " | ".join(cases) + " |", "|---" * (len(cases) + 1) + "|"]
    for name in sorted(names, key=lambda rule: (rule.split("; ")[1], names.index(rule))):
        marked = f"**{name}**" if name == OURS else name
        each = []
        for case in cases:
            cells = table[case].get(name, [])
            scores = [shown(cells, score) for score in ("found", "average precision", "rare accused")]
            each.append(" / ".join(score for score in scores if score != "–") or "–")
        out.append(f"| {marked} | " + " | ".join(each) + " |")
    return [*out, "", READING, "Versions: " + ", ".join(f"{name} {own}" for name, own in versions.items()) + "."]


if __name__ == "__main__":
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
