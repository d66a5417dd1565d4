"""One entry point for all sources: a table, an image folder or archive, or a named data set."""

from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from equipoise.data.columns.chosen_columns import ChosenColumns, check_time
from equipoise.data.samples import Samples
from equipoise.errors import InvalidInputError, did_you_mean

if TYPE_CHECKING:
    from equipoise.data.tables.parquet_shards import ParquetShards

MOST_BESIDE = 1000
"""Most files of a folder among which a similar name is looked for."""
UNNAMED = "(no group, row"
"""How the name of a group begins that is a single row, because the file names none."""
NAMED_SETS: dict[str, Callable[..., Samples]] = {}
"""Data sets that can be opened by name: none, until another package adds some. Each is called with its name and with
``size``, ``check`` and ``progress``."""


def open_data(
    source: str | Path,
    *,
    target: str | None = None,
    labels: str | Path | None = None,
    group: str | None = None,
    size: int | tuple[int, int] | None = None,
    channels: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    stream: bool | None = False,
) -> Samples:
    """Read a table, an image folder or archive, or a named data set.

    Args:
        source: a CSV, JSON lines, Excel, Parquet or npz file, a folder of Parquet files, a folder or archive of images,
            or a name of :data:`NAMED_SETS`.
        target: the table's label column, or several 0/1 columns separated by commas.
        labels: a table of ``file,label`` for images that are not sorted into folders.
        group: column of groups, such as patients, that a split must not divide.
        size: side of the square that images are scaled to, or (height, width); None chooses it.
        channels: 1 for grey, 3 for colour; None chooses it.
        progress: called with the number of images checked, or of rows read, and their total.
        stream: whether the rows of a Parquet table stay on disk; None: if they would fill a quarter of the free memory.
    """
    from equipoise.data.images import read_images
    from equipoise.data.tables.read_table import read_table
    from equipoise.storage.archives import is_archive

    path = Path(source)
    size = (size, size) if isinstance(size, int) else size
    if not path.exists():
        _refuse_unknown(source, target=target, labels=labels, group=group)
        return NAMED_SETS[str(source)](str(source), size=size, check=True, progress=progress)
    shards = _shards(path, stream=stream)
    if shards is not None:
        _refuse(f"{path} is a table", labels=labels, size=size, channels=channels)
        return _read_shards(shards, target, group, stream=stream)
    if path.is_dir() or is_archive(path):
        images = read_images(
            path, labels=labels, target=target, group=group, size=size, channels=channels, progress=progress
        )
        return images if group is None else _divisible(images, group)
    _refuse(f"{path.name} is a file, not a folder of images", labels=labels, size=size, channels=channels)
    samples = read_table(path, target=target, progress=progress)
    return samples if group is None else _divisible(grouped(samples, group), group)


def check_source(
    source: str | Path,
    *,
    target: str | None = None,
    labels: str | Path | None = None,
    group: str | None = None,
    time: str | None = None,
    columns: ChosenColumns | None = None,
) -> None:
    """Raise errors for a wrong path or column name at once, which :func:`open_data` would raise after slow imports.

    Args:
        time: the column that orders a table's rows.
        columns: the user's choices for a table's columns; the other arguments are those of :func:`open_data`.
    """
    from equipoise.data.tables import TABLE_READERS
    from equipoise.data.tables.target_column import check_columns, choose_target
    from equipoise.data.tables.text_layout import find_layout
    from equipoise.storage.archives import is_archive

    path = Path(source)
    if not path.exists():
        _refuse_unknown(source, target=target, labels=labels, group=group)
    elif path.is_dir() or is_archive(path):
        if labels is not None and not Path(labels).expanduser().exists():
            raise InvalidInputError(f"{labels} does not exist; check the path.")
    else:
        _refuse(f"{path.name} is a file, not a folder of images", labels=labels)
        if path.suffix.lower() in (".npz", *TABLE_READERS) or not path.is_file():  # a pipe is read only once
            return
        header = find_layout(path).header
        check_columns(header, str(path))
        chosen = choose_target(header, target, str(path))
        others = [name for name in header if name not in chosen]
        if group is not None:
            check_group(group, others)
        if time is not None:
            check_time(time, others)
        if columns is not None and columns.given:
            columns.check([name for name in others if name != group])


