"""Labels of images from a CSV with a row for each file."""

import difflib
import os
from collections.abc import Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from equipoise.data.images.check import tolerate
from equipoise.data.images.scan import PARTS, Labelled, Scan
from equipoise.data.tables.delimited import csv_options
from equipoise.data.tables.text_files import open_table, parser_errors
from equipoise.data.tables.text_layout import find_layout
from equipoise.errors import InvalidInputError, listed

if TYPE_CHECKING:
    import pandas as pd

FILE_COLUMNS = (
    *("file", "filename", "file_name", "filepath", "file_path", "path"),
    *("image", "image_name", "image_path", "image_id", "img", "img_name", "id"),
)
TARGET_COLUMNS = ("label", "labels", "target", "class", "class_name", "dx", "diagnosis", "category", "y")
PART_COLUMNS = ("split", "partition", "subset", "set", "fold_name")
ONE_OF_MANY = (
    "the columns {columns} have exactly one 1 in each row: they are read as classes; name them with target= to read "
    "each as a label of its own."
)


def label_table(
    found: Scan,
    labels: str | os.PathLike[str],
    *,
    file_column: str | None,
    target: str | Sequence[str] | None,
    group: str | None,
) -> Labelled:
    """Find the images that a CSV lists, each with its label or with several 0/1 labels."""
    frame = _read(labels)
    file = _column(frame, file_column, FILE_COLUMNS, what="file names", option="file_column")
    part = next((name for name in frame.columns if name.lower() in PART_COLUMNS), None)
    if group is not None:
        group = _named(frame, group, "group")
    targets = _targets(frame, target, taken={file, part, group})
    matched, notes = _match(found, frame[file].tolist())
    frame, more = _settled(frame.assign(**{_ROW: matched}), file, targets)
    unnamed = sorted(set(range(len(found.images))) - set(matched.tolist()))
    if unnamed:
        names = [found.images[row] for row in unnamed]
        notes.append(f"{listed(names)} {'is' if len(names) == 1 else 'are'} not listed in the labels.")
    names = [found.images[row] for row in frame[_ROW]]
    y, attributes = _labels(frame, targets)
    if target is None and attributes and (y.sum(axis=1) == 1).all():
        y, attributes = np.array(targets, dtype=np.str_)[y.argmax(axis=1)], ()
        notes.append(ONE_OF_MANY.format(columns=listed(targets)))
    groups = None if group is None else frame[group].to_numpy(dtype=np.str_)
    return Labelled(names, y, attributes, groups, _partition(frame, part), notes + more)


_ROW = "\0row"  # a column name that no file can have


def _read(labels: str | os.PathLike[str]) -> "pd.DataFrame":
    """Read all cells as text without surrounding blanks: a class called NA or 007 stays so."""
    import pandas as pd

    path = Path(labels)
    layout = find_layout(path)
    with parser_errors(path), open_table(path, None) as file:
        frame = pd.read_csv(file, **csv_options(layout), dtype=str)
    if frame.empty or len(frame.columns) < 2:
        raise InvalidInputError(
            f"{str(path)!r} has {len(frame)} rows and {len(frame.columns)} columns; expected a header and a row for "
            "each file, with its name and its label."
        )
    return frame.fillna("").apply(lambda cells: cells.str.strip())


def _named(frame: "pd.DataFrame", name: str, option: str) -> str:
    if name in frame.columns:
        return name
    near = difflib.get_close_matches(name, list(frame.columns), n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(map(repr, frame.columns))}."
    raise InvalidInputError(f"the labels have no column {name!r} for {option}; {hint}")


def _column(frame: "pd.DataFrame", given: str | None, usual: Sequence[str], *, what: str, option: str) -> str:
    if given is not None:
        return _named(frame, given, option)
    lower = {name.lower(): name for name in frame.columns}
    for name in usual:
        if name in lower:
            return str(lower[name])
    raise InvalidInputError(
        f"none of the columns {', '.join(map(repr, frame.columns))} is known to hold {what}; name it with {option}=."
    )


def _targets(frame: "pd.DataFrame", target: str | Sequence[str] | None, *, taken: set[str | None]) -> list[str]:
    if isinstance(target, str):
        alone = target in frame.columns or "," not in target
        target = [target] if alone else [name.strip() for name in target.split(",")]
    if target is not None:
        return [_named(frame, name, "target") for name in target]
    rest = [name for name in frame.columns if name not in taken]
    binary = [name for name in rest if _binary(frame[name])]
    if not any(name.lower() in TARGET_COLUMNS for name in rest):
        if len(binary) > 1:
            return binary
        if len(rest) == 1:
            return rest
    return [_column(frame[rest], None, TARGET_COLUMNS, what="labels", option="target")]


