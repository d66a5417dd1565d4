"""The order of the samples in an epoch, and which of them are mixed."""

import itertools
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import BatchSampler, SequentialSampler

from equipoise.errors import InvalidInputError
from equipoise.training.batches import RANKED_AT_ONCE, rank_in_class
from equipoise.training.mixing import Pairs, draw_partners

Order = Literal["shuffled", "balanced"]


class EpochBatches(BatchSampler):
    """The batches of an epoch, the same on every process and after every resume: a function of (seed, epoch).

    ``balanced`` draws every class equally often, with replacement. Each process computes the whole order and takes
    its share of each batch, so classes stay balanced and the batches are the same for any number of processes. While
    ``partners``, (classes,), is set to a class distribution, a batch is ``Pairs`` to mix instead of rows.

    Args:
        y: labels, (samples,), or (samples, attributes) for ``"shuffled"``.
        batch_size: samples per batch, over all processes.
        seed: determines the order, together with the epoch.
        order: ``"shuffled"`` or ``"balanced"``.
        held_back: rows that are left out before the epoch ``rejoin_epoch``, (n,).
        rejoin_epoch: that epoch, counted from 0.
        process, processes: rank of this process and number of processes. A batch too small to split goes to all.
        blocks, blocks_at_once: the block of each row, (samples,), such as a row group of a file. Blocks are then
            read in random order, and rows are shuffled within ``blocks_at_once`` of them; each process reads only its
            own share of the blocks.
        batches: batches per epoch; the next epoch continues where it stopped, so an epoch may be a part of large data,
            or several passes over small data. None: one pass over all rows.

    >>> y, held_back = torch.tensor([0] * 9 + [1]), torch.tensor([3])
    >>> batches = EpochBatches(y, 5, seed=0, held_back=held_back, rejoin_epoch=1)
    >>> batches.batches_in(0), batches.batches_in(1)
    (2, 2)
    >>> sorted(row for batch in batches for row in batch)  # of epoch 0
    [0, 1, 2, 4, 5, 6, 7, 8, 9]
    >>> longer = EpochBatches(y, 5, seed=0, batches=3)  # one and a half passes
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
        process: int = 0,
        processes: int = 1,
        blocks: Tensor | None = None,
        blocks_at_once: int = 1,
    ) -> None:
        if order not in ("shuffled", "balanced"):
            raise InvalidInputError(f"order must be 'shuffled' or 'balanced', got {order!r}.")
        if order == "balanced" and y.ndim != 1:
            raise InvalidInputError("a balanced order needs one label per sample, got several; use order='shuffled'.")
        if order == "balanced" and blocks is not None:
            raise InvalidInputError("a balanced order draws from all rows at once; read the table into memory.")
        super().__init__(SequentialSampler(range(len(y))), batch_size, drop_last=False)
        self.y, self.seed, self.order, self.batches = y, seed, order, batches
        self.epoch, self.start = 0, 0
        self.process, self.processes = process, processes
        self.blocks, self.blocks_at_once = blocks, blocks_at_once
        self.partners: Tensor | None = None
        self.rejoin_epoch = 0 if held_back is None else rejoin_epoch
        kept = torch.ones(len(y), dtype=torch.bool)
        if held_back is not None:
            kept[held_back] = False
        self._takes_part, self._early_rows = kept, int(kept.sum())  # a byte per row: there may be millions

    def __len__(self) -> int:
        return self.batches_in(self.epoch)

    def batches_in(self, epoch: int) -> int:
        """Return the number of batches in an ``epoch``."""
        return self.batches_of_all(epoch) if self.batches is None else self.batches

    def batches_of_all(self, epoch: int) -> int:
        """Return the number of batches in a full pass of an ``epoch``, without a last batch of a single sample."""
        full, rest = divmod(self._rows_in(epoch), self.batch_size)
        return max(1, full + (rest > 1))  # a last batch of one sample would break BatchNorm; it comes up next time

    def _rows_in(self, epoch: int) -> int:
        return self._early_rows if epoch < self.rejoin_epoch else len(self.y)

    def share(self, step: int) -> float:
        """Return the weight of this process's part of the batch of a ``step``: 1, unless the split is uneven.

        >>> [EpochBatches(torch.zeros(9), 9, seed=0, process=each, processes=2).share(0) for each in (0, 1)]
        [0.8888888888888888, 1.1111111111111112]
        """
        if self.processes == 1:
            return 1.0
        whole = self.batches_of_all(self.epoch)
        rows = self._rows_in(self.epoch)
        place = (self._done() + step) % whole
        size = min(self.batch_size, rows - place * self.batch_size)
        own = self._own(size)
        return 1.0 if own == slice(None) else (own.stop - own.start) * self.processes / size

    def _own(self, size: int) -> slice:
        """Return this process's part of a batch of ``size``: at least two samples, which BatchNorm needs."""
        if self.processes == 1 or size < 2 * self.processes:
            return slice(None)
        return slice(size * self.process // self.processes, size * (self.process + 1) // self.processes)

    def _since(self) -> int:
        return self.rejoin_epoch if self.epoch >= self.rejoin_epoch else 0  # the rows that take part change there

    def _done(self) -> int:
        return (self.epoch - self._since()) * len(self)

    def __iter__(self) -> Iterator[Any]:
        since, whole, done = self._since(), self.batches_of_all(self.epoch), self._done()
        full_pass, drawn = -1, tuple[NDArray[Any], ...]()
        for number in range(done + self.start, done + len(self)):
            before, place = divmod(number, whole)
            if before != full_pass:  # another pass over all rows begins
                drawn = ()  # make room first
                full_pass, drawn = before, self._drawn(since + before)
            parts = [each[place * self.batch_size : (place + 1) * self.batch_size] for each in drawn]
            batch = [part[self._own(len(part))] for part in parts]
            yield batch[0].tolist() if len(batch) == 1 else Pairs(*batch)

    def _drawn(self, full_pass: int) -> tuple[NDArray[Any], ...]:
        """Return the rows of one pass and, with ``partners``, the rows of their partners and the shares."""
        rows = self._rows(full_pass)
        if self.partners is None:
            return (rows.numpy(),)
        return rows.numpy(), *draw_partners(rows, self.y, self.partners, seed=[self.seed, full_pass])

    def _rows(self, full_pass: int) -> Tensor:
        """Return the order of all rows in the pass of this number."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + full_pass)
        early = self.epoch < self.rejoin_epoch
        rows = self._takes_part.nonzero().squeeze(-1) if early else torch.arange(len(self.y))
        if self.blocks is not None:
            blocks = self.blocks[rows] if early else self.blocks
            return self._dealt(block_order(blocks, self.blocks_at_once, generator), rows)
        if self.order == "shuffled":
            return rows[torch.randperm(len(rows), generator=generator)]
        # a class first, then one of its rows
        labels = self.y[rows]
        by_class, counts = torch.argsort(labels), torch.bincount(labels)
        present = counts.nonzero().squeeze(-1)
        drawn = present[torch.randint(len(present), (len(rows),), generator=generator)]
        place = (torch.rand(len(rows), generator=generator, dtype=torch.float64) * counts[drawn]).long()
        return rows[by_class[(counts.cumsum(0) - counts)[drawn] + place]]

    def _dealt(self, order: Tensor, rows: Tensor) -> Tensor:
        """Arrange an order so that each process's part of all batches is one stretch of it."""
        size, full = self.batch_size, len(order) // self.batch_size
        if self.processes == 1 or size < 2 * self.processes:
            return rows[order]
        bounds = [size * place // self.processes for place in range(self.processes + 1)]
        dealt = torch.empty(full, size, dtype=order.dtype)
        for start, end in itertools.pairwise(bounds):
            dealt[:, start:end] = order[start * full : end * full].view(full, end - start)
        return rows[torch.cat((dealt.flatten(), order[full * size :]))]


def block_order(blocks: Tensor, at_once: int, generator: torch.Generator) -> Tensor:
    """Return an order of rows that takes blocks in random order and shuffles rows within ``at_once`` of them.

    Args:
        blocks: the block of each row, (rows,).
        at_once: blocks whose rows are shuffled together: the shuffle buffer.
        generator: of the order.

    >>> blocks = torch.tensor([0, 0, 1, 1, 2, 2])
    >>> blocks[block_order(blocks, 1, torch.Generator().manual_seed(0))].tolist()
    [2, 2, 0, 0, 1, 1]
    """
    present = torch.bincount(blocks).nonzero().squeeze(-1)
    buffer = torch.zeros(int(present[-1]) + 1, dtype=torch.int32)  # small numbers: there may be billions of rows
    buffer[present[torch.randperm(len(present), generator=generator)]] = torch.arange(len(present)).int() // at_once
    shuffled = torch.randperm(len(blocks), generator=generator)
    ordered, place = torch.empty_like(shuffled), _first_places(buffer, blocks)
    for some in shuffled.split(RANKED_AT_ONCE):  # a stable sort by buffer, without keys and places of all rows
        own = buffer[blocks[some]].long()
        ordered[place[own] + rank_in_class(own)] = some
        place += torch.bincount(own, minlength=len(place))
    return ordered


def _first_places(buffer: Tensor, blocks: Tensor) -> Tensor:
    """Return where the rows of each buffer begin if they are sorted by it."""
    sizes = torch.zeros(int(buffer.max()) + 1, dtype=torch.long)
    sizes.index_add_(0, buffer.long(), torch.bincount(blocks, minlength=len(buffer)))
    return sizes.cumsum(0) - sizes


def random_order(samples: int, seed: int) -> NDArray[np.intp]:
    """Return all rows in an order drawn from the seed, the same on every machine."""
    order: NDArray[np.intp] = torch.randperm(samples, generator=torch.Generator().manual_seed(seed)).numpy()
    return order
