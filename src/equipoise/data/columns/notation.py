"""Notations of numbers and dates, as people write them: 1,234.50 €, (132.10), 8%, 1.5k, 31.12.2020."""

import re
from collections.abc import Callable
from typing import Any

import pandas as pd

from equipoise.data.columns.texts import is_text

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
NOTATIONS = {
    "number": (PLAIN, *NUMBERS, *AMOUNTS),
    "date": (PLAIN, *DATES),
}
"""By the kind of the column; other kinds are not parsed."""
DESCRIPTIONS = {
    THOUSANDS_COMMA: "numbers with a comma between the thousands",
    DECIMAL_COMMA: "numbers with a decimal comma",
}
LONGEST = 60
"""Most characters of a number or date written by a person; longer text is neither."""
MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
SOME_NOTATION = re.compile(rf"(?i)\W*\d[\d\s.,:/'’+-]*(?:%|[^\W\d]{{1,3}})?\W*|.*\b(?:{MONTHS})[a-z]*\b.*\d{{2}}.*")
CODES = ["CHF", "EUR", "USD", "GBP", "JPY", "SEK", "NOK", "DKK", "PLN", "CAD", "AUD", "INR", "Fr.", "kr"]
CURRENCIES = (*"$€£¥₹₽₩₺", *CODES)
FACTORS = {"k": 3, "K": 3, "M": 6, "bn": 9}
"""Suffix of a number -> the zeros it stands for."""
GAPS = "'’ \u00a0\u2009\u202f"
"""Thousands separators besides comma and point."""
GAPPED = re.compile(rf"[+-]?\d{{1,3}}(?:[{GAPS}]\d{{3}})+(?:[.,]\d+)?")
SIGNS, FIRST_TEXTS = ("%", *CURRENCIES), 1000
"""Signs that stand behind most amounts, which are read all at once; texts in which they are looked for."""


def plain_amount(text: str, read: Callable[[str], str | None]) -> str | None:
    """Return an amount as a plain number, or None if it is not one. A percentage keeps its value: 8% is 8.

    Args:
        text: without spaces around it.
        read: turns the number itself into plain text, or returns None.

    >>> def same(body): return body.replace(",", "") if body.replace(",", "").replace(".", "").isdigit() else None
    >>> [plain_amount(each, same) for each in ("1,234.50 €", "(132.10)", "-$5", "8 %", "1.5k", "12 345", "k", "(3")]
    ['1234.50', '-132.10', '-5', '8', '1.5e3', '12345', None, None]
    """
    negative = text.startswith("(") and text.endswith(")")
    signed, body = _signed((text[1:-1] if negative else text).replace("\u2212", "-"), allowed=not negative)
    inside, body = _signed(_without_currency(body), allowed=not (negative or signed))  # $-5
    negative = negative or "-" in (signed, inside)
    zeros = 0
    if body.endswith("%"):
        body = body[:-1].strip()
    else:
        ending = next((each for each in FACTORS if body.endswith(each)), "")
        zeros, body = FACTORS.get(ending, 0), body.removesuffix(ending).strip()
    if GAPPED.fullmatch(body):
        body = body.translate({ord(sign): None for sign in GAPS})
    found = read(body) if body[:1].isdigit() or body[:1] == "." else None
    if found is None or (zeros and "e" in found.lower()):
        return None
    return f"{'-' if negative else ''}{found}{f'e{zeros}' if zeros else ''}"


def _signed(body: str, *, allowed: bool) -> tuple[str, str]:
    """Split a number into its sign, if one is allowed, and the rest."""
    body = body.strip()
    return (body[0], body[1:].strip()) if allowed and body[:1] in ("-", "+") else ("", body)


def _without_currency(body: str) -> str:
    for name in CURRENCIES:
        if body.startswith(name):
            return body[len(name) :].strip()
        if body.endswith(name):
            return body[: -len(name)].strip()
    return body


def is_some_notation(word: str) -> bool:
    """Return whether a person would take this for a number or a date in any notation: 12 %, 3 kg, 5 May 2020."""
    return len(word) <= LONGEST and SOME_NOTATION.fullmatch(word) is not None


def all_plain(values: Any, notation: str) -> Any:
    """Apply :func:`plain` to every value of a column, vectorised if the notation allows it."""
    if notation == PLAIN:
        return values
    if notation in AMOUNTS and is_text(values):
        read = all_plain(_usual_bodies(values.str.strip()), AMOUNTS[notation])
        rest = read.isna() & values.notna()
        return read.where(~rest, _each_plain(values[rest], notation)) if rest.any() else read
    if notation in NUMBERS and is_text(values):
        text = values.str.strip()
        fits = (text.str.fullmatch(NUMBERS[notation].pattern) & (text.str.len() <= LONGEST)).fillna(False).astype(bool)
        read = text.str.replace("," if notation == THOUSANDS_COMMA else ".", "", regex=False)
        read = read if notation == THOUSANDS_COMMA else read.str.replace(",", ".", regex=False)
        return read if fits.all() else read.where(fits, None)
    return _each_plain(values, notation)


def _usual_bodies(texts: Any) -> Any:
    """Return the digits of amounts with one of the signs behind them that the first texts end in; None for others."""
    first = texts.iloc[:FIRST_TEXTS].dropna().tolist()
    last = {text[-1:] for text in first}
    found = pd.Series(None, index=texts.index, dtype=texts.dtype)
    for sign in (sign for sign in SIGNS if sign[-1] in last and any(text.endswith(sign) for text in first)):
        signed, bodies = texts.str.endswith(sign, na=False).to_numpy(dtype=bool), texts.str.slice(stop=-len(sign))
        if signed.all():
            return bodies
        found = found.mask(signed, bodies)
    return found


def _each_plain(values: Any, notation: str) -> Any:
    return values.astype(object).map(lambda value: plain(value, notation)).astype(object)


def plain(value: Any, notation: str) -> Any:
    """Return a number or date of this notation as plain text; None for other text; non-text unchanged."""
    if notation == PLAIN or not isinstance(value, str):
        return value
    text = value.strip()
    if notation in AMOUNTS:
        return None if len(text) > LONGEST else plain_amount(text, lambda body: plain(body, AMOUNTS[notation]))
    found = None if len(text) > LONGEST else PATTERNS[notation].fullmatch(text)
    if found is None:
        return None
    if notation in NUMBERS:
        return text.replace(",", "") if notation == THOUSANDS_COMMA else text.replace(".", "").replace(",", ".")
    day = f"{found['year']}-{found['month']:0>2}-{found['day']:0>2}"
    return day if found["hour"] is None else f"{day}T{found['hour']:0>2}{found['rest']}"
