"""Images in, features out: pixels to numbers, a backbone, and full layers behind it."""

import torch
from torch import Tensor, nn

from equipoise.errors import InvalidInputError


class ImageBackbone(nn.Module):
    """uint8 images (batch, channels, height, width) -> features (batch, out_features).

    Grey images enter a network of three channels as three equal ones, colour images a grey network as their average.

    Args:
        input: pixels to normalised floats, :class:`~equipoise.models.image_input.ImageInput` of ``body.in_channels``.
        body: a backbone of ``BACKBONES``; what a layer-wise learning rate slows down.
        top: layers behind the pooling: ``MLP(body.out_features)`` is the paper's two with dropout.
        body_rate: the body's learning rate, as a share of that of the other layers.

    >>> from equipoise.models import MLP, ImageInput, LeNet
    >>> backbone = ImageBackbone(ImageInput(1), LeNet(), MLP(500, (64,)))
    >>> backbone(torch.zeros(2, 3, 28, 28, dtype=torch.uint8)).shape
    torch.Size([2, 64])
    """

    def __init__(
        self, input: nn.Module, body: nn.Module, top: nn.Module | None = None, *, body_rate: float = 1.0
    ) -> None:
        super().__init__()
        if not 0 <= body_rate <= 1:
            raise InvalidInputError(f"body_rate is a share of the learning rate, from 0 to 1, got {body_rate}.")
        self.input, self.body, self.body_rate = input, body, body_rate
        self.top = nn.Identity() if top is None else top
        self.in_channels = int(getattr(body, "in_channels", 3))
        width = getattr(top if top is not None else body, "out_features", None)
        if not isinstance(width, int):
            raise InvalidInputError(
                f"{type(body if top is None else top).__name__} must tell the number of its features as out_features."
            )
        self.out_features = width

    def forward(self, x: Tensor) -> Tensor:
        if self.in_channels == 1 and x.shape[1] == 3:
            x = x.to(torch.float32).mean(1, keepdim=True)
        floats = self.input(x)
        if not torch.is_grad_enabled():  # measured on CPUs: VGG16 and ResNet gain a fifth and more, training nothing
            floats = floats.contiguous(memory_format=torch.channels_last)
        features: Tensor = self.top(self.body(floats))
        return features
