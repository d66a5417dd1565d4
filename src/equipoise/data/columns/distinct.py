"""The distinct texts of a column, so that each is processed once, however often it occurs."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

TEXTS = "texts of a file"
"""Name of the categories of a packed column."""
LOOKED_AT, MOSTLY = 50_000, 0.9
"""Rows inspected for repeated texts, and the share of distinct ones from which on texts count as not repeating."""


class Distinct(NamedTuple):
    """A column as its different texts, in the order in which they first occur, and the place of each row's text.

    ``codes``, (rows,), is -1 where a value is missing.
    """

    values: Any
    codes: NDArray[np.intp]

    @property
    def counts(self) -> NDArray[np.intp]:
        """How often each text occurs, (texts,)."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.values))

    def spread(self, each: NDArray[Any], missing: Any) -> NDArray[Any]:
        """Return a value for each row, (rows,), from one for each text and one for what is missing."""
        return np.append(each, np.asarray([missing], dtype=each.dtype))[self.codes]


def distinct(values: Any) -> Distinct | None:
    """Return the different texts of a column; None where it holds anything else.

    >>> found = distinct(pd.Series(["b", None, "a", "b"]))
    >>> found.values.tolist(), found.codes.tolist(), found.counts.tolist()
    (['b', 'a'], [0, -1, 1, 0], [2, 1])
    """
    if is_packed(values):
        return _unpacked(values)
    if isinstance(values.dtype, pd.CategoricalDtype) or not is_text(values):
        return None
    codes, found = pd.factorize(values)
    return Distinct(pd.Series(found), codes)


def repeated(values: Any) -> Distinct | None:
    """Return :func:`distinct` where the texts of a long column repeat; None where it would only cost time."""
    return distinct(values) if len(values) <= LOOKED_AT or is_packed(values) or repeats(values) else None


def repeats(values: Any) -> bool:
    """Return whether a column has texts of which, by the first rows, many come back."""
    first = values.iloc[:LOOKED_AT].dropna() if is_text(values) else values.iloc[:0]
    return bool(0 < first.nunique() <= MOSTLY * len(first))


def pack(pieces: list[Distinct]) -> Any:
    """Join the parts of a text column into a column of pandas' type ``category`` that has every text once.

    It stands for the texts themselves: unlike a category of the user's, it may hold numbers or dates.

    >>> column = pack([distinct(pd.Series(["8%", "9%"])), distinct(pd.Series(["9%", None]))])
    >>> column.tolist(), is_packed(column), distinct(column).values.tolist()
    (['8%', '9%', '9%', nan], True, ['8%', '9%'])
    """
    place, texts = pd.factorize(pd.concat([piece.values for piece in pieces], ignore_index=True))
    starts = np.cumsum([0, *(len(piece.values) for piece in pieces)])
    codes = [
        np.append(place[start : start + len(piece.values)], -1)[piece.codes]
        for start, piece in zip(starts, pieces, strict=False)
    ]
    categories = pd.Index(texts, name=TEXTS)
    return pd.Series(pd.Categorical.from_codes(np.concatenate(codes), categories=categories), copy=False)


def is_packed(values: Any) -> bool:
    """Return whether a column was packed by :func:`pack`."""
    return isinstance(values.dtype, pd.CategoricalDtype) and values.dtype.categories.name == TEXTS


def _unpacked(values: Any) -> Distinct:
    """Return the texts of a packed column that occur in its rows."""
    codes, categories = values.cat.codes.to_numpy(), values.dtype.categories
    first = np.full(len(categories) + 1, len(codes))
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # the last assignment, of the first row, remains
    used = np.flatnonzero(first[:-1] < len(codes))
    order = used[np.argsort(first[used])]
    place = np.full(len(categories) + 1, -1)
    place[order] = np.arange(len(order))
    return Distinct(pd.Series(categories[order].rename(None)), place[codes])


def is_text(values: Any) -> bool:
    """Return whether a column holds only texts and missing values."""
    if isinstance(values.dtype, pd.StringDtype) or is_packed(values):
        return True
    if not pd.api.types.is_object_dtype(values.dtype):
        return False
    return bool(pd.api.types.infer_dtype(values, skipna=True) == "string")
