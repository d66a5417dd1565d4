"""JSON lines as tables: one object per line, with plain values by column name."""

from collections.abc import Iterator
from typing import Any

from equipoise.data.tables.text_files import clear_errors, open_table
from equipoise.errors import InvalidInputError, reason
from equipoise.storage.size_limits import parse_json
from equipoise.storage.unnamed_file import ReadableFile

LONGEST_LINE = 2**24


def json_parts(path: ReadableFile, *, rows: int) -> Iterator[Any]:
    """Yield data frames of up to ``rows`` rows; columns of earlier parts that a part lacks are empty in it."""
    import pandas as pd

    records: list[dict[str, Any]] = []
    names: dict[str, None] = {}
    for record in _records(path):
        names |= dict.fromkeys(record)
        records.append(record)
        if len(records) == rows:
            yield pd.DataFrame(records, columns=list(names))
            records = []
    if records or not names:
        yield pd.DataFrame(records, columns=list(names))


def read_json_lines(path: ReadableFile) -> tuple[Any, list[str]]:
    """Read the whole table as a data frame; there is nothing to note."""
    import pandas as pd

    records = list(_records(path))
    return pd.DataFrame(records, columns=list(dict.fromkeys(name for record in records for name in record))), []


def _records(path: ReadableFile) -> Iterator[dict[str, Any]]:
    """Yield the object of each line."""
    number = 0
    with clear_errors(path), open_table(path, "utf-8-sig") as file:
        while line := file.readline(LONGEST_LINE):
            number += 1
            if len(line) == LONGEST_LINE:
                raise InvalidInputError(f"{path} has no line end in {LONGEST_LINE:,} characters; is it JSON lines?")
            if line.strip():
                yield _record(line, f"line {number} of {path}")


def _record(line: str, where: str) -> dict[str, Any]:
    try:
        found = parse_json(line)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"{where} is not JSON ({reason(error)}); each line must be one object in braces."
        ) from None
    if not isinstance(found, dict):
        raise InvalidInputError(f"{where} must be an object in braces, with a value for each column.")
    nested = next((name for name, value in found.items() if isinstance(value, dict | list)), None)
    if nested is not None:
        raise InvalidInputError(
            f"{where} holds a list or an object in {' '.join(nested.split())!r}; give plain values, one per column."
        )
    return found
