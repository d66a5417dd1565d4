"""imbalanced-learn's resamplers, adapted to what a data set allows; each is a function here and a line in METHODS."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from imblearn.over_sampling import ADASYN, SMOTE, RandomOverSampler
from imblearn.under_sampling import (
    ClusterCentroids,
    InstanceHardnessThreshold,
    NearMiss,
    NeighbourhoodCleaningRule,
    RandomUnderSampler,
)
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.cluster import MiniBatchKMeans
from sklearn.ensemble import RandomForestClassifier

from equipoise.app.compare.fit_store import CannotRunError
from equipoise.data.labels import class_indices
from equipoise.models.layers import column_moments

Array = NDArray[Any]
Counts = NDArray[np.intp]
Made = tuple[Any, tuple[str, ...]]
"""A resampler, and notes."""
Maker = Callable[[Counts, int, Mapping[str, Any]], Made]
"""(samples of each class, seed, hyperparameters) -> the resampler, and notes."""
Draw = Callable[[Array, int], Counts]
"""(0/1 labels (samples, attributes), seed) -> the rows to train on."""


class Resampler(BaseEstimator):  # type: ignore[misc]
    """A resampler of imbalanced-learn, with as many neighbours as the rarest class has, on standardised columns.

    Without the standardisation neighbours would be those of the widest column. Rows come back in the shape and type in
    which they were given, images too.

    Args:
        make: one of the functions below.
        draw: chooses the rows if there are several labels per sample; None takes only one.
        random_state: the seed.
        hyperparameters: of the resampler.

    >>> sampler = Resampler(smote, random_state=0)
    >>> x, y = sampler.fit_resample(np.arange(12.0)[:, None], np.repeat(["common", "rare"], [9, 3]))
    >>> x.shape, sampler.notes_
    ((18, 1), ('smote: 2 neighbours instead of 5, as the rarest class has no more.',))
    """

    def __init__(
        self,
        make: Maker,
        *,
        draw: Draw | None = None,
        random_state: int = 0,
        hyperparameters: dict[str, Any] | None = None,
    ) -> None:
        self.make, self.draw, self.random_state, self.hyperparameters = make, draw, random_state, hyperparameters

    def fit_resample(self, X: Any, y: Array) -> tuple[Array, Array]:
        """Return resampled rows to train on, and their labels.

        Raises:
            CannotRunError: if the data do not allow it.
        """
        if np.ndim(y) > 1:
            return self._drawn(np.asarray(X), y)
        classes, codes = class_indices(y)  # not every resampler takes text
        sampler, self.notes_ = self.make(np.bincount(codes), self.random_state, self.hyperparameters or {})
        rows = np.asarray(X)
        flat = rows.reshape(len(rows), -1)
        centre, scale = column_moments(flat)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what a resampler warns of shows in its scores
                found, codes = sampler.fit_resample(((flat - centre) / scale).astype(np.float32), codes)
        except (ValueError, RuntimeError) as error:
            reason = str(error).strip().splitlines()[0].rstrip(".")
            raise CannotRunError(f"{self.make.__name__} cannot run on these data: {reason}.") from error
        back = found * scale + centre
        if rows.dtype.kind == "u":
            back = np.rint(back).clip(0, np.iinfo(rows.dtype).max)
        back = back.astype(rows.dtype if rows.dtype.kind in "uf" else np.float64)
        return back.reshape(len(back), *rows.shape[1:]), classes[codes]

    def _drawn(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Return the rows drawn for several labels."""
        if self.draw is None or self.hyperparameters:
            settings = f" with {', '.join(self.hyperparameters)}" if self.hyperparameters else ""
            raise CannotRunError(f"{self.make.__name__}{settings} takes one label per sample, not several.")
        self.notes_ = ()
        rows = self.draw(y, self.random_state)
        return x[rows], y[rows]


def label_rarity(y: Array) -> NDArray[np.float64]:
    """Return how rare each sample's labels are: the mean over the attributes of 1/share, (samples,).

    An attribute's share is that of the sample's own value, 0 or 1.

    >>> label_rarity(np.array([[1, 0], [0, 0], [0, 1], [0, 1]])).round(2)
    array([3.  , 1.67, 1.67, 1.67])
    """
    positive = y.mean(0)
    return np.asarray((1 / np.where(y == 1, positive, 1 - positive)).mean(1))


