"""Parsing of column values as numbers, days since 1970 or words, however people wrote them."""

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.data.columns.amounts import SIGNS, plain_amount
from equipoise.data.columns.chosen_columns import EncodedKind
from equipoise.data.columns.distinct import distinct, is_packed, is_text, repeated
from equipoise.wording import is_number

PLAIN = ""
THOUSANDS_COMMA, DECIMAL_COMMA = "1,234.5", "1.234,5"
EXPONENT = r"(?:[eE][+-]?\d+)?"
NUMBERS = {
    THOUSANDS_COMMA: re.compile(r"[+-]?(?:\d+|[1-9]\d{0,2}(?:,\d{3})+)(?:\.\d*)?" + EXPONENT),
    DECIMAL_COMMA: re.compile(r"[+-]?(?:\d+|[1-9]\d{0,2}(?:\.\d{3})+)(?:,\d+)?" + EXPONENT),
}
AMOUNTS = {"$1,234.5": THOUSANDS_COMMA, "1.234,5 €": DECIMAL_COMMA}
"""Styles of amounts (currency, percent sign, factor such as k, brackets for minus) -> how the number is written."""
DAY_FIRST, MONTH_FIRST = "day/month/year", "month/day/year"
TIME = r"(?:[T ](?P<hour>\d{1,2})(?P<rest>:\d{2}(?::\d{2}(?:\.\d+)?)?))?"
DATES = {
    "year/month/day": re.compile(r"(?P<year>\d{4})[/.](?P<month>\d{1,2})[/.](?P<day>\d{1,2})" + TIME),
    "day.month.year": re.compile(r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})" + TIME),
    DAY_FIRST: re.compile(r"(?P<day>\d{1,2})[/-](?P<month>\d{1,2})[/-](?P<year>\d{4})" + TIME),
    MONTH_FIRST: re.compile(r"(?P<month>\d{1,2})[/-](?P<day>\d{1,2})[/-](?P<year>\d{4})" + TIME),
}
PATTERNS = NUMBERS | DATES
FORMS = {
    "number": (PLAIN, *NUMBERS, *AMOUNTS),
    "date": (PLAIN, *DATES),
    **dict.fromkeys(("category", "text", "image"), (PLAIN,)),
}
"""By the kind of the column."""
FIRST_TRIED: tuple[tuple[EncodedKind, str], ...] = (("number", PLAIN),)
TRIED: tuple[tuple[EncodedKind, str], ...] = (
    ("date", PLAIN),
    *(("number", form) for form in NUMBERS),
    *(("date", form) for form in DATES),
)
LAST_TRIED: tuple[tuple[EncodedKind, str], ...] = tuple(("number", form) for form in AMOUNTS)
"""Forms tried last because they are the slowest to read."""
SAID = {
    THOUSANDS_COMMA: "numbers with a comma between the thousands",
    DECIMAL_COMMA: "numbers with a decimal comma",
}
LONGEST_FORM = 60
"""Most characters of a number or date written by a person; longer text is neither."""
MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
SOME_FORM = re.compile(rf"(?i)\W*\d[\d\s.,:/'’+-]*(?:%|[^\W\d]{{1,3}})?\W*|.*\b(?:{MONTHS})[a-z]*\b.*\d{{2}}.*")
ISO_DATE = r"\d{4}-\d{2}-\d{2}(?:[T ].*)?"
ENOUGH_VALUES, ENOUGH_SHARE = 20, 0.99  # with this many values and this share of numbers, the rest are typos
MOST_WORDS, LEAST_NUMBERS = 3, 3  # most words among numbers, such as refused; fewest distinct numbers beside them
LOOKED_AT, AT_ONCE = 1000, 100_000
FEW, HOPELESS = 50, 0.95  # values that tell first whether a form is worth trying
SECONDS_A_DAY = 86_400
SMALLEST_FLOAT32, LARGEST_FLOAT32 = 2.0**-100, float(np.finfo(np.float32).max)
"""Magnitudes between which a float32 has all of its digits; the first keeps clear of its subnormal range."""
FARTHEST, SAMPLED = 256, 4096
"""Distance from zero, in spreads, up to which float32 keeps 16 bits of the spread; values used to measure it."""

