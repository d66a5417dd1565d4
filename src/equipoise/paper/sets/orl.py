"""The ORL (AT&T) faces: 40 people, ten grey images each."""

import re
from pathlib import Path

import numpy as np

from equipoise.data.images.scan import Labelled
from equipoise.data.samples import Samples
from equipoise.errors import InvalidInputError
from equipoise.paper.sets.image_files import (
    AS_THEY_ARE,
    Reading,
    image_names,
    image_samples,
    in_folder_or_archives,
    subfolders,
)

PERSON = re.compile(r"s(\d+)")
PLACES = (".", "att_faces", "orl_faces", "data/faces", "faces")
INNER = (".", "training", "testing")


def read_orl(folder: Path, reading: Reading = AS_THEY_ARE) -> Samples:
    """Faces with the person, ``s1`` to ``s40``, as label, from ``s1/1.pgm``; there is no official partition."""
    root, people = in_folder_or_archives(folder, _find, "a folder a person, s1 to s40")
    names, labels = [], []
    for person in sorted(people, key=lambda name: int(name[1:])):
        inside = image_names(root / people[person])
        names += [f"{people[person]}/{name}" for name in sorted(inside, key=lambda name: (len(name), name))]
        labels += [person] * len(inside)
    if not names:
        raise InvalidInputError(f"{root} has the folders of ORL, but no image is in them.")
    return image_samples(root, Labelled(names, np.array(labels)), reading, channels=1)


def _find(roots: list[Path]) -> tuple[Path, dict[str, str]] | None:
    """The folder, and where in it each person's images lie."""
    for root in roots:
        for place in (root / name for name in PLACES):
            people = {
                name: (Path(inner) / name).as_posix()
                for inner in INNER
                for name in subfolders(place / inner)
                if PERSON.fullmatch(name)
            }
            if people:
                return place, people
    return None
