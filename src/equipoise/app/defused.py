"""Names from somebody else's data, made harmless for a spreadsheet and for a terminal."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet takes for a formula."""
UNKNOWN = "\N{REPLACEMENT CHARACTER}"


def printable(text: str) -> str:
    r"""Replace control characters, which a terminal would obey, and what cannot be encoded.

    >>> printable("a\x1b[31m")
    'a�[31m'
    """
    return text if text.isprintable() else "".join(sign if sign.isprintable() else UNKNOWN for sign in text)


def printable_json(text: str) -> str:
    r"""Escape in JSON what JSON itself allows as it is and a terminal would obey; the values stay the same.

    >>> printable_json('{"a": "\x7f\x9b"}')
    '{"a": "\\u007f\\u009b"}'
    """
    return "\n".join(line if line.isprintable() else "".join(map(_escaped, line)) for line in text.split("\n"))


def _escaped(sign: str) -> str:
    if sign.isprintable():
        return sign
    units = sign.encode("utf-16-be", errors="surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))


def defused(value: Any) -> Any:
    """Put an apostrophe before text that would be a formula, and replace control characters; leave numbers alone.

    >>> defused("=1+1"), defused("-1.5"), defused(-1.5)
    ("'=1+1", '-1.5', -1.5)
    """
    if not isinstance(value, str):
        return value
    return printable(f"'{value}" if is_formula(value) else value)


def defused_table(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Defuse each name and text of a table; numbers stay numbers.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"=a": ["@b", "-1.5", "c"], "d": [-1.0, 2.0, 3.0]})
    >>> defused_table(table).to_csv(index=False).splitlines()
    ["'=a,d", "'@b,-1.0", '-1.5,2.0', 'c,3.0']
    """
    changed = {name: frame[name].map(defused) for name, kind in frame.dtypes.items() if _holds_text(kind)}
    return frame.assign(**changed).set_axis([defused(name) for name in frame.columns], axis=1)


def is_formula(text: str) -> bool:
    """Tell whether a spreadsheet would take text for a formula; a number with a sign is none.

    >>> is_formula("=1+1"), is_formula("-1.5"), is_formula("-x")
    (True, False, True)
    """
    return text.startswith(FORMULA) and not _is_number(text)


def _holds_text(kind: Any) -> bool:
    import pandas as pd

    return bool(pd.api.types.is_object_dtype(kind) or pd.api.types.is_string_dtype(kind))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip()
