"""
Prediction sets that hold for the rare class
============================================

If a model may answer "8 or not 8, I cannot tell", it can guarantee that its answer contains the true label for 90 % of
the samples. With one threshold for all classes, the guarantee holds on average and fails for the rare class. With one
threshold per class, fitted on held-out samples, it holds for both. The price is the share of rows left to a human.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from equipoise import UncertaintyBalancedClassifier

LEVEL, SPLITS = 0.9, 20

x, digit = load_digits(return_X_y=True)
x = np.where(np.random.default_rng(0).random(x.shape) < 0.3, 0, x)  # 30 % of the pixels lost: otherwise it is too easy
eight = (digit == 8).astype(int)
x_train, x_rest, y_train, y_rest = train_test_split(x, eight, train_size=600, stratify=eight, random_state=0)
model = UncertaintyBalancedClassifier(random_state=0).fit(x_train, y_train)
probabilities = model.predict_proba(x_rest)


# %%
# The ordinary kind of set uses one threshold on the probability of the true class.


def one_threshold(seen: np.ndarray, labels: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Return sets (rows, classes) of the classes whose probability exceeds a common threshold."""
    own = np.sort(seen[np.arange(len(labels)), labels])
    return new >= own[int(np.floor((1 - LEVEL) * (len(own) + 1))) - 1]


# %%
# Divide the remaining samples twenty times into calibration and test, and count how often the truth is in the set.

coverage = {"one threshold": [], "one per class": []}
undecided = {name: [] for name in coverage}
for seed in range(SPLITS):
    known, new = train_test_split(np.arange(len(x_rest)), stratify=y_rest, random_state=seed)
    sets = {
        "one threshold": one_threshold(probabilities[known], y_rest[known], probabilities[new]),
        "one per class": model.calibrate(x_rest[known], y_rest[known]).prediction_sets(x_rest[new], level=LEVEL),
    }
    for name, answers in sets.items():
        inside = answers[np.arange(len(new)), y_rest[new]]
        coverage[name].append([inside[y_rest[new] == label].mean() for label in (0, 1)])
        undecided[name].append((answers.sum(1) != 1).mean())
found = {name: np.mean(each, 0)[1] for name, each in coverage.items()}

# %%
# The dashed line is the guaranteed coverage.

figure, axes = plt.subplots(figsize=(8.5, 3.8), layout="constrained")
for place, (name, colour) in enumerate(zip(coverage, ("#999999", "#117733"), strict=True)):
    label = f"{name}: {np.mean(undecided[name]):.0%} of the rows left to a human"
    bars = axes.bar(np.arange(2) + 0.38 * place - 0.19, np.mean(coverage[name], 0), 0.36, color=colour, label=label)
    axes.bar_label(bars, fmt="{:.0%}", label_type="center", color="white")
axes.axhline(LEVEL, color="black", linewidth=1, linestyle="--")
axes.set_xticks((0, 1), ["other digits (nine in ten)", "8 (one in ten)"])
axes.set_ylim(0, 1.15)
axes.set_yticks([])
axes.set_title("How often the set contains the true label")
axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2, frameon=False)
axes.spines[["top", "right", "left"]].set_visible(False)
plt.show()
