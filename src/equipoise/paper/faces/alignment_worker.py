"""The work of one process: from image files to aligned files."""

import os
import secrets
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from equipoise.data.images.decode import GREY_MODES, UnreadableImageError, decode_image, header, read_bytes
from equipoise.errors import reason
from equipoise.paper.face_options import AlignmentOptions
from equipoise.paper.faces.alignment import aligned, chosen, residual, steadied
from equipoise.paper.faces.alignment_log import ALIGNED, NONE, SEVERAL, UNREADABLE, AlignmentOutcome
from equipoise.paper.faces.area_table import Pixels
from equipoise.paper.faces.detection import NO_FACES, Faces, find_faces
from equipoise.paper.faces.mtcnn import MTCNN
from equipoise.storage.files import raise_if_full

Stamp = tuple[int, int]  # size and time of modification of an image's file

PIXELS_AT_ONCE = 16_000_000
JPEG = {"quality": 95, "subsampling": 0}
# Formats in which a face is written like its image; all others become PNG.
FORMATS: dict[str, tuple[str, dict[str, int | bool]]] = {
    **dict.fromkeys((".jpg", ".jpeg", ".jpe", ".jfif"), ("JPEG", JPEG)),
    **dict.fromkeys((".ppm", ".pgm", ".pnm"), ("PPM", {})),
    **dict.fromkeys((".tif", ".tiff"), ("TIFF", {})),
    ".png": ("PNG", {}),
    ".bmp": ("BMP", {}),
    ".webp": ("WEBP", {"lossless": True}),
}


def target_name(image: str) -> str:
    """Return the name of the aligned face: the image's, except for formats that cannot be written."""
    stem, suffix = os.path.splitext(image)
    return image if suffix.lower() in FORMATS else f"{stem}.png"


def align_files(
    images: list[str], root: Path, out: Path, networks: MTCNN, options: AlignmentOptions
) -> list[AlignmentOutcome]:
    """Find the face of each image below ``root``, align it and write it below ``out``; yield one outcome per image."""
    found: dict[str, AlignmentOutcome] = {}
    for group in _in_memory(images, root, found):
        searched = find_faces(
            [pixels for _, pixels, _ in group], networks, min_face=options.min_face, lenient=options.lenient
        )
        with_face = [place for place, (faces, _) in enumerate(searched) if len(faces)]
        mirrored = [np.ascontiguousarray(group[place][1][:, :, ::-1]) for place in with_face]
        again = dict(zip(with_face, find_faces(mirrored, networks, min_face=options.min_face), strict=True))
        for place, ((image, pixels, stamp), (faces, attempt)) in enumerate(zip(group, searched, strict=True)):
            target, others = out / target_name(image), again.get(place, (NO_FACES, 0))[0]
            found[image] = _outcome(image, target, pixels, stamp, faces, others, attempt, options)
    for image in images:
        if found[image].status in (NONE, UNREADABLE):
            (out / target_name(image)).unlink(missing_ok=True)  # from an earlier state of the image
    return [found[image] for image in images]


def _in_memory(
    images: list[str], root: Path, found: dict[str, AlignmentOutcome]
) -> Iterator[list[tuple[str, Pixels, Stamp]]]:
    """Yield images, a few large or many small ones at a time; unreadable ones end here."""
    group: list[tuple[str, Pixels, Stamp]] = []
    for image in images:
        stamp = 0, 0
        try:
            status = os.stat(root / image)
            stamp = status.st_size, status.st_mtime_ns
            content = read_bytes(root / image)
            height, width, mode = header(content)
            pixels = decode_image(content, size=(height, width), channels=1 if mode in GREY_MODES else 3)
        except (UnreadableImageError, OSError) as error:
            why = error.reason if isinstance(error, UnreadableImageError) else reason(error)
            found[image] = AlignmentOutcome(image, UNREADABLE, *stamp, note=why)
            continue
        group.append((image, pixels, stamp))
        if sum(pixels.size for _, pixels, _ in group) >= PIXELS_AT_ONCE:
            yield group
            group = []
    yield group


def _outcome(
    image: str,
    target: Path,
    pixels: Pixels,
    stamp: Stamp,
    faces: Faces,
    mirrored: Faces,
    attempt: int,
    options: AlignmentOptions,
) -> AlignmentOutcome:
    height, width = pixels.shape[1:]
    if not len(faces):
        return AlignmentOutcome(image, NONE, *stamp, note=f"no face was found in {width} × {height} pixels")
    place = chosen(faces, height, width, by=options.choose)
    box = faces.boxes[place]
    landmarks = steadied(faces.landmarks[place], box, mirrored, width)
    note = ""
    if len(faces) > 1:
        why = "the largest" if options.choose == "largest" else "the largest near the centre"
        x, y = ((box[:2] + box[2:]) / 2).round().astype(int)
        note = f"of {len(faces)} faces {why} was taken, at {x}, {y}"
    return AlignmentOutcome(
        image,
        ALIGNED if len(faces) == 1 else SEVERAL,
        *stamp,
        written=_write(target, aligned(pixels, landmarks, side=options.side)),
        faces=len(faces),
        attempt=attempt,
        probability=float(faces.probabilities[place]),
        residual=residual(landmarks),
        place=(*box.tolist(), *landmarks.ravel().tolist()),
        note=note,
    )


def _write(path: Path, face: Pixels) -> int:
    """Write the face atomically and return the size of its file.

    It is not flushed to disk, which would take a third of the time: the log has its size, and a run after a crash
    repeats incomplete ones.
    """
    form, settings = FORMATS[path.suffix.lower()]
    image = Image.fromarray(face[0] if len(face) == 1 else np.ascontiguousarray(face.transpose(1, 2, 0)))
    content = BytesIO()
    image.save(content, form, **settings)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{secrets.token_hex(8)}.part")  # short, since a name may already have the maximal length
    try:
        with part.open("xb") as file:  # never through a link that was planted under this name
            file.write(content.getvalue())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise_if_full(error, path, content.tell())
        raise
    return content.tell()
