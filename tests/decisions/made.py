"""Situations made up for tests of decision rules."""

from typing import Any

import numpy as np

from equipoise.decisions import Evidence, Situation

Array = Any


def two_classes(
    rows: int = 2000, share: float = 0.1, *, seed: int = 0, names: tuple[Any, Any] = ("ok", "fraud")
) -> Situation:
    """Calibrated probabilities of two Gaussian classes, at their true prior."""
    rng = np.random.default_rng(seed)
    y = (rng.random(rows) < share).astype(np.int64)
    x = rng.normal(size=rows) + 1.5 * y
    odds = share / (1 - share) * np.exp(1.5 * x - 1.125)
    p = odds / (1 + odds)
    prior = np.array([1 - share, share])
    return Situation(names, prior, np.array([0.5, 0.5]), Evidence.of(np.stack((1 - p, p), 1), y))


def many_classes(rows: int = 3000, *, seed: int = 0) -> Situation:
    """Three classes, a to c, in a plane."""
    rng = np.random.default_rng(seed)
    prior = np.array([0.8, 0.15, 0.05])
    y = rng.choice(3, rows, p=prior)
    centres = np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 2.0]])
    x = rng.normal(size=(rows, 2)) + centres[y]
    density = np.exp(-((x[:, None] - centres) ** 2).sum(-1) / 2) * prior
    return Situation(("a", "b", "c"), prior, np.full(3, 1 / 3), Evidence.of(density / density.sum(1, keepdims=True), y))


def several_labels(rows: int = 2000, *, seed: int = 0) -> Situation:
    """Two attributes, s and t."""
    one, two = two_classes(rows, 0.1, seed=seed), two_classes(rows, 0.3, seed=seed + 1)
    assert one.evidence is not None
    assert two.evidence is not None
    p = np.stack((one.evidence.probabilities[:, 1], two.evidence.probabilities[:, 1]), 1)
    y = np.stack((one.evidence.labels, two.evidence.labels), 1)
    prior = np.stack((one.prior, two.prior))
    return Situation(("s", "t"), prior, np.full((2, 2), 0.5), Evidence.of(p, y))
