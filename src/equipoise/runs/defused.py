"""Names from somebody else's data, made harmless for a spreadsheet and for a terminal."""

from typing import Any

import pandas as pd

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet takes for a formula."""
UNKNOWN = "\N{REPLACEMENT CHARACTER}"


def defused(frame: pd.DataFrame) -> pd.DataFrame:
    """The same table, each name and text defused; numbers stay numbers.

    >>> defused(pd.DataFrame({"=a": ["@b", "-1.5", "c"], "d": [-1.0, 2.0, 3.0]})).to_csv(index=False).splitlines()
    ["'=a,d", "'@b,-1.0", '-1.5,2.0', 'c,3.0']
    """
    changed = {name: frame[name].map(_defused) for name, kind in frame.dtypes.items() if _holds_text(kind)}
    return frame.assign(**changed).set_axis([_defused(name) for name in frame.columns], axis=1)


def _holds_text(kind: Any) -> bool:
    return bool(pd.api.types.is_object_dtype(kind) or pd.api.types.is_string_dtype(kind))


def _defused(value: Any) -> Any:
    """Text with an apostrophe before what would be a formula, and without control characters."""
    if not isinstance(value, str):
        return value
    harmless = value if not value.startswith(FORMULA) or _is_number(value) else f"'{value}"
    return harmless if harmless.isprintable() else "".join(sign if sign.isprintable() else UNKNOWN for sign in harmless)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()
