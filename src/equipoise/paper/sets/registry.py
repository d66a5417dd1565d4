"""``DATASETS``, where a new data set is one line, and data sets found and loaded by their names."""

import difflib
import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from equipoise.data.samples import Progress, Samples
from equipoise.errors import InvalidInputError
from equipoise.paper.sets.celeba import CELEBA
from equipoise.paper.sets.cifar10 import CIFAR10
from equipoise.paper.sets.cifar100 import CIFAR100
from equipoise.paper.sets.dataset import DataSet, Reading, Size
from equipoise.paper.sets.dermofit import DERMOFIT, DERMOFIT_5
from equipoise.paper.sets.ham10000 import HAM10000
from equipoise.paper.sets.lfw import LFW_EXPRESSIONS, LFW_PEOPLE
from equipoise.paper.sets.mnist import FASHION_MNIST, MNIST
from equipoise.paper.sets.orl import ORL
from equipoise.paper.sets.vggface2 import VGGFACE2

DATA_VARIABLE = "EQUIPOISE_DATA"

DATASETS: dict[str, DataSet] = {
    "mnist": MNIST,
    "fashion_mnist": FASHION_MNIST,
    "cifar10": CIFAR10,
    "cifar100": CIFAR100,
    "celeba": CELEBA,
    "dermofit": DERMOFIT,
    "dermofit_5": DERMOFIT_5,
    "ham10000": HAM10000,
    "vggface2": VGGFACE2,
    "lfw_people": LFW_PEOPLE,
    "lfw_expressions": LFW_EXPRESSIONS,
    "orl": ORL,
}
"""Data sets by name. To add one, write a file in this folder and a line here."""


def find_set(
    name: str,
    data: Path | None = None,
    *,
    size: Size | None = None,
    check: bool = False,
    progress: Progress | None = None,
) -> Samples:
    """Load a data set by name from wherever :func:`locate_set` finds it.

    Args:
        name, data: as in :func:`locate_set`.
        size, check, progress: as in :func:`load_set`.
    """
    return load_set(name, locate_set(name, data), size=size, check=check, progress=progress)


def load_set(
    name: str, folder: Path, *, size: Size | None = None, check: bool = False, progress: Progress | None = None
) -> Samples:
    """Load a data set from the folder of its official files; a note reports each number that differs from the official.

    Args:
        name: one of :data:`DATASETS`.
        folder: its official files, or the archive of them.
        size: height and width of the images; None takes the set's own.
        check: decode every image file once and leave out broken ones, instead of only the empty ones.
        progress: called with the number of files checked and their total.
    """
    known = DATASETS[_key(name)]
    samples = known.read(Path(folder), Reading(size, check, progress))
    if size is not None and tuple(samples.x.shape[2:]) != tuple(size):
        raise InvalidInputError(
            f"{known.title} has images of {samples.x.shape[2]}×{samples.x.shape[3]}; leave size out."
        )
    return replace(samples, notes=(*samples.notes, *_differences(known, samples)))


def locate_set(name: str, data: Path | None = None) -> Path:
    """Return the folder of a data set: below ``data`` or that folder itself; without it, below ``$EQUIPOISE_DATA``.

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
    fetch = f"run `equipoise data fetch {key}`, or " if known.published else ""
    raise InvalidInputError(
        f"{known.title} was not found ({looked}); {fetch}set {DATA_VARIABLE} to the folder "
        f"that holds {known.folders[0]}."
    )


def _key(name: str) -> str:
    key = name.lower().replace("-", "_")
    if key not in DATASETS:
        near = difflib.get_close_matches(key, DATASETS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"the data sets are {', '.join(DATASETS)}."
        raise InvalidInputError(f"unknown data set {name!r}; {hint}")
    return key


def _is_own(root: Path, known: DataSet) -> bool:
    """Return whether a folder is a set's own, by content and name: MNIST's files look like Fashion-MNIST's."""
    others = {folder for other in DATASETS.values() for folder in other.folders} - set(known.folders)
    return root.name not in others and any(next(root.glob(mark), None) for mark in known.marks)


def _differences(known: DataSet, samples: Samples) -> list[str]:
    parts = np.full(len(samples), "all") if samples.partition is None else samples.partition
    found = {part: int((parts == part).sum()) for part in known.images}
    notes = [
        f"{known.title} has {official:,} {'' if part == 'all' else part + ' '}images, found {found[part]:,}."
        for part, official in known.images.items()
        if found[part] != official
    ]
    classes = len(samples.encoded[0])
    if classes != known.classes:
        notes.append(f"{known.title} has {known.classes:,} classes, found {classes:,}.")
    return notes
