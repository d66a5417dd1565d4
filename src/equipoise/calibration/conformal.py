"""Prediction sets with guaranteed coverage in every class (class-conditional conformal prediction)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.calibration.class_prior import checked_probabilities
from equipoise.calibration.reliability import SMALLEST
from equipoise.errors import InvalidInputError

LEVEL = 0.9
"""Coverage level of the sets that a run stores for its held-out samples and shows in its report."""
MOST_KEPT = 2000
"""Scores kept per class; beyond that, those at evenly spaced ranks, which widens a set by at most 1/2,000."""
MOST_COUNTED = 2**53 // MOST_KEPT
"""Largest number of calibration samples of a class that a file may claim, so that no rank overflows."""
ROUNDING = 1e-9  # 100 · 0.07 is 7.000000000000001 in floating point but should count as 7


@dataclass(frozen=True)
class ClassThresholds:
    """Split conformal prediction, with thresholds calibrated on each class's own samples.

    The score of a class for a sample is s = −ln p. It gives the same sets as 1 − p, but distinguishes probabilities
    near 0 and 1 in single precision. A class is in the set if its score is at most the ⌈(n + 1)·level⌉-th smallest of
    the n scores of its calibration samples. Then at least a share ``level`` of new samples of the class, from the same
    distribution, get a set that contains it; without ties, the excess is at most 1/(n + 1), or 1/2,000 with the spacing
    of ``MOST_KEPT``. This holds on average over draws of the calibration samples, for any model and class prior: no
    class pays for another. If n is too small for the level, the class is in every set.

    Args:
        scores: (classes, kept) or (attributes, 2, kept), ascending, padded with infinity.
        counts: number n of calibration samples, (classes,) or (attributes, 2).

    >>> p = np.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.3, 0.7]])
    >>> fitted = ClassThresholds.fit(p, [0, 0, 0, 1])
    >>> fitted.thresholds(0.75).tolist()  # −ln 0.6 by three samples; one sample is too few
    [0.5108256340026855, inf]
    >>> fitted.never_ruled_out(0.75), fitted.sets([[0.7, 0.3]], 0.75)
    (array([False,  True]), array([[ True,  True]]))
    >>> bool((ClassThresholds.of_arrays(fitted.arrays()).counts == [3, 1]).all())
    True
    """

    scores: NDArray[np.float32]
    counts: NDArray[np.int64]

    @classmethod
    def fit(cls, probabilities: ArrayLike, labels: ArrayLike) -> ClassThresholds:
        """Fit the thresholds on samples that training has not seen.

        Args:
            probabilities: (rows, classes); with attributes, those of a 1, (rows, attributes), or
                (rows, attributes, 2). At a balanced class prior, so that no class is disadvantaged; in float64 if
                available.
            labels: class indices, (rows,); with attributes 0 and 1, (rows, attributes).

        >>> fitted = ClassThresholds.fit([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]], [0, 0, 1])
        >>> fitted.sets([[0.7, 0.3], [0.5, 0.5]], level=0.5)
        array([[ True, False],
               [ True, False]])
        """
        y = np.asarray(labels)
        given = _given(probabilities, y.ndim == 2)
        size = given.shape[-1]
        if y.shape != given.shape[:-1] or y.size == 0 or y.dtype.kind not in "biu":
            raise InvalidInputError(
                f"labels must be whole numbers, one for each of {given.shape[:-1]} answers and at least one, got "
                f"{y.dtype} of shape {y.shape}."
            )
        if int(y.min()) < 0 or int(y.max()) >= size:
            raise InvalidInputError(f"labels must lie between 0 and {size - 1}, got {y.min()} to {y.max()}.")
        own = _scores(np.take_along_axis(given, y[..., None].astype(np.intp), -1)).ravel()
        groups = (y + (size * np.arange(y.shape[1]) if y.ndim == 2 else 0)).ravel()
        shape = given.shape[1:]
        counts = np.bincount(groups, minlength=int(np.prod(shape)))
        parts = np.split(own[np.lexsort((own, groups))], counts.cumsum()[:-1])
        table = np.full((len(counts), min(int(counts.max()), MOST_KEPT)), np.inf, dtype=np.float32)
        for row, part in zip(table, parts, strict=True):
            kept = min(len(part), MOST_KEPT)
            row[:kept] = part[_rank(np.arange(kept), kept, len(part)) - 1] if kept else part
        return cls(table.reshape(*shape, -1), counts.reshape(shape).astype(np.int64))

    def thresholds(self, level: float) -> NDArray[np.float32]:
        """Return the largest score −ln p in a set at ``level``, shaped like ``counts``; infinite means always."""
        if not 0 < level < 1:
            raise InvalidInputError(f"level must lie between 0 and 1, such as 0.9 for 90%, got {level}.")
        n = self.counts
        rank = np.ceil((n + 1) * level - ROUNDING).astype(np.int64).clip(1)
        # The first column whose rank is not below: rank (column + 1)·n/kept, rounded up, as in _rank.
        column = (rank - 1) * np.minimum(n, MOST_KEPT) // np.maximum(n, 1)
        found = np.take_along_axis(self.scores, column.clip(max=self.scores.shape[-1] - 1)[..., None], -1)[..., 0]
        return np.where(rank <= n, found, np.float32(np.inf))

    def never_ruled_out(self, level: float) -> NDArray[np.bool_]:
        """Mark classes with too few calibration samples for ``level``, (classes,); attributes if 0 or 1 has too few."""
        infinite = np.isinf(self.thresholds(level))
        return np.asarray(infinite.any(-1) if infinite.ndim == 2 else infinite)

    def sets(self, probabilities: ArrayLike, level: float, *, predicted: ArrayLike | None = None) -> NDArray[np.bool_]:
        """Return which classes are in each sample's set, (rows, classes) or (rows, attributes, 2).

        A set always contains the predicted class, so it is never empty. By the thresholds alone it could be, most often
        where the model is better than the level. Adding the class only enlarges sets, so coverage is still at least the
        level, and sets still grow with the level.

        Args:
            probabilities: as for :meth:`fit`, at the same class prior.
            level: coverage of each class: the share of its samples whose set should contain it; below 1.
            predicted: predicted class indices, (rows,), or 0 and 1, (rows, attributes); None takes the most probable
                class.
        """
        given = _given(probabilities, self.counts.ndim == 2)
        if given.shape[1:] != self.counts.shape:
            raise InvalidInputError(
                f"probabilities must be of the {self.counts.shape} calibrated classes, got {given.shape[1:]}."
            )
        found = np.asarray(_scores(given) <= self.thresholds(level))
        places = given.argmax(-1) if predicted is None else np.asarray(predicted)
        np.put_along_axis(found, places[..., None], True, -1)
        return found

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to store in a file, by name."""
        return {"conformal_scores": self.scores, "conformal_counts": self.counts}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> ClassThresholds:
        """Restore thresholds from :meth:`arrays`, which may come from an untrusted file."""
        scores, counts = (np.asarray(arrays.get(f"conformal_{name}", ())) for name in ("scores", "counts"))
        fits = scores.ndim in (2, 3) and scores.shape[:-1] == counts.shape and min(scores.shape) > 0
        fits = fits and (scores.ndim == 2 or scores.shape[1] == 2) and scores.dtype == np.float32
        if fits and counts.dtype == np.int64 and bool(((counts >= 0) & (counts <= MOST_COUNTED)).all()):
            kept = np.minimum(counts, MOST_KEPT)
            real = np.arange(scores.shape[-1]) < kept[..., None]
            padded = np.where(real, scores, np.float32(np.inf))
            whole = kept.max() == scores.shape[-1] and bool((scores == padded).all()) and bool((scores >= 0).all())
            if whole and bool(np.isfinite(scores[real]).all()) and bool((scores[..., 1:] >= scores[..., :-1]).all()):
                return cls(scores, counts)
        raise InvalidInputError("the conformal scores of the model are damaged or of another version; train again.")


