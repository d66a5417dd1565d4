"""Delimited text files: detecting delimiter and header, and reading the rows in parts."""

import csv
import io
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from equipoise.data.tables.text_files import (
    OLD_ENCODINGS,
    OPENERS,
    clear_errors,
    find_encoding,
    open_table,
    parser_errors,
)
from equipoise.errors import InvalidInputError
from equipoise.wording import are_codes, is_number

DELIMITERS = (",", ";", "\t", "|")
NO_DELIMITERS = frozenset("\"'._-+?\\()[]{}")
"""Characters that belong to names, numbers and text."""
MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "-nan", "null", "NULL", "<NA>", "?")
"""Strings that mean a missing value. The word None does not: it is a class in many tables."""
SAMPLE_ROWS, CODE_ROWS, SAMPLE_CHARACTERS = 100, 1000, 1 << 22
MOST_COLUMNS = 100_000
SEPARATOR = re.compile(r"\"?sep=([,;\t|])\"?\s*$")
"""Excel's first line that declares the delimiter."""
DECIMALS = re.compile(r"[+-]?\d+([.,])\d+")


@dataclass(frozen=True)
class Layout:
    """The layout of a table in a text file."""

    path: Path
    header: tuple[str, ...]
    delimiter: str
    decimal: str
    encoding: str
    skipped: int = 0  # lines before the header
    codes: frozenset[str] = frozenset()  # columns of codes such as 01000, which are not numbers
    words: frozenset[str] = frozenset()  # columns with words among their first values, which pandas takes for text
    lines: int = 0  # about as many as the whole file has; 0 where it is not UTF-8

    @property
    def notes(self) -> list[str]:
        """Sentences on how the text was read."""
        if self.encoding not in OLD_ENCODINGS:
            return []
        return [f"{self.path} is not UTF-8; read as {OLD_ENCODINGS[self.encoding]}: check letters such as é, ß or €."]


def find_layout(path: Path) -> Layout:
    """Detect header, delimiter, decimal sign and encoding from the start of the file."""
    with clear_errors(path):
        encoding, size = find_encoding(path)
        with open_table(path, encoding) as file:
            start = file.read(SAMPLE_CHARACTERS)
    beginning = list(io.StringIO(start, newline=""))
    if len(start) == SAMPLE_CHARACTERS:
        if len(beginning) < 2:
            raise InvalidInputError(f"{path} has no line end in its first {len(start):,} characters; is it a table?")
        beginning.pop()  # the last line is incomplete
    said = SEPARATOR.match(beginning[0]) if beginning else None
    beginning = beginning[1:] if said else beginning
    lines = beginning[:SAMPLE_ROWS]
    if not any(line.strip() for line in lines):
        raise InvalidInputError(f"{path} is empty; a table starts with a line of column names.")
    delimiter = said[1] if said else sniff_delimiter(lines)
    with clear_errors(path):
        rows = list(_fields(lines, delimiter))
    header = _check_header(path, rows[0])
    if len(rows) > 1 and any(field.strip() for field in rows[1][len(header) :]):
        raise InvalidInputError(
            f"{path} has {len(header)} column names and {len(rows[1])} fields in its first row; "
            "name every column in the first line."
        )
    columns = _first_values(header, beginning[1:CODE_ROWS], delimiter)
    return Layout(
        path,
        header,
        delimiter,
        _decimal(beginning[1:], delimiter),
        encoding,
        skipped=int(bool(said)),
        codes=frozenset(name for name, values in columns if are_codes(values)),
        words=frozenset(name for name, values in columns if any(map(_is_word, values))),
        lines=round(size / len(start.encode()) * len(beginning)),
    )


def _first_values(header: Sequence[str], lines: Sequence[str], delimiter: str) -> list[tuple[str, list[str]]]:
    """Return the name and the values that are not missing of each column."""
    columns = zip(*(row for row in _fields(lines, delimiter) if len(row) >= len(header)), strict=False)
    fields = ([field.strip() for field in column] for column in columns)
    known = ([field for field in column if field not in MISSING] for column in fields)
    return list(zip(header, known, strict=False))


def _is_word(value: str) -> bool:
    return not is_number(value) and value.lower() not in ("true", "false")


def sniff_delimiter(lines: Sequence[str]) -> str:
    """Detect the delimiter that gives most rows as many fields as the header.

    If none of the usual ones fits, it is any other character that gives all rows equally many fields; spaces are tried
    last.

    >>> sniff_delimiter(["height;weight", "1,80;75,5"])
    ';'
    """
    best, best_fit = "", (0.5, 0)
    for delimiter in DELIMITERS:
        try:
            counts = [len(row) for row in _fields(lines, delimiter)]
        except csv.Error:
            continue
        fit = (sum(count == counts[0] for count in counts) / len(counts), counts[0])
        if counts[0] > 1 and fit > best_fit:
            best, best_fit = delimiter, fit
    best = best or _unusual_delimiter(lines)
    if best:
        return best
    head = next(_fields(lines, " "), [])
    in_header = [delimiter for delimiter in DELIMITERS if delimiter in next(filter(str.strip, lines))]
    return " " if len(head) > 1 and not in_header else (in_header or [","])[0]


