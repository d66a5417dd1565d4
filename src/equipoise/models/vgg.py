"""The convolutions of VGG16 (Simonyan and Zisserman 2015) in plain torch, with torchvision's parameter names."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from equipoise.errors import InvalidInputError
from equipoise.models.layers import enlarged

WIDTHS = ((64, 64), (128, 128), (256, 256, 256), (512, 512, 512), (512, 512, 512))
"""Channels of the convolutions, block by block."""


class VGG16(nn.Module):
    """Images (batch, 3, height, width) -> the chosen blocks' outputs, each averaged over the image, side by side.

    Args:
        blocks: which of the five, from 1; the average is taken before the pooling that ends a block.
        enlarge: the short side, in pixels, to which smaller images are enlarged (bilinear); None takes them as they
            are, down to the pixels that the halvings need (16 for five blocks). ImageNet's filters see little in an
            image of 32 pixels: at 48 it gives better features for 2¼ times the work, at 64 not measurably better
            ones (docs/results/features.md).

    >>> network = VGG16(blocks=(1, 2), enlarge=None)
    >>> network(torch.zeros(2, 3, 16, 16)).shape  # 64 channels of the first block, 128 of the second
    torch.Size([2, 192])
    """

    in_channels = 3

    def __init__(self, *, blocks: Sequence[int] = (3, 4, 5), enlarge: int | None = 48) -> None:
        super().__init__()
        if not blocks or sorted(set(blocks)) != list(blocks) or not {1, 2, 3, 4, 5}.issuperset(blocks):
            raise InvalidInputError(f"blocks must be some of 1, 2, 3, 4, 5, in this order, got {list(blocks)}.")
        if enlarge is not None and enlarge < 1:
            raise InvalidInputError(f"enlarge must be a number of pixels or None, got {enlarge}.")
        self.blocks, self.enlarge = tuple(blocks), enlarge
        self.side = max(enlarge or 0, 2 ** (blocks[-1] - 1))  # every block before the last one halves the image
        layers: list[nn.Module] = []
        channels = self.in_channels
        for width in (width for block in WIDTHS for width in (*block, 0)):
            if width:
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
                channels = width
            else:
                layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.out_features = sum(WIDTHS[block - 1][-1] for block in blocks)
        for module in self.features:
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                nn.init.zeros_(module.bias)  # type: ignore[arg-type]

    def extra_repr(self) -> str:
        return f"blocks={self.blocks}, enlarge={self.enlarge}"

    def forward(self, x: Tensor) -> Tensor:
        x = enlarged(x, self.side)
        found, block = [], 1
        for layer in self.features:
            if isinstance(layer, nn.MaxPool2d):  # the end of a block
                if block in self.blocks:
                    found.append(x.mean((-2, -1)))
                if block == self.blocks[-1]:
                    break
                block += 1
            x = layer(x)
        return torch.cat(found, dim=1)
