"""CIFAR-10: binary batches, or a folder of images per class, each unpacked or in its archive."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from equipoise.data.images.scan import Labelled
from equipoise.data.samples import Samples
from equipoise.errors import InvalidInputError, readable
from equipoise.paper.sets.dataset import AS_THEY_ARE, DataSet, Publication, PublishedFile, Reading
from equipoise.paper.sets.image_files import image_samples, images_below, in_folder_or_archives, subfolders
from equipoise.storage.files import read_plain

NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
"""Names of the labels 0 to 9, from its authors; in alphabetical order."""

TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
LOSSY = "these images are JPEG, not the original pixels of CIFAR-10: say so beside every figure."
PIXELS = 3 * 32 * 32
BATCH_BYTES = 2**28
"""Largest batch that is read; the published ones have at most 154 MB."""

Batch = tuple[NDArray[np.uint8], NDArray[np.intp]]


def read_cifar10(folder: Path, reading: Reading = AS_THEY_ARE) -> Samples:
    """Read images (60000, 3, 32, 32) with class names as labels, 50,000 for training and 10,000 for test."""
    kind, place = in_folder_or_archives(folder, _find, "cifar-10-batches-bin, or train/CLASS and test/CLASS")
    if kind == "images":
        return _read_images(place, reading)
    batches = [read_binary_batch(_present(place / f"{name}.bin")) for name in (*TRAIN, "test_batch")]
    counts = [len(labels) for _, labels in batches]
    return Samples(
        np.concatenate([pixels for pixels, _ in batches]),
        np.array(NAMES)[np.concatenate([labels for _, labels in batches])],
        partition=np.repeat(["train", "test"], [sum(counts[:-1]), counts[-1]]),
    )


def _find(roots: list[Path]) -> tuple[str, Path] | None:
    for place in (place for root in roots for place in (root, root / "cifar-10-batches-bin")):
        if (place / "data_batch_1.bin").is_file():
            return "binary", place
    images = next((root for root in roots if set(NAMES) & set(subfolders(root / "train"))), None)
    for place in (place for root in roots for place in (root, root / "cifar-10-batches-py")):
        if images is None and (place / "data_batch_1").is_file():
            raise InvalidInputError(
                f"{place} holds CIFAR-10's Python version, whose pickles are not read; get the binary version with "
                "`equipoise data fetch cifar10`, or cifar-10-binary.tar.gz from its authors."
            )
    return None if images is None else ("images", images)


def _present(path: Path) -> Path:
    if not path.is_file():
        raise InvalidInputError(f"{path.name} is not in {path.parent}; five data batches and a test batch are needed.")
    return path


def read_binary_batch(path: Path, *, label_bytes: int = 1, classes: int = 10) -> Batch:
    """Read images (n, 3, 32, 32) and labels from records of 3,072 pixel bytes behind the label.

    Of several label bytes the last one counts: CIFAR-100 has a coarse label before the fine one.
    """
    with readable(path, "fetch it again"):
        content = read_plain(path, most_bytes=BATCH_BYTES)
    size = label_bytes + PIXELS
    if len(content) == 0 or len(content) % size:
        raise InvalidInputError(
            f"{path} must hold records of {size:,} bytes, got {len(content):,} bytes; fetch it again."
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, size)
    labels = records[:, label_bytes - 1].astype(np.intp)
    if labels.max() >= classes:
        raise InvalidInputError(f"{path} must hold labels from 0 to {classes - 1}, got others; fetch it again.")
    return records[:, label_bytes:].reshape(-1, 3, 32, 32), labels


def _read_images(root: Path, reading: Reading) -> Samples:
    folders = [(part, label) for part in ("train", "test") for label in NAMES]
    for part in ("train", "test"):
        odd = sorted(set(subfolders(root / part)) ^ set(NAMES))
        if odd:
            raise InvalidInputError(
                f"{root / part} must have a folder for each of {', '.join(NAMES)}; check {odd[0]!r}."
            )
    names, counts = images_below(root, [f"{part}/{label}" for part, label in folders])
    parts, labels = np.repeat(np.array(folders), counts, axis=0).T
    lossy = any(name.lower().endswith((".jpg", ".jpeg")) for name in names)
    rows = Labelled(names, labels, partition=parts, notes=[LOSSY] if lossy else [])
    return image_samples(root, rows, reading, size=(32, 32), channels=3)


CIFAR10 = DataSet(
    title="CIFAR-10",
    read=read_cifar10,
    folders=("cifar10", "cifar-10", "CIFAR10"),
    images={"train": 50_000, "test": 10_000},
    classes=10,
    marks=("cifar-10-*", "cifar10*.tar.*", "data_batch_1*", "train/airplane"),
    published=Publication(
        ("https://www.cs.toronto.edu/~kriz/",),
        (
            PublishedFile(
                "cifar-10-binary.tar.gz",
                170_052_171,
                "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            ),
        ),
    ),
)
