"""
Which remedy for this table?
============================

We compare five methods with the same network on the same folds, and get a recommendation in words. The table is that of
:doc:`plot_table`: 442 patients, of whom we want to find the tenth whose disease progresses fastest. On the command
line, ``equipoise compare FILE`` does the same for your data.
"""

import textwrap

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

from equipoise.app.compare import METHODS, FitOptions, compare
from equipoise.data.samples import Samples

x, progress = load_diabetes(return_X_y=True, as_frame=True)
patients = Samples(x, np.where(progress > progress.quantile(0.9), "fast", "not fast"))

# %%
# Cross-entropy does nothing about the imbalance. The others change the loss, the logits or the training rows. Short
# training keeps this example fast; leave ``options`` out for your own data.

methods = ("cross_entropy", "uncertainty_margin", "logit_adjustment", "smote", "random_under")
comparison = compare(patients, methods=methods, seeds=2, folds=5, options=FitOptions(epochs=45))
print(textwrap.fill(comparison.recommendation, 95))

# %%
# One dot for each fold, one line for their mean.

figure, axes = plt.subplots(figsize=(8.5, 4.6), layout="constrained")
places = comparison.ranking.places[::-1]
for height, place in enumerate(places):
    folds = [run["scores"]["balanced_accuracy"] for run in comparison.records if run["method"] == place.method]
    colour = "#117733" if place.method == "uncertainty_margin" else "#4477aa"
    axes.plot(folds, [height] * len(folds), "o", color=colour, alpha=0.45, markeredgewidth=0)
    axes.plot([place.mean] * 2, [height - 0.3, height + 0.3], color=colour, linewidth=3)
    axes.annotate(f"{place.mean:.0%}", (place.mean, height + 0.38), ha="center", fontsize=8, color=colour)
axes.set_yticks(range(len(places)), [METHODS[place.method].label for place in places])
axes.set_title(textwrap.fill(comparison.recommendation, 95), fontsize=9, loc="left")
axes.set(xlabel="balanced accuracy", ylim=(-0.6, None))
axes.spines[["top", "right"]].set_visible(False)
found = {place.method: place.mean for place in places}
plt.show()
