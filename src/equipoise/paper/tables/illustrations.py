"""The paper's figures as numbers, pictures and a page: Theorem 1, margins, a widening interval, rarity."""

from collections.abc import Callable
from functools import partial
from io import BytesIO
from typing import Any, TypeVar

import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from equipoise.data.imbalance import exponential
from equipoise.estimators.network import UncertaintyBalancedClassifier
from equipoise.paper.tables.theorem_1 import draw, theorem
from equipoise.wording import EQUIPOISE

Drawn = TypeVar("Drawn")
COMMON, RARE, OURS, INK = "#4477aa", "#cc6677", "#117733", "#333333"


def draw_theorem(axes: Any, rows: list[dict[str, float]]) -> None:
    """Draw the boundary over the imbalance: expected, and of the empirical minimiser."""
    ratios = [row["ratio"] for row in rows]
    axes.plot(ratios, [row["expected"] for row in rows], color=INK, label="½ log(τ_A/τ_B)")
    axes.plot(ratios, [row["median"] for row in rows], "o", color=RARE, label="fewest mistakes on samples")
    axes.axhline(0, color=INK, linestyle=":", label="best for the true distributions")
    axes.set(xscale="log", xlabel="samples of the common class for one of the rare", ylabel="boundary")
    axes.set_xticks(ratios, [str(ratio) for ratio in ratios])
    axes.minorticks_off()
    axes.set_title("Theorem 1: the rarer, the smaller its region")
    axes.legend(fontsize="small")


