"""Scanning a folder for images, and reading their classes from its subfolders."""

import os
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.errors import InvalidInputError, listed
from equipoise.storage.archives import is_archive, unpack

SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".gif", ".tif", ".tiff"}
    | {".webp", ".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".j2k", ".avif"}
)
PARTS = dict.fromkeys(("train", "training"), "train")
PARTS |= dict.fromkeys(("val", "valid", "validation"), "val") | dict.fromkeys(("test", "testing"), "test")
FOREIGN = frozenset({"__MACOSX", "@eaDir", "$RECYCLE.BIN", "System Volume Information"})  # left by other systems


@dataclass
class Scan:
    """The files below a folder. Names are relative to the root, with ``/``, sorted."""

    root: Path
    images: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)  # files that are not images
    dangling: list[str] = field(default_factory=list)  # broken links
    repeated: list[str] = field(default_factory=list)  # links to folders that were already read
    unreadable: list[str] = field(default_factory=list)

    def notes(self) -> list[str]:
        """Return a sentence for each kind of thing that was skipped."""
        kinds = (
            (self.others, "is not an image and is ignored", "are not images and are ignored"),
            (self.dangling, "is a link that leads nowhere and is ignored", "are links that lead nowhere"),
            (self.repeated, "is a link to a folder already read and is not followed", "are links to folders read once"),
            (self.unreadable, "is a folder that may not be read", "are folders that may not be read"),
        )
        return [f"{listed(names)} {one if len(names) == 1 else many}." for names, one, many in kinds if names]


def scan_images(source: str | os.PathLike[str] | Scan) -> Scan:
    """Find the images of a folder, or of a tar or zip archive of one; raise an error if there are none.

    What was found already is returned.
    """
    if isinstance(source, Scan):
        return source
    given = Path(source).expanduser()
    root = unpack(given) if is_archive(given) and given.is_file() else given
    if not root.is_dir():
        raise InvalidInputError(f"{str(source)!r} is not a folder or archive; give the folder that holds the images.")
    found = scan(root)
    if not found.images:
        raise InvalidInputError(
            f"no images found in {str(source)!r}; expected files such as cat/1.jpg, ending in one of "
            f"{', '.join(sorted(SUFFIXES))}."
        )
    return found


def scan(root: Path) -> Scan:
    """Find all image files below a folder, except hidden ones.

    Links to folders are followed after all real folders, and never into a folder that was already read: loops of links
    end, and each file is found once.
    """
    found = Scan(root)
    seen: set[tuple[int, int]] = set()
    waiting, links = [""], list[str]()
    while waiting or links:
        name = waiting.pop() if waiting else links.pop(0)
        try:
            status = os.stat(root / name)
            identity = (status.st_dev, status.st_ino)
            if identity in seen:
                found.repeated.append(name)
                continue
            seen.add(identity)
            with os.scandir(root / name) as entries:
                inside = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            found.unreadable.append(name or ".")
            continue
        if name:
            found.folders.append(name)
        _sort_out(inside, name, found, waiting, links)
    for names in (found.images, found.folders, found.others, found.dangling):
        names.sort()
    return found


def _sort_out(
    entries: list["os.DirEntry[str]"], folder: str, found: Scan, waiting: list[str], links: list[str]
) -> None:
    for entry in entries:
        name = f"{folder}/{entry.name}" if folder else entry.name
        if entry.name.startswith(".") or entry.name in FOREIGN:
            continue
        if _is_folder(entry):
            (links if entry.is_symlink() else waiting).append(name)
        elif PurePosixPath(entry.name).suffix.lower() not in SUFFIXES:
            found.others.append(name)
        elif entry.is_symlink() and not os.path.exists(entry.path):
            found.dangling.append(name)
        elif entry.is_file():
            found.images.append(name)
        else:  # a pipe or a device, which would block on opening
            found.others.append(name)


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


@dataclass
class Labelled:
    """Image names with what the layout says about each, row by row."""

    names: list[str]
    y: NDArray[Any]
    attributes: tuple[str, ...] = ()
    groups: NDArray[Any] | None = None
    partition: NDArray[np.str_] | None = None
    notes: list[str] = field(default_factory=list)


def class_folders(found: Scan) -> Labelled:
    """Take the first folder below the root as the class; below ``train``, ``val`` and ``test``, the second."""
    prefix = _common_folder(found)
    inside = {name: name[len(prefix) :].split("/") for name in found.images if name.startswith(prefix)}
    tops = {steps[0] for steps in inside.values() if len(steps) > 1}
    if not tops:
        raise InvalidInputError(
            f"{str(found.root)!r} holds {len(found.images)} images but no folder per class; put them into folders such "
            "as cat/1.jpg and dog/2.jpg, or give a CSV of file and label (--labels, labels=)."
        )
    divided = {PARTS.get(top.lower()) for top in tops} >= {"train"} and all(top.lower() in PARTS for top in tops)
    level = 1 if divided and any(len(steps) > 2 for steps in inside.values()) else 0
    names = [name for name, steps in inside.items() if len(steps) > level + 1]
    labels = np.array([encodable(inside[name][level]) for name in names], dtype=np.str_)
    notes = [f"the classes are the folders in {prefix[:-1]!r}."] if prefix else []
    loose = [name for name in found.images if len(inside.get(name, [""])) <= level + 1]
    if loose:
        notes.append(f"{listed(loose)} {'is' if len(loose) == 1 else 'are'} outside any class folder.")
    notes += _empty_classes(found, prefix, level, set(labels.tolist()))
    partition = None
    if level == 1:
        partition = np.array([PARTS[inside[name][0].lower()] for name in names], dtype=np.str_)
        notes += _untrained_classes(labels, partition)
        if set(partition) == {"train"}:
            partition = None
    return Labelled(names, labels, partition=partition, notes=notes)


def _common_folder(found: Scan) -> str:
    """Return the folders around the class folders, as in archives: ``photos/`` in ``photos/cat/1.jpg``."""
    prefix = ""
    while True:
        steps = [name[len(prefix) :].split("/") for name in found.images]
        tops = {step[0] for step in steps}
        below = {step[1] for step in steps if len(step) > 2}
        if len(tops) != 1 or any(len(step) < 3 for step in steps):
            return prefix
        if len(below) < 2 and not all(len(step) > 3 for step in steps):
            return prefix  # a single class with its images
        prefix += f"{tops.pop()}/"


def encodable(name: str) -> str:
    """Return a file's or folder's name as printable text; bytes that are not UTF-8 become marks."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _empty_classes(found: Scan, prefix: str, level: int, labels: set[str]) -> list[str]:
    folders = [name[len(prefix) :].split("/") for name in found.folders if name.startswith(prefix)]
    classes = {encodable(steps[level]) for steps in folders if len(steps) == level + 1 and steps[level]}
    return [f"class {name!r} has no image and is left out." for name in sorted(classes - labels)]


def _untrained_classes(labels: NDArray[np.str_], partition: NDArray[np.str_]) -> list[str]:
    trained = set(labels[partition == "train"].tolist())
    return [f"class {name!r} has no image in train." for name in sorted(set(labels.tolist()) - trained)]
