"""The matrix of an encoded table, which also records which of its columns are log-odds of the classes."""

from typing import Any

import numpy as np

LogOddsColumns = tuple[tuple[int, ...], ...]
"""For each encoding of a text, its columns of log-odds: one per sorted class; with two classes, only the second's."""


class EncodedRows(np.ndarray[Any, Any]):
    """An array (rows, outputs) with the attribute ``log_odds``, which slices and selections of its rows keep.

    >>> rows = np.zeros((4, 3)).view(EncodedRows)
    >>> rows.log_odds = ((2,),)
    >>> rows[1:].log_odds, log_odds_columns(rows[[0, 2]]), log_odds_columns(np.zeros((4, 3)))
    (((2,),), ((2,),), ())
    """

    log_odds: LogOddsColumns

    def __array_finalize__(self, source: Any) -> None:
        self.log_odds = log_odds_columns(source)


def log_odds_columns(rows: Any) -> LogOddsColumns:
    """Return the columns of log-odds; none for rows that do not come from an encoder."""
    found: LogOddsColumns = getattr(rows, "log_odds", ())
    return found


def plain_rows(rows: Any) -> Any:
    """Return an encoded table as a plain array, which models may keep; other rows unchanged."""
    return np.asarray(rows) if isinstance(rows, EncodedRows) else rows
