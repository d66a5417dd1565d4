"""The samples that every reader returns, with labels and metadata, and the interface of their containers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.data.labels import class_indices
from equipoise.errors import InvalidInputError

Part = Literal["train", "val", "test"]
Progress = Callable[[int, int], None]  # done, all


class SampleRows:
    """The interface of samples beyond their values; this class wraps arrays and data frames, see :func:`rows_of`.

    Samples in files, such as :class:`~equipoise.data.images.Images`, are a subclass with their own answers.
    """

    from_files = False
    """True if the rows are files, read by indexing and checked by their reader."""

    def __init__(self, values: Any) -> None:
        self.values = values

    in_parts = False
    """True if the rows are read in parts and never all in memory."""

    @property
    def on_disk(self) -> bool:
        """True if a row must be read and decoded before use."""
        return False

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any, /) -> Any:
        return self.values[rows]

    @property
    def sample(self) -> tuple[Any, Any]:
        """Rows to learn an encoding from, all of them if they are in memory, and their indices."""
        return self.values, slice(None)

    @property
    def groups_at_once(self) -> int:
        """Number of blocks that are shuffled together."""
        return 1

    def blocks(self) -> NDArray[np.integer[Any]] | None:
        """Return the block of each row, such as a row group of a file, if blocks are read faster; None otherwise."""
        return None

    @property
    def names(self) -> list[str] | None:
        """The files, relative to their root; None if the rows are not files."""
        return None

    @property
    def digests(self) -> NDArray[np.uint8] | None:
        """A hash of each file's content, (rows, 16), when the files were checked."""
        return None

    @property
    def read_as(self) -> dict[str, Any]:
        """Options of :func:`~equipoise.data.open_data` to read other samples in the same way."""
        return {}

    def cached(self, *, progress: Progress | None = None) -> Any:  # noqa: ARG002
        """Return the rows in memory, if they fit."""
        return self.values

    def fingerprint(self) -> str | None:
        """Return a hash that changes with the files; None if the rows are in memory and can be hashed."""
        return None

    def add_to(self, key: hashlib.blake2b) -> None:
        """Add the content to a hash that is the same on every machine."""
        if not column_names(self.values):
            key.update(
                f"{self.values.dtype} {self.values.shape}".encode() + np.ascontiguousarray(self.values).tobytes()
            )
            return
        from pandas.util import hash_pandas_object

        key.update("\0".join(map(str, self.values.columns)).encode())
        key.update(hash_pandas_object(self.values, index=False).to_numpy().tobytes())

    def preview(self, row: int, side: int) -> NDArray[np.uint8] | None:  # noqa: ARG002
        """Return an image's pixels (channels, height, width) at about that side; None if its file is gone."""
        return np.asarray(self.values[row], dtype=np.uint8)


def column_names(x: Any) -> list[str]:
    """Return the names of a table's columns; none for arrays and images."""
    return [str(name) for name in getattr(x, "columns", ())]


def rows_of(x: Any) -> SampleRows:
    """Wrap samples of any kind in their common interface."""
    return x if isinstance(x, SampleRows) else SampleRows(x)


@dataclass(frozen=True)
class Samples:
    """Rows of a table, images in memory, or images on disk, with their labels.

    Args:
        x: a data frame, an array (samples, ...), or :class:`~equipoise.data.images.Images`. Image arrays are uint8,
            (samples, channels, height, width).
        y: labels as they were given, (samples,), or 0 and 1 for several, (samples, attributes).
        attributes: names of the columns of ``y`` if there are several.
        groups: units never divided between training and test, such as a lesion or a person, (samples,).
        partition: the official part of each sample, ``"train"``, ``"val"`` or ``"test"``, (samples,).
        notes: sentences on what a reader skipped, filled in or found odd.

    >>> x, y, parts = np.arange(6.0).reshape(3, 2), np.array(["a", "b", "a"]), np.array(["train", "train", "test"])
    >>> samples = Samples(x, y, partition=parts)
    >>> len(samples), samples.multilabel, samples.take([2, 0]).x.tolist(), samples.part("test").y.tolist()
    (3, False, [[4.0, 5.0], [0.0, 1.0]], ['a'])
    """

    x: Any
    y: NDArray[Any]
    attributes: tuple[str, ...] = ()
    groups: NDArray[Any] | None = None
    partition: NDArray[np.str_] | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("y", "groups", "partition"):
            rows = getattr(self, name)
            if rows is not None and len(rows) != len(self.x):
                raise InvalidInputError(
                    f"{name} must have a row for each of the {len(self.x)} samples, got {len(rows)}."
                )
        if self.y.ndim == 2 and self.y.shape[1] != len(self.attributes):
            raise InvalidInputError(f"y has {self.y.shape[1]} columns and attributes names {len(self.attributes)}.")

    def __len__(self) -> int:
        return len(self.x)

    @property
    def columns(self) -> list[str]:
        """Names of a table's columns; none for arrays and images."""
        return column_names(self.x)

    @property
    def multilabel(self) -> bool:
        """True if a sample has several labels."""
        return self.y.ndim == 2

    @cached_property
    def encoded(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The sorted classes, and the index of each sample's class, (samples,); for several labels, columns and ``y``.

        Labels are encoded once: parts by :meth:`take` share what was found.

        >>> samples = Samples(np.zeros((3, 1)), np.array(["b", "a", "b"]))
        >>> samples.encoded[1].tolist(), samples.take([0, 2]).encoded[0].tolist()
        ([1, 0, 1], ['b'])
        """
        return (np.arange(self.y.shape[1]), self.y) if self.multilabel else class_indices(self.y)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes or attributes, in the order of :attr:`encoded`."""
        return self.attributes if self.multilabel else tuple(self.encoded[0].astype(str).tolist())

    def take(self, rows: ArrayLike) -> Samples:
        """Return the given ``rows``, (n,), in the given order; images on disk stay there."""
        chosen = np.asarray(rows, dtype=np.intp)
        taken = replace(
            self,
            x=self.x.take(chosen, axis=0),
            y=self.y[chosen],
            groups=None if self.groups is None else self.groups[chosen],
            partition=None if self.partition is None else self.partition[chosen],
        )
        if "encoded" in self.__dict__ and not self.multilabel:
            classes, places = self.encoded[0], self.encoded[1][chosen]
            present = np.bincount(places, minlength=len(classes)) > 0
            taken.__dict__["encoded"] = classes[present], (np.cumsum(present) - 1)[places]
        return taken

    def part(self, name: Part) -> Samples:
        """Return the official part of this ``name``."""
        if name not in get_args(Part):
            raise InvalidInputError(f"part must be one of {', '.join(get_args(Part))}, got {name!r}.")
        if self.partition is None:
            raise InvalidInputError("these samples have no official partition; use equipoise.data.splits.")
        return self.take(np.flatnonzero(self.partition == name))

    def checksum(self) -> str:
        """Return a hash of the samples, labels, groups and parts; images on disk count by their files.

        >>> Samples(np.zeros((2, 1)), np.array([0, 1])).checksum()
        '790ffa016154b0c5edeb80d1b093d666'
        """
        found = hashlib.blake2b(digest_size=16)
        rows_of(self.x).add_to(found)
        for part in (self.y, self.groups, self.partition):
            found.update(b"\1" if part is None else "\0".join(map(str, part.ravel().tolist())).encode() + b"\2")
        return found.hexdigest()
