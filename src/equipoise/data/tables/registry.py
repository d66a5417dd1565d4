"""``TABLE_READERS``, where a new file format is one line."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from equipoise.data.tables.excel import read_excel
from equipoise.data.tables.json_lines import json_parts, read_json_lines
from equipoise.data.tables.parquet import parquet_parts, read_parquet
from equipoise.storage.unnamed_file import ReadableFile


class TableReader(NamedTuple):
    """How files of a format are read.

    Args:
        read: from a path to the table, a data frame, and notes on what a user would want to know.
        parts: from a path and ``rows=`` to data frames of up to that many rows each, one in memory at a time; None
            divides the whole table.
    """

    read: Callable[[ReadableFile], tuple[Any, list[str]]]
    parts: Callable[..., Iterator[Any]] | None = None

    def iterate(self, path: ReadableFile, *, rows: int) -> Iterator[Any]:
        """Yield data frames of up to ``rows`` rows."""
        if self.parts is not None:
            yield from self.parts(path, rows=rows)
            return
        frame, _ = self.read(path)
        yield from (frame[start : start + rows] for start in range(0, max(1, len(frame)), rows))


TABLE_READERS: dict[str, TableReader] = {
    ".parquet": TableReader(read_parquet, parquet_parts),
    ".pq": TableReader(read_parquet, parquet_parts),
    ".jsonl": TableReader(read_json_lines, json_parts),
    ".ndjson": TableReader(read_json_lines, json_parts),
    ".xlsx": TableReader(read_excel),
    ".xlsm": TableReader(read_excel),
}
"""Readers by the ending of a file's name; a file with any other ending is read as delimited text."""
