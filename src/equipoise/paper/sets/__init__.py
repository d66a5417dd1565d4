"""The paper's data sets and their stand-ins, each read from its official files on disk."""

import difflib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from equipoise.data.samples import Samples
from equipoise.errors import InvalidInputError
from equipoise.paper.sets.celeba import read_celeba
from equipoise.paper.sets.cifar10 import read_cifar10
from equipoise.paper.sets.dermofit import read_dermofit, read_dermofit_5
from equipoise.paper.sets.ham10000 import read_ham10000
from equipoise.paper.sets.image_files import Reading, Size
from equipoise.paper.sets.lfw import read_lfw_expressions, read_lfw_people
from equipoise.paper.sets.mnist import DEBIAN_FASHION, read_fashion_mnist, read_mnist
from equipoise.paper.sets.orl import read_orl
from equipoise.paper.sets.published import PUBLIC
from equipoise.paper.sets.vggface2 import read_vggface2

__all__ = ["DATASETS", "DataSet", "find_set", "load_set", "locate_set"]

DATA_VARIABLE = "EQUIPOISE_DATA"


@dataclass(frozen=True)
class DataSet:
    """A known data set.

    Args:
        title: its name for a reader.
        read: gives its samples from the folder of its official files.
        folders: what that folder is called below the data folder.
        images: how many it has, by official part; by ``"all"`` where there are no parts.
        classes: how many it has; the attributes where there are several labels.
        marks: a folder with one of these, patterns allowed, may be the set's own whatever it is called.
        elsewhere: folders in which a system's package puts it.

    >>> DATASETS["cifar10"].title, DATASETS["cifar10"].images, DATASETS["cifar10"].classes
    ('CIFAR-10', {'train': 50000, 'test': 10000}, 10)
    """

    title: str
    read: Callable[[Path, Reading], Samples]
    folders: tuple[str, ...]
    images: dict[str, int]
    classes: int
    marks: tuple[str, ...]
    elsewhere: tuple[Path, ...] = ()


MNIST_MARKS = ("train-images*", "raw/train-images*", "MNIST/raw/train-images*")
FASHION_MARKS = ("train-images*", "raw/train-images*", "FashionMNIST/raw/train-images*")
DERMOFIT = ("AK", "AK.zip", "Actinic*")
LFW = ("lfw[_-]*", "[A-Z]*/*_0001.jpg")

DATASETS: dict[str, DataSet] = {
    "mnist": DataSet("MNIST", read_mnist, ("mnist", "MNIST"), {"train": 60_000, "test": 10_000}, 10, MNIST_MARKS),
    "fashion_mnist": DataSet(
        "Fashion-MNIST",
        read_fashion_mnist,
        ("fashion_mnist", "fashion-mnist", "FashionMNIST"),
        {"train": 60_000, "test": 10_000},
        10,
        FASHION_MARKS,
        elsewhere=(DEBIAN_FASHION,),
    ),
    "cifar10": DataSet(
        "CIFAR-10",
        read_cifar10,
        ("cifar10", "cifar-10", "CIFAR10"),
        {"train": 50_000, "test": 10_000},
        10,
        ("cifar-10-*", "cifar10*.tar.*", "data_batch_1*", "train/airplane"),
    ),
    "celeba": DataSet(
        "CelebA",
        read_celeba,
        ("celeba", "CelebA"),
        {"train": 162_770, "val": 19_867, "test": 19_962},
        40,
        ("list_attr_celeba.txt", "Anno/list_attr_celeba.txt"),
    ),
    "dermofit": DataSet("Dermofit", read_dermofit, ("dermofit", "Dermofit"), {"all": 1_300}, 10, DERMOFIT),
    "dermofit_5": DataSet(
        "Dermofit, five classes", read_dermofit_5, ("dermofit", "Dermofit"), {"all": 960}, 5, DERMOFIT
    ),
    "ham10000": DataSet("HAM10000", read_ham10000, ("ham10000", "HAM10000"), {"all": 10_015}, 7, ("HAM10000_*",)),
    "vggface2": DataSet(
        "VGGFace2",
        read_vggface2,
        ("vggface2", "VGGFace2", "VGG-Face2"),
        {"train": 3_141_890, "test": 169_396},
        9_131,
        ("train/n0*", "test/n0*", "data/train/n0*"),
    ),
    "lfw_people": DataSet("LFW", read_lfw_people, ("lfw", "LFW"), {"all": 13_233}, 5_749, LFW),
    "lfw_expressions": DataSet(
        "LFW with expressions", read_lfw_expressions, ("lfw", "LFW"), {"all": 13_690}, 8, ("legend.csv",)
    ),
    "orl": DataSet(
        "ORL", read_orl, ("orl", "ORL", "att_faces", "orl_faces"), {"all": 400}, 40, ("s1/*.pgm", "orl_faces*.tar.*")
    ),
}
"""A new set is one file in this folder and one line here."""


