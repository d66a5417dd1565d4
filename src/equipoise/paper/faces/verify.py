"""``equipoise verify``: a finished run, a list of pairs, and how well the one tells the others apart."""

import csv
import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from equipoise.app.runs import RunModel
from equipoise.errors import InvalidInputError, listed
from equipoise.paper.faces.bin_file import read_bin_pairs
from equipoise.paper.faces.embed import Layer, Progress, embedding, face_features
from equipoise.paper.faces.pair_files import read_lfw_pairs, read_pair_list, read_ytf_pairs
from equipoise.paper.faces.pairs import Pairs
from equipoise.paper.faces.people import PAIRS, pairs_of_people, write_pairs
from equipoise.paper.faces.verification import Roc, Verification, cosines, verification
from equipoise.storage.files import write_atomically

Protocol = Literal["lfw", "ytf", "list", "bin", "folder"]
Tell = Callable[[str], None]

DRAWN_POINTS = 2000
"""Of a ROC on a picture; more are not seen."""


@dataclass(frozen=True)
class PairOptions:
    """Where pairs come from.

    Args:
        pairs: the list, or for ``"folder"`` the file to write it into.
        images: the folder or archive of the images; a ``.bin`` file has its own.
        protocol: None tells it from the list.
        skip_missing: leave out pairs whose images are not there.
        frames: of a video at most; None takes all.
        count, seed: of the pairs that are drawn from a folder of people.
    """

    pairs: str | os.PathLike[str]
    images: str | os.PathLike[str] | None = None
    protocol: Protocol | None = None
    skip_missing: bool = False
    frames: int | None = None
    count: int = PAIRS
    seed: int = 0


@dataclass(frozen=True)
class Verified:
    """Pairs with the similarity that a run gives each.

    Args:
        notes: what was left out, and who was trained on, a sentence each.
    """

    protocol: Protocol
    pairs: Pairs
    similarity: NDArray[np.float64]
    found: Verification
    notes: tuple[str, ...] = ()


def verify_run(
    model: RunModel,
    options: PairOptions,
    *,
    layer: Layer = "pooled",
    flip: bool = True,
    tell: Tell = lambda _: None,
    progress: Progress | None = None,
) -> Verified:
    """Cosines of a run's features of each pair, scored by the protocol.

    Args:
        layer, flip: which features, see :func:`~equipoise.paper.faces.embed.embedding`.
        tell: told, in a sentence each, what was left out.
        progress: called with the images done and all of them.
    """
    embedding(model, layer=layer, flip=flip)  # what is wrong with the run is said before pairs are drawn
    protocol, pairs = read_pairs(options)
    notes = (*pairs.notes, *_known_people(model, pairs))
    for sentence in notes:
        tell(sentence)
    features = face_features(model, pairs, layer=layer, flip=flip, progress=progress)
    similarity = cosines(features[pairs.first], features[pairs.second])
    found = verification(similarity, pairs.same, pairs.fold)
    return Verified(protocol, pairs, similarity, found, notes)


def read_pairs(options: PairOptions) -> tuple[Protocol, Pairs]:
    """The pairs that the options name, and by which protocol they were read."""
    protocol = options.protocol or guessed_protocol(options.pairs)
    if protocol not in get_args(Protocol):
        raise InvalidInputError(f"--protocol must be one of {', '.join(get_args(Protocol))}, got {protocol!r}.")
    if options.frames is not None and protocol != "ytf":
        raise InvalidInputError(f"--frames is for videos, and the protocol is {protocol}; leave it out.")
    if protocol == "bin":
        if options.images is not None:
            raise InvalidInputError("a .bin file holds its own images; leave --images out.")
        return protocol, read_bin_pairs(options.pairs)
    if options.images is None:
        raise InvalidInputError(f"--protocol {protocol} needs --images, the folder of the faces.")
    if protocol == "folder":
        if Path(options.pairs).expanduser().exists():
            raise InvalidInputError(
                f"{options.pairs} exists; name a new file for the pairs, or use its pairs by --protocol list."
            )
        drawn = pairs_of_people(options.images, pairs=options.count, seed=options.seed)
        write_pairs(drawn, options.pairs)
        return protocol, drawn
    if protocol == "ytf":
        skip, frames = options.skip_missing, options.frames
        return protocol, read_ytf_pairs(options.pairs, options.images, skip_missing=skip, frames=frames)
    read = read_lfw_pairs if protocol == "lfw" else read_pair_list
    return protocol, read(options.pairs, options.images, skip_missing=options.skip_missing)


def guessed_protocol(pairs: str | os.PathLike[str]) -> Protocol:
    """By the file's ending and its first line."""
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


def roc_file(path: str | os.PathLike[str], *, force: bool = False) -> Path:
    """The path, if a ROC can be written there; to be asked before anything costs time."""
    file = Path(path).expanduser()
    if file.suffix.lower() not in (".csv", ".png", ".svg"):
        raise InvalidInputError(f"{file.name} must end in .csv, .png or .svg.")
    if not file.parent.is_dir():
        raise InvalidInputError(f"{file} cannot be written: there is no folder {str(file.parent)!r}; make it first.")
    if file.is_dir() or (file.exists() and not force):
        raise InvalidInputError(f"{file} exists; pass --force to replace it, or name another file.")
    return file


def write_roc(curve: Roc, path: str | os.PathLike[str], *, force: bool = False) -> None:
    """The curve as a table (``.csv``) or a picture (``.png``, ``.svg``)."""
    file = roc_file(path, force=force)
    content = _table(curve) if file.suffix.lower() == ".csv" else _picture(curve, file.suffix.lower()[1:])
    try:
        write_atomically(file, content)
    except OSError as error:
        raise InvalidInputError(f"{file} cannot be written ({error.strerror or error}); name another.") from error


def _table(curve: Roc) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("threshold", "far", "tar"))
    for point in zip(curve.threshold.tolist(), curve.far.tolist(), curve.tar.tolist(), strict=True):
        writer.writerow(point)
    return text.getvalue().encode()


def _picture(curve: Roc, kind: str) -> bytes:
    from matplotlib.figure import Figure  # drawing is rare, and slow to import

    rows = np.unique(np.linspace(0, len(curve.far) - 1, DRAWN_POINTS).round().astype(np.intp))
    figure = Figure(figsize=(5, 4), layout="constrained")
    axes = figure.add_subplot()
    lowest = curve.far[curve.far > 0].min()
    axes.semilogx(curve.far[rows].clip(min=lowest), curve.tar[rows], drawstyle="steps-post")
    axes.set(xlabel="false accepts (FAR)", ylabel="true accepts (TAR)", ylim=(0, 1.01), xlim=(lowest, 1))
    axes.grid(alpha=0.3)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, dpi=120)
    return buffer.getvalue()


def _known_people(model: RunModel, pairs: Pairs) -> list[str]:
    """Verification is of people whom the network has not seen; where it has, the figures flatter."""
    known = sorted(set(pairs.people) & set(model.classes))
    if not known:
        return []
    return [
        f"{len(known):,} of the {len(pairs.people):,} people in the pairs were trained on ({listed(known)}): the "
        "figures are not those of unknown people."
    ]
