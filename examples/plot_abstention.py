"""Sets of labels that hold for the rare class as well: which digits are an 8?

    python examples/plot_abstention.py [FOLDER]            # writes abstention.png there, or here

A model that may answer "I do not know" can promise to keep the true label among its answers for 90 % of the samples.
One threshold for all classes keeps that promise on average and breaks it for the rare class. One for each class,
from samples that no epoch has seen, keeps it for both; what it costs is how many rows stay open for a human.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from equipoise import UncertaintyBalancedClassifier

LEVEL, SPLITS = 0.9, 20
GREY, GREEN = "#999999", "#117733"


def one_threshold(said: np.ndarray, labels: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Sets of the ordinary kind: one threshold for the probability of the true class, whatever the class."""
    own = np.sort(said[np.arange(len(labels)), labels])
    return new >= own[int(np.floor((1 - LEVEL) * (len(own) + 1))) - 1]


def main(folder: Path) -> dict[str, float]:
    """Draw the picture; how often an 8 was among the answers is returned, for both kinds of thresholds."""
    x, digit = load_digits(return_X_y=True)
    x = np.where(
        np.random.default_rng(0).random(x.shape) < 0.3, 0, x
    )  # a third of the pixels lost: otherwise it is too easy
    eight = (digit == 8).astype(int)
    x, rest, eight, truth = train_test_split(x, eight, train_size=600, stratify=eight, random_state=0)
    model = UncertaintyBalancedClassifier(random_state=0).fit(x, eight)
    said = model.predict_proba(rest)
    held, sizes = {"one threshold": [], "one for each class": []}, {"one threshold": [], "one for each class": []}
    for seed in range(SPLITS):
        known, new = train_test_split(np.arange(len(rest)), stratify=truth, random_state=seed)
        sets = {
            "one threshold": one_threshold(said[known], truth[known], said[new]),
            "one for each class": model.calibrate(rest[known], truth[known]).prediction_sets(rest[new], level=LEVEL),
        }
        for name, found in sets.items():
            inside = found[np.arange(len(new)), truth[new]]
            held[name].append([inside[truth[new] == label].mean() for label in (0, 1)])
            sizes[name].append((found.sum(1) != 1).mean())

    figure = Figure(figsize=(8.5, 3.8), layout="constrained")
    axes = figure.subplots()
    for place, (name, colour) in enumerate(zip(held, (GREY, GREEN), strict=True)):
        label = f"{name}: {np.mean(sizes[name]):.0%} of the rows stay open"
        bars = axes.bar(np.arange(2) + 0.38 * place - 0.19, np.mean(held[name], 0), 0.36, color=colour, label=label)
        axes.bar_label(bars, fmt="{:.0%}")
    axes.axhline(LEVEL, color="black", linewidth=1, linestyle="--")
    axes.text(0.5, LEVEL + 0.015, "promised", ha="center")
    axes.set_xticks((0, 1), ["other digits (nine in ten)", "8 (one in ten)"])
    axes.set_ylim(0, 1.15)
    axes.set_yticks([])
    axes.set_title(f"How often the truth is among the answers, {SPLITS} divisions into calibration and test")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2, frameon=False)
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.savefig(folder / "abstention.png", dpi=110)
    return {name: float(np.mean(parts, 0)[1]) for name, parts in held.items()}


if __name__ == "__main__":
    print(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
