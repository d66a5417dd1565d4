"""imbalanced-learn's resamplers, adapted to what a data set allows."""

import warnings
from collections.abc import Callable, Mapping
from functools import partial
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

from equipoise.app.compare.results import CannotRunError
from equipoise.data.labels import class_indices
from equipoise.models.layers import column_moments

Array = NDArray[Any]
Counts = NDArray[np.intp]
Made = tuple[Any, tuple[str, ...]]
"""A resampler, and notes."""
Maker = Callable[[Counts, int, Mapping[str, Any]], Made]
"""(samples of each class, seed, hyperparameters) -> the resampler, and notes."""


class Resampler(BaseEstimator):  # type: ignore[misc]
    """A resampler of imbalanced-learn, with as many neighbours as the rarest class has, on standardised columns.

    Without the standardisation neighbours would be those of the widest column. Rows come back in the shape and type in
    which they were given, images too.

    Args:
        name: of ``RESAMPLERS``.
        random_state: the seed.
        hyperparameters: of the resampler.

    >>> sampler = Resampler("smote", random_state=0)
    >>> x, y = sampler.fit_resample(np.arange(12.0)[:, None], np.repeat(["common", "rare"], [9, 3]))
    >>> x.shape, sampler.notes_
    ((18, 1), ('smote: 2 neighbours instead of 5, as the rarest class has no more.',))
    """

    def __init__(self, name: str, *, random_state: int = 0, hyperparameters: dict[str, Any] | None = None) -> None:
        self.name, self.random_state, self.hyperparameters = name, random_state, hyperparameters

    def fit_resample(self, X: Any, y: Array) -> tuple[Array, Array]:
        """Return resampled rows to train on, and their labels.

        Raises:
            CannotRunError: if the data do not allow it.
        """
        classes, codes = class_indices(y)  # not every resampler takes text
        sampler, self.notes_ = RESAMPLERS[self.name](np.bincount(codes), self.random_state, self.hyperparameters or {})
        rows = np.asarray(X)
        flat = rows.reshape(len(rows), -1)
        centre, scale = column_moments(flat)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what a resampler warns of shows in its scores
                found, codes = sampler.fit_resample(((flat - centre) / scale).astype(np.float32), codes)
        except (ValueError, RuntimeError) as error:
            reason = str(error).strip().splitlines()[0].rstrip(".")
            raise CannotRunError(f"{self.name} cannot run on these data: {reason}.") from error
        back = found * scale + centre
        if rows.dtype.kind == "u":
            back = np.rint(back).clip(0, np.iinfo(rows.dtype).max)
        back = back.astype(rows.dtype if rows.dtype.kind in "uf" else np.float64)
        return back.reshape(len(back), *rows.shape[1:]), classes[codes]


def _neighbours(name: str, wanted: int, available: int) -> tuple[int, tuple[str, ...]]:
    """Return how many neighbours there can be, and a note if they are fewer than wanted."""
    if available < 1:
        raise CannotRunError(f"{name} needs neighbours within a class, and the rarest class has one sample.")
    if available >= wanted:
        return wanted, ()
    return available, (f"{name}: {available} neighbours instead of {wanted}, as the rarest class has no more.",)


def _over(kind: Any, name: str, argument: str, counts: Counts, seed: int, own: Mapping[str, Any]) -> Made:
    k, notes = _neighbours(name, own.get(argument, 5), int(counts.min()) - 1)
    return kind(random_state=seed, **{argument: k}), notes


def _near_miss(counts: Counts, seed: int, own: Mapping[str, Any]) -> Made:  # noqa: ARG001
    k, notes = _neighbours("near_miss", own.get("n_neighbors", 3), int(counts.min()))
    return NearMiss(version=own.get("version", 1), n_neighbors=k, n_neighbors_ver3=k), notes


def _cluster_centroids(counts: Counts, seed: int, own: Mapping[str, Any]) -> Made:  # noqa: ARG001
    """Build KMeansSMOTE with mini-batch k-means: Lloyd's would take hours at the paper's size."""
    means = MiniBatchKMeans(n_init=1, random_state=seed)
    return ClusterCentroids(random_state=seed, estimator=means, **own), ()


def _cleaning(counts: Counts, seed: int, own: Mapping[str, Any]) -> Made:  # noqa: ARG001
    """Clean every class but the rarest; imbalanced-learn's own ``auto`` spares a single one of several equally rare."""
    common = np.flatnonzero(counts > counts.min()).tolist()
    return NeighbourhoodCleaningRule(sampling_strategy=common or "auto", **own), ()


def _hardness(counts: Counts, seed: int, own: Mapping[str, Any]) -> Made:  # noqa: ARG001
    folds, notes = min(5, int(counts.min())), list[str]()
    if folds < 2:
        raise CannotRunError("instance_hardness cross-validates, and the rarest class has one sample.")
    if folds < 5:
        notes.append(f"instance_hardness: {folds} folds instead of 5, as the rarest class has no more samples.")
    forest = RandomForestClassifier(n_estimators=100, random_state=seed)  # imbalanced-learn's own default
    return InstanceHardnessThreshold(estimator=forest, random_state=seed, cv=folds), tuple(notes)


RESAMPLERS: dict[str, Maker] = {
    "near_miss": _near_miss,
    "smote": partial(_over, SMOTE, "smote", "k_neighbors"),
    "adasyn": partial(_over, ADASYN, "adasyn", "n_neighbors"),
    "cluster_centroids": _cluster_centroids,
    "neighbourhood_cleaning": _cleaning,
    "instance_hardness": _hardness,
    "random_over": lambda counts, seed, own: (RandomOverSampler(random_state=seed, **own), ()),  # noqa: ARG005
    "random_under": lambda counts, seed, own: (RandomUnderSampler(random_state=seed, **own), ()),  # noqa: ARG005
}
"""Resamplers by name; a new one is one function, one line here and one in ``METHODS``."""
