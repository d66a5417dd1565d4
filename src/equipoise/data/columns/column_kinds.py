"""The kinds of columns: what each declares, and the kind of each column of a table."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.data.columns.categories import encode_levels, learn_levels, rank_by_level
from equipoise.data.columns.encoding import Column, Compact, EncodingTools, Halves, LearningTools
from equipoise.data.columns.free_text import encode_text, learn_text, rank_by_words
from equipoise.data.columns.guess_kind import ColumnGuess, guess_kind, word_counts
from equipoise.data.columns.image_paths import encode_images, learn_images
from equipoise.data.columns.notation import NOTATIONS
from equipoise.data.columns.numbers_and_dates import (
    encode_numbers,
    encode_parsed,
    learn_numbers,
    note_notation,
    show_days,
    show_numbers,
)
from equipoise.data.columns.parsing import parse_fully
from equipoise.data.columns.texts import as_words, without_blanks
from equipoise.errors import InvalidInputError, listed
from equipoise.options import check_choice


def leave_out(guess: ColumnGuess, _: Any, notes: list[str], __: LearningTools) -> None:
    """Add a note on why a column is left out."""
    notes.append(f"{guess.name}: ignored, {guess.reason}.")


@dataclass(frozen=True, kw_only=True)
class ColumnKind:
    """The declaration of a kind of column; columns of a kind without ``encode`` are left out.

    Args:
        learn: returns how to encode a column, or None to leave it out, and adds notes for the user.
        encode: writes rows into their outputs (rows, outputs), at once or by what it returns.
        sound: returns whether what a file says about such a column is consistent.
        rank: returns scores of a class, (rows,), by the words of the other half of the rows; None if words say nothing.
        show: returns numbers as examples; None for a kind of words.
        levels: True if a word is a value that many rows share.
        varies: False if there is nothing to learn even from values being missing.
        time: True if the values can order rows in time.
        text: True if a file's cells must be read as text.
    """

    learn: Callable[[ColumnGuess, Any, list[str], LearningTools], Column | None] = leave_out
    encode: Callable[[Any, Column, NDArray[np.floating[Any]], EncodingTools], Compact] | None = None
    sound: Callable[[Column], bool] = lambda _: True
    rank: Callable[[list[str], NDArray[np.bool_], Halves], NDArray[np.float64]] | None = None
    show: Callable[[NDArray[np.floating[Any]]], list[str]] | None = None
    levels: bool = False
    varies: bool = True
    time: bool = False
    text: bool = True


COLUMN_KINDS: dict[str, ColumnKind] = {
    "number": ColumnKind(
        learn=learn_numbers,
        encode=encode_numbers,
        sound=lambda column: not (column.other or column.features),
        show=show_numbers,
        text=False,
    ),
    "date": ColumnKind(
        learn=learn_numbers,
        encode=encode_parsed,
        sound=lambda column: not (column.levels or column.other or column.features),
        show=show_days,
        time=True,
    ),
    "category": ColumnKind(
        learn=learn_levels,
        encode=encode_levels,
        sound=lambda column: bool(column.levels) and not column.features,
        rank=rank_by_level,
        levels=True,
    ),
    "text": ColumnKind(
        learn=learn_text,
        encode=encode_text,
        sound=lambda column: bool(column.features) and not (column.levels or column.other or column.picture),
        rank=rank_by_words,
    ),
    "image": ColumnKind(
        learn=learn_images,
        encode=encode_images,
        sound=lambda column: column.features == (column.picture,) and not (column.levels or column.other),
    ),
    "identifier": ColumnKind(),
    "constant": ColumnKind(varies=False),
}


def guess_kinds(table: Any, kinds: Mapping[str, str] | None = None) -> Iterator[ColumnGuess]:
    """Yield the kind of each column of a data frame: the user's choice in ``kinds``, or a guess from its values."""
    if not isinstance(kinds or {}, Mapping):
        raise InvalidInputError(f"kinds must be a dict of kinds by column name, got {kinds!r}.")
    given = dict(kinds or {})
    unknown = [name for name in given if name not in table.columns]
    if unknown:
        there = listed([str(name) for name in table.columns], most=30, quoted=False)
        raise InvalidInputError(f"kinds names {unknown[0]!r}, which is not a column; there are {there}.")
    for name, values in table.items():
        yield _requested_kind(values, name, given[name]) if name in given else guess_kind(values, name)


def _requested_kind(values: Any, name: str, kind: str) -> ColumnGuess:
    """Return a column as the kind that the user chose."""
    check_choice(f"the kind of column {name!r}", kind, tuple(COLUMN_KINDS))
    values = without_blanks(values)
    reason = "as requested"
    if values.isna().all():
        return ColumnGuess(name, "constant", "it has no value", chosen=True)
    if kind in NOTATIONS:
        parsed = parse_fully(values, kind)
        if np.isnan(parsed.numbers).all():
            example = as_words(values).dropna().iloc[0]
            raise InvalidInputError(
                f"the column {name!r} holds no {kind} that can be read, for example {example!r}; choose another kind."
            )
        return ColumnGuess(name, parsed.kind, reason, parsed, chosen=True)
    counts = {} if COLUMN_KINDS[kind].encode is None else word_counts(values)
    return ColumnGuess(name, kind, reason, None, counts, chosen=True)


def is_sound(column: Column) -> bool:
    """Return whether a column from an untrusted file is consistent and of a kind with an encoding."""
    kind = COLUMN_KINDS.get(column.kind, ColumnKind())
    return kind.encode is not None and column.sound and kind.sound(column)


def learn_column(guess: ColumnGuess, values: Any, notes: list[str], using: LearningTools) -> Column | None:
    """Return how to encode a column, or None to leave it out; add notes for the user."""
    values = without_blanks(values)
    if guess.parsed is not None:
        note_notation(guess.parsed, values, guess.name, notes)
    return COLUMN_KINDS[guess.kind].learn(guess, values, notes, using)
