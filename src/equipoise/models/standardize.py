"""Columns to mean 0 and variance 1, as the first layer of a network: the data stay as they are, on disk if they are."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

ROWS_AT_ONCE = 65_536


class Standardize(nn.Module):
    """(x − mean) / scale by column, clipped to ±``limit`` so that one wild value cannot drown a sample.

    Args:
        columns: how many x (batch, columns) has.
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
        self.register_buffer("mean", torch.zeros(columns))
        self.register_buffer("scale", torch.ones(columns))

    def fit(self, x: NDArray[Any]) -> "Standardize":
        """Set mean and scale from the rows of x, (rows, columns), a part at a time; a constant column keeps scale 1."""
        starts = range(0, len(x), ROWS_AT_ONCE)
        total, squares = np.zeros(x.shape[1]), np.zeros(x.shape[1])
        origin = np.asarray(x[:ROWS_AT_ONCE], dtype=np.float64).mean(
            0
        )  # squares are taken about it: no cancellation for columns far from zero
        for start in starts:
            part = np.asarray(x[start : start + ROWS_AT_ONCE], dtype=np.float64) - origin
            total += part.sum(0)
            squares += np.square(part).sum(0)
        mean = total / len(x)
        deviation = np.sqrt(np.maximum(squares / len(x) - mean**2, 0.0))
        tiny = 1e-7 * np.maximum(np.abs(origin), 1e-30)  # below float32's own resolution of the column
        deviation = np.where(deviation > tiny, deviation, 1.0)
        self.mean = torch.as_tensor(origin + mean, dtype=torch.float32)
        self.scale = torch.as_tensor(deviation, dtype=torch.float32).clamp_min(torch.finfo(torch.float32).tiny)
        return self

    def forward(self, x: Tensor) -> Tensor:
        return ((x - self.mean).div_(self.scale)).clamp_(-self.limit, self.limit)
