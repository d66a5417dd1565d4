"""Alignment of a folder of images into a folder of faces with the same names."""

import hashlib
import multiprocessing
import os
import re
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from equipoise.cores_and_memory import begin_worker, in_parts
from equipoise.data.images.scan import scan_images
from equipoise.data.samples import Progress
from equipoise.errors import InvalidInputError, InvalidStateError, listed
from equipoise.paper.face_options import MIN_FACE, SIDE, AlignmentOptions, Choice
from equipoise.paper.faces import alignment_log as log_file
from equipoise.paper.faces.alignment_log import (
    ALIGNED,
    NONE,
    SEVERAL,
    UNREADABLE,
    AlignmentLog,
    AlignmentOutcome,
    LoggedImage,
)
from equipoise.paper.faces.alignment_worker import align_files, target_name
from equipoise.paper.faces.mtcnn import FILES, MTCNN, load_mtcnn, weights_folder

FILES_AT_ONCE = 32
FEW_FILES = 256  # too few to be worth starting processes


@dataclass
class Alignment:
    """Result of :func:`align_folder`.

    Args:
        folder: of the aligned faces.
        images, aligned, several, without, unreadable: counts over the whole folder, including earlier runs: all images,
            those aligned, with several faces, without one, and unreadable.
        done: images of this run.
        seconds: of this run.
        to_check: the CSV of the images without a face, with several, or unreadable.
        notes: further sentences for the user.
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
    notes: list[str]

    def as_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return vars(self) | {"folder": str(self.folder), "to_check": str(self.to_check)}


def align_folder(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    weights: str | os.PathLike[str] | None = None,
    min_face: float = MIN_FACE,
    choose: Choice = "centre",
    side: int = SIDE,
    lenient: bool = False,
    workers: int = 1,
    progress: Progress | None = None,
) -> Alignment:
    """Align the face of every image below a folder, and write it under the same name below another one.

    ``alignment.csv`` there has a row for each image: how many faces, which one was taken, its landmarks;
    ``to_check.csv`` lists those without a face, with several, and unreadable. An interrupted run continues where it
    stopped, and unchanged images are not processed again. Formats that cannot be written (GIF, JPEG 2000, AVIF, PBM)
    become PNG.

    Args:
        source: a folder, or a tar or zip archive of one; images are found at any depth.
        target: a new folder, or that of an earlier run with the same options.
        weights: folder of ``pnet.pt``, ``rnet.pt`` and ``onet.pt``; None looks for them as
            :func:`~equipoise.paper.faces.mtcnn.load_mtcnn` does.
        min_face: smallest face to look for, as a share of the image's shorter side.
        choose: which of several faces to take: ``"centre"``, the largest near it, or ``"largest"``.
        side: of the aligned faces, in pixels.
        lenient: accept less certain detections where nothing else is found, for images known to show a face.
        workers: processes; more than one are spawned, so a script needs ``if __name__ == "__main__":``.
        progress: called with the images done so far and all of them.
    """
    started = time.monotonic()
    options = AlignmentOptions(min_face=min_face, choose=choose, side=side, lenient=lenient, steadied=True)
    if workers < 1:
        raise InvalidInputError(f"workers must be 1 or more; got {workers}.")
    place = weights_folder(weights)
    networks = load_mtcnn(place)  # also when workers use them: report bad files before anything is written
    found, out = scan_images(source), Path(target)
    root = found.root
    _check_folders(root, out, source)
    _check_names(found.folders, "folder")
    _check_names(found.images, "file")
    log_file.check_empty_or_ours(out)
    with log_file.held(out):
        log_file.claim(out, replace(options, weights=_checksum(place)))
        remove_parts(out)
        log = AlignmentLog(out)
        left = [
            name for name in found.images if not _is_done(log.known.get(name), root / name, out / target_name(name))
        ]
        work = partial(align_files, root=root, out=out, options=options)
        parts = _outcomes(left, work, networks, place, workers if len(left) >= FEW_FILES else 1)
        with closing(parts):  # ends the workers, whatever happens
            _record(parts, log, len(found.images) - len(left), len(found.images), progress)
        to_check = log.finish()
    return _summary(found.images, log, found.notes(), to_check, len(left), time.monotonic() - started)


def _check_folders(root: Path, out: Path, source: str | os.PathLike[str]) -> None:
    """Raise an error if one folder lies in the other: faces would be aligned again, or originals overwritten."""
    one, other = root.resolve(), out.resolve()
    if one == other:
        raise InvalidInputError(f"{str(out)!r} holds the images themselves; give another folder for the aligned faces.")
    if one in other.parents:
        raise InvalidInputError(
            f"{str(out)!r} lies inside {str(source)!r}, where its faces would be found as further images; give a "
            "folder outside."
        )
    if other in one.parents:
        raise InvalidInputError(f"{str(source)!r} lies inside {str(out)!r}; give a folder of its own for the faces.")


def _check_names(names: list[str], what: str) -> None:
    """Raise an error unless each face has a unique name, even where file names ignore case."""
    first: dict[str, str] = {}
    for name in names:
        earlier = first.setdefault((target_name(name) if what == "file" else name).casefold(), name)
        if earlier != name:
            raise InvalidInputError(
                f"{earlier!r} and {name!r} would be one {what} where file names ignore case or GIF becomes "
                "PNG; rename or merge them."
            )


def _checksum(weights: Path) -> str:
    return hashlib.blake2b(b"".join((weights / name).read_bytes() for name in FILES), digest_size=8).hexdigest()


def remove_parts(folder: Path) -> None:
    """Remove what killed workers left; nobody else may be writing there."""
    for part in folder.rglob(".*.part"):
        if re.fullmatch(r"\.([0-9a-f]{16}|\d+)\.part", part.name):
            part.unlink(missing_ok=True)


def _is_done(known: LoggedImage | None, source: Path, target: Path) -> bool:
    """Return whether an earlier run aligned the image as it is now; an unreadable one may have been repaired."""
    if known is None or known.status == UNREADABLE:
        return False
    try:
        status = source.stat()
        written = 0 if known.status == NONE else target.stat().st_size
    except OSError:
        return False
    return (known.size, known.modified, known.written) == (status.st_size, status.st_mtime_ns, written)


def _record(
    parts: Iterator[list[AlignmentOutcome]], log: AlignmentLog, done: int, total: int, progress: Progress | None
) -> None:
    tell = progress or (lambda *_: None)
    tell(done, total)
    try:
        for outcomes in parts:
            log.add(outcomes)
            done += len(outcomes)
            tell(done, total)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"stopped; the faces in {log.folder} are kept: run it again to continue.") from None


def _outcomes(
    images: list[str], work: Callable[..., list[AlignmentOutcome]], networks: MTCNN, weights: Path, workers: int
) -> Generator[list[AlignmentOutcome], None, None]:
    """Yield outcomes in the order of the images."""
    parts = (images[start : start + FILES_AT_ONCE] for start in range(0, len(images), FILES_AT_ONCE))
    if workers == 1:
        yield from (work(part, networks=networks) for part in parts)
        return
    fresh = multiprocessing.get_context("spawn")  # forking beside torch's threads may hang
    executor = ProcessPoolExecutor(workers, mp_context=fresh, initializer=_start_worker, initargs=(str(weights),))
    try:
        yield from in_parts(executor, partial(_in_worker, work), parts, ahead=4 * workers)
    except BrokenProcessPool as error:
        raise InvalidStateError(
            'a worker ended early; perhaps memory ran out, or the script lacks `if __name__ == "__main__":`. Run again '
            "with fewer workers to continue."
        ) from error


_networks: list[MTCNN] = []  # of this process


def _start_worker(weights: str) -> None:
    """Prepare a worker process: one thread, networks loaded once, Ctrl-C left to its parent."""
    begin_worker()
    torch.set_num_threads(1)
    _networks.append(load_mtcnn(weights))


def _in_worker(work: Callable[..., list[AlignmentOutcome]], images: list[str]) -> list[AlignmentOutcome]:
    return work(images, networks=_networks[0])


def _summary(
    images: list[str], log: AlignmentLog, notes: list[str], to_check: Path, done: int, seconds: float
) -> Alignment:
    """Return the counts over the folder as it is now."""
    statuses = [log.known[name].status for name in images]
    unreadable = [name for name in images if log.known[name].status == UNREADABLE]
    if unreadable:
        notes = [*notes, f"{listed(unreadable)} cannot be read ({log.known[unreadable[0]].note}); see {to_check}."]
    gone = len(log.known) - len(images)
    if gone > 0:
        notes = [*notes, f"{gone:,} images of {log_file.LOG} are no longer there; their faces were kept."]
    several = statuses.count(SEVERAL)
    return Alignment(
        folder=log.folder,
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
