"""The forms in which people write numbers and dates, each rewritten into the plain one: 1234.5 and 2020-01-31."""

import re
from typing import Any

PLAIN = ""
THOUSANDS_COMMA, DECIMAL_COMMA = "1,234.5", "1.234,5"
EXPONENT = r"(?:[eE][+-]?\d+)?"
NUMBERS = {
    THOUSANDS_COMMA: re.compile(r"[+-]?(?:\d+|[1-9]\d{0,2}(?:,\d{3})+)(?:\.\d*)?" + EXPONENT),
    DECIMAL_COMMA: re.compile(r"[+-]?(?:\d+|[1-9]\d{0,2}(?:\.\d{3})+)(?:,\d+)?" + EXPONENT),
}
DAY_FIRST, MONTH_FIRST = "day/month/year", "month/day/year"
TIME = r"(?:[T ](?P<hour>\d{1,2})(?P<rest>:\d{2}(?::\d{2}(?:\.\d+)?)?))?"
DATES = {
    "year/month/day": re.compile(r"(?P<year>\d{4})[/.](?P<month>\d{1,2})[/.](?P<day>\d{1,2})" + TIME),
    "day.month.year": re.compile(r"(?P<day>\d{1,2})\.(?P<month>\d{1,2})\.(?P<year>\d{4})" + TIME),
    DAY_FIRST: re.compile(r"(?P<day>\d{1,2})[/-](?P<month>\d{1,2})[/-](?P<year>\d{4})" + TIME),
    MONTH_FIRST: re.compile(r"(?P<month>\d{1,2})[/-](?P<day>\d{1,2})[/-](?P<year>\d{4})" + TIME),
}
FORMS = {"number": (PLAIN, *NUMBERS), "date": (PLAIN, *DATES), "category": (PLAIN,)}
"""By the kind of the column."""

SAID = {
    THOUSANDS_COMMA: "numbers with a comma between the thousands",
    DECIMAL_COMMA: "numbers with a decimal comma",
}
LONGEST_FORM = 60
"""Letters of a number or date that a person has written; longer text is neither."""
MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
SOME_FORM = re.compile(rf"(?i)\W*\d[\d\s.,:/'’+-]*(?:%|[^\W\d]{{1,3}})?\W*|.*\b(?:{MONTHS})[a-z]*\b.*\d{{2}}.*")


def plain(value: Any, form: str) -> Any:
    """A number or date that is text of the form, as plain text; other text is None, and what is no text stays."""
    if form == PLAIN or not isinstance(value, str):
        return value
    text = value.strip()
    if len(text) > LONGEST_FORM:
        return None
    if form in DATES:
        found = DATES[form].fullmatch(text)
        return None if found is None else _iso(found)
    if not NUMBERS[form].fullmatch(text):
        return None
    return text.replace(",", "") if form == THOUSANDS_COMMA else text.replace(".", "").replace(",", ".")


def _iso(found: re.Match[str]) -> str:
    day = f"{found['year']}-{found['month']:0>2}-{found['day']:0>2}"
    return day if found["hour"] is None else f"{day}T{found['hour']:0>2}{found['rest']}"


def may_be_a_form(word: str) -> bool:
    """Whether a person would take this for a number or a date, whatever its form: 12 %, 3 kg, 5 May 2020."""
    return len(word) <= LONGEST_FORM and SOME_FORM.fullmatch(word) is not None
