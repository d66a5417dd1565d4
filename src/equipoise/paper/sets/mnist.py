"""MNIST and Fashion-MNIST: four idx files, gzipped or not."""

import gzip
import math
import zlib
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from equipoise.data.samples import Samples
from equipoise.errors import InvalidInputError, readable
from equipoise.paper.sets.dataset import AS_THEY_ARE, DataSet, Publication, PublishedFile, Reading

FASHION_NAMES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
"""Names of Fashion-MNIST's labels 0 to 9, from its authors."""

DEBIAN_FASHION = Path("/usr/share/datasets/fashion-mnist")
"""Folder of the Debian package dataset-fashion-mnist."""

SIDE = 28
UNSIGNED_BYTE = 0x08
"""The only element type in the published idx files."""

LIMIT_BYTES = 2**30
"""Largest unpacked size of a file; MNIST's largest has 47 MB."""


def read_mnist(folder: Path, _: Reading = AS_THEY_ARE) -> Samples:
    """Read images (70000, 1, 28, 28) with the digits as labels, 60,000 for training and then 10,000 for test."""
    return _read(folder, "MNIST/raw")


def read_fashion_mnist(folder: Path, _: Reading = AS_THEY_ARE) -> Samples:
    """Read the set like :func:`read_mnist`, with the names of the garments as labels."""
    samples = _read(folder, "FashionMNIST/raw")
    return Samples(samples.x, np.array(FASHION_NAMES)[samples.y], partition=samples.partition)


def _read(folder: Path, inner: str) -> Samples:
    places = (folder, folder / "raw", folder / inner)
    (train, train_labels), (test, test_labels) = (_read_part(places, prefix) for prefix in ("train", "t10k"))
    return Samples(
        np.concatenate([train, test])[:, None],
        np.concatenate([train_labels, test_labels]),
        partition=np.repeat(["train", "test"], [len(train), len(test)]),
    )


def _read_part(places: tuple[Path, ...], prefix: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    image_file, label_file = _find(places, f"{prefix}-images", 3), _find(places, f"{prefix}-labels", 1)
    images, labels = read_idx(image_file, dimensions=3), read_idx(label_file, dimensions=1)
    if images.shape[1:] != (SIDE, SIDE):
        raise InvalidInputError(
            f"{image_file} must hold images of {SIDE}×{SIDE}, got {images.shape[1]}×{images.shape[2]}."
        )
    if len(images) != len(labels):
        raise InvalidInputError(
            f"{image_file} holds {len(images):,} images and {label_file} {len(labels):,} labels; they must match."
        )
    if labels.max(initial=0) > 9:
        raise InvalidInputError(f"{label_file} must hold labels from 0 to 9, got {labels.max()}.")
    return images, labels.astype(np.int64)


def _find(places: tuple[Path, ...], stem: str, dimensions: int) -> Path:
    # some unpackers write a dot
    names = [f"{stem}{joint}idx{dimensions}-ubyte{ending}" for joint in "-." for ending in ("", ".gz")]
    for path in (place / name for place in places for name in names):
        if path.is_file():
            return path
    raise InvalidInputError(f"{names[0]} or {names[1]} is not in {places[0]}; give the folder of the four idx files.")


def read_idx(path: Path, *, dimensions: int, limit_bytes: int = LIMIT_BYTES) -> NDArray[np.uint8]:
    """Read the array of an idx file, gzipped or not, never unpacking more than its header says."""
    with readable(path, "fetch it again", EOFError, zlib.error), path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        stream = cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if packed else raw
        return _parse(stream, path, dimensions, limit_bytes)


def _parse(stream: BinaryIO, path: Path, dimensions: int, limit_bytes: int) -> NDArray[np.uint8]:
    """Parse a magic number, the sizes of the dimensions, then the bytes."""
    magic = stream.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0":
        raise InvalidInputError(f"{path} is not an idx file: it starts with {magic.hex() or 'nothing'}, not with 0000.")
    if magic[2] != UNSIGNED_BYTE or magic[3] != dimensions:
        raise InvalidInputError(
            f"{path} must hold unsigned bytes (type 08) in {dimensions} dimensions, "
            f"got type {magic[2]:02x} in {magic[3]}."
        )
    header = stream.read(4 * dimensions)
    if len(header) < 4 * dimensions:
        raise InvalidInputError(f"{path} ends within its header; fetch it again.")
    shape = tuple(int(size) for size in np.frombuffer(header, ">u4"))
    expected = math.prod(shape)
    if expected > limit_bytes:
        raise InvalidInputError(f"{path} claims {shape}, more than the limit of {limit_bytes:,} bytes; fetch it again.")
    content = stream.read(expected + 1)
    if len(content) != expected:
        found = f"{len(content):,}" if len(content) < expected else "more"
        raise InvalidInputError(f"{path} must hold {expected:,} bytes for its {shape}, got {found}; fetch it again.")
    return np.frombuffer(content, np.uint8).reshape(shape)


IDX_FILES = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")


def _published(places: tuple[str, ...], *files: tuple[int, str]) -> Publication:
    named = zip(IDX_FILES, files, strict=True)
    return Publication(places, tuple(PublishedFile(f"{name}-ubyte.gz", *file) for name, file in named))


MNIST = DataSet(
    title="MNIST",
    read=read_mnist,
    folders=("mnist", "MNIST"),
    images={"train": 60_000, "test": 10_000},
    classes=10,
    marks=("train-images*", "raw/train-images*", "MNIST/raw/train-images*"),
    published=_published(
        ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
        (9_912_422, "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
        (28_881, "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
        (1_648_877, "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
        (4_542, "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
    ),
)
FASHION_MNIST = DataSet(
    title="Fashion-MNIST",
    read=read_fashion_mnist,
    folders=("fashion_mnist", "fashion-mnist", "FashionMNIST"),
    images={"train": 60_000, "test": 10_000},
    classes=10,
    marks=("train-images*", "raw/train-images*", "FashionMNIST/raw/train-images*"),
    elsewhere=(DEBIAN_FASHION,),
    published=_published(
        (
            "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/b2617bb6d3ffa2e429640350f613e3291e10b141/data/fashion/",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        ),
        (26_421_880, "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
        (29_515, "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
        (4_422_102, "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
        (5_148, "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
    ),
)
