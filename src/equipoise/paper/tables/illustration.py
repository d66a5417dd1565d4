r"""The paper's figures in numbers: Theorem 1 on two Gaussians, an interval that widens, uncertainty against frequency.

A, the common class, is N(−1, 1) along the first axis and B, the rare one, N(1, 1), so the boundary that is best for the
true distributions (eq. 1) is x = 0. With shares τ_A and τ_B the expected empirical loss (eq. 3) of the boundary x = t,

.. math:: E[L_D(t)] = \tau_A\,(1 - \Phi(t + 1)) + \tau_B\,\Phi(t - 1),

is least at t = ½ log(τ_A/τ_B): the rarer B, the smaller its region x > t, which is Theorem 1.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import ndtr
from sklearn.datasets import load_digits
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel

from equipoise.data.imbalance import exponential
from equipoise.estimators.network import UncertaintyBalancedClassifier

Array = NDArray[np.float64]
RATIOS = (1, 2, 5, 10, 50, 100)


def expected_loss(boundary: float, ratio: float) -> float:
    """Eq. 3 for the boundary x = t, with so many samples of A for one of B."""
    rare = 1 / (1 + ratio)
    return float((1 - rare) * ndtr(-(boundary + 1)) + rare * ndtr(boundary - 1))


def expected_boundary(ratio: float) -> float:
    """Where eq. 3 is least."""
    return math.log(ratio) / 2


def empirical_boundary(x: Array, rare: NDArray[np.bool_]) -> float:
    """Where eq. 2, the number of mistakes on the samples, is least: the middle of the first such interval."""
    order = np.argsort(x, kind="stable")
    ordered, is_rare = x[order], rare[order]
    # a boundary behind the first k samples: their rare ones are wrong, and the common ones beyond
    mistakes = np.concatenate([[0], np.cumsum(is_rare)]) + (~is_rare).sum() - np.concatenate([[0], np.cumsum(~is_rare)])
    k = int(np.argmin(mistakes))
    edges = np.concatenate([[ordered[0] - 2.0], ordered, [ordered[-1] + 2.0]])
    return float((edges[k] + edges[k + 1]) / 2)


def draw(ratio: float, samples: int, rng: np.random.Generator) -> tuple[Array, NDArray[np.bool_]]:
    """Samples of both classes in two dimensions, at least two of the rare one."""
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
    """The rare class's region under the empirical minimiser, ratio by ratio."""
    rng, found = np.random.default_rng(seed), []
    for ratio in RATIOS:
        each = []
        for _ in range(draws):
            x, rare = draw(ratio, samples, rng)
            each.append(empirical_boundary(x[:, 0], rare))
        middle = float(np.median(each))
        smaller = float(np.mean(np.array(each) > 0))
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
        """Where each boundary crosses the first axis."""
        row = len(self.grid[1]) // 2
        return {
            name: float(np.interp(0.0, values[row], self.grid[0]))
            for name, values in (("biased", self.biased), ("balanced", self.balanced))
        }


def boundaries(*, samples: int, seed: int, ratio: float = 50) -> Boundaries:
    """Cross-entropy and the default, trained on the same samples."""
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
        """Mean deviation where observations are many, and where they are few."""
        return {
            "many": float(self.deviation[self.grid < 4].mean()),
            "few": float(self.deviation[self.grid >= 4].mean()),
        }


def regression(*, seed: int) -> Regression:
    """A sine, seen 40 times below 4 and 4 times above; the kernel is chosen by maximum likelihood."""
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
    """Digits made rare by a factor of 20 from class to class, in an order drawn from the seed."""
    from scipy.stats import spearmanr

    x, y = load_digits(return_X_y=True)
    kept = exponential(y, 20, rng=seed)
    model = UncertaintyBalancedClassifier(random_state=seed, epochs=epochs).fit(x[kept], y[kept])
    counts = np.bincount(y[kept], minlength=10)
    known = np.asarray(model.class_uncertainty_, dtype=np.float64)
    return Rarity(counts, known, float(spearmanr(counts, known).statistic))


@dataclass(frozen=True)
class Illustration:
    """All of it."""

    seed: int
    draws: int
    samples: int
    shrinking: list[Shrinking]
    boundaries: Boundaries
    regression: Regression
    rarity: Rarity

    def figures(self) -> dict[str, Any]:
        """The numbers, as plain values."""
        return {
            "seed": self.seed,
            "draws": self.draws,
            "samples": self.samples,
            "theorem": [asdict(each) for each in self.shrinking],
            "boundaries": self.boundaries.along_axis(),
            "regression": self.regression.widths(),
            "rarity": {
                "counts": self.rarity.counts.tolist(),
                "uncertainty": self.rarity.uncertainty.tolist(),
                "rank_correlation": self.rarity.rank_correlation,
            },
        }


def illustrate(*, seed: int = 0, smoke: bool = False) -> Illustration:
    """Work it all out; ``smoke`` with fewer draws and epochs."""
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
