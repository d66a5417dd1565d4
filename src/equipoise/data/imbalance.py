"""Protocols that make a balanced training set imbalanced: which indices to keep."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.data.labels import label_array
from equipoise.errors import InvalidInputError

Indices = NDArray[np.intp]
ROUNDING = 1e-9  # 0.29 · 100 is 28.999… in floating point but should count as 29


def step(
    y: ArrayLike,
    keep: float = 0.1,
    share: float = 0.5,
    rng: int | np.random.Generator = 0,
    *,
    ratio: float | None = None,
    rare: Collection[object] | None = None,
) -> Indices:
    """Make a ``share`` of the classes rare, as in the paper: they keep only a share ``keep`` of their samples.

    Returns sorted indices into ``y``.

    Args:
        y: labels, (samples,).
        keep: share of the samples that a rare class keeps; at least one stays.
        share: share of the classes that become rare, rounded down.
        rng: a seed or generator, for the classes drawn and the samples dropped.
        ratio: common to rare class size, instead of ``keep``: 10 keeps a tenth.
        rare: names of the rare classes, instead of drawing a ``share`` of them.

    >>> step([0] * 10 + [1] * 10, rare=[1]).tolist()  # one of the ten stays
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 19]
    """
    labels = _labels(y)
    if ratio is not None:
        _check_ratio(ratio)
        keep = 1 / ratio
    if not 0 < keep <= 1 or not 0 <= share <= 1:
        raise InvalidInputError(f"keep must lie in (0, 1] and share in [0, 1], got {keep} and {share}.")
    generator = np.random.default_rng(rng)
    classes = np.unique(labels)
    drawn = generator.choice(classes, size=int(share * len(classes) + ROUNDING), replace=False)
    chosen = set(drawn.tolist() if rare is None else rare)
    unknown = chosen - set(classes.tolist())
    if unknown:
        raise InvalidInputError(f"rare names classes that y does not have: {sorted(map(str, unknown))}.")
    kept = {c: keep if c in chosen else 1.0 for c in classes.tolist()}
    return _keep(labels, kept, generator)


def exponential(
    y: ArrayLike, ratio: float = 100.0, rng: int | np.random.Generator = 0, *, in_order: bool = False
) -> Indices:
    r"""Make a long tail: class k of C, in a random order, keeps part of its samples; return sorted indices into ``y``.

    .. math:: n_k / n_0 = \mathrm{ratio}^{-k/(C - 1)}

    Args:
        y: labels, (samples,).
        ratio: largest over smallest share kept, at least 1.
        rng: a seed or generator, for the order of the classes and the samples dropped.
        in_order: take the classes in their own order, the first the largest, as Cao et al. (2019) do.

    >>> y = np.repeat([0, 1, 2], 100)
    >>> sorted(np.bincount(y[exponential(y, ratio=100)]).tolist())
    [1, 10, 100]
    """
    labels = _labels(y)
    _check_ratio(ratio)
    generator = np.random.default_rng(rng)
    classes = np.unique(labels)
    order = (classes if in_order else generator.permutation(classes)).tolist()
    kept = {c: ratio ** (-position / max(len(order) - 1, 1)) for position, c in enumerate(order)}
    return _keep(labels, kept, generator)


def _check_ratio(ratio: float) -> None:
    if not ratio >= 1:
        raise InvalidInputError(f"ratio must be at least 1, got {ratio}; it is the largest class over the smallest.")


def _labels(y: ArrayLike) -> NDArray[np.generic]:
    labels = label_array(y)
    if labels.ndim != 1:
        raise InvalidInputError(f"y must be a list of labels, one per sample, got an array of shape {labels.shape}.")
    return labels


def _keep(labels: NDArray[np.generic], kept: dict[object, float], generator: np.random.Generator) -> Indices:
    parts = []
    for name, part in kept.items():
        own = np.flatnonzero(labels == name)
        parts.append(generator.choice(own, size=max(1, round(part * len(own))), replace=False))
    return np.sort(np.concatenate(parts))
