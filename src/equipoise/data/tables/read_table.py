"""Tables and arrays with their labels: CSV, JSON lines, Excel, Parquet and ``.npz`` files, frames, pairs.

No code in a file is ever run.
"""

import zipfile
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from equipoise.data.columns.distinct import Distinct, distinct, is_text, pack, repeats
from equipoise.data.columns.parsing import fits_float32, relabelled, without_blanks
from equipoise.data.columns.pictures import FOLDER
from equipoise.data.samples import Part, Progress, Samples
from equipoise.data.tables.delimited import Layout, check_names, find_layout, read_parts
from equipoise.data.tables.excel import SUFFIXES as EXCEL
from equipoise.data.tables.excel import read_excel
from equipoise.data.tables.json_lines import SUFFIXES as JSON_LINES
from equipoise.data.tables.json_lines import json_parts, read_json_lines
from equipoise.data.tables.parquet import SUFFIXES as PARQUET
from equipoise.data.tables.parquet import parquet_parts, read_parquet
from equipoise.data.tables.target_column import check_columns, choose_target, labels_of, multilabel_of
from equipoise.errors import InvalidInputError, listed
from equipoise.storage.files import DAMAGE
from equipoise.storage.size_limits import open_arrays
from equipoise.storage.unnamed_file import HeldFile

PART_ROWS = 50_000
EXACT_IN_FLOAT32 = 2**24
PAIRS = (("X", "y"), ("x", "y"), ("features", "labels"), ("images", "labels"), ("data", "target"))
WHOLE: dict[str, Callable[[Path], tuple[Any, list[str]]]] = {
    **dict.fromkeys(PARQUET, lambda path: (read_parquet(path), [])),
    **dict.fromkeys(JSON_LINES, lambda path: (read_json_lines(path), [])),
    **dict.fromkeys(EXCEL, read_excel),
}
"""File suffix -> reader that returns a data frame and notes; other files are delimited text."""
DIVIDED_PAIRS = (("x_{}", "y_{}"), ("X_{}", "y_{}"), ("{}_images", "{}_labels"))


def read_table(source: Any, *, target: str | Sequence[str] | None = None, progress: Progress | None = None) -> Samples:
    """Read a table and its labels; rows without a label are left out, and a note says how many.

    Args:
        source: a CSV file with any delimiter (also ``.gz``, ``.bz2``, ``.xz``), JSON lines, an Excel workbook, a
            Parquet or ``.npz`` file, a data frame, or a pair of arrays (x, y).
        target: the label column, or several 0/1 columns as a list or separated by commas. None takes the one column
            named target, label, class or y.
        progress: called with the rows of a text file that were read, and about how many there are.
    """
    if isinstance(source, pd.DataFrame):
        return _with_target(source, target, "the data frame")
    if isinstance(source, tuple | list) and len(source) == 2 and not isinstance(source[0], str):
        if target is not None:
            raise InvalidInputError(
                f"a pair of arrays has its labels in the second one, so target={target!r} has no meaning; leave it out."
            )
        return _from_arrays(*source)
    path = _file(source)
    if path.suffix.lower() == ".npz":
        return read_npz(path, target=target if target is None else str(target))
    samples = _read_file(path, target, progress)
    samples.x.attrs[FOLDER] = str(path.parent)
    return samples


def _read_file(path: Path, target: str | Sequence[str] | None, progress: Progress | None) -> Samples:
    if path.suffix.lower() in WHOLE:
        frame, notes = WHOLE[path.suffix.lower()](path)
        return _noted(_with_target(frame, target, str(path)), notes)
    layout = find_layout(path)
    check_columns(layout.header, str(path))
    chosen = choose_target(layout.header, target, str(path))
    frame = _read_all(layout, text=chosen, progress=progress)
    return _noted(_with_target(frame, chosen, str(path)), layout.notes)


def _noted(samples: Samples, notes: list[str]) -> Samples:
    return replace(samples, notes=(*notes, *samples.notes)) if notes else samples


