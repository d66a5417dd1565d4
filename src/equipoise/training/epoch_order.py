"""The order in which an epoch visits the samples, and which of them it mixes."""

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import BatchSampler, SequentialSampler

from equipoise.errors import InvalidInputError
from equipoise.training.mixing import draw_partners

Order = Literal["shuffled", "balanced"]


class EpochBatches(BatchSampler):
    """The batches of an epoch, the same on every process and after every resume: a function of (seed, epoch).

    ``balanced`` draws every class equally often, with replacement. Each process computes the whole order and takes
    its share of each batch, so that the balance survives distribution. While ``partners``, (classes,), says how often
    a partner is of each class, a batch holds pairs to mix instead of rows.

    Args:
        y: labels, (samples,), or (samples, attributes) for ``"shuffled"``.
        batch_size: samples of a batch, over all processes.
        seed: of the order, together with the epoch.
        order: ``"shuffled"`` or ``"balanced"``.
        held_back: rows that take no part before the epoch ``rejoin_epoch``, (n,).
        rejoin_epoch: that epoch, from 0.
        batches: of an epoch; the next one goes on where it stopped, so that an epoch may be a part of large data, or
            several visits of small data. None visits all rows once.

    >>> y, held_back = torch.tensor([0] * 9 + [1]), torch.tensor([3])
    >>> batches = EpochBatches(y, 5, seed=0, held_back=held_back, rejoin_epoch=1)
    >>> batches.batches_in(0), batches.batches_in(1)
    (2, 2)
    >>> sorted(row for batch in batches for row in batch)  # of epoch 0
    [0, 1, 2, 4, 5, 6, 7, 8, 9]
    >>> longer = EpochBatches(y, 5, seed=0, batches=3)  # one and a half visits
    >>> longer.batches_in(0), longer.batches_of_all(0)
    (3, 2)
    """

    def __init__(
        self,
        y: Tensor,
        batch_size: int,
        *,
        seed: int,
        order: Order = "shuffled",
        held_back: Tensor | None = None,
        rejoin_epoch: int = 0,
        batches: int | None = None,
    ) -> None:
        if order not in ("shuffled", "balanced"):
            raise InvalidInputError(f"order must be 'shuffled' or 'balanced', got {order!r}.")
        if order == "balanced" and y.ndim != 1:
            raise InvalidInputError("a balanced order needs one label per sample; several labels have no balance.")
        super().__init__(SequentialSampler(range(len(y))), batch_size, drop_last=False)
        self.y, self.seed, self.order, self.batches = y, seed, order, batches
        self.epoch, self.start = 0, 0
        self.partners: Tensor | None = None
        self.rejoin_epoch = 0 if held_back is None else rejoin_epoch
        kept = torch.ones(len(y), dtype=torch.bool)
        if held_back is not None:
            kept[held_back] = False
        self.kept = kept.nonzero().squeeze(-1)

    def __len__(self) -> int:
        return self.batches_in(self.epoch)

    def batches_in(self, epoch: int) -> int:
        """Return how many batches an ``epoch`` has."""
        return self.batches_of_all(epoch) if self.batches is None else self.batches

    def batches_of_all(self, epoch: int) -> int:
        """Return the batches of all rows that take part in an ``epoch``, without a last one of a single sample."""
        full, rest = divmod(len(self.kept if epoch < self.rejoin_epoch else self.y), self.batch_size)
        return max(1, full + (rest > 1))  # a last batch of one sample would break BatchNorm; it comes up next time

    def __iter__(self) -> Iterator[list[Any]]:
        since = self.rejoin_epoch if self.epoch >= self.rejoin_epoch else 0  # the rows that take part change there
        whole, done = self.batches_of_all(self.epoch), (self.epoch - since) * len(self)
        visit, drawn = -1, tuple[NDArray[Any], ...]()
        for number in range(done + self.start, done + len(self)):
            before, place = divmod(number, whole)
            if before != visit:  # all rows have been visited once more
                visit, drawn = before, self._drawn(since + before)
            batch = [each[place * self.batch_size : (place + 1) * self.batch_size].tolist() for each in drawn]
            yield batch[0] if len(batch) == 1 else list(zip(*batch, strict=True))

    def _drawn(self, visit: int) -> tuple[NDArray[Any], ...]:
        """The rows of the ``visit``-th visit, and with ``partners`` those of their partners and the shares."""
        rows = self._rows(visit)
        if self.partners is None:
            return (rows.numpy(),)
        return rows.numpy(), *draw_partners(rows, self.y, self.partners, seed=[self.seed, visit])

    def _rows(self, visit: int) -> Tensor:
        """The order in which all rows of this epoch are visited for the ``visit``-th time."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + visit)
        rows = self.kept if self.epoch < self.rejoin_epoch else torch.arange(len(self.y))
        if self.order == "shuffled":
            return rows[torch.randperm(len(rows), generator=generator)]
        # a class first, then one of its rows
        labels = self.y[rows]
        by_class, counts = torch.argsort(labels), torch.bincount(labels)
        present = counts.nonzero().squeeze(-1)
        drawn = present[torch.randint(len(present), (len(rows),), generator=generator)]
        place = (torch.rand(len(rows), generator=generator, dtype=torch.float64) * counts[drawn]).long()
        return rows[by_class[(counts.cumsum(0) - counts)[drawn] + place]]


def random_order(samples: int, seed: int) -> NDArray[np.intp]:
    """Return all rows in an order drawn from the seed, the same on every machine."""
    order: NDArray[np.intp] = torch.randperm(samples, generator=torch.Generator().manual_seed(seed)).numpy()
    return order
