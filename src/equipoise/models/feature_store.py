"""A crash-safe array on disk that grows row by row and gets its name once complete."""

import math
import os
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InvalidInputError, InvalidStateError
from equipoise.storage.files import lock, remove_abandoned, sync_folder, write_atomically

SECONDS_BETWEEN_RECORDS = 1.0


class _Record(msgspec.Struct):
    """``NAME.json``: rows and checksum of each part that is safely stored."""

    shape: tuple[int, int]
    parts: list[tuple[int, int]]
    format: Literal[1] = 1


class FeatureStore:
    """float32 rows of a ``shape`` under one name in a folder, appended part by part; use it as a context manager.

    ``NAME.npy.part`` grows; ``NAME.json`` tells how many rows of it are safe, with a checksum for each part, and is
    written after the rows themselves are on disk. ``NAME.npy`` is the same file, renamed when it is whole. A lock keeps
    other processes out meanwhile; the system releases it however its holder ends.
    """

    def __init__(self, folder: Path, name: str, *, shape: tuple[int, int]) -> None:
        self.shape, self.folder = shape, folder
        self.whole, self.part = folder / f"{name}.npy", folder / f"{name}.npy.part"
        self.record, self.lock = folder / f"{name}.json", folder / f"{name}.lock"
        self.parts: list[tuple[int, int]] = []  # (rows, checksum) of each
        self.complete = False
        self._file: IO[bytes] | None = None
        self._recorded = -math.inf  # when

    @property
    def rows(self) -> int:
        """Number of rows safely stored."""
        return sum(rows for rows, _ in self.parts)

    def __enter__(self) -> "FeatureStore":
        with self._refusals():
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock_file = self.lock.open("a")
            lock(self._lock_file, wait=True)
            remove_abandoned(self.folder, self.record.name)
        try:
            self._recover()
        except BaseException:
            self._lock_file.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            with suppress(OSError):  # a full disk has been reported already
                self._save_record()  # an interruption loses nothing
            with suppress(OSError):
                self._file.close()
        self._file = None
        self._lock_file.close()

    def append(self, rows: NDArray[np.float32]) -> None:
        """Append rows."""
        content = np.ascontiguousarray(rows, dtype="<f4").tobytes()
        with self._refusals():
            self._open_part().write(content)
            self.parts.append((len(rows), zlib.crc32(content)))
            if time.monotonic() - self._recorded >= SECONDS_BETWEEN_RECORDS:
                self._save_record()

    def finish(self) -> None:
        """Rename the file to its final name; all rows must be there."""
        if self.rows != self.shape[0]:
            raise InvalidStateError(f"only {self.rows} of {self.shape[0]} rows are stored; append the others first.")
        with self._refusals():
            self._save_record()
            self._open_part().close()
            self._file = None
            self.part.replace(self.whole)
            sync_folder(self.folder)
        self.complete = True

    def open(self) -> NDArray[np.float32]:
        """Return the whole array, memory-mapped; changes to it stay in memory."""
        found: NDArray[np.float32] = np.load(self.whole, mmap_mode="c", allow_pickle=False)
        return found

    def clear(self) -> None:
        """Delete everything, to start afresh."""
        for path in (self.record, self.whole, self.part):
            path.unlink(missing_ok=True)
        self.parts, self.complete = [], False

    def _recover(self) -> None:
        """Take over what an earlier process left, as far as its record and checksums match."""
        record = self._read_record()
        if record is None:
            self.clear()
            return
        named = self.whole.exists()
        self.parts = _sound_parts(self.whole if named else self.part, self._header(), self.shape[1], record)
        self.complete = named and self.rows == self.shape[0]
        if not self.parts or (named and not self.complete):
            self.clear()

    def _open_part(self) -> IO[bytes]:
        """Open the growing file, truncated after the last safe row."""
        if self._file is None:
            if not self.parts:
                self.part.write_bytes(self._header())
            self._file = self.part.open("r+b")
            self._file.truncate(len(self._header()) + 4 * self.rows * self.shape[1])
            self._file.seek(0, os.SEEK_END)
        return self._file

    def _save_record(self) -> None:
        """Flush the rows to disk, then their record, in this order."""
        file = self._open_part()
        file.flush()
        os.fsync(file.fileno())
        write_atomically(self.record, msgspec.json.encode(_Record(self.shape, self.parts)))
        self._recorded = time.monotonic()

    def _read_record(self) -> list[tuple[int, int]] | None:
        try:
            found = msgspec.json.decode(self.record.read_bytes(), type=_Record)
        except (OSError, ValueError):  # msgspec's errors are ValueErrors
            return None
        fits = found.shape == self.shape and sum(rows for rows, _ in found.parts) <= self.shape[0]
        return found.parts if fits else None

    def _header(self) -> bytes:
        """Return the header of an .npy file of the full shape."""
        header = BytesIO()
        description: dict[str, Any] = {"descr": "<f4", "fortran_order": False, "shape": self.shape}
        np.lib.format.write_array_header_1_0(header, description)
        return header.getvalue()

    @contextmanager
    def _refusals(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InvalidInputError(
                f"features cannot be kept in {self.folder} ({error}); pass cache=FOLDER with room to write, or "
                "cache=False."
            ) from error


def _sound_parts(path: Path, header: bytes, columns: int, record: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the leading parts of the file whose checksums match their record."""
    sound: list[tuple[int, int]] = []
    with suppress(OSError), path.open("rb") as file:
        if file.read(len(header)) != header:
            return []
        for rows, checksum in record:
            content = file.read(4 * columns * rows)
            if len(content) != 4 * columns * rows or zlib.crc32(content) != checksum:
                break
            sound.append((rows, checksum))
    return sound