def iterate_table(source: str | Path | HeldFile, *, rows: int = PART_ROWS, text: Collection[str] = ()) -> Iterator[Any]:
    """Yield data frames of up to ``rows`` rows from a CSV, JSON lines or Parquet file of any size, one part in memory
    at a time. An Excel workbook is read whole.

    Columns in ``text``, such as ``encoder.text_columns``, are read as text: otherwise a part with only numbers would
    become numbers.
    """
    if rows < 1:
        raise InvalidInputError(f"rows must be at least 1, got {rows}.")
    path = _file(source)
    if path.suffix.lower() == ".npz":
        raise InvalidInputError(f"{path} cannot be read in parts; give a CSV or a Parquet file.")
    with closing(_parts(path, rows, text)) as parts:
        for part in parts:
            if isinstance(path, Path):  # standard input has no folder
                part.attrs[FOLDER] = str(path.parent)
            yield part


def _parts(path: Path, rows: int, text: Collection[str]) -> Generator[Any, None, None]:
    if path.suffix.lower() in PARQUET:
        yield from parquet_parts(path, rows=rows)
    elif path.suffix.lower() in JSON_LINES:
        yield from json_parts(path, rows=rows)
    elif path.suffix.lower() in EXCEL:
        frame, _ = read_excel(path)
        yield from (frame[start : start + rows] for start in range(0, max(1, len(frame)), rows))
    else:
        yield from read_parts(find_layout(path), rows=rows, text=text)


def _file(source: object) -> Path:
    if isinstance(source, HeldFile):
        return cast(Path, source)
    if not isinstance(source, str | Path):
        raise InvalidInputError(
            f"a table is a file, a data frame or a pair of arrays, got {type(source).__name__}; see read_table."
        )
    path = Path(source).expanduser()
    if path.is_dir():
        raise InvalidInputError(f"{path} is a folder; give the file of the table.")
    if not path.exists():
        raise InvalidInputError(f"{path} does not exist; check the path.")
    return path


def _read_all(layout: Layout, *, text: Collection[str], progress: Progress | None = None) -> Any:
    """Read all rows column by column, as float32 where a network would not use more; where there are many, columns of
    text that repeats are packed, see :func:`~equipoise.data.columns.distinct.pack`."""
    parts, rows, told = list[dict[str, Any]](), 0, progress or (lambda *_: None)
    packed: set[str] | None = None
    for part in read_parts(layout, rows=PART_ROWS, text=text):
        rows += len(part)
        if packed is None:
            packed = {name for name, column in part.items() if repeats(column)} if len(part) == PART_ROWS else set()
        parts.append({name: _smaller(column, name in packed) for name, column in part.items()})  # frames take longer
        told(rows, max(rows + 1, layout.lines))
    if not parts or packed is None:
        raise InvalidInputError(f"{layout.path} has column names but no rows; add the rows.")
    mixed = [name for name in layout.header if len(parts) > 1 and len({_kind(part[name]) for part in parts} - {""}) > 1]
    if mixed:  # numbers here, words there: keep it all as text
        again = list(read_parts(layout, rows=PART_ROWS, text=mixed, only=mixed))
    columns = {}
    for name in layout.header:
        pieces = [part[name] for part in again] if name in mixed else [part.pop(name) for part in parts]
        columns[name] = _joined([_smaller(piece, name in packed) for piece in pieces] if name in mixed else pieces)
    told(rows, rows)
    return pd.DataFrame(columns, copy=False)


def _smaller(column: Any, packed: bool) -> Any:
    """Return text as its different texts where it repeats, numbers as float32 where that is exact enough."""
    if packed and is_text(column):
        return distinct(column)
    if column.dtype != np.float64:
        return column
    values = column.to_numpy()
    exact = not np.nanmax(np.abs(values), initial=0) >= EXACT_IN_FLOAT32 and fits_float32(values)
    return column.astype(np.float32) if exact else column


def _kind(column: Any) -> str:
    """Return the type of a column: numbers, booleans or text; empty if every value is missing."""
    if isinstance(column, Distinct):
        return "string" if len(column.values) else ""
    if column.isna().all():
        return ""
    return str(pd.api.types.infer_dtype(column, skipna=True)).replace("floating", "integer")


