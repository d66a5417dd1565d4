"""Which remedy for this table? Five of them on the same folds, and a recommendation in words.

    python examples/plot_comparison.py [FOLDER]            # writes comparison.png there, or here

The table is that of plot_table.py: 442 patients, of whom a tenth is to be found. Every method has the same network and
the same folds. The command line does the same for a file of yours: ``equipoise compare patients.csv``.
"""

import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_diabetes

from equipoise.app.compare import METHODS, Comparison, compare
from equipoise.data.samples import Samples

OURS, OTHERS = "#117733", "#4477aa"
SHOWN = ("cross_entropy", "uncertainty_margin", "logit_adjustment", "smote", "random_under")


def diabetes() -> Samples:
    """The tenth of patients with the fastest progress, and the others."""
    x, progress = load_diabetes(return_X_y=True, as_frame=True)
    return Samples(x, np.where(progress > progress.quantile(0.9), "fast", "not fast"))


def draw(found: Comparison, file: Path) -> None:
    """A row a method, best first: a dot for each fold of each seed, a line for their mean."""
    figure = Figure(figsize=(8.5, 4.6), layout="constrained")
    axes = figure.subplots()
    for height, place in enumerate(reversed(found.ranking.places)):
        each = [run["scores"]["balanced_accuracy"] for run in found.records if run["method"] == place.method]
        colour = OURS if place.method == "uncertainty_margin" else OTHERS
        axes.plot(each, [height] * len(each), "o", color=colour, alpha=0.45, markeredgewidth=0)
        axes.plot([place.mean] * 2, [height - 0.3, height + 0.3], color=colour, linewidth=3)
        axes.annotate(f"{place.mean:.0%}", (place.mean, height + 0.32), ha="center", fontsize=8, color=colour)
    axes.set_yticks(range(len(found.ranking.places)), [METHODS[p.method].label for p in reversed(found.ranking.places)])
    axes.set_title(textwrap.fill(found.recommendation, 95), fontsize=9, loc="left")
    axes.set(xlabel="balanced accuracy: a dot for each fold, a line for their mean", ylim=(-0.6, None))
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, dpi=110)


def main(folder: Path, *, seeds: int = 2, folds: int = 5, methods: Sequence[str] = SHOWN) -> dict[str, float]:
    """Draw the picture; the mean balanced accuracy of each method is returned."""
    found = compare(diabetes(), methods=methods, seeds=seeds, folds=folds)
    draw(found, folder / "comparison.png")
    return {place.method: place.mean for place in found.ranking.places}


if __name__ == "__main__":
    print(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
