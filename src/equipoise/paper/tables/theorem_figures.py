r"""The paper's figures, in numbers, pictures and a page: Theorem 1 on two Gaussians, an interval that widens, rarity.

A, the common class, is N(−1, 1) along the first axis and B, the rare one, N(1, 1), so the boundary that is best for the
true distributions (eq. 1) is x = 0. With shares τ_A and τ_B the expected empirical loss (eq. 3) of the boundary x = t,

.. math:: E[L_D(t)] = \tau_A\,(1 - \Phi(t + 1)) + \tau_B\,\Phi(t - 1),

is least at t = ½ log(τ_A/τ_B): the rarer B, the smaller its region x > t, which is Theorem 1.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from io import BytesIO
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtr
from scipy.stats import spearmanr
from sklearn.datasets import load_digits
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from equipoise.data.imbalance import exponential
from equipoise.estimators.network import UncertaintyBalancedClassifier
from equipoise.wording import EQUIPOISE

Array = NDArray[np.float64]
RATIOS = (1, 2, 5, 10, 50, 100)
COMMON, RARE, OURS, INK = "#4477aa", "#cc6677", "#117733", "#333333"


def expected_loss(boundary: float, ratio: float) -> float:
    """Return eq. 3 for the boundary x = t, with so many samples of A for one of B."""
    rare = 1 / (1 + ratio)
    return float((1 - rare) * ndtr(-(boundary + 1)) + rare * ndtr(boundary - 1))


def expected_boundary(ratio: float) -> float:
    """Return the boundary at which eq. 3 is least."""
    return math.log(ratio) / 2


def empirical_boundary(x: Array, rare: NDArray[np.bool_]) -> float:
    """Return where eq. 2, the mistakes on the samples, is least: the middle of the first such interval."""
    order = np.argsort(x, kind="stable")
    ordered, is_rare = x[order], rare[order]
    # a boundary behind the first k samples: their rare ones are wrong, and the common ones beyond
    mistakes = np.concatenate([[0], np.cumsum(is_rare)]) + (~is_rare).sum() - np.concatenate([[0], np.cumsum(~is_rare)])
    k = int(np.argmin(mistakes))
    edges = np.concatenate([[ordered[0] - 2.0], ordered, [ordered[-1] + 2.0]])
    return float((edges[k] + edges[k + 1]) / 2)


def draw(ratio: float, samples: int, rng: np.random.Generator) -> tuple[Array, NDArray[np.bool_]]:
    """Draw samples of both classes in two dimensions, at least two of the rare one."""
    few = max(2, round(samples / (1 + ratio)))
    rare = np.arange(samples) < few
    x = rng.normal(size=(samples, 2))
    x[:, 0] += np.where(rare, 1.0, -1.0)
    return x, rare


@dataclass(frozen=True)
class Shrinking:
    """Theorem 1 at one ratio.

    Args:
        expected: boundary that minimises eq. 3; the one that is best for the true distributions is 0.
        median: of the boundaries that minimise eq. 2 over the draws.
        smaller: share of the draws whose rare region is smaller than the best one.
        recall: of the rare class at the median boundary; at the best one it is 84 %.
    """

    ratio: int
    expected: float
    median: float
    smaller: float
    recall: float


def theorem(*, draws: int, samples: int, seed: int) -> list[Shrinking]:
    """Measure the rare class's region under the empirical minimiser, ratio by ratio."""
    rng, found = np.random.default_rng(seed), []
    for ratio in RATIOS:
        drawn = (draw(ratio, samples, rng) for _ in range(draws))
        each = np.array([empirical_boundary(x[:, 0], rare) for x, rare in drawn])
        middle, smaller = float(np.median(each)), float((each > 0).mean())
        found.append(Shrinking(ratio, expected_boundary(ratio), middle, smaller, float(ndtr(1 - middle))))
    return found


@dataclass(frozen=True)
class Boundaries:
    """Two Gaussians at 1:50, and what each classifier says over a grid.

    Args:
        biased, balanced: probability of the rare class, less ½, on the grid; 0 is the boundary.
    """

    x: Array
    rare: NDArray[np.bool_]
    grid: tuple[Array, Array]
    biased: Array
    balanced: Array

    def along_axis(self) -> dict[str, float]:
        """Return where each boundary crosses the first axis."""
        row, said = len(self.grid[1]) // 2, {"biased": self.biased, "balanced": self.balanced}
        return {name: float(np.interp(0.0, values[row], self.grid[0])) for name, values in said.items()}


