"""One column of a table as numbers: its encoding, applied to rows."""

from typing import Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.data.columns.column_kinds import EncodedKind
from equipoise.data.columns.notation import NOTATIONS, PLAIN
from equipoise.data.columns.number_range import largest
from equipoise.data.columns.parsing import Read, parse_as
from equipoise.data.columns.pictures import PictureColumn, PictureReader
from equipoise.data.columns.sentence_features import SentenceFeatures
from equipoise.data.columns.text_features import TextFeatures
from equipoise.data.columns.texts import as_words, distinct, fold_case, texts_or_none, without_blanks
from equipoise.errors import InvalidInputError

TOO_MANY = 5  # from this many values on, most must still be what they were in training
OTHER, MISSING = "(other)", "(missing)"


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The encoding of one column.

    ``fill`` stands for missing numbers and dates, ``notation`` is how they are written, ``wide`` whether they need
    float64; ``levels`` are a category's values, or words that stand among numbers; ``folded`` whether case makes no
    difference to them; ``text`` is what was learnt from the n-grams of free text, ``sentences`` from its embeddings,
    ``picture`` from the pictures that image paths name.
    """

    name: str
    kind: EncodedKind
    fill: float
    indicator: bool
    levels: tuple[str, ...]
    other: bool
    notation: str = msgspec.field(default=PLAIN, name="form")  # missing in earlier records, like the next
    wide: bool = False
    folded: bool = False
    text: TextFeatures | None = None
    sentences: SentenceFeatures | None = None
    picture: PictureColumn | None = None

    @property
    def features(self) -> tuple[TextFeatures | SentenceFeatures | PictureColumn, ...]:
        """Encodings of free text or of pictures, in the order of their columns."""
        return tuple(each for each in (self.text, self.sentences, self.picture) if each is not None)

    @property
    def outputs(self) -> list[str]:
        """Names of the output columns."""
        ends = [OTHER] * self.other + [MISSING] * self.indicator
        named = [f"{self.name}={level}" for level in (*self.levels, *ends)]
        if self.features:
            return [f"{self.name} {output}" for each in self.features for output in each.outputs] + named
        return named if self.kind == "category" else [self.name, *named]

    @property
    def sound(self) -> bool:
        """True if the values are consistent, which an untrusted file need not be."""
        levels = [fold_case(level) for level in self.levels] if self.folded else self.levels
        return (
            bool(abs(self.fill) <= np.finfo(np.float64).max)
            and self.notation in NOTATIONS[self.kind]
            and len(set(levels)) == len(levels)
            and {"category": bool(levels), "number": True}.get(self.kind, not levels)
            and (self.kind == "category" or not self.other)
            and (self.kind == "text") == (self.text is not None or self.sentences is not None)
            and (self.kind == "image") == (self.picture is not None)
            and all(each.sound for each in self.features)
        )


def encode_features(
    values: Any,
    column: Column,
    out: NDArray[np.floating[Any]],
    trained: tuple[Any, Any] | None = None,
    pictures: PictureReader | None = None,
) -> NDArray[np.bool_]:
    """Write free text or pictures into ``out`` (rows, outputs); return the pictures that cannot be read.

    Args:
        trained: labels and groups of the rows, where they are those that the column was learnt from.
        pictures: reads the pictures that a column names.
    """
    values = without_blanks(values)
    if column.picture is not None:
        made, unread = column.picture.transform(values, pictures)
        out[:, : made.shape[1]] = made
        if column.indicator:
            out[:, -1] = values.isna().to_numpy() | unread
        return unread
    words = as_words(values)
    texts, start = texts_or_none(words), 0
    for each in (column.text, column.sentences):
        if each is not None:
            made = each.transform(texts) if trained is None else each.transform_training(texts, *trained)
            out[:, start : start + made.shape[1]] = made
            start += made.shape[1]
    if column.indicator:
        out[:, -1] = words.isna()
    return np.zeros(len(words), dtype=np.bool_)


class Compact(NamedTuple):
    """Rows of a column of numbers, dates or categories, shorter than their outputs.

    ``places`` are those of the 0/1 outputs that are 1, -1 where none is; ``unread`` marks values that are not numbers
    or dates where they should be: they count as missing.
    """

    column: Column
    numbers: NDArray[Any] | None
    places: NDArray[np.signedinteger[Any]] | None
    unread: NDArray[np.bool_] | None = None

    def write(self, rows: slice, out: NDArray[np.floating[Any]]) -> None:
        """Write these rows into ``out`` (rows, outputs), initially zeros."""
        places = None if self.places is None else self.places[rows]
        if self.numbers is not None:
            with np.errstate(over="ignore"):  # what float32 cannot hold counts as missing
                numbers = self.numbers[rows].astype(out.dtype, copy=False)
            gone = ~(np.abs(numbers) <= largest(self.column.fill))
            out[:, 0] = np.where(gone, self.column.fill, numbers) if gone.any() else numbers
            if self.column.indicator:
                out[:, -1] = gone if places is None else gone & (places < 0)
        if places is not None:
            known = np.flatnonzero(places >= 0)
            out[known, places[known]] = 1


def compact(values: Any, column: Column, read: Read | None = None) -> Compact:
    """Return a column of numbers, dates or categories ready to be written.

    Args:
        read: the numbers and what is not one of them, where :func:`parse_as` need not find them again.
    """
    if column.kind == "number" and isinstance(values.dtype, np.dtype) and values.dtype.kind in "biuf":
        return Compact(column, values.to_numpy(), None)
    if read is not None:
        return Compact(column, read[0], None, read[1])
    values = without_blanks(values)
    if column.kind == "category":
        return Compact(column, None, _level_places(values, column))
    numbers, unread = parse_as(values, column.kind, column.notation)
    places = None
    if column.levels and unread.any():
        codes = np.where(unread, _codes(values, column), -1)
        places, unread = np.where(codes >= 0, 1 + codes, -1), unread & (codes < 0)
    _check_kind(values, column, unread)
    with np.errstate(over="ignore"):
        return Compact(column, numbers if column.wide else numbers.astype(np.float32), places, unread)


def _check_kind(values: Any, column: Column, unread: NDArray[np.bool_]) -> None:
    """A few unreadable values are typos; if most are, it is a different column."""
    known = int(values.notna().sum())
    if known >= TOO_MANY and unread.sum() > known / 2:
        raise InvalidInputError(
            f"the column {column.name!r} held {column.kind}s in training but now holds "
            f"{as_words(values[unread]).iloc[0]!r} and others that are not, {unread.sum()} of {known}; correct or "
            "empty them."
        )


def _level_places(values: Any, column: Column) -> NDArray[np.signedinteger[Any]]:
    """Return the 0/1 output of each value: its level, the rare or the missing ones; -1 where it has none."""
    other = len(column.levels) if column.other else -1
    missing = len(column.outputs) - 1 if column.indicator else other
    small = np.min_scalar_type(-len(column.outputs))
    texts = distinct(values)
    codes = _codes(values if texts is None else texts.values, column).astype(small)
    places = np.where(codes < 0, small.type(other), codes)
    if texts is not None:
        return texts.spread(places, missing)
    return np.where(values.isna().to_numpy() & (codes < 0), small.type(missing), places)


def _codes(words: Any, column: Column) -> NDArray[np.intp]:
    """Return the place of each value among the levels; -1 where it is none of them."""
    texts = distinct(words)
    if texts is not None and len(texts.values) < len(words):
        return texts.spread(_codes(texts.values, column), -1)
    words = as_words(words)
    levels = column.levels
    if column.folded:
        levels = tuple(map(fold_case, levels))
        words = words.map(fold_case, na_action="ignore")
    return np.asarray(pd.Index(levels, dtype=object).get_indexer(words))
