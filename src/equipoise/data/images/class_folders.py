"""Which image is of which class: told by folders, ``CLASS/image.jpg`` or ``train/CLASS/image.jpg``."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.data.images.scan import Scan
from equipoise.errors import InvalidInputError, listed

PARTS = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "test": "test",
    "testing": "test",
}


@dataclass
class Labelled:
    """Image names with what a layout says of each, row by row."""

    names: list[str]
    y: NDArray[Any]
    attributes: tuple[str, ...] = ()
    groups: NDArray[Any] | None = None
    partition: NDArray[np.str_] | None = None
    notes: list[str] = field(default_factory=list)


def class_folders(found: Scan) -> Labelled:
    """The first folder below the root is the class; below ``train``, ``val`` and ``test`` it is the second."""
    prefix = _common_folder(found)
    inside = {name: name[len(prefix) :].split("/") for name in found.images if name.startswith(prefix)}
    tops = {steps[0] for steps in inside.values() if len(steps) > 1}
    if not tops:
        raise InvalidInputError(
            f"{str(found.root)!r} holds {len(found.images)} images but no folder a class; move them into folders such "
            "as cat/1.jpg and dog/2.jpg, or give a CSV of file and label (--labels, labels=)."
        )
    divided = {PARTS.get(top.lower()) for top in tops} >= {"train"} and all(top.lower() in PARTS for top in tops)
    level = 1 if divided and any(len(steps) > 2 for steps in inside.values()) else 0
    names = [name for name, steps in inside.items() if len(steps) > level + 1]
    labels = np.array([_printable(inside[name][level]) for name in names], dtype=np.str_)
    notes = [f"the classes are the folders in {prefix[:-1]!r}."] if prefix else []
    loose = [name for name in found.images if len(inside.get(name, [""])) <= level + 1]
    if loose:
        notes.append(f"{listed(loose)} {'lies' if len(loose) == 1 else 'lie'} outside of any class folder.")
    notes += _empty_classes(found, prefix, level, set(labels.tolist()))
    partition = None
    if level == 1:
        partition = np.array([PARTS[inside[name][0].lower()] for name in names], dtype=np.str_)
        notes += _untrained_classes(labels, partition)
        if set(partition) == {"train"}:
            partition = None
    return Labelled(names, labels, partition=partition, notes=notes)


def _common_folder(found: Scan) -> str:
    """Folders around the class folders, as archives have them: ``photos/`` in ``photos/cat/1.jpg``."""
    prefix = ""
    while True:
        steps = [name[len(prefix) :].split("/") for name in found.images]
        tops = {step[0] for step in steps}
        below = {step[1] for step in steps if len(step) > 2}
        if len(tops) != 1 or any(len(step) < 3 for step in steps):
            return prefix
        if len(below) < 2 and not all(len(step) > 3 for step in steps):
            return prefix  # one class with its images
        prefix += f"{tops.pop()}/"


def _printable(name: str) -> str:
    """A label as its folder is called; bytes that are no UTF-8 could not be written into a report."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _empty_classes(found: Scan, prefix: str, level: int, labels: set[str]) -> list[str]:
    folders = [name[len(prefix) :].split("/") for name in found.folders if name.startswith(prefix)]
    classes = {_printable(steps[level]) for steps in folders if len(steps) == level + 1 and steps[level]}
    return [f"class {name!r} has no image and is left out." for name in sorted(classes - labels)]


def _untrained_classes(labels: NDArray[np.str_], partition: NDArray[np.str_]) -> list[str]:
    trained = set(labels[partition == "train"].tolist())
    return [f"class {name!r} has no image in train." for name in sorted(set(labels.tolist()) - trained)]
