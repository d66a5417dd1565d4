"""What is chosen from the size of the data, and the order of samples."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import InvalidInputError
from equipoise.training import settings
from equipoise.training.epoch_order import random_order
from equipoise.training.settings import choose_batch_size, choose_length, choose_width, suitable_threads


@given(st.integers(1, 300), st.integers(0, 100))
def test_an_order_has_every_row_once_and_comes_from_its_seed(samples, seed):
    state = torch.get_rng_state()
    order = random_order(samples, seed)
    assert sorted(order.tolist()) == list(range(samples))
    assert order.tolist() == random_order(samples, seed).tolist()
    assert torch.equal(torch.get_rng_state(), state)


def test_another_seed_gives_another_order():
    assert random_order(50, 0).tolist() != random_order(50, 1).tolist()


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
    steps, visits = length.epochs * length.epoch_batches, settings.DATA_PASSES * math.ceil(samples / batch_size)
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
