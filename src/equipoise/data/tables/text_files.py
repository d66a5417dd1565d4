"""Text files: opening, decompressing within limits, finding the encoding, and clear errors."""

import bz2
import codecs
import csv
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any

from equipoise.errors import InvalidInputError, reason
from equipoise.storage.size_limits import check_unpacked, most_unpacked
from equipoise.storage.unnamed_file import ReadableFile

OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
NO_TABLES = {
    rb"PK\x03\x04": "a zip archive or a spreadsheet; give a spreadsheet a name that ends in .xlsx, or save it as CSV",
    rb"\xd0\xcf\x11\xe0": "an old Excel spreadsheet (.xls); save it as CSV",
    rb"PAR1": "a Parquet file; give it a name that ends in .parquet",
    rb"%PDF-": "a PDF; give the table as CSV",
    rb"\x89PNG|\xff\xd8\xff|GIF8": "an image; give a table, or a folder of images",
    rb"version https://git-lfs": "a Git LFS pointer, not the file itself; run `git lfs pull` to get it",
    rb"(?i)(?:\xef\xbb\xbf)?\s{0,99}<(?:!doctype html|html|head)": "a web page, not a table; if you "
    "downloaded it, check the address, which may need a login",
    rb"(?:\xef\xbb\xbf)?\s{0,99}(?:\[\s{0,99})?\{\s{0,99}(?:\"[^\"\n]{0,999}\"\s{0,99}:|\})": "JSON; if each "
    "line is an object, give it a name that ends in .jsonl, otherwise convert it to CSV, for example with "
    "pandas.read_json(FILE).to_csv",
}
"""First bytes of files often mistaken for a table, and what to do about them."""
OLD_ENCODINGS = {"cp1252": "Windows-1252", "latin-1": "Latin-1"}
"""Encodings of text that is not UTF-8, as Windows and old programs write it in Western Europe."""
UNDEFINED = bytes((0x81, 0x8D, 0x8F, 0x90, 0x9D))
"""Bytes that are undefined in Windows-1252."""
CONTROLS = bytes({*range(9), *range(14, 32), 127} - {27})
"""Bytes that do not occur in text."""
CHUNK = 2**17  # more than that leaves the processor's cache
DAMAGED = (EOFError, zlib.error, lzma.LZMAError, gzip.BadGzipFile)


@contextmanager
def clear_errors(path: ReadableFile) -> Iterator[None]:
    """Turn errors of the parser and the file system into one sentence."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"{path} is not {error.encoding.upper()} text (byte 0x{error.object[error.start]:02x}); save it as UTF-8, "
            "in Excel as 'CSV UTF-8'."
        ) from None
    except csv.Error as error:
        raise InvalidInputError(_ragged(path, str(error))) from None
    except DAMAGED as error:
        raise InvalidInputError(f"{path} is damaged or cut short ({error}); get the file again.") from None
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read ({reason(error)}); check the path.") from None


@contextmanager
def parser_errors(path: ReadableFile) -> Iterator[None]:
    """Turn errors of pandas' parser into one sentence.

    This is apart from the header, which does not need pandas: importing it is slow.
    """
    from pandas.errors import ParserError

    try:
        with clear_errors(path):
            yield
    except ParserError as error:
        raise InvalidInputError(_ragged(path, str(error))) from None


def _ragged(path: ReadableFile, message: str) -> str:
    found = re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", message)
    if found:
        expected, line, saw = found.groups()
        return f"{path} has {saw} fields instead of {expected} in line {line}; correct that row or put it in quotes."
    if "EOF inside string" in message or "unexpected end of data" in message:
        return f"{path} has a quotation mark that is never closed; close or remove it."
    return f"{path} is not a readable table ({message.strip()}); check the delimiter and the quotation marks."


def find_encoding(path: ReadableFile) -> tuple[str, int]:
    """Return the encoding of a file and, if that is UTF-8, the number of its bytes."""
    with open_table(path, None) as file:
        start = file.read(4096)
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16", 0
    for begins, sentence in NO_TABLES.items():
        if re.match(begins, start):
            raise InvalidInputError(f"{path} is {sentence}.")
    if b"\0" in start:
        raise InvalidInputError(f"{path} is not a text file; give CSV, TSV, Parquet or .npz.")
    size = _size_of_utf8(path)
    return (_old_encoding(path), 0) if size is None else ("utf-8-sig", size)


def _size_of_utf8(path: ReadableFile) -> int | None:
    """Return the number of bytes, uncompressed; None where the file is not UTF-8."""
    decoder, size = codecs.getincrementaldecoder("utf-8")(), 0
    with open_table(path, None) as file:
        try:
            while chunk := file.read(CHUNK):
                decoder.decode(_without_ascii(chunk))
                size += len(chunk)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return None
    return size


def _without_ascii(text: bytes) -> bytes:
    """Return text with a space for each run of ASCII characters: decoding it fails where decoding all of it would."""
    import numpy as np

    signed = np.frombuffer(text, dtype=np.int8)
    places = np.flatnonzero(signed < 0)
    runs = np.insert(signed[places], np.flatnonzero(np.diff(places) > 1) + 1, ord(" ")).tobytes()
    return b" " * int(signed[0] >= 0) + runs + b" " * int(signed[-1] >= 0)


def _old_encoding(path: ReadableFile) -> str:
    """Return the encoding of text that is not UTF-8; decoding then refuses damaged UTF-8 and binary data."""
    encoding = "cp1252"
    with open_table(path, None) as file:
        while chunk := file.read(CHUNK):
            letters = [letter for letter in chunk.decode("utf-8", errors="replace") if not letter.isascii()]
            wrong = letters.count("\N{REPLACEMENT CHARACTER}")
            if chunk.translate(None, CONTROLS) != chunk or len(letters) - wrong > wrong:
                return "utf-8-sig"
            encoding = "latin-1" if chunk.translate(None, UNDEFINED) != chunk else encoding
    return encoding


def open_table(path: ReadableFile, encoding: str | None) -> IO[Any]:
    """Open a table, decompressed within limits, as bytes or as text of an encoding."""
    opener = OPENERS.get(path.suffix.lower())
    file: IO[bytes] = path.open("rb") if opener is None else io.BufferedReader(_Unpacked(opener, path))
    return file if encoding is None else io.TextIOWrapper(file, encoding=encoding, newline="")


class _Unpacked(io.RawIOBase):
    """A compressed table that decompresses on reading, up to many times its size."""

    def __init__(self, opener: Callable[..., Any], path: ReadableFile) -> None:
        self.file = path.open("rb")
        self.packed, self.path, self.size, self.most = opener(self.file), path, 0, most_unpacked(path)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = int(self.packed.readinto(buffer))
        self.size += count
        if self.size > self.most:
            check_unpacked(self.path, self.size, remedy="if that is right, unpack it and give the table itself")
        return count

    def close(self) -> None:
        self.packed.close()
        self.file.close()
        super().close()
