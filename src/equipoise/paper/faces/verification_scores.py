"""Face verification scores: from similarities of pairs to accuracy by folds, ROC and TAR at a FAR."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import auc, roc_curve

from equipoise.errors import InvalidInputError

FARS = (1e-2, 1e-3, 1e-4)
FALSE_ACCEPTS = 10
"""Different pairs that must pass for a false-accept rate to mean anything: 10 / FAR pairs are needed."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Roc:
    """One point per distinct similarity, the strictest threshold first; a pair passes at its threshold or above.

    Args:
        far: share of the different pairs that pass.
        tar: share of the pairs of one person that pass.
        threshold: infinite at the first point, where none passes.
    """

    far: Floats
    tar: Floats
    threshold: Floats

    @property
    def area(self) -> float:
        """Probability that a pair of one person is more similar than a pair of two, ties counting half."""
        return float(auc(self.far, self.tar))


@dataclass(frozen=True)
class VerifiedFold:
    """A fold's accuracy at the threshold that is best on all others.

    Args:
        name: its number.
        pairs: number of pairs.
        threshold: a similarity.
        accuracy: share of correct decisions.
    """

    name: int
    pairs: int
    threshold: float
    accuracy: float


@dataclass(frozen=True)
class Verification:
    """How well similarities separate pairs of one person from pairs of two.

    Args:
        pairs: number of pairs.
        same: number of pairs of one person.
        accuracy: mean over the folds.
        deviation: standard deviation over the folds (n − 1).
        folds: the folds.
        roc: over all pairs.
        tar: share of accepted pairs of one person at each FAR; None if there are too few different pairs.
    """

    pairs: int
    same: int
    accuracy: float
    deviation: float
    folds: tuple[VerifiedFold, ...]
    roc: Roc
    tar: dict[float, float | None]

    @property
    def standard_error(self) -> float:
        """Standard error of the mean over the folds, as in LFW's own tables."""
        return self.deviation / math.sqrt(len(self.folds))

    def as_dict(self) -> dict[str, Any]:
        """Return plain values, without the curve."""
        return {
            "pairs": self.pairs,
            "same": self.same,
            "accuracy": self.accuracy,
            "deviation": self.deviation,
            "standard_error": self.standard_error,
            "auc": self.roc.area,
            "tar_at_far": {f"{far:g}": tar for far, tar in self.tar.items()},
            "folds": [vars(fold) for fold in self.folds],
        }


def verification(
    similarity: ArrayLike, same: ArrayLike, fold: ArrayLike, *, fars: Iterable[float] = FARS
) -> Verification:
    """Score pairs by LFW's protocol: each fold at the threshold that is best on all other folds.

    Args:
        similarity: of each pair, (pairs,), larger is more alike.
        same: whether a pair shows one person, (pairs,).
        fold: fold of each pair, a whole number, (pairs,); at least two folds.
        fars: false-accept rates at which to give the true-accept rate.
    """
    values, truth, folds = _checked(similarity, same, fold)
    scored = tuple(_scored_fold(values, truth, folds == name, int(name)) for name in np.unique(folds))
    accuracies = np.array([each.accuracy for each in scored])
    curve, different = roc(values, truth), int((~truth).sum())
    return Verification(
        pairs=len(values),
        same=int(truth.sum()),
        accuracy=float(accuracies.mean()),
        deviation=float(accuracies.std(ddof=1)),
        folds=scored,
        roc=curve,
        tar={far: tar_at_far(curve, far) if resolves(different, far) else None for far in fars},
    )


def best_threshold(similarity: ArrayLike, same: ArrayLike) -> float:
    """Return the threshold with the most correct decisions, where pairs at or above it count as one person.

    Equal similarities are never separated: thresholds lie halfway between two different ones. Among equally good ones
    it is the one in the widest gap, and among equal gaps the lowest; accepting all pairs, or none, is the last resort.

    Args:
        similarity, same: of each pair, (pairs,), as in :func:`verification`.

    >>> best_threshold([0.1, 0.2, 0.6, 0.8], [False, False, True, True])
    0.4
    """
    values, truth = np.asarray(similarity, dtype=np.float64), np.asarray(same, dtype=bool)
    levels, place = np.unique(values, return_inverse=True)
    positive = np.bincount(place, weights=truth, minlength=len(levels))
    negative = np.bincount(place, weights=~truth, minlength=len(levels))
    # right[k]: the k lowest levels are refused, the others accepted
    right = np.concatenate(([0.0], np.cumsum(negative - positive))) + positive.sum()
    gaps = np.concatenate(([0.0], np.diff(levels), [0.0]))
    best = np.flatnonzero(right == right.max())
    chosen = int(best[np.argmax(gaps[best])])
    if chosen == 0:
        return float(levels[0])
    if chosen == len(levels):
        return float(np.nextafter(levels[-1], np.inf))
    low, high = float(levels[chosen - 1]), float(levels[chosen])
    middle = low + (high - low) / 2
    return middle if low < middle < high else high  # neighbouring floats have none between them


