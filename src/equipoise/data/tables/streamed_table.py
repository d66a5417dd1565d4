"""Tables larger than memory: rows of Parquet files, read and encoded a row group at a time."""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.data.encoder import TableEncoder
from equipoise.data.samples import SampleRows, Samples
from equipoise.data.tables.parquet_shards import ParquetShards
from equipoise.data.tables.read_table import read_table
from equipoise.data.tables.target_column import check_columns, choose_target

BUFFER_ROWS = 2**18
"""Rows that are shuffled together, in as many row groups as they need, and at least one."""
SAMPLED = 100_000
"""Rows that columns are learnt from."""
ROW = "\0row"
"""Name of a column that no file has."""


def read_streamed(shards: ParquetShards, target: str | None) -> Samples:
    """Read the labels of a table in one pass and leave its rows on disk; rows without a label are left out.

    Args:
        shards: the files.
        target: the label column, or several 0/1 columns separated by commas.
    """
    check_columns(shards.columns, str(shards.source))
    chosen = choose_target(shards.columns, target, str(shards.source))
    labels = pd.concat([shards.read(group, chosen) for group in range(len(shards.groups))], ignore_index=True)
    labels[ROW] = np.arange(len(labels))
    found = read_table(labels, target=chosen)
    rows = found.x[ROW].to_numpy(dtype=np.int64)
    return replace(found, x=StreamedTable(shards, [name for name in shards.columns if name not in chosen], rows))


def read_all(shards: ParquetShards, target: str | None) -> Samples:
    """Read a table whole, with its labels."""
    check_columns(shards.columns, str(shards.source))
    chosen = choose_target(shards.columns, target, str(shards.source))
    return read_table(shards.take(np.arange(len(shards)), shards.columns), target=chosen)


class StreamedTable(SampleRows):
    """Rows of Parquet files as they are stored; nothing but their numbers is in memory.

    Args:
        shards: the files.
        columns: names of the columns to learn from.
        rows: numbers of the rows in the files; None is all of them.
    """

    from_files = True
    in_parts = True
    ndim = 2

    def __init__(self, shards: ParquetShards, columns: Sequence[str], rows: NDArray[np.int64] | None = None) -> None:
        self.shards, self.columns = shards, list(columns)
        self.rows = np.arange(len(shards)) if rows is None else rows

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self), len(self.columns)

    def __getitem__(self, columns: Sequence[str], /) -> "StreamedTable":
        return StreamedTable(self.shards, columns, self.rows)

    def take(self, rows: NDArray[np.intp], axis: int = 0) -> "StreamedTable":  # noqa: ARG002
        """Return some rows, which stay on disk; the axis is that of numpy's take: always 0."""
        return StreamedTable(self.shards, self.columns, self.rows[rows])

    def frame(self) -> Any:
        """Read all rows into a data frame."""
        return self.shards.take(self.rows, self.columns)

    @cached_property
    def sample(self) -> tuple[Any, NDArray[np.intp]]:
        """Some rows, drawn at random from all row groups, as a data frame, and their places."""
        places = np.arange(len(self))
        if len(self) > SAMPLED:
            places = np.sort(np.random.default_rng(0).choice(len(self), SAMPLED, replace=False))
        return self.take(places).frame(), places

    def fingerprint(self) -> str:
        """Return a hash of the files, the columns and the rows."""
        found = hashlib.blake2b(f"{self.shards.fingerprint()} {self.columns}".encode(), digest_size=16)
        found.update(self.rows.tobytes())
        return found.hexdigest()

    def add_to(self, key: "hashlib.blake2b") -> None:
        """Add the files to a hash."""
        key.update(self.fingerprint().encode())


class EncodedStream(SampleRows):
    """Rows of a streamed table as an encoder's numbers; the row groups used last are kept.

    Args:
        table: the rows.
        encoder: fitted on a sample of them.

    Index it to read any rows. Rows of few row groups are read fast, and :meth:`blocks` says which belong together.
    """

    from_files = True
    ndim = 2

    def __init__(self, table: StreamedTable, encoder: TableEncoder) -> None:
        self.table, self.encoder = table, encoder
        self._kept: OrderedDict[int, NDArray[np.floating[Any]]] = OrderedDict()

    def __len__(self) -> int:
        return len(self.table)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and outputs of the encoder."""
        return len(self), len(self.encoder.column_names_)

    @property
    def dtype(self) -> Any:
        """The type of the numbers."""
        return np.dtype(self.encoder.dtype)

    @property
    def groups_at_once(self) -> int:
        """Row groups that are shuffled together."""
        rows = max(1, int(np.median(np.diff(self.table.shards.starts))))
        return max(1, BUFFER_ROWS // rows)

    def blocks(self) -> NDArray[np.int32]:
        """Return the row group of each row."""
        return self.table.shards.group_of(self.table.rows).astype(np.int32)

    def take(self, rows: NDArray[np.intp], axis: int = 0) -> "EncodedStream":  # noqa: ARG002
        """Return some rows, which stay on disk; the axis is that of numpy's take: always 0."""
        return EncodedStream(self.table.take(rows), self.encoder)

    def __getitem__(self, rows: slice | NDArray[np.intp], /) -> NDArray[np.floating[Any]]:
        numbers = self.table.rows[rows]
        found = np.empty((len(numbers), self.shape[1]), dtype=self.dtype)
        group_of = self.table.shards.group_of(numbers)
        for group in np.unique(group_of):
            own = group_of == group
            found[own] = self._encoded(int(group))[numbers[own] - self.table.shards.starts[group]]
        return found

    def fingerprint(self) -> str:
        """Return a hash of the table and of its encoding."""
        return hashlib.blake2b(
            f"{self.table.fingerprint()} {self.encoder.to_json()}".encode(), digest_size=16
        ).hexdigest()

    def _encoded(self, group: int) -> NDArray[np.floating[Any]]:
        """Return a row group's numbers; two buffers are kept, as a batch may be of the end of one and the next."""
        if group not in self._kept:
            while len(self._kept) >= 2 * self.groups_at_once:
                self._kept.popitem(last=False)
            self._kept[group] = self.encoder.transform(self.table.shards.read(group, self.table.columns))
        self._kept.move_to_end(group)
        return self._kept[group]
