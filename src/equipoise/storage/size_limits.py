"""Limits for untrusted files, so that a small one can neither fill the memory nor run for minutes."""

import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import EquipoiseError, InvalidInputError
from equipoise.storage.files import DAMAGE, check_plain
from equipoise.storage.unnamed_file import ReadableFile

if TYPE_CHECKING:
    from torch import Tensor

ALWAYS_UNPACKED, MOST_TIMES = 2**25, 100
"""Bytes that any file may unpack to, and how many times its own size a larger file may unpack to."""
MOST_PACKED = 8
"""How many times its own size a file of probabilities, labels and sets of classes may unpack to."""
UNCOMPRESSED = "write it with numpy.savez instead of savez_compressed"
MOST_TENSORS, LARGEST_HEADER = 20_000, 2**24
MOST_BRACKETS = 10**6


def most_unpacked(path: ReadableFile, *, always: int = ALWAYS_UNPACKED, times: int = MOST_TIMES) -> int:
    """Return the number of bytes that a packed file may unpack to."""
    return max(always, times * path.stat().st_size)


def check_unpacked(path: ReadableFile, size: int, *, remedy: str, most: int | None = None) -> None:
    """Raise an error for a file that unpacks to far more than its own size, or to more than ``most`` bytes."""
    most = most_unpacked(path) if most is None else most
    if size > most:
        raise InvalidInputError(f"{path} unpacks to more than {most:,} bytes from {path.stat().st_size:,}; {remedy}.")


@contextmanager
def open_arrays(path: ReadableFile, *, remedy: str = UNCOMPRESSED, most: int | None = None) -> Iterator[Any]:
    """Open a ``.npz`` file without pickles; refuse one that unpacks to too many bytes, see :func:`check_unpacked`."""
    with path.open("rb") as opened, zipfile.ZipFile(opened) as archive:
        size = sum(info.file_size for info in archive.infolist())
    check_unpacked(path, size, remedy=remedy, most=most)
    with path.open("rb") as opened, np.load(opened, allow_pickle=False) as stored:
        yield stored


def load_arrays(path: Path, *, remedy: str, most_bytes: int = 2**28) -> dict[str, NDArray[Any]]:
    """Read all arrays of an untrusted ``.npz`` file within ``most_bytes``, or what an honest file of its size holds."""
    try:
        check_plain(path)
        most = most_unpacked(path, always=most_bytes, times=MOST_PACKED)
        with open_arrays(path, remedy=remedy, most=most) as stored:
            return {name: np.asarray(stored[name]) for name in stored.files}
    except EquipoiseError:
        raise
    except (OSError, *DAMAGE) as error:
        reason = getattr(error, "strerror", None) or "damaged, or not arrays of numbers"
        raise InvalidInputError(f"{path} cannot be read ({reason}); {remedy}.") from error


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
