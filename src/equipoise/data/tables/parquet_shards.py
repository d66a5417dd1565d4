"""A table in one or many Parquet files that stays on disk: a file, a folder of parts, or an Arrow dataset."""

import hashlib
import urllib.parse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.cores_and_memory import free_memory
from equipoise.data.tables.parquet import SUFFIXES, parquet_group, parquet_layout
from equipoise.errors import InvalidInputError

SHARE_OF_MEMORY = 4
"""A table is read in parts if it would fill more than a quarter of the free memory."""
FOOTER = 2**16
"""Bytes at the end of a file, its footer, that distinguish it from another of the same size."""


class ParquetShards:
    """Row groups of Parquet files, in the order of their names; a folder ``key=value`` adds a column of that value.

    Args:
        source: a file, or a folder with Parquet files at any depth.

    Attributes:
        columns: names, those of the folders last.
        starts: first row of each row group, and the number of all rows last, (groups + 1,).
    """

    def __init__(self, source: str | Path) -> None:
        self.source = Path(source)
        self.paths = parquet_files(self.source)
        if not self.paths:
            raise InvalidInputError(f"{self.source} has no Parquet files ({', '.join(SUFFIXES)}); check the path.")
        layouts = [parquet_layout(path) for path in self.paths]
        self.values = [_folder_values(self.source, path) for path in self.paths]
        self.stored, self.added = layouts[0].columns, list(self.values[0])
        self.columns = [*self.stored, *(name for name in self.added if name not in self.stored)]
        for path, layout, values in zip(self.paths, layouts, self.values, strict=True):
            lacking = [name for name in self.stored if name not in layout.columns]
            lacking += [name for name in self.added if name not in values]
            if lacking:
                raise InvalidInputError(
                    f"{path} lacks the column {lacking[0]!r}, which {self.paths[0]} has; give all the same columns."
                )
        self.groups = [(file, group) for file, one in enumerate(layouts) for group in range(len(one.group_rows))]
        rows = [count for layout in layouts for count in layout.group_rows]
        self.starts = np.concatenate(([0], np.cumsum(rows, dtype=np.int64)))
        self.bytes = sum(size for layout in layouts for size in layout.group_bytes)

    def __len__(self) -> int:
        return int(self.starts[-1])

    @property
    def is_large(self) -> bool:
        """True if all rows would fill more than a quarter of the free memory."""
        return self.bytes > free_memory() // SHARE_OF_MEMORY

    def read(self, group: int, columns: Sequence[str]) -> Any:
        """Return some columns of a row group as a data frame; a damaged or short file is named."""
        file, place = self.groups[group]
        frame = parquet_group(self.paths[file], place, [name for name in columns if name in self.stored])
        for name in columns:
            if name not in self.stored:
                frame[name] = self.values[file][name]
        return frame[list(columns)]

    def take(self, rows: NDArray[np.integer[Any]], columns: Sequence[str]) -> Any:
        """Return some rows in the given order, reading each row group that has any of them once."""
        order = np.argsort(rows, kind="stable")
        wanted = np.asarray(rows)[order]
        group_of = self.group_of(wanted)
        parts = []
        for group in np.unique(group_of):
            own = wanted[group_of == group] - self.starts[group]
            parts.append(self.read(int(group), columns).iloc[own])
        found = pd.concat(parts, ignore_index=True) if parts else self.read(0, columns).iloc[:0]
        return found.iloc[np.argsort(order, kind="stable")].reset_index(drop=True)

    def group_of(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Return the row group of each row."""
        return np.searchsorted(self.starts, rows, side="right").astype(np.int64) - 1

    def fingerprint(self) -> str:
        """Return a hash of the names, sizes and footers of all files, which is the same on every machine."""
        found = hashlib.blake2b(digest_size=16)
        for path in self.paths:
            size = path.stat().st_size
            found.update(f"{path.relative_to(self.source) if path != self.source else path.name} {size}".encode())
            with path.open("rb") as file:
                file.seek(max(0, size - FOOTER))
                found.update(file.read())
        return found.hexdigest()


def parquet_files(source: Path) -> list[Path]:
    """Return the file itself, or all Parquet files of a folder, sorted; names that start with . or _ are ignored."""
    if source.is_file():
        return [source] if source.suffix.lower() in SUFFIXES else []
    found = [path for path in source.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file()]
    return sorted(path for path in found if not any(part[0] in "._" for part in path.relative_to(source).parts))


def _folder_values(source: Path, path: Path) -> dict[str, str]:
    """Return the columns that the folders above a file stand for, as Arrow and Spark write them."""
    pairs = [part.partition("=") for part in path.relative_to(source).parts[:-1]] if path != source else []
    return {name: urllib.parse.unquote(value) for name, sign, value in pairs if sign}
