"""Labeled Faces in the Wild: who is in an image, and with which expression."""

import re
from pathlib import Path

import numpy as np

from equipoise.data.images.scan import Labelled
from equipoise.data.samples import Samples
from equipoise.errors import InvalidInputError
from equipoise.paper.sets.dataset import AS_THEY_ARE, DataSet, Reading
from equipoise.paper.sets.image_files import (
    image_names,
    image_samples,
    images_below,
    in_folder_or_archives,
    left_out,
    read_rows,
    subfolders,
)

EXPRESSIONS = ("anger", "contempt", "disgust", "fear", "happiness", "neutral", "sadness", "surprise")
FACE = re.compile(r"(?P<person>.+)_\d{4}\.(jpg|jpeg|png|pgm)", re.IGNORECASE)
OTHER = re.compile(r"(?P<person>.+)_[^_]*")
FLAT = ("img", "images", ".")
NESTED = ("lfw", "lfw_funneled", "lfw-deepfunneled", "lfw-funneled", ".")


def read_lfw_people(folder: Path, reading: Reading = AS_THEY_ARE) -> Samples:
    """Read faces named ``Person/Person_0001.jpg`` or ``Person_0001.jpg``, with the person as label."""
    root, names = in_folder_or_archives(folder, _find, "faces named Person/Person_0001.jpg")
    matches = {name: FACE.fullmatch(name.rsplit("/", 1)[-1]) for name in names}
    people = {name: match["person"] for name, match in matches.items() if match}
    if not people:
        raise InvalidInputError(f"no image in {root} is named as in LFW, Person_0001.jpg.")
    left = len(names) - len(people)
    notes = [f"{left:,} images are not named as in LFW, Person_0001.jpg, and were left out."] if left else []
    return image_samples(root, Labelled([*people], np.array([*people.values()]), notes=notes), reading)


def read_lfw_expressions(folder: Path, reading: Reading = AS_THEY_ARE) -> Samples:
    """Read a face for each row of ``legend.csv``, with the expression as label and the person as group."""
    table = folder / "legend.csv"
    if not table.is_file():
        raise InvalidInputError(f"legend.csv is not in {folder}; it lists user.id,image,emotion.")
    root, names = in_folder_or_archives(folder, _find, "the faces which legend.csv lists")
    places = {name.rsplit("/", 1)[-1]: name for name in names}
    listed = [(row["image"], row["emotion"].strip().lower()) for row in read_rows(table, ("image", "emotion"))]
    rows = [(image, label) for image, label in listed if image in places]
    unknown = sorted({label for _, label in rows} - set(EXPRESSIONS))
    if unknown or not rows:
        what = f"the expression {unknown[0]!r}" if unknown else "none of the images that are there"
        raise InvalidInputError(f"{table} has {what}; it must list images with one of {', '.join(EXPRESSIONS)}.")
    samples = Labelled(
        [places[image] for image, _ in rows],
        np.array([label for _, label in rows]),
        groups=np.array([_person(image) for image, _ in rows]),
        notes=_notes(listed, rows),
    )
    return image_samples(root, samples, reading)


def _find(roots: list[Path]) -> tuple[Path, list[str]] | None:
    """Return the folder, and the faces in it: in a folder per person, or all in one."""
    for root in roots:
        for place in (root / name for name in FLAT):
            names = image_names(place)
            if names:
                return place, names
        for place in (root / name for name in NESTED):
            names, _ = images_below(place, subfolders(place))
            if names:
                return place, names
    return None


def _person(image: str) -> str:
    """Return the name before the number, or the whole name without one."""
    stem = image.rsplit(".", 1)[0]
    match = OTHER.fullmatch(stem)
    return match["person"] if match else stem


def _notes(listed: list[tuple[str, str]], rows: list[tuple[str, str]]) -> list[str]:
    notes = left_out(len(listed) - len(rows), "legend.csv")
    images, pairs = {image for image, _ in rows}, set(rows)
    if len(rows) > len(images):
        notes.append(
            f"{len(rows) - len(images)} rows of legend.csv list an image again, "
            f"{len(pairs) - len(images)} of them with another expression; all were kept."
        )
    return notes


LFW_PEOPLE = DataSet(
    title="LFW",
    read=read_lfw_people,
    folders=("lfw", "LFW"),
    images={"all": 13_233},
    classes=5_749,
    marks=("lfw[_-]*", "[A-Z]*/*_0001.jpg"),
)
LFW_EXPRESSIONS = DataSet(
    title="LFW with expressions",
    read=read_lfw_expressions,
    folders=("lfw", "LFW"),
    images={"all": 13_690},
    classes=len(EXPRESSIONS),
    marks=("legend.csv",),
)
