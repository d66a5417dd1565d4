"""
A long tail of digits
=====================

We thin out scikit-learn's 8 × 8 digits until the rarest digit has about a thirtieth of the samples of the most common
one, and test on an untouched, balanced set. Equipoise finds more of the rare digits and loses some of the others. In a
trial over three seeds, recall of the rare digits was 7 to 15 points higher.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import recall_score
from sklearn.model_selection import train_test_split

from equipoise import UncertaintyBalancedClassifier
from equipoise.data.imbalance import exponential
from equipoise.data.summary import rare_classes

COMMON, RARE, PALE = "#4477aa", "#cc6677", "#bbbbbb"

x, y = load_digits(return_X_y=True)
x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.4, stratify=y, random_state=0)
kept = exponential(y_train, ratio=30, rng=0)
x_train, y_train = x_train[kept], y_train[kept]
counts = np.bincount(y_train)
rare = rare_classes(counts)
print("training samples per digit:", counts)

# %%
# The same network twice, without margins and with margins from its own uncertainty.

softmax = UncertaintyBalancedClassifier("cross_entropy", random_state=0).fit(x_train, y_train)
equipoise = UncertaintyBalancedClassifier(margins="uncertainty", random_state=0).fit(x_train, y_train)
before, after = (recall_score(y_test, model.predict(x_test), average=None) for model in (softmax, equipoise))
found = {"softmax": before[rare].mean(), "Equipoise": after[rare].mean()}
for name, recall in (("softmax", before), ("Equipoise", after)):
    print(f"{name}: finds {recall[rare].mean():.0%} of the rare digits and {recall[~rare].mean():.0%} of the others")

# %%
# On the left is the recall of each digit, the most common first. On the right is the class uncertainty, measured with
# dropout at the end of the softmax stage. Nobody told the network how common each class is.

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), width_ratios=[3, 2], layout="constrained")
order, place = np.argsort(-counts), np.arange(10)
left.bar(place - 0.2, before[order], 0.38, color=PALE, label="softmax")
left.bar(place + 0.2, after[order], 0.38, color=np.where(rare, RARE, COMMON)[order], label="Equipoise")
left.set_xticks(place, [f"{digit}\n{counts[digit]}" for digit in order])
left.set(xlabel="digit, with its training samples below (red: rare)", ylabel="recall", ylim=(0, 1.15))
left.set_title(f"Rare digits found: {found['softmax']:.0%} by softmax, {found['Equipoise']:.0%} by Equipoise")
left.legend(loc="upper right", ncols=2, frameon=False)

right.scatter(counts, equipoise.class_uncertainty_, c=np.where(rare, RARE, COMMON), s=40)
for digit, point in enumerate(zip(counts, equipoise.class_uncertainty_, strict=True)):
    right.annotate(str(digit), point, xytext=(6, 4), textcoords="offset points")
right.set(xscale="log", xlabel="training samples", ylabel="class uncertainty", title="The rarer, the more uncertain")
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
plt.show()
