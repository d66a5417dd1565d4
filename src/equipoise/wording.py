"""Names and numbers formatted for people."""

from collections.abc import Iterable

EQUIPOISE = "Equipoise"
"""The display name of the method whose identifier is ``uncertainty_margin``."""


def method_name(identifier: str) -> str:
    """Return the display name of a loss; all but the default keep their identifier.

    >>> method_name("uncertainty_margin"), method_name("logit_adjustment")
    ('Equipoise', 'logit_adjustment')
    """
    return EQUIPOISE if identifier == "uncertainty_margin" else identifier


def plural(count: int, noun: str) -> str:
    """Return the singular or plural of a noun to match a count.

    >>> plural(1, "class"), plural(2, "class"), plural(0, "sample"), plural(2, "category")
    ('class', 'classes', 'samples', 'categories')
    """
    if count == 1:
        return noun
    return f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}es" if noun.endswith("s") else f"{noun}s"


def counted(count: int, noun: str) -> str:
    """Return a count with its noun.

    >>> counted(1, "class"), counted(2, "class"), counted(1200, "seed")
    ('1 class', '2 classes', '1,200 seeds')
    """
    return f"{count:,} {plural(count, noun)}"


def duration(seconds: float) -> str:
    """Format a duration with two significant digits, in the unit that fits.

    >>> duration(0.004), duration(0.42), duration(3.14), duration(59.7), duration(84), duration(5400), duration(86400)
    ('less than 0.1 s', '0.4 s', '3.1 s', '60 s', '84 s', '90 min', '24 h')
    """
    if seconds < 0.05:
        return "less than 0.1 s"
    for unit, size, most in (("s", 1, 100), ("min", 60, 100)):
        if round(seconds / size) < most:
            return _two_digits(seconds / size, unit)
    return _two_digits(seconds / 3600, "h")


def _two_digits(value: float, unit: str) -> str:
    return f"{value:.1f} {unit}" if value < 9.95 else f"{value:,.0f} {unit}"


def are_codes(words: Iterable[str]) -> bool:
    """Return whether words are codes rather than numbers: digits of one length, some with leading zeros (ZIP codes).

    >>> are_codes(["01000", "94110"]), are_codes(["007", "12"]), are_codes(["0", "1"]), are_codes(["10", "20"])
    (True, False, False, False)
    """
    every = list(words)
    digits, length = "".join(every), max(map(len, every), default=0)
    if length < 2 or len(digits) != length * len(every) or not (digits.isascii() and digits.isdigit()):
        return False
    return any(word[0] == "0" for word in every)


def is_numeric_text(text: str) -> bool:
    """Return whether text is a number, with or without surrounding spaces."""
    try:
        float(text)
    except ValueError:
        return False
    return True
