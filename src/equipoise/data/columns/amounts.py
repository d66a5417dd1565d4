"""Parsing of numbers as people write them: 1,234.50 €, (132.10), 8%, 1.5k, 12 345."""

import re
from collections.abc import Callable

CODES = ["CHF", "EUR", "USD", "GBP", "JPY", "SEK", "NOK", "DKK", "PLN", "CAD", "AUD", "INR", "Fr.", "kr"]
CURRENCIES = (*"$€£¥₹₽₩₺", *CODES)
FACTORS = {"k": 3, "K": 3, "M": 6, "bn": 9}
"""Suffix of a number -> the zeros it stands for."""
GAPS = "'’ \u00a0\u2009\u202f"
"""Thousands separators besides comma and point."""
GAPPED = re.compile(rf"[+-]?\d{{1,3}}(?:[{GAPS}]\d{{3}})+(?:[.,]\d+)?")
SIGNS = ("%", *CURRENCIES)
"""Signs that stand behind most amounts, which are read all at once."""


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
