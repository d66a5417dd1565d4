"""Guesses of each column's kind, with reasons: number, date, category, text, or nothing to learn from."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from equipoise.data.columns.notation import AMOUNTS, is_some_notation, plain
from equipoise.data.columns.number_range import span
from equipoise.data.columns.parsing import LOOKED_AT, Parsed, parse
from equipoise.data.columns.texts import as_words, distinct, is_packed, without_blanks
from equipoise.data.images.scan import SUFFIXES
from equipoise.wording import are_codes, counted

MOST_LEVELS = 50
MANY_VALUES, MANY_WORDS = 20, 3
"""Fewest distinct values for mostly unique ones to mean identifier or text; average words of a text."""
MANY_ROWS = 100
IMAGES_SHARE = 0.9
INDICATOR_SHARE = 0.01
LONGEST_SHOWN = 60  # characters of a value in a reason
EXACT = 2.0**53  # whole numbers up to here are exact floats
ID_NAME = re.compile(r"(?i:^(id|uuid|guid|index|key|row|no)$|^unnamed|[_\s.-](id|uuid|guid|key|index)$)|[a-z](Id|ID)$")
LONG_NUMBER = 1e14
"""Mostly distinct whole numbers from here on (15 digits and more) are identifiers, unless they are times."""
TIMES = ((1e15, 2.2e15), (1e18, 2.2e18))
"""Range of micro- and nanoseconds since 1970 for the years 2001 to 2039."""
WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\d_]{2}")
"""Pattern of a word: two letters, or one character of a script without spaces."""


@dataclass(frozen=True)
class ColumnGuess:
    """The guessed kind of a column.

    Args:
        name: of the column.
        kind: ``"number"``, ``"date"``, ``"category"``, ``"text"``, ``"image"``, ``"identifier"``, ``"constant"``, or
            another in ``COLUMN_KINDS``.
        reason: why, as the end of a sentence.
        parsed: the column as numbers or dates; None for other kinds.
        counts: how often each value occurs, for categories, text and text identifiers.
        chosen: whether the user chose the kind.
    """

    name: str
    kind: str
    reason: str
    parsed: Parsed | None = field(default=None, repr=False)
    counts: Mapping[str, int] = field(default_factory=dict, repr=False)
    chosen: bool = False


def guess_kind(values: Any, name: str) -> ColumnGuess:
    """Guess the kind of a column.

    >>> guess_kind(pd.Series(["1,50 €", "20,00 €", "3,10 €"]), "price").kind
    'number'
    >>> guess_kind(pd.Series(["Oslo", "Rome", "Oslo"]), "town")
    ColumnGuess(name='town', kind='category', reason='2 different values', chosen=False)
    """
    values = without_blanks(values)
    if values.isna().all():
        return ColumnGuess(name, "constant", "it has no value")
    parsed = None if _is_category(values) else parse(values)
    if parsed is None:
        return _of_words(values, name)
    written = parsed.kind == "number" and not pd.api.types.is_numeric_dtype(values.dtype)
    if written and _are_codes(values):
        return _of_codes(_of_words(values, name))
    return _of_numbers(parsed, values, name)


def _of_numbers(parsed: Parsed, values: Any, name: str) -> ColumnGuess:
    why = _why_left_out(parsed, values, name)
    if why is not None:
        return ColumnGuess(name, *why, parsed)
    number = int(parsed.unread.sum())
    what = f"all but {number} of its values are {parsed.kind}s" if number else f"its values are {parsed.kind}s"
    what += _written(parsed, values)
    what += f", besides the answer {' or '.join(map(repr, parsed.words))}" * bool(parsed.words)
    return ColumnGuess(name, parsed.kind, what, parsed)


def _written(parsed: Parsed, values: Any) -> str:
    """Return how numbers or dates are written: the notation, or one of the amounts themselves."""
    if parsed.notation not in AMOUNTS:
        return f", written as {parsed.notation}" * bool(parsed.notation)
    read = as_words(values.iloc[np.flatnonzero(~np.isnan(parsed.numbers))[:LOOKED_AT]])
    example = next((word for word in read if plain(word, AMOUNTS[parsed.notation]) is None), read.iloc[0])
    return f", written like {example!r}"


def _why_left_out(parsed: Parsed, values: Any, name: str) -> tuple[str, str] | None:
    known, gone = parsed.known, len(parsed.numbers) - len(parsed.known)
    if len(known) == 0:
        return "constant", "it has no finite value"
    low, high = span(known)
    if low == high and gone < INDICATOR_SHARE * len(parsed.numbers):
        different = _different(values) if abs(known[0]) > EXACT else 1
        same = f"its {different} different values are too large to be distinguished, all about"
        return "constant", f"{same if different > 1 else 'it is'} {known[0]:g} in every row"
    if parsed.kind == "number" and gone == 0 and _names_rows(known, name):
        return "identifier", "it looks like an identifier"
    if parsed.kind == "number" and low >= LONG_NUMBER and _are_long(known):
        different, number = _different(values[~np.isnan(parsed.numbers)]), len(known)
        if different > number / 2:
            return "identifier", _unique_reason(different, number)
    return None


def _is_category(values: Any) -> bool:
    """Return whether the user made the column a category."""
    return isinstance(values.dtype, pd.CategoricalDtype) and not is_packed(values)


def _are_codes(values: Any) -> bool:
    """Return whether all words of a column are codes; mostly, its first ones tell that they are not."""
    first = as_words(values.iloc[:LOOKED_AT]).dropna()
    if len({len(word) for word in first}) > 1 or not all(map(str.isdigit, first)):
        return False
    texts = distinct(values)
    return are_codes(as_words(values if texts is None else texts.values).dropna())


def _different(values: Any) -> int:
    return int(values.nunique() if pd.api.types.is_integer_dtype(values.dtype) else as_words(values).nunique())


def _names_rows(known: NDArray[np.floating[Any]], name: str) -> bool:
    """Return whether values number the rows: 1, 2, 3, ... in order; or distinct whole numbers under a name such as id.

    With at least 100 rows, possibly a part of the table, up to half of the numbers may be missing and any may be first.
    """
    some = known[:LOOKED_AT]
    if len(known) < 3 or not (some == np.floor(some)).all() or not (known == np.floor(known)).all():
        return False
    steps = np.diff(known)
    if known[0] in (0, 1) and bool((steps == 1).all()) and len(known) >= MANY_VALUES:
        return True
    if len(known) >= MANY_ROWS and bool((steps > 0).all()) and known[-1] - known[0] < 2 * len(known):
        return True
    return bool(ID_NAME.search(name)) and len(np.unique(known)) == len(known)


def _are_long(known: NDArray[np.floating[Any]]) -> bool:
    """Return whether these are whole numbers with too many digits for a measurement, and not times."""
    if len(known) < MANY_VALUES or not (known == np.floor(known)).all():
        return False
    return not any(low <= known.min() and known.max() <= high for low, high in TIMES)


def _of_words(values: Any, name: str) -> ColumnGuess:
    counts = word_counts(values)
    known = sum(counts.values())
    if len(counts) == 1 and known == len(values):
        only = next(iter(counts))
        shown = only if len(only) <= LONGEST_SHOWN else f"{only[:LONGEST_SHOWN]}…"
        return ColumnGuess(name, "constant", f"it is {shown!r} in every row", None, counts)
    if _are_images(list(counts)[:LOOKED_AT]):
        return ColumnGuess(name, "image", f"{counted(len(counts), 'path')} of image files", None, counts)
    unique = max(counts.values()) == 1 or (len(counts) > MANY_VALUES and len(counts) > known / 2)
    average = _mean_words(list(counts)[:LOOKED_AT])
    listed = _is_category(values)
    if not listed and average >= MANY_WORDS - unique and (unique or len(counts) > MOST_LEVELS):
        what = f"{len(counts)} different texts of {average:.0f} words on average"
        return ColumnGuess(name, "text", what, None, counts)
    if unique:
        return ColumnGuess(name, "identifier", _unique_reason(len(counts), known, _why_unique(counts)), None, counts)
    return ColumnGuess(name, "category", counted(len(counts), "different value"), None, counts)


def word_counts(values: Any) -> dict[str, int]:
    """Count the values of a column as text, the most frequent first, ties in order of appearance."""
    texts = distinct(values)
    if texts is None:
        return dict(as_words(values).value_counts().to_dict())
    order = np.argsort(-texts.counts, kind="stable")
    words, numbers = as_words(texts.values.iloc[order]).tolist(), texts.counts[order].tolist()
    found = dict(zip(words, numbers, strict=True))
    if len(found) == len(words):
        return found
    found = {}
    for word, number in zip(words, numbers, strict=True):  # they differ in the spaces around them
        found[word] = found.get(word, 0) + number
    return dict(sorted(found.items(), key=lambda each: -each[1]))


def _are_images(words: list[str]) -> bool:
    """Return whether words end like names of image files."""
    return sum(os.path.splitext(word)[1].lower() in SUFFIXES for word in words) > IMAGES_SHARE * len(words)


def _mean_words(texts: list[str]) -> float:
    """Return the average number of words per text; characters of scripts without spaces count one each."""
    found = 0
    for text in texts:
        pieces = text[:LOOKED_AT].split()
        found += sum(bool(WORD.search(piece)) for piece in pieces)
        found += sum(max(0, sum("\u3040" <= sign <= "\u9fff" for sign in piece) - 1) for piece in pieces)
    return found / max(1, len(texts))


def _of_codes(guess: ColumnGuess) -> ColumnGuess:
    """Return why digits such as 01000 do not count as numbers."""
    if guess.kind == "identifier":
        return replace(guess, reason=_unique_reason(len(guess.counts), sum(guess.counts.values())))
    example = next((word for word in guess.counts if word.startswith("0")), "")
    return replace(guess, reason=f"{guess.reason}, codes with leading zeros such as {example!r}")


def _why_unique(counts: Mapping[str, int]) -> str:
    some = list(counts)[:LOOKED_AT]
    if sum(map(is_some_notation, some)) > 0.9 * len(some):
        return f"holds numbers or dates in an unknown notation, such as {some[0]!r}; write 1234.5 or 2020-01-31"
    return "looks like an identifier"


def _unique_reason(different: int, known: int, why: str = "looks like an identifier") -> str:
    return f"it {why} ({different} different values in {known} rows)"
