"""Columns of categories: their levels, encoded as one 0/1 output each."""

import heapq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.data.columns.encoding import Column, Compact, EncodingTools, Halves, LearningTools, level_codes
from equipoise.data.columns.guess_kind import MOST_LEVELS, ColumnGuess
from equipoise.data.columns.texts import distinct, fold_case, without_blanks
from equipoise.wording import counted


def learn_levels(guess: ColumnGuess, values: Any, notes: list[str], _: LearningTools) -> Column:
    """Learn the levels of a category: its most frequent values."""
    name, counts, missing = guess.name, dict(guess.counts), int(values.isna().sum())
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


def encode_levels(values: Any, column: Column, _: NDArray[np.floating[Any]], __: EncodingTools) -> Compact:
    """Encode a column of categories, to be written in parts."""
    return Compact(column, None, _level_places(without_blanks(values), column))


def _level_places(values: Any, column: Column) -> NDArray[np.signedinteger[Any]]:
    """Return the index of each value's 0/1 output: its level, the rare or the missing ones; -1 if it has none."""
    other = len(column.levels) if column.other else -1
    missing = len(column.outputs) - 1 if column.indicator else other
    small = np.min_scalar_type(-len(column.outputs))
    texts = distinct(values)
    codes = level_codes(values if texts is None else texts.values, column).astype(small)
    places = np.where(codes < 0, small.type(other), codes)
    if texts is not None:
        return texts.spread(places, missing)
    return np.where(values.isna().to_numpy() & (codes < 0), small.type(missing), places)


def rank_by_level(words: list[str], rare: NDArray[np.bool_], halves: Halves) -> NDArray[np.float64]:
    """Return the share of a class among the rows of the other half with the same value, (rows,)."""
    codes = np.unique(np.array(words, dtype=str), return_inverse=True)[1]
    score = np.zeros(len(rare))
    for fit, rest in halves:
        ones = np.bincount(codes[fit], rare[fit], minlength=codes.max() + 1)
        every = np.bincount(codes[fit], minlength=codes.max() + 1)
        score[rest] = ((ones + rare[fit].mean()) / (every + 1))[codes[rest]]
    return score
