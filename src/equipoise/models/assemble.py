"""A backbone by name, ready for images as they come from disk."""

from pathlib import Path
from typing import Any

from torch import nn

from equipoise.models.augment import Augment
from equipoise.models.backbones import build_backbone
from equipoise.models.image_backbone import ImageBackbone
from equipoise.models.image_input import ImageInput
from equipoise.models.mlp import MLP

PRETRAINED_RATE = 0.1
"""Of the learning rate, for layers that were trained before."""


def image_backbone(
    name: str,
    *,
    weights: str | Path | None = None,
    images: Any = None,
    augment: Augment | None = None,
    width: int = 512,
    dropout: float = 0.5,
    frozen: bool = False,
) -> ImageBackbone:
    """Pixels to features by a backbone of ``BACKBONES`` or ``timm:NAME``.

    Args:
        name: of ``BACKBONES``, or ``timm:NAME``.
        weights: a file of weights; the input is then normalised as ImageNet's (a network of timm as timm says of it),
            and the backbone learns at a tenth of the rate of what follows it.
        images: training images, by which the input is normalised where there are no weights; grey or colour.
        augment: how images are varied while training; None leaves them.
        width: of the two full layers behind the pooling, the paper's 512; LeNet, which has one of its own, gets none.
        dropout: between them.
        frozen: the backbone alone, for :func:`extract_features`.

    >>> import numpy as np, torch
    >>> images = np.random.default_rng(0).integers(0, 256, (8, 1, 28, 28), dtype=np.uint8)
    >>> backbone = image_backbone("lenet", images=images)
    >>> backbone(torch.from_numpy(images)).shape, backbone.out_features
    (torch.Size([8, 500]), 500)
    """
    body = build_backbone(name, weights=weights)
    channels = int(getattr(body, "in_channels", 3))
    if channels == 3 and weights is not None:
        first = _pretrained_input(body, augment)
    else:
        first = ImageInput(channels, augment=augment)
        first = first if images is None else first.fit(images)
    top = None
    if not frozen and name != "lenet":
        top = MLP(int(body.out_features), (width, width), dropout=dropout)  # type: ignore[arg-type]
    return ImageBackbone(first, body, top, body_rate=1.0 if weights is None else PRETRAINED_RATE)


def _pretrained_input(body: nn.Module, augment: Augment | None) -> ImageInput:
    """The normalisation that the weights were trained with: timm keeps it beside a network, all others are
    ImageNet's."""
    told = getattr(body, "default_cfg", None)
    mean, std = (told.get("mean"), told.get("std")) if isinstance(told, dict) else (None, None)
    if mean is None or std is None or len(mean) != 3 or len(std) != 3:
        return ImageInput.imagenet(augment=augment)
    return ImageInput(3, mean=tuple(mean), std=tuple(std), augment=augment)
