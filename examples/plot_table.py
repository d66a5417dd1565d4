"""A real table in which one class is naturally rare: whose diabetes progresses fastest?

    python examples/plot_table.py [FOLDER]                 # writes table.png there, or here

scikit-learn's own diabetes data: 442 patients, ten measurements, and how far the disease progressed in a year. The
class to find is the tenth of patients with the fastest progress. No row is dropped or made up. A model that says "not
fast" to everybody is right for nine in ten and of no use to anybody, so the picture counts patients, not percent.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from equipoise import UncertaintyBalancedClassifier

FOUND, ALARM, MISSED = "#117733", "#ddcc77", "#cc6677"


def main(folder: Path) -> dict[str, float]:
    """Draw the picture; the share of fast cases found by each model is returned."""
    x, progress = load_diabetes(return_X_y=True, as_frame=True)
    fast = (progress > progress.quantile(0.9)).to_numpy()
    labels = np.where(fast, "fast", "not fast")
    models = {
        "softmax network": UncertaintyBalancedClassifier("cross_entropy", random_state=0),
        "random forest,\nbalanced weights": RandomForestClassifier(class_weight="balanced", random_state=0),
        "Equipoise": UncertaintyBalancedClassifier(random_state=0),
    }
    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    says_fast = {name: cross_val_predict(clone(model), x, labels, cv=folds) == "fast" for name, model in models.items()}

    figure = Figure(figsize=(8.5, 3.8), layout="constrained")
    axes = figure.subplots()
    for height, said in enumerate(says_fast.values()):
        found, missed, alarms = (fast & said).sum(), (fast & ~said).sum(), (~fast & said).sum()
        axes.barh(height, [found, missed], left=[0, found], color=[FOUND, MISSED])
        axes.barh(height, alarms, left=-alarms, color=ALARM)
        for at, number in ((found / 2, found), (found + missed / 2, missed), (-alarms / 2, alarms)):
            axes.text(at, height, str(number), ha="center", va="center", color="white" if at == found / 2 else "black")
    axes.axvline(0, color="black", linewidth=1)
    axes.set_yticks(range(len(models)), list(models))
    axes.set_xticks([])
    for colour, label in ((ALARM, "false alarms"), (FOUND, "fast cases found"), (MISSED, "fast cases missed")):
        axes.barh(0, 0, color=colour, label=label)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=3, frameon=False)
    axes.set_title(f"{fast.sum()} of {len(fast)} patients progress fast; each judged by a model that had not seen them")
    axes.spines[["top", "right", "bottom", "left"]].set_visible(False)
    figure.savefig(folder / "table.png", dpi=110)
    return {name.replace("\n", " "): float(said[fast].mean()) for name, said in says_fast.items()}


if __name__ == "__main__":
    print(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
