"""Pairs of faces, of one person or of two: read by a protocol, or drawn from a folder of people."""

import itertools
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from equipoise.data.images import Images, UnreadableImageError, decode_image
from equipoise.data.images.scan import Scan, class_folders, scan
from equipoise.errors import InvalidInputError, listed
from equipoise.storage.archives import is_archive, unpack
from equipoise.storage.files import write_atomically

FOLDS, PAIRS = 10, 6000
TRIES = 20
"""Draws for each pair of two people that is wanted; a small folder has fewer such pairs than that."""

Size = tuple[int, int]  # height, width
People = dict[str, list[str]]  # a person's images


class FaceImages(Protocol):
    """Where the images of the pairs are."""

    def __len__(self) -> int: ...

    def read(self, size: Size, channels: int) -> Any:
        """Return images (n, channels, height, width) of uint8, decoded when they are indexed."""
        ...


@dataclass(frozen=True)
class FilesOnDisk:
    """Images by their names below a folder."""

    root: Path
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def read(self, size: Size, channels: int) -> Images:
        """Return the files as one array."""
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
        """Return the same bytes, to be decoded to that size."""
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
    """Scan the folder of the images, or an archive of one."""
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
    """Gather the pairs of faces that a list names.

    Args:
        files: the image files of each face that is there, below ``root``.
        source: the list, for messages.
        people: who each face is of.
        skip_missing: leave out the pairs with a face that is not there, instead of refusing the list.
    """
    kept, notes = _without_missing(named, files, root, source, skip_missing)
    for pair in kept:
        if pair.first == pair.second:
            raise InvalidInputError(f"{source} pairs {pair.first!r} with itself in line {pair.line}; take it out.")
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
    """Divide pairs into folds in their order, the first ones larger by one where they do not divide evenly.

    >>> consecutive_folds(7, 3).tolist()
    [1, 1, 1, 2, 2, 3, 3]
    """
    sizes = [len(part) for part in np.array_split(np.arange(pairs), folds)]
    return np.repeat(np.arange(1, folds + 1), sizes)


