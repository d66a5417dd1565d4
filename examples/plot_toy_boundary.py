"""
Where does the boundary go?
===========================

Two Gaussian clouds of unit variance, one fifty times rarer than the other. If both were equally common, the best
boundary would be half-way between them, at the dashed line. An ordinary (softmax) network cuts into the rare cloud.
Equipoise with ``margins="uncertainty"`` moves the boundary back without being told how rare the class is.
"""

import matplotlib.pyplot as plt
import numpy as np

from equipoise import UncertaintyBalancedClassifier

COMMON, RARE, INK = "#4477aa", "#cc6677", "#333333"


def clouds(common: int, rare: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw points (samples, 2) and their labels, 1 for the rare cloud."""
    y = np.repeat([0, 1], [common, rare])
    x = np.random.default_rng(seed).normal(size=(len(y), 2))
    x[:, 0] += np.where(y == 1, 1.25, -1.25)
    return x, y


# %%
# Train both networks on 1,000 common and 20 rare points. The test set is balanced, so recall is easy to compare.

x, y = clouds(common=1000, rare=20, seed=0)
x_test, y_test = clouds(common=2000, rare=2000, seed=1)
models = {
    "softmax": UncertaintyBalancedClassifier("cross_entropy", random_state=0).fit(x, y),
    "Equipoise": UncertaintyBalancedClassifier(margins="uncertainty", random_state=0).fit(x, y),
}
found = {}
for name, model in models.items():
    right = model.predict(x_test) == y_test
    found[name] = right[y_test == 1].mean()
    print(f"{name}: finds {found[name]:.0%} of the rare cloud and {right[y_test == 0].mean():.0%} of the common one")

# %%
# The third panel shows how uncertain each prediction is, measured with dropout: darker is more uncertain.

across, up = np.meshgrid(np.linspace(-4.5, 4.5, 271), np.linspace(-3.5, 3.5, 211))
grid = np.column_stack([across.ravel(), up.ravel()])
figure, panels = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
for axes, (name, model) in zip(panels, models.items(), strict=False):
    answer = model.predict(grid).reshape(across.shape)
    axes.contourf(across, up, answer, levels=[0, 0.5, 1], colors=[COMMON, RARE], alpha=0.15)
    axes.contour(across, up, answer, levels=[0.5], colors=INK, linewidths=2)
    axes.set_title(f"{name}: {found[name]:.0%} of the rare cloud found")
uncertainty = models["Equipoise"].uncertainty(grid).reshape(across.shape)
panels[2].pcolormesh(across, up, uncertainty, cmap="Greens", shading="gouraud")
panels[2].set_title("Where Equipoise is uncertain")
for axes in panels:
    axes.axvline(0, color=INK, linestyle="--", linewidth=1)
    axes.scatter(*x[y == 0].T, s=3, color=COMMON, alpha=0.5, linewidths=0)
    axes.scatter(*x[y == 1].T, s=14, color=RARE, linewidths=0)
    axes.set(aspect="equal", xlim=(-4.5, 4.5), ylim=(-3.5, 3.5), xticks=[], yticks=[])
plt.show()