def draw_boundaries(axes: Any, *, samples: int, seed: int) -> dict[str, float]:
    """Draw the boundaries of cross-entropy and of margins from uncertainty, and the best one.

    Both are trained on the same samples. Returns where each crosses the first axis.
    """
    x, rare = draw(50, samples, np.random.default_rng(seed))
    axes.scatter(*x[~rare].T, s=4, color=COMMON, alpha=0.35, linewidths=0, label="common class")
    axes.scatter(*x[rare].T, s=16, color=RARE, linewidths=0, label="rare class, 1:50")
    axes.axvline(0, color=INK, linestyle=":", label="best for the true distributions")
    grid = np.linspace(-4, 4, 81), np.linspace(-3, 3, 61)
    points = np.stack(np.meshgrid(*grid), axis=-1).reshape(-1, 2)
    crossings = {}
    for name, method, colour, style, label in (
        ("biased", "cross_entropy", RARE, "--", "cross-entropy"),
        ("balanced", "uncertainty_margin", OURS, "-", EQUIPOISE),
    ):
        model = UncertaintyBalancedClassifier(method, margins="uncertainty", random_state=seed).fit(x, rare)
        logits = model.network_(torch.tensor(points, dtype=torch.float32)).detach()  # their sign is the decision
        above = logits.softmax(-1)[:, 1].numpy().astype(np.float64).reshape(61, 81) - 0.5  # 0 at the boundary
        axes.contour(*grid, above, levels=[0.0], colors=colour, linestyles=style, linewidths=2)
        axes.plot([], [], color=colour, linestyle=style, linewidth=2, label=label)
        crossings[name] = float(np.interp(0.0, above[len(grid[1]) // 2], grid[0]))
    axes.set(xlim=(-4, 4), ylim=(-3, 3), aspect="equal", title="Margins move the boundary back")
    axes.legend(loc="lower left", fontsize="small", framealpha=0.9, markerscale=2)
    return crossings


def draw_regression(axes: Any, *, seed: int) -> dict[str, float]:
    """Draw the 95 % interval of a Gaussian process fitted to a sine seen 40 times below 4 and 4 times above.

    Its kernel is chosen by maximum likelihood. Returns its mean deviation where observations are many and where they
    are few.
    """
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.uniform(0, 4, 40), rng.uniform(4, 10, 4)])
    y = np.sin(x) + 0.15 * rng.normal(size=len(x))
    process = GaussianProcessRegressor(RBF(1.0) + WhiteKernel(0.05), n_restarts_optimizer=2, random_state=seed)
    grid = np.linspace(0, 10, 200)
    mean, deviation = process.fit(x[:, None], y).predict(grid[:, None], return_std=True)
    low, high = mean - 1.96 * deviation, mean + 1.96 * deviation
    axes.fill_between(grid, low, high, color=COMMON, alpha=0.2, linewidth=0, label="95 % interval")
    axes.plot(grid, np.sin(grid), color=INK, linestyle=":", label="truth")
    axes.plot(grid, mean, color=COMMON, label="mean")
    axes.plot(x, y, ".", color=RARE, label="observations")
    axes.set(xlabel="x", title="Few observations, a wide interval")
    axes.legend(loc="lower left", fontsize="small")
    return {"many": float(deviation[grid < 4].mean()), "few": float(deviation[grid >= 4].mean())}


def draw_rarity(axes: Any, *, seed: int, epochs: int | None = None) -> dict[str, Any]:
    """Draw class uncertainty after the softmax stage over the number of samples.

    Digits are made rarer from class to class, up to a factor of 20, in an order drawn from the seed. Returns both with
    their correlation.
    """
    x, y = load_digits(return_X_y=True)
    kept = exponential(y, 20, rng=seed)
    model = UncertaintyBalancedClassifier(random_state=seed, epochs=epochs).fit(x[kept], y[kept])
    counts = np.bincount(y[kept], minlength=10)
    known = np.asarray(model.class_uncertainty_, dtype=np.float64)
    axes.plot(counts, known, "o", color=OURS)
    for digit, place in enumerate(zip(counts, known, strict=True)):
        axes.annotate(str(digit), place, xytext=(5, 3), textcoords="offset points", fontsize="small")
    axes.set(xscale="log", yscale="log", xlabel="training samples of the class", ylabel="class uncertainty")
    axes.set_title("Rare classes are uncertain (digits)")
    correlation = float(spearmanr(counts, known).statistic)
    return {"counts": counts.tolist(), "uncertainty": known.tolist(), "rank_correlation": correlation}


def picture(paint: Callable[[Any], Drawn]) -> tuple[Drawn, bytes]:
    """Return what ``paint`` returns for new axes, and its drawing as PNG."""
    figure, axes = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
    try:
        found = paint(axes)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        buffer = BytesIO()
        figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
        return found, buffer.getvalue()
    finally:
        plt.close(figure)


def illustrate(*, seed: int = 0, smoke: bool = False) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the page's numbers as plain values, and its pictures; ``smoke`` uses fewer draws and epochs."""
    draws, samples = (40, 600) if smoke else (1000, 2000)
    rows = theorem(draws=draws, samples=samples, seed=seed)
    figures: dict[str, Any] = {"seed": seed, "draws": draws, "samples": samples, "theorem": rows}
    parts: dict[str, Callable[[Any], Any]] = {
        "boundaries": partial(draw_boundaries, samples=samples, seed=seed),
        "regression": partial(draw_regression, seed=seed),
        "rarity": partial(draw_rarity, seed=seed, epochs=6 if smoke else None),
    }
    pictures = {"theorem": picture(partial(draw_theorem, rows=rows))[1]}
    for name, paint in parts.items():
        figures[name], pictures[name] = picture(paint)
    return figures, pictures


PAGE = """\
# The paper's figures

Why does a classifier miss rare classes, and why does uncertainty help? Repeat the figures with

```text
equipoise reproduce illustration --seed {seed}
```

## A biased and a balanced boundary

![Two Gaussians and three boundaries]({pictures}boundaries.png)

Two Gaussians with means two standard deviations apart, and 50 samples of the common class for each sample of
the rare one. The best boundary for the true distributions is x = 0. On the horizontal axis, the boundary of
cross-entropy lies at {boundaries[biased]:.2f}, that of Equipoise with margins from uncertainty at
{boundaries[balanced]:.2f}.

## Theorem 1

![The boundary over the imbalance]({pictures}theorem.png)

The expected empirical loss is smallest at x = ½ log(τ_A/τ_B), which leaves the rare class only the region
beyond. Where does the boundary with the fewest mistakes lie in {draws:,} draws of {samples:,} samples?

| imbalance | expected boundary | median boundary | rare region too small in | recall of the rare class |
|---|---|---|---|---|
{rows}

At the best boundary, the recall of the rare class is 84 %; at 1:{last[ratio]} it is {last[recall]}.

## An interval that widens

![Gaussian-process regression]({pictures}regression.png)

Gaussian-process regression with a kernel fitted by maximum likelihood: the mean standard deviation is
{regression[many]:.2f} in the half with 40 observations and {regression[few]:.2f} in the half with 4.

## Uncertainty against frequency

![Class uncertainty over class frequency]({pictures}rarity.png)

scikit-learn's digits, with the most frequent class 20 times as common as the rarest: the rank correlation
between class uncertainty and the number of samples is {rarity[rank_correlation]:.2f}.

Seed {seed}. Versions: {versions}.
"""


def illustration_page(figures: dict[str, Any], *, pictures: str) -> str:
    """Return the page from the numbers; ``pictures`` is the folder of the PNG files, relative to the page."""
    row = "| 1:{ratio} | {expected:.2f} | {median:.2f} | {smaller} | {recall} |"
    shares = [{name: f"{100 * each[name]:.0f} %" for name in ("smaller", "recall")} for each in figures["theorem"]]
    theorem = [each | share for each, share in zip(figures["theorem"], shares, strict=True)]
    known = figures | {
        "pictures": pictures,
        "rows": "\n".join(row.format(**each) for each in theorem),
        "last": theorem[-1],
        "versions": ", ".join(f"{name} {version}" for name, version in figures["versions"].items()),
    }
    return PAGE.format(**known)