def unanswered(sets: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mark where more than one class remains possible: (rows,), or per attribute, (rows, attributes).

    >>> unanswered(np.array([[True, False], [True, True]]))
    array([False,  True])
    """
    return np.asarray(sets.sum(-1) > 1)


def unanswered_rows(sets: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Mark samples, (rows,), with more than one possible class in any attribute."""
    left = unanswered(sets)
    return np.asarray(left.any(1) if left.ndim == 2 else left)


def class_coverage(
    sets: NDArray[np.bool_], labels: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return each class's share of samples whose set contains it, and their mean set size; NaN without samples.

    Args:
        sets: (samples, classes), or (samples, attributes, 2), where each attribute's ones count.
        labels: true indices, (samples,), or 0 and 1, (samples, attributes).

    >>> class_coverage(np.array([[True, True], [False, True], [True, False]]), np.array([0, 1, 1]))
    (array([1. , 0.5]), array([2., 1.]))
    """
    size = sets.shape[1]
    own = labels == 1 if labels.ndim == 2 else labels[:, None] == np.arange(size)  # (samples, classes)
    holds, sizes = (sets[..., 1], sets.sum(-1)) if labels.ndim == 2 else (sets, sets.sum(-1, keepdims=True))
    count = np.where(own.any(0), own.sum(0), np.nan)
    return (own & holds).sum(0) / count, (own * sizes).sum(0) / count


def _rank(column: NDArray[np.intp], kept: int, count: int) -> NDArray[np.intp]:
    """Return the rank, from 1, of the score in each column: all, or evenly spaced including the largest."""
    return -(-(column + 1) * count // kept)


def _scores(probabilities: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return −ln p, finite, and rounded for calibration and new samples alike so that ties stay ties."""
    return np.asarray(-np.log(probabilities.clip(SMALLEST, 1)) + 0.0, dtype=np.float32)


def _given(probabilities: ArrayLike, several: bool) -> NDArray[np.float64]:
    """Return checked probabilities, as pairs if only the probability of an attribute's 1 is given."""
    shape = np.shape(probabilities)
    if len(shape) != 2 and not (several and len(shape) == 3 and shape[2] == 2):
        wanted = "(rows, attributes) or (rows, attributes, 2)" if several else "(rows, classes)"
        raise InvalidInputError(f"probabilities must have the shape {wanted}, got {shape}.")
    one = several and len(shape) == 2
    p = checked_probabilities(probabilities, shape, sums_to_one=not one)
    return np.stack((1 - p, p), axis=-1) if one else p
