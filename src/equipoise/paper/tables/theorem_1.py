r"""Theorem 1 on two Gaussians: the rarer a class, the smaller its region. Equations 1 to 4 of section 2.

A, the common class, is N(−1, 1) along the first axis and B, the rare one, N(1, 1), so the best boundary for the true
distributions (eq. 1) is x = 0. With shares τ_A and τ_B the expected empirical loss (eq. 3) of the boundary x = t,

.. math:: E[L_D(t)] = \tau_A\,(1 - \Phi(t + 1)) + \tau_B\,\Phi(t - 1),

is smallest at t = ½ log(τ_A/τ_B): the rarer B, the smaller its region x > t, which is Theorem 1.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Array = NDArray[np.float64]
RATIOS = (1, 2, 5, 10, 50, 100)


def expected_loss(boundary: float, ratio: float) -> float:
    """Return eq. 3 for the boundary x = t, with this many samples of A per sample of B."""
    rare = 1 / (1 + ratio)
    return float((1 - rare) * ndtr(-(boundary + 1)) + rare * ndtr(boundary - 1))


def expected_boundary(ratio: float) -> float:
    """Return the boundary that minimises eq. 3."""
    return math.log(ratio) / 2


def empirical_boundary(x: Array, rare: NDArray[np.bool_]) -> float:
    """Return the boundary that minimises eq. 2, the mistakes on the samples: the middle of the first such interval."""
    order = np.argsort(x, kind="stable")
    ordered, is_rare = x[order], rare[order]
    # a boundary behind the first k samples: rare ones before it are wrong, and common ones beyond
    mistakes = np.concatenate([[0], np.cumsum(is_rare)]) + (~is_rare).sum() - np.concatenate([[0], np.cumsum(~is_rare)])
    k = int(np.argmin(mistakes))
    edges = np.concatenate([[ordered[0] - 2.0], ordered, [ordered[-1] + 2.0]])
    return float((edges[k] + edges[k + 1]) / 2)


def draw(ratio: float, samples: int, rng: np.random.Generator) -> tuple[Array, NDArray[np.bool_]]:
    """Draw samples of both classes in two dimensions, with at least two of the rare one."""
    few = max(2, round(samples / (1 + ratio)))
    rare = np.arange(samples) < few
    x = rng.normal(size=(samples, 2))
    x[:, 0] += np.where(rare, 1.0, -1.0)
    return x, rare


def theorem(*, draws: int, samples: int, seed: int) -> list[dict[str, float]]:
    """Measure the rare class's region under the empirical minimiser, a row per ratio.

    ``expected`` minimises eq. 3, where 0 is best for the true distributions; ``median`` is the median over the draws of
    the boundaries that minimise eq. 2; ``smaller`` is the share of draws whose rare region is smaller than the best
    one; ``recall`` is the rare class's at the median boundary, 84 % at the best one.
    """
    rng, found = np.random.default_rng(seed), []
    for ratio in RATIOS:
        drawn = (draw(ratio, samples, rng) for _ in range(draws))
        each = np.array([empirical_boundary(x[:, 0], rare) for x, rare in drawn])
        middle, smaller = float(np.median(each)), float((each > 0).mean())
        row = {"ratio": ratio, "expected": expected_boundary(ratio), "median": middle, "smaller": smaller}
        found.append(row | {"recall": float(ndtr(1 - middle))})
    return found
