"""The ORL (AT&T) faces: 40 people, ten grey images each."""

import re
from pathlib import Path

import numpy as np

from equipoise.data.images.scan import Labelled
from equipoise.data.samples import Samples
from equipoise.paper.sets.dataset import AS_THEY_ARE, DataSet, Reading
from equipoise.paper.sets.image_files import image_samples, images_below, in_folder_or_archives, subfolders

PERSON = re.compile(r"s(\d+)")
PLACES = (".", "att_faces", "orl_faces", "data/faces", "faces")
INNER = (".", "training", "testing")


def read_orl(folder: Path, reading: Reading = AS_THEY_ARE) -> Samples:
    """Read faces ``s1/1.pgm`` with the person, ``s1`` to ``s40``, as label; there is no official partition."""
    root, people = in_folder_or_archives(folder, _find, "one folder per person, s1 to s40")
    names, _ = images_below(root, people.values())
    person = {name: name.split("/")[-2] for name in names}
    names.sort(key=lambda name: (int(person[name][1:]), len(name), name))
    return image_samples(root, Labelled(names, np.array([person[name] for name in names])), reading, channels=1)


def _find(roots: list[Path]) -> tuple[Path, dict[str, str]] | None:
    """Return the folder, and where each person's images are in it."""
    for place in (root / name for root in roots for name in PLACES):
        people = {
            name: (Path(inner) / name).as_posix()
            for inner in INNER
            for name in subfolders(place / inner)
            if PERSON.fullmatch(name)
        }
        if people:
            return place, people
    return None


ORL = DataSet(
    title="ORL",
    read=read_orl,
    folders=("orl", "ORL", "att_faces", "orl_faces"),
    images={"all": 400},
    classes=40,
    marks=("s1/*.pgm", "orl_faces*.tar.*"),
)
