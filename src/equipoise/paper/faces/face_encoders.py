"""From face images to features: by a finished run, by an ONNX recogniser, or stored beforehand."""

import copy
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from equipoise.app.runs import RunModel
from equipoise.data.images.scan import Scan, scan_images
from equipoise.data.samples import Progress
from equipoise.errors import InvalidInputError, listed, reason
from equipoise.models import ImageBackbone
from equipoise.models.evaluation_copy import eval_replica
from equipoise.paper.face_options import SIDE, Layer
from equipoise.paper.faces.pairs import FacePairs, Source
from equipoise.paper.faces.verification_scores import averaged, cosines
from equipoise.storage.files import check_plain
from equipoise.storage.size_limits import load_arrays
from equipoise.training.settings import rows_at_once

Floats = NDArray[np.float64]

HELD_NUMBERS = 64
"""Rough count of the numbers that a network holds per pixel of an image."""
MOST_AT_ONCE = 256
GREY_LEVEL = 127.5
"""ArcFace's recognisers take pixels as (x - 127.5) / 127.5."""
MOST_EMBEDDING_BYTES = 2**33


class FaceEncoder(Protocol):
    """Images of one size, height and width, -> features."""

    @property
    def channels(self) -> int: ...
    @property
    def size(self) -> tuple[int, int]: ...
    def __call__(self, images: NDArray[np.uint8]) -> Floats:
        """Return the features (n, D) of images (n, channels, height, width)."""


def known_people(trained_on: Iterable[str], pairs: FacePairs) -> list[str]:
    """Return a sentence if people of the pairs were trained on, which makes the figures optimistic."""
    known = sorted(set(pairs.people) & set(trained_on))
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


class RunEncoder:
    """The features of a finished run.

    Args:
        model: a run of images.
        layer: ``"pooled"``, the paper's, is the output of the backbone's global pooling; ``"last"`` is the input of the
            class vectors, after the dense layers that follow the pooling.
        flip: average over each image and its mirror image.
    """

    def __init__(self, model: RunModel, *, layer: Layer = "pooled", flip: bool = True) -> None:
        layers = Embedding(_layers(model, layer), flip=flip)
        self.channels, *size = model.input.image_shape
        self.size: tuple[int, int] = (size[0], size[1])
        accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        self.device = accelerator or torch.device("cpu")
        # the run's own weights stay where they are
        self.layers = layers if accelerator is None else copy.deepcopy(layers).to(self.device)

    @torch.inference_mode()
    def __call__(self, images: NDArray[np.uint8]) -> Floats:
        found: Floats = self.layers(torch.from_numpy(images).to(self.device)).double().cpu().numpy()
        return found


def _layers(model: RunModel, layer: Layer) -> nn.Module:
    if layer not in get_args(Layer):
        raise InvalidInputError(f"layer must be 'pooled' or 'last', got {layer!r}.")
    trained = model.network.backbone
    if isinstance(trained, ImageBackbone):
        return trained if layer == "last" else ImageBackbone(trained.input, trained.body)
    if model.input.extractor is None:
        raise InvalidInputError("verify needs a run trained on images, got one trained on a table; train on faces.")
    return nn.Sequential(model.input.extractor, trained) if layer == "last" else model.input.extractor


class OnnxEncoder:
    """The features of a recogniser in an ONNX file, which takes RGB faces, as a rule aligned to 112×112 pixels.

    Pixels are passed as (x - 127.5) / 127.5, the convention of ArcFace's recognisers, unless the graph takes whole
    numbers or begins with its own subtraction. With ``flip``, features are averaged with those of the mirror image.
    """

    def __init__(self, path: Source, *, flip: bool = True) -> None:
        file = Path(path).expanduser()
        self.flip, self._session = flip, _session(file)
        (taken,) = self._session.get_inputs()
        shape = taken.shape
        if len(shape) != 4 or shape[1] not in (1, 3) or taken.type not in ("tensor(float)", "tensor(uint8)"):
            raise InvalidInputError(
                f"{file.name} must take images (batch, 1 or 3, height, width) as float32 or uint8, got {taken.type} of "
                f"shape {shape}; give a face recogniser."
            )
        self.channels: int = shape[1]
        height, width = (side if isinstance(side, int) else SIDE for side in shape[2:])
        self.size = (height, width)
        self._name, self._whole = taken.name, taken.type == "tensor(uint8)"
        self._one_by_one = shape[0] == 1
        self._raw = self._whole or _subtracts_first(file)

    def __call__(self, images: NDArray[np.uint8]) -> Floats:
        found = self._features(images)
        return (found + self._features(images[..., ::-1])) / 2 if self.flip else found

    def _features(self, images: NDArray[np.uint8]) -> Floats:
        pixels: NDArray[Any] = images if self._whole else images.astype(np.float32)
        pixels = np.ascontiguousarray(pixels if self._raw else (pixels - GREY_LEVEL) / GREY_LEVEL)
        parts = np.split(pixels, len(pixels)) if self._one_by_one else [pixels]
        outputs = [np.asarray(self._session.run(None, {self._name: part})[0], dtype=np.float64) for part in parts]
        return np.concatenate(outputs).reshape(len(images), -1)


