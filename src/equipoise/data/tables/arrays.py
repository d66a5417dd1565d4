"""Arrays with their labels: pairs in memory, and ``.npz`` files. No code in a file is ever run."""

import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from equipoise.data.samples import Part, Samples
from equipoise.data.tables.target_column import labels_of
from equipoise.errors import InvalidInputError, listed
from equipoise.storage.files import DAMAGE
from equipoise.storage.size_limits import open_arrays

PAIRS = (("X", "y"), ("x", "y"), ("features", "labels"), ("images", "labels"), ("data", "target"))
DIVIDED_PAIRS = (("x_{}", "y_{}"), ("X_{}", "y_{}"), ("{}_images", "{}_labels"))


def read_npz(path: Path, *, target: str | None = None) -> Samples:
    """Read the arrays X and y (or x and y, features and labels, images and labels, data and target) of a ``.npz`` file.

    Split arrays, such as x_train, y_train, x_test, y_test, or train_images, train_labels and so on, become the official
    partition: train, val, test. Labels are found by these names; a ``target`` other than the name found is refused.
    """
    damaged = f"{path} is not a .npz file or is damaged; write it with numpy.savez."
    if not zipfile.is_zipfile(path):
        raise InvalidInputError(damaged)
    try:
        with open_arrays(path) as archive:
            pairs = _pairs(set(archive.files))
            if not pairs:
                found = listed(sorted(archive.files)) or "none"
                raise InvalidInputError(f"{path} must hold arrays X and y, got {found}.")
            names = [y for _, y in pairs.values()]
            if target is not None and target not in names:
                raise InvalidInputError(
                    f"{path} has no labels named {target!r}; a .npz file has its labels in {' and '.join(names)}: "
                    "leave target out."
                )
            arrays = {part: (_sound(archive[x]), _sound(archive[y])) for part, (x, y) in pairs.items()}
    except InvalidInputError:
        raise
    except MemoryError:  # a large sound file, or a damaged one that claims to be large
        raise InvalidInputError(f"{path} asks for more memory than there is; give fewer rows or columns.") from None
    except (OSError, *DAMAGE) as error:
        if isinstance(error, ValueError) and "allow_pickle" in str(error):
            raise InvalidInputError(
                f"{path} holds Python objects, which are not read because they can run code; save numbers or strings."
            ) from None
        raise InvalidInputError(damaged) from None
    return from_arrays(*arrays[""], where=str(path)) if "" in arrays else _from_parts(arrays, str(path))


def _sound(values: Any) -> NDArray[Any]:
    """Return an array of numbers or text; anything else comes as bytes, and text may contain invalid characters."""
    if not isinstance(values, np.ndarray) or values.ndim == 0 or values.dtype.kind not in "biufcSUmM":
        raise TypeError("not an array of numbers or text")
    if values.dtype.kind == "U" and values.dtype.itemsize:
        letters = np.ascontiguousarray(values).view(np.dtype(np.uint32).newbyteorder(values.dtype.byteorder))
        if bool(((letters > 0x10FFFF) | ((letters >= 0xD800) & (letters < 0xE000))).any()):
            raise ValueError("its text has invalid characters")
    return values


def _pairs(names: set[str]) -> dict[str, tuple[str, str]]:
    """Return the names of x and y, for the whole (``""``) or for each part."""
    for x, y in PAIRS:
        if {x, y} <= names:
            return {"": (x, y)}
    for x, y in DIVIDED_PAIRS:
        parts = {part: (x.format(part), y.format(part)) for part in get_args(Part)}
        present = {part: pair for part, pair in parts.items() if set(pair) <= names}
        if "train" in present:
            return present
    return {}


def _from_parts(arrays: dict[str, tuple[NDArray[Any], NDArray[Any]]], where: str) -> Samples:
    shapes = {(x.shape[1:], y.shape[1:]) for x, y in arrays.values()}
    if len(shapes) > 1:
        raise InvalidInputError(
            f"{where} has parts of different shapes: {sorted(map(str, shapes))}; give all the same shape."
        )
    for part, (x, y) in arrays.items():
        if len(x) != len(y):
            raise InvalidInputError(f"{where} has {len(x)} samples but {len(y)} labels to {part}.")
    x, y = (np.concatenate(both) for both in zip(*arrays.values(), strict=True))
    if bool(pd.isna(y).any()):
        raise InvalidInputError(f"{where} has samples without a label; leave them out.")
    partition = np.repeat(list(arrays), [len(pair[0]) for pair in arrays.values()])
    return replace(from_arrays(x, y, where=where), partition=partition)


def from_arrays(x: ArrayLike, y: ArrayLike, *, where: str = "x") -> Samples:
    """Return a table (samples, columns), or uint8 images with channels, if any, before or after height and width."""
    values: Any = x if isinstance(x, pd.DataFrame) else np.asarray(x)
    if len(np.shape(values)) < 2 or 0 in np.shape(values):
        raise InvalidInputError(f"{where} must have samples and columns, got an array of shape {np.shape(values)}.")
    labels, notes = np.asarray(y), list[str]()
    if labels.ndim == 0:
        raise InvalidInputError(f"{where} must have a label for each sample, got a single one; give a list of labels.")
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if len(labels) != len(values):
        raise InvalidInputError(
            f"{where} has {len(values)} samples but {len(labels)} labels; give one label per sample."
        )
    if labels.ndim == 1 and bool(pd.isna(labels).any()):
        known = ~pd.isna(labels)
        notes.append(f"{int((~known).sum())} of {len(known)} rows left out: no label.")
        values, labels = values[known], labels[known]
    if values.ndim > 2:
        values = _as_images(values, where, notes)
    if labels.ndim > 2:
        raise InvalidInputError(f"labels must be a list or a 0/1 matrix, got an array of shape {labels.shape}.")
    if labels.ndim == 1:
        found, more = labels_of(pd.Series(labels, name="y"))
        return Samples(values, found, notes=(*notes, *more))
    if not np.isin(labels, (0, 1)).all():
        raise InvalidInputError("a matrix of labels must hold 0 and 1 only; give one label per sample instead.")
    if labels.shape[1] > 1 and (labels.sum(axis=1) == 1).all():
        notes.append(f"every row of the labels has a single 1 in {labels.shape[1]} columns: its place is the class.")
        return Samples(values, labels.argmax(axis=1).astype(np.int64), notes=tuple(notes))
    return Samples(values, labels.astype(np.int64), tuple(map(str, range(labels.shape[1]))), notes=tuple(notes))


def _as_images(values: NDArray[Any], where: str, notes: list[str]) -> NDArray[np.uint8]:
    """Return images with their channels second."""
    if values.dtype != np.uint8 or values.ndim > 4:
        raise InvalidInputError(
            f"{where} has the shape {values.shape} and type {values.dtype}; images must be uint8 with up to 4 axes, "
            "tables have 2."
        )
    if values.ndim == 3:
        return values[:, None]
    if values.shape[1] in (1, 3):
        return values
    if values.shape[3] in (1, 3):
        notes.append("the last axis of the images was read as channels.")
        return np.ascontiguousarray(values.transpose(0, 3, 1, 2))
    raise InvalidInputError(f"{where} has the shape {values.shape}; images have 1 or 3 channels, second or last.")
