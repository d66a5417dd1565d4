"""``TableEncoder``: the columns of a table as a matrix of numbers, stored as plain JSON."""

from __future__ import annotations

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
from equipoise.data.data_frames import as_table, has_feature_names, is_frame
from equipoise.data.encoded_rows import EncodedRows, LogOddsColumns
from equipoise.data.labels import label_array
from equipoise.data.samples import Progress
from equipoise.errors import InvalidInputError, InvalidStateError
from equipoise.storage.records import as_record
from equipoise.wording import counted

ROWS_AT_ONCE, LARGE = 4096, 1 << 26
"""Rows of the matrix that are written at once, and bytes from which memory is returned before."""


class _StoredEncoder(msgspec.Struct):
    """An encoder as a file holds it."""

    format: Literal[1]
    columns: Annotated[list[Column], msgspec.Meta(min_length=1)]
    notes: list[str] = []


class Encoded(NamedTuple):
    """An encoded table, (rows, outputs), and for each column a mask of the rows whose value could not be read."""

    values: NDArray[np.floating[Any]]
    unread: dict[str, NDArray[np.bool_]]


class UnfittedEncoderError(InvalidStateError, NotFittedError):  # type: ignore[misc]
    """The encoder is not fitted; a subclass of scikit-learn's own error."""


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Encode the columns of a table as numbers, as learnt from a training table.

    Each column holds numbers, dates, categories, free text or image paths; identifiers and constants are left out.
    The kind of a column is guessed from its values unless ``kinds`` sets it.

    Numbers may be booleans, or text such as ``1,234.50``, ``1.234,50 €``, ``(132.10)``, ``8%`` or ``1.5k``. A missing
    or infinite one becomes the median of the training column, with a further 0/1 column that marks it where at least
    1 % are missing. A word among numbers or dates (1 % of them at most) counts as missing; :meth:`encode` also
    returns where. Up to three words that recur among numbers, such as ``refused``, have a 0/1 column each.
    Dates become days since 1970; the year comes first, or the day or month if it is clear which.
    A category has one 0/1 column per value, one for all rare values (beyond the 50 most frequent, or seen once) and one
    for missing values. A value never seen in training counts as rare; where training had none, it has 0 in all columns.
    Free text becomes up to 50 columns from its word and character n-grams and, with labels, one of log-odds per class;
    a sentence encoder adds as many from its embeddings, which are cached on disk.

    Args:
        kinds: kind by column name, for columns whose kind is not to be guessed: ``"number"``, ``"date"``,
            ``"category"``, ``"text"``, ``"image"``, ``"identifier"`` or ``"constant"``.
        text_encoder: sentence encoder for free text, used beside n-grams: a name or folder for sentence-transformers,
            or ``"none"`` for n-grams only. None is all-MiniLM-L6-v2 if the extra ``text`` is installed and the table
            has up to 20,000 rows.
        pictures: reader of the images that a column of paths names, such as
            :class:`equipoise.models.picture_features.PictureFeatures`; None leaves such columns out. Relative paths
            start at the folder of the table's file if it was read from one, otherwise at the working directory.

    Attributes:
        guesses_: the kind of each column and the reason for it.
        notes_: sentences on what was filled in, left out or merged.
        n_features_in_, feature_names_in_: columns of the training table; the names only if it was a data frame.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": [31, None, 54, 40], "town": ["Oslo", "Rome", "Oslo", "Rome"]})
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.column_names_
    ['age', 'age=(missing)', 'town=Oslo', 'town=Rome']
    >>> encoder.transform(table)[1].tolist(), encoder.notes_
    ([40.0, 1.0, 0.0, 1.0], ['age: 1 missing value filled with the median 40.'])
    >>> TableEncoder(kinds={"town": "identifier"}).fit(table).column_names_
    ['age', 'age=(missing)']
    """

    progress: Progress | None = None
    """Callback (done, total) while :meth:`fit` embeds sentences."""

    def __init__(
        self,
        *,
        kinds: Mapping[str, str] | None = None,
        text_encoder: str | None = None,
        pictures: PictureReader | None = None,
    ) -> None:
        self.kinds, self.text_encoder, self.pictures = kinds, text_encoder, pictures

    def fit(self, X: Any, y: ArrayLike | None = None) -> TableEncoder:
        """Learn the kind and the encoding of each column.

        Args:
            X: a data frame, or an array of numbers (rows, columns).
            y: labels (rows,), or a 0/1 matrix (rows, attributes); with them, free text also gets a column of log-odds
                for each class. Other columns do not use them.
        """
        return self._fit(X, y, {})

    def _fit(self, X: Any, y: ArrayLike | None, read: dict[str, Read]) -> TableEncoder:
        """Fit to ``X``, and store in ``read`` the parsed values of columns that are too long to be parsed twice."""
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
        self.columns_, self.guesses_, self.notes_ = kept, guesses, notes
        self.n_features_in_ = len(table.columns)
        self.__dict__.pop("feature_names_in_", None)  # those of an earlier fit
        if has_feature_names(X):
            self.feature_names_in_ = np.array(table.columns, dtype=object)
        return self

    def transform(self, X: Any) -> NDArray[np.floating[Any]]:
        """Encode ``X`` as a matrix (rows, outputs); columns may be in any order, and unknown ones are ignored."""
        return np.asarray(self.encode(X).values)

    def fit_transform(
        self, X: Any, y: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> NDArray[np.floating[Any]]:
        """Fit to ``X`` and return its matrix, (rows, outputs), to fit a model on.

        It equals that of :meth:`transform`, except that the log-odds of free text are cross-fitted: a model fitted on
        in-sample log-odds would rely on them too much.

        Args:
            X: as for :meth:`fit`, (rows, columns).
            y: as for :meth:`fit`, (rows,) or (rows, attributes).
            groups: group of each row, (rows,); log-odds of a row come from models fitted without its group.
        """
        read: dict[str, Read] = {}
        self._fit(X, y, read)
        return self._encode(X, None if y is None else (y, groups), read).values

    def transform_training(
        self, X: Any, y: ArrayLike | None, groups: ArrayLike | None = None
    ) -> NDArray[np.floating[Any]]:
        """Encode the training rows again, as :meth:`fit_transform` does."""
        return self._encode(X, None if y is None else (y, groups)).values

    def encode(self, X: Any) -> Encoded:
        """Encode ``X`` as :meth:`transform` does, and also return which values could not be read."""
        return self._encode(X, None)

    def _encode(self, X: Any, trained: tuple[Any, Any] | None, read: dict[str, Read] | None = None) -> Encoded:
        columns, table = self._fitted(), as_table(X)
        self._check_columns(X, table)
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

    def _check_columns(self, X: Any, table: Any) -> None:
        """Raise an error if ``X``, given as this ``table``, lacks columns, or as an array has further ones."""
        columns, found = self._fitted(), len(table.columns)
        known = getattr(self, "n_features_in_", found)  # unknown after from_json
        if not (is_frame(X) or hasattr(self, "feature_names_in_") or found == known):
            raise InvalidInputError(
                f"X has {found} features, but TableEncoder is expecting {known} features as input; pass an array with "
                "the columns of the training table."
            )
        absent = [column.name for column in columns if column.name not in table.columns]
        if absent:
            named = ", ".join(" ".join(name.split()) for name in absent[:10]) + ", …" * (len(absent) > 10)
            if not is_frame(X) and len(absent) == len(columns):
                raise InvalidInputError(
                    f"the model was trained on columns with names, got an array; pass a data frame with these "
                    f"columns: {named}."
                )
            raise InvalidInputError(
                f"the table lacks {counted(len(absent), 'column')} that the model was trained on: {named}; "
                "add what is missing."
            )

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """Type of the matrix: float64 if a column needs it, such as Unix milliseconds, otherwise float32."""
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = tags.input_tags.categorical = tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = []
        return tags

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:  # noqa: ARG002
        """Return the names of the outputs, for scikit-learn's ``set_output``; the argument is ignored."""
        return np.array(self.column_names_, dtype=object)

    @property
    def picture(self) -> PictureColumn | None:
        """The encoding of the first column of image paths; None where there is none."""
        return next((column.picture for column in self._fitted() if column.picture is not None), None)

    @property
    def text_columns(self) -> list[str]:
        """Columns to read from a file as text, because their values are not plain numbers."""
        return [column.name for column in self._fitted() if COLUMN_KINDS[column.kind].text or column.notation]

    @property
    def time_columns(self) -> list[str]:
        """Columns whose values can order rows in time."""
        return [column.name for column in self._fitted() if COLUMN_KINDS[column.kind].time]

    def to_json(self) -> dict[str, Any]:
        """Return the fitted encoder as plain values."""
        columns = [json.loads(msgspec.json.encode(column)) for column in self._fitted()]
        return {"format": 1, "columns": columns, "notes": list(self.notes_)}

    @classmethod
    def from_json(cls, record: Any, pictures: PictureReader | None = None) -> TableEncoder:
        """Restore an encoder from :meth:`to_json`; the record may be untrusted and is checked.

        Args:
            record: plain values, as ``json.loads`` returns them.
            pictures: as for the class.
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
        encoder.columns_, encoder.notes_ = stored.columns, stored.notes
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
