"""Pairs of faces by any protocol, and those in lists: of LFW, of YouTube Faces, and plain ones."""

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import get_args

from equipoise.data.images.scan import Scan, scan_images
from equipoise.errors import InvalidInputError, readable
from equipoise.paper.face_options import PAIRS, Protocol
from equipoise.paper.faces.bin_pairs import read_bin_pairs
from equipoise.paper.faces.drawn_pairs import check_new, pairs_of_people, write_pairs
from equipoise.paper.faces.pairs import FacePairs, NamedPair, Source, gather_pairs
from equipoise.storage.files import read_plain

LIST_BYTES = 2**28
"""Largest list that is read."""
MOST_FOLDS = 1000
SAME = {"1": True, "0": False, "true": True, "false": False, "-1": False}

Images = Source | Scan  # a folder or archive, or the names of what was found already
Numbered = tuple[int, list[str]]  # a line's number, from 1, and its fields


def read_pairs(
    pairs: Source,
    images: Images | None = None,
    *,
    protocol: Protocol | None = None,
    skip_missing: bool = False,
    frames: int | None = None,
    count: int = PAIRS,
    seed: int = 0,
) -> tuple[Protocol, FacePairs]:
    """Return the protocol by which pairs are read, by default that of the list, and the pairs.

    Args:
        pairs: the list, or for ``"folder"`` the file to write it into.
        images: the folder or archive of the images, or the names of faces whose features are known; a ``.bin`` file
            has its own images.
        skip_missing, frames, count, seed: as :class:`~equipoise.paper.face_options.VerifyOptions` has them.
    """
    protocol = protocol or guessed_protocol(pairs)
    if protocol not in get_args(Protocol):
        raise InvalidInputError(f"--protocol must be one of {', '.join(get_args(Protocol))}, got {protocol!r}.")
    if frames is not None and protocol != "ytf":
        raise InvalidInputError(f"--frames is for videos, and the protocol is {protocol}; leave it out.")
    if protocol == "bin":
        if images is not None:
            raise InvalidInputError("a .bin file holds its own images; leave --images out.")
        return protocol, read_bin_pairs(pairs)
    if images is None:
        raise InvalidInputError(f"--protocol {protocol} needs --images, the folder of the faces.")
    if protocol == "folder":
        if isinstance(images, Scan):
            raise InvalidInputError("--protocol folder draws pairs from images; --embeddings needs a list of pairs.")
        check_new(pairs)
        drawn = pairs_of_people(images, pairs=count, seed=seed)
        write_pairs(drawn, pairs)
        return protocol, drawn
    if protocol == "ytf":
        return protocol, read_ytf_pairs(pairs, images, skip_missing=skip_missing, frames=frames)
    read = read_lfw_pairs if protocol == "lfw" else read_pair_list
    return protocol, read(pairs, images, skip_missing=skip_missing)


def guessed_protocol(pairs: Source) -> Protocol:
    """Guess the protocol from the file's suffix and first line."""
    path = Path(pairs).expanduser()
    if path.suffix.lower() == ".bin":
        return "bin"
    with readable(path, "check --pairs, or pass --protocol folder to make it"), path.open("rb") as file:
        first = file.readline(1000).decode("utf-8-sig", errors="replace").strip()
    fields = first.replace(",", " ").split()
    if fields and len(fields) <= 2 and all(field.isdecimal() for field in fields):
        return "lfw"
    if "split" in first.lower() or (first.count(",") >= 4 and fields[0].isdecimal()):
        return "ytf"
    return "list"


