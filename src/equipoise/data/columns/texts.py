"""Texts of a column: distinct ones, so that each is processed once, and words without blanks or spaces around them."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

TEXTS = "texts of a file"
"""Name of the categories of a packed column."""
LOOKED_AT, MOSTLY = 50_000, 0.8
"""Rows inspected for repeated texts, and the share of distinct ones from which on texts count as not repeating."""


class Distinct(NamedTuple):
    """The distinct texts of a column in order of appearance, and the index of each row's text.

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
    """Return the distinct texts of a column; None if it holds anything else.

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
    """Return :func:`distinct` if a column is short or its texts repeat; otherwise None, since it would save no time."""
    return distinct(values) if len(values) <= LOOKED_AT or is_packed(values) or repeats(values) else None


def repeats(values: Any) -> bool:
    """Return whether a column holds texts that often repeat, judging by its first rows."""
    first = values.iloc[:LOOKED_AT].dropna() if is_text(values) else values.iloc[:0]
    return bool(0 < first.nunique() <= MOSTLY * len(first))


def pack(values: Any) -> Any:
    """Return a text column as a column of pandas' type ``category`` that has every text once.

    It stands for the texts themselves: unlike a category of the user's, it may hold numbers or dates.

    >>> column = pack(pd.Series(["8%", "9%", "9%", None]))
    >>> column.tolist(), is_packed(column), distinct(column).values.tolist()
    (['8%', '9%', '9%', nan], True, ['8%', '9%'])
    """
    codes, texts = pd.factorize(values)
    categories = pd.Index(texts, name=TEXTS)
    return pd.Series(pd.Categorical.from_codes(codes, categories=categories, validate=False), copy=False)


def is_packed(values: Any) -> bool:
    """Return whether a column was packed by :func:`pack`."""
    return isinstance(values.dtype, pd.CategoricalDtype) and values.dtype.categories.name == TEXTS


def _unpacked(values: Any) -> Distinct:
    """Return the texts of a packed column that occur in its rows."""
    codes, categories = values.cat.codes.to_numpy(), values.dtype.categories
    order = _in_order(codes[:LOOKED_AT])
    if len(order) < len(categories):
        order = _in_order(codes)
    if not np.array_equal(order, np.arange(len(categories))):  # some rows of a column
        place = np.full(len(categories) + 1, -1)
        place[order] = np.arange(len(order))
        categories, codes = categories[order], place[codes]
    return Distinct(pd.Series(categories.rename(None)), codes)


def _in_order(codes: NDArray[np.signedinteger[Any]]) -> NDArray[np.signedinteger[Any]]:
    """Return the different codes in the order in which they first occur."""
    found = pd.unique(codes)
    return np.asarray(found[found >= 0])


def is_text(values: Any) -> bool:
    """Return whether a column holds only texts and missing values."""
    if isinstance(values.dtype, pd.StringDtype) or is_packed(values):
        return True
    if not pd.api.types.is_object_dtype(values.dtype):
        return False
    return bool(pd.api.types.infer_dtype(values, skipna=True) == "string")


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


def texts_or_none(words: Any) -> list[str | None]:
    """Return a column of :func:`as_words` as a list, with None for what is missing."""
    return [word if isinstance(word, str) else None for word in words]


def fold_case(word: str) -> str:
    """Normalise case and spaces, which do not distinguish categories."""
    return word if word.isdigit() else " ".join(word.casefold().split())
