"""Image networks: pixels to normalised floats, a backbone of ``BACKBONES``, and dense layers behind it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from equipoise.errors import InvalidInputError
from equipoise.models.augment import Augment
from equipoise.models.backbones import build_backbone, has_weights
from equipoise.models.mlp import MLP


class ImageBackbone(nn.Module):
    """uint8 images (batch, channels, height, width) -> features (batch, out_features).

    Grey images become three equal channels for a colour network, colour images their average for a grey one.

    Args:
        input: pixels to normalised floats, :class:`~equipoise.models.image_network.ImageInput` of ``body.in_channels``.
        body: a backbone of ``BACKBONES``, images (batch, channels, height, width) -> features.
        top: layers behind the pooling: ``MLP(body.out_features)`` is the paper's two with dropout; None adds none.
        body_rate: learning rate of the body relative to that of the other layers, from 0 to 1.

    >>> from equipoise.models import MLP, ImageInput, LeNet
    >>> backbone = ImageBackbone(ImageInput(1), LeNet(), MLP(500, (64,)))
    >>> backbone(torch.zeros(2, 3, 28, 28, dtype=torch.uint8)).shape
    torch.Size([2, 64])
    """

    takes_bytes = True  # and scales them itself

    def __init__(
        self, input: nn.Module, body: nn.Module, top: nn.Module | None = None, *, body_rate: float = 1.0
    ) -> None:
        super().__init__()
        if not 0 <= body_rate <= 1:
            raise InvalidInputError(f"body_rate must be a share of the learning rate from 0 to 1, got {body_rate}.")
        self.input, self.body, self.body_rate = input, body, body_rate
        self.top = nn.Identity() if top is None else top
        self.in_channels = int(getattr(body, "in_channels", 3))
        self.images_at_once: int | None = getattr(body, "images_at_once", None)  # where more take longer
        width = getattr(top if top is not None else body, "out_features", None)
        if not isinstance(width, int):
            raise InvalidInputError(
                f"{type(body if top is None else top).__name__} must give the number of its features as out_features."
            )
        self.out_features = width

    def forward(self, x: Tensor) -> Tensor:
        if self.in_channels == 1 and x.shape[1] == 3:
            x = x.to(torch.float32).mean(1, keepdim=True)
        floats = self.input(x)
        if not torch.is_grad_enabled():  # measured on CPUs: VGG16 and ResNet gain a fifth or more, training nothing
            floats = floats.contiguous(memory_format=torch.channels_last)
        features: Tensor = self.top(self.body(floats))
        return features


IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
IMAGES_TO_FIT = 2048
IMAGES_AT_ONCE = 256
FLAT = 1 / 255  # a channel that varies by less than one byte step keeps its scale


class ImageInput(nn.Module):
    """Images of values from 0 to 255, uint8 or float, -> (x / 255 − mean) / std, augmented in training mode.

    In eval mode it is a fixed function of the image. The state dict holds all that a prediction needs.

    Args:
        channels: number of channels that the next layer takes, 1 or 3; for 3, grey images become three equal ones.
        mean: mean of each channel, on the scale of [0, 1]; None is 0 until :meth:`fit`.
        std: standard deviation of each channel, on the same scale; None is 1 until :meth:`fit`.
        augment: augmentation applied in training mode; None applies none.

    >>> images = torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1).expand(2, 1, 4, 4)
    >>> first = ImageInput(3).fit(images.numpy())
    >>> first(images).shape, first(images)[:, 0, 0, 0]
    (torch.Size([2, 3, 4, 4]), tensor([-1.,  1.]))
    >>> ImageInput.imagenet()(images)[0, :, 0, 0]  # black
    tensor([-2.1179, -2.0357, -1.8044])
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        channels: int = 3,
        *,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        augment: Augment | None = None,
    ) -> None:
        super().__init__()
        if channels not in (1, 3):
            raise InvalidInputError(f"channels must be 1 or 3, got {channels}.")
        self.channels, self.augment = channels, augment
        self.register_buffer("mean", _per_channel(mean, 0.0, channels))
        self.register_buffer("std", _per_channel(std, 1.0, channels))
        if not bool((self.std > 0).all()):
            raise InvalidInputError(f"std must be positive, got {list(std or ())}.")

    @classmethod
    def imagenet(cls, *, augment: Augment | None = None) -> "ImageInput":
        """Build the input of networks trained on ImageNet, with its mean and std; ``augment`` as for the class."""
        return cls(3, mean=IMAGENET_MEAN, std=IMAGENET_STD, augment=augment)

    def fit(self, images: Any) -> "ImageInput":
        """Set mean and std from images (n, channels, height, width), in memory or on disk.

        Uses at most 2,048 of them, spread evenly. For a network of one channel, colour images count as their average.
        """
        colour_to_grey = self.channels == 1 and len(images.shape) == 4 and images.shape[1] == 3
        self._check((len(images), 1, *images.shape[2:]) if colour_to_grey else tuple(images.shape))
        rows = np.unique(np.linspace(0, len(images) - 1, min(len(images), IMAGES_TO_FIT)).round().astype(np.intp))
        channels = 1 if colour_to_grey else images.shape[1]
        total, squares, pixels = np.zeros(channels), np.zeros(channels), 0
        for start in range(0, len(rows), IMAGES_AT_ONCE):
            part = np.asarray(images[rows[start : start + IMAGES_AT_ONCE]], dtype=np.float64) / 255
            part = part.mean(1, keepdims=True) if colour_to_grey else part
            total += part.sum((0, 2, 3))
            squares += np.square(part).sum((0, 2, 3))
            pixels += part.size // channels
        mean = total / pixels
        deviation = np.sqrt(np.maximum(squares / pixels - mean**2, 0))
        deviation = np.where(deviation > FLAT, deviation, 1.0)
        self.mean.copy_(torch.from_numpy(mean).view(-1, 1, 1).expand_as(self.mean))
        self.std.copy_(torch.from_numpy(deviation).view(-1, 1, 1).expand_as(self.std))
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Normalise x, (batch, 1 or channels, height, width), into (batch, channels, height, width)."""
        self._check(tuple(x.shape))
        x = x.to(self.mean.dtype) / 255
        if self.augment is not None:
            x = self.augment(x)
        return (x - self.mean) / self.std  # broadcasting turns one channel into three here

    def _check(self, shape: tuple[int, ...]) -> None:
        if len(shape) != 4 or shape[1] not in (1, self.channels) or 0 in shape:
            wanted = "1" if self.channels == 1 else f"1 or {self.channels}"
            raise InvalidInputError(f"expected images (batch, {wanted}, height, width), got the shape {shape}.")


def _per_channel(values: Sequence[float] | None, default: float, channels: int) -> Tensor:
    given = [default] * channels if values is None else list(values)
    if len(given) != channels:
        raise InvalidInputError(f"mean and std must have {channels} values, got {len(given)}.")
    return torch.tensor(given, dtype=torch.float32).view(channels, 1, 1)


PRETRAINED_RATE = 0.1
"""Learning rate of pretrained layers, relative to that of the others."""


def image_backbone(
    name: str,
    *,
    weights: str | Path | None = None,
    pretrained: bool = False,
    config: dict[str, Any] | None = None,
    images: Any = None,
    augment: Augment | None = None,
    width: int = 512,
    dropout: float = 0.5,
    frozen: bool = False,
) -> ImageBackbone:
    """Build a network from pixels to features on a backbone of ``BACKBONES``, timm or Hugging Face.

    Args:
        name: a name in ``BACKBONES``, ``timm:NAME`` or ``hf:NAME_OR_FOLDER``.
        weights: file of pretrained weights. The input is then normalised as the weights were trained (by default, as
            for ImageNet), and the backbone learns at a tenth of the rate of the layers behind it.
        pretrained: without ``weights``, load those of an installed package, of timm or of transformers.
        config: configuration of a vision model of transformers, to build it without its folder.
        images: training images, (n, channels, height, width); without weights, the input is normalised by their mean
            and standard deviation.
        augment: augmentation in training mode; None applies none.
        width: units of the two dense layers behind the pooling, the paper's 512; a backbone that ends in a dense layer
            of its own, such as LeNet, gets none.
        dropout: share dropped between them.
        frozen: whether to return only the backbone, for :func:`extract_features`.

    >>> import numpy as np, torch
    >>> images = np.random.default_rng(0).integers(0, 256, (8, 1, 28, 28), dtype=np.uint8)
    >>> backbone = image_backbone("lenet", images=images)
    >>> backbone(torch.from_numpy(images)).shape, backbone.out_features
    (torch.Size([8, 500]), 500)
    """
    body = build_backbone(name, weights=weights, pretrained=pretrained, config=config)
    channels, trained = int(getattr(body, "in_channels", 3)), weights is not None or (pretrained and has_weights(name))
    if channels == 3 and trained:
        first = _pretrained_input(body, augment)
    else:
        first = ImageInput(channels, augment=augment)
        first = first if images is None else first.fit(images)
    top = None
    if not frozen and not getattr(body, "ends_in_full_layer", False):
        top = MLP(int(body.out_features), (width, width), dropout=dropout)  # type: ignore[arg-type]
    return ImageBackbone(first, body, top, body_rate=PRETRAINED_RATE if trained else 1.0)


def _pretrained_input(body: nn.Module, augment: Augment | None) -> ImageInput:
    """Return the normalisation that the weights were trained with: the network's own if known, otherwise ImageNet's."""
    config = getattr(body, "default_cfg", None)
    mean, std = (config.get("mean"), config.get("std")) if isinstance(config, dict) else (None, None)
    if mean is None or std is None or len(mean) != 3 or len(std) != 3:
        return ImageInput.imagenet(augment=augment)
    return ImageInput(3, mean=tuple(mean), std=tuple(std), augment=augment)
