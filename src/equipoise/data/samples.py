"""What every reader gives: samples, their labels, and what is known of each, row by row."""

from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InvalidInputError

Part = Literal["train", "val", "test"]


@dataclass(frozen=True)
class Samples:
    """Rows of a table, images in memory, or images on disk, with their labels.

    Args:
        x: a data frame, an array (samples, ...), or :class:`~equipoise.data.images.Images`. Image arrays are uint8,
            (samples, channels, height, width).
        y: labels as they were given, (samples,), or 0 and 1 for several, (samples, attributes).
        attributes: the names of the columns of ``y`` where there are several.
        groups: what must never be divided between training and test, a lesion's or a person's name, (samples,).
        partition: the official part of each sample, ``"train"``, ``"val"`` or ``"test"``, (samples,).
        notes: what a reader skipped, filled in or found odd, a sentence each.

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
    def multilabel(self) -> bool:
        """Whether a sample has several labels."""
        return self.y.ndim == 2

    def take(self, rows: ArrayLike) -> "Samples":
        """The given ``rows``, (n,), in the given order; images on disk stay there."""
        chosen = np.asarray(rows, dtype=np.intp)
        return replace(
            self,
            x=self.x[chosen] if isinstance(self.x, np.ndarray) else self.x.take(chosen),
            y=self.y[chosen],
            groups=None if self.groups is None else self.groups[chosen],
            partition=None if self.partition is None else self.partition[chosen],
        )

    def part(self, name: Part) -> "Samples":
        """The part of that ``name`` of the official partition."""
        if name not in get_args(Part):
            raise InvalidInputError(f"a part is one of {', '.join(get_args(Part))}, got {name!r}.")
        if self.partition is None:
            raise InvalidInputError("these samples have no official partition; use equipoise.data.splits.")
        return self.take(np.flatnonzero(self.partition == name))
