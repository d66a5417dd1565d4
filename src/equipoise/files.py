"""Files that are whole or not there."""

import errno
import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import EquipoiseError, InvalidInputError

DAMAGE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RuntimeError,  # RecursionError among them: JSON may be nested without end
    SyntaxError,  # numpy reads an array's header as Python
    TypeError,
    ValueError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What code meets in values of a wrong type, length or size."""


class DiskFullError(EquipoiseError, OSError):
    """No room for a file; what was there before still is."""


def write_atomically(path: Path, content: bytes) -> None:
    """All of the content under its name, or nothing: written beside it, flushed to disk, then renamed."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")  # two processes may write the same
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        if os.name != "nt":  # Windows opens no folders
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise_if_full(error, path, len(content))
        raise


def raise_if_full(error: OSError, path: Path, size: int) -> None:
    """One clear sentence for the errors that mean a full disk."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        raise DiskFullError(
            f"no space left for {path} ({size:,} bytes); what was written before is untouched: free some space and "
            "resume."
        ) from error


@contextmanager
def foreign_files(where: Path, remedy: str) -> Iterator[None]:
    """Files that anyone may have written: what breaks on them is one sentence, its cause is kept for ``--debug``."""
    try:
        yield
    except EquipoiseError:
        raise
    except DAMAGE as error:
        raise InvalidInputError(f"{where} is damaged, or its parts contradict each other; {remedy}.") from error


def load_arrays(path: Path, *, remedy: str, most_bytes: int = 2**31) -> dict[str, NDArray[Any]]:
    """The arrays of a ``.npz`` file that anyone may have written: no pickle is opened, and the memory is bounded."""
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(info.file_size for info in archive.infolist()) > most_bytes:
                raise InvalidInputError(f"{path} holds more than {most_bytes:,} bytes; {remedy}.")
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as stored:
            return {name: np.asarray(stored[name]) for name in stored.files}
    except EquipoiseError:
        raise
    except (OSError, *DAMAGE) as error:
        reason = getattr(error, "strerror", None) or "it is damaged, or holds something else than arrays of numbers"
        raise InvalidInputError(f"{path} cannot be read ({reason}); {remedy}.") from error
