"""Face verification with the features of a finished run."""

import copy
import io
import os
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from equipoise.app.runs import RunModel
from equipoise.data.samples import Progress
from equipoise.errors import InvalidInputError, listed
from equipoise.models import ImageBackbone
from equipoise.models.evaluation_copy import eval_replica
from equipoise.paper.faces.drawn_pairs import PAIRS, check_new, pairs_of_people, write_pairs
from equipoise.paper.faces.pair_files import read_bin_pairs, read_lfw_pairs, read_pair_list, read_ytf_pairs
from equipoise.paper.faces.pairs import Pairs
from equipoise.paper.faces.verification import Roc, cosines
from equipoise.storage.files import write_atomically
from equipoise.training.settings import rows_at_once

Protocol = Literal["lfw", "ytf", "list", "bin", "folder"]
Layer = Literal["pooled", "last"]
Source = str | os.PathLike[str]

HELD_NUMBERS = 64
"""Rough count of the numbers that a network holds per pixel of an image."""
MOST_AT_ONCE = 256
DRAWN_POINTS = 2000
"""Most points of a ROC curve in a figure; more would not be visible."""


def read_pairs(
    pairs: Source,
    images: Source | None = None,
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
        images: the folder or archive of the images; a ``.bin`` file has its own.
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


def roc_file(path: Source, *, force: bool = False) -> Path:
    """Return the path if a ROC curve can be written there; check this before any expensive work."""
    file = Path(path).expanduser()
    if file.suffix.lower() not in (".csv", ".png", ".svg"):
        raise InvalidInputError(f"{file.name} must end in .csv, .png or .svg.")
    if not file.parent.is_dir():
        raise InvalidInputError(f"{file} cannot be written: there is no folder {str(file.parent)!r}; make it first.")
    if file.is_dir() or (file.exists() and not force):
        raise InvalidInputError(f"{file} exists; pass --force to replace it, or name another file.")
    return file


def write_roc(curve: Roc, path: Source, *, force: bool = False) -> None:
    """Write the curve as a table (``.csv``) or a picture (``.png``, ``.svg``)."""
    file = roc_file(path, force=force)
    if file.suffix.lower() == ".csv":
        table = pd.DataFrame({"threshold": curve.threshold, "far": curve.far, "tar": curve.tar})
        content = table.to_csv(index=False, lineterminator="\n").encode()
    else:
        content = _picture(curve, file.suffix.lower()[1:])
    try:
        write_atomically(file, content)
    except OSError as error:
        raise InvalidInputError(f"{file} cannot be written ({error.strerror or error}); name another.") from error


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


def known_people(model: RunModel, pairs: Pairs) -> list[str]:
    """Return a sentence if a run was trained on people of the pairs, which makes the figures optimistic."""
    known = sorted(set(pairs.people) & set(model.classes))
    if not known:
        return []
    return [
        f"{len(known):,} of the {len(pairs.people):,} people in the pairs were trained on ({listed(known)}): the "
        "figures are not those of unknown people."
    ]


class Embedding(nn.Module):
    """Images -> features, in evaluation mode; averaged over each image and its mirror image if ``flip``."""

    def __init__(self, layers: nn.Module, *, flip: bool = True) -> None:
        super().__init__()
        self.layers, self.flip = eval_replica(layers), flip
        self.training = False

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.layers(images)
        return (features + self.layers(images.flip(-1))) / 2 if self.flip else features


def embedding(model: RunModel, *, layer: Layer = "pooled", flip: bool = True) -> Embedding:
    """Return the layers of a run's network up to its features.

    ``"pooled"``, the paper's, is the output of the backbone's global pooling; ``"last"`` is the input of the class
    vectors, after the dense layers that follow the pooling.
    """
    if layer not in get_args(Layer):
        raise InvalidInputError(f"layer must be 'pooled' or 'last', got {layer!r}.")
    trained = model.network.backbone
    if isinstance(trained, ImageBackbone):
        layers: nn.Module = trained if layer == "last" else ImageBackbone(trained.input, trained.body)
    elif model.input.extractor is not None:
        layers = model.input.extractor
        layers = nn.Sequential(layers, trained) if layer == "last" else layers
    else:
        raise InvalidInputError("faces are compared by a run of images, and this run is of a table; train on faces.")
    return Embedding(layers, flip=flip)


@torch.inference_mode()
def face_features(
    model: RunModel, pairs: Pairs, *, layer: Layer = "pooled", flip: bool = True, progress: Progress | None = None
) -> NDArray[np.float64]:
    """Return one feature per face of the pairs, (faces, D): for a video, the mean over its frames.

    Images are processed a few at a time, so that memory does not grow with the number of frames.
    """
    layers = embedding(model, layer=layer, flip=flip)
    channels, height, width = model.input.image_shape
    images = pairs.images((height, width), channels)
    step = min(MOST_AT_ONCE, rows_at_once(HELD_NUMBERS * channels * height * width))
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    device = accelerator or torch.device("cpu")
    if accelerator is not None:
        layers = copy.deepcopy(layers).to(device)  # the run's own weights stay where they are
    sums: NDArray[np.float64] | None = None
    for start in range(0, len(pairs.files), step):
        rows = slice(start, min(start + step, len(pairs.files)))
        found = layers(torch.from_numpy(np.ascontiguousarray(images[rows])).to(device)).double().cpu().numpy()
        sums = np.zeros((pairs.faces, found.shape[1])) if sums is None else sums
        np.add.at(sums, pairs.face[rows], found)
        if progress is not None:
            progress(rows.stop, len(pairs.files))
    if sums is None or not np.isfinite(sums).all():
        raise InvalidInputError("the run's network gave features that are not finite; train again.")
    features: NDArray[np.float64] = sums / np.bincount(pairs.face, minlength=pairs.faces)[:, None]
    return features


def similarities(
    model: RunModel, pairs: Pairs, *, layer: Layer = "pooled", flip: bool = True, progress: Progress | None = None
) -> NDArray[np.float64]:
    """Return the cosine of the :func:`face_features` of each pair, (pairs,)."""
    features = face_features(model, pairs, layer=layer, flip=flip, progress=progress)
    return cosines(features[pairs.first], features[pairs.second])
