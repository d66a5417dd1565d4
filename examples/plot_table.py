"""
Patients with a rare outcome
============================

The table is scikit-learn's diabetes data: 442 patients, ten measurements, and how far the disease progressed within a
year. We want to find the tenth of patients whose disease progresses fastest; no row is dropped or made up. A model that
answers "not fast" for everybody is 90 % accurate and useless, so we count patients instead.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from equipoise import UncertaintyBalancedClassifier

x, progress = load_diabetes(return_X_y=True, as_frame=True)
fast = (progress > progress.quantile(0.9)).to_numpy()
labels = np.where(fast, "fast", "not fast")

# %%
# Three models, each scored on patients that it has not seen. Short training keeps this example fast; leave ``epochs``
# out for your own data.

models = {
    "softmax network": UncertaintyBalancedClassifier("cross_entropy", epochs=50, random_state=0),
    "random forest,\nbalanced weights": RandomForestClassifier(class_weight="balanced", random_state=0),
    "Equipoise": UncertaintyBalancedClassifier(epochs=50, random_state=0),
}
folds = StratifiedKFold(3, shuffle=True, random_state=0)
says_fast = {name: cross_val_predict(model, x, labels, cv=folds) == "fast" for name, model in models.items()}
found = {name: said[fast].mean() for name, said in says_fast.items()}

# %%
# Finding more cases costs more false alarms. Which trade-off is right depends on what a missed patient costs.

figure, axes = plt.subplots(figsize=(8.5, 3.8), layout="constrained")
FOUND, ALARM, MISSED = "#117733", "#ddcc77", "#cc6677"
for height, said in enumerate(says_fast.values()):
    hits, missed, alarms = (fast & said).sum(), (fast & ~said).sum(), (~fast & said).sum()
    axes.barh(height, [hits, missed], left=[0, hits], color=[FOUND, MISSED])
    axes.barh(height, alarms, left=-alarms, color=ALARM)
    for at, number in ((hits / 2, hits), (hits + missed / 2, missed), (-alarms / 2, alarms)):
        axes.text(at, height, str(number), ha="center", va="center", color="white" if at == hits / 2 else "black")
axes.axvline(0, color="black", linewidth=1)
axes.set_yticks(range(len(models)), list(models))
axes.set_xticks([])
for colour, label in ((ALARM, "false alarms"), (FOUND, "fast cases found"), (MISSED, "fast cases missed")):
    axes.barh(0, 0, color=colour, label=label)
axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.02), ncols=3, frameon=False)
axes.set_title(f"{fast.sum()} of {len(fast)} patients progress fast")
axes.spines[["top", "right", "bottom", "left"]].set_visible(False)
plt.show()
