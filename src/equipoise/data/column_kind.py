"""Whether a column holds numbers or dates, and in which form, when not every value need be one."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.data.column_values import Read, as_days, as_numbers, as_words
from equipoise.data.number_formats import DATES, DAY_FIRST, MONTH_FIRST, NUMBERS, PLAIN

Kind = Literal["number", "date", "category"]
ENOUGH_VALUES, ENOUGH_SHARE = 20, 0.99  # so many, and of them so many must be numbers, for the rest to be mistakes
ISO_DATE = r"\d{4}-\d{2}-\d{2}(?:[T ].*)?"
LOOKED_AT = 1000
READINGS: tuple[tuple[Kind, str], ...] = (
    ("date", PLAIN),
    *(("number", form) for form in NUMBERS),
    *(("date", form) for form in DATES),
)


@dataclass(frozen=True)
class Reading:
    """A column read as numbers or as dates."""

    kind: Kind
    form: str
    numbers: NDArray[np.float64]  # (rows,), NaN where there is none
    unread: NDArray[np.bool_]  # (rows,), values that are none


def read_values(values: Any, kind: Kind, form: str) -> Read:
    """Numbers, or days, and which values could not be read."""
    return as_days(values, form) if kind == "date" else as_numbers(values, form)


def find_reading(values: Any) -> Reading | None:
    """The kind and form that read every value; or all but 1 % of at least twenty, for those are mistakes; or None.

    A date is read only where day and month cannot be taken for one another in the whole column. Where numbers begin
    with a zero, as 007, a word among them says that they are names.
    """
    first = _read(values, "number", PLAIN)
    if not first.unread.any():
        return first
    known = values[values.notna()]
    sample = known.iloc[:: max(1, len(known) // LOOKED_AT)]  # a long column is not to be read in every form
    likely = [reading for reading in READINGS if _read(sample, *reading).unread.mean() <= 0.5]
    tried = [first, *(_read(values, *reading) for reading in likely)]
    left = {reading.form: int(reading.unread.sum()) for reading in tried if reading.form}
    best = min(tried, key=lambda reading: int(reading.unread.sum()))
    if best.form in (DAY_FIRST, MONTH_FIRST) and left.get(DAY_FIRST) == left.get(MONTH_FIRST):
        return None
    return best if _tolerable(best, values) else None


def _read(values: Any, kind: Kind, form: str) -> Reading:
    numbers, unread = read_values(values, kind, form)
    if kind == "date" and form == PLAIN and not pd.api.types.is_datetime64_any_dtype(values.dtype):
        shaped = as_words(values).astype("str").str.fullmatch(ISO_DATE).to_numpy(dtype=bool)  # 2020 alone is a number
        unread = (unread | ~shaped) & values.notna().to_numpy()
        numbers = np.where(unread, np.nan, numbers)
    return Reading(kind, form, numbers, unread)


def _tolerable(reading: Reading, values: Any) -> bool:
    if not reading.unread.any():
        return True
    present = values.notna().to_numpy()
    if present.sum() < ENOUGH_VALUES or reading.unread.sum() > (1 - ENOUGH_SHARE) * present.sum() + 1e-9:
        return False
    return not as_words(values[present & ~reading.unread]).str.fullmatch(r"[+-]?0\d+").any()
