"""Layout of a delimited text file: delimiter, header, decimal sign and encoding, found from its first lines."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from equipoise.data.tables.text_files import OLD_ENCODINGS, clear_errors, find_encoding, open_table
from equipoise.errors import InvalidInputError
from equipoise.storage.unnamed_file import ReadableFile
from equipoise.wording import are_codes, is_numeric_text

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

    path: ReadableFile
    header: tuple[str, ...]
    delimiter: str
    decimal: str
    encoding: str
    skipped: int = 0  # lines before the header
    codes: frozenset[str] = frozenset()  # columns of codes such as 01000, which are not numbers
    lines: int = 0  # about as many as the whole file has; 0 where it is not UTF-8

    @property
    def notes(self) -> list[str]:
        """Sentences on how the text was read."""
        if self.encoding not in OLD_ENCODINGS:
            return []
        return [f"{self.path} is not UTF-8; read as {OLD_ENCODINGS[self.encoding]}: check letters such as é, ß or €."]


def find_layout(path: ReadableFile) -> Layout:
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
    declared = SEPARATOR.match(beginning[0]) if beginning else None
    beginning = beginning[1:] if declared else beginning
    lines = beginning[:SAMPLE_ROWS]
    if not any(line.strip() for line in lines):
        raise InvalidInputError(f"{path} is empty; a table starts with a line of column names.")
    delimiter = declared[1] if declared else sniff_delimiter(lines)
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
        skipped=int(bool(declared)),
        codes=frozenset(name for name, values in columns if are_codes(values)),
        lines=round(size / len(start.encode()) * len(beginning)),
    )


def _first_values(header: Sequence[str], lines: Sequence[str], delimiter: str) -> list[tuple[str, list[str]]]:
    """Return the name and the values that are not missing of each column."""
    columns = zip(*(row for row in _fields(lines, delimiter) if len(row) >= len(header)), strict=False)
    fields = ([field.strip() for field in column] for column in columns)
    known = ([field for field in column if field not in MISSING] for column in fields)
    return list(zip(header, known, strict=False))


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


def stripped_lines(lines: Any, delimiter: str) -> Iterator[str]:
    """Strip spaces at the ends of lines, which are not fields where spaces are the delimiter."""
    return (line.strip(" \r\n") for line in lines) if delimiter == " " else iter(lines)


def _fields(lines: Sequence[str], delimiter: str) -> Iterator[list[str]]:
    reader = csv.reader(stripped_lines(lines, delimiter), delimiter=delimiter, skipinitialspace=True)
    return (row for row in reader if row)


def _check_header(path: ReadableFile, fields: Sequence[str]) -> tuple[str, ...]:
    names = [field.strip() for field in fields]
    while len(names) > 1 and not names[-1]:  # the line ends in a delimiter
        names.pop()
    if all(is_numeric_text(name) for name in names):
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
