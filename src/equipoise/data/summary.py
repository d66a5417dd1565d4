"""Summary of a training set: its classes, their sizes, and which are rare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.data.labels import class_indices, label_array
from equipoise.errors import InvalidInputError, listed

Group = Literal["common", "medium", "rare"]
GROUPS: tuple[Group, ...] = ("common", "medium", "rare")
"""Groups of classes by their training samples, see :func:`class_groups`."""
BALANCED_RATIO = 1.5
FEW_SAMPLES, MANY_CLASSES, NAMED_IN_A_NOTE = 5, 1000, 5


def class_groups(counts: ArrayLike) -> tuple[Group, ...]:
    """Return the group of each class by its number of samples: common, medium or rare.

    The range between the smallest and the largest count is divided into three parts of equal ratio: for counts from 10
    to 10,000, those below 100 are rare and those from 1,000 on common. If classes differ by less than a factor of
    1.5, all count as common.

    >>> class_groups([5000, 500, 60])
    ('common', 'medium', 'rare')
    """
    given = np.asarray(counts, dtype=np.float64)
    if given.ndim != 1 or not bool((np.isfinite(given) & (given >= 0)).all()):
        raise InvalidInputError(f"counts must be one number per class, none negative, got {given.tolist()}.")
    if len(given) == 0:
        return ()
    size = np.maximum(given, 1)  # a class without samples counts as rare as one with a single sample
    low, ratio = size.min(), size.max() / size.min()
    if ratio < BALANCED_RATIO:
        return GROUPS[:1] * len(size)
    place = np.log(size / low) / np.log(ratio)  # 0 for the smallest, 1 for the largest
    edge = 1e-9  # a count on a boundary belongs above it, whatever the logarithm's last bit
    return tuple(GROUPS[2 - int(part)] for part in np.floor(3 * place + edge).clip(0, 2))


def rare_classes(counts: ArrayLike) -> NDArray[np.bool_]:
    """Mark the classes that :func:`class_groups` calls rare; for attributes, (attributes, 2), the rare value of each.

    >>> rare_classes([5000, 500, 60]), rare_classes([[90, 10], [50, 50]])
    (array([False, False,  True]), array([[False,  True],
           [False, False]]))
    """
    given = np.asarray(counts, dtype=np.float64)
    if given.ndim == 2:
        return np.stack([rare_classes(pair) for pair in given])
    return np.array([group == "rare" for group in class_groups(given)], dtype=bool)


@dataclass(frozen=True)
class ClassSummary:
    """Counts of the classes, or of the samples that have each attribute.

    ``ratio`` is the largest class over the smallest; with attributes, that of the least balanced one, its more
    frequent value over the other; infinite if one never occurs. ``notes`` warn of possible problems.
    """

    names: tuple[str, ...]
    counts: tuple[int, ...]
    groups: tuple[Group, ...]
    samples: int
    ratio: float
    multilabel: bool
    notes: tuple[str, ...]

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of each class or attribute among all samples."""
        return tuple(count / self.samples for count in self.counts)

    def rows(self) -> list[dict[str, Any]]:
        """Return a table, the largest first: name, count, share, group."""
        rows = [
            {"name": name, "count": count, "share": share, "group": group}
            for name, count, share, group in zip(self.names, self.counts, self.shares, self.groups, strict=True)
        ]
        return sorted(rows, key=lambda row: -row["count"])

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for a file."""
        return {
            "samples": self.samples,
            "classes": len(self.names),
            "multilabel": self.multilabel,
            "ratio": self.ratio if np.isfinite(self.ratio) else None,
            "rows": self.rows(),
            "notes": list(self.notes),
        }


def summarize(y: ArrayLike, *, names: Sequence[str] | None = None) -> ClassSummary:
    """Summarise the classes of a training set, or its attributes.

    Args:
        y: labels, (samples,), or a 0/1 matrix, (samples, attributes).
        names: of the classes in the order of their sorted labels, or of the attributes; None takes the labels.

    >>> summarize(["cat"] * 30 + ["owl"] * 3).rows()[1]
    {'name': 'owl', 'count': 3, 'share': 0.09..., 'group': 'rare'}
    """
    labels = label_array(y)
    if labels.ndim == 2:
        counts = labels.astype(np.int64).sum(0)
        found = [f"attribute {position}" for position in range(labels.shape[1])]
    else:
        classes, codes = class_indices(labels)
        counts = np.bincount(codes)
        found = [str(name) for name in classes.tolist()]
    if names is not None and len(names) != len(found):
        raise InvalidInputError(f"names must hold {len(found)} names, got {len(names)}.")
    called = found if names is None else [str(name) for name in names]
    several = labels.ndim == 2
    return ClassSummary(
        names=tuple(called),
        counts=tuple(counts.tolist()),
        groups=class_groups(counts),
        samples=len(labels),
        ratio=_ratio(counts, len(labels), several),
        multilabel=several,
        notes=tuple(_notes(called, counts, len(labels), several)),
    )


def _ratio(counts: NDArray[Any], samples: int, several: bool) -> float:
    if not several:
        return float(counts.max() / counts.min())
    rarer = np.minimum(counts, samples - counts).min()
    return float((samples - rarer) / rarer) if rarer else float("inf")


def _notes(names: list[str], counts: NDArray[Any], samples: int, several: bool) -> list[str]:
    """Return notes on what a user should know before training, the worst first."""
    notes, what = [], "attribute" if several else "class"
    rarer = np.minimum(counts, samples - counts) if several else counts
    for test, problem in (
        (rarer == 0, "the same value in every sample: nothing to learn"),
        (rarer == 1, "one sample only: it cannot be in both training and test"),
        ((rarer > 1) & (rarer < FEW_SAMPLES), f"fewer than {FEW_SAMPLES} samples: its scores will be rough"),
    ):
        found = [name for name, bad in zip(names, test.tolist(), strict=True) if bad]
        if len(found) == 1:
            notes.append(f"{what} {found[0]!r} has {problem}.")
        elif found:
            plural = "attributes" if several else "classes"
            said = problem.replace("its", "their").replace(": it ", ": they ")
            notes.append(f"{len(found)} {plural} ({listed(found, most=NAMED_IN_A_NOTE, quoted=False)}) have {said}.")
    notes += _alike(names)
    if len(names) >= MANY_CLASSES and not several:
        notes.append(f"{len(names)} classes: check that the target is a class, not a measurement or an identifier.")
    if len(names) == 1 and not several:
        notes.append(f"every sample has the class {names[0]!r}: training needs at least two.")
    return notes


def _alike(names: list[str]) -> list[str]:
    """Return names that differ only in case and spaces, which are probably one class."""
    spellings: dict[str, list[str]] = {}
    for name in names:
        spellings.setdefault(" ".join(name.casefold().split()), []).append(name)
    return [
        f"the names {', '.join(map(repr, same))} differ only in case or spaces; are they one class?"
        for same in spellings.values()
        if len(same) > 1
    ]
