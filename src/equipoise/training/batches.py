"""Samples in memory or on disk, as batches of rows."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from equipoise.data.samples import SampleRows, rows_of
from equipoise.errors import InvalidInputError
from equipoise.tensor_checks import new_tensor, numeric_tensor

RANKED_AT_ONCE = 2**18
"""Rows of a sample that are ranked together: ranks of all rows would take more memory than their labels."""


class ArrayData(Dataset[tuple[Tensor, ...]]):
    """Rows of arrays as batches: (x, y) or (x, y, weight). A memory-mapped ``x`` and images stay on disk.

    Args:
        x: (samples, ...), a tensor, an array, images, or a table on disk.
        y: (samples,) labels or (samples, attributes) of 0 and 1, int64.
        weight: (samples,) or None.

    >>> data = ArrayData(np.arange(6.0).reshape(3, 2), np.array([0, 1, 0]))
    >>> data.subset(torch.tensor([2, 0])).__getitems__([0, 1])  # a batch of two rows
    (tensor([[4., 5.],
            [0., 1.]], dtype=torch.float64), tensor([0, 0]))
    """

    def __init__(
        self,
        x: Tensor | NDArray[Any] | SampleRows,
        y: Tensor | NDArray[Any],
        weight: Tensor | NDArray[Any] | None = None,
    ) -> None:
        if isinstance(x, Tensor) and x.requires_grad:
            raise InvalidInputError("x requires gradients, which no step of training uses; pass x.detach().")
        self.x = x
        self.y = y if isinstance(y, Tensor) else new_tensor(np.asarray(y))
        self.weight = None if weight is None else numeric_tensor(weight, "weight").detach()
        if len(x) != len(self.y) or len(x) == 0:
            raise InvalidInputError(
                f"x and y must have the same number of rows, at least one, got {len(x)} and {len(y)}."
            )
        if self.weight is not None and self.weight.shape != (len(x),):
            raise InvalidInputError(f"weight must have the shape ({len(x)},), got {tuple(self.weight.shape)}.")
        if self.y.ndim > 2 or self.y.is_floating_point() or self.y.is_complex():
            raise InvalidInputError(
                f"y must hold whole class numbers, (samples,) or (samples, attributes), got {self.y.dtype} of shape "
                f"{tuple(self.y.shape)}; call .long() on it."
            )
        self.y = self.y.long()
        self.rows: Tensor | None = None  # rows of x; None means all

    def subset(self, rows: Tensor) -> "ArrayData":
        """Return the given ``rows``, (n,), as a data set of their own; x is shared, not copied."""
        part = copy.copy(self)
        part.rows = rows if self.rows is None else self.rows[rows]
        part.y = self.y[rows]
        part.weight = None if self.weight is None else self.weight[rows]
        return part

    def blocks(self) -> Tensor | None:
        """Return the block of each row, (samples,), if rows of one block are read together; None otherwise.

        >>> ArrayData(torch.zeros(3, 1), torch.tensor([0, 0, 1])).blocks() is None
        True
        """
        found = rows_of(self.x).blocks()
        if found is None:
            return None
        every = torch.from_numpy(found)
        return every if self.rows is None else every[self.rows]

    def evenly_weighed(self) -> "ArrayData":
        """Scale weights to a mean of 1 in each class, for an order that draws all classes equally often.

        >>> data = ArrayData(torch.zeros(3, 1), torch.tensor([0, 0, 1]), torch.tensor([1.0, 3.0, 40.0]))
        >>> data.evenly_weighed().weight
        tensor([0.5000, 1.5000, 1.0000], dtype=torch.float64)
        """
        if self.weight is None:
            return self
        part, weight = copy.copy(self), self.weight.double()
        mean = torch.bincount(self.y, weight) / torch.bincount(self.y)
        part.weight = (weight / mean[self.y]).nan_to_num(0.0)
        return part

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        return tuple(part[0] for part in self.__getitems__([index]))

    def __getitems__(self, indices: Sequence[int] | NDArray[np.intp] | Tensor) -> tuple[Tensor, ...]:
        """Return a whole batch, so that rows need not be collated one by one."""
        own = torch.as_tensor(indices)
        rows = own if self.rows is None else self.rows[own]
        x = self.x[rows] if isinstance(self.x, Tensor) else new_tensor(self.x[rows.numpy()])
        return (x, self.y[own]) if self.weight is None else (x, self.y[own], self.weight[own])


def relative_weights(weight: Tensor) -> Tensor:
    """Scale weights to a mean of 1 over the rows with non-zero weight: only their ratios matter.

    >>> relative_weights(torch.tensor([0.0, 0.25, 0.75]))
    tensor([0.0000, 0.5000, 1.5000], dtype=torch.float64)
    """
    given = weight.double()
    if not bool(((given >= 0) & given.isfinite()).all()) or not bool((given > 0).any()):
        raise InvalidInputError("sample_weight must be finite, not negative and above 0 for at least one sample.")
    given = given / given.max()  # so that no sum overflows
    return given / given[given > 0].mean()


def capped_sample(y: Tensor, cap: int, *, seed: int, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Draw at most ``cap`` rows of each class, with weights that keep means over them unbiased.

    With attributes, at most ``cap`` rows per attribute are drawn from all rows. A row of ``weight`` k counts as k rows.
    """
    rows, stands_for = _drawn(y, cap, seed)
    if weight is None:
        return rows, stands_for
    group = y if y.ndim == 1 else torch.zeros(len(y), dtype=torch.long)
    total = torch.bincount(group, weight.double())
    drawn = torch.bincount(group[rows], weight[rows].double(), minlength=len(total))
    own = weight[rows].double() * (total / drawn)[group[rows]]  # the drawn rows weigh as much as their class
    return rows, own.nan_to_num(0.0)


def rank_in_class(y: Tensor) -> Tensor:
    """Return how many rows of the same class come before each row, (rows,).

    >>> rank_in_class(torch.tensor([1, 0, 1, 1, 0]))
    tensor([0, 0, 1, 2, 1])
    """
    by_class = torch.argsort(y, stable=True)
    counts = torch.bincount(y)
    first = (counts.cumsum(0) - counts)[y[by_class]]
    rank = torch.empty_like(by_class)
    rank[by_class] = torch.arange(len(y), device=y.device) - first
    return rank


def _drawn(y: Tensor, cap: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return the drawn rows, and for each the number of rows of its class that it stands for."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(y), generator=generator)
    if y.ndim > 1:
        rows = order[: cap * y.shape[1]].sort().values
        return rows, torch.full((len(rows),), len(y) / max(len(rows), 1), dtype=torch.float64)
    counts = torch.bincount(y)
    parts, before = [], torch.zeros_like(counts)
    for some in order.split(RANKED_AT_ONCE):
        own = y[some]
        parts.append(some[before[own] + rank_in_class(own) < cap])
        before += torch.bincount(own, minlength=len(counts))
    rows = torch.cat(parts).sort().values
    weight = counts.double() / counts.clamp(max=cap).double()
    return rows, weight[y[rows]]
