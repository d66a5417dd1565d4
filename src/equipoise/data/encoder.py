"""From the columns of a table to a matrix of numbers, and back into a file as plain JSON."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError

from equipoise.cores_and_memory import release_memory
from equipoise.data.columns.column_kinds import COLUMN_KINDS, guess_kinds, is_sound, learn_column
from equipoise.data.columns.encoding import Column, Compact, EncodingTools, LearningTools
from equipoise.data.columns.parsing import Read
from equipoise.data.columns.pictures import PictureColumn, PictureReader
from equipoise.data.columns.texts import LOOKED_AT, is_packed, is_text
from equipoise.data.data_frames import as_table, is_frame
from equipoise.data.encoded_rows import EncodedRows, LogOddsColumns
from equipoise.data.labels import label_array
from equipoise.data.samples import Progress
from equipoise.errors import InvalidInputError, InvalidStateError
from equipoise.storage.records import as_record

ROWS_AT_ONCE, LARGE = 4096, 1 << 26
"""Rows of the matrix that are written at once, and bytes from which memory is returned before."""


class _StoredEncoder(msgspec.Struct):
    """An encoder as a file holds it."""

    format: Literal[1]
    columns: Annotated[list[Column], msgspec.Meta(min_length=1)]
    notes: list[str] = []


class Encoded(NamedTuple):
    """A table as numbers (rows, outputs), and for each column the rows with a word among its numbers or dates."""

    values: NDArray[np.floating[Any]]
    unread: dict[str, NDArray[np.bool_]]


class UnfittedEncoderError(InvalidStateError, NotFittedError):  # type: ignore[misc]
    """The encoder is not fitted; a subclass of scikit-learn's own error."""


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode the columns of a table as numbers, as learnt from a training table.

    Each column is a number, a date, a category or free text; identifiers and constants are left out. ``guesses_`` gives
    each column's kind and the reason, and ``kinds`` overrules it.

    Numbers may be booleans, or text such as ``1,234.50``, ``1.234,50 €``, ``(132.10)``, ``8%`` or ``1.5k``. A missing
    or infinite one becomes the median of the training column, with a further 0/1 column that marks it where at least
    1 % are missing. A word among numbers or dates (1 % of them at most) counts as missing; :meth:`encode` also says
    where a table has one. Up to three words that recur among numbers, such as ``refused``, have a 0/1 column each.
    Dates become days since 1970, whether the year or, where it is clear which, the day or the month comes first.
    A category has one 0/1 column per value, one for all rare values (beyond the 50 most frequent, or seen once) and one
    for missing values. A value never seen in training counts as rare; where training had none, it has 0 in all columns.
    Free text becomes up to 50 columns by its words and parts of words, and with labels one more for each class, see
    :meth:`fit_transform`; with a sentence encoder as many again by its embeddings, which are cached on disk.
    ``notes`` are sentences on what was filled in, left out or merged.

    Args:
        kinds: kinds of columns, instead of the guessed ones: ``"number"``, ``"date"``,
            ``"category"``, ``"text"``, ``"image"``, ``"identifier"`` or ``"constant"``.
        text_encoder: of free text, beside n-grams: a name or a folder that sentence-transformers takes, or ``"none"``
            for n-grams alone; None is all-MiniLM-L6-v2 where the extra ``text`` is installed and the table has up to
            20,000 rows.
        pictures: reads the pictures that a column of image paths names, such as
            :class:`equipoise.models.picture_features.PictureFeatures`; None leaves such columns out. Relative paths
            begin at the table's folder where a file was read, else at the working directory.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [31, None, 54, 40], "town": ["Oslo", "Rome", "Oslo", "Rome"]})
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.column_names_
    ['age', 'age=(missing)', 'town=Oslo', 'town=Rome']
    >>> encoder.transform(table)[1].tolist(), encoder.notes
    ([40.0, 1.0, 0.0, 1.0], ['age: 1 missing value filled with the median 40.'])
    >>> TableEncoder(kinds={"town": "identifier"}).fit(table).column_names_
    ['age', 'age=(missing)']
    """

    progress: Progress | None = None
    """Called with what is done and what there is to do as :meth:`fit` embeds sentences."""

    def __init__(
        self,
        *,
        kinds: Mapping[str, str] | None = None,
        text_encoder: str | None = None,
        pictures: PictureReader | None = None,
    ) -> None:
        self.kinds, self.text_encoder, self.pictures = kinds, text_encoder, pictures
        self.notes: list[str] = []

    def fit(self, X: Any, y: ArrayLike | None = None) -> "TableEncoder":
        """Learn from ``X``, a data frame or an array (rows, columns) of numbers.

        Args:
            y: labels (rows,), or a 0/1 matrix (rows, attributes): free text then has a column of log-odds for each
                class as well. Other columns do not use it.
        """
        return self._fit(X, y, {})

    def _fit(self, X: Any, y: ArrayLike | None, read: dict[str, Read]) -> "TableEncoder":
        """Learn from ``X``, and keep in ``read`` the numbers and dates of texts that are too many to be read twice."""
        table = as_table(X)
        if len(table) == 0:
            raise InvalidInputError("the table must have rows to learn from, got none; give the training rows.")
        labels = None if y is None else label_array(y)
        if labels is not None and len(labels) != len(table):
            raise InvalidInputError(f"y must have a label for each of the {len(table)} rows, got {len(labels)}.")
        notes: list[str] = []
        kept, guesses = [], []
        using = LearningTools(labels, self.text_encoder, self.pictures, self.progress)
        for guess in guess_kinds(table, self.kinds):
            column = learn_column(guess, _column(table, guess.name), notes, using)
            guesses.append(replace(guess, parsed=None, counts={}))  # which may be as large as the table
            if column is None:
                continue
            kept.append(column)
            parsed = guess.parsed
            if parsed is not None and _has_many_texts(table[guess.name]) and not (parsed.words or parsed.unread.any()):
                read[guess.name] = parsed.numbers, parsed.unread
        if not kept:
            raise InvalidInputError(
                f"no column is left to learn from: {' '.join(notes) or 'the table has none.'} Check the table."
            )
        self.columns_, self.guesses_, self.notes = kept, guesses, notes
        return self

    def transform(self, X: Any) -> NDArray[np.floating[Any]]:
        """Return the matrix (rows, outputs) of ``X`` in ``dtype``; columns may come in any order, also with others."""
        return np.asarray(self.encode(X).values)

    def fit_transform(
        self, X: Any, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> NDArray[np.floating[Any]]:
        """Learn from ``X`` and return its matrix, on which a model can be fitted.

        It is what :meth:`transform` gives, but for the log-odds of free text: those of a row come from models that have
        not seen it, nor another row of its group. A model fitted on the others would trust them too much.

        Args:
            y: as for :meth:`fit`.
            groups: of the rows, (rows,).
        """
        read: dict[str, Read] = {}
        self._fit(X, y, read)
        return self._encode(X, None if y is None else (y, groups), read).values

    def transform_training(
        self, X: Any, y: ArrayLike | None, groups: ArrayLike | None = None
    ) -> NDArray[np.floating[Any]]:
        """Return the matrix of the rows that were learnt from, as :meth:`fit_transform` gives it."""
        return self._encode(X, None if y is None else (y, groups)).values

    def encode(self, X: Any) -> Encoded:
        """Return the matrix of :meth:`transform`, and the values that could not be read."""
        return self._encode(X, None)

    def _encode(self, X: Any, trained: tuple[Any, Any] | None, read: dict[str, Read] | None = None) -> Encoded:
        columns, table = self._fitted(), as_table(X)
        absent = [column.name for column in columns if column.name not in table.columns]
        if absent:
            named = ", ".join(" ".join(name.split()) for name in absent[:10]) + ", …" * (len(absent) > 10)
            if not is_frame(X) and len(absent) == len(columns):
                raise InvalidInputError(
                    f"the model was trained on columns with names, got an array; pass a data frame with these "
                    f"columns: {named}."
                )
            raise InvalidInputError(
                f"the table lacks {len(absent)} of the columns the model was trained on: {named}; add them."
            )
        out = np.zeros((len(table), len(self.column_names_)), dtype=self.dtype)
        lost: dict[str, NDArray[np.bool_]] = {}
        start, pending = 0, list[tuple[slice, Compact]]()
        for column in columns:
            encode, own = COLUMN_KINDS[column.kind].encode, slice(start, start + len(column.outputs))
            assert encode is not None  # other columns are not learnt from
            using = EncodingTools(trained, self.pictures, (read or {}).get(column.name))
            made = encode(_column(table, column.name), column, out[:, own], using)
            pending.append((own, made))
            if made.unread is not None and made.unread.any():
                lost[column.name] = made.unread
            start = own.stop
        if out.nbytes > LARGE:
            release_memory()  # before the pages of the matrix are touched
        for first in range(0, len(out), ROWS_AT_ONCE):  # a whole column at a time would touch all memory for each
            rows = slice(first, first + ROWS_AT_ONCE)
            for own, each in pending:
                each.write(rows, out[rows, own])
        found = out.view(EncodedRows)
        found.log_odds = self.log_odds_
        return Encoded(found, lost)

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """float64 if a column needs it, such as Unix milliseconds; otherwise float32, which takes half the memory."""
        return np.float64 if any(column.wide for column in self._fitted()) else np.float32

    @property
    def column_names_(self) -> list[str]:
        """Names of the outputs."""
        return [name for column in self._fitted() for name in column.outputs]

    @property
    def log_odds_(self) -> LogOddsColumns:
        """The outputs that are log-odds of the classes, for each encoding of each column of free text."""
        columns = self._fitted()
        starts = np.cumsum([0, *(len(column.outputs) for column in columns)]).tolist()
        return tuple(
            tuple(start + place for place in places)
            for start, column in zip(starts, columns, strict=False)
            for places in column.log_odds
        )

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:  # noqa: ARG002
        """Return the names of the outputs, as scikit-learn's ``set_output`` asks for them; its argument is not used."""
        return np.array(self.column_names_, dtype=object)

    @property
    def picture(self) -> PictureColumn | None:
        """The encoding of the first column of image paths; None where there is none."""
        return next((column.picture for column in self._fitted() if column.picture is not None), None)

    @property
    def text_columns(self) -> list[str]:
        """Columns whose values are not plain numbers, to be read as text from a file."""
        return [column.name for column in self._fitted() if COLUMN_KINDS[column.kind].text or column.notation]

    @property
    def time_columns(self) -> list[str]:
        """Columns whose values can order rows in time."""
        return [column.name for column in self._fitted() if COLUMN_KINDS[column.kind].time]

    def to_json(self) -> dict[str, Any]:
        """Return all that was learnt, as plain values."""
        columns = [json.loads(msgspec.json.encode(column)) for column in self._fitted()]
        return {"format": 1, "columns": columns, "notes": list(self.notes)}

    @classmethod
    def from_json(cls, record: Any, pictures: PictureReader | None = None) -> "TableEncoder":
        """Restore an encoder from the record of :meth:`to_json`; refuse any other record.

        Args:
            pictures: as in the constructor.
        """
        stored = as_record(record, _StoredEncoder, "the table encoding", remedy="train the model again")
        names: set[str] = set()
        for column in stored.columns:
            if column.name in names or not is_sound(column):
                what = "twice" if column.name in names else "with values that contradict each other"
                raise InvalidInputError(
                    f"the table encoding has the column {column.name!r} {what}; train the model again."
                )
            names.add(column.name)
        encoder = cls(pictures=pictures)
        encoder.columns_, encoder.notes = stored.columns, stored.notes
        return encoder

    def _fitted(self) -> list[Column]:
        if not hasattr(self, "columns_"):
            raise UnfittedEncoderError("this TableEncoder is not fitted yet; call fit first.")
        return self.columns_


def _has_many_texts(values: Any) -> bool:
    return is_text(values) and not (is_packed(values) and len(values.dtype.categories) <= LOOKED_AT)


def _column(table: Any, name: str) -> Any:
    """Return a column with the folder of its table attached."""
    values = table[name]
    values.attrs = dict(table.attrs)
    return values