def repeat_rows(y: Array, seed: int) -> Counts:
    """Return every row at least once, and in proportion to its :func:`label_rarity`, rounded at random.

    With several labels no repetition balances all of them; this one favours rows with rare ones.
    """
    copies = label_rarity(y)
    copies = copies / copies.min()
    whole = np.floor(copies + np.random.default_rng(seed).random(len(y))).astype(np.intp)
    return np.repeat(np.arange(len(y)), whole)


def thin_rows(y: Array, seed: int) -> Counts:
    """Return no row twice, each kept with a probability in proportion to its :func:`label_rarity`, the rarest's 1."""
    weights = label_rarity(y)
    return np.flatnonzero(np.random.default_rng(seed).random(len(y)) < weights / weights.max())


def _neighbours(name: str, wanted: int, available: int) -> tuple[int, tuple[str, ...]]:
    """Return how many neighbours there can be, and a note if they are fewer than wanted."""
    if available < 1:
        raise CannotRunError(f"{name} needs neighbours within a class, and the rarest class has one sample.")
    if available >= wanted:
        return wanted, ()
    return available, (f"{name}: {available} neighbours instead of {wanted}, as the rarest class has no more.",)


def smote(counts: Counts, seed: int, own: Mapping[str, Any]) -> Made:
    """Build SMOTE."""
    k, notes = _neighbours("smote", own.get("k_neighbors", 5), int(counts.min()) - 1)
    return SMOTE(random_state=seed, k_neighbors=k), notes


def adasyn(counts: Counts, seed: int, own: Mapping[str, Any]) -> Made:
    """Build ADASYN."""
    k, notes = _neighbours("adasyn", own.get("n_neighbors", 5), int(counts.min()) - 1)
    return ADASYN(random_state=seed, n_neighbors=k), notes


def random_over(counts: Counts, seed: int, own: Mapping[str, Any]) -> Made:  # noqa: ARG001
    """Build random over-sampling."""
    return RandomOverSampler(random_state=seed, **own), ()


def random_under(counts: Counts, seed: int, own: Mapping[str, Any]) -> Made:  # noqa: ARG001
    """Build random under-sampling."""
    return RandomUnderSampler(random_state=seed, **own), ()


def near_miss(counts: Counts, seed: int, own: Mapping[str, Any]) -> Made:  # noqa: ARG001
    """Build NearMiss."""
    k, notes = _neighbours("near_miss", own.get("n_neighbors", 3), int(counts.min()))
    return NearMiss(version=own.get("version", 1), n_neighbors=k, n_neighbors_ver3=k), notes


def cluster_centroids(counts: Counts, seed: int, own: Mapping[str, Any]) -> Made:  # noqa: ARG001
    """Build cluster centroids with mini-batch k-means: Lloyd's would take hours at the paper's size."""
    means = MiniBatchKMeans(n_init=1, random_state=seed)
    return ClusterCentroids(random_state=seed, estimator=means, **own), ()


def neighbourhood_cleaning(counts: Counts, seed: int, own: Mapping[str, Any]) -> Made:  # noqa: ARG001
    """Clean every class but the rarest; imbalanced-learn's own ``auto`` spares a single one of several equally rare."""
    common = np.flatnonzero(counts > counts.min()).tolist()
    return NeighbourhoodCleaningRule(sampling_strategy=common or "auto", **own), ()


def instance_hardness(counts: Counts, seed: int, own: Mapping[str, Any]) -> Made:  # noqa: ARG001
    """Build the instance hardness threshold."""
    folds, notes = min(5, int(counts.min())), list[str]()
    if folds < 2:
        raise CannotRunError("instance_hardness cross-validates, and the rarest class has one sample.")
    if folds < 5:
        notes.append(f"instance_hardness: {folds} folds instead of 5, as the rarest class has no more samples.")
    forest = RandomForestClassifier(n_estimators=100, random_state=seed)  # imbalanced-learn's own default
    return InstanceHardnessThreshold(estimator=forest, random_state=seed, cv=folds), tuple(notes)
