"""Pairs of faces, of one person or of two, and their folds."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.data.images import Images, UnreadableImageError, decode_image
from equipoise.errors import InvalidInputError, listed

FOLDS = 10

Source = str | os.PathLike[str]
Size = tuple[int, int]  # height, width


@dataclass(frozen=True)
class EncodedImages:
    """Images as the bytes of their files, decoded when they are indexed."""

    contents: tuple[bytes, ...]
    size: Size
    channels: int

    def __getitem__(self, rows: slice) -> NDArray[np.uint8]:
        places = range(*rows.indices(len(self.contents)))
        pixels = np.empty((len(places), self.channels, *self.size), dtype=np.uint8)
        for row, place in enumerate(places):
            try:
                pixels[row] = decode_image(self.contents[place], size=self.size, channels=self.channels)
            except UnreadableImageError as error:
                raise InvalidInputError(
                    f"image {place + 1} of {len(self.contents)} cannot be read ({error.reason}); fetch the file again."
                ) from error
        return pixels


@dataclass(frozen=True)
class FacePairs:
    """Pairs of faces; a face is one image, or the frames of a video.

    Args:
        files: all images, each once: names below ``root``, or without it the bytes of the files.
        face: which face each image shows.
        first, second: the faces of each pair.
        same: whether they show one person.
        fold: from 1.
    """

    files: tuple[Any, ...]
    face: NDArray[np.intp]
    first: NDArray[np.intp]
    second: NDArray[np.intp]
    same: NDArray[np.bool_]
    fold: NDArray[np.int64]
    root: Path | None = None
    people: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.same)

    def images(self, size: Size, channels: int) -> Images | EncodedImages:
        """Return the images (n, channels, height, width) of uint8, decoded when they are indexed."""
        if self.root is None:
            return EncodedImages(self.files, size, channels)
        return Images(self.root, self.files, size=size, channels=channels)

    @property
    def faces(self) -> int:
        """Number of distinct faces."""
        return int(self.face.max(initial=-1)) + 1


@dataclass(frozen=True)
class NamedPair:
    """A pair as a list names it: two images or videos, and the line."""

    first: str
    second: str
    same: bool
    fold: int | None
    line: int


def gather_pairs(
    named: Sequence[NamedPair],
    files: Mapping[str, Sequence[str]],
    root: Path,
    *,
    source: str,
    people: Mapping[str, str],
    skip_missing: bool,
) -> FacePairs:
    """Gather the pairs of faces named in a list, the ``source``.

    ``files`` are the image files of each available face, below ``root``, and ``people`` says whom it shows.
    """
    kept, notes = _without_missing(named, files, root, source, skip_missing)
    for pair in kept:
        if pair.first == pair.second:
            raise InvalidInputError(f"{source} pairs {pair.first!r} with itself in line {pair.line}; remove the line.")
    faces = list(dict.fromkeys(name for pair in kept for name in (pair.first, pair.second)))
    place = {name: number for number, name in enumerate(faces)}
    same = np.array([pair.same for pair in kept])
    fold, fold_note = _folds(kept, same, source)
    return FacePairs(
        files=tuple(file for name in faces for file in files[name]),
        face=np.repeat(np.arange(len(faces)), [len(files[name]) for name in faces]),
        first=np.array([place[pair.first] for pair in kept], dtype=np.intp),
        second=np.array([place[pair.second] for pair in kept], dtype=np.intp),
        same=same,
        fold=fold,
        root=root,
        people=tuple(sorted({people[name] for name in faces if people.get(name)})),
        notes=(*notes, *fold_note),
    )


def consecutive_folds(pairs: int, folds: int = FOLDS) -> NDArray[np.int64]:
    """Divide pairs into consecutive folds, the first ones larger by one if they do not divide evenly.

    >>> consecutive_folds(7, 3).tolist()
    [1, 1, 1, 2, 2, 3, 3]
    """
    sizes = [len(part) for part in np.array_split(np.arange(pairs), folds)]
    return np.repeat(np.arange(1, folds + 1), sizes)


def dealt_folds(same: NDArray[np.bool_], source: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Assign ten folds to pairs without: tenths of the list, as usual; of each kind if it is sorted."""
    fewest = min(int(same.sum()), int((~same).sum()))
    if fewest < 2:
        raise InvalidInputError(
            f"{source} has {int(same.sum())} pairs of one person and {int((~same).sum())} of two; a threshold needs "
            "at least two of each."
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
    verb = "is" if len(missing) == 1 else "are"
    if not kept:
        raise InvalidInputError(f"none of the pairs of {source} is in {str(root)!r}; check --images.")
    if not skip:
        raise InvalidInputError(
            f"{source} names {listed(missing)}, which {verb} not in {str(root)!r}; check --images, or pass "
            f"--skip-missing to leave {left} out."
        )
    return kept, [f"{left} are left out: {listed(missing)} {verb} not there."]


def _folds(
    pairs: Sequence[NamedPair], same: NDArray[np.bool_], source: str
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    numbers = [pair.fold for pair in pairs if pair.fold is not None]
    if not numbers:
        return dealt_folds(same, source)
    fold = np.array(numbers, dtype=np.int64)
    empty = sorted(set(range(1, int(fold.max()) + 1)) - set(fold.tolist()))
    if empty or fold.max() < 2:
        what = f"fold {empty[0]} of {int(fold.max())} has no pair" if empty else "there is only one fold"
        raise InvalidInputError(f"{what} in {source}; a threshold is chosen on the other folds, so none may be empty.")
    return fold, ()
