"""CIFAR-10: Python batches, binary batches, or a folder of images per class, each unpacked or in its archive."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.data.images.scan import Labelled
from equipoise.data.samples import Samples
from equipoise.errors import InvalidInputError
from equipoise.paper.sets.dataset import AS_THEY_ARE, DataSet, Publication, PublishedFile, Reading
from equipoise.paper.sets.image_files import image_samples, images_below, in_folder_or_archives, subfolders
from equipoise.paper.sets.plain_pickle import RecordedCall, array_content, plain_bytes, read_bounded, read_plain_pickle

NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
"""Names of the labels 0 to 9, from its authors; in alphabetical order."""

TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
LOSSY = "these images are JPEG, not the original pixels of CIFAR-10: say so beside every figure."
PIXELS = 3 * 32 * 32
BATCH_BYTES = 2**28
"""Largest batch that is read; the published ones have 31 MB."""

Batch = tuple[NDArray[np.uint8], NDArray[np.intp]]


def read_cifar10(folder: Path, reading: Reading = AS_THEY_ARE) -> Samples:
    """Read images (60000, 3, 32, 32) with class names as labels, 50,000 for training and 10,000 for test."""
    kind, place = in_folder_or_archives(
        folder, _find, "cifar-10-batches-py, cifar-10-batches-bin, or train/CLASS and test/CLASS"
    )
    if kind == "images":
        return _read_images(place, reading)
    read, suffix = (read_python_batch, "") if kind == "python" else (read_binary_batch, ".bin")
    batches = [read(_present(place / f"{name}{suffix}")) for name in (*TRAIN, "test_batch")]
    counts = [len(labels) for _, labels in batches]
    return Samples(
        np.concatenate([pixels for pixels, _ in batches]),
        np.array(NAMES)[np.concatenate([labels for _, labels in batches])],
        partition=np.repeat(["train", "test"], [sum(counts[:-1]), counts[-1]]),
    )


def _find(roots: list[Path]) -> tuple[str, Path] | None:
    for root in roots:
        for place in (root, root / "cifar-10-batches-py", root / "cifar-10-batches-bin"):
            if (place / "data_batch_1").is_file():
                return "python", place
            if (place / "data_batch_1.bin").is_file():
                return "binary", place
    return next((("images", root) for root in roots if set(NAMES) & set(subfolders(root / "train"))), None)


def _present(path: Path) -> Path:
    if not path.is_file():
        raise InvalidInputError(
            f"{path.name} is not in {path.parent}; there must be five data batches and a test batch."
        )
    return path


def read_binary_batch(path: Path) -> Batch:
    """Read images (n, 3, 32, 32) and labels 0 to 9 from records of one label byte and 3,072 pixel bytes."""
    content = read_bounded(path, most_bytes=BATCH_BYTES)
    if len(content) == 0 or len(content) % (PIXELS + 1):
        raise InvalidInputError(
            f"{path} must hold records of {PIXELS + 1:,} bytes, got {len(content):,} bytes; fetch it again."
        )
    records = np.frombuffer(content, np.uint8).reshape(-1, PIXELS + 1)
    return _checked(path, records[:, 1:], records[:, 0].astype(np.intp))


def read_python_batch(path: Path) -> Batch:
    """Read a pickled dictionary of ``data`` and ``labels`` without running it; else as :func:`read_binary_batch`."""

    def decoded(batch: Any) -> Batch:
        entries = batch if isinstance(batch, dict) else {}
        entries = {k if isinstance(k, str) else plain_bytes(k).decode("latin-1"): v for k, v in entries.items()}
        data, labels = entries.get("data"), entries.get("labels")
        if not (isinstance(data, RecordedCall) and isinstance(labels, list) and all(type(i) is int for i in labels)):
            raise InvalidInputError(
                f"{path} must be a dictionary with the array data and the list labels of whole numbers."
            )
        try:
            shape, content = array_content(data, ("u1",))
        except TypeError:
            shape, content = (), b""
        if shape != (len(labels), PIXELS) or not labels:
            raise InvalidInputError(
                f"{path} must hold an array of bytes, ({len(labels)}, {PIXELS}), for its {len(labels)} labels."
            )
        pixels = np.frombuffer(content, np.uint8).reshape(shape)
        return _checked(path, pixels, np.array([i if 0 <= i <= 9 else -1 for i in labels], np.intp))

    return read_plain_pickle(path, decoded, what="a batch of CIFAR-10", most_bytes=BATCH_BYTES)


def _checked(path: Path, pixels: NDArray[np.uint8], labels: NDArray[np.intp]) -> Batch:
    if labels.min() < 0 or labels.max() > 9:
        raise InvalidInputError(f"{path} must hold labels from 0 to 9, got others; fetch it again.")
    return pixels.reshape(-1, 3, 32, 32), labels


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
                "cifar-10-python.tar.gz",
                170_498_071,
                "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
            ),
        ),
    ),
)