def _binary(cells: "pd.Series") -> bool:
    return bool(cells.isin(["0", "1", "0.0", "1.0"]).all())


def _match(found: Scan, cells: list[str]) -> tuple[NDArray[np.intp], list[str]]:
    """Return the image of each row, or −1."""
    index = _Index(found.images)
    matched = np.array([index.find(cell) for cell in cells], dtype=np.intp)
    missing = [repr(cell) for cell, row in zip(cells, matched, strict=True) if row < 0]
    note = tolerate(
        missing,
        len(cells),
        what=f"rows of the labels name files that are not in {str(found.root)!r}",
        remedy="check the folder and the column of file names",
    )
    return matched, [note] if note else []


class _Index:
    """Files by their path from the root, with or without suffix, and by their bare name if unique."""

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self.full = {name: row for row, name in enumerate(names)}
        self.short: dict[str, list[int]] = {}
        self.bare: dict[str, list[int]] = {}
        for row, name in enumerate(names):
            path = PurePosixPath(name)
            self.short.setdefault(str(path.with_suffix("")), []).append(row)
            for key in (path.name, path.stem):
                self.bare.setdefault(key, []).append(row)

    def find(self, cell: str) -> int:
        text = cell.strip().replace("\\", "/")
        path = PurePosixPath(text)
        if ".." in path.parts or path.is_absolute() or PureWindowsPath(text).drive:
            raise InvalidInputError(
                f"the labels name the file {cell!r}; names must start from the folder and stay inside it."
            )
        for skip in range(len(path.parts)):  # paths may start at a folder above ours
            name = "/".join(path.parts[skip:])
            if name in self.full:  # before the short forms: a file called 'a.b' has no suffix to drop
                return self.full[name]
            if name in self.short:
                return self._only(cell, self.short[name])
        return self._only(cell, self.bare.get(path.name, []))

    def _only(self, cell: str, rows: list[int]) -> int:
        if len(rows) > 1:
            names = [repr(self.names[row]) for row in rows[:3]] + (["another"] if len(rows) > 3 else [])
            raise InvalidInputError(
                f"the labels name the file {cell!r}, which may be {' or '.join(names)}; write its path from the folder "
                "on, with its suffix."
            )
        return rows[0] if rows else -1


def _settled(frame: "pd.DataFrame", file: str, targets: list[str]) -> tuple["pd.DataFrame", list[str]]:
    """Return one row for each existing file with a label, and notes on what was left out."""
    frame = frame[frame[_ROW] >= 0]
    notes = []
    blank = (frame[targets] == "").any(axis=1)
    if blank.any():
        if blank.all():
            raise InvalidInputError(
                f"all {len(frame)} rows of the labels are empty in {' or '.join(map(repr, targets))}; fill in the "
                "labels, or name another column with target=."
            )
        notes.append(f"{int(blank.sum())} rows of the labels have an empty label and are left out.")
        frame = frame[~blank]
    before = len(frame)
    frame = frame.drop_duplicates([_ROW, *targets])
    if len(frame) < before:
        notes.append(f"{before - len(frame)} duplicate rows of the labels count once.")
    torn = frame[_ROW].duplicated(keep=False)
    names = [repr(name) for name in dict.fromkeys(frame[file][torn])]
    note = tolerate(
        names, len(frame), what="files have two different labels", remedy="keep one row for each file in the labels"
    )
    return frame[~torn].sort_values(_ROW, kind="stable"), [*notes, note] if note else notes


def _labels(frame: "pd.DataFrame", targets: list[str]) -> tuple[NDArray[Any], tuple[str, ...]]:
    if len(targets) == 1:
        return frame[targets[0]].to_numpy(dtype=np.str_), ()
    for name in targets:
        if not _binary(frame[name]):
            odd = next(cell for cell in frame[name] if cell not in ("0", "1", "0.0", "1.0"))
            raise InvalidInputError(f"several labels must be columns of 0 and 1, but {name!r} holds {odd!r}.")
    return frame[targets].astype(float).to_numpy(dtype=np.int64), tuple(targets)


def _partition(frame: "pd.DataFrame", part: str | None) -> NDArray[np.str_] | None:
    if part is None:
        return None
    cells = frame[part].str.lower()
    if not cells.isin(PARTS).all():  # a column of that name with another meaning
        return None
    return np.array([PARTS[cell] for cell in cells], dtype=np.str_)
