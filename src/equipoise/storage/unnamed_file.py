"""A stream kept in an unnamed file: however the process ends, nothing stays on disk."""

import io
import os
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any, BinaryIO


class HeldFile:
    """A whole stream that can be read repeatedly; it offers what the table readers use of a path.

    >>> held = HeldFile(io.BytesIO(b"a,b"), "standard input")
    >>> with held, held.open() as once, held.open() as again:
    ...     (once.read(1), again.read(), once.read(), held.stat().st_size, f"{held}")
    (b'a', b'a,b', b',b', 3, 'standard input')
    """

    def __init__(self, stream: BinaryIO, name: str, *, suffix: str = "", begin: bytes = b"") -> None:
        self.name, self.suffix = name, suffix
        self.parent = ""  # relative paths in it begin at the working directory
        self._file = tempfile.TemporaryFile(prefix="equipoise-")  # noqa: SIM115 (closed by __exit__)
        self._lock = threading.Lock()
        self._file.write(begin)
        shutil.copyfileobj(stream, self._file)
        self._file.flush()

    def __enter__(self) -> "HeldFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def __str__(self) -> str:
        return self.name

    def stat(self) -> os.stat_result:
        """Return the file's status, as ``Path.stat`` does."""
        return os.fstat(self._file.fileno())

    def open(self, mode: str = "rb") -> BinaryIO:  # noqa: ARG002
        """Open a reader at the beginning, with its own position."""
        return io.BufferedReader(_Reader(self._file, self._lock))


ReadableFile = Path | HeldFile
"""A file that the table readers accept."""


class _Reader(io.RawIOBase):
    def __init__(self, file: Any, lock: threading.Lock) -> None:
        self.file, self.lock, self.place = file, lock, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self.place, os.SEEK_END: os.fstat(self.file.fileno()).st_size}
        self.place = base[whence] + offset
        if self.place < 0:
            raise OSError(f"a place of {self.place} before the beginning")
        return self.place

    def readinto(self, buffer: Any) -> int:
        with self.lock:
            self.file.seek(self.place)
            count = int(self.file.readinto(buffer))
        self.place += count
        return count
