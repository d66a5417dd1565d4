"""From the columns of a table to a matrix of numbers, and back into a file as plain JSON."""

from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.data.column_values import relabelled
from equipoise.data.delimited import check_names
from equipoise.data.encoded_column import Column, all_text, column_from_json, encode_column, learn_column
from equipoise.errors import InvalidInputError, InvalidStateError

FORMAT = 1


class Encoded(NamedTuple):
    """A table as numbers.

    Args:
        values: (rows, outputs).
        unread: columns with a word among their numbers or dates -> the rows that have one, (rows,).
    """

    values: NDArray[np.floating[Any]]
    unread: dict[str, NDArray[np.bool_]]


class TableEncoder:
    """Learns from a training table how its columns become numbers, and does the same to any other table.

    Numbers, booleans and text that holds numbers stay numbers, also with a comma for the decimals or between the
    thousands; a missing or infinite one becomes the median of the training column, with a further 0/1 column that marks
    it where at least 1 % are missing. Dates become days since 1970, whether the year or, where it is clear which, the
    day or the month comes first. A word among numbers or dates (1 % of them at most) counts as missing;
    :meth:`encode` also says where a table has one.
    Everything else is a category: a 0/1 column a value, the rare ones (beyond the 50 most frequent, or seen once)
    together in a column of their own, and one for missing values. A value never seen in training counts as rare; where
    training had none, it has 0 in all columns. Columns that are constant, empty or name the row are left out. ``notes``
    says in a sentence each what was filled in, left out or put together.

    >>> table = pd.DataFrame({"age": [31, None, 54, 40], "town": ["Oslo", "Rome", "Oslo", "Rome"]})
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.column_names_
    ['age', 'age=(missing)', 'town=Oslo', 'town=Rome']
    >>> encoder.transform(table)[1].tolist(), encoder.notes
    ([40.0, 1.0, 0.0, 1.0], ['age: 1 missing value filled with the median 40.'])
    """

    def __init__(self) -> None:
        self.columns_: list[Column] | None = None
        self.notes: list[str] = []

    def fit(self, frame: Any) -> "TableEncoder":
        """Learn from a data frame, or an array (rows, columns) of numbers."""
        table = _table(frame)
        if len(table) == 0:
            raise InvalidInputError("the table has no rows to learn from; give the training rows.")
        notes: list[str] = []
        columns = [learn_column(values, name, notes) for name, values in table.items()]
        kept = [column for column in columns if column is not None]
        if not kept:
            raise InvalidInputError(
                f"no column is left to learn from: {' '.join(notes) or 'the table has none.'} Check the table."
            )
        self.columns_, self.notes = kept, notes
        return self

    def transform(self, frame: Any) -> NDArray[np.floating[Any]]:
        """The matrix (rows, outputs) in ``dtype``; columns may come in any order, and further ones are ignored."""
        return self.encode(frame).values

    def encode(self, frame: Any) -> Encoded:
        """Return what :meth:`transform` gives, and which values could not be read."""
        columns, table = self._fitted(), _table(frame)
        absent = [column.name for column in columns if column.name not in table.columns]
        if absent:
            named = ", ".join(" ".join(name.split()) for name in absent[:10])
            raise InvalidInputError(
                f"the table lacks {len(absent)} of the columns the model was trained on: {named}; add them."
            )
        out = np.zeros((len(table), len(self.column_names_)), dtype=self.dtype)
        lost: dict[str, NDArray[np.bool_]] = {}
        start = 0
        for column in columns:
            width = len(column.outputs)
            unread = encode_column(table[column.name], column, out[:, start : start + width])
            if unread.any():
                lost[column.name] = unread
            start += width
        return Encoded(out, lost)

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """float64 where a column needs it, such as one of Unix milliseconds, and else float32, half as large."""
        return np.float64 if any(column.wide for column in self._fitted()) else np.float32

    @property
    def column_names_(self) -> list[str]:
        """Names of the outputs."""
        return [name for column in self._fitted() for name in column.outputs]

    @property
    def text_columns(self) -> list[str]:
        """Columns whose values are not plain numbers: to be read as they stand in a file."""
        return [column.name for column in self._fitted() if column.kind != "number" or column.form]

    def to_json(self) -> dict[str, Any]:
        """Everything learnt, as plain values."""
        columns = [asdict(column) | {"levels": list(column.levels)} for column in self._fitted()]
        return {"format": FORMAT, "columns": columns, "notes": list(self.notes)}

    @classmethod
    def from_json(cls, record: Any) -> "TableEncoder":
        """What :meth:`to_json` gave; anything else is refused."""
        if (
            not isinstance(record, dict)
            or record.get("format") != FORMAT
            or not isinstance(record.get("columns"), list)
        ):
            raise InvalidInputError(f"this is no table encoding of format {FORMAT}; train the model again.")
        encoder = cls()
        encoder.columns_ = [column_from_json(column) for column in record["columns"]]
        names = [column.name for column in encoder.columns_]
        notes = record.get("notes", [])
        if not names or len(set(names)) < len(names) or not all_text(notes):
            raise InvalidInputError("the table encoding has no columns, or one of them twice; train the model again.")
        encoder.notes = list(notes)
        return encoder

    def _fitted(self) -> list[Column]:
        if self.columns_ is None:
            raise InvalidStateError("this TableEncoder has learnt no table yet; call fit first.")
        return self.columns_


def _table(frame: Any) -> Any:
    """A data frame whose columns are named by text, each once."""
    if not isinstance(frame, pd.DataFrame):
        values = np.asarray(frame)
        if values.ndim != 2:
            raise InvalidInputError(f"a table has rows and columns, got an array of shape {values.shape}.")
        frame = pd.DataFrame(values, columns=[f"x{position}" for position in range(1, values.shape[1] + 1)])
    names = [str(name) for name in frame.columns]
    check_names(names, "the table")
    return relabelled(frame, names)