def _unusual_delimiter(lines: Sequence[str]) -> str:
    """Return the header's character that splits every row into equally many fields, the most; empty if none does."""
    best, most = "", 1
    header = next(filter(str.strip, lines))
    for sign in sorted({sign for sign in header if sign.isascii() and not sign.isalnum() and not sign.isspace()}):
        if sign in NO_DELIMITERS or sign in DELIMITERS:
            continue
        counts = [len(row) for row in _fields(lines, sign)]
        if len(counts) > 1 and len(set(counts)) == 1 and counts[0] > most:
            best, most = sign, counts[0]
    return best


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
        "dtype": dict.fromkeys({*text, *layout.codes} & set(layout.header), str),
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


def _has_spaces(part: Any) -> bool:
    """Return whether a text begins with a space."""
    from equipoise.data.columns.distinct import is_text

    texts = (column for _, column in part.items() if is_text(column))
    return any(bool(column.str.startswith(" ").any()) for column in texts)


@contextmanager
def _open_for_pandas(layout: Layout) -> Iterator[tuple[Any, str]]:
    """Yield what pandas reads, and its encoding: of plain UTF-8 the path, which takes less time than an open file."""
    plain = isinstance(layout.path, Path) and layout.path.suffix.lower() not in OPENERS
    if plain and layout.encoding == "utf-8-sig":
        yield str(layout.path.absolute()), "utf-8"
        return
    with open_table(layout.path, None) as file:
        yield file, layout.encoding


def _parsed_parts(layout: Layout, options: dict[str, Any]) -> Iterator[tuple[Any, bool]]:
    """Yield pandas' frames, and whether pandas warned that it dropped fields at the end of a row."""
    import pandas as pd

    with (
        _open_for_pandas(layout) as (source, encoding),
        pd.read_csv(source, **options | {"encoding": encoding}) as reader,
    ):
        while True:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always", pd.errors.ParserWarning)
                part = next(reader, None)
            if part is None:
                return
            yield part, any(issubclass(each.category, pd.errors.ParserWarning) for each in told)


def _check_lengths(part: Any, layout: Layout, dropped: bool, looked_for: set[bool]) -> None:
    """Refuse rows with too many fields, which pandas drops, as it does with empty ones at the end of every row; and
    rows with too few, which leave the last column missing. Each check runs once, because it reads the whole file."""
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
        reader = csv.reader(_stripped(file, layout.delimiter), delimiter=layout.delimiter, skipinitialspace=True)
        for row in reader:
            wrong = any(field.strip() for field in row[columns:]) if long else 0 < len(row) < columns
            if wrong:
                remedy = "correct that row or put it in quotes" if long else "complete or remove that row"
                line = reader.line_num + layout.skipped
                raise InvalidInputError(
                    f"{layout.path} has {len(row)} fields instead of {columns} in line {line}; {remedy}."
                )


def _stripped(lines: Any, delimiter: str) -> Iterator[str]:
    """Strip spaces at the ends of lines, which are not fields where spaces are the delimiter."""
    return (line.strip(" \r\n") for line in lines) if delimiter == " " else iter(lines)


def _fields(lines: Sequence[str], delimiter: str) -> Iterator[list[str]]:
    reader = csv.reader(_stripped(lines, delimiter), delimiter=delimiter, skipinitialspace=True)
    return (row for row in reader if row)


def _check_header(path: Path, fields: Sequence[str]) -> tuple[str, ...]:
    names = [field.strip() for field in fields]
    while len(names) > 1 and not names[-1]:  # the line ends in a delimiter
        names.pop()
    if all(is_number(name) for name in names):
        raise InvalidInputError(
            f"{path} starts with numbers ({', '.join(names[:3])}, ...) instead of column names; "
            "add a first line that names the columns."
        )
    header = tuple(name or f"unnamed {position}" for position, name in enumerate(names, start=1))
    check_names(header, path)
    return header


def check_names(names: Sequence[str], where: object) -> None:
    """Raise an error for a table with too many columns or duplicate names."""
    if len(names) > MOST_COLUMNS:
        raise InvalidInputError(
            f"{where} has {len(names):,} columns, more than the limit of {MOST_COLUMNS:,}; check the "
            "delimiter, or exchange rows and columns."
        )
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise InvalidInputError(f"{where} has more than one column named {twice[0]!r}; give each its own name.")


def _decimal(lines: Sequence[str], delimiter: str) -> str:
    """Return a comma if fields look like 1,5 and none like 1.5."""
    if delimiter == ",":
        return "."
    fields = (field.strip(' "\t\r\n') for line in lines for field in line.split(delimiter))
    signs = {found[1] for field in fields if (found := DECIMALS.fullmatch(field))}
    return "," if signs == {","} else "."
