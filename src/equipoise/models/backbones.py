"""The backbones by name, with public weights where a file of them is given."""

import logging
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from torch import nn

from equipoise.errors import InvalidInputError
from equipoise.family_names import TIMM
from equipoise.models.lenet import LeNet
from equipoise.models.pretrained_weights import load_weights
from equipoise.models.resnet import resnet18, resnet50, se_resnet50
from equipoise.models.vgg import VGG16

BACKBONES: dict[str, Callable[[], nn.Module]] = {
    "lenet": LeNet,
    "vgg16": VGG16,
    "vgg16_plain": partial(VGG16, enlarge=None),
    "resnet18": resnet18,
    "resnet50": resnet50,
    "se_resnet50": se_resnet50,
}
"""Name -> builder. What is built takes float images of ``in_channels`` and gives (batch, ``out_features``).

``vgg16`` enlarges small images to 48 pixels; ``vgg16_plain`` takes them as they are, which at 32 pixels takes less
than half the time.
"""

log = logging.getLogger(__name__)


def build_backbone(name: str, *, weights: str | Path | None = None) -> nn.Module:
    """Build a backbone of :data:`BACKBONES`, or ``timm:NAME``, with random weights or those of a file.

    Args:
        name: of :data:`BACKBONES`, or of a network of timm's.
        weights: a file for :func:`~equipoise.models.pretrained_weights.load_weights`; what it leaves out is logged.

    >>> network = build_backbone("lenet")
    >>> network.in_channels, network.out_features
    (1, 500)
    """
    if name.startswith(TIMM):
        network = _from_timm(name.removeprefix(TIMM))
    elif name in BACKBONES:
        network = BACKBONES[name]()
    else:
        raise InvalidInputError(f"backbone must be one of {', '.join(BACKBONES)} or timm:NAME, got {name!r}.")
    if weights is not None:
        for note in load_weights(network, weights):
            log.info(note)
    return network


def _from_timm(name: str) -> nn.Module:
    """A network of timm without its classifier; a name that timm would look for elsewhere than in itself is refused."""
    if not re.fullmatch(r"[\w.]+", name):
        raise InvalidInputError(f"timm:{name} is no name of a network of timm's own; see timm.list_models().")
    try:
        import timm  # type: ignore[import-not-found,unused-ignore]
    except Exception as error:  # beside an ImportError: what torchvision raises when it does not fit torch
        raise InvalidInputError(
            f"timm:{name} needs timm, which does not import here ({type(error).__name__}: {error}); "
            "pip install 'equipoise[vision]', with a torchvision made for this torch."
        ) from error
    try:
        network: nn.Module = timm.create_model(name, pretrained=False, num_classes=0)
    except (RuntimeError, ValueError) as error:
        raise InvalidInputError(f"timm builds no {name!r} ({error}); see timm.list_models().") from error
    network.out_features, network.in_channels = network.num_features, 3  # type: ignore[assignment]
    return network