def _joined(pieces: list[Any]) -> Any:
    if any(isinstance(piece, Distinct) for piece in pieces):
        none = next(piece for piece in pieces if isinstance(piece, Distinct)).values.iloc[:0]
        missing = [None if isinstance(piece, Distinct) else np.full(len(piece), -1) for piece in pieces]
        return pack(
            [piece if gone is None else Distinct(none, gone) for piece, gone in zip(pieces, missing, strict=True)]
        )
    if len(pieces) == 1:
        return pieces[0]
    known = next((piece.dtype for piece in pieces if not piece.isna().all()), pieces[0].dtype)
    return pd.concat([piece.astype(known) if piece.isna().all() else piece for piece in pieces], ignore_index=True)


def _with_target(frame: Any, target: str | Sequence[str] | None, where: str) -> Samples:
    """Split the columns, named as text, into x and y."""
    names = [str(name) for name in frame.columns]
    check_names(names, where)
    check_columns(names, where)
    chosen = choose_target(names, target, where)
    if len(frame) == 0:
        raise InvalidInputError(f"{where} has column names but no rows; add the rows.")
    frame = relabelled(frame, names)
    labels = pd.DataFrame({name: without_blanks(frame[name]) for name in chosen})
    known = labels.notna().all(axis=1).to_numpy()
    notes = []
    if not known.all():
        frame, labels = frame[known], labels[known]
        named = f"column {chosen[0]!r}" if len(chosen) == 1 else "columns"
        notes.append(f"{int((~known).sum())} of {len(known)} rows left out: no value in the target {named}.")
    if len(frame) == 0:
        raise InvalidInputError(f"{where} has no value in the target column {chosen[0]!r}; choose another target.")
    if len(chosen) == len(names):
        raise InvalidInputError(f"every column of {where} is a target; leave at least one to learn from.")
    y, more = labels_of(labels[chosen[0]]) if len(chosen) == 1 else multilabel_of(labels)
    x = frame.drop(columns=chosen)
    x.index = pd.RangeIndex(len(x))
    return Samples(x, y, attributes=tuple(chosen) if len(chosen) > 1 else (), notes=(*notes, *more))


def read_npz(path: Path, *, target: str | None = None) -> Samples:
    """Read the arrays X and y (or x and y, features and labels, images and labels, data and target) of a ``.npz`` file.

    Split arrays, such as x_train, y_train, x_test, y_test, or train_images, train_labels and so on, become the official
    partition: train, val, test. Labels are found by these names; a ``target`` other than the name found is refused.
    """
    damaged = f"{path} is no .npz file or is damaged; write it by numpy.savez."
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
    return _from_arrays(*arrays[""], where=str(path)) if "" in arrays else _from_parts(arrays, str(path))


def _sound(values: Any) -> NDArray[Any]:
    """Return an array of numbers or text; anything else comes as bytes, and text may contain invalid characters."""
    if not isinstance(values, np.ndarray) or values.ndim == 0 or values.dtype.kind not in "biufcSUmM":
        raise TypeError("it is not an array of numbers or text")
    if values.dtype.kind == "U" and values.dtype.itemsize:
        letters = np.ascontiguousarray(values).view(np.dtype(np.uint32).newbyteorder(values.dtype.byteorder))
        if bool(((letters > 0x10FFFF) | ((letters >= 0xD800) & (letters < 0xE000))).any()):
            raise ValueError("its text has letters that are none")
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
        raise InvalidInputError(f"{where} has parts of different shapes: {sorted(map(str, shapes))}; make them alike.")
    for part, (x, y) in arrays.items():
        if len(x) != len(y):
            raise InvalidInputError(f"{where} has {len(x)} samples but {len(y)} labels to {part}.")
    x, y = (np.concatenate(both) for both in zip(*arrays.values(), strict=True))
    if bool(pd.isna(y).any()):
        raise InvalidInputError(f"{where} has samples without a label; leave them out.")
    partition = np.repeat(list(arrays), [len(pair[0]) for pair in arrays.values()])
    return replace(_from_arrays(x, y, where=where), partition=partition)


def _from_arrays(x: ArrayLike, y: ArrayLike, *, where: str = "x") -> Samples:
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
        raise InvalidInputError(f"{where} has {len(values)} samples but {len(labels)} labels; they must be as many.")
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
