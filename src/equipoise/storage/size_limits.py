"""Limits for untrusted files, so that a small one can neither fill the memory nor run for minutes."""

import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise.errors import InvalidInputError
from equipoise.storage.files import check_plain

if TYPE_CHECKING:
    from torch import Tensor

ALWAYS_UNPACKED, MOST_TIMES = 2**25, 100
"""Bytes that any file may unpack to, and how many times its own size a larger file may unpack to."""
MOST_TENSORS, LARGEST_HEADER = 20_000, 2**24
MOST_BRACKETS = 10**6


def most_unpacked(path: Path) -> int:
    """Return the number of bytes that a packed file may unpack to."""
    return max(ALWAYS_UNPACKED, MOST_TIMES * path.stat().st_size)


def check_unpacked(path: Path, size: int, *, remedy: str) -> None:
    """Raise an error for a file that unpacks to far more than its own size."""
    if size > most_unpacked(path):
        raise InvalidInputError(
            f"{path} unpacks to more than {most_unpacked(path):,} bytes from {path.stat().st_size:,}; {remedy}."
        )


@contextmanager
def open_arrays(path: Any) -> Iterator[Any]:
    """Open a ``.npz`` file without pickles; refuse one that unpacks to far more than its size."""
    with path.open("rb") as opened, zipfile.ZipFile(opened) as archive:
        size = sum(info.file_size for info in archive.infolist())
    check_unpacked(path, size, remedy="write it with numpy.savez instead of savez_compressed")
    with path.open("rb") as opened, np.load(opened, allow_pickle=False) as stored:
        yield stored


@contextmanager
def open_tensors(path: Path) -> Iterator[Any]:
    """Open a safetensors file; raise ``SafetensorError`` if it holds too many tensors."""
    import safetensors

    check_plain(path)
    with path.open("rb") as file:
        header = int.from_bytes(file.read(8), "little")
    if header > LARGEST_HEADER:
        raise safetensors.SafetensorError(f"its header claims {header:,} bytes, more than the {LARGEST_HEADER:,} read")
    with safetensors.safe_open(path, framework="pt") as stored:
        if len(stored.keys()) > MOST_TENSORS:
            raise safetensors.SafetensorError(
                f"it has {len(stored.keys()):,} tensors, more than the limit of {MOST_TENSORS:,}"
            )
        yield stored


def load_tensors(path: Path) -> "dict[str, Tensor]":
    """Return all tensors of a safetensors file, by name."""
    with open_tensors(path) as stored:
        return {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118


def parse_json(content: bytes | str) -> Any:
    """Parse JSON; raise ValueError for too many lists and objects, which take far more memory than their text."""
    brackets = content.encode() if isinstance(content, str) else content
    if brackets.count(b"[") + brackets.count(b"{") > MOST_BRACKETS:
        raise ValueError(f"it has more than {MOST_BRACKETS:,} lists and objects")
    return json.loads(content)
