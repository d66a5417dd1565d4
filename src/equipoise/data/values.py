"""The values of one column as numbers, as days, or as words."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

ISO_DATE = r"\d{4}-\d{2}-\d{2}(?:[T ].*)?"
SECONDS_A_DAY = 86_400


def as_numbers(values: Any) -> NDArray[np.float64] | None:
    """Numbers with NaN for what is missing, infinite or beyond float32; None if a value is no number."""
    kind = values.dtype
    if isinstance(kind, pd.CategoricalDtype):
        values, kind = values.astype(kind.categories.dtype), kind.categories.dtype
    if pd.api.types.is_datetime64_any_dtype(kind) or pd.api.types.is_complex_dtype(kind):
        return None
    if pd.api.types.is_timedelta64_dtype(kind):
        values = values.dt.total_seconds() / SECONDS_A_DAY
    elif not pd.api.types.is_numeric_dtype(kind):  # text or objects
        known = values[values.notna()]
        found = pd.to_numeric(known, errors="coerce")
        if found.isna().any() and not (as_words(known[found.isna()]).str.lower() == "nan").all():
            return None
        values = found.reindex(values.index)
    numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    wild = np.abs(numbers) > np.finfo(np.float32).max
    return np.where(wild, np.nan, numbers) if wild.any() else numbers


def looks_like_dates(values: Any) -> bool:
    """Whether a column holds dates: as such, or as text in ISO's form, year first."""
    if pd.api.types.is_datetime64_any_dtype(values.dtype):
        return True
    words = as_words(values[values.notna()])
    if not words.str.fullmatch(ISO_DATE).all():
        return False
    return not np.isnan(as_days(words)).any()


def as_days(values: Any) -> NDArray[np.float64]:
    """Days since 1970-01-01, in UTC; NaN for what is missing or no date."""
    dates = values
    if not pd.api.types.is_datetime64_any_dtype(values.dtype):
        dates = pd.to_datetime(as_words(values), format="ISO8601", errors="coerce", utc=True)
    if dates.dt.tz is not None:
        dates = dates.dt.tz_convert("UTC").dt.tz_localize(None)
    moments = dates.to_numpy().astype("datetime64[us]")  # nanoseconds would end in 2262
    return np.asarray((moments - np.datetime64(0, "us")) / np.timedelta64(1, "D"), dtype=np.float64)


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
