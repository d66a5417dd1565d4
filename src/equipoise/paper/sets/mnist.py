"""MNIST and Fashion-MNIST: four idx files, gzipped or not."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from equipoise.data.samples import Samples
from equipoise.errors import InvalidInputError
from equipoise.paper.sets.idx import read_idx
from equipoise.paper.sets.image_files import AS_THEY_ARE, Reading

FASHION_NAMES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
"""The names of Fashion-MNIST's labels 0 to 9, as its authors give them."""

DEBIAN_FASHION = Path("/usr/share/datasets/fashion-mnist")
"""Where the Debian package dataset-fashion-mnist puts its files."""

SIDE = 28


def read_mnist(folder: Path, _: Reading = AS_THEY_ARE) -> Samples:
    """Images (70000, 1, 28, 28) with the digits as labels, 60,000 for training and then 10,000 for test."""
    return _read(folder, "MNIST/raw")


def read_fashion_mnist(folder: Path, _: Reading = AS_THEY_ARE) -> Samples:
    """As :func:`read_mnist`, with the names of the garments as labels."""
    samples = _read(folder, "FashionMNIST/raw")
    return Samples(samples.x, np.array(FASHION_NAMES)[samples.y], partition=samples.partition)


def _read(folder: Path, inner: str) -> Samples:
    images, labels, partition = [], [], []
    places = (folder, folder / "raw", folder / inner)
    for prefix, part in (("train", "train"), ("t10k", "test")):
        pixels, digits = _read_part(places, prefix)
        images.append(pixels)
        labels.append(digits)
        partition.append(np.full(len(digits), part))
    return Samples(np.concatenate(images)[:, None], np.concatenate(labels), partition=np.concatenate(partition))


def _read_part(places: tuple[Path, ...], prefix: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    image_file, label_file = _find(places, f"{prefix}-images", 3), _find(places, f"{prefix}-labels", 1)
    images, labels = read_idx(image_file, dimensions=3), read_idx(label_file, dimensions=1)
    if images.shape[1:] != (SIDE, SIDE):
        raise InvalidInputError(
            f"{image_file} must hold images of {SIDE}×{SIDE}, got {images.shape[1]}×{images.shape[2]}."
        )
    if len(images) != len(labels):
        raise InvalidInputError(
            f"{image_file} holds {len(images):,} images and {label_file} {len(labels):,} labels; they must be as many."
        )
    if labels.max(initial=0) > 9:
        raise InvalidInputError(f"{label_file} must hold labels from 0 to 9, got {labels.max()}.")
    return images, labels.astype(np.int64)


def _find(places: tuple[Path, ...], stem: str, dimensions: int) -> Path:
    names = [
        f"{stem}{joint}idx{dimensions}-ubyte{ending}"
        for joint in "-."  # some unpackers write a dot
        for ending in ("", ".gz")
    ]
    for place in places:
        for name in names:
            if (place / name).is_file():
                return place / name
    raise InvalidInputError(f"{names[0]} or {names[1]} is not in {places[0]}; give the folder of the four idx files.")
