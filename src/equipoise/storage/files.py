"""Atomic writes, locks, bounded reads of untrusted files, and the cache folder."""

import errno
import glob
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
import time
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from equipoise.errors import EquipoiseError, InvalidInputError

if TYPE_CHECKING:
    from torch import Tensor

DAMAGE = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RuntimeError,  # includes RecursionError: JSON may be nested without end
    SyntaxError,  # numpy parses an array's header as Python
    TypeError,
    ValueError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""Exceptions raised by malformed input: values of a wrong type, length or size."""

OURS = re.compile(r"\.\d+(-[0-9a-f]{8})?\.part$")
"""Suffix of a file that is being written: its process and an unpredictable part."""


class DiskFullError(EquipoiseError, OSError):
    """The disk is full; the previous file is still there."""


def write_atomically(path: Path, content: bytes) -> None:
    """Write the whole content or nothing: to a temporary file beside it, flushed to disk, then renamed."""
    try:
        with written_beside(path) as file:
            file.write(content)
    except OSError as error:
        raise_if_full(error, path, len(content))
        raise


def write_tensors(path: Path, tensors: "Mapping[str, Tensor]") -> None:
    """Write tensors by name as a safetensors file, atomically."""
    import safetensors.torch

    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    write_atomically(path, safetensors.torch.save(plain))


@contextmanager
def written_beside(path: Path) -> Iterator[BinaryIO]:
    """Open a new file beside ``path`` that is renamed to it when complete and removed if anything fails before.

    It is locked meanwhile. The system releases the lock however the writer ends, so :func:`remove_abandoned` can tell.
    """
    part, file = _new_part(path)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if os.name != "nt":  # Windows cannot rename an open file
                part.replace(path)
                sync_folder(path.parent)
        if os.name == "nt":
            part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _new_part(path: Path) -> tuple[Path, BinaryIO]:
    """Create a new temporary file; refuse existing ones, so that no planted link can redirect the write."""
    while True:
        part = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
        file = part.open("xb")
        if sys.platform == "win32" or (
            lock(file) is not False and part.exists()
        ):  # otherwise another process took it for an abandoned file
            return part, file
        file.close()


def lock(file: IO[Any] | int, *, wait: bool = False) -> bool | None:
    """Lock an open file or folder until it is closed or its process ends; with ``wait``, wait for the current holder.

    Returns:
        Whether the lock was acquired; None where the file system does not support locks.
    """
    descriptor = file if isinstance(file, int) else file.fileno()
    if sys.platform == "win32":
        import msvcrt

        os.lseek(descriptor, 0, os.SEEK_SET)
        while True:
            try:
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
                return True
            except OSError:
                if not wait:
                    return False
            time.sleep(0.2)
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def remove_abandoned(folder: Path, name: str | None = None) -> None:
    """Remove temporary files that killed writers left beside a file of this name, or of any name in the folder."""
    parts = folder.glob(".*.part" if name is None else f".{glob.escape(name)}.*.part")
    _remove_unlocked((part for part in parts if OURS.search(part.name)), stat.S_ISREG)


def remove_abandoned_folders(parent: Path, prefix: str) -> None:
    """Remove the scratch folders of killed processes."""
    _remove_unlocked(parent.glob(f"{glob.escape(prefix)}*"), stat.S_ISDIR)


def _remove_unlocked(paths: Iterable[Path], is_wanted: Callable[[int], bool]) -> None:
    if sys.platform == "win32":  # without folder locks, their owners are unknown
        return
    for path in paths:
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                if not is_wanted(os.fstat(descriptor).st_mode) or not lock(descriptor):
                    continue
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)
            finally:
                os.close(descriptor)


@contextmanager
def scratch_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """Make a scratch folder, removed at the end and locked meanwhile for :func:`remove_abandoned_folders`."""
    folder, descriptor = _locked_folder(parent, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


def _locked_folder(parent: Path, prefix: str) -> tuple[Path, int | None]:
    """Return a new locked folder; retry, since another process may take it for an abandoned one before it is locked."""
    while True:
        folder = Path(tempfile.mkdtemp(dir=parent, prefix=prefix))
        if sys.platform == "win32":
            return folder, None
        try:
            descriptor = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:
            continue
        if lock(descriptor) is not False and folder.exists():
            return folder, descriptor
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Flush a folder's directory entries to disk."""
    if sys.platform == "win32":  # Windows cannot open folders
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_plain(path: Path, *, most_bytes: int) -> bytes:
    """Read an untrusted file, refusing pipes (which may never end) and files larger than ``most_bytes``."""
    check_plain(path, most_bytes=most_bytes)
    with path.open("rb") as file:
        return file.read(min(most_bytes, os.fstat(file.fileno()).st_size))  # read() allocates all that it is asked for


def check_plain(path: Path, *, most_bytes: int | None = None) -> None:
    """Raise an OSError, with a reason that fits into a sentence, if the path is not a regular file or too large."""
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    if most_bytes is not None and found.st_size > most_bytes:
        reason = f"it has {found.st_size:,} bytes, more than the limit of {most_bytes:,}"
        raise OSError(errno.EFBIG, reason, str(path))


def raise_if_full(error: OSError, path: Path, size: int) -> None:
    """Raise one clear sentence for errors that mean no space: a full disk, a quota, a limit on the size of files.

    Any other error is re-raised with the path in it, since errors of a write carry no path.
    """
    if error.filename is None:
        error.filename = str(path)
    if error.errno == errno.EFBIG:
        raise DiskFullError(
            f"{path} ({size:,} bytes) exceeds the size limit of files here{_size_limit()}; what was written before is "
            "untouched: raise the limit (ulimit -f unlimited) or choose another disk, and resume."
        ) from error
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        raise DiskFullError(
            f"no space left for {path} ({size:,} bytes); what was written before is untouched: free some space and "
            "resume."
        ) from error


def _size_limit() -> str:
    """Return this process's limit on file sizes, as part of a sentence; empty if there is none."""
    if sys.platform == "win32":
        return ""
    import resource

    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    return "" if limit == resource.RLIM_INFINITY else f", the limit being {limit:,} bytes"


@contextmanager
def writing_into(folder: Path, what: str) -> Iterator[None]:
    """Make a folder to write files into; raise one sentence if it cannot hold ``what``, such as a run."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except DiskFullError:
        raise
    except OSError as error:
        raise InvalidInputError(
            f"{folder} cannot hold {what} ({error}); choose a folder that you can write to."
        ) from error


@contextmanager
def foreign_files(where: Path, remedy: str) -> Iterator[None]:
    """Turn any failure on untrusted files into one sentence; ``--debug`` shows its cause."""
    try:
        yield
    except EquipoiseError:
        raise
    except DAMAGE as error:
        raise InvalidInputError(f"{where} is damaged, or its parts contradict each other; {remedy}.") from error


def cache_folder() -> Path:
    """Return ``$EQUIPOISE_CACHE``, else ``equipoise`` in ``$XDG_CACHE_HOME`` or ``~/.cache``; it may not exist yet."""
    own = os.environ.get("EQUIPOISE_CACHE")
    if own:
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared).expanduser() if shared else Path.home() / ".cache") / "equipoise"
