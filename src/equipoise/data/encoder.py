"""From the columns of a table to a matrix of numbers, and back into a file as plain JSON."""

import re
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError

from equipoise.data.delimited import check_names
from equipoise.data.parsing import (
    FORMS,
    LOOKED_AT,
    PLAIN,
    SAID,
    Kind,
    Parsed,
    as_words,
    fits_float32,
    is_some_form,
    parse,
    parse_as,
    relabelled,
    without_blanks,
)
from equipoise.errors import InvalidInputError, InvalidStateError

FORMAT = 1
MOST_LEVELS, MOST_NAMED = 50, 3
INDICATOR_SHARE = 0.01
TOO_MANY = 5  # of so many values, most must be what they were in training
ID_NAME = re.compile(r"(?i:^(id|uuid|guid|index|key|row|no)$|^unnamed|[_\s.-](id|uuid|guid|key|index)$)|[a-z](Id|ID)$")
OTHER, MISSING = "(other)", "(missing)"
EXACT = 2.0**53  # the whole numbers up to here are floats of their own
LARGEST, LARGEST_FLOAT32 = float(np.finfo(np.float64).max), float(np.finfo(np.float32).max)


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one column is encoded.

    ``fill`` stands for missing numbers and dates, ``form`` is how they are written, ``wide`` whether they need float64;
    ``levels`` are a category's values.
    """

    name: str
    kind: Kind
    fill: float
    indicator: bool
    levels: tuple[str, ...]
    other: bool
    form: str = PLAIN  # records of earlier versions lack it, and the next
    wide: bool = False

    @property
    def outputs(self) -> list[str]:
        """Names of the columns it becomes."""
        if self.kind == "category":
            ends = [OTHER] * self.other + [MISSING] * self.indicator
            return [f"{self.name}={level}" for level in (*self.levels, *ends)]
        return [self.name] + [f"{self.name}={MISSING}"] * self.indicator


class Encoded(NamedTuple):
    """A table as numbers.

    Args:
        values: (rows, outputs).
        unread: columns with a word among their numbers or dates -> the rows that have one, (rows,).
    """

    values: NDArray[np.floating[Any]]
    unread: dict[str, NDArray[np.bool_]]


class UnfittedEncoderError(InvalidStateError, NotFittedError):  # type: ignore[misc]
    """An encoder that has learnt no table; scikit-learn takes it for one of its own."""


class TableEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
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
        self.notes: list[str] = []

    def fit(self, X: Any, y: Any = None) -> "TableEncoder":  # noqa: ARG002
        """Learn from ``X``, a data frame or an array (rows, columns) of numbers; ``y`` is not used."""
        table = as_table(X)
        if len(table) == 0:
            raise InvalidInputError("the table has no rows to learn from; give the training rows.")
        notes: list[str] = []
        kept = [column for name, values in table.items() if (column := _learn(values, name, notes)) is not None]
        if not kept:
            raise InvalidInputError(
                f"no column is left to learn from: {' '.join(notes) or 'the table has none.'} Check the table."
            )
        self.columns_, self.notes = kept, notes
        return self

    def transform(self, X: Any) -> NDArray[np.floating[Any]]:
        """Return the matrix (rows, outputs) of ``X`` in ``dtype``; columns may come in any order, also with others."""
        return self.encode(X).values

    def encode(self, X: Any) -> Encoded:
        """Return what :meth:`transform` gives, and which values could not be read."""
        columns, table = self._fitted(), as_table(X)
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
            unread = _encode(table[column.name], column, out[:, start : start + width])
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

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:  # noqa: ARG002
        """Return the names of the outputs, as scikit-learn's ``set_output`` asks for them; its argument is not used."""
        return np.array(self.column_names_, dtype=object)

    @property
    def text_columns(self) -> list[str]:
        """Columns whose values are not plain numbers: to be read as they stand in a file."""
        return [column.name for column in self._fitted() if column.kind != "number" or column.form]

    def to_json(self) -> dict[str, Any]:
        """Return everything learnt, as plain values."""
        columns = [msgspec.to_builtins(column) | {"levels": list(column.levels)} for column in self._fitted()]
        return {"format": FORMAT, "columns": columns, "notes": list(self.notes)}

    @classmethod
    def from_json(cls, record: Any) -> "TableEncoder":
        """Return the encoder of which :meth:`to_json` gave the record; any other record is refused."""
        given = record if isinstance(record, dict) and record.get("format") == FORMAT else {}
        if not isinstance(given.get("columns"), list):
            raise InvalidInputError(f"this is no table encoding of format {FORMAT}; train the model again.")
        encoder = cls()
        encoder.columns_ = [_column_of(column) for column in given["columns"]]
        names, notes = {column.name for column in encoder.columns_}, given.get("notes", [])
        sound = isinstance(notes, list) and all(isinstance(note, str) for note in notes)
        if not names or len(names) < len(encoder.columns_) or not sound:
            raise InvalidInputError("the table encoding has no columns, or one of them twice; train the model again.")
        encoder.notes = list(notes)
        return encoder

    def _fitted(self) -> list[Column]:
        if not hasattr(self, "columns_"):
            raise UnfittedEncoderError("this TableEncoder has learnt no table yet; call fit first.")
        return self.columns_