def roc(similarity: ArrayLike, same: ArrayLike) -> Roc:
    """Return the curve over all thresholds, without leaving out points.

    Args:
        similarity, same: of each pair, (pairs,), as in :func:`verification`.

    >>> curve = roc([0.9, 0.8, 0.3, 0.3], [True, False, True, False])
    >>> curve.far.tolist(), curve.tar.tolist(), curve.area
    ([0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 0.5, 1.0], 0.625)
    """
    truth = np.asarray(same, dtype=bool)
    _check_kinds(truth)
    return Roc(*roc_curve(truth, np.asarray(similarity, dtype=np.float64), drop_intermediate=False))


def tar_at_far(curve: Roc, far: float) -> float:
    """Return the largest true-accept rate among thresholds with a false-accept rate of at most ``far``.

    Args:
        curve: of :func:`roc`.
        far: share of the different pairs, from 0 to 1.
    """
    if not 0 <= far <= 1:
        raise InvalidInputError(f"far must be a share of the different pairs, from 0 to 1, got {far}.")
    return float(curve.tar[curve.far <= far].max())


def resolves(different: int, far: float) -> bool:
    """Return whether this many different pairs are enough for that false-accept rate.

    Args:
        different: number of pairs of two people.
        far: the rate, a share.

    >>> resolves(3_000, 1e-2), resolves(3_000, 1e-3)
    (True, False)
    """
    return different * far >= FALSE_ACCEPTS * (1 - 1e-9)


def cosines(first: ArrayLike, second: ArrayLike) -> Floats:
    """Return the cosine of the angle between two features, (pairs,); 0 for an all-zero feature.

    Args:
        first, second: features row by row, (pairs, D).
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.ndim != 2 or a.shape != b.shape:
        raise InvalidInputError(f"features must both be (pairs, D), got the shapes {a.shape} and {b.shape}.")
    found: Floats = (_unit(a) * _unit(b)).sum(1)
    return found.clip(-1, 1)


def averaged(features: ArrayLike, group: ArrayLike, groups: int) -> Floats:
    """Return the mean feature of each group, (groups, D): of a face and its mirror image, or of a video's frames.

    Args:
        features: (rows, D).
        group: group of each row, (rows,), from 0.
        groups: number of groups.
    """
    rows, places = np.asarray(features, dtype=np.float64), np.asarray(group, dtype=np.intp)
    counts = np.bincount(places, minlength=groups)
    if len(counts) > groups or not counts.all():
        raise InvalidInputError(f"each of the {groups} groups must have a feature, got {len(rows)} features for them.")
    sums = np.zeros((groups, rows.shape[1]))
    np.add.at(sums, places, rows)
    return sums / counts[:, None]


def _unit(rows: Floats) -> Floats:
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0)
    scaled = rows / np.where(largest > 0, largest, 1)  # keeps squares of tiny and huge features in range
    length = np.linalg.norm(scaled, axis=1, keepdims=True)
    unit: Floats = scaled / np.where(length > 0, length, 1)
    return unit


def _scored_fold(values: Floats, truth: NDArray[np.bool_], mine: NDArray[np.bool_], name: int) -> VerifiedFold:
    others = truth[~mine]
    if not others.any() or others.all():
        raise InvalidInputError(
            f"fold {name} holds every pair of {'one person' if not others.any() else 'two people'}, so that no "
            "threshold can be chosen without it; spread both kinds of pairs over several folds."
        )
    threshold = best_threshold(values[~mine], others)
    right = (values[mine] >= threshold) == truth[mine]
    return VerifiedFold(name, int(mine.sum()), threshold, float(right.mean()))


def _check_kinds(truth: NDArray[np.bool_]) -> None:
    if not truth.any() or truth.all():
        raise InvalidInputError(
            "there must be pairs of one person and pairs of two, got "
            f"{int(truth.sum()):,} and {int((~truth).sum()):,}; add some of the other kind."
        )


def _checked(
    similarity: ArrayLike, same: ArrayLike, fold: ArrayLike
) -> tuple[Floats, NDArray[np.bool_], NDArray[np.int64]]:
    values, truth, folds = np.asarray(similarity, dtype=np.float64), np.asarray(same), np.asarray(fold)
    if values.ndim != 1 or truth.shape != values.shape or folds.shape != values.shape or len(values) == 0:
        raise InvalidInputError(
            "similarity, same and fold must hold one value for each pair, got the shapes "
            f"{values.shape}, {truth.shape} and {folds.shape}."
        )
    if not np.isfinite(values).all():
        raise InvalidInputError("similarities must be finite, got NaN or infinity; look at the features.")
    if not np.isin(truth, (0, 1)).all():
        raise InvalidInputError("same must hold truth values, or 0 and 1.")
    _check_kinds(truth.astype(bool))
    if len(np.unique(folds)) < 2:
        raise InvalidInputError("there must be at least two folds, so that a threshold can be chosen on the others.")
    return values, truth.astype(bool), folds.astype(np.int64)
