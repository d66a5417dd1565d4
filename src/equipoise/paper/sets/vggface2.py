"""VGGFace2: 3.3 million faces of 9,131 people, a folder an identity."""

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
    read_rows,
    subfolders,
)

SIZE = (112, 112)
"""The images have sizes of their own; this is the paper's for faces."""

PARTS = ("train", "test")


def read_vggface2(folder: Path, reading: Reading = AS_THEY_ARE) -> Samples:
    """Faces with the identity (``n000002``) as label; train and test share no identity."""
    root = in_folder_or_archives(folder, _find, "train and test with a folder an identity, such as train/n000002")
    names: list[str] = []
    identities: list[str] = []
    counts: dict[str, list[int]] = {}
    for part in PARTS:
        counts[part] = []
        for identity in _identities(root / part):
            inside = image_names(root / part / identity)
            names += [f"{part}/{identity}/{name}" for name in inside]
            identities.append(identity)
            counts[part].append(len(inside))
    if not names:
        raise InvalidInputError(f"{root} has the folders of VGGFace2, but no image is in them.")
    rows = Labelled(
        names,
        np.repeat(np.array(identities), [count for part in PARTS for count in counts[part]]),
        partition=np.repeat(np.array(PARTS), [sum(counts[part]) for part in PARTS]),
        notes=_notes(folder, identities),
    )
    return image_samples(root, rows, reading, size=SIZE, channels=3)


def _identities(folder: Path) -> list[str]:
    return [name for name in subfolders(folder) if name[0] == "n" and name[1:].isdecimal()]


def _find(roots: list[Path]) -> Path | None:
    for root in roots:
        for place in (root, root / "data", root / "vggface2"):
            if any(_identities(place / part) for part in PARTS):
                return place
    return None


def _notes(folder: Path, identities: list[str]) -> list[str]:
    """How many identities of the official list are not there, when the list is."""
    places = [place for place in (folder / "identity_meta.csv", folder / "meta/identity_meta.csv") if place.is_file()]
    if not places:
        return []
    listed = {row["Class_ID"].strip() for row in read_rows(places[0], ("Class_ID",))}
    absent = len(listed - set(identities))
    return [f"{absent:,} of the {len(listed):,} identities of identity_meta.csv have no folder."] if absent else []
