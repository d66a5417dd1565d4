"""Training on the past and testing on the future: rows ordered by a column of dates or numbers."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.data.columns.chosen_columns import check_time
from equipoise.data.columns.guess_kind import guess_kind
from equipoise.data.columns.parsing import parse
from equipoise.data.columns.texts import without_blanks
from equipoise.data.samples import column_names
from equipoise.errors import InvalidInputError

Rows = NDArray[np.intp]


def row_times(x: Any, name: str) -> NDArray[np.float64]:
    """Return the time of each row, (rows,): days since 1970 or numbers, NaN if unknown."""
    names = column_names(x)
    check_time(name, names)
    guess = guess_kind(x.iloc[:, names.index(name)], name)
    if guess.parsed is None:
        raise InvalidInputError(
            f"--time must name a column of dates or numbers, got {name!r}, which looks like {guess.kind}."
        )
    return np.asarray(guess.parsed.numbers, dtype=np.float64)


def split_by_time(times: NDArray[np.float64], share: float) -> tuple[Rows, Rows]:
    """Return the earlier rows to train on, and about a ``share`` of the latest to test on, both sorted.

    Rows of the same time stay together; rows of unknown time count as the earliest.

    >>> train, test = split_by_time(np.array([3.0, 1.0, 2.0, 3.0, np.nan]), 0.2)
    >>> train.tolist(), test.tolist()
    ([1, 2, 4], [0, 3])
    """
    known = np.where(np.isnan(times), -np.inf, times)
    ordered = np.sort(known)
    wanted = min(len(known) - 1, round(len(known) * (1 - share)))
    starts = np.flatnonzero(ordered[1:] > ordered[:-1]) + 1  # rows where a new time begins
    if len(starts) == 0:
        raise InvalidInputError("all rows have the same time, so there is no later one to test on; leave --time out.")
    first = ordered[starts[np.abs(starts - wanted).argmin()]]
    return np.flatnonzero(known < first), np.flatnonzero(known >= first)


def order_note(x: Any, dates: Iterable[str]) -> str | None:
    """Return a sentence on the first date column that the rows are sorted by, in either direction, or None.

    Args:
        x: a data frame; the columns of an array have no names that --time could take.
        dates: its columns of dates.
    """
    for name in dates if column_names(x) else ():
        found = parse(without_blanks(x[name]))
        if found is None:  # ambiguous dates, which --time refuses
            continue
        steps = np.diff(found.numbers[~np.isnan(found.numbers)])
        if (steps != 0).any() and ((steps >= 0).all() or (steps <= 0).all()):
            return f"the rows are in the order of {name!r}; --time {name} would test on the latest ones."
    return None