Read = tuple[NDArray[np.floating[Any]], NDArray[np.bool_]]  # (rows,) each: the numbers, and a mask of unreadable values


@dataclass(frozen=True)
class Parsed:
    """A column as numbers or dates."""

    kind: EncodedKind
    form: str
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
    """Find the kind and form that read every value (or 99 % of at least twenty, the rest being typos), or return None.

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
    some = known[:: max(1, len(known) // LOOKED_AT)]  # try each form on a few values of a long column first
    sample, few, found = values.iloc[some], values.iloc[some[:: -(-len(some) // FEW)]], list[Parsed]()
    for forms in (FIRST_TRIED, TRIED, LAST_TRIED):
        likely = [tried for tried in forms if _share_unlike(few, *tried) < HOPELESS]
        likely = [tried for tried in likely if np.average(_parsed(sample, *tried).unread, weights=counts[some]) <= 0.5]
        found += [_parsed(values, *tried) for tried in likely]
        if any(not parsed.unread.any() for parsed in found):
            break
    if not found:
        return None
    left = {parsed.form: int(counts[parsed.unread].sum()) for parsed in found if parsed.form}
    best = min(found, key=lambda parsed: int(counts[parsed.unread].sum()))
    if best.form in (DAY_FIRST, MONTH_FIRST) and left.get(DAY_FIRST) == left.get(MONTH_FIRST):
        return None
    return best if _tolerable(best, values, counts) else _with_words(best, values, counts)


def _share_unlike(few: Any, kind: EncodedKind, form: str) -> float:
    """Return the share of a few values that cannot be of a form."""
    if not is_text(few):
        return float(_parsed(few, kind, form).unread.mean())
    if form != PLAIN:
        return float(np.mean([plain(text, form) is None for text in few]))
    like = is_number if kind == "number" else re.compile(rf"\s*{ISO_DATE}").fullmatch
    return float(np.mean([not like(text) for text in few]))


def parse_fully(values: Any, kind: Literal["number", "date"]) -> Parsed:
    """Read a column as a kind that the user chose, in the form that reads most; other values count as unread."""
    forms = [PLAIN, *(form for tried, form in (*TRIED, *LAST_TRIED) if tried == kind and form != PLAIN)]
    return min((_parsed(values, kind, form) for form in forms), key=lambda parsed: int(parsed.unread.sum()))


def parse_as(values: Any, kind: EncodedKind, form: str) -> Read:
    """Read values as numbers, or as days since 1970, and mark those that could not be read."""
    texts = repeated(values)
    if texts is not None and len(texts.values) < len(values):
        numbers, unread = _read(texts.values, kind, form)
        return texts.spread(numbers, np.nan), texts.spread(unread, False)
    return _read(values, kind, form)


def _read(values: Any, kind: EncodedKind, form: str) -> Read:
    """Read every value; texts in chunks, because as objects they take many times the memory."""
    read = _as_days if kind == "date" else _as_numbers
    if len(values) <= AT_ONCE or not is_text(values):
        return read(values, form)
    starts = range(0, len(values), AT_ONCE)
    numbers, unread = zip(*(read(values.iloc[start : start + AT_ONCE], form) for start in starts), strict=True)
    return np.concatenate(numbers), np.concatenate(unread)


def is_some_form(word: str) -> bool:
    """Return whether a person would take this for a number or a date in any form: 12 %, 3 kg, 5 May 2020."""
    return len(word) <= LONGEST_FORM and SOME_FORM.fullmatch(word) is not None


def fits_float32(numbers: NDArray[np.floating[Any]]) -> bool:
    """Return whether float32 preserves the differences within a column well enough for a network.

    It does not if the values are out of its range, or so far from zero that rounding blurs their spread; zeros and
    missing values are ignored.

    >>> fits_float32(np.array([0.1, 1e6, np.nan])), fits_float32(np.array([1.7e12, 1.7e12 + 1e4]))
    (True, False)
    """
    farthest = max(map(abs, span(numbers)))
    if np.isinf(farthest):
        numbers = numbers[np.isfinite(numbers)]
        farthest = max(map(abs, span(numbers)))
    if not farthest > 0:  # nor where none is known
        return True
    if not SMALLEST_FLOAT32 <= farthest <= LARGEST_FLOAT32:
        return False
    some = _known(numbers[:: -(-len(numbers) // SAMPLED)])
    some = some if len(some) > SAMPLED // 4 else _known(numbers)[-SAMPLED:]
    if bool((some.astype(np.float32) == some).all()):
        return True
    centre = np.median(some)
    return bool(np.abs(centre) <= FARTHEST * np.median(np.abs(some - centre)))


def largest(typical: float) -> float:
    """Return the largest value that counts as a measurement: beyond float32 it marks a gap unless all are so large."""
    return float(np.finfo(np.float64).max) if abs(typical) > LARGEST_FLOAT32 else LARGEST_FLOAT32


def median(known: NDArray[np.floating[Any]]) -> float:
    """Return the median of known numbers as float64, whatever their type; numpy's would be of theirs.

    >>> median(np.array([1, 1 + 2**-23], dtype=np.float32)) == 1 + 2**-24  # float32 would round to 1
    True
    """
    middle = len(known) // 2
    lower = middle - (1 - len(known) % 2)
    found = np.partition(known, sorted({lower, middle}))
    return (float(found[lower]) + float(found[middle])) / 2


def _known(numbers: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Return the numbers that are neither missing nor zero."""
    return np.asarray(numbers[~np.isnan(numbers) & (numbers != 0)])


