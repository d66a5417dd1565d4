"""A folder of images to a folder of aligned faces with the same names."""

import hashlib
import multiprocessing
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from equipoise.data.images.scan import SUFFIXES, scan
from equipoise.errors import InvalidInputError, InvalidStateError, listed
from equipoise.paper.faces.aligned_files import Job, Options, align_files, remove_parts, start_worker, target_name, work
from equipoise.paper.faces.alignment import SIDE, Choice
from equipoise.paper.faces.alignment_log import (
    ALIGNED,
    NONE,
    RECORD,
    SEVERAL,
    UNREADABLE,
    Known,
    Outcome,
    Record,
    check_empty_or_ours,
    claim,
    held,
)
from equipoise.paper.faces.folder_checks import check_folders, check_names, check_options
from equipoise.paper.faces.mtcnn import FILES, MTCNN, load_mtcnn, weights_folder
from equipoise.paper.faces.search import MIN_FACE
from equipoise.storage.archives import is_archive, unpack

Progress = Callable[[int, int], None]
FILES_AT_ONCE = 32
FEW_FILES = 256  # not worth the start of processes
FORMAT = 1


@dataclass
class Alignment:
    """What :func:`align_folder` did.

    Args:
        folder: of the aligned faces.
        images, aligned, several, without, unreadable: all images of the whole folder, with what earlier runs did; those
            aligned, with several faces, without one, and unreadable.
        done: images of this run alone.
        seconds: of this run.
        to_check: the CSV of the images without a face, with several, or unreadable.
        notes: what else there is to know, a sentence each.
    """

    folder: Path
    images: int
    aligned: int
    several: int
    without: int
    unreadable: int
    done: int
    seconds: float
    to_check: Path
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return vars(self) | {"folder": str(self.folder), "to_check": str(self.to_check)}


def align_folder(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    weights: str | os.PathLike[str] | None = None,
    min_face: float = MIN_FACE,
    choose: Choice = "centre",
    side: int = SIDE,
    workers: int = 1,
    progress: Progress | None = None,
) -> Alignment:
    """Align the face of every image below a folder, and write it under the same name below another one.

    ``alignment.csv`` there has a row for each image: how many faces, which one was taken, its landmarks;
    ``to_check.csv`` lists those without a face, with several, and unreadable. An interrupted run goes on where it
    stopped; images that did not change are not done again. Formats that are not written (GIF, JPEG 2000, AVIF, PBM)
    become PNG.

    Args:
        source: a folder, or a tar or zip archive of one; what lies in its folders is found at any depth.
        target: a new folder, or that of an earlier run with the same options.
        weights: folder of ``pnet.pt``, ``rnet.pt`` and ``onet.pt``; None looks for them as
            :func:`~equipoise.paper.faces.mtcnn.load_mtcnn` does.
        min_face: the smallest face that is looked for, as a share of the image's shorter side.
        choose: which of several faces is taken: ``"centre"``, the largest near it, or ``"largest"``.
        side: of the aligned faces, in pixels.
        workers: processes; more than one are started afresh, so a script needs ``if __name__ == "__main__":``.
        progress: called with the images done so far and all of them.
    """
    started = time.monotonic()
    options = Options(min_face, choose, side)
    check_options(options, workers)
    place = weights_folder(weights)
    networks = load_mtcnn(place)  # here as well when workers use them: bad files are told of before anything is written
    root = unpack(source) if is_archive(source) and Path(source).is_file() else Path(source)
    out = Path(target)
    check_folders(root, out, source)
    found = scan(root)
    if not found.images:
        raise InvalidInputError(
            f"there is no image in {str(source)!r}; expected files that end in one of {', '.join(sorted(SUFFIXES))}."
        )
    check_names(found.folders, found.images)
    check_empty_or_ours(out)
    with held(out):
        claim(out, _settings(options, place))
        remove_parts(out)
        record = Record(out)
        jobs = [
            Job(name, os.path.join(root, name), os.path.join(out, target_name(name)))
            for name in found.images
            if not _is_done(record.known.get(name), root / name, out / target_name(name))
        ]
        before = len(found.images) - len(jobs)
        parts = _in_parts(jobs, networks, options, place, workers if len(jobs) >= FEW_FILES else 1)
        with closing(parts):  # ends the workers, whatever happens
            _run(parts, record, _from(before, len(found.images), progress))
        to_check = record.finish()
    return _summary(found.images, record, found.notes(), out, to_check, len(jobs), time.monotonic() - started)


