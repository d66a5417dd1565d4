"""Parquet files in parts, within limits: a few bytes can decompress to gigabytes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from equipoise.data.tables.text_files import clear_errors
from equipoise.errors import InvalidInputError
from equipoise.storage.files import DAMAGE
from equipoise.storage.size_limits import check_unpacked
from equipoise.storage.unnamed_file import ReadableFile

SUFFIXES = (".parquet", ".pq")
WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}
TEXT = "BYTE_ARRAY"
PANDAS_INDEX = "__index_level_"
REMEDY = "leave out columns of long text, or save the table as CSV"


def read_parquet(path: ReadableFile) -> tuple[Any, list[str]]:
    """Read the whole table as a data frame; there is nothing to note."""
    with _parquet(path) as (arrow, file):
        metadata = file.metadata
        fixed = sum(_width(metadata.schema.column(place)) for place in range(metadata.num_columns))
        check_unpacked(path, fixed * metadata.num_rows, remedy=REMEDY)
        batches, size = [], 0
        for batch in _batches(path, file, rows=2**14):
            size += batch.nbytes
            check_unpacked(path, size, remedy=REMEDY)
            batches.append(batch)
        return _frame(arrow.Table.from_batches(batches, schema=file.schema_arrow)), []


def parquet_parts(path: ReadableFile, *, rows: int) -> Iterator[Any]:
    """Yield data frames of up to ``rows`` rows."""
    with _parquet(path) as (_, file):
        for batch in _batches(path, file, rows=rows):
            yield _frame(batch)


class ParquetLayout(NamedTuple):
    """The columns and row groups of a file, from its footer alone."""

    columns: list[str]
    group_rows: list[int]
    group_bytes: list[int]  # once decompressed


def parquet_layout(path: ReadableFile) -> ParquetLayout:
    """Read the footer of a file."""
    with _parquet(path) as (_, file):
        groups = [file.metadata.row_group(place) for place in range(file.metadata.num_row_groups)]
        return ParquetLayout(
            [str(name) for name in file.schema_arrow.names if not str(name).startswith(PANDAS_INDEX)],
            [int(group.num_rows) for group in groups],
            [int(group.total_byte_size) for group in groups],
        )


def parquet_group(path: ReadableFile, group: int, columns: Sequence[str]) -> Any:
    """Read some columns of one row group as a data frame."""
    with _parquet(path) as (arrow, file):
        rows = file.metadata.row_group(group).num_rows
        batches = list(_batches(path, file, rows=2**16, group=group, columns=list(columns)))
        table = arrow.Table.from_batches(batches, schema=batches[0].schema) if batches else None
        found = 0 if table is None else table.num_rows
        if found != rows:
            raise InvalidInputError(
                f"{path} declares {rows:,} rows in row group {group} and has {found:,}; get the file again."
            )
        return _frame(table)


@contextmanager
def _parquet(path: ReadableFile) -> Iterator[tuple[Any, Any]]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InvalidInputError(
            f"reading {path} needs pyarrow; install it with `pip install 'equipoise[parquet]'`."
        ) from None
    try:
        with clear_errors(path), path.open("rb") as opened, pyarrow.parquet.ParquetFile(opened) as file:
            yield pyarrow, file
    except InvalidInputError:
        raise
    except (pyarrow.ArrowException, *DAMAGE) as error:  # the second: pandas stores its own notes in the file
        reason = " ".join(str(error).split()).rstrip(".")
        raise InvalidInputError(f"{path} is not a Parquet file or is damaged ({reason}); get the file again.") from None


def _width(column: Any) -> int:
    """Return the bytes per cell; 0 for text, whose length varies."""
    return int(column.length) if column.physical_type == "FIXED_LEN_BYTE_ARRAY" else WIDTHS.get(column.physical_type, 0)


def _batches(
    path: ReadableFile, file: Any, *, rows: int, group: int | None = None, columns: list[str] | None = None
) -> Iterator[Any]:
    """Yield record batches of all row groups and columns, or of one group and some columns.

    Repeated text is stored once until its full size is known to be within limits.
    """
    import pyarrow.parquet

    schema = file.schema_arrow
    if columns is not None:
        schema = pyarrow.schema([schema.field(name) for name in columns])
    groups = list(range(file.metadata.num_row_groups)) if group is None else [group]
    once = [name for name in _repeated_text(path, file.metadata, groups, rows=rows) if name in schema.names]
    kept = {field.name for field in schema if str(field.type).startswith("dictionary")}
    with path.open("rb") as again, pyarrow.parquet.ParquetFile(again, read_dictionary=once) as opened:
        for batch in opened.iter_batches(batch_size=rows, row_groups=groups, columns=columns):
            check_unpacked(
                path, sum(_full_size(batch.column(name)) for name in once if name not in kept), remedy=REMEDY
            )
            found = [batch.column(field.name).cast(field.type) for field in schema]
            yield pyarrow.RecordBatch.from_arrays(found, schema=schema)


def _repeated_text(path: ReadableFile, metadata: Any, wanted: Sequence[int], *, rows: int) -> list[str]:
    """Return the text columns by name: a text may be stored once, however many cells have it.

    Statistics of single column chunks are not read: pyarrow crashes on damaged ones.
    """
    groups = [metadata.row_group(place) for place in wanted]
    check_unpacked(path, sum(group.total_byte_size for group in groups), remedy=REMEDY)
    found = []
    for place in range(metadata.num_columns):
        column = metadata.schema.column(place)
        if column.physical_type != TEXT:
            continue
        if column.path == column.name:
            found.append(column.path)
            continue
        name = column.path.split(".")[0]  # of lists or of records
        for group in groups:
            most = rows if column.max_repetition_level else min(rows, group.num_rows)
            full = most * group.total_byte_size
            check_unpacked(path, full, remedy=f"leave out the column {name!r}, whose cells hold several values")
    return sorted(found)


def _full_size(column: Any) -> int:
    """Return the bytes of a dictionary's texts once expanded into every cell."""
    import pyarrow.compute

    if not hasattr(column, "dictionary"):
        return int(column.nbytes)
    lengths = pyarrow.compute.binary_length(column.dictionary)
    return int(pyarrow.compute.sum(lengths.take(column.indices).cast("int64")).as_py() or 0)


def _frame(part: Any) -> Any:
    """Convert a part to pandas, checking that texts are UTF-8: pandas would notice much later."""
    part.validate(full=True)
    return part.to_pandas()
