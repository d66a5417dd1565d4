"""Training settings, and the defaults chosen from the size of the data."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, get_args

import torch

from equipoise.options import check_options, limits, option, plain_numbers, whole_number
from equipoise.registry_names import Precision
from equipoise.training.epoch_order import Order

LEAST_STEPS, MOST_STEPS = 2_000, 6_000
"""Optimiser steps for small and for large data, chosen in docs/results/training-length.md."""
DATA_PASSES = 15
"""Passes over the data between the two."""
EPOCHS = 30
"""Number of epochs that these steps are divided into, for records, checkpoints and stages."""
FEWEST_EPOCHS, LEAST_PART = 6, 100
"""Number of epochs that a few passes over large data are divided into, and the fewest batches of each."""
MANY_SAMPLES, MEMBERS = 2_000, 4
"""From this many samples on, one wide network is trained; below, several networks side by side."""
MOST_HELD_BACK = 50_000
"""Most samples held back or held out: the features of all of them are in memory at once."""
SMALL_STEP = 5e8
"""Operations per training step below which a second thread does not pay off."""


@dataclass(frozen=True)
class Settings:
    """Everything about a training run but its data and its network.

    Args:
        epochs: number of epochs.
        batch_size: samples per batch, over all processes.
        epoch_batches: batches per epoch; the next epoch continues where it stopped, so an epoch may be a part of
            large data, or several passes over small data. None: one pass over all samples.
        learning_rate, weight_decay: options of AdamW; the learning rate decays to 0 along a cosine.
        seed: seed of the order, of dropout and of the samples held out.
        order: ``"shuffled"``, or ``"balanced"``: every class drawn equally often.
        precision: ``"bf16"`` or ``"fp16"`` for mixed precision on a GPU.
        accumulate: batches whose gradients are accumulated before a step.
        passes: stochastic passes for the class uncertainty.
        cap: maximum number of samples per class used for it.
        checkpoint_steps: steps between checkpoints; None saves at the end of each epoch.
        patience: epochs without a better balanced accuracy on the validation split before training stops with the
            best epoch's weights; None trains to the end and keeps the last.
    """

    epochs: int = field(metadata=limits(least=1, whole=True))
    batch_size: int = field(metadata=limits(least=1, whole=True))
    learning_rate: float = option(1e-3, least=0)
    weight_decay: float = option(0.5, least=0)
    seed: int = option(0, least=0, whole=True)
    order: Order = option("shuffled", choices=lambda: get_args(Order))
    precision: Precision = option("no", choices=lambda: get_args(Precision))
    accumulate: int = option(1, least=1, whole=True)
    passes: int = option(10, least=2, whole=True)
    cap: int = option(200, least=1, whole=True)
    checkpoint_steps: int | None = option(None, least=1, whole=True)
    patience: int | None = option(None, least=1, whole=True)
    epoch_batches: int | None = option(None, least=1, whole=True)

    def __post_init__(self) -> None:
        check_options(self)
        plain_numbers(self)


def choose_batch_size(samples: int) -> int:
    """Return a power of two, about a fortieth of the samples, from 32 to 256."""
    return int(2 ** min(8, max(5, round(math.log2(max(samples, 1) / 40)))))


class Length(NamedTuple):
    """The length of a training: epochs, and batches per epoch; None is one pass over all samples."""

    epochs: int
    epoch_batches: int | None


def choose_length(samples: int, batch_size: int, epochs: int | None = None) -> Length:
    """Choose the length from the size of the data, or from ``epochs``, the number of passes over them.

    Small data are passed over repeatedly until enough steps are taken; on large data an epoch covers a part. A few
    passes over large data are divided too, so that each stage has at least one epoch.

    >>> choose_length(500, 32), choose_length(1_000_000, 256)
    (Length(epochs=30, epoch_batches=67), Length(epochs=30, epoch_batches=200))
    >>> choose_length(500, 32, epochs=40), choose_length(1_000_000, 256, epochs=2)
    (Length(epochs=40, epoch_batches=None), Length(epochs=6, epoch_batches=1303))
    """
    full_pass = math.ceil(max(samples, 1) / whole_number("batch_size", batch_size, 1))
    if epochs is None:
        return Length(EPOCHS, math.ceil(min(max(LEAST_STEPS, DATA_PASSES * full_pass), MOST_STEPS) / EPOCHS))
    epochs = whole_number("epochs", epochs, 1)
    parts = min(math.ceil(FEWEST_EPOCHS / epochs), full_pass // LEAST_PART)
    return Length(epochs * parts, math.ceil(full_pass / parts)) if parts > 1 else Length(epochs, None)


def choose_width(samples: int) -> int:
    """Return the paper's 512 units from 2,000 samples on; fewer for fewer samples."""
    return 512 if samples >= MANY_SAMPLES else 256 if samples >= 200 else 128


def choose_members(samples: int) -> int:
    """Return how many networks to train side by side: four for few samples, for which they were measured.

    >>> choose_members(1_000), choose_members(10_000)
    (4, 1)
    """
    return MEMBERS if samples < MANY_SAMPLES else 1


def rows_at_once(numbers_a_row: int) -> int:
    """Return how many rows pass through a network together: about four million numbers, and at most 4,096 rows."""
    return max(1, min(4096, 2**22 // max(numbers_a_row, 1)))


@contextmanager
def suitable_threads(parameters: int, batch_size: int) -> Iterator[None]:
    """Use one CPU thread for steps too small to share: on a busy machine, threads mostly wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1 if 6 * parameters * batch_size < SMALL_STEP else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