def dealt_folds(same: NDArray[np.bool_], source: str) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Deal ten folds to pairs that come without: tenths of the list, as is usual; of each kind where it is sorted."""
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
    told = [pair.fold for pair in pairs if pair.fold is not None]
    if not told:
        return dealt_folds(same, source)
    fold = np.array(told, dtype=np.int64)
    empty = sorted(set(range(1, int(fold.max()) + 1)) - set(fold.tolist()))
    if empty or fold.max() < 2:
        what = f"fold {empty[0]} of {int(fold.max())} has no pair" if empty else "there is one fold only"
        raise InvalidInputError(f"{what} in {source}; a threshold is chosen on the other folds, so none may be empty.")
    return fold, ()


def pairs_of_people(images: str | os.PathLike[str], *, pairs: int = PAIRS, folds: int = FOLDS, seed: int = 0) -> Pairs:
    """Draw as many pairs of one person as of two from ``PERSON/image.jpg``; no person is in two folds.

    Everybody with two images or more gives pairs of one person in turn, so that people with many images do not
    outweigh the others; a folder with too few images gives fewer pairs.

    Args:
        pairs: wanted in all.
        folds: fewer where there are too few people.
        seed: the same folder and seed give the same pairs.
    """
    if pairs < 2 * folds or folds < 2:
        raise InvalidInputError(f"there must be 2 folds and 2 pairs for each at least, got {folds} and {pairs}.")
    found = image_folder(images)
    labelled = class_folders(found)
    who = dict(zip(labelled.names, labelled.y.tolist(), strict=True))
    people: People = defaultdict(list)
    for name, person in who.items():
        people[person].append(name)
    _check_names(people)
    rng = np.random.default_rng(seed)
    groups = _dealt(people, folds, rng)
    each = pairs // (2 * len(groups))
    named = [pair for fold, group in enumerate(groups, start=1) for pair in _fold_pairs(group, each, fold, rng)]
    single = sum(len(files) == 1 for files in people.values())
    notes = [*labelled.notes]
    if single:
        notes.append(f"{single:,} of {len(people):,} people have one image: they are in pairs of two people only.")
    if len(groups) < folds:
        notes.append(f"{len(people):,} people are enough for {len(groups)} folds.")
    if len(named) < 2 * len(groups) * each:
        notes.append(f"the images give {len(named):,} pairs, not {pairs:,}.")
    files = {name: (name,) for name in labelled.names}
    drawn = gather_pairs(named, files, found.root, source=str(images), people=who, skip_missing=False)
    return replace(drawn, notes=(*notes, *drawn.notes))


def write_pairs(pairs: Pairs, path: str | os.PathLike[str]) -> None:
    """Write a plain list with folds, which ``--protocol list`` reads again; an existing file is left alone."""
    file = Path(path).expanduser()
    if file.exists():
        raise InvalidInputError(f"{file} exists; name a new file, or use its pairs by --protocol list.")
    names = getattr(pairs.images, "names", None)
    if names is None or len(names) != pairs.faces:
        raise InvalidInputError("only pairs of image files can be written as a list.")
    odd = [name for name in names if any(sign in name for sign in "\t\n\r\\,#") or name != name.strip()]
    if odd:
        raise InvalidInputError(
            f"{listed(odd)} cannot stand in a list of pairs; take tabs, commas, # and backslashes out of the name."
        )
    lines = (
        f"{names[first]}\t{names[second]}\t{int(same)}\t{fold}\n"
        for first, second, same, fold in zip(pairs.first, pairs.second, pairs.same, pairs.fold, strict=True)
    )
    try:
        write_atomically(file, "".join(lines).encode())
    except OSError as error:
        raise InvalidInputError(f"{file} cannot be written ({error.strerror or error}); name another.") from error


def _check_names(people: People) -> None:
    first: dict[str, str] = {}
    for person in people:
        other = first.setdefault(person.casefold(), person)
        if other != person:
            raise InvalidInputError(
                f"{other!r} and {person!r} differ in upper and lower case only; join the folders if they are of one "
                "person, or rename one."
            )


def _dealt(people: People, folds: int, rng: np.random.Generator) -> list[People]:
    """People dealt to folds, those with several images first, so that every fold has some of them."""
    several = sorted(person for person, files in people.items() if len(files) > 1)
    single = sorted(person for person, files in people.items() if len(files) == 1)
    possible = min(folds, len(several), len(people) // 2)
    if possible < 2:
        raise InvalidInputError(
            f"pairs need 4 people, 2 of them with two images or more; got {len(people)} people, {len(several)} of them "
            "with two images."
        )
    order = [several[place] for place in rng.permutation(len(several))]
    order += [single[place] for place in rng.permutation(len(single))]
    return [{person: people[person] for person in order[start::possible]} for start in range(possible)]


def _fold_pairs(people: People, wanted: int, fold: int, rng: np.random.Generator) -> list[NamedPair]:
    """As many pairs of one person as of two."""
    same, different = _same_pairs(people, wanted, rng), _different_pairs(people, wanted, rng)
    count = min(len(same), len(different))
    kinds = [(names, True) for names in same[:count]] + [(names, False) for names in different[:count]]
    return [NamedPair(first, second, kind, fold, 0) for (first, second), kind in kinds]


def _same_pairs(people: People, wanted: int, rng: np.random.Generator) -> list[tuple[str, str]]:
    each = []
    for files in people.values():
        total = len(files) * (len(files) - 1) // 2
        drawn = rng.choice(total, size=min(total, wanted), replace=False)
        each.append([_numbered_pair(files, int(number)) for number in drawn])
    rounds = itertools.zip_longest(*each)
    return [pair for pairs in rounds for pair in pairs if pair is not None][:wanted]


def _numbered_pair(files: list[str], number: int) -> tuple[str, str]:
    """Pair 0 is of images 0 and 1, pair 1 of 0 and 2, pair 2 of 1 and 2, pair 3 of 0 and 3, and so on."""
    later = int((1 + (1 + 8 * number) ** 0.5) / 2)
    while later * (later - 1) // 2 > number:  # the root may be rounded to the next whole number
        later -= 1
    return files[number - later * (later - 1) // 2], files[later]


def _different_pairs(people: People, wanted: int, rng: np.random.Generator) -> list[tuple[str, str]]:
    names = list(people)
    drawn: dict[tuple[str, str], None] = {}
    for _ in range(TRIES * wanted):
        if len(drawn) == wanted:
            break
        one, other = (people[names[place]] for place in rng.choice(len(names), size=2, replace=False))
        first, second = sorted((one[int(rng.integers(len(one)))], other[int(rng.integers(len(other)))]))
        drawn.setdefault((first, second))
    return list(drawn)
