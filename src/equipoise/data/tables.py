"""Tables: CSV, Parquet, ``.npz``, data frames and arrays, with the column that is to be learnt."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from equipoise.data.arrays import read_arrays, read_npz
from equipoise.data.delimited import Layout, check_names, find_layout, read_parts
from equipoise.data.parquet import SUFFIXES as PARQUET
from equipoise.data.parquet import parquet_parts, read_parquet
from equipoise.data.parsing import fits_float32, relabelled, without_blanks
from equipoise.data.samples import Samples
from equipoise.data.target_column import check_columns, choose_target, labels_of, multilabel_of
from equipoise.errors import InvalidInputError
from equipoise.storage.unnamed import HeldFile

PART_ROWS = 50_000
EXACT_IN_FLOAT32 = 2**24


def read_table(source: Any, *, target: str | Sequence[str] | None = None) -> Samples:
    """A table and its labels. Rows without a label are left out, and the notes say how many.

    Args:
        source: a CSV file with any delimiter (also ``.gz``, ``.bz2``, ``.xz``), a Parquet or ``.npz`` file, a data
            frame, or a pair of arrays (x, y).
        target: the column of the labels, or several columns of 0 and 1 as a list or with commas between them. None
            takes the one column named target, label, class or y.

    >>> samples = read_table(pd.DataFrame({"age": [31, 54, 40], "sick": ["no", "yes", None]}), target="sick")
    >>> samples.y.tolist(), list(samples.x), samples.notes
    (['no', 'yes'], ['age'], ("1 of 3 rows left out: no value in the target column 'sick'.",))
    """
    if isinstance(source, pd.DataFrame):
        return _with_target(source, target, "the data frame")
    if isinstance(source, tuple | list) and len(source) == 2 and not isinstance(source[0], str):
        if target is not None:
            raise InvalidInputError(
                f"a pair of arrays has its labels in the second one, so target={target!r} has no meaning; leave it out."
            )
        return read_arrays(*source)
    path = _file(source)
    if path.suffix.lower() == ".npz":
        return read_npz(path, target=target if target is None else str(target))
    if path.suffix.lower() in PARQUET:
        return _with_target(read_parquet(path), target, str(path))
    layout = find_layout(path)
    check_columns(layout.header, str(path))
    chosen = choose_target(layout.header, target, str(path))
    return _with_target(_read_all(layout, text=chosen), chosen, str(path))


def iterate_table(source: str | Path | HeldFile, *, rows: int = PART_ROWS, text: Collection[str] = ()) -> Iterator[Any]:
    """Data frames of up to ``rows`` rows from a CSV or Parquet file of any size; only one part is in memory.

    Args:
        source: the file.
        rows: rows a part.
        text: columns to read as they stand there, for a part with numbers only would be taken for numbers:
            ``encoder.text_columns``.
    """
    if rows < 1:
        raise InvalidInputError(f"rows must be at least 1, got {rows}.")
    path = _file(source)
    if path.suffix.lower() == ".npz":
        raise InvalidInputError(f"{path} cannot be read in parts; give a CSV or a Parquet file.")
    if path.suffix.lower() not in PARQUET:
        yield from read_parts(find_layout(path), rows=rows, text=text)
        return
    yield from parquet_parts(path, rows=rows)


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


def _read_all(layout: Layout, *, text: Collection[str]) -> Any:
    """Every row, column by column: floats take half the room where a network would not use the rest."""
    parts, rows = [], 0
    for part in read_parts(layout, rows=PART_ROWS, text=text):
        rows += len(part)
        parts.append({name: _smaller(column) for name, column in part.items()})  # to take a frame apart is quadratic
    if not rows:
        raise InvalidInputError(f"{layout.path} has column names but no rows; add the rows.")
    mixed = [name for name in layout.header if len(parts) > 1 and len({_kind(part[name]) for part in parts} - {""}) > 1]
    if mixed:  # numbers here and words there: all of it as it stands in the file
        again = list(read_parts(layout, rows=PART_ROWS, text=mixed, only=mixed))
    columns = {}
    for name in layout.header:
        pieces = [part[name] for part in again] if name in mixed else [part.pop(name) for part in parts]
        columns[name] = pieces[0] if len(pieces) == 1 else _joined(pieces)
    return pd.DataFrame(columns, copy=False)


def _smaller(column: Any) -> Any:
    if column.dtype != np.float64:
        return column
    values = column.to_numpy()
    exact = not np.nanmax(np.abs(values), initial=0) >= EXACT_IN_FLOAT32 and fits_float32(values)
    return column.astype(np.float32) if exact else column


def _kind(column: Any) -> str:
    """Numbers, booleans or text; nothing where every value is missing."""
    if column.isna().all():
        return ""
    return str(pd.api.types.infer_dtype(column, skipna=True)).replace("floating", "integer")


def _joined(pieces: list[Any]) -> Any:
    known = next((piece.dtype for piece in pieces if not piece.isna().all()), pieces[0].dtype)
    return pd.concat([piece.astype(known) if piece.isna().all() else piece for piece in pieces], ignore_index=True)


def _with_target(frame: Any, target: str | Sequence[str] | None, where: str) -> Samples:
    """The columns named as text, divided into x and y."""
    names = [str(name) for name in frame.columns]
    check_names(names, where)
    check_columns(names, where)
    chosen = choose_target(names, target, where)
    if len(frame) == 0:
        raise InvalidInputError(f"{where} has column names but no rows; add the rows.")
    frame = relabelled(frame, names)
    answers = pd.DataFrame({name: without_blanks(frame[name]) for name in chosen})
    known = answers.notna().all(axis=1).to_numpy()
    notes = []
    if not known.all():
        frame, answers = frame[known], answers[known]
        named = f"column {chosen[0]!r}" if len(chosen) == 1 else "columns"
        notes.append(f"{int((~known).sum())} of {len(known)} rows left out: no value in the target {named}.")
    if len(frame) == 0:
        raise InvalidInputError(f"{where} has no value in the target column {chosen[0]!r}; choose another target.")
    if len(chosen) == len(names):
        raise InvalidInputError(f"every column of {where} is a target; leave at least one to learn from.")
    y, more = labels_of(answers[chosen[0]]) if len(chosen) == 1 else multilabel_of(answers)
    x = frame.drop(columns=chosen)
    x.index = pd.RangeIndex(len(x))
    return Samples(x, y, attributes=tuple(chosen) if len(chosen) > 1 else (), notes=(*notes, *more))
