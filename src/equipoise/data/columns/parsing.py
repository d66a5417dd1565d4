"""Parsing of column values as numbers, days since 1970 or words, however people wrote them."""

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.data.columns.notation import AMOUNTS, DATES, DAY_FIRST, MONTH_FIRST, NUMBERS, PLAIN, all_plain, plain
from equipoise.data.columns.number_range import LARGEST_FLOAT32, largest, median, span
from equipoise.data.columns.texts import as_words, is_text, repeated
from equipoise.wording import is_numeric_text

FIRST_TRIED: tuple[tuple[str, str], ...] = (("number", PLAIN),)
TRIED: tuple[tuple[str, str], ...] = (
    ("date", PLAIN),
    *(("number", notation) for notation in NUMBERS),
    *(("date", notation) for notation in DATES),
)
LAST_TRIED: tuple[tuple[str, str], ...] = tuple(("number", notation) for notation in AMOUNTS)
"""Notations tried last because they are the slowest to read."""
ISO_DATE = r"\d{4}-\d{2}-\d{2}(?:[T ].*)?"
ENOUGH_VALUES, ENOUGH_SHARE = 20, 0.99  # with this many values and this share of numbers, the rest are typos
MOST_WORDS, LEAST_NUMBERS = 3, 3  # most words among numbers, such as refused; fewest distinct numbers beside them
LOOKED_AT, AT_ONCE = 1000, 100_000
FEW, HOPELESS = 50, 0.95  # values that tell first whether a notation is worth trying
SECONDS_A_DAY = 86_400

Read = tuple[NDArray[np.floating[Any]], NDArray[np.bool_]]  # (rows,) each: the numbers, and a mask of unreadable values


@dataclass(frozen=True)
class Parsed:
    """A column as numbers or dates."""

    kind: str
    notation: str
    numbers: NDArray[np.floating[Any]]  # (rows,), NaN if missing
    unread: NDArray[np.bool_]  # (rows,), unreadable values
    words: tuple[str, ...] = ()  # deliberate answers among the numbers, such as refused

    @cached_property
    def known(self) -> NDArray[np.floating[Any]]:
        """The numbers that count as measurements: neither missing nor absurdly far from the others."""
        gone = np.isnan(self.numbers)
        known = self.numbers[~gone] if gone.any() else self.numbers
        if len(known) and max(map(abs, span(known))) > LARGEST_FLOAT32:
            known = known[np.abs(known) <= largest(median(known))]
        return known


def parse(values: Any) -> Parsed | None:
    """Find the kind and notation that read all values, or 99 % of at least twenty (the rest are typos); else None.

    Each distinct text is read once. A date is read only where day and month cannot be confused anywhere in the
    column. Where numbers begin with a zero, as 007, a word among them shows that they are names. Up to three words
    that recur, such as refused, may make up half of a column of numbers; they are its ``words``.
    """
    if isinstance(values.dtype, np.dtype) and values.dtype.kind in "biuf":
        return Parsed("number", PLAIN, *_as_numbers(values, PLAIN))
    texts = repeated(values)
    if texts is None:
        return _parse_each(values, values.notna().to_numpy().astype(np.intp))
    found = _parse_each(texts.values, texts.counts)
    if found is None:
        return None
    return replace(found, numbers=texts.spread(found.numbers, np.nan), unread=texts.spread(found.unread, False))


