"""Image files to aligned files: the work of one process."""

import multiprocessing
import os
import re
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from equipoise.data.images.decode import GREY_MODES, UnreadableImageError, decode_image, header, read_bytes
from equipoise.paper.faces.alignment import Choice, aligned, chosen, residual
from equipoise.paper.faces.alignment_log import ALIGNED, NONE, SEVERAL, UNREADABLE, Outcome
from equipoise.paper.faces.detection import Faces
from equipoise.paper.faces.mtcnn import MTCNN, load_mtcnn
from equipoise.paper.faces.search import find_faces
from equipoise.storage.files import raise_if_full

Pixels = NDArray[np.uint8]

PIXELS_AT_ONCE = 16_000_000
JPEG = {"quality": 95, "subsampling": 0}
# Formats in which a face is written as its image was; all others become PNG.
FORMATS: dict[str, tuple[str, dict[str, int | bool]]] = {
    **dict.fromkeys((".jpg", ".jpeg", ".jpe", ".jfif"), ("JPEG", JPEG)),
    **dict.fromkeys((".ppm", ".pgm", ".pnm"), ("PPM", {})),
    **dict.fromkeys((".tif", ".tiff"), ("TIFF", {})),
    ".png": ("PNG", {}),
    ".bmp": ("BMP", {}),
    ".webp": ("WEBP", {"lossless": True}),
}


@dataclass(frozen=True)
class Options:
    """How faces are found and aligned."""

    min_face: float
    choose: Choice
    side: int


@dataclass(frozen=True)
class Job:
    """An image by its name, where it is, and where its face goes."""

    image: str
    source: str
    target: str


@dataclass(frozen=True)
class _Read:
    job: Job
    pixels: Pixels
    size: int
    modified: int


def target_name(image: str) -> str:
    """The name of the aligned face: that of the image, but for formats in which nothing is written."""
    stem, suffix = os.path.splitext(image)
    return image if suffix.lower() in FORMATS else f"{stem}.png"


def align_files(jobs: list[Job], networks: MTCNN, options: Options) -> list[Outcome]:
    """Find the face of each image, align it and write it; the outcomes are in the order of the jobs."""
    found: dict[str, Outcome] = {}
    for group in _in_memory(jobs, found):
        searched = find_faces([one.pixels for one in group], networks, min_face=options.min_face)
        for one, (faces, attempt) in zip(group, searched, strict=True):
            found[one.job.image] = _outcome(one, faces, attempt, options)
    return [found[job.image] for job in jobs]


def _in_memory(jobs: list[Job], found: dict[str, Outcome]) -> Iterator[list[_Read]]:
    """Images read, a few large or many small ones at a time; unreadable ones end here."""
    group: list[_Read] = []
    for job in jobs:
        size = modified = 0
        try:
            status = os.stat(job.source)
            size, modified = status.st_size, status.st_mtime_ns
            content = read_bytes(job.source)
            height, width, mode = header(content)
            channels = 1 if mode in GREY_MODES else 3
            pixels = decode_image(content, size=(height, width), channels=channels)
        except (UnreadableImageError, OSError) as error:
            reason = error.reason if isinstance(error, UnreadableImageError) else error.strerror or str(error)
            found[job.image] = Outcome(job.image, UNREADABLE, note=reason, size=size, modified=modified)
            continue
        group.append(_Read(job, pixels, size, modified))
        if sum(one.pixels.size for one in group) >= PIXELS_AT_ONCE:
            yield group
            group = []
    yield group


def _outcome(one: _Read, faces: Faces, attempt: int, options: Options) -> Outcome:
    height, width = one.pixels.shape[1:]
    if not len(faces):
        Path(one.job.target).unlink(missing_ok=True)  # of an earlier state of the image
        note = f"no face was found in {width} × {height} pixels"
        return Outcome(one.job.image, NONE, note=note, size=one.size, modified=one.modified)
    place = chosen(faces, height, width, by=options.choose)
    landmarks = faces.landmarks[place]
    written = _write(Path(one.job.target), aligned(one.pixels, landmarks, side=options.side))
    box = faces.boxes[place]
    return Outcome(
        one.job.image,
        ALIGNED if len(faces) == 1 else SEVERAL,
        faces=len(faces),
        attempt=attempt,
        probability=float(faces.probabilities[place]),
        residual=residual(landmarks),
        place=(*box.tolist(), *landmarks.ravel().tolist()),
        note=_several(faces, place, options.choose),
        size=one.size,
        modified=one.modified,
        written=written,
    )


def _several(faces: Faces, place: int, choose: Choice) -> str:
    if len(faces) == 1:
        return ""
    why = "the largest" if choose == "largest" else "the largest near the centre"
    x, y = ((faces.boxes[place, :2] + faces.boxes[place, 2:]) / 2).round().astype(int)
    return f"of {len(faces)} faces {why} was taken, at {x}, {y}"


def _write(path: Path, face: Pixels) -> int:
    """Bytes of the face's file. It is whole or not there, but not flushed to the disk, which would take a third of the
    time: the record knows its size, and a run after a failure of the machine does again what is not whole."""
    form, settings = FORMATS[path.suffix.lower()]
    image = Image.fromarray(face[0] if len(face) == 1 else np.ascontiguousarray(face.transpose(1, 2, 0)))
    content = BytesIO()
    image.save(content, form, **settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{os.getpid()}.part")  # short, for a name may be as long as a name can be
    try:
        part.write_bytes(content.getvalue())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise_if_full(error, path, content.tell())
        raise
    return content.tell()


def remove_parts(folder: Path) -> None:
    """Remove what workers that were killed have left; nobody else may be writing there."""
    for part in folder.rglob(".*.part"):
        if re.fullmatch(r"\.\d+\.part", part.name):
            part.unlink(missing_ok=True)


_networks: list[MTCNN] = []  # of this process


def start_worker(weights: str) -> None:
    """Prepare a process of its own: one thread, networks loaded once, Ctrl-C left to the process that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    _networks.append(load_mtcnn(weights))


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for its next part for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def work(jobs: list[Job], options: Options) -> list[Outcome]:
    """:func:`align_files` in a worker."""
    return align_files(jobs, _networks[0], options)
