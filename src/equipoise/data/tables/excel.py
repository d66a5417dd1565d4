"""Tables in Excel workbooks: the first sheet that holds one, with formulas as their last saved values."""

import zipfile
from typing import Any

from equipoise.errors import InvalidInputError, reason
from equipoise.storage.size_limits import check_unpacked
from equipoise.storage.unnamed_file import ReadableFile

MOST_CELLS = 10**8
ERRORS = ("#N/A", "#DIV/0!", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!")
"""Values of cells whose formula failed; they count as missing."""


def read_excel(path: ReadableFile) -> tuple[Any, list[str]]:
    """Read a table as a data frame, with a note on the sheet if there are several."""
    try:
        import openpyxl
    except ImportError:
        raise InvalidInputError(
            f"reading {path} needs openpyxl; run `pip install 'equipoise[excel]'`, or save the table as CSV."
        ) from None
    try:
        with path.open("rb") as opened:
            with zipfile.ZipFile(opened) as archive:
                size = sum(info.file_size for info in archive.infolist())
            check_unpacked(path, size, remedy="save the table as CSV")
            opened.seek(0)
            book = openpyxl.load_workbook(opened, read_only=True, data_only=True)
            try:
                return _first_table(path, book)
            finally:
                book.close()
    except InvalidInputError:
        raise
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read ({reason(error)}); check the path.") from None
    except Exception as error:  # openpyxl passes on whatever its parsers raise
        raise InvalidInputError(
            f"{path} is not an Excel workbook or is damaged ({reason(error)}); save the table as CSV."
        ) from None


def _first_table(path: ReadableFile, book: Any) -> tuple[Any, list[str]]:
    sheets = [sheet for sheet in book.worksheets if sheet.sheet_state == "visible"] or book.worksheets
    for sheet in sheets:
        rows = _rows(path, sheet)
        if rows:
            several = f"{path}: sheet {sheet.title!r} of {len(book.worksheets)} is read."
            return _frame(path, rows), [several] if len(book.worksheets) > 1 else []
    raise InvalidInputError(f"{path} is empty; a table starts with a row of column names.")


def _rows(path: ReadableFile, sheet: Any) -> list[list[Any]]:
    """Return the non-empty rows, without trailing empty cells."""
    sheet.reset_dimensions()  # the size that a file claims cannot be trusted
    found, cells = [], 0
    for values in sheet.iter_rows(values_only=True):
        row = [None if value in ERRORS else value for value in values]
        while row and row[-1] is None:
            row.pop()
        cells += len(row)
        if cells > MOST_CELLS:
            raise InvalidInputError(f"{path} has more than {MOST_CELLS:,} cells; save the table as CSV.")
        if row:
            found.append(row)
    return found


def _frame(path: ReadableFile, rows: list[list[Any]]) -> Any:
    import pandas as pd

    header = rows[0]
    width = max(map(len, rows))
    if len(header) < width or any(name is None for name in header):
        place = next(place for place in range(width) if place >= len(header) or header[place] is None)
        raise InvalidInputError(f"{path} has no name for column {place + 1} in its first row; name every column.")
    columns = zip(*(row + [None] * (width - len(row)) for row in rows[1:]), strict=True)
    names = [str(name).strip() for name in header]
    values = [pd.Series(list(column)).infer_objects() for column in columns] or [pd.Series([], dtype=object)] * width
    frame = pd.concat(values, axis=1) if values else pd.DataFrame()
    frame.columns = pd.Index(names)
    return frame
