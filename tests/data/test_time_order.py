"""Training on the past and testing on the future."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from equipoise.data.time_order import order_note, row_times, split_by_time
from equipoise.errors import InvalidInputError

TIMES = st.lists(st.one_of(st.integers(0, 9), st.just(None)), min_size=2, max_size=60)


@given(TIMES, st.floats(0.05, 0.9))
def test_every_test_row_is_later_than_every_training_row(given_times, share):
    times = np.array([np.nan if each is None else each for each in given_times])
    assume(len(set(given_times)) > 1)
    train, test = split_by_time(times, share)
    assert sorted([*train, *test]) == list(range(len(times)))
    assert len(train) > 0
    assert len(test) > 0
    before = np.where(np.isnan(times), -1, times)
    assert before[train].max() < before[test].min()


def test_about_the_share_asked_for():
    train, test = split_by_time(np.arange(100.0)[::-1], 0.2)
    assert test.tolist() == list(range(20))
    assert len(train) == 80


def test_one_time_for_all_is_refused():
    with pytest.raises(InvalidInputError, match="all rows have the same time"):
        split_by_time(np.ones(5), 0.2)


FRAME = pd.DataFrame(
    {
        "seen": [f"{1 + i % 28:02}.{1 + i // 28:02}.2020" for i in range(56)],
        "mixed": [f"{1 + i * 5 % 28:02}.01.2020" for i in range(56)],
        "town": ["Oslo", "Rome"] * 28,
        "step": range(0, 112, 2),
    }
)


def test_times_are_dates_or_numbers():
    assert (np.diff(row_times(FRAME, "seen")) > 0).all()
    assert row_times(FRAME, "step").tolist() == list(range(0, 112, 2))
    with pytest.raises(InvalidInputError, match="a column of dates or numbers, got 'town', which looks like category"):
        row_times(FRAME, "town")
    with pytest.raises(InvalidInputError, match="'when', which is not a column of the table; there are seen, mixed"):
        row_times(FRAME, "when")


@pytest.mark.parametrize("frame", [FRAME, FRAME[::-1].reset_index(drop=True)])
def test_a_date_that_orders_the_rows_is_found(frame):
    said = "the rows are in the order of 'seen'; --time seen would test on the latest ones."
    assert order_note(frame, ["mixed", "seen"]) == said
    assert order_note(frame, ["mixed"]) is None
    assert order_note(frame.to_numpy(), ["column 1"]) is None


def test_dates_that_cannot_be_ordered_by_are_not_suggested():
    """Day and month cannot be told apart."""
    frame = pd.DataFrame({"when": ["01/02/2020", "03/02/2020", "05/02/2020", "07/03/2020"]})
    with pytest.raises(InvalidInputError, match="a column of dates or numbers, got 'when'"):
        row_times(frame, "when")
    assert order_note(frame, ["when"]) is None
