"""One column of a table as numbers: how its encoding is learnt from training rows and applied to others."""

import heapq
import re
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.data.columns.distinct import distinct
from equipoise.data.columns.kinds import EXACT, INDICATOR_SHARE, MOST_LEVELS, ColumnGuess, finite, largest
from equipoise.data.columns.parsing import (
    AMOUNTS,
    FORMS,
    PLAIN,
    SAID,
    Kind,
    Parsed,
    as_words,
    fits_float32,
    parse_as,
    plain,
    without_blanks,
)
from equipoise.data.columns.pictures import PictureColumn, PictureReader
from equipoise.data.columns.sentence_encoder import chosen_encoder
from equipoise.data.columns.sentence_features import SentenceFeatures
from equipoise.data.columns.text_features import TextFeatures
from equipoise.data.samples import Progress
from equipoise.errors import InvalidInputError
from equipoise.wording import counted

MOST_NAMED, MOST_LOOKED_AT = 3, 10_000
"""Examples in a note, and different values among which they are looked for."""
WHOLE = re.compile(r"[+-]?[0-9]{1,400}")
ROWS_AT_ONCE = 4096
TOO_MANY = 5  # from this many values on, most must still be what they were in training
OTHER, MISSING = "(other)", "(missing)"


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The encoding of one column.

    ``fill`` stands for missing numbers and dates, ``form`` is how they are written, ``wide`` whether they need float64;
    ``levels`` are a category's values, or words that stand among numbers; ``folded`` whether case makes no difference
    to them; ``text`` is what was learnt from the n-grams of free text, ``sentences`` from its embeddings, ``picture``
    from the pictures that image paths name.
    """

    name: str
    kind: Kind
    fill: float
    indicator: bool
    levels: tuple[str, ...]
    other: bool
    form: str = PLAIN  # missing in records of earlier versions, like the next
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
        levels = [_fold(level) for level in self.levels] if self.folded else self.levels
        return (
            bool(abs(self.fill) <= np.finfo(np.float64).max)
            and self.form in FORMS[self.kind]
            and len(set(levels)) == len(levels)
            and {"category": bool(levels), "number": True}.get(self.kind, not levels)
            and (self.kind == "category" or not self.other)
            and (self.kind == "text") == (self.text is not None or self.sentences is not None)
            and (self.kind == "image") == (self.picture is not None)
            and all(each.sound for each in self.features)
        )


def learn_column(
    guess: ColumnGuess,
    values: Any,
    notes: list[str],
    y: NDArray[Any] | None = None,
    *,
    text_encoder: str | None = None,
    pictures: PictureReader | None = None,
    progress: Progress | None = None,
) -> Column | None:
    """Return how to encode a column, or None to leave it out; add notes for the user.

    Args:
        y: labels of the rows, used to encode text; None does without.
        text_encoder: of :class:`~equipoise.data.encoder.TableEncoder`.
        pictures: reads the pictures that a column names; None leaves it out.
        progress: called as sentences are embedded.
    """
    values = without_blanks(values)
    if guess.parsed is not None:
        _note_form(guess.parsed, values, guess.name, notes)
    if guess.kind in ("identifier", "constant"):
        notes.append(f"{guess.name}: ignored, {guess.reason}.")
        return None
    if guess.kind == "text":
        return _learn_text(guess, values, notes, y, text_encoder, progress)
    if guess.kind == "image":
        return _learn_pictures(guess, values, notes, pictures)
    if guess.kind == "category":
        return _learn_levels(guess, int(values.isna().sum()), notes)
    assert guess.parsed is not None
    return _learn_numbers(guess.parsed, values, guess.name, notes)


def _note_form(parsed: Parsed, values: Any, name: str, notes: list[str]) -> None:
    """Add a note on how dates, amounts and words among them were read."""
    if parsed.kind == "date":
        notes.append(f"{name}: dates{f' as {parsed.form}' * bool(parsed.form)}, taken as days since 1970-01-01.")
    elif parsed.form in AMOUNTS:
        notes.append(f"{name}: amounts read as numbers, {_examples(parsed, values)}.")
    elif parsed.form:
        example = next(word for word in as_words(values[~parsed.unread]).dropna() if "," in word)
        notes.append(f"{name}: {SAID[parsed.form]}, such as {example!r}.")
    number = int(parsed.unread.sum())
    if number:
        words = as_words(values[parsed.unread]).drop_duplicates().tolist()
        listed = ", ".join(map(repr, words[:MOST_NAMED])) + ", …" * (len(words) > MOST_NAMED)
        are = f"value that is not a {parsed.kind}" if number == 1 else f"values that are not {parsed.kind}s"
        notes.append(f"{name}: {number} {are} ({listed}) taken as missing.")


def _examples(parsed: Parsed, values: Any) -> str:
    """Return an example of how each style of amount was read."""
    found: dict[str, str] = {}
    for some in (values.iloc[: 2 * MOST_LOOKED_AT], values):  # mostly, the beginning has enough of them
        first = np.flatnonzero(~some.duplicated().to_numpy())[:MOST_LOOKED_AT]
        if len(first) == MOST_LOOKED_AT:
            break
    for word, number in zip(as_words(values.iloc[first]), parsed.numbers[first], strict=True):
        style = "" if word is None else "".join(sign for sign in word if not (sign.isdigit() or sign in "., -+"))
        if style and np.isfinite(number):
            found.setdefault(style, f"{word!r} as {number:g}")
        if len(found) == MOST_NAMED:
            break
    return ", ".join(found.values()) or "with signs between their digits"


def _learn_numbers(parsed: Parsed, values: Any, name: str, notes: list[str]) -> Column:
    known = finite(parsed)
    fill = float(np.median(known))
    gone, missing = len(parsed.numbers) - len(known), int(values.isna().sum())
    spoken = 0
    if parsed.words:
        spoken = int(as_words(values).isin(parsed.words).sum())
        said = ", ".join(map(repr, parsed.words))
        notes.append(f"{name}: numbers; {said} in {counted(spoken, 'row')} marked in columns of their own.")
    _note_lost_digits(parsed, values, name, notes)
    infinite = gone and gone - missing - spoken - int(parsed.unread.sum())
    if infinite:
        notes.append(f"{name}: {counted(infinite, 'infinite value')} taken as missing.")
    if gone - spoken:
        notes.append(f"{name}: {counted(gone - spoken, 'missing value')} filled with the median {fill:g}.")
    marked = 0 < INDICATOR_SHARE * len(parsed.numbers) <= gone - spoken
    return Column(name, parsed.kind, fill, marked, parsed.words, False, parsed.form, not fits_float32(known))


def _note_lost_digits(parsed: Parsed, values: Any, name: str, notes: list[str]) -> None:
    """Add a note if whole numbers are too long for a float to hold all digits."""
    large = np.abs(parsed.numbers) > EXACT
    if parsed.kind != "number" or not large.any():
        return
    for word, number in zip(as_words(values[large]), parsed.numbers[large], strict=True):
        written = str(plain(word, parsed.form))
        if WHOLE.fullmatch(written) and int(written) != int(number):
            notes.append(
                f"{name}: numbers above 2^53 lose their last digits, such as {written} read as {number:.0f}; the "
                "kind category or identifier avoids that."
            )
            return


def _learn_text(
    guess: ColumnGuess,
    values: Any,
    notes: list[str],
    y: NDArray[Any] | None,
    text_encoder: str | None,
    progress: Progress | None,
) -> Column | None:
    words = as_words(values)
    texts = _texts(words)
    found, encoder = TextFeatures.fit(texts, y), chosen_encoder(text_encoder, len(texts))
    sentences = None if encoder is None else SentenceFeatures.fit(texts, y, encoder, progress=progress)
    if found is None and sentences is None:
        notes.append(f"{guess.name}: ignored, no two of its texts share a word.")
        return None
    missing = int(words.isna().sum())
    column = Column(
        guess.name, "text", 0.0, 0 < INDICATOR_SHARE * len(words) <= missing, (), False, text=found, sentences=sentences
    )
    by = "by n-grams" if sentences is None else f"by {'n-grams and ' * bool(found)}the sentence encoder {encoder}"
    width = len(column.outputs) - column.indicator
    notes.append(f"{guess.name}: free text ({guess.reason}), taken as {counted(width, 'column')} {by}.")
    if found is not None and found.scores and y is not None and y.ndim == 1:
        classes, counts = np.unique(y, return_counts=True)
        rare, two = int(counts.argmin()), len(found.scores) == 1
        speaking = found.speaking_for(0 if two else rare, against=two and rare == 0)
        if speaking:
            notes.append(f"{guess.name}: words that speak for {str(classes[rare])!r}: {', '.join(speaking)}.")
    if missing:
        notes.append(f"{guess.name}: {counted(missing, 'missing text')} taken as empty.")
    return column


def _learn_pictures(guess: ColumnGuess, values: Any, notes: list[str], reader: PictureReader | None) -> Column | None:
    if reader is None:
        notes.append(f"{guess.name}: ignored, {guess.reason}; pip install 'equipoise[images]' to learn from them.")
        return None
    found, unread = PictureColumn.fit(values, guess.name, reader)
    notes.append(f"{guess.name}: {guess.reason}, taken as {len(found.outputs)} features of {found.network}.")
    if unread:
        row, reason = next(iter(unread.items()))
        notes.append(
            f"{guess.name}: {counted(len(unread), 'picture')} that cannot be read taken as missing, such as "
            f"{values.iloc[row]!r} ({reason})."
        )
    gone = int(values.isna().sum()) + len(unread)
    return Column(guess.name, "image", 0.0, 0 < INDICATOR_SHARE * len(values) <= gone, (), False, picture=found)


def _texts(words: Any) -> list[str | None]:
    return [word if isinstance(word, str) else None for word in words]


def _learn_levels(guess: ColumnGuess, missing: int, notes: list[str]) -> Column:
    name, counts = guess.name, dict(guess.counts)
    spellings = _spellings(counts)
    folded = len(spellings) < len(counts)
    if folded:
        pair = next(same for same in spellings.values() if len(same) > 1)
        notes.append(
            f"{name}: values that differ only in case are merged, such as {' and '.join(map(repr, pair[:2]))}."
        )
        counts = {same[0]: sum(counts[word] for word in same) for same in spellings.values()}
    often = (word for word in counts if counts[word] > 1)
    kept = heapq.nsmallest(MOST_LEVELS, often, key=lambda word: (-counts[word], word))
    kept = kept or heapq.nsmallest(MOST_LEVELS, counts)
    rare = len(counts) - len(kept)
    if rare:
        notes.append(f"{name}: {counted(rare, 'rare category')} of {len(counts)} put together.")
    if missing:
        notes.append(f"{name}: {counted(missing, 'missing value')} taken as a category of its own.")
    return Column(name, "category", 0.0, missing > 0, tuple(sorted(kept)), rare > 0, folded=folded)


def _spellings(counts: dict[str, int]) -> dict[str, list[str]]:
    """Return the values that differ only in case, the most frequent spelling first."""
    each = {_fold(word): [word] for word in counts}
    if len(each) == len(counts):
        return each
    found: dict[str, list[str]] = {}
    for word in sorted(counts, key=lambda word: (-counts[word], word)):
        found.setdefault(_fold(word), []).append(word)
    return found


def _fold(word: str) -> str:
    return word if word.isdigit() else " ".join(word.casefold().split())


def encode_column(
    values: Any,
    column: Column,
    out: NDArray[np.floating[Any]],
    trained: tuple[Any, Any] | None = None,
    pictures: PictureReader | None = None,
) -> NDArray[np.bool_]:
    """Write one column's outputs into ``out`` (rows, outputs), initially zeros, and return the values that are not
    numbers or dates where they should be: they count as missing.

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
    if column.kind == "text":
        words = as_words(values)
        texts, start = _texts(words), 0
        for each in (column.text, column.sentences):
            if each is not None:
                made = each.transform(texts) if trained is None else each.transform_training(texts, *trained)
                out[:, start : start + made.shape[1]] = made
                start += made.shape[1]
        if column.indicator:
            out[:, -1] = words.isna()
        return np.zeros(len(words), dtype=np.bool_)
    if column.kind == "category":
        codes = _codes(values, column)
        unknown = codes < 0
        gone = values.isna().to_numpy() & unknown
        out[np.flatnonzero(~unknown), codes[~unknown]] = 1
        if column.other:
            out[unknown & ~(gone & column.indicator), len(column.levels)] = 1
        if column.indicator:
            out[gone, -1] = 1
        return np.zeros(len(values), dtype=np.bool_)
    return _encode_numbers(values, column, out)


