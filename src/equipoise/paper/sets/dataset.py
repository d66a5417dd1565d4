"""Declaration of a data set: how it is read, found, counted and published."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from equipoise.data.samples import Progress, Samples

Size = tuple[int, int]
"""Height and width."""


@dataclass(frozen=True)
class Reading:
    """Options for reading image files, as given to :func:`~equipoise.paper.sets.load_set`."""

    size: Size | None = None
    check: bool = False
    progress: Progress | None = None


AS_THEY_ARE = Reading()


@dataclass(frozen=True)
class PublishedFile:
    """A published file: its name, its size in bytes, and the SHA-256 of its content."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Publication:
    """A set's published files, and their addresses, tried in turn."""

    places: tuple[str, ...]
    files: tuple[PublishedFile, ...]


@dataclass(frozen=True)
class DataSet:
    """A known data set.

    Args:
        title: display name.
        read: returns its samples from the folder of its official files.
        folders: names of that folder below the data folder.
        images: number of images of each official part, or of ``"all"`` without parts.
        classes: number of classes, or of attributes with several labels.
        marks: glob patterns; a folder in which one matches may be the set's own whatever its name.
        elsewhere: folders in which a system package puts it.
        published: its permanent public files; None if they require registration.

    >>> from equipoise.paper.sets import DATASETS
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
    published: Publication | None = None
