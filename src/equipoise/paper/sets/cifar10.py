"""CIFAR-10: Python batches, binary batches, or a folder of images a class, each unpacked or in its archive."""

from pathlib import Path

import numpy as np

from equipoise.data.images.scan import Labelled
from equipoise.data.samples import Samples
from equipoise.errors import InvalidInputError
from equipoise.paper.sets.cifar_batches import Batch, read_binary_batch, read_python_batch
from equipoise.paper.sets.image_files import (
    AS_THEY_ARE,
    Reading,
    image_names,
    image_samples,
    in_folder_or_archives,
    subfolders,
)

NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
"""The names of the labels 0 to 9, as its authors give them; in alphabetical order."""

TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
LOSSY = "these images are JPEG, not the original pixels of CIFAR-10: say so beside every figure."


def read_cifar10(folder: Path, reading: Reading = AS_THEY_ARE) -> Samples:
    """Images (60000, 3, 32, 32) with the names of the classes as labels, 50,000 for training and 10,000 for test."""
    kind, place = in_folder_or_archives(
        folder, _find, "cifar-10-batches-py, cifar-10-batches-bin, or train/CLASS and test/CLASS"
    )
    if kind == "images":
        return _read_images(place, reading)
    read, suffix = (read_python_batch, "") if kind == "python" else (read_binary_batch, ".bin")
    train = [read(_present(place / f"{name}{suffix}")) for name in TRAIN]
    return _joined(train, read(_present(place / f"test_batch{suffix}")))


def _find(roots: list[Path]) -> tuple[str, Path] | None:
    for root in roots:
        for place in (root, root / "cifar-10-batches-py", root / "cifar-10-batches-bin"):
            if (place / "data_batch_1").is_file():
                return "python", place
            if (place / "data_batch_1.bin").is_file():
                return "binary", place
    for root in roots:
        if set(NAMES) & set(subfolders(root / "train")):
            return "images", root
    return None


def _present(path: Path) -> Path:
    if not path.is_file():
        raise InvalidInputError(
            f"{path.name} is not in {path.parent}; there must be five data batches and a test batch."
        )
    return path


def _joined(train: list[Batch], test: Batch) -> Samples:
    batches = [*train, test]
    rows = sum(len(labels) for _, labels in train)
    return Samples(
        np.concatenate([pixels for pixels, _ in batches]),
        np.array(NAMES)[np.concatenate([labels for _, labels in batches])],
        partition=np.repeat(["train", "test"], [rows, len(test[1])]),
    )


def _read_images(root: Path, reading: Reading) -> Samples:
    names, labels, partition = [], [], []
    for part in ("train", "test"):
        found = subfolders(root / part)
        if set(found) != set(NAMES):
            odd = sorted(set(found) ^ set(NAMES))
            raise InvalidInputError(
                f"{root / part} must have a folder for each of {', '.join(NAMES)}; check {odd[0]!r}."
            )
        for label in NAMES:
            files = image_names(root / part / label)
            names += [f"{part}/{label}/{name}" for name in files]
            labels += [label] * len(files)
            partition += [part] * len(files)
    if not names:
        raise InvalidInputError(f"{root} has the folders of CIFAR-10, but no image is in them.")
    lossy = any(name.lower().endswith((".jpg", ".jpeg")) for name in names)
    rows = Labelled(names, np.array(labels), partition=np.array(partition), notes=[LOSSY] if lossy else [])
    return image_samples(root, rows, reading, size=(32, 32), channels=3)
