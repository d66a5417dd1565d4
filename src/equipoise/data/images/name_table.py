"""The names of many files in little memory, which worker processes share without copying."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InvalidInputError


@dataclass(frozen=True)
class FileTable:
    """Files below one root. A worker that reads a Python object copies its page to count the reference, so 200,000
    path objects would end up once in every worker; here all names are one buffer.

    Args:
        root: the folder which the names start from.
        names: all names, one after another, encoded as the file system does.
        ends: where each name ends in ``names``, (files,).
        sizes: bytes of each file, (files,).
        times: nanoseconds of the last change of each file's content and of its entry in the file system, (files, 2).
            Whoever replaces a file in place can set the first as it was, not the second.
        digests: a hash of each file's content, (files, 16), once it is known.
    """

    root: str
    names: bytes
    ends: NDArray[np.int64]
    sizes: NDArray[np.int64]
    times: NDArray[np.int64]
    digests: NDArray[np.uint8] | None = None

    @classmethod
    def of(cls, root: str | os.PathLike[str], names: Sequence[str]) -> "FileTable":
        """Files that must exist, by their names below ``root``."""
        base = os.path.abspath(root)
        encoded = [os.fsencode(name) for name in names]
        sizes, times = np.empty(len(names), dtype=np.int64), np.empty((len(names), 2), dtype=np.int64)
        for row, name in enumerate(names):
            try:
                found = os.stat(os.path.join(base, name))
            except OSError as error:
                raise InvalidInputError(
                    f"the image {name!r} is not in {base!r} ({error.strerror}); check the folder."
                ) from error
            sizes[row], times[row] = found.st_size, (found.st_mtime_ns, found.st_ctime_ns)
        ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)
        return cls(base, b"".join(encoded), ends, sizes, times)

    def __len__(self) -> int:
        return len(self.ends)

    def name(self, row: int) -> str:
        """The name of one file, from the root."""
        start = int(self.ends[row - 1]) if row > 0 else 0
        return os.fsdecode(self.names[start : int(self.ends[row])])

    def path(self, row: int) -> str:
        """Where one file lies."""
        return os.path.join(self.root, self.name(row))

    def take(self, rows: NDArray[np.intp]) -> "FileTable":
        """A table of the given rows alone."""
        encoded = [os.fsencode(self.name(int(row))) for row in rows]
        ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)
        digests = None if self.digests is None else self.digests[rows]
        return FileTable(self.root, b"".join(encoded), ends, self.sizes[rows], self.times[rows], digests)

    def key(self, rows: NDArray[np.intp]) -> "hashlib.blake2b":
        """A hash of the rows' names and content, or while that is not known of what tells of a change to it: their
        place, sizes and times; open to be told more."""
        key = self.content_key(rows)
        if self.digests is None:
            key.update(self.times[rows].tobytes())
            key.update(os.fsencode(os.path.realpath(self.root)))
        return key

    def content_key(self, rows: NDArray[np.intp]) -> "hashlib.blake2b":
        """A hash of the rows' names and content, or while that is not known their sizes: the same on every machine."""
        key = hashlib.blake2b(digest_size=16)
        for row in rows:
            key.update(os.fsencode(self.name(int(row))) + b"\0")
        key.update((self.sizes if self.digests is None else self.digests)[rows].tobytes())
        return key


class Paths(Sequence[Path]):
    """The files of some rows of a table; each path is made when it is asked for."""

    def __init__(self, table: FileTable, rows: NDArray[np.intp]) -> None:
        self._table, self._rows = table, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        if isinstance(index, slice):
            return Paths(self._table, self._rows[index])
        return Path(self._table.path(int(self._rows[index])))

    def __iter__(self) -> Iterator[Path]:
        return (Path(self._table.path(int(row))) for row in self._rows)
