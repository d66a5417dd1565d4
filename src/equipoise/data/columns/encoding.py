"""One column of a table as numbers: how its encoding is learnt from training rows and applied to others."""

import heapq
import re
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.data.columns.chosen_columns import EncodedKind
from equipoise.data.columns.distinct import distinct
from equipoise.data.columns.guess_kind import EXACT, INDICATOR_SHARE, MOST_LEVELS, ColumnGuess
from equipoise.data.columns.parsing import (
    AMOUNTS,
    FORMS,
    PLAIN,
    SAID,
    Parsed,
    Read,
    as_words,
    fits_float32,
    largest,
    median,
    parse_as,
    plain,
    span,
    without_blanks,
)
from equipoise.data.columns.pictures import PictureColumn, PictureReader
from equipoise.data.columns.sentence_encoder import chosen_encoder
from equipoise.data.columns.sentence_features import SentenceFeatures
from equipoise.data.columns.text_features import TextFeatures
from equipoise.data.samples import Progress
from equipoise.errors import InvalidInputError
from equipoise.wording import counted

MOST_NAMED, MOST_LOOKED_AT = 3, 2_000
"""Examples in a note, and different values among which they are looked for."""
WHOLE = re.compile(r"[+-]?[0-9]{1,400}")
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
    kind: EncodedKind
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
        notes.append(f"{name}: dates{f' as {parsed.form}' * bool(parsed.form)}, read as days since 1970-01-01.")
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
        notes.append(f"{name}: {number} {are} ({listed}) treated as missing.")


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
    known = parsed.known
    fill = median(known)
    gone, missing = len(parsed.numbers) - len(known), int(values.isna().sum())
    spoken = 0
    if parsed.words:
        spoken = int(as_words(values).isin(parsed.words).sum())
        said = ", ".join(map(repr, parsed.words))
        notes.append(f"{name}: numbers; {said} in {counted(spoken, 'row')} marked in columns of their own.")
    _note_lost_digits(parsed, values, name, notes)
    infinite = gone and gone - missing - spoken - int(parsed.unread.sum())
    if infinite:
        notes.append(f"{name}: {counted(infinite, 'infinite value')} treated as missing.")
    if gone - spoken:
        notes.append(f"{name}: {counted(gone - spoken, 'missing value')} filled with the median {fill:g}.")
    marked = 0 < INDICATOR_SHARE * len(parsed.numbers) <= gone - spoken
    return Column(name, parsed.kind, fill, marked, parsed.words, False, parsed.form, not fits_float32(known))


def _note_lost_digits(parsed: Parsed, values: Any, name: str, notes: list[str]) -> None:
    """Add a note if whole numbers are too long for a float to hold all digits."""
    if parsed.kind != "number" or not max(map(abs, span(parsed.numbers))) > EXACT:
        return
    large = np.abs(parsed.numbers) > EXACT
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
    notes.append(f"{guess.name}: free text ({guess.reason}), encoded as {counted(width, 'column')} {by}.")
    if found is not None and found.scores and y is not None and y.ndim == 1:
        classes, counts = np.unique(y, return_counts=True)
        rare, two = int(counts.argmin()), len(found.scores) == 1
        speaking = found.speaking_for(0 if two else rare, against=two and rare == 0)
        if speaking:
            notes.append(f"{guess.name}: words that speak for {str(classes[rare])!r}: {', '.join(speaking)}.")
    if missing:
        notes.append(f"{guess.name}: {counted(missing, 'missing text')} treated as empty.")
    return column


def _learn_pictures(guess: ColumnGuess, values: Any, notes: list[str], reader: PictureReader | None) -> Column | None:
    if reader is None:
        notes.append(f"{guess.name}: ignored, {guess.reason}; pip install 'equipoise[images]' to learn from them.")
        return None
    found, unread = PictureColumn.fit(values, guess.name, reader)
    notes.append(f"{guess.name}: {guess.reason}, encoded as {len(found.outputs)} features of {found.network}.")
    if unread:
        row, reason = next(iter(unread.items()))
        notes.append(
            f"{guess.name}: {counted(len(unread), 'picture')} that cannot be read treated as missing, such as "
            f"{values.iloc[row]!r} ({reason})."
        )
    gone = int(values.isna().sum()) + len(unread)
    return Column(guess.name, "image", 0.0, 0 < INDICATOR_SHARE * len(values) <= gone, (), False, picture=found)


def _texts(words: Any) -> list[str | None]:
    return [word if isinstance(word, str) else None for word in words]


def _learn_levels(guess: ColumnGuess, missing: int, notes: list[str]) -> Column:
    name, counts = guess.name, dict(guess.counts)
    spellings = {} if "".join(counts).isdigit() else _spellings(counts)  # there may be many ZIP codes
    folded = 0 < len(spellings) < len(counts)
    if folded:
        pair = next(same for same in spellings.values() if len(same) > 1)
        notes.append(
            f"{name}: values that differ only in case are merged, such as {' and '.join(map(repr, pair[:2]))}."
        )
        counts = {same[0]: sum(counts[word] for word in same) for same in spellings.values()}
    least = max(2, min(heapq.nlargest(MOST_LEVELS, counts.values())))
    often = (word for word, count in counts.items() if count >= least)
    kept = heapq.nsmallest(MOST_LEVELS, often, key=lambda word: (-counts[word], word))
    kept = kept or heapq.nsmallest(MOST_LEVELS, counts)
    rare = len(counts) - len(kept)
    if rare:
        notes.append(f"{name}: {counted(rare, 'rare category')} of {len(counts)} merged into one.")
    if missing:
        notes.append(f"{name}: {counted(missing, 'missing value')} treated as a category of its own.")
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
    texts, start = _texts(words), 0
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
    numbers, unread = parse_as(values, column.kind, column.form)
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
        levels = tuple(map(_fold, levels))
        words = words.map(_fold, na_action="ignore")
    return np.asarray(pd.Index(levels, dtype=object).get_indexer(words))
