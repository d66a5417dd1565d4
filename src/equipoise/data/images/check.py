"""Validation of all image files before training, in worker processes, with cached results."""

import hashlib
import io
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np
import PIL
from numpy.typing import NDArray

from equipoise.cores_and_memory import begin_worker, cores, in_parts
from equipoise.data.images.decode import GREY_MODES, UnreadableImageError, examine, read_bytes
from equipoise.data.images.file_table import FileTable
from equipoise.data.images.images_on_disk import Images
from equipoise.data.samples import Progress, rows_of
from equipoise.errors import InvalidInputError, InvalidStateError, listed
from equipoise.storage.files import cache_folder, write_atomically

FORMAT = 3  # version of the cache and of the checks; part of its name
DIGEST_BYTES = 16
TOLERATED = 0.01
ALWAYS, AT_MOST = 3, 0.1
"""Unreadable files allowed where 1 % would be fewer, but at most this share."""
FILES_AT_ONCE = 64
FEW_FILES = 256  # too few to be worth starting processes

Finding = tuple[bytes, tuple[int, int], bool, int, str, bool]
"""Findings for one file: a hash of its content, its height and width, whether it is grey, the largest value if pixels
have more than 8 bits, why it is unreadable, and whether that may pass because the system caused it."""


def check_files(table: FileTable, *, progress: Progress | None = None, workers: int | None = None) -> Any:
    """Decode every file once, and return what was found.

    The array has the fields ``digests`` (16 bytes), ``shapes`` (height, width), ``grey``, ``deepest``, ``reasons``
    (empty if the file is good) and ``passing``.

    Files unchanged since the last time are not read again, except those that the disk or the system failed to deliver
    then.
    """
    key = table.key(np.arange(len(table)))
    key.update(f"{FORMAT} {PIL.__version__}".encode())  # another Pillow may read what this one does not
    memory = cache_folder() / "verified" / f"{key.hexdigest()}.npz"
    known = _remembered(memory, len(table))
    rows = np.flatnonzero(known.passing)
    if not len(rows):
        return known
    findings: list[Finding] = []
    for part in _findings(table, rows, _workers(len(rows)) if workers is None else workers):
        findings.extend(part)
        if progress:
            progress(len(findings), len(rows))
    places = np.arange(len(table))
    places[rows] = len(table) + np.arange(len(rows))
    verified = np.concatenate([known, _as_array(findings)])[places].view(np.recarray)
    _remember(memory, verified)
    return verified


def _as_array(findings: Sequence[Finding]) -> Any:
    reason = f"U{max([1, *(len(found[4]) for found in findings)])}"
    kinds = [
        ("digests", "u1", DIGEST_BYTES),
        ("shapes", "i4", 2),
        ("grey", "?"),
        ("deepest", "i4"),
        ("reasons", reason),
    ]
    rows = [(list(digest), *rest) for digest, *rest in findings]
    return np.array(rows, dtype=[*kinds, ("passing", "?")]).view(np.recarray)


def _remembered(memory: Path, files: int) -> Any:
    """Return an earlier run's findings for the same number of files; otherwise mark all files to be checked."""
    unknown = _as_array([(bytes(DIGEST_BYTES), (0, 0), False, 0, "", True)] * files)
    try:
        with np.load(memory, allow_pickle=False) as stored:
            known = stored["found"].view(np.recarray)
    except Exception:  # absent or damaged: it is only a cache
        return unknown
    return known if known.shape == unknown.shape and known.dtype.names == unknown.dtype.names else unknown


def _remember(memory: Path, verified: Any) -> None:
    """Store the findings for the next start, if possible."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, found=np.asarray(verified))
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(memory, buffer.getvalue())
    except OSError:  # no space or no permission: the next start checks again
        return


def inspect_files(paths: list[str]) -> list[Finding]:
    """Inspect files in one process."""
    return [_inspect(path) for path in paths]


def _inspect(path: str) -> Finding:
    digest = bytes(DIGEST_BYTES)
    try:
        content = read_bytes(path)
        digest = hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()
        height, width, mode, deepest = examine(content)
    except UnreadableImageError as error:
        return digest, (0, 0), False, 0, error.reason, error.passing
    return digest, (height, width), mode in GREY_MODES, deepest, "", False


def _workers(files: int) -> int:
    if files < FEW_FILES or multiprocessing.current_process().daemon:  # daemons cannot have children
        return 1
    return min(8, cores())


def _findings(table: FileTable, rows: NDArray[np.intp], workers: int) -> Iterator[list[Finding]]:
    """Yield findings in the order of the rows."""
    starts = range(0, len(rows), FILES_AT_ONCE)
    parts = ([table.source(int(row)) for row in rows[start : start + FILES_AT_ONCE]] for start in starts)
    if workers <= 1:
        yield from map(inspect_files, parts)
        return
    try:
        yield from in_parts(_executor(workers), inspect_files, parts, ahead=4 * workers)
    except BrokenProcessPool as error:
        raise InvalidStateError(
            "a worker that decodes images died, perhaps because memory ran out; close other programs and start again."
        ) from error


def _executor(workers: int) -> Executor:
    """Return a pool of forked processes; elsewhere a script without a main guard would start itself again."""
    if "fork" in multiprocessing.get_all_start_methods() and os.name == "posix" and not _is_mac():
        return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork"), initializer=begin_worker)
    return ThreadPoolExecutor(workers)


def _is_mac() -> bool:
    return os.uname().sysname == "Darwin"  # macOS libraries do not survive a fork


def tolerate(bad: list[str], total: int, *, what: str, remedy: str) -> str | None:
    """Return a note on a few bad files among many; beyond 1 % raise an error, since something larger must be wrong.

    Among fewer than 300 files, three may be bad, but at most a tenth: one broken photo among 40 is not an error.
    """
    if not bad:
        return None
    allowed = int(max(TOLERATED * total, min(ALWAYS, AT_MOST * total)))
    if len(bad) > allowed:
        raise InvalidInputError(
            f"{len(bad)} of {total} {what}, more than the {allowed} that may be left out, the first {bad[0]}; {remedy}."
        )
    return f"{len(bad)} of {total} {what}; left out: {listed(bad, quoted=False)}."


def duplicate_note(train: Any, test: Any) -> str | None:
    """Return a note on files that occur on both sides of a split; None if there are none, or no checked files."""
    ours, theirs, names = rows_of(train).digests, rows_of(test).digests, rows_of(test).names
    if ours is None or theirs is None or names is None:
        return None
    known = {digest.tobytes() for digest in ours}
    same = [names[row] for row, digest in enumerate(theirs) if digest.tobytes() in known]
    if not same:
        return None
    return (
        f"{len(same)} of the {len(test)} test images {'has' if len(same) == 1 else 'have'} the content of a training "
        f"image ({listed(same)}): scores will be too optimistic."
    )


def contradiction_note(images: Images, labels: NDArray[np.str_]) -> str | None:
    """Return a note if the same content occurs in two classes."""
    first: dict[bytes, int] = {}
    pairs: list[tuple[int, int]] = []
    for row, digest in enumerate(() if images.digests is None else images.digests):
        earlier = first.setdefault(digest.tobytes(), row)
        if labels[earlier] != labels[row]:
            pairs.append((earlier, row))
    if not pairs:
        return None
    one, other = images.take(pairs[0]).names
    return (
        f"{len(pairs)} {'image has' if len(pairs) == 1 else 'images have'} the content of an image of another class, "
        f"such as {other!r} and {one!r}."
    )
