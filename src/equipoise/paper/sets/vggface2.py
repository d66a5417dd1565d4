"""VGGFace2: 3.3 million faces of 9,131 people, one folder per identity."""

from pathlib import Path

import numpy as np

from equipoise.data.images.scan import Labelled
from equipoise.data.samples import Samples
from equipoise.paper.sets.dataset import AS_THEY_ARE, DataSet, Reading
from equipoise.paper.sets.image_files import image_samples, images_below, in_folder_or_archives, read_rows, subfolders

SIZE = (112, 112)
"""The paper's size for faces; the images have different ones."""

PARTS = ("train", "test")


def read_vggface2(folder: Path, reading: Reading = AS_THEY_ARE) -> Samples:
    """Read faces with the identity (``n000002``) as label; train and test share no identity."""
    root = in_folder_or_archives(folder, _find, "train and test with one folder per identity, such as train/n000002")
    folders = [(part, identity) for part in PARTS for identity in _identities(root / part)]
    names, counts = images_below(root, [f"{part}/{identity}" for part, identity in folders])
    parts, identities = np.array(folders).T
    rows = Labelled(
        names,
        np.repeat(identities, counts),
        partition=np.repeat(parts, counts),
        notes=_notes(folder, set(identities.tolist())),
    )
    return image_samples(root, rows, reading, size=SIZE, channels=3)


def _identities(folder: Path) -> list[str]:
    return [name for name in subfolders(folder) if name[0] == "n" and name[1:].isdecimal()]


def _find(roots: list[Path]) -> Path | None:
    places = (place for root in roots for place in (root, root / "data", root / "vggface2"))
    return next((place for place in places if any(_identities(place / part) for part in PARTS)), None)


def _notes(folder: Path, identities: set[str]) -> list[str]:
    """Return a note on missing identities of the official list, if the list is available."""
    places = [place for place in (folder / "identity_meta.csv", folder / "meta/identity_meta.csv") if place.is_file()]
    if not places:
        return []
    listed = {row["Class_ID"].strip() for row in read_rows(places[0], ("Class_ID",))}
    absent = len(listed - identities)
    return [f"{absent:,} of the {len(listed):,} identities of identity_meta.csv have no folder."] if absent else []


VGGFACE2 = DataSet(
    title="VGGFace2",
    read=read_vggface2,
    folders=("vggface2", "VGGFace2", "VGG-Face2"),
    images={"train": 3_141_890, "test": 169_396},
    classes=9_131,
    marks=("train/n0*", "test/n0*", "data/train/n0*"),
)