def _parse_each(values: Any, counts: NDArray[np.intp]) -> Parsed | None:
    """Parse distinct values, each with the number of its rows, (values,)."""
    known = np.flatnonzero(values.notna().to_numpy())
    some = known[:: max(1, len(known) // LOOKED_AT)]  # try each notation on a few values of a long column first
    sample, few, found = values.iloc[some], values.iloc[some[:: -(-len(some) // FEW)]], list[Parsed]()
    for notations in (FIRST_TRIED, TRIED, LAST_TRIED):
        likely = [tried for tried in notations if _share_unlike(few, *tried) < HOPELESS]
        likely = [tried for tried in likely if np.average(_parsed(sample, *tried).unread, weights=counts[some]) <= 0.5]
        found += [_parsed(values, *tried) for tried in likely]
        if any(not parsed.unread.any() for parsed in found):
            break
    if not found:
        return None
    left = {parsed.notation: int(counts[parsed.unread].sum()) for parsed in found if parsed.notation}
    best = min(found, key=lambda parsed: int(counts[parsed.unread].sum()))
    if best.notation in (DAY_FIRST, MONTH_FIRST) and left.get(DAY_FIRST) == left.get(MONTH_FIRST):
        return None
    return best if _tolerable(best, values, counts) else _with_words(best, values, counts)


def _share_unlike(few: Any, kind: str, notation: str) -> float:
    """Return the share of a few values that cannot be of a notation."""
    if not is_text(few):
        return float(_parsed(few, kind, notation).unread.mean())
    if notation != PLAIN:
        return float(np.mean([plain(text, notation) is None for text in few]))
    like = is_numeric_text if kind == "number" else re.compile(rf"\s*{ISO_DATE}").fullmatch
    return float(np.mean([not like(text) for text in few]))


def parse_fully(values: Any, kind: str) -> Parsed:
    """Read a column as a kind that the user chose, in the notation that reads most; other values count as unread."""
    notations = [PLAIN, *(notation for tried, notation in (*TRIED, *LAST_TRIED) if tried == kind and notation != PLAIN)]
    return min((_parsed(values, kind, notation) for notation in notations), key=lambda parsed: int(parsed.unread.sum()))


def parse_as(values: Any, kind: str, notation: str) -> Read:
    """Read values as numbers, or as days since 1970, and mark those that could not be read."""
    texts = repeated(values)
    if texts is not None and len(texts.values) < len(values):
        numbers, unread = _read(texts.values, kind, notation)
        return texts.spread(numbers, np.nan), texts.spread(unread, False)
    return _read(values, kind, notation)


def _read(values: Any, kind: str, notation: str) -> Read:
    """Read every value; texts in chunks, because as objects they take many times the memory."""
    read = _as_days if kind == "date" else _as_numbers
    if len(values) <= AT_ONCE or not is_text(values):
        return read(values, notation)
    starts = range(0, len(values), AT_ONCE)
    numbers, unread = zip(*(read(values.iloc[start : start + AT_ONCE], notation) for start in starts), strict=True)
    return np.concatenate(numbers), np.concatenate(unread)


def _parsed(values: Any, kind: str, notation: str) -> Parsed:
    return Parsed(kind, notation, *_read(values, kind, notation))


def _with_words(parsed: Parsed, values: Any, counts: NDArray[np.intp]) -> Parsed | None:
    """Return numbers with the few words that recur among them; None for other columns."""
    if parsed.kind != "number" or counts.sum() < ENOUGH_VALUES or counts[parsed.unread].sum() > counts.sum() / 2:
        return None
    words: dict[str, int] = {}
    for word, count in zip(as_words(values[parsed.unread]), counts[parsed.unread].tolist(), strict=True):
        words[word] = words.get(word, 0) + count
    known = values.notna().to_numpy() & ~parsed.unread
    if len(words) > MOST_WORDS or min(words.values()) < 2 or any(sign.isdigit() for word in words for sign in word):
        return None
    if len(np.unique(parsed.numbers[known])) < LEAST_NUMBERS or _has_leading_zeros(values[known]):
        return None
    return replace(parsed, unread=np.zeros_like(parsed.unread), words=tuple(sorted(words)))


def _has_leading_zeros(values: Any) -> bool:
    """Return whether numbers are written like names: 007."""
    return bool(as_words(values).str.fullmatch(r"[+-]?0\d+").any())


def _tolerable(parsed: Parsed, values: Any, counts: NDArray[np.intp]) -> bool:
    if not parsed.unread.any():
        return True
    if counts.sum() < ENOUGH_VALUES or counts[parsed.unread].sum() > (1 - ENOUGH_SHARE) * counts.sum() + 1e-9:
        return False
    return not _has_leading_zeros(values[values.notna().to_numpy() & ~parsed.unread])


def _as_numbers(values: Any, notation: str) -> Read:
    """Return numbers, with NaN if missing, infinite or not a number, and a mask of the values that are not numbers."""
    kind = values.dtype
    if isinstance(kind, pd.CategoricalDtype):
        values, kind = values.astype(kind.categories.dtype), kind.categories.dtype
    if pd.api.types.is_datetime64_any_dtype(kind) or pd.api.types.is_complex_dtype(kind):
        return np.full(len(values), np.nan), values.notna().to_numpy()
    unread = np.zeros(len(values), dtype=bool)
    if pd.api.types.is_timedelta64_dtype(kind):
        values = values.dt.total_seconds() / SECONDS_A_DAY
    elif not pd.api.types.is_numeric_dtype(kind):  # text or objects
        values, unread = _as_plain_numbers(values, notation)
    single = values.dtype == np.float32
    numbers = values.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)
    if np.isinf(span(numbers)).any():
        numbers = np.where(np.isinf(numbers), np.nan, numbers)
    return numbers, unread


def _as_plain_numbers(values: Any, notation: str) -> tuple[Any, NDArray[np.bool_]]:
    """Return a column of text or objects as numbers, and a mask of the values that are not."""
    unread, present = np.zeros(len(values), dtype=bool), values.notna().to_numpy()
    plain_texts = all_plain(values, notation)
    found = _by_arrow(plain_texts, "float64")
    if found is not None and not (np.isnan(found) & present).any():
        return pd.Series(found, index=values.index), unread
    known = values[present]
    found = pd.to_numeric(plain_texts[present], errors="coerce")
    lost = found.isna().to_numpy()
    if notation == PLAIN and lost.any():  # there are more kinds of space than the parser knows
        found[lost] = pd.to_numeric(as_words(known[lost]).str.strip(), errors="coerce")
        lost = found.isna().to_numpy()
    unread[np.flatnonzero(present)[lost]] = as_words(known[lost]).str.lower().to_numpy(dtype=object) != "nan"
    return found.reindex(values.index), unread


def _as_days(values: Any, notation: str) -> Read:
    """Return days since 1970-01-01 in UTC, with NaN if missing or not a date, and a mask of the values that are not."""
    shaped, moments = np.ones(len(values), dtype=bool), None
    if not pd.api.types.is_datetime64_any_dtype(values.dtype):
        moments = _by_arrow(values, "datetime64[us]") if notation == PLAIN else None
    if moments is None:
        dates = values
        if not pd.api.types.is_datetime64_any_dtype(values.dtype):
            words = as_words(values).astype("str")
            if notation == PLAIN:  # 2020 alone is a number
                shaped = words.str.fullmatch(ISO_DATE, na=False).to_numpy(dtype=bool)
            dates = pd.to_datetime(all_plain(words, notation), format="ISO8601", errors="coerce", utc=True)
        if dates.dt.tz is not None:
            dates = dates.dt.tz_convert("UTC").dt.tz_localize(None)
        moments = dates.to_numpy().astype("datetime64[us]")  # nanoseconds would end in 2262
    days = np.asarray((moments - np.datetime64(0, "us")) / np.timedelta64(1, "D"), dtype=np.float64)
    days[~shaped] = np.nan
    return days, np.isnan(days) & values.notna().to_numpy()


def _by_arrow(texts: Any, kind: Literal["float64", "datetime64[us]"]) -> NDArray[Any] | None:
    """Return texts as numbers or moments in a tenth of pandas' time; None where Arrow does not hold or read them."""
    if getattr(texts.dtype, "storage", "") != "pyarrow":
        return None
    import pyarrow as pa

    wanted = pa.float64() if kind == "float64" else pa.timestamp("us")
    try:
        return np.asarray(pa.array(texts).cast(wanted), dtype=kind)
    except pa.ArrowInvalid:
        return None
