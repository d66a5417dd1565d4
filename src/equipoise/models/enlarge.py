"""Images too small for a network, made as large as it needs."""

import torch.nn.functional as F
from torch import Tensor


def enlarged(x: Tensor, side: int) -> Tensor:
    """Images (batch, channels, height, width) whose short side is ``side`` at least, smaller ones scaled up by bilinear
    interpolation with their aspect ratio; others as they are."""
    short = min(x.shape[-2:])
    if short >= side:
        return x
    height, width = (round(length * side / short) for length in x.shape[-2:])
    return F.interpolate(x, (height, width), mode="bilinear", align_corners=False)