def find_set(
    name: str,
    data: Path | None = None,
    *,
    size: Size | None = None,
    check: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Samples:
    """A data set by its name, wherever :func:`locate_set` finds it.

    Args:
        name, data: as in :func:`locate_set`.
        size, check, progress: as in :func:`load_set`.
    """
    return load_set(name, locate_set(name, data), size=size, check=check, progress=progress)


def load_set(
    name: str,
    folder: Path,
    *,
    size: Size | None = None,
    check: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Samples:
    """A data set from the folder of its official files; where its numbers are not the official ones, a note says so.

    Args:
        name: one of :data:`DATASETS`.
        folder: its official files, or the archive of them.
        size: height and width that image files are brought to; None takes the set's own.
        check: decode every image file once and leave out what is broken, instead of only the empty ones.
        progress: called with the files checked so far and all of them.
    """
    known = DATASETS[_key(name)]
    samples = known.read(Path(folder), Reading(size, check, progress))
    if size is not None and tuple(samples.x.shape[2:]) != tuple(size):
        raise InvalidInputError(
            f"{known.title} has images of {samples.x.shape[2]}×{samples.x.shape[3]}; leave size out."
        )
    return replace(samples, notes=(*samples.notes, *_differences(known, samples)))


def locate_set(name: str, data: Path | None = None) -> Path:
    """The folder of a data set: below ``data``, or that folder itself; without it, below ``$EQUIPOISE_DATA``.

    Args:
        name: one of :data:`DATASETS`.
        data: a folder, or None.
    """
    known = DATASETS[key := _key(name)]
    given = data or os.environ.get(DATA_VARIABLE) or None
    roots = [] if given is None else [Path(given).expanduser()]
    places = [root / folder for root in roots for folder in known.folders] + [*known.elsewhere]
    own = [root for root in roots if _is_own(root, known)]
    called = [root for root in roots if root.name in known.folders]
    for candidate in (*own, *places, *called):
        if candidate.is_dir():
            return candidate
    looked = ", ".join(map(str, places)) or f"${DATA_VARIABLE} is not set"
    fetch = f"run `equipoise data fetch {key}`, or " if key in PUBLIC else ""
    raise InvalidInputError(
        f"{known.title} was not found ({looked}); {fetch}set {DATA_VARIABLE} to the folder "
        f"that holds {known.folders[0]}."
    )


def _key(name: str) -> str:
    key = name.lower().replace("-", "_")
    if key not in DATASETS:
        near = difflib.get_close_matches(key, DATASETS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(DATASETS)}."
        raise InvalidInputError(f"there is no data set {name!r}; {hint}")
    return key


def _is_own(root: Path, known: DataSet) -> bool:
    """Whether a folder looks like the set's own, and is not called as another set is: MNIST's files look like
    Fashion-MNIST's."""
    others = {folder for other in DATASETS.values() for folder in other.folders} - set(known.folders)
    return root.name not in others and any(next(root.glob(mark), None) for mark in known.marks)


def _differences(known: DataSet, samples: Samples) -> list[str]:
    """A sentence for each number that is not the official one."""
    parts, counts = np.unique(
        ["all"] * len(samples) if samples.partition is None else samples.partition, return_counts=True
    )
    found = dict(zip(parts.tolist(), counts.tolist(), strict=True))
    notes = [
        f"{known.title} has {official:,} {'' if part == 'all' else part + ' '}images, found {found.get(part, 0):,}."
        for part, official in known.images.items()
        if found.get(part, 0) != official
    ]
    classes = samples.y.shape[1] if samples.multilabel else len(np.unique(samples.y))
    if classes != known.classes:
        notes.append(f"{known.title} has {known.classes:,} classes, found {classes:,}.")
    return notes
