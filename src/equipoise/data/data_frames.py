"""Tables as data frames, whatever library they come from."""

from typing import Any

import numpy as np
import pandas as pd

from equipoise.data.tables.text_layout import check_names
from equipoise.errors import InvalidInputError


def relabelled(frame: Any, names: list[str]) -> Any:
    """Name the columns and number the rows from 0 without copying values, as set_axis and reset_index do in pandas 2.

    >>> relabelled(pd.DataFrame({1: [3.0, 4.0]}, index=[7, 9]), ["1"]).to_dict()
    {'1': {0: 3.0, 1: 4.0}}
    """
    shared = frame.copy(deep=False)
    shared.columns, shared.index = pd.Index(names), pd.RangeIndex(len(frame))
    return shared


def as_table(frame: Any) -> Any:
    """Return a data frame with unique text column names; an array's columns are numbered."""
    if not is_frame(frame):
        if hasattr(frame, "tocsr"):
            raise InvalidInputError("a table must be dense, got a sparse matrix; pass X.toarray().")
        values = np.asarray(frame)
        if values.ndim != 2:
            raise InvalidInputError(
                f"a table must have rows and columns, got an array of shape {values.shape}. Reshape your data: "
                "X.reshape(-1, 1) for a single column, X.reshape(1, -1) for a single row."
            )
        if values.dtype.kind == "c":
            raise InvalidInputError("Complex data not supported: a table must hold real numbers; pass its .real part.")
        frame = pd.DataFrame(values, columns=[f"column {number}" for number in range(1, values.shape[1] + 1)])
    elif not isinstance(frame, pd.DataFrame):
        frame = frame.to_pandas()
    names = [str(name) for name in frame.columns]
    check_names(names, "the table")
    return relabelled(frame, names)


def is_frame(table: Any) -> bool:
    """Return whether a table is a data frame (pandas, polars, Arrow or others) with named columns."""
    return isinstance(table, pd.DataFrame) or hasattr(table, "to_pandas")


def has_feature_names(table: Any) -> bool:
    """Return whether scikit-learn takes a table's column names as ``feature_names_in_``: those of a frame, all text.

    >>> has_feature_names(pd.DataFrame({"age": [3]})), has_feature_names(pd.DataFrame([[3]])), has_feature_names([[3]])
    (True, False, False)
    """
    if isinstance(table, pd.DataFrame):
        return all(isinstance(name, str) for name in table.columns)
    return is_frame(table)


def needs_encoding(table: Any) -> bool:
    """Return whether a frame or array has text, dates, categories or missing values."""
    if hasattr(table, "dtypes") and hasattr(table, "columns"):
        numeric = all(getattr(kind, "kind", "O") in "biuf" for kind in table.dtypes)
        return not numeric or bool(np.asarray(table.isna()).any())
    values = np.asarray(table)
    if values.dtype.kind in "OUS":
        return True
    return values.ndim == 2 and values.dtype.kind == "f" and bool(np.isnan(values).any())
