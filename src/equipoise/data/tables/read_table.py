"""Tables with their labels: files of any format, frames, and pairs of arrays."""

from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from equipoise.cores_and_memory import release_memory
from equipoise.data.columns.number_range import fits_float32, span
from equipoise.data.columns.pictures import FOLDER
from equipoise.data.columns.texts import pack, repeats, without_blanks
from equipoise.data.data_frames import relabelled
from equipoise.data.samples import Progress, Samples
from equipoise.data.tables.arrays import from_arrays, read_npz
from equipoise.data.tables.delimited import read_parts
from equipoise.data.tables.registry import TABLE_READERS
from equipoise.data.tables.target_column import check_columns, choose_target, labels_of, multilabel_of
from equipoise.data.tables.text_layout import Layout, check_names, find_layout
from equipoise.errors import InvalidInputError
from equipoise.storage.unnamed_file import HeldFile, ReadableFile

PART_ROWS = 50_000
EXACT_IN_FLOAT32 = 2**24


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
                f"a pair of arrays has its labels in the second one, so target={target!r} does not apply; leave it out."
            )
        return from_arrays(*source)
    path = _file(source)
    if path.suffix.lower() == ".npz":
        return read_npz(path, target=target if target is None else str(target))
    samples = _read_file(path, target, progress)
    samples.x.attrs[FOLDER] = str(path.parent)
    return samples


def _read_file(path: Path, target: str | Sequence[str] | None, progress: Progress | None) -> Samples:
    if (reader := TABLE_READERS.get(path.suffix.lower())) is not None:
        frame, notes = reader.read(path)
        return _noted(_with_target(frame, target, str(path)), notes)
    layout = find_layout(path)
    check_columns(layout.header, str(path))
    chosen = choose_target(layout.header, target, str(path))
    frame = _read_all(layout, text=chosen, progress=progress)
    return _noted(_with_target(frame, chosen, str(path)), layout.notes)


def _noted(samples: Samples, notes: list[str]) -> Samples:
    return replace(samples, notes=(*notes, *samples.notes)) if notes else samples


def iterate_table(source: str | ReadableFile, *, rows: int = PART_ROWS, text: Collection[str] = ()) -> Iterator[Any]:
    """Yield data frames of up to ``rows`` rows from a table of any size, one part in memory at a time.

    An Excel workbook is read whole.

    Columns in ``text``, such as ``encoder.text_columns``, are read as text: otherwise a part with only numbers would
    become numbers.
    """
    if rows < 1:
        raise InvalidInputError(f"rows must be at least 1, got {rows}.")
    path = source if isinstance(source, HeldFile) else _file(source)
    if path.suffix.lower() == ".npz":
        raise InvalidInputError(f"{path} cannot be read in parts; give a CSV or a Parquet file.")
    with closing(_parts(path, rows, text)) as parts:
        for part in parts:
            part.attrs[FOLDER] = str(path.parent)
            yield part


def _parts(path: ReadableFile, rows: int, text: Collection[str]) -> Generator[Any, None, None]:
    reader = TABLE_READERS.get(path.suffix.lower())
    if reader is None:
        yield from read_parts(find_layout(path), rows=rows, text=text)
    else:
        yield from reader.iterate(path, rows=rows)


def _file(source: object) -> Path:
    if not isinstance(source, str | Path):
        raise InvalidInputError(
            f"a table must be a file, a data frame or a pair of arrays, got {type(source).__name__}; see read_table."
        )
    path = Path(source).expanduser()
    if path.is_dir():
        raise InvalidInputError(f"{path} is a folder; give the file of the table.")
    if not path.exists():
        raise InvalidInputError(f"{path} does not exist; check the path.")
    return path


def _read_all(layout: Layout, *, text: Collection[str], progress: Progress | None = None) -> Any:
    """Read all rows column by column, as float32 where a network would not use more.

    Where there are many, columns of text that repeats are packed, see :func:`~equipoise.data.columns.texts.pack`.
    """
    parts, rows, report = list[dict[str, Any]](), 0, progress or (lambda *_: None)
    for part in read_parts(layout, rows=PART_ROWS, text=text):
        rows += len(part)
        parts.append(dict(part.items()))  # frames take longer
        report(rows, max(rows + 1, layout.lines))
    if not parts:
        raise InvalidInputError(f"{layout.path} has column names but no rows; add the rows.")
    mixed = [name for name in layout.header if _differ([part[name] for part in parts])]
    if mixed:  # numbers here, words there: keep it all as text
        for part, again in zip(parts, read_parts(layout, rows=PART_ROWS, text=mixed, only=mixed), strict=True):
            part.update(again.items())
    columns = {name: _joined([part.pop(name) for part in parts]) for name in layout.header}
    if len(parts) > 1:
        release_memory()
    report(rows, rows)
    return pd.DataFrame(columns, copy=False)


def _differ(pieces: list[Any]) -> bool:
    """Return whether the parts of a column are of different kinds: numbers, booleans or text."""
    if len({piece.dtype for piece in pieces}) == 1 and pieces[0].dtype != object:
        return False
    kinds = {pd.api.types.infer_dtype(piece, skipna=True) for piece in pieces if not piece.isna().all()}
    return len({str(kind).replace("floating", "integer") for kind in kinds}) > 1


def _joined(pieces: list[Any]) -> Any:
    """Return the parts of a column as one, no larger than it need be."""
    if len({piece.dtype for piece in pieces}) > 1:
        known = next((piece.dtype for piece in pieces if not piece.isna().all()), pieces[0].dtype)
        pieces = [piece.astype(known) if piece.isna().all() else piece for piece in pieces]
    column = pieces[0] if len(pieces) == 1 else pd.concat(pieces, ignore_index=True)
    if column.dtype == np.float64:
        values = column.to_numpy()
        exact = not max(map(abs, span(values))) >= EXACT_IN_FLOAT32 and fits_float32(values)
        return column.astype(np.float32) if exact else column
    return pack(column) if len(column) >= PART_ROWS and repeats(column) else column


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