def boundaries(*, samples: int, seed: int, ratio: float = 50) -> Boundaries:
    """Train cross-entropy and the default on the same samples."""
    x, rare = draw(ratio, samples, np.random.default_rng(seed))
    axes = np.linspace(-4, 4, 81), np.linspace(-3, 3, 61)
    points = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
    said = {}
    for method in ("cross_entropy", "uncertainty_margin"):
        model = UncertaintyBalancedClassifier(method, random_state=seed).fit(x, rare)
        logits = model.network_(torch.tensor(points, dtype=torch.float32)).detach()  # whose sign is the decision
        said[method] = logits.softmax(-1)[:, 1].numpy().astype(np.float64).reshape(61, 81) - 0.5
    return Boundaries(x, rare, axes, said["cross_entropy"], said["uncertainty_margin"])


@dataclass(frozen=True)
class Regression:
    """One-dimensional Gaussian-process regression with many observations on the left and few on the right."""

    x: Array
    y: Array
    grid: Array
    mean: Array
    deviation: Array

    def widths(self) -> dict[str, float]:
        """Return the mean deviation where observations are many, and where they are few."""
        many = self.grid < 4
        return {"many": float(self.deviation[many].mean()), "few": float(self.deviation[~many].mean())}


def regression(*, seed: int) -> Regression:
    """Fit a sine, seen 40 times below 4 and 4 times above; the kernel is chosen by maximum likelihood."""
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.uniform(0, 4, 40), rng.uniform(4, 10, 4)])
    y = np.sin(x) + 0.15 * rng.normal(size=len(x))
    process = GaussianProcessRegressor(RBF(1.0) + WhiteKernel(0.05), n_restarts_optimizer=2, random_state=seed)
    grid = np.linspace(0, 10, 200)
    mean, deviation = process.fit(x[:, None], y).predict(grid[:, None], return_std=True)
    return Regression(x, y, grid, mean, deviation)


@dataclass(frozen=True)
class Rarity:
    """Class uncertainty at the end of the softmax stage over the number of training samples."""

    counts: NDArray[np.int64]
    uncertainty: Array
    rank_correlation: float


def rarity(*, seed: int, epochs: int | None = None) -> Rarity:
    """Train on digits made rare by a factor of 20 from class to class, in an order drawn from the seed."""
    x, y = load_digits(return_X_y=True)
    kept = exponential(y, 20, rng=seed)
    model = UncertaintyBalancedClassifier(random_state=seed, epochs=epochs).fit(x[kept], y[kept])
    counts = np.bincount(y[kept], minlength=10)
    known = np.asarray(model.class_uncertainty_, dtype=np.float64)
    return Rarity(counts, known, float(spearmanr(counts, known).statistic))


@dataclass(frozen=True)
class Illustration:
    """Everything that the page shows."""

    seed: int
    draws: int
    samples: int
    shrinking: list[Shrinking]
    boundaries: Boundaries
    regression: Regression
    rarity: Rarity

    def figures(self) -> dict[str, Any]:
        """Return the numbers, as plain values."""
        return {
            "seed": self.seed,
            "draws": self.draws,
            "samples": self.samples,
            "theorem": [asdict(each) for each in self.shrinking],
            "boundaries": self.boundaries.along_axis(),
            "regression": self.regression.widths(),
            "rarity": {name: np.asarray(value).tolist() for name, value in vars(self.rarity).items()},
        }


def illustrate(*, seed: int = 0, smoke: bool = False) -> Illustration:
    """Compute everything; ``smoke`` with fewer draws and epochs."""
    draws, samples = (40, 600) if smoke else (1000, 2000)
    return Illustration(
        seed,
        draws,
        samples,
        theorem(draws=draws, samples=samples, seed=seed),
        boundaries(samples=samples, seed=seed),
        regression(seed=seed),
        rarity(seed=seed, epochs=6 if smoke else None),
    )


def boundaries_picture(found: Illustration, axes: Any) -> None:
    """Draw both classifiers' boundaries on the samples they learnt from, and the closed-form best one."""
    case = found.boundaries
    axes.scatter(*case.x[~case.rare].T, s=4, color=COMMON, alpha=0.35, linewidths=0, label="common class")
    axes.scatter(*case.x[case.rare].T, s=16, color=RARE, linewidths=0, label="rare class, 1:50")
    axes.axvline(0, color=INK, linestyle=":", label="best for the true distributions")
    for values, colour, style, label in (
        (case.biased, RARE, "--", "cross-entropy"),
        (case.balanced, OURS, "-", EQUIPOISE),
    ):
        axes.contour(*case.grid, values, levels=[0.0], colors=colour, linestyles=style, linewidths=2)
        axes.plot([], [], color=colour, linestyle=style, linewidth=2, label=label)
    axes.set(xlim=(-4, 4), ylim=(-3, 3), aspect="equal", title="The rare class gets its room back")
    axes.legend(loc="lower left", fontsize="small", framealpha=0.9, markerscale=2)


