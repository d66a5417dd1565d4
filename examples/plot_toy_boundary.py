"""Two clouds, one fifty times rarer: where softmax draws the line, and where equipoise does.

    python examples/plot_toy_boundary.py [FOLDER]          # writes toy_boundary.png there, or here

Both clouds are Gaussians of unit variance, so the best line for a world in which both are equally common is known: the
dashed one, half-way. Softmax leaves the rare cloud less than its half; equipoise gives it back without being told how
rare it is. The third panel shows how uncertain a prediction is at each place of the map, by dropout.
"""

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from equipoise import UncertaintyBalancedClassifier

COMMON, RARE, INK = "#4477aa", "#cc6677", "#333333"
CENTRE = 1.25
"""How far each cloud's centre lies to the left or to the right of the best line."""


def clouds(common: int, rare: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (samples, 2) and whether each is of the rare cloud."""
    y = np.repeat([0, 1], [common, rare])
    x = np.random.default_rng(seed).normal(size=(len(y), 2))
    x[:, 0] += np.where(y == 1, CENTRE, -CENTRE)
    return x, y


def draw(axes, title: str, map_of, x: np.ndarray, y: np.ndarray, *, boundary: bool) -> None:
    """What ``map_of`` says of each place, as shades, with the line between two answers; and the training points."""
    across, up = np.meshgrid(np.linspace(-4.5, 4.5, 271), np.linspace(-3.5, 3.5, 211))
    level = map_of(np.column_stack([across.ravel(), up.ravel()])).reshape(across.shape)
    if boundary:
        axes.contourf(across, up, level, levels=[0, 0.5, 1], colors=[COMMON, RARE], alpha=0.15)
        axes.contour(across, up, level, levels=[0.5], colors=INK, linewidths=2)
    else:
        axes.pcolormesh(across, up, level, cmap="Greens", shading="gouraud")
    axes.axvline(0, color=INK, linestyle="--", linewidth=1)
    axes.scatter(*x[y == 0].T, s=3, color=COMMON, alpha=0.5, linewidths=0)
    axes.scatter(*x[y == 1].T, s=14, color=RARE, linewidths=0)
    axes.set(title=title, aspect="equal", xlim=(-4.5, 4.5), ylim=(-3.5, 3.5), xticks=[], yticks=[])


def main(folder: Path) -> dict[str, float]:
    """Draw the picture; the recall of the rare cloud by each method is returned."""
    x, y = clouds(common=1000, rare=20, seed=0)
    x_test, y_test = clouds(common=2000, rare=2000, seed=1)
    figure = Figure(figsize=(12, 4), layout="constrained")
    panels = figure.subplots(1, 3)
    recall = {}
    for axes, name, method in zip(
        panels, ("softmax", "Equipoise"), ("cross_entropy", "uncertainty_margin"), strict=False
    ):
        model = UncertaintyBalancedClassifier(method, random_state=0).fit(x, y)
        right = model.predict(x_test) == y_test
        recall[name] = float(right[y_test == 1].mean())
        title = (
            f"{name}: {recall[name]:.0%} of the rare cloud found,\n{right[y_test == 0].mean():.0%} of the common one"
        )
        draw(axes, title, model.predict, x, y, boundary=True)
    draw(panels[2], "Where Equipoise is uncertain:\ndarker is more", model.uncertainty, x, y, boundary=False)
    figure.suptitle(
        f"{(y == 0).sum():,} blue points, {(y == 1).sum()} red ones; dashed: the best line where both are common"
    )
    figure.savefig(folder / "toy_boundary.png", dpi=110)
    return recall


if __name__ == "__main__":
    print(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
