"""Splits into training, validation and test rows: folds, held-out shares and official parts, reproducible."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.data.labels import class_indices, label_array
from equipoise.data.samples import Part, Samples
from equipoise.errors import InvalidInputError, listed, reason
from equipoise.storage.files import write_atomically
from equipoise.storage.records import Count, read_json

Rows = NDArray[np.intp]
SplitFormat = Literal["equipoise split 1"]
REMEDY = "delete it, and split the data again"


class Split:
    """Rows to train, validate and test on; no row is in two parts or occurs twice.

    Args:
        train, val, test: row indices, (n,) each, in any order; a part may be empty.

    >>> Split([0, 2], [], [1]).train.tolist()
    [0, 2]
    """

    def __init__(self, train: ArrayLike, val: ArrayLike, test: ArrayLike) -> None:
        self.train, self.val = _row_numbers("train", train), _row_numbers("val", val)
        self.test = _row_numbers("test", test)
        together = np.concatenate([self.train, self.val, self.test])
        if len(together) == 0 or len(np.unique(together)) != len(together):
            raise InvalidInputError("a split must have rows, and each only once; check its parts.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Split) and self._lists() == other._lists()

    __hash__ = None  # type: ignore[assignment]

    def _lists(self) -> dict[str, list[int]]:
        return {"train": self.train.tolist(), "val": self.val.tolist(), "test": self.test.tolist()}


class _StoredSplit(msgspec.Struct):
    """The stored form of a split."""

    format: SplitFormat
    samples: Count
    train: list[Count]
    val: list[Count]
    test: list[Count]


def save_split(split: Split, path: Path, *, samples: int) -> None:
    """Write a split atomically; a file with another split is left alone.

    Args:
        split: the rows.
        path: of the JSON file.
        samples: total number of samples.
    """
    _check_range(split, samples)
    if path.exists():
        if load_split(path, samples=samples) == split:
            return
        raise InvalidInputError(f"{path} holds another split; delete it or give another name.")
    content = {"format": get_args(SplitFormat)[0], "samples": samples, **split._lists()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(content).encode() + b"\n")
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be written: {reason(error)}.") from error


def load_split(path: Path, *, samples: int) -> Split:
    """Read a split made for this number of samples.

    Args:
        path: of a file by :func:`save_split`.
        samples: total number of samples.
    """
    stored = read_json(path, _StoredSplit, remedy=REMEDY)
    if stored.samples != samples:
        raise InvalidInputError(
            f"{path} is a split of {stored.samples} samples, and there are {samples}; the data have changed."
        )
    try:
        split = Split(stored.train, stored.val, stored.test)
        _check_range(split, samples)
    except InvalidInputError as error:
        raise InvalidInputError(f"{path} is damaged: {error}") from error
    return split


def _row_numbers(name: str, rows: ArrayLike) -> Rows:
    try:
        given = np.asarray(rows)
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(f"{name} must be a list of row numbers.") from error
    if given.ndim != 1 or (given.size and (given.dtype.kind not in "iu" or given.min() < 0)):
        raise InvalidInputError(f"{name} must be a list of row numbers from 0 on, got {given.dtype} {given.shape}.")
    return given.astype(np.intp)


def _check_range(split: Split, samples: int) -> None:
    largest = max(max(rows, default=0) for rows in split._lists().values())
    if largest >= samples:
        raise InvalidInputError(f"row {largest} is in the split, but there are only {samples} samples.")


def stratified_folds(
    y: ArrayLike, folds: int, *, seed: int, groups: ArrayLike | None = None, allow_missing: bool = False
) -> list[tuple[Rows, Rows]]:
    """Return training and test rows, one pair per fold; every row is tested once.

    The test parts differ by at most one sample of a class. Groups are never on both sides; class shares are then kept
    as well as whole groups allow. Several labels per sample, (samples, attributes), are not stratified: their rows or
    groups are shuffled and distributed.

    Args:
        y: labels, (samples,) or (samples, attributes).
        folds: number of folds, from 2 to the number of samples or groups.
        seed: the same seed gives the same folds.
        groups: the group of each sample, a lesion or a person for example, (samples,).
        allow_missing: allow classes with fewer samples or groups than folds; some test parts then lack them.

    >>> y, lesion = np.array([0, 0, 0, 0, 1, 1]), np.array(["a", "a", "b", "b", "c", "d"])
    >>> [np.bincount(y[test]).tolist() for train, test in stratified_folds(y, folds=2, seed=0)]
    [[2, 1], [2, 1]]
    >>> [set(lesion[train]) & set(lesion[test]) for train, test in stratified_folds(y, 2, seed=0, groups=lesion)]
    [set(), set()]
    """
    from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

    labels = label_array(y)
    members = None if groups is None else _groups(groups, len(labels))
    what, available = ("samples", len(labels)) if members is None else ("groups", int(members.max()) + 1)
    _check_folds(folds, available, what)
    shuffled = (KFold if members is None else GroupKFold)(folds, shuffle=True, random_state=seed)
    if labels.ndim == 2:
        return _sorted(shuffled.split(labels, groups=members))
    classes, codes = class_indices(labels)
    if not allow_missing:
        pairs = codes[None] if members is None else np.unique(np.stack([codes, members]), axis=1)
        _check_classes(classes, np.bincount(pairs[0]), folds, what)
    if np.bincount(codes).max() < folds:  # scikit-learn refuses this: no class reaches every fold
        return _sorted(shuffled.split(labels, groups=members))
    if members is None:
        dealt = StratifiedKFold(folds, shuffle=True, random_state=seed).split(codes, codes)
    else:
        order = np.arange(available)
        np.random.RandomState(seed).shuffle(order)  # before 1.8, scikit-learn assigns groups differently
        dealt = StratifiedGroupKFold(folds).split(codes, codes, np.argsort(order)[members])
    return _sorted(dealt, quiet=allow_missing)


def hold_out(
    y: ArrayLike, share: float, *, seed: int = 0, order: ArrayLike | None = None, groups: ArrayLike | None = None
) -> tuple[Rows, Rows]:
    """Return sorted rows to train on, and sorted rows held out for testing.

    Every class with at least three samples gives at least one and keeps two; smaller ones give none. With several
    labels, rows are drawn from all alike. With groups, whole groups are held out, and a group counts for the rarest of
    its classes; the rule above then holds for groups instead of samples, and each class gives the number of groups
    whose samples come nearest to the share. A group is skipped if it would leave another of its classes with fewer than
    two groups: a class is never held out as a whole, and one with fewer than three groups not at all.

    Args:
        y: labels, (samples,) or (samples, attributes).
        share: share of each class to hold out, in [0, 1).
        seed: the same seed holds out the same rows.
        order: all rows in the order of drawing, (samples,), instead of one from the seed.
        groups: the group of each sample, (samples,).

    >>> train, test = hold_out([0] * 10 + [1] * 3 + [2] * 2, 0.2, seed=0)
    >>> len(train), test.tolist()  # two of the first class, one of the second, none of the third
    (12, [2, 3, 11])
    """
    labels = label_array(y)
    if not 0 <= share < 1:
        raise InvalidInputError(f"share must lie in [0, 1), got {share}.")
    generator = np.random.default_rng(seed)
    if share == 0:
        held = np.arange(0)
    elif groups is None:
        drawn = generator.permutation(len(labels)) if order is None else np.asarray(order, dtype=np.intp)
        held = _held_rows(labels, share, drawn)
    else:
        members = _groups(groups, len(labels))
        chosen = _held_groups(labels, members, share, generator.permutation(int(members.max()) + 1))
        held = np.flatnonzero(np.isin(members, chosen))
    kept = np.ones(len(labels), dtype=bool)
    kept[held] = False
    return np.flatnonzero(kept), held


def _held_rows(labels: NDArray[Any], share: float, order: Rows) -> Rows:
    """Return the sorted rows that are held out when drawing in this order."""
    if labels.ndim == 2:
        return np.sort(order[: round(share * len(labels))])
    codes = class_indices(labels)[1][order]
    by_class = order[np.argsort(codes, kind="stable")]  # the rows class by class, in the given order within each
    parts = []
    for own in np.split(by_class, np.cumsum(np.bincount(codes))[:-1]):
        parts.append(own[: _bounded(round(share * len(own)), len(own))])
    return np.sort(np.concatenate(parts))


def official(samples: Samples) -> dict[Part, Rows]:
    """Return the rows of each official part that the samples have.

    Args:
        samples: with a ``partition``.

    >>> samples = Samples(np.zeros((3, 2)), np.zeros(3), partition=np.array(["train", "test", "train"]))
    >>> {part: rows.tolist() for part, rows in official(samples).items()}
    {'train': [0, 2], 'test': [1]}
    """
    if samples.partition is None:
        raise InvalidInputError("these samples have no official partition; use stratified_folds or hold_out.")
    parts: dict[Part, Rows] = {name: np.flatnonzero(samples.partition == name) for name in get_args(Part)}
    if sum(map(len, parts.values())) != len(samples):
        unknown = sorted(set(samples.partition.tolist()) - set(get_args(Part)))
        raise InvalidInputError(
            f"partition must hold {', '.join(get_args(Part))}, got {', '.join(map(repr, unknown))}."
        )
    return {name: rows for name, rows in parts.items() if len(rows)}


def _held_groups(labels: NDArray[Any], members: Rows, share: float, order: Rows) -> Rows:
    sizes = np.bincount(members)
    if labels.ndim == 2:
        return order[: _nearest(sizes[order], share * sizes.sum())]
    codes = class_indices(labels)[1]
    counts = np.bincount(codes)
    rank = np.empty(len(counts), np.intp)
    rank[np.argsort(counts, kind="stable")] = np.arange(len(counts))  # 0 for the rarest class
    pairs = np.unique(np.stack([members, rank[codes]]), axis=1)  # each group with each of its classes once
    classes_of = np.split(pairs[1], np.cumsum(np.bincount(pairs[0]))[:-1])
    rarest = np.array([own[0] for own in classes_of])
    spare = np.bincount(pairs[1]) - 2  # groups that a class can still spare
    held: list[int] = []
    for own in (order[rarest[order] == place] for place in np.unique(rarest)):
        free = [group for group in own.tolist() if (spare[classes_of[group]] > 0).all()]
        wanted = _bounded(_nearest(sizes[free], share * sizes[own].sum()), len(own))
        for group in free:
            if wanted > 0 and (spare[classes_of[group]] > 0).all():
                spare[classes_of[group]] -= 1
                held.append(group)
                wanted -= 1
    return np.array(held, dtype=np.intp)


def _nearest(sizes: Rows, samples: float) -> int:
    """Return how many of the first groups together come nearest to this number of samples."""
    return int(np.argmin(np.abs(np.concatenate([[0], np.cumsum(sizes)]) - samples)))


def _bounded(wanted: int, available: int) -> int:
    return 0 if available < 3 else min(max(1, wanted), available - 2)


def _sorted(pairs: Iterator[tuple[Any, Any]], *, quiet: bool = False) -> list[tuple[Rows, Rows]]:
    import warnings

    with warnings.catch_warnings():
        if quiet:  # the caller allows classes smaller than the number of folds
            warnings.filterwarnings("ignore", message="The least populated class in y", category=UserWarning)
        return [(np.sort(train).astype(np.intp), np.sort(test).astype(np.intp)) for train, test in pairs]


def _groups(groups: ArrayLike, samples: int) -> Rows:
    given = np.asarray(groups)
    if given.shape != (samples,):
        raise InvalidInputError(f"groups must name a group for each of the {samples} samples, got {given.shape}.")
    codes: Rows = np.unique(given, return_inverse=True)[1].astype(np.intp)
    return codes


def _check_folds(folds: int, available: int, what: str) -> None:
    if folds < 2:
        raise InvalidInputError(f"folds must be 2 or more, got {folds}.")
    if folds > available:
        raise InvalidInputError(f"{folds} folds need at least {folds} {what}, got {available}; use fewer folds.")


def _check_classes(classes: NDArray[Any], counts: Rows, folds: int, what: str) -> None:
    short = [
        f"{name!r} ({count})" for name, count in zip(classes.tolist(), counts.tolist(), strict=True) if count < folds
    ]
    if short:
        raise InvalidInputError(
            f"{len(short)} of the classes have fewer {what} than the {folds} folds: "
            f"{listed(short, most=5, quoted=False)}; use fewer folds, merge or drop them, or pass allow_missing=True."
        )
