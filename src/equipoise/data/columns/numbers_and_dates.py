"""Columns of numbers and dates: learnt with notes on what was read and filled in, and encoded."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.data.columns.encoding import Column, Compact, EncodingTools, LearningTools, level_codes
from equipoise.data.columns.guess_kind import EXACT, INDICATOR_SHARE, ColumnGuess, word_counts
from equipoise.data.columns.notation import AMOUNTS, DESCRIPTIONS, plain
from equipoise.data.columns.number_range import fits_float32, median, span
from equipoise.data.columns.parsing import Parsed, parse_as
from equipoise.data.columns.texts import as_words, without_blanks
from equipoise.errors import InvalidInputError
from equipoise.wording import counted

MOST_NAMED, MOST_LOOKED_AT = 3, 2_000
"""Examples in a note, and different values among which they are looked for."""
TOO_MANY = 5  # from this many values on, most must still be what they were in training
WHOLE = re.compile(r"[+-]?[0-9]{1,400}")


def note_notation(parsed: Parsed, values: Any, name: str, notes: list[str]) -> None:
    """Add a note on how dates, amounts and words among them were read."""
    if parsed.kind == "date":
        notes.append(f"{name}: dates{f' as {parsed.notation}' * bool(parsed.notation)}, read as days since 1970-01-01.")
    elif parsed.notation in AMOUNTS:
        notes.append(f"{name}: amounts read as numbers, {_examples(parsed, values)}.")
    elif parsed.notation:
        example = next(word for word in as_words(values[~parsed.unread]).dropna() if "," in word)
        notes.append(f"{name}: {DESCRIPTIONS[parsed.notation]}, such as {example!r}.")
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


def learn_numbers(guess: ColumnGuess, values: Any, notes: list[str], _: LearningTools) -> Column:
    """Learn the median, the indicator of missing values and the notation of numbers or dates."""
    assert guess.parsed is not None
    parsed, name, known = guess.parsed, guess.name, guess.parsed.known
    fill = median(known)
    gone, missing = len(parsed.numbers) - len(known), int(values.isna().sum())
    spoken = 0
    if parsed.words:
        counts = word_counts(values)
        spoken = sum(counts[word] for word in parsed.words)
        said = ", ".join(map(repr, parsed.words))
        notes.append(f"{name}: numbers; {said} in {counted(spoken, 'row')} marked in columns of their own.")
    _note_lost_digits(parsed, values, name, notes)
    infinite = gone and gone - missing - spoken - int(parsed.unread.sum())
    if infinite:
        notes.append(f"{name}: {counted(infinite, 'infinite value')} treated as missing.")
    if gone - spoken:
        notes.append(f"{name}: {counted(gone - spoken, 'missing value')} filled with the median {fill:g}.")
    marked = 0 < INDICATOR_SHARE * len(parsed.numbers) <= gone - spoken
    return Column(name, parsed.kind, fill, marked, parsed.words, False, parsed.notation, not fits_float32(known))


def _note_lost_digits(parsed: Parsed, values: Any, name: str, notes: list[str]) -> None:
    """Add a note if whole numbers are too long for a float to hold all digits."""
    if parsed.kind != "number" or not max(map(abs, span(parsed.numbers))) > EXACT:
        return
    large = np.abs(parsed.numbers) > EXACT
    for word, number in zip(as_words(values[large]), parsed.numbers[large], strict=True):
        written = str(plain(word, parsed.notation))
        if WHOLE.fullmatch(written) and int(written) != int(number):
            notes.append(
                f"{name}: numbers above 2^53 lose their last digits, such as {written} read as {number:.0f}; the "
                "kind category or identifier avoids that."
            )
            return


def encode_numbers(values: Any, column: Column, out: NDArray[np.floating[Any]], using: EncodingTools) -> Compact:
    """Encode a column of numbers, to be written in parts."""
    if isinstance(values.dtype, np.dtype) and values.dtype.kind in "biuf":
        return Compact(column, values.to_numpy())
    return encode_parsed(values, column, out, using)


def encode_parsed(values: Any, column: Column, _: NDArray[np.floating[Any]], using: EncodingTools) -> Compact:
    """Parse and encode a column of numbers or dates, to be written in parts."""
    if using.read is not None:
        return Compact(column, using.read[0], None, using.read[1])
    values = without_blanks(values)
    numbers, unread = parse_as(values, column.kind, column.notation)
    places = None
    if column.levels and unread.any():
        codes = np.where(unread, level_codes(values, column), -1)
        places, unread = np.where(codes >= 0, 1 + codes, -1), unread & (codes < 0)
    _check_kind(values, column, unread)
    with np.errstate(over="ignore"):
        return Compact(column, numbers if column.wide else numbers.astype(np.float32), places, unread)


def _check_kind(values: Any, column: Column, unread: NDArray[np.bool_]) -> None:
    """Refuse a column most of whose values are unreadable: a few are typos, more make it a different column."""
    known = int(values.notna().sum())
    if known >= TOO_MANY and unread.sum() > known / 2:
        raise InvalidInputError(
            f"the column {column.name!r} held {column.kind}s in training but now holds "
            f"{as_words(values[unread]).iloc[0]!r} and others that are not, {unread.sum()} of {known}; correct or "
            "empty them."
        )


def show_numbers(numbers: NDArray[np.floating[Any]]) -> list[str]:
    """Format numbers as examples of a column."""
    return [f"{value:g}" for value in numbers]


def show_days(days: NDArray[np.floating[Any]]) -> list[str]:
    """Format days since 1970 as examples of a column."""
    return [str(day) for day in days.round().astype("datetime64[D]")]
