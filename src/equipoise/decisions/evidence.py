"""The evidence that rules are chosen on: calibrated probabilities and true labels of rows not trained on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InvalidInputError

MOST_ROWS, MOST_NUMBERS = 50_000, 8_000_000
"""Maximum number of rows and of probabilities stored, to keep saved models small; rare classes are kept whole."""


@dataclass(frozen=True)
class Evidence:
    """Calibrated probabilities and true labels of rows that the model has not been trained on.

    Args:
        probabilities: at the training samples' class prior, (rows, classes); with several labels, of each attribute
            being 1, (rows, attributes).
        labels: class indices, (rows,); with several labels, 0 and 1, (rows, attributes).
        weight: number of rows that each stands for, (rows,).
        answered: if ``probabilities`` come from a single member of a model each, the probabilities from all members, as
            new rows get them; of the same shape. None if there is no difference.
    """

    probabilities: NDArray[np.float32]
    labels: NDArray[np.int64]
    weight: NDArray[np.float64]
    answered: NDArray[np.float32] | None = None

    @classmethod
    def of(
        cls,
        probabilities: ArrayLike,
        labels: ArrayLike,
        weight: ArrayLike | None = None,
        *,
        answered: Callable[[NDArray[np.intp]], ArrayLike] | None = None,
    ) -> Evidence | None:
        """Build evidence from held-out predictions, subsampling very many; return None if no row is left.

        Args:
            probabilities: (rows, classes), (rows, attributes), or (rows, attributes, 2); rows with NaN are left out.
            labels: class indices, (rows,), or 0 and 1, (rows, attributes).
            weight: number of rows that each counts as, (rows,); None counts each once.
            answered: returns, for row indices, (n,), the probabilities that these rows would get as new rows, (n,
                classes) or (n, attributes); None if they are the same.

        >>> Evidence.of([[0.2, 0.8], [np.nan, np.nan]], [1, 0]).labels
        array([1])
        """
        p, y = np.asarray(probabilities, dtype=np.float64), np.asarray(labels, dtype=np.int64)
        p = p[..., 1] if p.ndim == 3 else p
        w = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=np.float64)
        known = np.flatnonzero(np.isfinite(p).all(1) & (w > 0))
        if len(known) == 0:
            return None
        rows, stands_for = _thinned(y[known], min(MOST_ROWS, max(2, MOST_NUMBERS // p.shape[1])))
        kept = known[rows]
        found = None if answered is None else np.asarray(answered(kept), dtype=np.float32)
        found = found[..., 1] if found is not None and found.ndim == 3 else found
        return cls(p[kept].astype(np.float32), y[kept], w[kept] * stands_for, found)

    def take(self, rows: NDArray[np.intp]) -> Evidence:
        """Return only these ``rows``, indices of shape (rows,)."""
        answered = None if self.answered is None else self.answered[rows]
        return Evidence(self.probabilities[rows], self.labels[rows], self.weight[rows], answered)

    def parts(self, count: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Return ``count`` stratified folds as pairs of training and test rows; a single one if rows are too few."""
        if len(self.labels) < 2 * count:
            return [(np.arange(len(self.labels)), np.arange(len(self.labels)))]
        keys = self.labels if self.labels.ndim == 1 else self.labels.sum(1)
        dealt = np.empty(len(keys), dtype=np.intp)
        dealt[np.argsort(keys, kind="stable")] = np.arange(len(keys)) % count
        return [(np.flatnonzero(dealt != part), np.flatnonzero(dealt == part)) for part in range(count)]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to store in a file, by name."""
        found: dict[str, NDArray[Any]] = {
            "probabilities": self.probabilities,
            "labels": self.labels,
            "weight": self.weight,
        }
        return found if self.answered is None else found | {"answered": self.answered}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]], size: int, *, several: bool) -> Evidence:
        """Restore evidence from :meth:`arrays`, which may be untrusted, for ``size`` classes or attributes."""
        p, y, w = (np.asarray(arrays.get(name, ())) for name in ("probabilities", "labels", "weight"))
        rows, answered = len(p), arrays.get("answered")
        fits = y.dtype == np.int64 and w.dtype == np.float64 and rows > 0
        fits = fits and y.shape == ((rows, size) if several else (rows,)) and w.shape == (rows,)
        fits = fits and bool(((y >= 0) & (y < (2 if several else size))).all())
        given = [p] if answered is None else [p, np.asarray(answered)]
        fits = fits and bool((np.isfinite(w) & (w > 0)).all())
        if fits and all(_are_probabilities(each, (rows, size), several=several) for each in given):
            return cls(p, y, w, None if answered is None else given[1])
        raise InvalidInputError(
            "the rows that decisions are chosen on are damaged or of another version; save the model again."
        )


def _are_probabilities(p: NDArray[Any], shape: tuple[int, int], *, several: bool) -> bool:
    if p.dtype != np.float32 or p.shape != shape or not bool(((p >= 0) & (p <= 1)).all()):
        return False
    return several or bool((np.abs(p.sum(1, dtype=np.float64) - 1) < 1e-3).all())


def _thinned(labels: NDArray[np.int64], most: int) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Return at most ``most`` rows, evenly spaced in each class with the same cap, and how many each stands for."""
    if len(labels) <= most:
        return np.arange(len(labels)), np.ones(len(labels))
    groups = labels if labels.ndim == 1 else np.zeros(len(labels), dtype=np.int64)
    counts = np.bincount(groups)
    low, high = 1, int(counts.max())
    while low < high:  # the largest cap that keeps at most this many
        middle = (low + high + 1) // 2
        low, high = (middle, high) if np.minimum(counts, middle).sum() <= most else (low, middle - 1)
    kept, each = [], []
    for own in (np.flatnonzero(groups == group) for group in np.flatnonzero(counts)):
        taken = own[np.linspace(0, len(own) - 1, min(len(own), low)).round().astype(np.intp)]
        kept.append(taken)
        each.append(np.full(len(taken), len(own) / len(taken)))
    order = np.argsort(np.concatenate(kept))
    return np.concatenate(kept)[order], np.concatenate(each)[order]
