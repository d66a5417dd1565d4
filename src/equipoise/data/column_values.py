"""The values of one column as numbers, as days, or as words."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.data.number_formats import PLAIN, plain

SECONDS_A_DAY = 86_400
SMALLEST_FLOAT32 = 2.0**-100
"""Smaller values come near to the end of float32's range, where it has fewer digits."""
FARTHEST = 256
"""Distance from zero, in spreads of a column, up to which float32 keeps 16 bits of the spread."""
SAMPLED = 4096

Read = tuple[NDArray[np.float64], NDArray[np.bool_]]  # (rows,) each: the numbers, and which values could not be read


def as_numbers(values: Any, form: str = PLAIN) -> Read:
    """Numbers with NaN for what is missing, infinite or no number; and what is no number."""
    kind = values.dtype
    if isinstance(kind, pd.CategoricalDtype):
        values, kind = values.astype(kind.categories.dtype), kind.categories.dtype
    if pd.api.types.is_datetime64_any_dtype(kind) or pd.api.types.is_complex_dtype(kind):
        return np.full(len(values), np.nan), values.notna().to_numpy()
    unread = np.zeros(len(values), dtype=bool)
    if pd.api.types.is_timedelta64_dtype(kind):
        values = values.dt.total_seconds() / SECONDS_A_DAY
    elif not pd.api.types.is_numeric_dtype(kind):  # text or objects
        present = values.notna().to_numpy()
        known = values[present]
        found = pd.to_numeric(_plain(known, form), errors="coerce")
        lost = found.isna().to_numpy()
        if form == PLAIN and lost.any():  # there are more kinds of space than the parser knows
            found[lost] = pd.to_numeric(as_words(known[lost]).str.strip(), errors="coerce")
            lost = found.isna().to_numpy()
        unread[np.flatnonzero(present)[lost]] = as_words(known[lost]).str.lower().to_numpy(dtype=object) != "nan"
        values = found.reindex(values.index)
    numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    infinite = np.isinf(numbers)
    return (np.where(infinite, np.nan, numbers) if infinite.any() else numbers), unread


def fits_float32(numbers: NDArray[np.float64]) -> bool:
    """Tell whether float32 keeps the differences within a column, as far as a network can use them.

    It does not where the values lie out of its range, or so far from zero that rounding blurs their spread; zeros and
    missing values are left out of account.

    >>> fits_float32(np.array([0.1, 1e6, np.nan])), fits_float32(np.array([1.7e12, 1.7e12 + 1e4]))
    (True, False)
    """
    known = numbers[np.isfinite(numbers) & (numbers != 0)]
    if len(known) == 0:
        return True
    if not SMALLEST_FLOAT32 <= np.abs(known).max() <= np.finfo(np.float32).max:
        return False
    some = known[:: -(-len(known) // SAMPLED)]
    if bool((some.astype(np.float32) == some).all()):
        return True
    centre = np.median(some)
    return bool(np.abs(centre) <= FARTHEST * np.median(np.abs(some - centre)))


def as_days(values: Any, form: str = PLAIN) -> Read:
    """Days since 1970-01-01, in UTC, with NaN for what is missing or no date; and what is no date."""
    dates = values
    if not pd.api.types.is_datetime64_any_dtype(values.dtype):
        words = _plain(as_words(values), form)
        dates = pd.to_datetime(words, format="ISO8601", errors="coerce", utc=True)
    if dates.dt.tz is not None:
        dates = dates.dt.tz_convert("UTC").dt.tz_localize(None)
    moments = dates.to_numpy().astype("datetime64[us]")  # nanoseconds would end in 2262
    days = np.asarray((moments - np.datetime64(0, "us")) / np.timedelta64(1, "D"), dtype=np.float64)
    return days, np.isnan(days) & values.notna().to_numpy()


def _plain(values: Any, form: str) -> Any:
    return values if form == PLAIN else values.astype(object).map(lambda value: plain(value, form)).astype(object)


def relabelled(frame: Any, names: list[str]) -> Any:
    """Name the columns and count the rows from 0, sharing all values, which set_axis and reset_index copy in pandas 2.

    >>> relabelled(pd.DataFrame({1: [3.0, 4.0]}, index=[7, 9]), ["1"]).to_dict()
    {'1': {0: 3.0, 1: 4.0}}
    """
    shared = frame.copy(deep=False)
    shared.columns, shared.index = pd.Index(names), pd.RangeIndex(len(frame))
    return shared


def without_blanks(values: Any) -> Any:
    """The same column, its empty texts missing."""
    if not (pd.api.types.is_object_dtype(values.dtype) or pd.api.types.is_string_dtype(values.dtype)):
        return values
    blank = values.map(lambda value: isinstance(value, str) and not value.strip()).to_numpy(dtype=bool)
    return values.mask(blank) if blank.any() else values


def as_words(values: Any) -> Any:
    """Text without spaces around it, missing where the value is missing; a whole number has no decimals."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype(values.cat.categories.dtype)
    return values.astype(object).map(_word).where(values.notna(), None).astype(object)


def _word(value: Any) -> str:
    if isinstance(value, float | np.floating) and value == np.floor(value) and np.isfinite(value):
        return str(int(value))
    return str(value).strip()