def _shards(path: Path, *, stream: bool | None) -> "ParquetShards | None":
    """Return the Parquet files of a folder, or the one file whose rows are to be left on disk; None for others."""
    from equipoise.data.tables.parquet_shards import ParquetShards, parquet_files

    if (path.is_file() and stream is False) or not parquet_files(path):
        if stream:
            raise InvalidInputError(f"{path} must be Parquet to be read in parts; leave --stream out.")
        return None
    shards = ParquetShards(path)
    return shards if path.is_dir() or stream or shards.is_large else None


def _read_shards(shards: "ParquetShards", target: str | None, group: str | None, *, stream: bool | None) -> Samples:
    from equipoise.data.tables.streamed_table import read_all, read_streamed

    if not (shards.is_large if stream is None else stream):
        samples = read_all(shards, target)
        return samples if group is None else _divisible(grouped(samples, group), group)
    if group is not None:
        raise InvalidInputError(
            f"{shards.source} cannot keep groups together while it is read in parts; pass --in-memory."
        )
    return read_streamed(shards, target)


def _refuse_unknown(source: str | Path, **options: object) -> None:
    """Raise an error for a name that is neither a file nor a known set, and for options that a set does not take."""
    if str(source) not in NAMED_SETS:
        known = ", ".join(NAMED_SETS)
        images = f"a folder of images, or one of {known}" if known else "or a folder of images"
        near = [*NAMED_SETS, *_beside(Path(source))]
        hint = did_you_mean(str(source), near)
        raise InvalidInputError(f"no such file or folder: {str(source)!r}; give a table, {images}{hint}")
    _refuse(f"{source} is a named set with its own labels", **options)


def _beside(path: Path) -> list[str]:
    """Return the files and folders beside a path that does not exist."""
    try:
        return [str(path.with_name(each.name)) for each in islice(path.expanduser().parent.iterdir(), MOST_BESIDE)]
    except (OSError, ValueError):
        return []


def check_group(group: str, columns: list[str]) -> None:
    """Raise an error for a group that is not a column."""
    if group not in columns:
        raise InvalidInputError(
            f"group must be a column of the table other than the target, got {group!r}; there are {', '.join(columns)}."
        )


def _refuse(why: str, **options: object) -> None:
    """Raise an error for an option that does not apply."""
    for name, value in options.items():
        if value is not None:
            raise InvalidInputError(f"{why}, so {name} does not apply; leave it out.")


def grouped(samples: Samples, group: str) -> Samples:
    """Move a column from the table to the groups, so that the model does not learn from it."""
    if not samples.columns:
        raise InvalidInputError(
            f"group must be a column name, got {group!r} for an array without names; give a CSV or Parquet."
        )
    check_group(group, samples.columns)
    groups, missing = _group_names(samples.x[group])
    note = f"{missing} of {len(groups)} rows have no value in the group column {group!r}: each is a group of its own."
    return replace(
        samples,
        x=samples.x.drop(columns=group),
        groups=groups,
        notes=(*samples.notes, note) if missing else samples.notes,
    )


def _divisible(samples: Samples, group: str) -> Samples:
    """Raise an error if the groups allow no held-out part; add a note if each row is its own group."""
    if samples.partition is not None:  # already divided
        return samples
    groups, places = np.unique(np.asarray(samples.groups), return_inverse=True)
    if len(groups) == 1:
        raise InvalidInputError(
            f"all rows have the group {str(groups[0])!r} in the column {group!r}, so nothing can be held out; name "
            "another column, or leave group out."
        )
    classes, codes = ((), places) if samples.multilabel else samples.encoded
    if len(classes) == len(groups) == len(np.unique(np.stack([codes, places]), axis=1).T):
        raise InvalidInputError(
            f"each value of the group column {group!r} is one class, so a class would be held out whole or not at all; "
            "name the column of the person or place that rows share, or leave group out."
        )
    if len(groups) < len(samples):
        return samples
    note = f"every row is its own group in the column {group!r}: rows are split as without groups."
    return replace(samples, notes=(*samples.notes, note))


def _group_names(column: Any) -> tuple[NDArray[np.str_], int]:
    """Return one name per row, and how many rows had none."""
    from equipoise.data.columns.texts import as_words, without_blanks

    words = as_words(without_blanks(column))
    unknown = words.isna().to_numpy()
    given = [f"{UNNAMED} {row})" if unknown[row - 1] else word for row, word in enumerate(words, start=1)]
    return np.array(given, dtype=np.str_), int(unknown.sum())
