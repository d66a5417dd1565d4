"""The Edinburgh Dermofit Image Library: 1,300 skin lesions of ten classes, one folder per class."""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from equipoise.data.images.scan import Labelled
from equipoise.data.samples import Samples
from equipoise.errors import InvalidInputError
from equipoise.paper.sets.dataset import AS_THEY_ARE, DataSet, Reading
from equipoise.paper.sets.image_files import image_names, image_samples, in_folder_or_archives, subfolders

CLASSES = {
    "AK": ("Actinic Keratosis", 45),
    "BCC": ("Basal Cell Carcinoma", 239),
    "ML": ("Melanocytic Nevus", 331),
    "SCC": ("Squamous Cell Carcinoma", 88),
    "SK": ("Seborrhoeic Keratosis", 257),
    "IEC": ("Intraepithelial Carcinoma", 78),
    "PYO": ("Pyogenic Granuloma", 24),
    "VASC": ("Haemangioma", 97),
    "DF": ("Dermatofibroma", 65),
    "MEL": ("Malignant Melanoma", 76),
}
"""Classes by abbreviation, each with its number of images: 1,300 in all."""

FIVE = ("AK", "BCC", "ML", "SCC", "SK")
"""Classes of Experiment 1, as chosen by Ballerini et al. (2013): 960 images."""

OTHER_NAMES = {
    "melanocyticnevusmole": "ML",
    "melanocyticnaevus": "ML",
    "mole": "ML",
    "nevus": "ML",
    "seborrheickeratosis": "SK",
    "hemangioma": "VASC",
    "haemangiomas": "VASC",
    "vascularlesion": "VASC",
    "melanoma": "MEL",
    "insitucarcinoma": "IEC",
}
SIZE = (224, 224)
"""Default size; the images' own sizes range from 177×189 to 2,176×2,549."""


def class_of(folder: str) -> str | None:
    """Return the abbreviation of the class that a folder's name means: ``AK``, ``Actinic Keratosis`` or both."""
    inner = re.search(r"\(([^()]*)\)\s*$", folder)
    candidates = [folder, inner[1] if inner else "", re.sub(r"\([^()]*\)\s*$", "", folder)]
    known = {_plain(name): short for short, (name, _) in CLASSES.items()} | OTHER_NAMES
    known |= {short.lower(): short for short in CLASSES}
    return next((known[_plain(name)] for name in candidates if _plain(name) in known), None)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())


def read_dermofit(folder: Path, reading: Reading = AS_THEY_ARE, *, classes: Sequence[str] = tuple(CLASSES)) -> Samples:
    """Read all ten classes (Experiment 2), or ``FIVE`` (Experiment 1), with the lesion as group."""
    places = in_folder_or_archives(folder, _find, "a folder per class, such as AK or Actinic Keratosis")
    missing = [short for short in classes if short not in places]
    if missing:
        raise InvalidInputError(f"{folder} has no folder for the class {missing[0]}, {CLASSES[missing[0]][0]}.")
    root = Path(os.path.commonpath([places[short].parent for short in classes]))
    names, labels, groups = [], [], []
    for short in classes:
        inside = _images(places[short])
        if not inside:
            raise InvalidInputError(f"{places[short]} must hold the images of {CLASSES[short][0]}, but has none.")
        for name, lesion in inside:
            names.append((places[short] / name).relative_to(root).as_posix())
            labels.append(CLASSES[short][0])
            groups.append(f"{short}/{lesion}")
    return image_samples(
        root, Labelled(names, np.array(labels), groups=np.array(groups)), reading, size=SIZE, channels=3
    )


def _images(place: Path) -> list[tuple[str, str]]:
    """Return each image of a class with its lesion: in a folder per lesion, or side by side; without the masks."""
    found = [(name, Path(name).stem) for name in image_names(place)]
    found += [(f"{lesion}/{name}", lesion) for lesion in subfolders(place) for name in image_names(place / lesion)]
    return [(name, lesion) for name, lesion in found if not Path(name).stem.lower().endswith("mask")]


def _find(roots: list[Path]) -> dict[str, Path]:
    """Return the folder of each class."""
    places: dict[str, Path] = {}
    for root in roots:
        for parent in (root, *(root / name for name in subfolders(root) if class_of(name) is None)):
            for name in subfolders(parent):
                short = class_of(name)
                if short is not None and places.setdefault(short, parent / name) != parent / name:
                    raise InvalidInputError(
                        f"{parent / name} and {places[short]} are both folders of the class {short}."
                    )
    return places


DERMOFIT = DataSet(
    title="Dermofit",
    read=read_dermofit,
    folders=("dermofit", "Dermofit"),
    images={"all": 1_300},
    classes=10,
    marks=("AK", "AK.zip", "Actinic*"),
)
FIVE_READ = partial(read_dermofit, classes=FIVE)
DERMOFIT_5 = replace(DERMOFIT, title="Dermofit, five classes", read=FIVE_READ, images={"all": 960}, classes=5)