def as_table(frame: Any) -> Any:
    """Return a data frame whose columns are named by text, each once; those of an array are numbered."""
    if not isinstance(frame, pd.DataFrame):
        values = np.asarray(frame)
        if values.ndim != 2:
            raise InvalidInputError(f"a table has rows and columns, got an array of shape {values.shape}.")
        frame = pd.DataFrame(values, columns=[f"column {number}" for number in range(1, values.shape[1] + 1)])
    names = [str(name) for name in frame.columns]
    check_names(names, "the table")
    return relabelled(frame, names)


def _column_of(record: Any) -> Column:
    """A column from a file that anyone may have written."""
    fields = Column.__struct_fields__
    if not isinstance(record, dict) or not set(fields[:6]) <= set(record) <= set(fields):
        raise InvalidInputError(f"a column of the table encoding must have the fields {', '.join(fields)}.")
    wrong = f"the table encoding has a value of the wrong type in column {record['name']!r}."
    try:
        column = msgspec.convert(record, Column)
    except msgspec.ValidationError:
        raise InvalidInputError(wrong) from None
    levels = column.levels
    sound = abs(column.fill) <= LARGEST and column.form in FORMS[column.kind] and len(set(levels)) == len(levels)
    if not sound or (column.kind == "category") != bool(levels):
        raise InvalidInputError(wrong)
    return column


def _learn(values: Any, name: str, notes: list[str]) -> Column | None:
    """How to encode one column, or None to leave it out; a note for what a user would want to know."""
    values = without_blanks(values)
    if values.isna().all():
        notes.append(f"{name}: ignored, it has no value.")
        return None
    parsed = None if isinstance(values.dtype, pd.CategoricalDtype) else parse(values)
    if parsed is None:
        return _learn_levels(as_words(values), name, notes)
    _note_form(parsed, values, name, notes)
    return _learn_numbers(parsed, values, name, notes)


def _note_form(parsed: Parsed, values: Any, name: str, notes: list[str]) -> None:
    """Say what was made of the text."""
    if parsed.kind == "date":
        notes.append(f"{name}: dates{f' as {parsed.form}' * bool(parsed.form)}, taken as days since 1970-01-01.")
    elif parsed.form:
        example = next(word for word in as_words(values[~parsed.unread]).dropna() if "," in word)
        notes.append(f"{name}: {SAID[parsed.form]}, such as {example!r}.")
    number = int(parsed.unread.sum())
    if number:
        words = as_words(values[parsed.unread]).drop_duplicates().tolist()
        listed = ", ".join(map(repr, words[:MOST_NAMED])) + ", …" * (len(words) > MOST_NAMED)
        are = f"value that is no {parsed.kind}" if number == 1 else f"values that are no {parsed.kind}s"
        notes.append(f"{name}: {number} {are} ({listed}) taken as missing.")


def _learn_numbers(parsed: Parsed, values: Any, name: str, notes: list[str]) -> Column | None:
    numbers = parsed.numbers
    known = numbers[~np.isnan(numbers)]
    if len(known) and np.abs(known).max() > LARGEST_FLOAT32:
        known = known[np.abs(known) <= _largest(float(np.median(known)))]
    gone = len(numbers) - len(known)
    why = _why_left_out(known, gone, parsed, values, name)
    if why:
        notes.append(f"{name}: ignored, {why}.")
        return None
    fill = float(np.median(known))
    infinite = gone and gone - int(values.isna().sum()) - int(parsed.unread.sum())
    if infinite:
        notes.append(f"{name}: {_count(infinite, 'infinite value')} taken as missing.")
    if gone:
        notes.append(f"{name}: {_count(gone, 'missing value')} filled with the median {fill:g}.")
    marked = 0 < INDICATOR_SHARE * len(numbers) <= gone
    return Column(name, parsed.kind, fill, marked, (), False, parsed.form, not fits_float32(known))


