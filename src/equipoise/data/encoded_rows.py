"""The matrix of an encoded table, which remembers the columns that a text's own model predicts the classes in."""

from typing import Any

import numpy as np

LogOddsColumns = tuple[tuple[int, ...], ...]
"""For each encoding of a text, its columns of log-odds: one per class in sorted order, or of two classes the second."""


class EncodedRows(np.ndarray[Any, Any]):
    """An array (rows, outputs) with the attribute ``log_odds``; rows taken from it keep that.

    >>> rows = np.zeros((4, 3)).view(EncodedRows)
    >>> rows.log_odds = ((2,),)
    >>> rows[1:].log_odds, log_odds_columns(rows[[0, 2]]), log_odds_columns(np.zeros((4, 3)))
    (((2,),), ((2,),), ())
    """

    log_odds: LogOddsColumns

    def __array_finalize__(self, source: Any) -> None:
        self.log_odds = log_odds_columns(source)


def log_odds_columns(rows: Any) -> LogOddsColumns:
    """Return the columns of log-odds; none for rows that no encoder made."""
    found: LogOddsColumns = getattr(rows, "log_odds", ())
    return found


def plain_rows(rows: Any) -> Any:
    """Return an encoded table as a plain array, which models may keep; other rows as they are."""
    return np.asarray(rows) if isinstance(rows, EncodedRows) else rows
