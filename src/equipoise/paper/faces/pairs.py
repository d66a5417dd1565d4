"""Pairs of faces, of one person or of two: what every protocol of verification is read into."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from equipoise.data.images import Images, UnreadableImageError, decode_image
from equipoise.data.images.scan import Scan, scan
from equipoise.errors import InvalidInputError, listed
from equipoise.storage.archives import is_archive, unpack

FOLDS = 10

Size = tuple[int, int]  # height, width


class FaceImages(Protocol):
    """Where the images of the pairs are."""

    def __len__(self) -> int: ...

    def read(self, size: Size, channels: int) -> Any:
        """Images (n, channels, height, width) of uint8, decoded when they are indexed."""
        ...


@dataclass(frozen=True)
class FilesOnDisk:
    """Images by their names below a folder."""

    root: Path
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def read(self, size: Size, channels: int) -> Images:
        """The files as one array."""
        return Images(self.root, self.names, size=size, channels=channels)


@dataclass(frozen=True)
class EncodedImages:
    """Images as the bytes of their files."""

    contents: tuple[bytes, ...]
    size: Size = (1, 1)
    channels: int = 3

    def __len__(self) -> int:
        return len(self.contents)

    def read(self, size: Size, channels: int) -> "EncodedImages":
        """The same bytes, to be decoded to that size."""
        return replace(self, size=size, channels=channels)

    def __getitem__(self, rows: slice) -> NDArray[np.uint8]:
        places = range(*rows.indices(len(self.contents)))
        pixels = np.empty((len(places), self.channels, *self.size), dtype=np.uint8)
        for row, place in enumerate(places):
            try:
                pixels[row] = decode_image(self.contents[place], size=self.size, channels=self.channels)
            except UnreadableImageError as error:
                raise InvalidInputError(
                    f"image {place + 1} of {len(self)} cannot be read ({error.reason}); fetch the file again."
                ) from error
        return pixels


@dataclass(frozen=True)
class Pairs:
    """Pairs of faces; a face is one image, or the frames of a video.

    Args:
        images: all images, each once.
        face: which face each of them shows.
        first, second: the faces of each pair.
        same: whether they are of one person.
        fold: from 1.
        people: who is in the pairs, where names tell it.
        notes: what was left out, a sentence each.
    """

    images: FaceImages
    face: NDArray[np.intp]
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    same: NDArray[np.bool_]
    fold: NDArray[np.int64]
    people: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.same)

    @property
    def faces(self) -> int:
        """How many different faces there are."""
        return int(self.face.max(initial=-1)) + 1


@dataclass(frozen=True)
class NamedPair:
    """A pair as a list names it: two images or videos, and in which line."""

    first: str
    second: str
    same: bool
    fold: int | None
    line: int


def image_folder(images: str | os.PathLike[str]) -> Scan:
    """What lies in the folder of the images, or in an archive of one."""
    given = Path(images).expanduser()
    root = unpack(given) if is_archive(given) and given.is_file() else given
    found = scan(root)
    if not found.images:
        raise InvalidInputError(f"there is no image in {str(images)!r}; give the folder that holds the faces.")
    return found


def gather_pairs(
    named: Sequence[NamedPair],
    files: Mapping[str, Sequence[str]],
    root: Path,
    *,
    source: str,
    people: Mapping[str, str],
    skip_missing: bool,
) -> Pairs:
    """Pairs of the faces that a list names.

    Args:
        files: the image files of each face that is there, below ``root``.
        source: the list, for messages.
        people: who each face is of.
        skip_missing: leave out the pairs with a face that is not there, instead of refusing the list.
    """
    kept, notes = _without_missing(named, files, root, source, skip_missing)
    _check_pairs(kept, source)
    faces = list(dict.fromkeys(name for pair in kept for name in (pair.first, pair.second)))
    place = {name: number for number, name in enumerate(faces)}
    same = np.array([pair.same for pair in kept])
    fold, fold_note = _folds(kept, same, source)
    return Pairs(
        images=FilesOnDisk(root, tuple(file for name in faces for file in files[name])),
        face=np.repeat(np.arange(len(faces)), [len(files[name]) for name in faces]),
        first=np.array([place[pair.first] for pair in kept], dtype=np.intp),
        second=np.array([place[pair.second] for pair in kept], dtype=np.intp),
        same=same,
        fold=fold,
        people=tuple(sorted({people[name] for name in faces if people.get(name)})),
        notes=(*notes, *fold_note),
    )


def consecutive_folds(pairs: int, folds: int = FOLDS) -> NDArray[np.int64]:
    """Folds of pairs in their order, the first ones larger by one where they do not divide evenly.

    >>> consecutive_folds(7, 3).tolist()
    [1, 1, 1, 2, 2, 3, 3]
    """
    sizes = [len(part) for part in np.array_split(np.arange(pairs), folds)]
    return np.repeat(np.arange(1, folds + 1), sizes)


def dealt_folds(same: NDArray[np.bool_], source: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Ten folds for pairs that come without: tenths of the list, as is usual; of each kind where it is sorted."""
    fewest = min(int(same.sum()), int((~same).sum()))
    if fewest < 2:
        raise InvalidInputError(
            f"{source} has {int(same.sum())} pairs of one person and {int((~same).sum())} of two; a threshold needs "
            "two of each at least."
        )
    folds = min(FOLDS, fewest)
    fold = consecutive_folds(len(same), folds)
    if all(len(set(same[fold == name].tolist())) == 2 for name in range(1, folds + 1)):
        return fold, ()
    for kind in (True, False):
        fold[same == kind] = consecutive_folds(int((same == kind).sum()), folds)
    return fold, (f"{source} is sorted by kind: each kind of pair is divided into {folds} folds by itself.",)


def _without_missing(
    named: Sequence[NamedPair], files: Mapping[str, Sequence[str]], root: Path, source: str, skip: bool
) -> tuple[list[NamedPair], list[str]]:
    kept = [pair for pair in named if pair.first in files and pair.second in files]
    if len(kept) == len(named):
        return kept, []
    missing = list(dict.fromkeys(name for pair in named for name in (pair.first, pair.second) if name not in files))
    left = f"{len(named) - len(kept):,} of {len(named):,} pairs"
    if not kept:
        raise InvalidInputError(f"none of the pairs of {source} is in {str(root)!r}; check --images.")
    if not skip:
        raise InvalidInputError(
            f"{source} names {listed(missing)}, which {'is' if len(missing) == 1 else 'are'} not in {str(root)!r}; "
            f"check --images, or pass --skip-missing to leave {left} out."
        )
    return kept, [f"{left} are left out: {listed(missing)} {'is' if len(missing) == 1 else 'are'} not there."]


def _check_pairs(pairs: Sequence[NamedPair], source: str) -> None:
    for pair in pairs:
        if pair.first == pair.second:
            raise InvalidInputError(f"{source} pairs {pair.first!r} with itself in line {pair.line}; take it out.")


def _folds(
    pairs: Sequence[NamedPair], same: NDArray[np.bool_], source: str
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    told = [pair.fold for pair in pairs if pair.fold is not None]
    if not told:
        return dealt_folds(same, source)
    fold = np.array(told, dtype=np.int64)
    empty = sorted(set(range(1, int(fold.max()) + 1)) - set(fold.tolist()))
    if empty or fold.max() < 2:
        what = f"fold {empty[0]} of {int(fold.max())} has no pair" if empty else "there is one fold only"
        raise InvalidInputError(f"{what} in {source}; a threshold is chosen on the other folds, so none may be empty.")
    return fold, ()
