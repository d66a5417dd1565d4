"""What lies in a folder of images: its files by name, and what was passed over."""

import os
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from equipoise.errors import InvalidInputError, listed

SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".gif", ".tif", ".tiff"}
    | {".webp", ".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".j2k", ".avif"}
)
FOREIGN = frozenset({"__MACOSX", "@eaDir", "$RECYCLE.BIN", "System Volume Information"})  # other systems' leavings


@dataclass
class Scan:
    """The files below a folder. Names are from the root, with ``/``, sorted."""

    root: Path
    images: list[str] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)  # files that are no images
    dangling: list[str] = field(default_factory=list)  # links that lead nowhere
    repeated: list[str] = field(default_factory=list)  # links to folders that were read already
    unreadable: list[str] = field(default_factory=list)

    def notes(self) -> list[str]:
        """A sentence for each kind of thing that was passed over."""
        kinds = (
            (self.others, "is no image and is ignored", "are no images and are ignored"),
            (self.dangling, "is a link that leads nowhere and is ignored", "are links that lead nowhere"),
            (self.repeated, "is a link to a folder already read and is not followed", "are links to folders read once"),
            (self.unreadable, "is a folder that may not be read", "are folders that may not be read"),
        )
        return [f"{listed(names)} {one if len(names) == 1 else many}." for names, one, many in kinds if names]


def scan(folder: str | os.PathLike[str]) -> Scan:
    """All image files below a folder, hidden ones left out.

    Links to folders are followed once every true folder is read, and never into a folder that was read already: a
    loop of links ends, and each file is met once.
    """
    root = Path(folder)
    if not root.is_dir():
        raise InvalidInputError(f"{str(folder)!r} is no folder; give the folder that holds the images.")
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
        else:  # a pipe or a device, which would block whoever opens it
            found.others.append(name)


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False
