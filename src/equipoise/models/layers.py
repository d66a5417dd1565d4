"""Layers that several networks share: fast dropout, standardised columns, enlarged images."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

LEVELS = 2**16
ROWS_AT_ONCE = 65_536
Floats = NDArray[np.float64]


class Dropout(nn.Dropout):
    """``nn.Dropout`` with masks cut from random bits, four per random word, which is cheaper on a CPU.

    The rate is rounded to 1/65,536, and kept values are scaled by exactly that rate. On a GPU it is torch's own.

    Args:
        p: the share dropped.
        inplace: as in ``nn.Dropout``; without effect on a CPU.

    >>> dropped = Dropout(0.25)(torch.ones(100, 100))  # any shape
    >>> dropped.unique(), bool((dropped.mean() - 1).abs() < 0.1)
    (tensor([0.0000, 1.3333]), True)
    """

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not 0 < self.p < 1 or x.device.type != "cpu":
            return super().forward(x)
        dropped = round(self.p * LEVELS)
        words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        draws = words.view(torch.int16)[: x.numel()].view(x.shape)  # each of the 65,536 values is equally likely
        kept = torch.ge(draws, dropped - LEVELS // 2, out=torch.empty(x.shape, dtype=x.dtype))  # one pass to numbers
        return x * kept.mul_(LEVELS / (LEVELS - dropped) if dropped < LEVELS else 0.0)


def enlarged(x: Tensor, side: int) -> Tensor:
    """Scale images (batch, channels, height, width) up by bilinear interpolation until their short side is ``side``."""
    short = min(x.shape[-2:])
    if short >= side:
        return x
    height, width = (round(length * side / short) for length in x.shape[-2:])
    return F.interpolate(x, (height, width), mode="bilinear", align_corners=False)


class Standardize(nn.Module):
    """(x − mean) / scale by column, clipped to ±``limit`` so that one outlier cannot dominate a sample.

    The difference is taken in float64: in float32, a column of Unix milliseconds would have lost its seconds before the
    subtraction. The output is float32.

    Args:
        columns: number of columns of x (batch, columns).
        limit: in standard deviations.

    >>> first = Standardize(2).fit(np.array([[0.0, 5.0], [2.0, 5.0]]))
    >>> first(torch.tensor([[3.0, 6.0], [1e9, 5.0]]))  # a constant column keeps its scale
    tensor([[ 2.,  1.],
            [20.,  0.]])
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, columns: int, *, limit: float = 20.0) -> None:
        super().__init__()
        self.limit = limit
        self.register_buffer("mean", torch.zeros(columns, dtype=torch.float64))
        self.register_buffer("scale", torch.ones(columns, dtype=torch.float64))

    def fit(self, x: NDArray[Any], weight: NDArray[Any] | None = None) -> "Standardize":
        """Set mean and scale from the rows of x, (rows, columns), a part at a time; a constant column keeps scale 1.

        A row of ``weight`` k, (rows,), counts as k rows.
        """
        self.mean, self.scale = map(torch.from_numpy, column_moments(x, weight))
        return self

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean).div_(self.scale).clamp_(-self.limit, self.limit).float()


def column_moments(x: NDArray[Any], weight: NDArray[Any] | None = None) -> tuple[Floats, Floats]:
    """Compute the mean and the standard deviation of each column of x, (rows, columns), reading a part at a time.

    Columns are brought to magnitudes of at most 1 by a power of two, which is exact, so that no square overflows or
    vanishes, and squares are taken about the mean of the first part, so that a large offset does not cancel them. A
    column whose values differ by no more than its own rounding counts as constant and gets the deviation 1. A row of
    ``weight`` k, (rows,), counts as k rows.

    >>> column_moments(np.array([[1e300, 5.0], [3e300, 5.0]]))
    (array([2.e+300, 5.e+000]), array([1.e+300, 1.e+000]))
    """
    ends = [(part.min(0), part.max(0)) for part in _parts(x)]
    low, high = np.min([end[0] for end in ends], 0), np.max([end[1] for end in ends], 0)
    exponent = np.frexp(np.maximum(np.abs(low), np.abs(high)))[1]
    unit = np.ldexp(1.0, -exponent.clip(-1000, 1024))
    origin = np.clip((x[:ROWS_AT_ONCE] * unit).mean(0), low * unit, high * unit)
    total, squares = np.zeros(x.shape[1]), np.zeros(x.shape[1])
    each = np.ones((len(x), 1)) if weight is None else np.asarray(weight, dtype=np.float64)[:, None]
    for part, own in zip(_parts(x), _parts(each), strict=True):
        near = part * unit - origin
        total += (own * near).sum(0)
        squares += (own * np.square(near, out=near)).sum(0)
    rows = each.sum()
    beside = total / rows
    mean = origin + beside
    deviation = np.sqrt(np.maximum(squares / rows - beside**2, 0.0))
    rounding = np.finfo(x.dtype if x.dtype.kind == "f" else np.float64).eps
    scale = deviation / unit
    varies = (high > low) & (deviation > rounding * np.abs(mean)) & (scale > 0)
    return mean / unit, np.where(varies, scale, 1.0)


def _parts(x: NDArray[Any]) -> Iterator[Floats]:
    return (np.asarray(x[at : at + ROWS_AT_ONCE], dtype=np.float64) for at in range(0, len(x), ROWS_AT_ONCE))