def span(numbers: NDArray[np.floating[Any]]) -> tuple[float, float]:
    """Return the smallest and the largest number; NaN where none is known.

    >>> span(np.array([2.0, np.nan, -1.0]))
    (-1.0, 2.0)
    """
    return float(np.fmin.reduce(numbers, initial=np.nan)), float(np.fmax.reduce(numbers, initial=np.nan))


def relabelled(frame: Any, names: list[str]) -> Any:
    """Name the columns and number the rows from 0 without copying values, as set_axis and reset_index do in pandas 2.

    >>> relabelled(pd.DataFrame({1: [3.0, 4.0]}, index=[7, 9]), ["1"]).to_dict()
    {'1': {0: 3.0, 1: 4.0}}
    """
    shared = frame.copy(deep=False)
    shared.columns, shared.index = pd.Index(names), pd.RangeIndex(len(frame))
    return shared


def without_blanks(values: Any) -> Any:
    """Return the column with empty texts as missing."""
    if is_packed(values):
        blank = np.append(values.dtype.categories.str.strip() == "", False)
        return values.mask(blank[values.cat.codes.to_numpy()]) if blank.any() else values
    if not (pd.api.types.is_object_dtype(values.dtype) or pd.api.types.is_string_dtype(values.dtype)):
        return values
    if is_text(values):
        blank = values.str.isspace().eq(True).to_numpy(dtype=bool) | values.eq("").to_numpy(dtype=bool)
    else:
        blank = values.map(lambda value: isinstance(value, str) and not value.strip()).to_numpy(dtype=bool)
    return values.mask(blank) if blank.any() else values


def as_words(values: Any) -> Any:
    """Return text without surrounding spaces, missing where the value is; a whole number has no decimals."""
    texts = distinct(values) if is_packed(values) else None
    if texts is not None:
        words = texts.spread(texts.values.str.strip().to_numpy(dtype=object), None)
        return pd.Series(words, index=values.index, dtype=object, name=values.name)
    if isinstance(values.dtype, pd.CategoricalDtype):
        values = values.astype(values.cat.categories.dtype)
    if is_text(values):
        return values.str.strip().astype(object).where(values.notna(), None)
    return values.astype(object).map(_word).where(values.notna(), None).astype(object)


def _word(value: Any) -> str:
    if isinstance(value, float | np.floating) and value == np.floor(value) and np.isfinite(value):
        return str(int(value))
    return str(value).strip()


def _parsed(values: Any, kind: EncodedKind, form: str) -> Parsed:
    return Parsed(kind, form, *_read(values, kind, form))


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


def _as_numbers(values: Any, form: str) -> Read:
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
        values, unread = _as_plain_numbers(values, form)
    single = values.dtype == np.float32
    numbers = values.to_numpy(dtype=np.float32 if single else np.float64, na_value=np.nan)
    if np.isinf(span(numbers)).any():
        numbers = np.where(np.isinf(numbers), np.nan, numbers)
    return numbers, unread


