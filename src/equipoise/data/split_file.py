"""A split on disk: the rows of each part as plain JSON, so that a run can be repeated on the same samples."""

import json
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.errors import InvalidInputError
from equipoise.storage.files import write_atomically
from equipoise.storage.limits import parse_json

Rows = NDArray[np.intp]
FORMAT = "equipoise split 1"


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to train on, to validate on and to test on; none in two parts, and none twice.

    Args:
        train, val, test: row numbers, (n,) each, in any order; a part may be empty.

    >>> Split([0, 2], [], [1]).train.tolist()
    [0, 2]
    """

    train: Rows
    val: Rows
    test: Rows

    def __init__(self, train: ArrayLike, val: ArrayLike, test: ArrayLike) -> None:
        for name, rows in (("train", train), ("val", val), ("test", test)):
            object.__setattr__(self, name, _rows(name, rows))
        together = np.concatenate([self.train, self.val, self.test])
        if len(together) == 0 or len(np.unique(together)) != len(together):
            raise InvalidInputError("a split must have rows, and none of them in two parts or twice; check its parts.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Split) and all(
            np.array_equal(getattr(self, part.name), getattr(other, part.name)) for part in fields(self)
        )

    __hash__ = None  # type: ignore[assignment]


def save_split(split: Split, path: Path, *, samples: int) -> None:
    """Write a split of so many samples; whole or not at all. A file with another split is left alone.

    Args:
        split: the rows.
        path: of the file, JSON.
        samples: how many there are in all.
    """
    _check_range(split, samples)
    if path.exists():
        if load_split(path, samples=samples) == split:
            return
        raise InvalidInputError(f"{path} holds another split; delete it or give another name.")
    parts = {part.name: getattr(split, part.name).tolist() for part in fields(split)}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps({"format": FORMAT, "samples": samples, **parts}).encode() + b"\n")
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be written: {error.strerror or error}.") from error


def load_split(path: Path, *, samples: int) -> Split:
    """Read a split that was made for as many samples.

    Args:
        path: of a file by :func:`save_split`.
        samples: how many there are.
    """
    try:
        content = parse_json(path.read_bytes())
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{path} is not a split: it is no JSON.") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise InvalidInputError(f"{path} is not a split: its format must be {FORMAT!r}.")
    if content.get("samples") != samples:
        raise InvalidInputError(
            f"{path} is a split of {content.get('samples')} samples, and there are {samples}; the data have changed."
        )
    try:
        split = Split(*(_integers(content.get(part.name)) for part in fields(Split)))
        _check_range(split, samples)
    except InvalidInputError as error:
        raise InvalidInputError(f"{path} is damaged: {error}") from error
    return split


def _integers(rows: object) -> list[int]:
    if not isinstance(rows, list) or not all(type(row) is int for row in rows):
        raise InvalidInputError("each of train, val and test must be a list of row numbers.")
    return rows


def _rows(name: str, rows: ArrayLike) -> Rows:
    try:
        given = np.asarray(rows)
    except (ValueError, OverflowError) as error:
        raise InvalidInputError(f"{name} must be a list of row numbers.") from error
    if given.ndim != 1 or (given.size and given.dtype.kind not in "iu") or (given.size and given.min() < 0):
        raise InvalidInputError(f"{name} must be a list of row numbers from 0 on, got {given.dtype} {given.shape}.")
    return given.astype(np.intp)


def _check_range(split: Split, samples: int) -> None:
    largest = max(int(rows.max()) for rows in (split.train, split.val, split.test) if len(rows))
    if largest >= samples:
        raise InvalidInputError(f"row {largest} is in the split, but there are only {samples} samples.")
