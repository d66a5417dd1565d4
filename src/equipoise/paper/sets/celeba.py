"""CelebA: 202,599 faces of celebrities with 40 attributes each, and the official parts."""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from equipoise.data.images.scan import Labelled
from equipoise.data.samples import Samples
from equipoise.errors import InvalidInputError, readable
from equipoise.paper.sets.dataset import AS_THEY_ARE, DataSet, Reading
from equipoise.paper.sets.image_files import image_names, image_samples, in_folder_or_archives, left_out

ATTRIBUTES = 40
PARTS = {"0": "train", "1": "val", "2": "test"}
VALUES = {"1": 1, "-1": 0}
SAFE = re.compile(r"\w[\w.-]*")


def read_celeba(folder: Path, reading: Reading = AS_THEY_ARE) -> Samples:
    """Read aligned faces with their attributes as a matrix of 0 and 1, and train, val and test.

    Looks for ``img_align_celeba``, ``list_attr_celeba.txt`` and ``list_eval_partition.txt`` in the folder, or in the
    ``Img``, ``Anno`` and ``Eval`` of the official download.
    """
    attributes, names, y = read_attributes(_text_file(folder, "list_attr_celeba.txt", "Anno"))
    partition_file = _text_file(folder, "list_eval_partition.txt", "Eval")
    parts = read_partition(partition_file)
    place = in_folder_or_archives(folder, _find, "img_align_celeba")
    there = set(image_names(place))
    kept = np.array([row for row, name in enumerate(names) if name in there], np.intp)
    if len(kept) == 0:
        raise InvalidInputError(f"none of the images of list_attr_celeba.txt is in {place}.")
    absent = next((names[row] for row in kept if names[row] not in parts), None)
    if absent is not None:
        raise InvalidInputError(f"{partition_file} must give the part of every image, but has no {absent}.")
    rows = Labelled(
        [names[row] for row in kept],
        y[kept],
        attributes=attributes,
        partition=np.array([parts[names[row]] for row in kept]),
        notes=left_out(len(names) - len(kept), "list_attr_celeba.txt"),
    )
    return image_samples(place, rows, reading, channels=3)


def read_attributes(path: Path) -> tuple[tuple[str, ...], list[str], NDArray[np.uint8]]:
    """Return the names of the attributes, those of the images, and 0 or 1 for each, (images, attributes).

    The first line gives the number of images, the second the attribute names; then follows a line per image: its name,
    and 1 or -1 for each attribute.
    """
    lines = _lines(path)
    count = next(lines, "").strip()
    attributes = tuple(next(lines, "").split())
    if not count.isdecimal() or len(count) > 9 or len(attributes) != ATTRIBUTES or len(set(attributes)) != ATTRIBUTES:
        raise InvalidInputError(
            f"{path} must start with the number of images and a line of {ATTRIBUTES} attributes, "
            f"got {count[:20]!r} and {len(attributes)}."
        )
    names: list[str] = []
    values = bytearray()
    for number, line in enumerate(lines, start=3):
        name, *signs = line.split() or [""]
        if len(signs) != ATTRIBUTES or not SAFE.fullmatch(name) or not VALUES.keys() >= set(signs):
            raise InvalidInputError(f"line {number} of {path} must be a file name and {ATTRIBUTES} times 1 or -1.")
        names.append(name)
        values.extend([VALUES[sign] for sign in signs])
    if len(names) != int(count) or len(set(names)) != len(names):
        raise InvalidInputError(
            f"{path} says that it lists {int(count):,} images, and lists {len(set(names)):,}; fetch it again."
        )
    return attributes, names, np.frombuffer(bytes(values), np.uint8).reshape(-1, ATTRIBUTES)


def read_partition(path: Path) -> dict[str, str]:
    """Return the part of each image by name, from a line per image: 0 for train, 1 for val and 2 for test."""
    parts = {}
    for number, line in enumerate(_lines(path), start=1):
        fields = line.split()
        if len(fields) != 2 or fields[1] not in PARTS:
            raise InvalidInputError(f"line {number} of {path} must be a file name and 0, 1 or 2.")
        parts[fields[0]] = PARTS[fields[1]]
    return parts


def _lines(path: Path) -> Iterator[str]:
    with readable(path, "fetch it again"), path.open(encoding="utf-8") as file:
        yield from file


def _text_file(folder: Path, name: str, official: str) -> Path:
    for place in (folder / name, folder / official / name):
        if place.is_file():
            return place
    raise InvalidInputError(f"{name} is not in {folder}; CelebA comes with it.")


def _find(roots: list[Path]) -> Path | None:
    # some mirrors' archives have the folder twice
    name = "img_align_celeba"
    inner = (name, f"{name}/{name}", f"Img/{name}", f"Img/{name}/{name}", ".")
    return next((root / place for root in roots for place in inner if image_names(root / place)), None)


CELEBA = DataSet(
    title="CelebA",
    read=read_celeba,
    folders=("celeba", "CelebA"),
    images={"train": 162_770, "val": 19_867, "test": 19_962},
    classes=ATTRIBUTES,
    marks=("list_attr_celeba.txt", "Anno/list_attr_celeba.txt"),
)
