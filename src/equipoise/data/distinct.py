"""The different texts of a column: what is done to each of them is done once, however often it occurs."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray


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
    if isinstance(values.dtype, pd.CategoricalDtype) or not is_text(values):
        return None
    codes, found = pd.factorize(values)
    return Distinct(pd.Series(found), codes)


def is_text(values: Any) -> bool:
    """Return whether a column holds only texts and missing values."""
    if isinstance(values.dtype, pd.StringDtype):
        return True
    if not pd.api.types.is_object_dtype(values.dtype):
        return False
    return bool(pd.api.types.infer_dtype(values, skipna=True) == "string")