def _codes(words: Any, column: Column) -> NDArray[np.intp]:
    """Return the place of each value among the levels; -1 where it is none of them."""
    texts = distinct(words)
    if texts is not None and len(texts.values) < len(words):
        return texts.spread(_codes(texts.values, column), -1)
    words = as_words(words)
    levels = column.levels
    if column.folded:
        levels = tuple(map(_fold, levels))
        words = words.map(_fold, na_action="ignore")
    return np.asarray(pd.Index(levels, dtype=object).get_indexer(words))


def _encode_numbers(values: Any, column: Column, out: NDArray[np.floating[Any]]) -> NDArray[np.bool_]:
    numbers, unread = parse_as(values, column.kind, column.form)
    spoken = np.zeros_like(unread)
    if column.levels and unread.any():
        codes = np.where(unread, _codes(values, column), -1)
        spoken = codes >= 0
        out[np.flatnonzero(spoken), 1 + codes[spoken]] = 1
        unread = unread & ~spoken
    known = int(values.notna().sum())
    if known >= TOO_MANY and unread.sum() > known / 2:  # a few are typos; if most are, it is a different column
        raise InvalidInputError(
            f"the column {column.name!r} held {column.kind}s in training but now holds "
            f"{as_words(values[unread]).iloc[0]!r} and others that are not, {unread.sum()} of {known}; correct or "
            "empty them."
        )
    _write_numbers(numbers, spoken, column, out)
    return unread


