"""Random augmentation of training images, drawn separately for each sample."""

import torch
from torch import Tensor, nn

from equipoise.errors import InvalidInputError

LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601: perceived brightness of red, green and blue


def shifted(x: Tensor, down: Tensor, right: Tensor, mirrored: Tensor) -> Tensor:
    """Move each image down and right, reflect its border into the gap, and mirror it if ``mirrored``.

    It moves by whole pixels, (batch,) each and smaller than the side.
    """
    height, width = x.shape[-2:]
    rows = _reflected(torch.arange(height, device=x.device) - down[:, None], height)  # (batch, height)
    columns = _reflected(torch.arange(width, device=x.device) - right[:, None], width)  # (batch, width)
    columns = torch.where(mirrored[:, None], columns.flip(-1), columns)
    places = rows[:, :, None] * width + columns[:, None, :]  # (batch, height, width)
    flat = places.flatten(1)[:, None].expand(-1, x.shape[1], -1)
    return x.flatten(2).gather(2, flat).view(x.shape)


def _reflected(places: Tensor, side: int) -> Tensor:
    """Reflect positions beyond the border, without repeating the border itself: −1 becomes 1."""
    last = side - 1
    return last - (last - places.abs()).abs()


def recoloured(x: Tensor, brightness: Tensor, contrast: Tensor, saturation: Tensor) -> Tensor:
    """Change brightness, contrast and saturation of each image by its factors, in this order, and cut to [0, 1].

    Brightness multiplies the pixels, contrast their distance from the image's mean luma, saturation, of three channels
    alone, their distance from their own luma; factor 1 changes nothing.
    """
    colour = x.shape[1] == 3
    weights = x.new_tensor(LUMA if colour else (1.0,) * x.shape[1])
    weights = (weights / weights.sum()).view(1, -1, 1, 1)
    level = (x.mean((2, 3), keepdim=True) * weights).sum(1, keepdim=True)  # mean luma, (batch, 1, 1, 1)
    gain = (brightness * contrast).view(-1, 1, 1, 1)
    lift = level * (brightness * (1 - contrast)).view(-1, 1, 1, 1)
    out = x * gain + lift
    if colour:
        luma = (out * weights).sum(1, keepdim=True)
        out = torch.lerp(luma, out, saturation.view(-1, 1, 1, 1))
    return out.clamp_(0, 1)


class Augment(nn.Module):
    """Crop, flip and colour each image of a batch at random, in training mode only.

    The draws come from torch's own generator on the images' device, whose state checkpoints keep: a resumed run
    continues exactly.

    Args:
        crop: largest shift to each side, as a share of the side; the border is reflected into the gap.
        flip: probability of mirroring left and right; use 0 for images that mirroring would change, such as digits.
        colour: largest change of brightness, contrast and saturation, as a share.

    >>> vary = Augment(crop=0.0, flip=1.0, colour=0.0)
    >>> images = torch.tensor([0.0, 0.5, 1.0]).expand(1, 1, 2, 3)
    >>> vary(images)[0, 0, 0], vary.eval()(images)[0, 0, 0]
    (tensor([1.0000, 0.5000, 0.0000]), tensor([0.0000, 0.5000, 1.0000]))
    """

    def __init__(self, *, crop: float = 0.125, flip: float = 0.5, colour: float = 0.2) -> None:
        super().__init__()
        for name, value in (("crop", crop), ("flip", flip), ("colour", colour)):
            if not 0 <= value <= 1:
                raise InvalidInputError(f"{name} must be between 0 and 1, got {value}.")
        self.crop, self.flip, self.colour = crop, flip, colour

    def forward(self, x: Tensor) -> Tensor:
        """Vary x, values in [0, 1], (batch, channels, height, width), in training mode."""
        if not self.training:
            return x
        if self.crop or self.flip:
            down, right = self._shift(x, x.shape[2]), self._shift(x, x.shape[3])
            x = shifted(x, down, right, torch.rand(len(x), device=x.device) < self.flip)
        if self.colour:
            x = recoloured(x, self._factor(x), self._factor(x), self._factor(x))
        return x

    def _shift(self, x: Tensor, side: int) -> Tensor:
        most = min(round(self.crop * side), side - 1)
        return torch.randint(-most, most + 1, (len(x),), device=x.device)

    def _factor(self, x: Tensor) -> Tensor:
        return 1 + self.colour * (2 * torch.rand(len(x), device=x.device, dtype=x.dtype) - 1)

    def extra_repr(self) -> str:
        return f"crop={self.crop}, flip={self.flip}, colour={self.colour}"
