"""What a run's network makes of faces, before its classifier."""

import copy
from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from equipoise.app.runs import RunModel
from equipoise.app.runs.inputs import FeaturesInput, ImagesInput
from equipoise.errors import InvalidInputError
from equipoise.models import ImageBackbone
from equipoise.models.replica import eval_replica
from equipoise.paper.faces.pairs import Pairs
from equipoise.training.settings import rows_at_once

Layer = Literal["pooled", "last"]
Progress = Callable[[int, int], None]  # done, all

HELD_NUMBERS = 64
"""Numbers that a network holds of an image, for each of its pixels, roughly."""
MOST_AT_ONCE = 256


class Embedding(nn.Module):
    """Images -> features, in evaluation mode; the mean of an image's and its mirror image's where ``flip``."""

    def __init__(self, layers: nn.Module, *, flip: bool = True) -> None:
        super().__init__()
        self.layers, self.flip = eval_replica(layers), flip
        self.training = False

    def forward(self, images: Tensor) -> Tensor:
        features: Tensor = self.layers(images)
        return (features + self.layers(images.flip(-1))) / 2 if self.flip else features


def embedding(model: RunModel, *, layer: Layer = "pooled", flip: bool = True) -> Embedding:
    """The layers of a run's network up to its features.

    Args:
        layer: ``"pooled"``, the paper's, is what comes out of the backbone's global pooling; ``"last"`` what meets
            the class vectors, behind the full layers that follow the pooling.
        flip: average the features of each image with those of its mirror image.
    """
    if layer not in get_args(Layer):
        raise InvalidInputError(f"layer must be 'pooled' or 'last', got {layer!r}.")
    trained = model.network.backbone
    if isinstance(model.input, ImagesInput) and isinstance(trained, ImageBackbone):
        layers: nn.Module = trained if layer == "last" else ImageBackbone(trained.input, trained.body)
    elif isinstance(model.input, FeaturesInput):
        layers = model.input.extractor
        layers = nn.Sequential(layers, trained) if layer == "last" else layers
    else:
        raise InvalidInputError("faces are compared by a run of images, and this run is of a table; train on faces.")
    return Embedding(layers, flip=flip)


def image_shape(model: RunModel) -> tuple[int, tuple[int, int]]:
    """Channels, and height and width, that a run's network takes."""
    described = getattr(model.input, "described", None)
    if described is None:
        raise InvalidInputError("faces are compared by a run of images, and this run is of a table; train on faces.")
    height, width = described["size"]
    return described["channels"], (height, width)


@torch.inference_mode()
def face_features(
    model: RunModel,
    pairs: Pairs,
    *,
    layer: Layer = "pooled",
    flip: bool = True,
    progress: Progress | None = None,
) -> NDArray[np.float64]:
    """One feature for each face of the pairs, (faces, D): a video's is the mean over its frames.

    Images are read and passed on a few at a time, so that memory does not grow with the number of frames.
    """
    layers = embedding(model, layer=layer, flip=flip)
    channels, size = image_shape(model)
    images = pairs.images.read(size, channels)
    step = min(MOST_AT_ONCE, rows_at_once(HELD_NUMBERS * channels * size[0] * size[1]))
    device = _device()
    if device.type != "cpu":
        layers = copy.deepcopy(layers).to(device)  # the run's own weights stay where they are
    sums: NDArray[np.float64] | None = None
    for start in range(0, len(pairs.images), step):
        rows = slice(start, min(start + step, len(pairs.images)))
        found = layers(torch.from_numpy(np.ascontiguousarray(images[rows])).to(device)).double().cpu().numpy()
        sums = np.zeros((pairs.faces, found.shape[1])) if sums is None else sums
        np.add.at(sums, pairs.face[rows], found)
        if progress is not None:
            progress(rows.stop, len(pairs.images))
    if sums is None or not np.isfinite(sums).all():
        raise InvalidInputError("the run's network gave features that are not finite; train again.")
    features: NDArray[np.float64] = sums / np.bincount(pairs.face, minlength=pairs.faces)[:, None]
    return features


def _device() -> torch.device:
    """An accelerator where there is one."""
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return torch.device("cpu") if found is None else found
