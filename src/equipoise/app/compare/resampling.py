"""imbalanced-learn's resamplers, fitted to what a data set allows."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.app.compare.network import CannotRunError
from equipoise.models.layers import column_moments

Array = NDArray[Any]
Maker = Callable[[NDArray[np.intp], int, Mapping[str, Any]], tuple[Any, tuple[str, ...]]]
"""(samples of each class, seed, knob) -> the resampler, and notes."""


@dataclass(frozen=True)
class Resampled:
    """Rows to train on instead, their class numbers, and what had to be changed."""

    x: Array
    codes: NDArray[np.intp]
    notes: tuple[str, ...]


def resample(name: str, x: Any, codes: NDArray[np.intp], *, seed: int, knob: Mapping[str, Any]) -> Resampled:
    """The rows after resampling, in the shape and type they came in.

    Columns are standardised for the resampler, or neighbours would be those of the widest column.
    """
    sampler, notes = RESAMPLERS[name](np.bincount(codes), seed, knob)
    rows = x if isinstance(x, np.ndarray) else x[np.arange(len(x))]
    flat = rows.reshape(len(rows), -1)
    centre, scale = column_moments(flat)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a resampler warns of shows in its scores
            found, found_codes = sampler.fit_resample(((flat - centre) / scale).astype(np.float32), codes)
    except (ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise CannotRunError(f"{name} cannot run on these data: {reason}.") from error
    back = found * scale + centre
    if rows.dtype.kind == "u":
        back = np.rint(back).clip(0, np.iinfo(rows.dtype).max)
    back = back.astype(rows.dtype if rows.dtype.kind in "uf" else np.float64)
    return Resampled(back.reshape(len(back), *rows.shape[1:]), np.asarray(found_codes, dtype=np.intp), notes)


def neighbours(name: str, wanted: int, available: int) -> tuple[int, tuple[str, ...]]:
    """How many neighbours there can be, and a note where they are fewer than wanted."""
    if available < 1:
        raise CannotRunError(f"{name} needs neighbours within a class, and the rarest class has one sample.")
    if available >= wanted:
        return wanted, ()
    return available, (f"{name}: {available} neighbours instead of {wanted}, as the rarest class has no more.",)


def _rarest(counts: NDArray[np.intp]) -> int:
    return int(counts[counts > 0].min())


def _smote(counts: NDArray[np.intp], seed: int, knob: Mapping[str, Any]) -> tuple[Any, tuple[str, ...]]:
    from imblearn.over_sampling import SMOTE

    k, notes = neighbours("smote", knob.get("k_neighbors", 5), _rarest(counts) - 1)
    return SMOTE(random_state=seed, k_neighbors=k), notes


def _adasyn(counts: NDArray[np.intp], seed: int, knob: Mapping[str, Any]) -> tuple[Any, tuple[str, ...]]:
    from imblearn.over_sampling import ADASYN

    k, notes = neighbours("adasyn", knob.get("n_neighbors", 5), _rarest(counts) - 1)
    return ADASYN(random_state=seed, n_neighbors=k), notes


def _near_miss(counts: NDArray[np.intp], seed: int, knob: Mapping[str, Any]) -> tuple[Any, tuple[str, ...]]:  # noqa: ARG001
    from imblearn.under_sampling import NearMiss

    k, notes = neighbours("near_miss", knob.get("n_neighbors", 3), _rarest(counts))
    return NearMiss(version=knob.get("version", 1), n_neighbors=k, n_neighbors_ver3=k), notes


def _cluster_centroids(counts: NDArray[np.intp], seed: int, knob: Mapping[str, Any]) -> tuple[Any, tuple[str, ...]]:  # noqa: ARG001
    """With mini-batch k-means: Lloyd's would take hours at the paper's size."""
    from imblearn.under_sampling import ClusterCentroids
    from sklearn.cluster import MiniBatchKMeans

    means = MiniBatchKMeans(n_init=1, random_state=seed)
    return ClusterCentroids(random_state=seed, estimator=means, voting=knob.get("voting", "soft")), ()


def _cleaning(counts: NDArray[np.intp], seed: int, knob: Mapping[str, Any]) -> tuple[Any, tuple[str, ...]]:  # noqa: ARG001
    """Of every class but the rarest; imbalanced-learn's own ``auto`` spares a single one of several equally rare."""
    from imblearn.under_sampling import NeighbourhoodCleaningRule

    common = np.flatnonzero(counts > _rarest(counts)).tolist()
    return NeighbourhoodCleaningRule(sampling_strategy=common or "auto", **knob), ()


def _hardness(counts: NDArray[np.intp], seed: int, knob: Mapping[str, Any]) -> tuple[Any, tuple[str, ...]]:  # noqa: ARG001
    from imblearn.under_sampling import InstanceHardnessThreshold
    from sklearn.ensemble import RandomForestClassifier

    folds, notes = min(5, _rarest(counts)), list[str]()
    if folds < 2:
        raise CannotRunError("instance_hardness cross-validates, and the rarest class has one sample.")
    if folds < 5:
        notes.append(f"instance_hardness: {folds} folds instead of 5, as the rarest class has no more samples.")
    forest = RandomForestClassifier(n_estimators=100, random_state=seed)  # imbalanced-learn's own default
    return InstanceHardnessThreshold(estimator=forest, random_state=seed, cv=folds), tuple(notes)


def _random_over(counts: NDArray[np.intp], seed: int, knob: Mapping[str, Any]) -> tuple[Any, tuple[str, ...]]:  # noqa: ARG001
    from imblearn.over_sampling import RandomOverSampler

    return RandomOverSampler(random_state=seed, **knob), ()


def _random_under(counts: NDArray[np.intp], seed: int, knob: Mapping[str, Any]) -> tuple[Any, tuple[str, ...]]:  # noqa: ARG001
    from imblearn.under_sampling import RandomUnderSampler

    return RandomUnderSampler(random_state=seed, **knob), ()


RESAMPLERS: dict[str, Maker] = {
    "near_miss": _near_miss,
    "smote": _smote,
    "adasyn": _adasyn,
    "cluster_centroids": _cluster_centroids,
    "neighbourhood_cleaning": _cleaning,
    "instance_hardness": _hardness,
    "random_over": _random_over,
    "random_under": _random_under,
}
"""Every resampler by name; a new one is one function and one line here."""
