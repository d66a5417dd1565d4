"""How a column's encoding is learnt from training rows, with notes on what was filled in, merged or left out."""

import heapq
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.data.columns.encoding import Column
from equipoise.data.columns.guess_kind import EXACT, INDICATOR_SHARE, MOST_LEVELS, ColumnGuess
from equipoise.data.columns.notation import AMOUNTS, SAID, plain
from equipoise.data.columns.number_range import fits_float32, median, span
from equipoise.data.columns.parsing import Parsed
from equipoise.data.columns.pictures import PictureColumn, PictureReader
from equipoise.data.columns.sentence_encoder import chosen_encoder
from equipoise.data.columns.sentence_features import SentenceFeatures
from equipoise.data.columns.text_features import TextFeatures
from equipoise.data.columns.texts import as_words, fold_case, texts_or_none, without_blanks
from equipoise.data.samples import Progress
from equipoise.wording import counted

MOST_NAMED, MOST_LOOKED_AT = 3, 2_000
"""Examples in a note, and different values among which they are looked for."""
WHOLE = re.compile(r"[+-]?[0-9]{1,400}")


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
        _note_notation(guess.parsed, values, guess.name, notes)
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


def _note_notation(parsed: Parsed, values: Any, name: str, notes: list[str]) -> None:
    """Add a note on how dates, amounts and words among them were read."""
    if parsed.kind == "date":
        notes.append(f"{name}: dates{f' as {parsed.notation}' * bool(parsed.notation)}, read as days since 1970-01-01.")
    elif parsed.notation in AMOUNTS:
        notes.append(f"{name}: amounts read as numbers, {_examples(parsed, values)}.")
    elif parsed.notation:
        example = next(word for word in as_words(values[~parsed.unread]).dropna() if "," in word)
        notes.append(f"{name}: {SAID[parsed.notation]}, such as {example!r}.")
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


def _learn_text(
    guess: ColumnGuess,
    values: Any,
    notes: list[str],
    y: NDArray[Any] | None,
    text_encoder: str | None,
    progress: Progress | None,
) -> Column | None:
    words = as_words(values)
    texts = texts_or_none(words)
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
    each = {fold_case(word): [word] for word in counts}
    if len(each) == len(counts):
        return each
    found: dict[str, list[str]] = {}
    for word in sorted(counts, key=lambda word: (-counts[word], word)):
        found.setdefault(fold_case(word), []).append(word)
    return found
