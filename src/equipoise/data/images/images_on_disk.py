"""Images on disk that behave like one array and are decoded on demand."""

import ctypes
import functools
import hashlib
import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.cores_and_memory import cores, free_memory
from equipoise.data.images.decode import Fit, Pixels, Size, UnreadableImageError, decode_image
from equipoise.data.images.file_table import FileTable
from equipoise.data.samples import Progress, SampleRows
from equipoise.errors import InvalidInputError

SHARE_OF_MEMORY = 4  # a cache takes at most a quarter of the free memory
ROWS_AT_ONCE = 256
BUFFER = 2**14
"""Images of shards that are shuffled together, as many shards as hold them, and at least one."""
MALLOPT_MMAP_THRESHOLD, MAPPED_BYTES = -3, 2**17
LARGE_FILE = 2**16  # below it the interpreter's work outweighs the decoder's, and threads only wait


class Images(SampleRows):
    """Image files as an array (images, channels, height, width) of uint8, read by indexing.

    ``images[rows]`` decodes those rows; ``images.take(rows)`` is a part that stays on disk. ``fit`` is how an image
    is resized to ``size``, as in :func:`~equipoise.data.images.decode_image`.
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
                f"images must be indexed by one list of rows, got an index of {chosen.ndim} dimensions."
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
        """Return a hash that changes with a file's name or content, or with the decoding.

        For unchecked files it changes with their place, sizes and times instead of the content.
        """
        return self._decoded_as(self.table.key(self._rows))

    def content_key(self) -> str:
        """Return a hash that does not depend on where the files are.

        It is of their names, their content if checked, otherwise their sizes, and the decoding.
        """
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
        """Return these images decoded into memory if they fit, otherwise unchanged, on disk.

        They may take ``limit_bytes``, by default a quarter of the free memory.
        """
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
                f"{path!r} was readable at the start but is not now ({error.reason}); restore it, or start again "
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