def _why_left_out(known: NDArray[np.float64], gone: int, parsed: Parsed, values: Any, name: str) -> str:
    if len(known) == 0:
        return "it has no finite value"
    if known.min() == known.max() and gone < INDICATOR_SHARE * len(parsed.numbers):
        different = as_words(values).nunique() if abs(known[0]) > EXACT else 1
        same = f"its {different} different values are too large to be told apart, all about"
        return f"{same if different > 1 else 'it is'} {known[0]:g} in every row"
    named = parsed.kind == "number" and gone == 0 and _names_rows(known, name)
    return "it looks like an identifier" if named else ""


def _largest(typical: float) -> float:
    """The largest value taken for a measurement: beyond float32 it marks a hole, unless all are of that size."""
    return LARGEST if abs(typical) > LARGEST_FLOAT32 else LARGEST_FLOAT32


def _names_rows(known: NDArray[np.float64], name: str) -> bool:
    """1, 2, 3, ... in the order of the rows, or whole numbers, all different, under a name such as id."""
    if len(known) < 3 or not (known == np.floor(known)).all():
        return False
    counted = known[0] in (0, 1) and bool((np.diff(known) == 1).all()) and len(known) >= 20
    return counted or (bool(ID_NAME.search(name)) and len(np.unique(known)) == len(known))


def _learn_levels(words: Any, name: str, notes: list[str]) -> Column | None:
    counts = words.value_counts().to_dict()
    known, missing = sum(counts.values()), int(words.isna().sum())
    if len(counts) == 1 and not missing:
        notes.append(f"{name}: ignored, it is {next(iter(counts))!r} in every row.")
        return None
    if max(counts.values()) == 1 or (len(counts) > 20 and len(counts) > known / 2):
        some = list(counts)[:LOOKED_AT]
        why = "looks like an identifier"
        if sum(map(is_some_form, some)) > 0.9 * len(some):
            why = f"holds numbers or dates in a form not known, such as {some[0]!r}; write 1234.5 or 2020-01-31"
        notes.append(f"{name}: ignored, it {why} ({len(counts)} different values in {known} rows).")
        return None
    often = sorted((word for word in counts if counts[word] > 1), key=lambda word: (-counts[word], word))
    kept = often[:MOST_LEVELS]
    rare = len(counts) - len(kept)
    if rare:
        notes.append(f"{name}: {_count(rare, 'rare category', 'rare categories')} of {len(counts)} put together.")
    if missing:
        notes.append(f"{name}: {_count(missing, 'missing value')} taken as a category of its own.")
    return Column(name, "category", 0.0, missing > 0, tuple(sorted(kept)), rare > 0)


def _encode(values: Any, column: Column, out: NDArray[np.floating[Any]]) -> NDArray[np.bool_]:
    """Write one column's outputs into ``out`` (rows, outputs), which comes full of zeros, and say which values were no
    number or date where one belongs: they count as missing."""
    values = without_blanks(values)
    if column.kind == "category":
        words = as_words(values)
        codes = pd.Index(column.levels, dtype=object).get_indexer(words)
        unknown = codes < 0
        gone = words.isna().to_numpy() & unknown
        out[np.flatnonzero(~unknown), codes[~unknown]] = 1
        if column.other:
            out[unknown & ~(gone & column.indicator), len(column.levels)] = 1
        if column.indicator:
            out[gone, -1] = 1
        return np.zeros(len(words), dtype=np.bool_)
    numbers, unread = parse_as(values, column.kind, column.form)
    known = int(values.notna().sum())
    if known >= TOO_MANY and unread.sum() > known / 2:  # a few are mistakes, a column of them is another column
        raise InvalidInputError(
            f"the column {column.name!r} held {column.kind}s in training but now holds "
            f"{as_words(values[unread]).iloc[0]!r} and others that are none, {unread.sum()} of {known}; correct or "
            "empty them."
        )
    gone = np.isnan(numbers) | (np.abs(numbers) > _largest(column.fill))
    out[:, 0] = np.where(gone, column.fill, numbers)
    if column.indicator:
        out[:, 1] = gone
    return unread


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
