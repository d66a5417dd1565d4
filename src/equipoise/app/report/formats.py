"""Numbers and nouns as they read on a page."""

import math

SAME = 0.0005
"""Shares closer than this read the same, rounded to a tenth of a percent."""


def percent(share: float) -> str:
    """
    >>> percent(0.1234), percent(float("nan"))
    ('12.3%', '–')
    """
    return "–" if math.isnan(share) else f"{share:.1%}"


def points(difference: float) -> str:
    """
    >>> points(0.0123), points(-0.5), points(0.0)
    ('+1.2', '−50.0', '0.0')
    """
    if math.isnan(difference):
        return "–"
    return f"{100 * difference:+.1f}".replace("-", "−") if abs(difference) >= SAME else "0.0"


def number(value: float | None, decimals: int = 2) -> str:
    """
    >>> number(1.234), number(float("nan")), number(0.00123)
    ('1.23', '–', '0.0012')
    """
    if value is None or math.isnan(value):
        return "–"
    return f"{value:.2g}" if 0 < abs(value) < 0.01 else f"{value:,.{decimals}f}"
