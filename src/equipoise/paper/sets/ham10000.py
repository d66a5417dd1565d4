"""HAM10000, the training set of ISIC 2018: dermatoscopic images of seven kinds of lesion, several of some lesions."""

import os
from pathlib import Path

import numpy as np

from equipoise.data.images.scan import Labelled
from equipoise.data.samples import Samples
from equipoise.errors import InvalidInputError
from equipoise.paper.sets.dataset import AS_THEY_ARE, DataSet, Reading
from equipoise.paper.sets.image_files import image_names, image_samples, in_folder_or_archives, left_out, read_rows

CLASSES = ("akiec", "bcc", "bkl", "df", "mel", "nv", "vasc")
METADATA = ("HAM10000_metadata.csv", "HAM10000_metadata", "metadata.csv")
SUBFOLDERS = ("HAM10000_images_part_1", "HAM10000_images_part_2", "HAM10000_images", "images", "img", ".")


def read_ham10000(folder: Path, reading: Reading = AS_THEY_ARE) -> Samples:
    """Read images with their diagnosis (``dx``) as labels and their ``lesion_id`` as groups, in the metadata's order.

    Images that are in the metadata but not in the folder are left out and counted in a note.
    """
    table = next((folder / name for name in METADATA if (folder / name).is_file()), None)
    if table is None:
        raise InvalidInputError(f"{METADATA[0]} is not in {folder}; give the folder of the metadata and the images.")
    files = in_folder_or_archives(folder, _find, "HAM10000_images_part_1 and HAM10000_images_part_2")
    rows: dict[str, dict[str, str]] = {}
    for row in read_rows(table, ("lesion_id", "image_id", "dx")):
        if rows.setdefault(row["image_id"], row) is not row:
            raise InvalidInputError(f"{table} lists {row['image_id']} twice; an image has one diagnosis.")
    kept = [image for image in rows if image in files]
    if not kept:
        raise InvalidInputError(f"no image in {folder} is in {table.name}; expected names such as ISIC_0024306.jpg.")
    labels = np.array([rows[image]["dx"].strip().lower() for image in kept])
    unknown = sorted(set(labels.tolist()) - set(CLASSES))
    if unknown:
        raise InvalidInputError(f"{table} has the diagnosis {unknown[0]!r}, not one of {', '.join(CLASSES)}.")
    root = os.path.commonpath([os.path.dirname(files[image]) for image in kept])
    notes, unlisted = left_out(len(rows) - len(kept), table.name), len(files) - len(kept)
    if unlisted:
        notes.append(f"{unlisted:,} images are not in {table.name} and were left out.")
    samples = Labelled(
        [os.path.relpath(files[image], root) for image in kept],
        labels,
        groups=np.array([rows[image]["lesion_id"] for image in kept]),
        notes=notes,
    )
    return image_samples(Path(root), samples, reading, channels=3)


def _find(roots: list[Path]) -> dict[str, str]:
    """Return the file of each image, by its name without suffix."""
    files = {}
    for root in roots:
        for place in (root / name for name in SUBFOLDERS):
            files.update({Path(name).stem: os.path.abspath(place / name) for name in image_names(place)})
    return files


HAM10000 = DataSet(
    title="HAM10000",
    read=read_ham10000,
    folders=("ham10000", "HAM10000"),
    images={"all": 10_015},
    classes=len(CLASSES),
    marks=("HAM10000_*",),
)
