"""Every file decoded once before training starts, in worker processes, and the result remembered."""

import hashlib
import multiprocessing
import os
import warnings
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import numpy as np
import PIL
from numpy.typing import NDArray

from equipoise.data.images.decode import GREY_MODES, UnreadableImageError, examine, read_bytes
from equipoise.data.images.lazy import Images, Progress
from equipoise.data.images.name_table import FileTable
from equipoise.data.images.remembered import DIGEST_BYTES, FORMAT, Finding, Verified, remember, remembered
from equipoise.errors import InvalidInputError, InvalidStateError, listed
from equipoise.resources import cores
from equipoise.storage.cache import cache_folder

TOLERATED = 0.01
ALWAYS, AT_MOST = 3, 0.1
"""Of fewer files than 1 % would allow, this many may be bad, but no larger a share than this."""
FILES_AT_ONCE = 64
FEW_FILES = 256  # not worth the start of processes


def verify(table: FileTable, *, progress: Progress | None = None, workers: int | None = None) -> Verified:
    """Decode every file once. Files that did not change since the last time are not read again, but for those which the
    disk or the system would not give then."""
    key = table.key(np.arange(len(table)))
    key.update(f"{FORMAT} {PIL.__version__}".encode())  # another Pillow may read what this one does not
    memory = cache_folder() / "verified" / f"{key.hexdigest()}.npz"
    known = remembered(memory, len(table))
    rows = np.arange(len(table)) if known is None else np.flatnonzero(known.passing)
    if known is not None and not len(rows):
        return known
    findings: list[Finding] = []
    for part in _in_parts(table, rows, _workers(len(rows)) if workers is None else workers):
        findings.extend(part)
        if progress:
            progress(len(findings), len(rows))
    verified = Verified.of(findings) if known is None else known.with_rows(rows, Verified.of(findings))
    remember(memory, verified)
    return verified


def inspect_files(paths: list[str]) -> list[Finding]:
    """What each file is: the work of one process."""
    return [_inspect(path) for path in paths]


def _inspect(path: str) -> Finding:
    digest = bytes(DIGEST_BYTES)
    try:
        content = read_bytes(path)
        digest = hashlib.blake2b(content, digest_size=DIGEST_BYTES).digest()
        height, width, mode, deepest = examine(content)
    except UnreadableImageError as error:
        return Finding(digest, reason=error.reason, passing=error.passing)
    return Finding(digest, height, width, mode in GREY_MODES, deepest)


def _workers(files: int) -> int:
    if files < FEW_FILES or multiprocessing.current_process().daemon:  # a daemon may not have children
        return 1
    return min(8, cores())


def _in_parts(table: FileTable, rows: NDArray[np.intp], workers: int) -> Iterator[list[Finding]]:
    """Findings in the order of the rows, with a few parts under way at a time: memory does not grow with them."""
    starts = range(0, len(rows), FILES_AT_ONCE)
    parts = ([table.path(int(row)) for row in rows[start : start + FILES_AT_ONCE]] for start in starts)
    if workers <= 1:
        yield from map(inspect_files, parts)
        return
    executor, waiting = _executor(workers), deque[Future[list[Finding]]]()
    try:
        for part in parts:
            with warnings.catch_warnings():  # newer Pythons warn of a fork beside threads; the child decodes, no more
                warnings.simplefilter("ignore", DeprecationWarning)
                waiting.append(executor.submit(inspect_files, part))
            if len(waiting) >= 4 * workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise InvalidStateError(
            "a process that decoded images has died, perhaps for lack of memory; start again with less running beside "
            "it."
        ) from error
    finally:
        executor.shutdown(cancel_futures=True)


def _executor(workers: int) -> Executor:
    """Processes where they can be forked; elsewhere a script without a main guard would start itself again."""
    if "fork" in multiprocessing.get_all_start_methods() and os.name == "posix" and not _is_mac():
        return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("fork"))
    return ThreadPoolExecutor(workers)


def _is_mac() -> bool:
    return os.uname().sysname == "Darwin"  # its libraries do not survive a fork


def tolerate(bad: list[str], total: int, *, what: str, remedy: str) -> str | None:
    """A note on a few bad ones among many; past 1 % an error, for then something larger is wrong.

    Of less than 300 three may be bad, but no more than a tenth: one broken photo among 40 stops nobody.
    """
    if not bad:
        return None
    allowed = int(max(TOLERATED * total, min(ALWAYS, AT_MOST * total)))
    if len(bad) > allowed:
        raise InvalidInputError(
            f"{len(bad)} of {total} {what}, more than the {allowed} that may be left out, the first {bad[0]}; {remedy}."
        )
    return f"{len(bad)} of {total} {what}; left out: {', '.join(bad[:3])}{', …' if len(bad) > 3 else ''}."


def duplicate_note(train: Images, test: Images) -> str | None:
    """A sentence when files with the same content lie on both sides of a split; None when none do, or when the files
    were not checked."""
    if train.digests is None or test.digests is None:
        return None
    known = {digest.tobytes() for digest in train.digests}
    same = [row for row, digest in enumerate(test.digests) if digest.tobytes() in known]
    if not same:
        return None
    names = test.take(same).names
    return (
        f"{len(same)} of the {len(test)} test images {'has' if len(same) == 1 else 'have'} the content of a training "
        f"image ({listed(names)}): scores will be too good."
    )


def contradiction_note(table: FileTable, labels: NDArray[np.str_]) -> str | None:
    """A sentence when the same content lies in two classes."""
    if table.digests is None:
        return None
    first: dict[bytes, int] = {}
    pairs: list[tuple[int, int]] = []
    for row, digest in enumerate(table.digests):
        earlier = first.setdefault(digest.tobytes(), row)
        if labels[earlier] != labels[row]:
            pairs.append((earlier, row))
    if not pairs:
        return None
    one, other = pairs[0]
    return (
        f"{len(pairs)} {'image has' if len(pairs) == 1 else 'images have'} the content of an image of another class, "
        f"such as {table.name(other)!r} and {table.name(one)!r}."
    )
