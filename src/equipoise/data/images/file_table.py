"""Many files below one root in a few arrays: names, sizes, times, and hashes of their content."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.data.images.decode import INSIDE
from equipoise.errors import InvalidInputError


@dataclass(frozen=True)
class FileTable:
    """Files below one root, with all names, as the file system encodes them, in one buffer.

    A worker that reads a Python object copies its page to count the reference, so 200,000 path objects would end up
    in every worker. ``times`` are nanoseconds of the last change of each file's content and of its entry in the file
    system, (files, 2): replacing a file in place can preserve the first, but not the second.
    """

    root: str
    names: NDArray[np.bytes_]
    sizes: NDArray[np.int64]
    times: NDArray[np.int64]
    digests: NDArray[np.uint8] | None = None
    offsets: NDArray[np.int64] | None = None  # of files inside tar shards, ``SHARD/NAME``, in bytes

    @classmethod
    def of(cls, root: str | os.PathLike[str], names: Sequence[str]) -> "FileTable":
        """Build a table of existing files from their names below ``root``."""
        base = os.path.abspath(root)
        sizes, times = np.empty(len(names), dtype=np.int64), np.empty((len(names), 2), dtype=np.int64)
        for row, name in enumerate(names):
            try:
                found = os.stat(os.path.join(base, name))
            except OSError as error:
                raise InvalidInputError(
                    f"the image {name!r} is not in {base!r} ({error.strerror}); check the folder."
                ) from error
            sizes[row], times[row] = found.st_size, (found.st_mtime_ns, found.st_ctime_ns)
        return cls(base, np.array([os.fsencode(name) for name in names], dtype=np.bytes_), sizes, times)

    def __len__(self) -> int:
        return len(self.names)

    def name(self, row: int) -> str:
        """Return the name of one file, relative to the root."""
        return os.fsdecode(bytes(self.names[row]))

    def path(self, row: int) -> str:
        """Return the path of one file."""
        return os.path.join(self.root, self.name(row))

    def source(self, row: int) -> str:
        """Return the path of one file, or its place inside a shard, in the form that ``read_bytes`` takes."""
        if self.offsets is None:
            return self.path(row)
        shard = os.path.join(self.root, self.name(row).partition("/")[0])
        return f"{shard}{INSIDE}{self.offsets[row]}+{self.sizes[row]}"

    def shards(self, rows: NDArray[np.intp]) -> NDArray[np.int64] | None:
        """Return the number of each row's shard; None for plain files."""
        if self.offsets is None:
            return None
        first = np.char.partition(self.names[rows], b"/")[:, 0]
        return np.unique(first, return_inverse=True)[1].astype(np.int64)

    def take(self, rows: NDArray[np.intp]) -> "FileTable":
        """Return a table of the given rows only."""
        digests = None if self.digests is None else self.digests[rows]
        offsets = None if self.offsets is None else self.offsets[rows]
        return FileTable(self.root, self.names[rows], self.sizes[rows], self.times[rows], digests, offsets)

    def key(self, rows: NDArray[np.intp]) -> "hashlib.blake2b":
        """Return a hash of the rows' names and content, to which more data can be added.

        While the content is unknown, it is of their place, sizes and times, which show changes.
        """
        key = self.content_key(rows)
        if self.digests is None:
            key.update(self.times[rows].tobytes())
            key.update(os.fsencode(os.path.realpath(self.root)))
        return key

    def content_key(self, rows: NDArray[np.intp]) -> "hashlib.blake2b":
        """Return a machine-independent hash of the rows' names and content, or sizes while that is unknown."""
        key = hashlib.blake2b(b"".join(name + b"\0" for name in self.names[rows].tolist()), digest_size=16)
        key.update((self.sizes if self.digests is None else self.digests)[rows].tobytes())
        return key
