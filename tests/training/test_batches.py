"""The order of an epoch is a function of seed and epoch; samples on disk stay there."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import InvalidInputError
from equipoise.training import ArrayData, EpochBatches
from equipoise.training.batches import capped_sample
from equipoise.training.epoch_order import block_order

Y = torch.tensor([0] * 60 + [1] * 30 + [2] * 10)


def batches_of(y=Y, size=16, *, seed=0, epoch=0, start=0, order="shuffled") -> list[list[int]]:
    batches = EpochBatches(y, size, seed=seed, order=order)
    batches.epoch, batches.start = epoch, start
    return list(batches)


@pytest.mark.parametrize("order", ["shuffled", "balanced"])
def test_the_order_is_a_function_of_seed_and_epoch(order):
    torch.manual_seed(1)
    first = batches_of(seed=3, epoch=2, order=order)
    torch.manual_seed(2)
    assert batches_of(seed=3, epoch=2, order=order) == first
    assert batches_of(seed=3, epoch=1, order=order) != first
    assert batches_of(seed=4, epoch=2, order=order) != first


def test_drawing_an_order_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    batches_of(order="balanced")
    capped_sample(Y, 5, seed=0)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("order", ["shuffled", "balanced"])
@pytest.mark.parametrize("start", [0, 1, 5, 6, 7])
def test_start_skips_exactly_so_many_batches(order, start):
    assert batches_of(order=order, start=start) == batches_of(order=order)[start:]


@pytest.mark.parametrize("order", ["shuffled", "balanced"])
@pytest.mark.parametrize("size", [3, 10])
def test_epochs_of_some_batches_go_on_where_the_last_one_stopped(order, size):
    """Seven batches a visit, fewer or more an epoch: epochs in a row are visits in a row."""
    parts = EpochBatches(Y, 16, seed=5, order=order, batches=size)
    found = []
    for epoch in range(7):
        parts.epoch, parts.start = epoch, 0
        assert len(parts) == parts.batches_in(epoch) == size
        own = list(parts)
        parts.start = 2
        assert list(parts) == own[2:]
        found += own
    assert found == [batch for visit in range(size) for batch in batches_of(seed=5, epoch=visit, order=order)]


def test_samples_held_back_take_part_from_their_epoch_on_in_epochs_of_a_part():
    held_back = torch.tensor([3, 50, 95])
    parts = EpochBatches(Y, 10, seed=5, held_back=held_back, rejoin_epoch=5, batches=4)
    seen: list[set[int]] = []
    for epoch in range(10):
        parts.epoch = epoch
        seen.append({row for batch in parts for row in batch})
    assert not set.union(*seen[:5]) & set(held_back.tolist())
    assert set.union(*seen[5:8]) == set(range(100))  # ten batches, and two of the next visit


def test_shuffled_visits_every_sample_once():
    assert sorted(row for batch in batches_of() for row in batch) == list(range(100))
    assert [len(batch) for batch in batches_of()] == [16] * 6 + [4]


@pytest.mark.parametrize(("samples", "sizes"), [(17, [16]), (33, [16, 16]), (18, [16, 2]), (1, [1]), (16, [16])])
def test_a_last_batch_of_one_is_left_out_unless_it_is_all_there_is(samples, sizes):
    y = torch.zeros(samples, dtype=torch.long)
    assert [len(batch) for batch in batches_of(y)] == sizes
    assert len(EpochBatches(y, 16, seed=0)) == len(sizes)


def test_balanced_draws_every_class_equally_often():
    rows = torch.tensor(
        [row for epoch in range(60) for batch in batches_of(epoch=epoch, order="balanced") for row in batch]
    )
    counts = torch.bincount(Y[rows]).double()
    expected = len(rows) / 3
    assert (counts - expected).abs().max() < 4 * (expected * 2 / 3) ** 0.5  # four standard deviations
    within = torch.bincount(rows, minlength=100)[90:].double()  # the rare class's own samples alike
    assert (within - expected / 10).abs().max() < 4 * (expected / 10) ** 0.5


def test_an_unknown_order_is_refused():
    with pytest.raises(InvalidInputError, match="order must be 'shuffled' or 'balanced', got 'random'"):
        EpochBatches(Y, 16, seed=0, order="random")


@pytest.mark.parametrize("at_once", [1, 7, 1000])
def test_blocks_are_shuffled_and_then_sorted_by_their_buffer(monkeypatch, at_once):
    blocks = torch.randint(12, (90,), generator=torch.Generator().manual_seed(1), dtype=torch.int32)
    blocks[blocks == 5] = 4  # a block without rows
    generator = torch.Generator().manual_seed(2)
    present = blocks.unique().long()
    turn = dict(zip(present[torch.randperm(len(present), generator=generator)].tolist(), range(12), strict=False))
    shuffled = torch.randperm(90, generator=generator).tolist()
    expected = sorted(shuffled, key=lambda row: turn[int(blocks[row])] // 3)
    monkeypatch.setattr("equipoise.training.epoch_order.RANKED_AT_ONCE", at_once)
    assert block_order(blocks, 3, torch.Generator().manual_seed(2)).tolist() == expected


def test_several_labels_have_no_balanced_order():
    with pytest.raises(InvalidInputError, match="a balanced order needs one label per sample"):
        EpochBatches(torch.zeros(10, 3), 16, seed=0, order="balanced")


@given(st.lists(st.integers(0, 6), min_size=1, max_size=80), st.integers(1, 20), st.integers(0, 1000))
def test_a_capped_sample_stands_for_every_row(labels, cap, seed):
    y = torch.tensor(labels)
    rows, weight = capped_sample(y, cap, seed=seed)
    assert len(set(rows.tolist())) == len(rows)
    assert rows.tolist() == sorted(rows.tolist())
    counts = torch.bincount(y)
    assert torch.equal(torch.bincount(y[rows], minlength=len(counts)), counts.clamp(max=cap))
    stands_for = torch.zeros(len(counts), dtype=torch.float64).index_add(0, y[rows], weight)
    torch.testing.assert_close(stands_for, counts.double())


@pytest.mark.parametrize("at_once", [1, 9, 1000])
def test_a_capped_sample_holds_the_first_rows_of_each_class_in_a_drawn_order(monkeypatch, at_once):
    monkeypatch.setattr("equipoise.training.batches.RANKED_AT_ONCE", at_once)
    order = torch.randperm(len(Y), generator=torch.Generator().manual_seed(3)).tolist()
    first = [row for own in range(3) for row in [row for row in order if Y[row] == own][:12]]
    assert capped_sample(Y, 12, seed=3)[0].tolist() == sorted(first)


def test_a_capped_sample_draws_every_row_alike():
    y = torch.tensor([0] * 12 + [1] * 3)
    drawn = torch.zeros(15)
    for seed in range(600):
        drawn[capped_sample(y, 4, seed=seed)[0]] += 1
    assert (drawn[:12] - 200).abs().max() < 4 * (600 * (1 / 3) * (2 / 3)) ** 0.5
    assert (drawn[12:] == 600).all()


def test_a_capped_sample_of_several_labels_weighs_all_alike():
    y = torch.zeros(100, 3, dtype=torch.long)
    rows, weight = capped_sample(y, 10, seed=0)
    assert len(rows) == 30
    assert weight.sum() == pytest.approx(100)
    assert len(capped_sample(y, 1000, seed=0)[0]) == 100


def numbered(samples=10, *, weight=None) -> ArrayData:
    return ArrayData(torch.arange(samples * 2.0).view(-1, 2), torch.arange(samples), weight)


def test_rows_come_as_whole_batches_or_one_by_one():
    data = numbered(weight=torch.arange(10.0) / 10)
    x, y, weight = data.__getitems__([3, 1])
    assert x.tolist() == [[6, 7], [2, 3]]
    assert y.tolist() == [3, 1]
    torch.testing.assert_close(weight, torch.tensor([0.3, 0.1]))
    assert [part.tolist() for part in numbered()[4]] == [[8, 9], 4]


def test_a_subset_of_a_subset_is_its_own_rows():
    data = numbered(weight=torch.arange(10.0))
    part = data.subset(torch.tensor([9, 7, 5, 3])).subset(torch.tensor([2, 0]))
    x, y, weight = part.__getitems__([0, 1])
    assert len(part) == 2
    assert x[:, 0].tolist() == [10, 18]
    assert y.tolist() == weight.tolist() == [5, 9]
    assert part.x is data.x
    assert len(data) == 10


def test_samples_on_disk_stay_on_disk(tmp_path):
    on_disk = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float32, shape=(10, 2))
    on_disk[:] = np.arange(20).reshape(10, 2)
    on_disk.flush()
    opened = np.load(tmp_path / "x.npy", mmap_mode="r")
    data = ArrayData(opened, torch.arange(10)).subset(torch.tensor([8, 6, 4]))
    assert isinstance(data.x, np.memmap)
    assert data.x is opened
    x, y = data.__getitems__([2, 0])
    assert x.tolist() == [[8, 9], [16, 17]]
    assert y.tolist() == [4, 8]
    x += 1  # a batch is the network's own to change
    assert opened[4].tolist() == [8, 9]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (torch.zeros(3, 2), torch.zeros(4, dtype=torch.long)),
            "the same number of rows, at least one, got 3 and 4",
        ),
        ((torch.zeros(0, 2), torch.zeros(0, dtype=torch.long)), "at least one, got 0 and 0"),
        ((torch.zeros(3, 2), torch.zeros(3)), "y must hold whole class numbers, .* got torch.float32 of shape"),
        ((torch.zeros(3, 2), torch.zeros(3, dtype=torch.long), torch.ones(2)), r"weight must have the shape \(3,\)"),
    ],
)
def test_rows_that_do_not_match_are_refused(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        ArrayData(*arguments)


def test_arrays_of_numpy_are_taken_as_they_come():
    data = ArrayData(np.zeros((4, 2)), np.array([0, 1, 1, 0], dtype=np.uint8), np.ones(4))
    assert data.y.dtype == torch.long
    assert [tuple(part.shape) for part in data.__getitems__([0, 2])] == [(2, 2), (2,), (2,)]


@pytest.mark.nightly
def test_a_balanced_order_of_more_rows_than_a_multinomial_takes():
    y = torch.zeros(2**24 + 2, dtype=torch.uint8)
    y[-1] = 1
    batches = EpochBatches(y.long(), 2**16, seed=0, order="balanced")
    first = torch.tensor(next(iter(batches)))
    assert float(y[first].double().mean()) == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("order", ["shuffled", "balanced"])
def test_rows_held_back_take_no_part_until_they_rejoin(order):
    y, held = torch.arange(100) % 4, torch.arange(0, 100, 7)
    batches = EpochBatches(y, 16, seed=0, order=order, held_back=held, rejoin_epoch=2)
    for epoch in range(4):
        batches.epoch = epoch
        rows = [row for batch in batches for row in batch]
        assert len(list(batches)) == len(batches) == batches.batches_in(epoch) == (6 if epoch < 2 else 7)
        seen = set(rows) & set(held.tolist())
        assert bool(seen) == (epoch >= 2)
        if order == "shuffled":
            assert len(rows) == len(set(rows)) == (85 if epoch < 2 else 100)


def test_an_epoch_that_holds_nothing_back_is_in_the_order_it_always_was():
    y = torch.arange(50) % 5
    plain, held = EpochBatches(y, 8, seed=3), EpochBatches(y, 8, seed=3, held_back=torch.arange(9), rejoin_epoch=1)
    plain.epoch = held.epoch = 1
    assert list(plain) == list(held)


@pytest.mark.parametrize("size", [16, 31])
def test_processes_share_each_batch_evenly_whatever_its_size(size):
    y = torch.arange(103) % 2
    whole = EpochBatches(y, size, seed=5)
    parts = [EpochBatches(y, size, seed=5, process=process, processes=3) for process in range(3)]
    for step, (batch, *own) in enumerate(zip(whole, *parts, strict=True)):
        assert [row for part in own for row in part] == batch, "each row once, in the order of one process"
        assert max(map(len, own)) - min(map(len, own)) <= 1
        shares = [part.share(step) for part in parts]
        assert shares == pytest.approx([3 * len(each) / len(batch) for each in own])
        assert sum(shares) == pytest.approx(3)


def test_a_batch_too_small_to_be_split_is_taken_by_all():
    y = torch.arange(21) % 2
    parts = [EpochBatches(y, 16, seed=5, process=process, processes=3) for process in range(3)]
    last = [list(part)[-1] for part in parts]
    assert len(last[0]) == 5
    assert last == [last[0]] * 3
    assert [part.share(1) for part in parts] == [1.0] * 3


BLOCKS = torch.arange(97) // 10


def test_blocks_are_visited_in_a_drawn_order_and_rows_shuffled_within_some_of_them():
    batches = EpochBatches(torch.arange(97) % 2, 7, seed=5, blocks=BLOCKS, blocks_at_once=3)
    rows = torch.tensor([row for batch in batches for row in batch])
    assert sorted(rows.tolist()) == list(range(97))
    seen = list(dict.fromkeys(BLOCKS[rows].tolist()))
    assert seen != sorted(seen)
    buffers = [set(seen[start : start + 3]) for start in range(0, 10, 3)]
    places = [next(place for place, buffer in enumerate(buffers) if block in buffer) for block in BLOCKS[rows].tolist()]
    assert places == sorted(places), "a buffer is finished before the next begins"
    assert rows[:10].tolist() != sorted(rows[:10].tolist())
    batches.epoch = 1
    assert [row for batch in batches for row in batch] != rows.tolist()


def test_each_process_reads_the_blocks_of_its_own_share():
    y, blocks = torch.arange(960) % 2, torch.arange(960) // 10
    parts = [
        EpochBatches(y, 16, seed=5, process=process, processes=4, blocks=blocks, blocks_at_once=2)
        for process in range(4)
    ]
    rows = [[row for batch in part for row in batch] for part in parts]
    assert sorted(row for own in rows for row in own) == list(range(960))
    shared = [len(set(blocks[own].tolist())) for own in rows]
    assert max(shared) <= 24 + 4, "of 96 blocks, and the ends of its stretch"


def test_what_draws_from_all_rows_is_refused_for_blocks():
    with pytest.raises(InvalidInputError, match="a balanced order draws from all rows at once; read the table into"):
        EpochBatches(torch.arange(97) % 2, 7, seed=5, order="balanced", blocks=BLOCKS)