def _as_plain_numbers(values: Any, form: str) -> tuple[Any, NDArray[np.bool_]]:
    """Return a column of text or objects as numbers, and a mask of the values that are not."""
    unread, present = np.zeros(len(values), dtype=bool), values.notna().to_numpy()
    plain_texts = _all_plain(values, form)
    found = _by_arrow(plain_texts, "float64")
    if found is not None and not (np.isnan(found) & present).any():
        return pd.Series(found, index=values.index), unread
    known = values[present]
    found = pd.to_numeric(plain_texts[present], errors="coerce")
    lost = found.isna().to_numpy()
    if form == PLAIN and lost.any():  # there are more kinds of space than the parser knows
        found[lost] = pd.to_numeric(as_words(known[lost]).str.strip(), errors="coerce")
        lost = found.isna().to_numpy()
    unread[np.flatnonzero(present)[lost]] = as_words(known[lost]).str.lower().to_numpy(dtype=object) != "nan"
    return found.reindex(values.index), unread


def _as_days(values: Any, form: str) -> Read:
    """Return days since 1970-01-01 in UTC, with NaN if missing or not a date, and a mask of the values that are not."""
    shaped, moments = np.ones(len(values), dtype=bool), None
    if not pd.api.types.is_datetime64_any_dtype(values.dtype):
        moments = _by_arrow(values, "datetime64[us]") if form == PLAIN else None
    if moments is None:
        dates = values
        if not pd.api.types.is_datetime64_any_dtype(values.dtype):
            words = as_words(values).astype("str")
            if form == PLAIN:  # 2020 alone is a number
                shaped = words.str.fullmatch(ISO_DATE, na=False).to_numpy(dtype=bool)
            dates = pd.to_datetime(_all_plain(words, form), format="ISO8601", errors="coerce", utc=True)
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


def _all_plain(values: Any, form: str) -> Any:
    if form == PLAIN:
        return values
    if form in AMOUNTS and is_text(values):
        read = _all_plain(_usual_bodies(values.str.strip()), AMOUNTS[form])
        rest = read.isna() & values.notna()
        return read.where(~rest, _each_plain(values[rest], form)) if rest.any() else read
    if form in NUMBERS and is_text(values):
        text = values.str.strip()
        fits = text.str.fullmatch(NUMBERS[form].pattern) & (text.str.len() <= LONGEST_FORM)
        read = text.str.replace("," if form == THOUSANDS_COMMA else ".", "", regex=False)
        read = read if form == THOUSANDS_COMMA else read.str.replace(",", ".", regex=False)
        return read.where(fits.fillna(False).astype(bool), None)
    return _each_plain(values, form)


def _usual_bodies(texts: Any) -> Any:
    """Return the digits of amounts with one of the signs behind them that the first texts end in; None for others."""
    first = texts.iloc[:LOOKED_AT].dropna().tolist()
    last = {text[-1:] for text in first}
    found = pd.Series(None, index=texts.index, dtype=texts.dtype)
    for sign in (sign for sign in SIGNS if sign[-1] in last and any(text.endswith(sign) for text in first)):
        signed = texts.str.endswith(sign, na=False).to_numpy(dtype=bool)
        found = found.mask(signed, texts.str.slice(stop=-len(sign)))
    return found


def _each_plain(values: Any, form: str) -> Any:
    return values.astype(object).map(lambda value: plain(value, form)).astype(object)


def plain(value: Any, form: str) -> Any:
    """Return a number or date of this form as plain text; None for other text; non-text unchanged."""
    if form == PLAIN or not isinstance(value, str):
        return value
    text = value.strip()
    if form in AMOUNTS:
        return None if len(text) > LONGEST_FORM else plain_amount(text, lambda body: plain(body, AMOUNTS[form]))
    found = None if len(text) > LONGEST_FORM else PATTERNS[form].fullmatch(text)
    if found is None:
        return None
    if form in NUMBERS:
        return text.replace(",", "") if form == THOUSANDS_COMMA else text.replace(".", "").replace(",", ".")
    day = f"{found['year']}-{found['month']:0>2}-{found['day']:0>2}"
    return day if found["hour"] is None else f"{day}T{found['hour']:0>2}{found['rest']}"