def _write_numbers(
    numbers: NDArray[np.float64], spoken: NDArray[np.bool_] | bool, column: Column, out: NDArray[np.floating[Any]]
) -> None:
    gone = ~(np.abs(numbers) <= largest(column.fill))
    out[:, 0] = np.where(gone, column.fill, numbers)
    if column.indicator:
        out[:, -1] = gone & ~np.asarray(spoken)


def encode_plain_numbers(table: Any, places: Mapping[int, Column], out: NDArray[np.floating[Any]]) -> None:
    """Write columns that hold numbers already into ``out`` (rows, outputs), some rows of all of them at a time: a whole
    column at a time would touch all of its memory once for each.

    Args:
        places: the first output of each column.
    """
    numbers = {start: table[column.name].to_numpy() for start, column in places.items()}
    for first in range(0, len(out), ROWS_AT_ONCE):
        rows = slice(first, first + ROWS_AT_ONCE)
        for start, column in places.items():
            some = numbers[start][rows].astype(np.float64)
            _write_numbers(some, False, column, out[rows, start : start + len(column.outputs)])


def holds_plain_numbers(values: Any, column: Column) -> bool:
    """Return whether a column of numbers has nothing to parse."""
    return column.kind == "number" and isinstance(values.dtype, np.dtype) and values.dtype.kind in "biuf"
