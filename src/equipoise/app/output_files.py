"""Output files: rows as CSV, Parquet or JSON lines, with harmless names."""

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from equipoise.errors import InvalidInputError, reason
from equipoise.storage.files import DiskFullError, raise_if_full, remove_abandoned, write_atomically, written_beside
from equipoise.wording import is_numeric_text

if TYPE_CHECKING:
    import pandas as pd

FORMATS = {".csv": "csv", ".parquet": "parquet", ".pq": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}
FIGURES, DECIMALS = 7, 9  # the precision of float32
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""First characters of a cell that a spreadsheet takes for a formula."""
Write = Callable[["pd.DataFrame"], None]
UNKNOWN = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    r"""Replace control characters, which a terminal would obey, and characters that cannot be encoded.

    >>> printable("a\x1b[31m")
    'a�[31m'
    """
    return text if text.isprintable() else "".join(sign if sign.isprintable() else UNKNOWN for sign in text)


def one_line(text: Any, longest: int = 200) -> str:
    """Return text fit for a page: one line of limited length, without control or direction-changing characters."""
    plain = "".join(letter if letter.isprintable() else " " if letter.isspace() else UNKNOWN for letter in str(text))
    return plain if len(plain) <= longest else plain[: longest - 1] + "…"


def printable_json(text: str) -> str:
    r"""Escape characters that JSON allows but a terminal would obey; the values stay the same.

    >>> printable_json('{"a": "\x7f\x9b"}')
    '{"a": "\\u007f\\u009b"}'
    """
    return "\n".join(line if line.isprintable() else "".join(map(_escaped, line)) for line in text.split("\n"))


def _escaped(sign: str) -> str:
    if sign.isprintable():
        return sign
    units = sign.encode("utf-16-be", errors="surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def defused(value: Any) -> Any:
    """Put an apostrophe before text that would be a formula, and replace control characters; leave numbers unchanged.

    >>> defused("=1+1"), defused("-1.5"), defused(-1.5)
    ("'=1+1", '-1.5', -1.5)
    """
    if not isinstance(value, str):
        return value
    return printable(f"'{value}" if is_formula(value) else value)


def defused_table(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Defuse each name and text of a table; numbers stay numbers.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"=a": ["@b", "-1.5", "c"], "d": [-1.0, 2.0, 3.0]})
    >>> defused_table(table).to_csv(index=False).splitlines()
    ["'=a,d", "'@b,-1.0", '-1.5,2.0', 'c,3.0']
    """
    from pandas.api.types import is_object_dtype, is_string_dtype

    texts = [name for name, kind in frame.dtypes.items() if is_object_dtype(kind) or is_string_dtype(kind)]
    changed = {name: frame[name].map(defused) for name in texts}
    return frame.assign(**changed).set_axis([defused(name) for name in frame.columns], axis=1)


def is_formula(text: str) -> bool:
    """Return whether a spreadsheet would take text for a formula; a signed number is not one.

    >>> is_formula("=1+1"), is_formula("-1.5"), is_formula("-x")
    (True, False, True)
    """
    return text.startswith(FORMULA) and not (text == text.strip() and is_numeric_text(text))


def format_of(out: Path | None, asked: str | None) -> str:
    """Return the requested format, otherwise the one in the file's name, otherwise CSV."""
    if asked is not None and asked not in WRITERS:
        raise InvalidInputError(f"--format must be one of {', '.join(WRITERS)}, got {asked!r}.")
    if out is None:
        if asked == "parquet":
            raise InvalidInputError("Parquet cannot be printed; name a file with --out.")
        return asked or "csv"
    known = FORMATS.get(out.suffix.lower())
    if asked is None and known is None:
        raise InvalidInputError(f"{out.name} must end in {', '.join(FORMATS)}, or add --format.")
    return asked or str(known)


def check_free(out: Path, force: bool) -> None:
    """Raise an error for a folder, a file in a missing folder, and a file that may not be replaced."""
    if out.is_dir():
        raise InvalidInputError(f"{out} is a folder; name a file.")
    if not out.parent.is_dir():
        raise InvalidInputError(f"{out} cannot be written; name a file in a folder that exists.")
    if out.exists() and not force:
        raise InvalidInputError(f"{out} exists; pass --force to replace it, or name another file.")


@contextmanager
def refusing(out: Path) -> Iterator[None]:
    """Turn the system's refusal to write a file of the user's into a sentence; a full disk has one already."""
    try:
        remove_abandoned(out.parent, out.name)
        yield
    except DiskFullError:
        raise
    except OSError as error:
        raise_if_full(error, out, 0)
        raise InvalidInputError(f"{out} cannot be written ({reason(error)}); choose another file.") from error


def write_file(out: Path, content: bytes) -> None:
    """Write a file of the user's atomically."""
    with refusing(out):
        write_atomically(out, content)


@contextmanager
def open_rows(out: Path | None, *, kind: str, force: bool = False, raw: bool = False) -> "Iterator[Write]":
    """Yield a function that writes a table's rows into a file, which is complete at the end or absent.

    Without ``out`` they go to standard output. ``raw`` writes names to CSV unchanged, even if a spreadsheet would take
    them for formulas.
    """
    with _output(out, force=force) as file, WRITERS[kind](file) as write:
        yield write if raw or kind != "csv" else lambda frame: write(defused_table(frame))


def write_rows(frame: "pd.DataFrame", out: Path, *, kind: str, force: bool = False, raw: bool = False) -> None:
    """Write a whole table, as :func:`open_rows` does."""
    with open_rows(out, kind=kind, force=force, raw=raw) as write:
        write(frame)


@contextmanager
def _output(out: Path | None, *, force: bool) -> Iterator[BinaryIO]:
    """Open standard output, or a file beside the wanted one that is renamed when complete."""
    if out is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    check_free(out, force)
    with refusing(out), written_beside(out) as file:
        yield file
        check_free(out, force)  # it may have appeared meanwhile


@contextmanager
def _csv(file: BinaryIO) -> Iterator[Write]:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    first = True

    def write(frame: "pd.DataFrame") -> None:
        nonlocal first
        frame.to_csv(text, index=False, header=first, float_format=f"%.{FIGURES}g", lineterminator="\n")
        first = False

    try:
        yield write
    finally:
        text.detach()


@contextmanager
def _jsonl(file: BinaryIO) -> Iterator[Write]:
    def write(frame: "pd.DataFrame") -> None:
        text = frame.to_json(orient="records", lines=True, force_ascii=False, double_precision=DECIMALS)
        file.write(printable_json(text).encode("utf-8"))

    yield write


@contextmanager
def _parquet(file: BinaryIO) -> Iterator[Write]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise InvalidInputError("Parquet needs pyarrow; install it with `pip install 'equipoise[parquet]'`.") from None
    writer: Any = None

    def write(frame: "pd.DataFrame") -> None:
        nonlocal writer
        table = pyarrow.Table.from_pandas(frame, preserve_index=False)
        if writer is None:
            writer = pyarrow.parquet.ParquetWriter(file, table.schema)
        writer.write_table(table)

    try:
        yield write
    finally:
        if writer is not None:
            writer.close()


WRITERS: "dict[str, Callable[[BinaryIO], AbstractContextManager[Write]]]" = {
    "csv": _csv,
    "jsonl": _jsonl,
    "parquet": _parquet,
}