def read_lfw_pairs(path: Source, images: Images, *, skip_missing: bool = False) -> FacePairs:
    """Read ``pairs.txt`` of LFW: ``10 300``, then for each of 10 folds 300 pairs of one person and 300 of two.

    The images are ``Name/Name_0001.jpg``, or ``Name_0001.jpg`` right in the folder, of any format.
    """
    source, lines = _list(path)
    first, *rest = lines
    numbers = [int(field) for field in first[1] if field.isdecimal() and len(field) < 9]
    if len(numbers) != len(first[1]) or not 1 <= len(numbers) <= 2 or 0 in numbers:
        raise InvalidInputError(f"{source} must begin with the number of folds and of pairs, such as '10 300'.")
    folds, each = (1, numbers[0]) if len(numbers) == 1 else numbers
    if len(rest) != 2 * folds * each:
        raise InvalidInputError(
            f"{source} must list {folds} × 2 × {each} = {2 * folds * each:,} pairs as its first line says, got "
            f"{len(rest):,}; fetch it again."
        )
    named = [
        _lfw_pair(fields, number, source, None if folds == 1 else 1 + place // (2 * each))
        for place, (number, fields) in enumerate(rest)
    ]
    found = scan_images(images)
    people = {face: face.rsplit("_", 1)[0] for pair in named for face in (pair.first, pair.second)}
    files = _by_stem(found, set(people))
    return gather_pairs(named, files, found.root, source=source, people=people, skip_missing=skip_missing)


def read_ytf_pairs(
    path: Source,
    images: Images,
    *,
    skip_missing: bool = False,
    frames: int | None = None,
) -> FacePairs:
    """Read ``splits.txt`` of YouTube Faces: lines of split, number, two videos (``Name/2``) and 1 for one person.

    The frames of a video are the images in its folder, ``Name/2/*.jpg``; at most ``frames`` of them are used, spread
    evenly.
    """
    source, lines = _list(path, comma=True)
    if not any(field.isdecimal() for field in lines[0][1]):
        lines = lines[1:]  # the names of the columns
    if not lines:
        raise InvalidInputError(f"{source} has no pairs.")
    named = [_ytf_pair(fields, number, source) for number, fields in lines]
    if frames is not None and frames < 1:
        raise InvalidInputError(f"frames of a video must be at least 1, got {frames}.")
    found = scan_images(images)
    files = _by_video(found, {face for pair in named for face in (pair.first, pair.second)}, frames)
    people = {face: face.split("/", 1)[0] for face in files}
    return gather_pairs(named, files, found.root, source=source, people=people, skip_missing=skip_missing)


def read_pair_list(path: Source, images: Images, *, skip_missing: bool = False) -> FacePairs:
    """Read a plain list: ``path path 0/1`` and optionally the fold, from 1, in each line; 1 means the same person.

    Fields are separated by tabs, else by commas, else by spaces. ``#`` begins a comment.
    """
    source, lines = _list(path)
    named = [_list_pair(fields, number, source) for number, fields in lines]
    if len({pair.fold is None for pair in named}) > 1:
        raise InvalidInputError(f"{source} gives the fold of only some pairs; give it in every line, or in none.")
    found = scan_images(images)
    files = {name: (name,) for name in found.images}
    people = {name: PurePosixPath(name).parent.name for name in files}
    return gather_pairs(named, files, found.root, source=source, people=people, skip_missing=skip_missing)


def _list(path: Source, *, comma: bool = False) -> tuple[str, list[Numbered]]:
    """Return the list's name, and its lines that are neither empty nor comments."""
    file = Path(path).expanduser()
    with readable(file, "check --pairs; a .bin file needs its suffix"):
        text = read_plain(file, most_bytes=LIST_BYTES).decode("utf-8-sig")
    lines = list(_fields(text, comma))
    if not lines:
        raise InvalidInputError(f"{file} lists no pair.")
    return file.name, lines


def _fields(text: str, comma: bool) -> Iterator[Numbered]:
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.strip()
        if not content or content.startswith("#"):
            continue
        if "\t" in content and not comma:
            yield number, [field.strip() for field in content.split("\t") if field.strip()]
        elif "," in content:
            yield number, [field.strip() for field in content.split(",")]
        else:
            yield number, content.split()


def _lfw_pair(fields: list[str], line: int, source: str, fold: int | None) -> NamedPair:
    if len(fields) == 3:
        name, *numbers = fields
        names = [name, name]
    elif len(fields) == 4:
        names, numbers = fields[::2], fields[1::2]
    else:
        raise InvalidInputError(f"line {line} of {source} must be 'name 1 2' or 'name 1 name 2', got {fields}.")
    if not all(number.isdecimal() and len(number) < 9 for number in numbers):
        raise InvalidInputError(f"line {line} of {source} must number its images, got {numbers}.")
    first, second = (f"{name}_{int(number):04}" for name, number in zip(names, numbers, strict=True))
    return NamedPair(first, second, len(fields) == 3, fold, line)


def _ytf_pair(fields: list[str], line: int, source: str) -> NamedPair:
    if len(fields) < 5 or not fields[0].isdecimal() or fields[4].lower() not in SAME:
        raise InvalidInputError(
            f"line {line} of {source} must be 'split, number, Name/1, Name/2, 0 or 1', got {', '.join(fields)!r}."
        )
    return _path_pair(fields[2:5], _fold(fields[0], line, source), line)


def _list_pair(fields: list[str], line: int, source: str) -> NamedPair:
    if len(fields) not in (3, 4) or fields[2].lower() not in SAME:
        raise InvalidInputError(
            f"line {line} of {source} must be 'path path 0/1' and perhaps the fold, got {' '.join(fields)!r}; names "
            "with spaces need tabs between the fields."
        )
    fold = _fold(fields[3], line, source) if len(fields) == 4 else None
    return _path_pair(fields[:3], fold, line)


def _path_pair(fields: list[str], fold: int | None, line: int) -> NamedPair:
    """Return a pair of paths as a scan of the folder has them."""
    first, second = (PurePosixPath(name.replace("\\", "/")).as_posix() for name in fields[:2])
    return NamedPair(first, second, SAME[fields[2].lower()], fold, line)


def _fold(field: str, line: int, source: str) -> int:
    if not re.fullmatch(r"[1-9]\d{0,3}", field, re.ASCII) or int(field) > MOST_FOLDS:
        raise InvalidInputError(f"line {line} of {source} must have a fold from 1 to {MOST_FOLDS}, got {field!r}.")
    return int(field)


def _by_stem(found: Scan, wanted: set[str]) -> dict[str, tuple[str, ...]]:
    places: dict[str, str] = {}
    for name in found.images:
        stem = PurePosixPath(name).stem
        if stem not in wanted:
            continue
        if stem in places:
            raise InvalidInputError(
                f"{str(found.root)!r} holds {places[stem]!r} and {name!r}, both {stem}; give the folder of one set."
            )
        places[stem] = name
    return {stem: (name,) for stem, name in places.items()}


def _by_video(found: Scan, wanted: set[str], most: int | None) -> dict[str, tuple[str, ...]]:
    frames: dict[str, list[str]] = defaultdict(list)
    folder_of: dict[str, str] = {}
    for name in found.images:
        folder = PurePosixPath(name).parent
        video = "/".join(folder.parts[-2:])
        if video not in wanted:
            continue
        if folder_of.setdefault(video, folder.as_posix()) != folder.as_posix():
            raise InvalidInputError(
                f"{str(found.root)!r} holds the video {video!r} in {folder_of[video]!r} and in {folder.as_posix()!r}; "
                "give the folder of one kind of frames."
            )
        frames[video].append(name)
    return {video: _spread(sorted(names, key=_by_number), most) for video, names in frames.items()}


def _by_number(name: str) -> tuple[object, ...]:
    """Return a sort key that puts frame 9 before frame 10."""
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name))


def _spread(names: list[str], most: int | None) -> tuple[str, ...]:
    if most is None or len(names) <= most:
        return tuple(names)
    return tuple(names[(2 * place + 1) * len(names) // (2 * most)] for place in range(most))
