"""What is chosen from the size of the data, and which samples are held out."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import InvalidInputError
from equipoise.training import settings
from equipoise.training.settings import choose_batch_size, choose_length, choose_width, hold_out, suitable_threads

labels = st.lists(st.integers(0, 5), min_size=1, max_size=120)
shares = st.floats(0.01, 0.99)


@given(labels, shares, st.integers(0, 2**31))
def test_held_out_rows_are_stratified_disjoint_and_complete(values, share, seed):
    y = torch.tensor(values)
    rows, held = hold_out(y, share, seed=seed)
    assert sorted(rows.tolist() + held.tolist()) == list(range(len(y)))
    counts = torch.bincount(y, minlength=6).tolist()
    kept = torch.bincount(y[rows], minlength=6).tolist()
    given_up = torch.bincount(y[held], minlength=6).tolist()
    for count, stays, goes in zip(counts, kept, given_up, strict=True):
        if count < 3:
            assert goes == 0
        else:
            assert goes >= 1
            assert stays >= 2
            assert goes == min(max(1, round(share * count)), count - 2)


@given(labels, shares, st.integers(0, 100))
def test_the_same_seed_holds_out_the_same_rows(values, share, seed):
    y = torch.tensor(values)
    state = torch.get_rng_state()
    first, second = hold_out(y, share, seed=seed), hold_out(y, share, seed=seed)
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert torch.equal(torch.get_rng_state(), state)


def test_another_seed_holds_out_others():
    y = torch.zeros(50, dtype=torch.long)
    assert not torch.equal(hold_out(y, 0.2, seed=0)[1], hold_out(y, 0.2, seed=1)[1])


def test_nothing_is_held_out_for_a_share_of_nothing():
    rows, held = hold_out(torch.tensor([0, 0, 0, 1, 1, 1]), 0.0, seed=0)
    assert rows.tolist() == list(range(6))
    assert held.tolist() == []


def test_several_labels_are_drawn_alike():
    rows, held = hold_out(torch.zeros(40, 3, dtype=torch.long), 0.25, seed=0)
    assert (len(rows), len(held)) == (30, 10)
    assert sorted(rows.tolist() + held.tolist()) == list(range(40))


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_a_share_out_of_range_is_refused(share):
    with pytest.raises(InvalidInputError, match=r"validation_fraction must lie in \[0, 1\), got"):
        hold_out(torch.zeros(5, dtype=torch.long), share, seed=0)


@given(st.integers(1, 10**8))
def test_choices_stay_in_their_ranges(samples):
    batch_size = choose_batch_size(samples)
    assert batch_size in {32, 64, 128, 256}
    assert choose_width(samples) in {128, 256, 512}
    assert choose_width(samples) <= choose_width(samples + 1)
    assert batch_size <= choose_batch_size(samples + 1)


@given(st.integers(1, 10**9))
def test_the_length_of_training_is_one_of_steps(samples):
    """Small data take enough steps and large data not too many; in between, samples are visited equally often."""
    batch_size = choose_batch_size(samples)
    length = choose_length(samples, batch_size)
    steps, visits = length.epochs * length.epoch_batches, settings.VISITS * math.ceil(samples / batch_size)
    assert settings.LEAST_STEPS <= steps < settings.MOST_STEPS + length.epochs
    if settings.LEAST_STEPS < visits < settings.MOST_STEPS:
        assert visits <= steps < visits + length.epochs


@given(st.integers(1, 10**8), st.sampled_from([32, 64, 256]), st.integers(1, 100))
def test_epochs_that_were_asked_for_visit_all_samples_so_often(samples, batch_size, epochs):
    length = choose_length(samples, batch_size, epochs)
    visit = math.ceil(samples / batch_size)
    if length.epoch_batches is None:
        assert length.epochs == epochs
        assert epochs >= settings.FEWEST_EPOCHS or visit < 2 * settings.LEAST_PART
        return
    assert epochs < settings.FEWEST_EPOCHS
    assert length.epochs % epochs == 0
    assert length.epoch_batches >= settings.LEAST_PART
    assert epochs * visit <= length.epochs * length.epoch_batches < epochs * visit + length.epochs


@pytest.mark.parametrize("epochs", [0, 2.5, "3", True])
def test_epochs_that_are_no_number_of_visits_are_refused(epochs):
    with pytest.raises(InvalidInputError, match="epochs must be a whole number of at least 1, got"):
        choose_length(100, 32, epochs)


def test_small_steps_take_one_thread_and_the_number_comes_back():
    torch.set_num_threads(2)
    try:
        with suitable_threads(1_000, 32):
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
        with suitable_threads(10**8, 256):
            assert torch.get_num_threads() == 2
        with pytest.raises(ZeroDivisionError, match="division"), suitable_threads(1, 1):
            1 / 0  # noqa: B018
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
