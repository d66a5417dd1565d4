"""CIFAR-100 in its binary version, unpacked or in its archive, with its fine labels."""

from pathlib import Path

import numpy as np

from equipoise.data.samples import Samples
from equipoise.errors import InvalidInputError, readable
from equipoise.paper.sets.cifar10 import read_binary_batch
from equipoise.paper.sets.dataset import AS_THEY_ARE, DataSet, Publication, PublishedFile, Reading
from equipoise.paper.sets.image_files import in_folder_or_archives
from equipoise.storage.files import read_plain

CLASSES = 100
LABEL_BYTES = 2
"""A record starts with its coarse and its fine label."""
NAMES_FILE, NAMES_BYTES = "fine_label_names.txt", 2**16


def read_cifar100(folder: Path, reading: Reading = AS_THEY_ARE) -> Samples:  # noqa: ARG001
    """Read images (60000, 3, 32, 32) with fine class names as labels, 50,000 for training and 10,000 for test."""
    place = in_folder_or_archives(folder, _find, "cifar-100-binary with train.bin and test.bin")
    names, parts = _names(place / NAMES_FILE), ("train", "test")
    batches = [read_binary_batch(place / f"{part}.bin", label_bytes=LABEL_BYTES, classes=CLASSES) for part in parts]
    return Samples(
        np.concatenate([pixels for pixels, _ in batches]),
        names[np.concatenate([labels for _, labels in batches])],
        partition=np.repeat(parts, [len(labels) for _, labels in batches]),
    )


def _find(roots: list[Path]) -> Path | None:
    places = [place for root in roots for place in (root, root / "cifar-100-binary")]
    found = next((place for place in places if (place / "train.bin").is_file()), None)
    pickled = next((place for root in roots for place in (root, root / "cifar-100-python") if _is_pickled(place)), None)
    if found is None and pickled is not None:
        raise InvalidInputError(
            f"{pickled} holds CIFAR-100's Python version, whose pickles are not read; get the binary version with "
            "`equipoise data fetch cifar100`, or cifar-100-binary.tar.gz from its authors."
        )
    return found


def _is_pickled(place: Path) -> bool:
    return (place / "train").is_file() and (place / "meta").is_file()


def _names(path: Path) -> np.ndarray:
    """Return the names of the labels 0 to 99, which are in alphabetical order."""
    with readable(path, "fetch it again"):
        names = read_plain(path, most_bytes=NAMES_BYTES).decode().split()
    if len(set(names)) != CLASSES or len(names) != CLASSES:
        raise InvalidInputError(f"{path} must hold {CLASSES} different names, got {len(set(names))}; fetch it again.")
    return np.array(names)


CIFAR100 = DataSet(
    title="CIFAR-100",
    read=read_cifar100,
    folders=("cifar100", "cifar-100", "CIFAR100"),
    images={"train": 50_000, "test": 10_000},
    classes=CLASSES,
    marks=("cifar-100-*", "cifar100*.tar.*", NAMES_FILE),
    published=Publication(
        ("https://www.cs.toronto.edu/~kriz/",),
        (
            PublishedFile(
                "cifar-100-binary.tar.gz",
                168_513_733,
                "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
            ),
        ),
    ),
)
