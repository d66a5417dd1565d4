"""What is chosen from the size of the data when nobody says, and which samples are held out."""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from equipoise.data.splits import held_rows
from equipoise.errors import InvalidInputError

SMALL_STEP = 5e8
"""Floating-point operations of a training step below which a second thread waits more than it works."""


def choose_batch_size(samples: int) -> int:
    """A power of two, about a fortieth of the samples, from 32 to 256."""
    return int(2 ** min(8, max(5, round(math.log2(max(samples, 1) / 40)))))


def choose_epochs(samples: int) -> int:
    """30 up to 5,000 samples, 15 from 20,000 on, and evenly in the logarithm between."""
    between = math.log(max(samples, 1) / 5_000) / math.log(4)
    return round(30 - 15 * min(1.0, max(0.0, between)))


def choose_width(samples: int) -> int:
    """512 units, the paper's, from 2,000 samples on; fewer for less."""
    return 512 if samples >= 2_000 else 256 if samples >= 200 else 128


def rows_at_once(numbers_a_row: int) -> int:
    """How many rows go through a network together: about four million numbers, and 4,096 rows at most."""
    return max(1, min(4096, 2**22 // max(numbers_a_row, 1)))


@contextmanager
def suitable_threads(parameters: int, batch_size: int) -> Iterator[None]:
    """One CPU thread for steps too small to share: on a busy machine the others are mostly waited for."""
    before = torch.get_num_threads()
    small = 6 * parameters * batch_size < SMALL_STEP
    torch.set_num_threads(1 if small else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def hold_out(y: Tensor, share: float, *, seed: int) -> tuple[Tensor, Tensor]:
    """Rows to train on and rows held out, stratified by class.

    Every class with at least three samples gives one at least, and keeps two; smaller ones give none. Several labels
    are drawn alike from all rows.
    """
    if not 0 <= share < 1:
        raise InvalidInputError(f"validation_fraction must lie in [0, 1), got {share}.")
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
    held = torch.from_numpy(held_rows(y.numpy(), share, order.numpy()))
    kept = torch.ones(len(y), dtype=torch.bool)
    kept[held] = False
    return kept.nonzero().squeeze(-1), held