def theorem_picture(found: Illustration, axes: Any) -> None:
    """Draw the boundary over the imbalance: expected, and of the empirical minimiser."""
    ratios = [each.ratio for each in found.shrinking]
    axes.plot(ratios, [each.expected for each in found.shrinking], color=INK, label="½ log(τ_A/τ_B)")
    axes.plot(ratios, [each.median for each in found.shrinking], "o", color=RARE, label="fewest mistakes on samples")
    axes.axhline(0, color=INK, linestyle=":", label="best for the true distributions")
    axes.set(xscale="log", xlabel="samples of the common class for one of the rare", ylabel="boundary")
    axes.set_xticks(ratios, [str(ratio) for ratio in ratios])
    axes.minorticks_off()
    axes.set_title("Theorem 1: the rarer, the smaller its region")
    axes.legend(fontsize="small")


def regression_picture(found: Illustration, axes: Any) -> None:
    """Draw the mean and its 95 % interval."""
    case = found.regression
    low, high = case.mean - 1.96 * case.deviation, case.mean + 1.96 * case.deviation
    axes.fill_between(case.grid, low, high, color=COMMON, alpha=0.2, linewidth=0, label="95 % interval")
    axes.plot(case.grid, np.sin(case.grid), color=INK, linestyle=":", label="truth")
    axes.plot(case.grid, case.mean, color=COMMON, label="mean")
    axes.plot(case.x, case.y, ".", color=RARE, label="observations")
    axes.set(xlabel="x", title="Few observations, a wide interval")
    axes.legend(loc="lower left", fontsize="small")


def rarity_picture(found: Illustration, axes: Any) -> None:
    """Draw one point a class."""
    case = found.rarity
    axes.plot(case.counts, case.uncertainty, "o", color=OURS)
    for digit, (count, value) in enumerate(zip(case.counts, case.uncertainty, strict=True)):
        axes.annotate(str(digit), (count, value), xytext=(5, 3), textcoords="offset points", fontsize="small")
    axes.set(xscale="log", yscale="log", xlabel="training samples of the class", ylabel="class uncertainty")
    axes.set_title("Rare classes are uncertain (digits)")


PICTURES: dict[str, Callable[[Illustration, Any], None]] = {
    "boundaries": boundaries_picture,
    "theorem": theorem_picture,
    "regression": regression_picture,
    "rarity": rarity_picture,
}


def draw_pictures(found: Illustration) -> dict[str, bytes]:
    """Return each picture as PNG."""
    drawn = {}
    for name, paint in PICTURES.items():
        figure, axes = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
        try:
            paint(found, axes)
            for side in ("top", "right"):
                axes.spines[side].set_visible(False)
            buffer = BytesIO()
            figure.savefig(buffer, format="png", dpi=110, metadata={"Software": None})
            drawn[name] = buffer.getvalue()
        finally:
            plt.close(figure)
    return drawn


PAGE = """\
# The paper's figures

Repeat them with

```text
equipoise reproduce illustration --seed {seed}
```

## A biased and a balanced boundary

![Two Gaussians and three boundaries]({pictures}boundaries.png)

Two Gaussians, their means two standard deviations apart, 50 samples of the common class for one of
the rare. The boundary that is best for the true distributions is x = 0. On the horizontal axis the
boundary of cross-entropy lies at {boundaries[biased]:.2f}, that of the default at {boundaries[balanced]:.2f}.

## Theorem 1

![The boundary over the imbalance]({pictures}theorem.png)

The expected empirical loss is least at x = ½ log(τ_A/τ_B), so the rare class keeps the region beyond
that. Over {draws:,} draws of {samples:,} samples, the boundary with the fewest
mistakes:

| imbalance | expected boundary | median boundary | rare region too small in | recall of the rare class |
|---|---|---|---|---|
{rows}

At the best boundary the recall is 84 %; at 1:{last[ratio]} it is {last[recall]}.

## An interval that widens

![Gaussian-process regression]({pictures}regression.png)

Gaussian-process regression, its kernel by maximum likelihood: the mean deviation is {regression[many]:.2f} where 40
observations lie and {regression[few]:.2f} where 4 do.

## Uncertainty against frequency

![Class uncertainty over class frequency]({pictures}rarity.png)

Digits of scikit-learn, the most frequent class 20 times as frequent as the rarest: the rank correlation
of class uncertainty with the number of samples is {rarity[rank_correlation]:.2f}.

Seed {seed}. Versions: {versions}.
"""


def illustration_page(figures: dict[str, Any], *, pictures: str) -> str:
    """Return the page, from the numbers; ``pictures`` is where the PNG files lie, as seen from the page."""
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
