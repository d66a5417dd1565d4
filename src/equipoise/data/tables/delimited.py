"""Rows of delimited text files, read in parts."""

import csv
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any

from equipoise.data.tables.text_files import OPENERS, open_table, parser_errors
from equipoise.data.tables.text_layout import MISSING, Layout, stripped_lines
from equipoise.errors import InvalidInputError


def csv_options(layout: Layout) -> dict[str, Any]:
    """Return the arguments of ``pandas.read_csv`` for a layout."""
    return {
        "sep": r"\s+" if layout.delimiter == " " else layout.delimiter,
        "header": 0,
        "skiprows": layout.skipped,
        "names": list(layout.header),
        "index_col": False,
        "encoding": layout.encoding,
        "skipinitialspace": True,
        "keep_default_na": False,
    }


def read_parts(
    layout: Layout, *, rows: int, text: Collection[str] = (), only: Sequence[str] | None = None
) -> Iterator[Any]:
    """Yield data frames of up to ``rows`` rows; the columns in ``text`` and codes stay text.

    Skipping spaces before fields takes pandas' parser a third longer, so it is done from the first part on that has
    any: in numbers they change nothing, texts begin with them, and before quotation marks they break the row.
    """
    import pandas as pd

    options = {
        **csv_options(layout),
        "compression": None,
        "usecols": only,
        "decimal": layout.decimal,
        "na_values": list(MISSING),
        "dtype": dict.fromkeys({*text, *layout.codes} & set(layout.header if only is None else only), _parsed_text()),
        "chunksize": rows,
        "low_memory": False,  # otherwise a column's type may change within one part
    }
    looked_for, done = set[bool](), 0
    with parser_errors(layout.path):
        with suppress(pd.errors.ParserError):
            for part, dropped in _parsed_parts(layout, options | {"skipinitialspace": layout.delimiter == " "}):
                if layout.delimiter != " " and (dropped or _has_spaces(part)):
                    break
                _check_lengths(part, layout, dropped, looked_for)
                yield part
                done += 1
            else:
                return
        for part, dropped in islice(_parsed_parts(layout, options), done, None):
            _check_lengths(part, layout, dropped, looked_for)
            yield part


def _parsed_text() -> Any:
    """Return the type to ask pandas' parser for where a column must stay text.

    Where pandas keeps texts by Arrow, one column of ``str`` slows the parser down by a third.
    """
    import pandas as pd

    if getattr(pd.Series(dtype="str").dtype, "storage", "") != "pyarrow":
        return str
    import pyarrow as pa

    return pd.ArrowDtype(pa.string())


def _has_spaces(part: Any) -> bool:
    """Return whether a text begins with a space."""
    from equipoise.data.columns.texts import is_text

    return any(_begins_with_space(column) for _, column in part.items() if is_text(column))


def _begins_with_space(texts: Any) -> bool:
    if getattr(texts.dtype, "storage", "") != "pyarrow":
        return bool(texts.str.startswith(" ").any())
    import pyarrow as pa
    import pyarrow.compute as pc

    return bool(pc.any(pc.starts_with(pa.array(texts), " ")).as_py())  # in a third of pandas' time


@contextmanager
def _open_for_pandas(layout: Layout) -> Iterator[tuple[Any, str]]:
    """Yield what pandas reads, and its encoding: of plain UTF-8 the path, which takes less time than an open file."""
    path = layout.path
    if isinstance(path, Path) and path.suffix.lower() not in OPENERS and layout.encoding == "utf-8-sig":
        yield str(path.absolute()), "utf-8"
        return
    with open_table(path, None) as file:
        yield file, layout.encoding


def _parsed_parts(layout: Layout, options: dict[str, Any]) -> Iterator[tuple[Any, bool]]:
    """Yield pandas' frames, and whether pandas warned that it dropped fields at the end of a row."""
    import pandas as pd

    with (
        _open_for_pandas(layout) as (source, encoding),
        pd.read_csv(source, **options | {"encoding": encoding}) as reader,
    ):
        while True:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", pd.errors.ParserWarning)
                part = next(reader, None)
            if part is None:
                return
            for name, kind in options["dtype"].items():
                if kind is not str:  # pandas 2 would turn the gaps of a column of str into "nan"
                    part[name] = part[name].astype("str")
            yield part, any(issubclass(each.category, pd.errors.ParserWarning) for each in caught)


def _check_lengths(part: Any, layout: Layout, dropped: bool, looked_for: set[bool]) -> None:
    """Refuse rows with too many or too few fields.

    pandas drops further fields, as it does with empty ones at the end of every row, and leaves the last column missing
    where there are too few. Each check runs once, because it reads the whole file.
    """
    last = layout.header[-1]
    for long in (True, False):
        suspected = dropped if long else last in part and bool(part[last].isna().any())
        if suspected and long not in looked_for:
            _refuse_rows(layout, long=long)
            looked_for.add(long)


def _refuse_rows(layout: Layout, *, long: bool) -> None:
    """Raise an error that names the first row with too many fields or with too few."""
    columns = len(layout.header)
    with open_table(layout.path, layout.encoding) as file:
        for _ in range(layout.skipped):
            file.readline()
        reader = csv.reader(stripped_lines(file, layout.delimiter), delimiter=layout.delimiter, skipinitialspace=True)
        for row in reader:
            wrong = any(field.strip() for field in row[columns:]) if long else 0 < len(row) < columns
            if wrong:
                remedy = "correct that row or put it in quotes" if long else "complete or remove that row"
                line = reader.line_num + layout.skipped
                raise InvalidInputError(
                    f"{layout.path} has {len(row)} fields instead of {columns} in line {line}; {remedy}."
                )