def _settings(options: Options, weights: Path) -> dict[str, object]:
    digest = hashlib.blake2b(digest_size=8)
    for name in FILES:
        digest.update((weights / name).read_bytes())
    return {"format": FORMAT, **vars(options), "weights": digest.hexdigest()}


def _is_done(known: Known | None, source: Path, target: Path) -> bool:
    """Whether an earlier run has done with the image as it is now; an unreadable one may have been mended."""
    if known is None or known.status == UNREADABLE:
        return False
    try:
        status = source.stat()
        written = 0 if known.status == NONE else target.stat().st_size
    except OSError:
        return False
    return (known.size, known.modified, known.written) == (status.st_size, status.st_mtime_ns, written)


def _from(start: int, total: int, progress: Progress | None) -> Callable[[int], None]:
    """Progress of this run as that of the whole folder."""

    def tell(done: int) -> None:
        if progress:
            progress(start + done, total)

    return tell


def _run(parts: Iterator[list[Outcome]], record: Record, tell: Callable[[int], None]) -> None:
    done = 0
    tell(done)
    try:
        for outcomes in parts:
            record.add(outcomes)
            done += len(outcomes)
            tell(done)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped; the faces in {record.folder} are kept: run it again to go on.") from None


def _in_parts(
    jobs: list[Job], networks: MTCNN, options: Options, weights: Path, workers: int
) -> Generator[list[Outcome], None, None]:
    """Outcomes in the order of the jobs, with a few parts under way at a time: memory does not grow with them."""
    parts = (jobs[start : start + FILES_AT_ONCE] for start in range(0, len(jobs), FILES_AT_ONCE))
    if workers == 1:
        yield from (align_files(part, networks, options) for part in parts)
        return
    fresh = multiprocessing.get_context("spawn")  # a fork beside torch's threads may hang
    executor = ProcessPoolExecutor(workers, mp_context=fresh, initializer=start_worker, initargs=(str(weights),))
    waiting = deque[Future[list[Outcome]]]()
    try:
        for part in parts:
            waiting.append(executor.submit(work, part, options))
            if len(waiting) >= 4 * workers:
                yield waiting[0].result()
                waiting.popleft()
        while waiting:
            yield waiting[0].result()
            waiting.popleft()
    except KeyboardInterrupt:
        executor.shutdown(cancel_futures=True)  # parts under way come to their end, and count
        yield from (future.result() for future in waiting if not future.cancelled())
        raise
    except BrokenProcessPool as error:
        raise InvalidStateError(
            'a worker ended early, perhaps for lack of memory or of `if __name__ == "__main__":` in the script; run '
            "again to go on, with fewer workers."
        ) from error
    finally:
        executor.shutdown(cancel_futures=True)


def _summary(
    images: list[str], record: Record, notes: list[str], out: Path, to_check: Path, done: int, seconds: float
) -> Alignment:
    """Counts over the folder as it is now."""
    statuses = [record.known[name].status for name in images]
    unreadable = [name for name in images if record.known[name].status == UNREADABLE]
    if unreadable:
        first = record.known[unreadable[0]].note
        notes = [*notes, f"{listed(unreadable)} cannot be read ({first}); see {to_check}."]
    gone = len(record.known) - len(images)
    if gone > 0:
        notes = [*notes, f"{gone:,} images of {RECORD} are no longer there; their faces were kept."]
    several = statuses.count(SEVERAL)
    return Alignment(
        folder=out,
        images=len(images),
        aligned=statuses.count(ALIGNED) + several,
        several=several,
        without=statuses.count(NONE),
        unreadable=len(unreadable),
        done=done,
        seconds=seconds,
        to_check=to_check,
        notes=notes,
    )
