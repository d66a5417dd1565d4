"""Pairs of faces by any protocol: a file's own format, a list, or pairs drawn from a folder of people."""

import os
from pathlib import Path
from typing import Literal, get_args

from equipoise.data.images.scan import Scan
from equipoise.errors import InvalidInputError
from equipoise.paper.faces.drawn_pairs import PAIRS, check_new, pairs_of_people, write_pairs
from equipoise.paper.faces.pair_files import read_bin_pairs, read_lfw_pairs, read_pair_list, read_ytf_pairs
from equipoise.paper.faces.pairs import Pairs

Protocol = Literal["lfw", "ytf", "list", "bin", "folder"]
Source = str | os.PathLike[str]


def read_pairs(
    pairs: Source,
    images: Source | Scan | None = None,
    *,
    protocol: Protocol | None = None,
    skip_missing: bool = False,
    frames: int | None = None,
    count: int = PAIRS,
    seed: int = 0,
) -> tuple[Protocol, Pairs]:
    """Return the protocol by which pairs are read, and the pairs.

    Args:
        pairs: the list, or for ``"folder"`` the file to write it into.
        images: the folder or archive of the images, or the names of faces whose features are known; a ``.bin`` file
            has its own images.
        protocol: None infers it from the list.
        skip_missing: skip pairs whose images are missing.
        frames: most frames per video; None takes all.
        count, seed: for pairs drawn from a folder of people.
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
    try:
        with path.open("rb") as file:
            first = file.readline(1000).decode("utf-8-sig", errors="replace").strip()
    except OSError as error:
        raise InvalidInputError(
            f"{path} cannot be read: {error.strerror or error}; check --pairs, or pass --protocol folder to make it."
        ) from error
    fields = first.replace(",", " ").split()
    if fields and len(fields) <= 2 and all(field.isdecimal() for field in fields):
        return "lfw"
    if "split" in first.lower() or (first.count(",") >= 4 and fields[0].isdecimal()):
        return "ytf"
    return "list"