def _session(file: Path) -> Any:
    try:
        import onnxruntime  # type: ignore[import-untyped,unused-ignore]
    except ImportError as error:
        raise InvalidInputError("--model needs onnxruntime; run: pip install 'equipoise[export]'.") from error
    try:
        check_plain(file)
        settings = onnxruntime.SessionOptions()
        settings.log_severity_level, settings.intra_op_num_threads = 3, torch.get_num_threads()
        session = onnxruntime.InferenceSession(str(file), settings, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has exceptions of its own for every way in which a file is wrong
        raise InvalidInputError(f"{file} cannot be read as an ONNX model ({reason(error)}); give another.") from error
    if len(session.get_inputs()) != 1:
        names = [each.name for each in session.get_inputs()]
        raise InvalidInputError(f"{file.name} must take images alone, got the inputs {listed(names)}; give another.")
    return session


def _subtracts_first(file: Path) -> bool:
    """Return whether the graph begins by subtracting a constant from its pixels."""
    import onnx

    nodes = onnx.load(str(file), load_external_data=False).graph.node
    return next((node.op_type for node in nodes if node.op_type not in ("Identity", "Cast", "Constant")), "") == "Sub"


@dataclass(frozen=True)
class StoredEmbeddings:
    """Features (images, D) that were computed elsewhere.

    Images go by their names below a folder, with or without suffix.
    """

    path: Path
    names: tuple[str, ...]
    values: Floats

    @classmethod
    def load(cls, path: Source) -> "StoredEmbeddings":
        """Read a ``.npz`` file with the arrays ``names`` (n,) and ``embeddings`` (n, D)."""
        file = Path(path).expanduser()
        remedy = "write it with numpy.savez(file, names=names, embeddings=embeddings)"
        arrays = load_arrays(file, remedy=remedy, most_bytes=MOST_EMBEDDING_BYTES)
        names, values = arrays.get("names"), arrays.get("embeddings")
        if names is None or values is None or names.dtype.kind != "U" or values.dtype.kind not in "fiu":
            raise InvalidInputError(
                f"{file.name} must hold names (text) and embeddings (numbers), got "
                f"{listed(sorted(arrays)) or 'nothing'}; {remedy}."
            )
        if values.ndim != 2 or names.shape != values.shape[:1] or len(set(names.tolist())) < len(names):
            raise InvalidInputError(
                f"{file.name} must have one embedding per name, each name once, got the shapes {names.shape} and "
                f"{values.shape}; {remedy}."
            )
        if not np.isfinite(values).all():
            raise InvalidInputError(f"the embeddings in {file.name} must be finite, got NaN or infinity.")
        return cls(file, tuple(names.tolist()), values.astype(np.float64))

    def named(self, images: Source | None) -> Scan:  # noqa: ARG002
        """Return the names as if they were the files of a folder, whatever ``images`` are."""
        return Scan(self.path, images=sorted(self.names))

    def pictures(self, pairs: FacePairs, images: Source | None) -> FacePairs | None:
        """Return the pairs with files below ``images``, where suffixes of the names may be missing; None without."""
        if images is None:
            return None
        found = scan_images(images)
        by_name = {known: name for name in found.images for known in (name, os.path.splitext(name)[0])}
        by_stem = {os.path.basename(known): name for known, name in by_name.items()}
        files = tuple(by_name.get(name) or by_stem.get(name) for name in pairs.files)  # or without its folder
        missing = [name for name, file in zip(pairs.files, files, strict=True) if file is None]
        if missing:
            raise InvalidInputError(f"{listed(missing)} of the embeddings are not in {str(images)!r}; check --images.")
        return replace(pairs, files=files, root=found.root)

    def features(self, pairs: FacePairs, *, progress: Progress | None = None) -> Floats:  # noqa: ARG002
        """Return one feature per face of the pairs, (faces, D): for a video, the mean over its frames."""
        place = {name: row for row, name in enumerate(self.names)}
        return averaged(self.values[[place[name] for name in pairs.files]], pairs.face, pairs.faces)


class EncodedFaces:
    """Features that an encoder computes from images."""

    def __init__(self, encoder: FaceEncoder) -> None:
        self.encoder = encoder

    def named(self, images: Source | None) -> Source | None:
        """Return the source of the faces' names: the images themselves."""
        return images

    def pictures(self, pairs: FacePairs, images: Source | None) -> FacePairs | None:  # noqa: ARG002
        """Return the pairs, whose images are available."""
        return pairs

    def features(self, pairs: FacePairs, *, progress: Progress | None = None) -> Floats:
        """Return :func:`face_features`."""
        return face_features(self.encoder, pairs, progress=progress)


def face_features(encoder: FaceEncoder, pairs: FacePairs, *, progress: Progress | None = None) -> Floats:
    """Return one feature per face of the pairs, (faces, D): for a video, the mean over its frames.

    Images are processed a few at a time, so that memory does not grow with the number of frames.
    """
    height, width = encoder.size
    images = pairs.images((height, width), encoder.channels)
    step = min(MOST_AT_ONCE, rows_at_once(HELD_NUMBERS * encoder.channels * height * width))
    sums: Floats | None = None
    for start in range(0, len(pairs.files), step):
        rows = slice(start, min(start + step, len(pairs.files)))
        found = encoder(np.ascontiguousarray(images[rows]))
        sums = np.zeros((pairs.faces, found.shape[1])) if sums is None else sums
        np.add.at(sums, pairs.face[rows], found)
        if progress is not None:
            progress(rows.stop, len(pairs.files))
    if sums is None or not np.isfinite(sums).all():
        raise InvalidInputError("the network returned non-finite features; train again, or give another model.")
    return sums / np.bincount(pairs.face, minlength=pairs.faces)[:, None]


def similarities(features: Floats, pairs: FacePairs) -> Floats:
    """Return the cosine of the features (faces, D) of each pair, (pairs,)."""
    return cosines(features[pairs.first], features[pairs.second])
