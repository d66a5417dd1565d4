"""The idx format of MNIST: a magic number, the dimensions, then the bytes."""

import gzip
import math
import zlib
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InvalidInputError

UNSIGNED_BYTE = 0x08
"""The only element type which the published files use."""

LIMIT_BYTES = 2**30
"""The most that one file may hold when unpacked; MNIST's largest holds 47 MB."""


def read_idx(path: Path, *, dimensions: int, limit_bytes: int = LIMIT_BYTES) -> NDArray[np.uint8]:
    """The array in an idx file, gzipped or not; never unpacks more than the header says, and that at most the limit.

    Args:
        path: the file; whether it is gzipped is read from its first two bytes.
        dimensions: how many the array must have, 3 for images and 1 for labels.
        limit_bytes: refuse a larger array.
    """
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            stream = cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if packed else raw
            return _parse(stream, path, dimensions, limit_bytes)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidInputError(f"{path} is a damaged gzip file ({error}); fetch it again.") from error
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror or error}.") from error


def _parse(stream: BinaryIO, path: Path, dimensions: int, limit_bytes: int) -> NDArray[np.uint8]:
    magic = stream.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0":
        raise InvalidInputError(f"{path} is not an idx file: it starts with {magic.hex() or 'nothing'}, not with 0000.")
    if magic[2] != UNSIGNED_BYTE or magic[3] != dimensions:
        raise InvalidInputError(
            f"{path} must hold unsigned bytes (type 08) in {dimensions} dimensions, "
            f"got type {magic[2]:02x} in {magic[3]}."
        )
    header = stream.read(4 * dimensions)
    if len(header) < 4 * dimensions:
        raise InvalidInputError(f"{path} ends within its header; fetch it again.")
    shape = tuple(int(size) for size in np.frombuffer(header, ">u4"))
    expected = math.prod(shape)
    if expected > limit_bytes:
        raise InvalidInputError(f"{path} claims {shape}, more than the limit of {limit_bytes:,} bytes; fetch it again.")
    content = stream.read(expected + 1)
    if len(content) != expected:
        found = f"{len(content):,}" if len(content) < expected else "more"
        raise InvalidInputError(f"{path} must hold {expected:,} bytes for its {shape}, got {found}; fetch it again.")
    return np.frombuffer(content, np.uint8).reshape(shape)
