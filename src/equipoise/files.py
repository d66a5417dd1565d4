"""Files that are whole or not there."""

import errno
import os
from pathlib import Path

from equipoise.errors import EquipoiseError


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
