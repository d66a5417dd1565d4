"""Images on disk that behave like one array and are decoded on demand."""

import ctypes
import functools
import hashlib
import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.cores_and_memory import cores, free_memory
from equipoise.data.images.decode import INSIDE, Fit, Pixels, Size, UnreadableImageError, decode_image
from equipoise.data.samples import Progress, SampleRows
from equipoise.errors import InvalidInputError

SHARE_OF_MEMORY = 4  # a cache takes at most a quarter of the free memory
ROWS_AT_ONCE = 256
BUFFER = 2**14
"""Images of shards that are shuffled together, as many shards as hold them, and at least one."""
MALLOPT_MMAP_THRESHOLD, MAPPED_BYTES = -3, 2**17
LARGE_FILE = 2**16  # below it the interpreter's work outweighs the decoder's, and threads only wait


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
        """Return where one file's bytes are: its path, or its place inside a shard, as ``read_bytes`` takes both."""
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
        """Return a hash of the rows' names and content; while the content is unknown, of their place, sizes and times,
        which show changes. More data can be added to the hash."""
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


class Images(SampleRows):
    """Image files as an array (images, channels, height, width) of uint8, read by indexing.

    ``images[rows]`` decodes those rows; ``images.take(rows)`` is a part that stays on disk. ``fit`` says how an image
    is brought to its ``size``, as in :func:`~equipoise.data.images.decode_image`.
    """

    from_files = True
    ndim, dtype = 4, np.dtype(np.uint8)

    def __init__(
        self, root: str | os.PathLike[str], names: Sequence[str], *, size: Size, channels: int, fit: Fit = "crop"
    ) -> None:
        if channels not in (1, 3) or len(size) != 2 or min(size) < 1:
            raise InvalidInputError(f"size must be (height, width) and channels 1 or 3, got {size} and {channels}.")
        self.table = FileTable.of(root, names)
        self.size: Size = (int(size[0]), int(size[1]))
        self.channels, self.fit = channels, fit
        self.skipped: tuple[tuple[str, str], ...] = ()  # files a reader left out, and why
        self._rows: NDArray[np.intp] = np.arange(len(names))
        self._decoded: Pixels | None = None  # all rows of the table
        self._places: NDArray[np.intp] = self._rows  # position of each row of the table in _decoded

    @classmethod
    def of_table(cls, table: FileTable, *, size: Size, channels: int, fit: Fit = "crop") -> "Images":
        """Return the images of an existing file table."""
        images = cls(table.root, (), size=size, channels=channels, fit=fit)
        images.table, images._rows = table, np.arange(len(table))
        return images

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return (len(self._rows), self.channels, *self.size)

    @property
    def nbytes(self) -> int:
        """Bytes of all images when decoded."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def paths(self) -> list[Path]:
        """The files, in order."""
        return [Path(self.table.path(int(row))) for row in self._rows]

    @property
    def names(self) -> list[str]:
        """The files relative to their root, in order."""
        return [self.table.name(int(row)) for row in self._rows]

    @property
    def digests(self) -> NDArray[np.uint8] | None:
        return None if self.table.digests is None else self.table.digests[self._rows]

    @property
    def read_as(self) -> dict[str, Any]:
        return {"size": self.size, "channels": self.channels}

    @property
    def on_disk(self) -> bool:
        """True if the images are not decoded yet."""
        return self._decoded is None

    def __len__(self) -> int:
        return len(self._rows)

    def blocks(self) -> NDArray[np.int64] | None:
        """Return the shard of each image on disk, if it is inside one: a shard is best read as a whole."""
        return self.table.shards(self._rows) if self.on_disk else None

    @property
    def groups_at_once(self) -> int:
        """Shards that are shuffled together."""
        shards = self.blocks()
        return 1 if shards is None else max(1, BUFFER // max(1, int(np.median(np.bincount(shards)))))

    def __repr__(self) -> str:
        where = "on disk" if self.on_disk else "in memory"
        return f"Images({self.shape[0]} × {self.channels} × {self.size[0]} × {self.size[1]}, {where})"

    def __getitem__(self, rows: Any) -> Pixels:
        """Return the pixels of one row (channels, height, width), or of several (rows, channels, height, width)."""
        if isinstance(rows, list) and not rows:
            rows = slice(0)  # an empty list has no type of its own
        chosen = self._rows[rows if isinstance(rows, slice) else np.asarray(rows)]
        if chosen.ndim > 1:
            raise InvalidInputError(
                f"images are indexed by one list of rows, got an index of {chosen.ndim} dimensions."
            )
        found = self._decode(np.atleast_1d(chosen))
        return found if chosen.ndim else found[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("images on disk cannot be an array without a copy.")
        whole = self._decode(self._rows)
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def take(self, rows: ArrayLike, axis: int = 0) -> "Images":  # noqa: ARG002
        """Return the given rows, in the given order, without decoding. The axis is that of numpy's take: always 0."""
        part = self._copy()
        part._rows = self._rows[np.asarray(rows, dtype=np.intp)]
        return part

    def fingerprint(self) -> str:
        """Return a hash that changes with a file's name or content, or with the decoding; for unchecked files, with
        their place, sizes and times instead of the content.
        """
        return self._decoded_as(self.table.key(self._rows))

    def content_key(self) -> str:
        """Return a hash that does not depend on where the files are: of their names, their content if checked,
        otherwise their sizes, and the decoding."""
        return self._decoded_as(self.table.content_key(self._rows))

    def _decoded_as(self, key: "hashlib.blake2b") -> str:
        key.update(f"{self.size} {self.channels} {self.fit}".encode())
        return key.hexdigest()

    def add_to(self, key: "hashlib.blake2b") -> None:
        key.update(self.content_key().encode())

    def preview(self, row: int, side: int) -> Pixels | None:
        """Decode a file in a network's aspect ratio but finer; return None if it is gone."""
        scale = side / max(self.size)
        size = max(1, round(self.size[0] * scale)), max(1, round(self.size[1] * scale))
        try:
            source = self.table.source(int(self._rows[row]))
            return decode_image(source, size=size, channels=self.channels, fit=self.fit)
        except UnreadableImageError:
            return None

    def cached(self, limit_bytes: int | None = None, *, progress: Progress | None = None) -> "Images":
        """Return these images decoded into memory if they fit into ``limit_bytes`` (a quarter of the free memory);
        otherwise these images unchanged, on disk."""
        limit = free_memory() // SHARE_OF_MEMORY if limit_bytes is None else limit_bytes
        if not self.on_disk or self.nbytes > limit:
            return self
        decoded = np.empty(self.shape, dtype=np.uint8)
        for start in range(0, len(self), ROWS_AT_ONCE):
            rows = slice(start, start + ROWS_AT_ONCE)
            decoded[rows] = self._decode(self._rows[rows])
            if progress:
                progress(min(start + ROWS_AT_ONCE, len(self)), len(self))
        kept = self._copy()
        kept._places = np.full(len(self.table), -1, dtype=np.intp)
        kept._places[self._rows] = np.arange(len(self))
        kept._decoded = decoded
        return kept

    def _copy(self) -> "Images":
        """Return another object on the same files and the same memory."""
        other = Images.__new__(Images)
        other.__dict__.update(self.__dict__)
        return other

    def _decode(self, rows: NDArray[np.intp]) -> Pixels:
        if self._decoded is not None:
            return self._decoded[self._places[rows]]
        out = np.empty((len(rows), self.channels, *self.size), dtype=np.uint8)

        def one(place: int) -> None:
            out[place] = self._decode_file(int(rows[place]))

        if _in_worker():
            steady_heap()
        threads = _threads(self.table.sizes[rows])
        if threads == 1:
            for place in range(len(rows)):
                one(place)
        else:  # a pool of its own: threads that outlive the call would disturb a later fork
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(one, range(len(rows))))
        return out

    def _decode_file(self, row: int) -> Pixels:
        path = self.table.path(row)
        try:
            return decode_image(self.table.source(row), size=self.size, channels=self.channels, fit=self.fit)
        except UnreadableImageError as error:
            raise UnreadableImageError(
                f"{path!r} was there at the start but cannot be read now ({error.reason}); restore it, or start again "
                "so that it is left out.",
                reason=error.reason,
                passing=error.passing,
            ) from error

    def __getstate__(self) -> dict[str, Any]:
        """Pickle without the cache: a spawned process reads the files; a forked one shares the memory."""
        return self.__dict__ | {"_decoded": None, "_places": self._rows}


def _in_worker() -> bool:
    return multiprocessing.parent_process() is not None


@functools.cache
def steady_heap() -> bool:
    """Make this process's allocator map every image-sized block and return it when freed.

    glibc raises that threshold by itself once such a block is freed. Images of all sizes then leave gaps that the next
    one does not fit into, and a worker grows by hundreds of megabytes without a leak. Only a loader's workers do this:
    the main process's allocator is not ours to set. Return False without glibc.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False
    return bool(mallopt(MALLOPT_MMAP_THRESHOLD, MAPPED_BYTES))


def _threads(sizes: NDArray[np.int64]) -> int:
    if _in_worker() or len(sizes) < 2 or sizes.mean() < LARGE_FILE:  # a worker: the other cores are taken
        return 1
    return min(4, cores(), len(sizes))
