"""How much a single column says about the target: how well it ranks the rarest class, and whether it decides alone."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import balanced_accuracy_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.tree import DecisionTreeClassifier

from equipoise.data.columns.column_kinds import COLUMN_KINDS
from equipoise.data.columns.guess_kind import ColumnGuess, guess_kind
from equipoise.data.columns.texts import as_words, without_blanks

MOST_ROWS = 20_000
"""Most rows that a column is judged on, drawn evenly."""
LEAST_ROWS = 10
"""Fewest rows of each class for calling a column decisive."""
LEAVES = 4
"""Leaves per class of the tree that predicts from one column."""


class ColumnScore(NamedTuple):
    """The score of a single column, and whether it comes from values being missing rather than from the values."""

    score: float
    by_missing: bool


def rank_rarest(values: Any, guess: ColumnGuess, rare: NDArray[np.bool_]) -> ColumnScore | None:
    """Return the ROC AUC, from 0.5 to 1, with which one column alone ranks the rows of a class.

    Numbers and dates rank by value, from either end, missing ones in the middle. Categories rank by the class's
    share among rows of the other half with the same value, texts by naive Bayes on the other half's words. If knowing
    whether a value is missing ranks as well, that is the result.

    Args:
        rare: which rows are of the class, (rows,).

    Returns:
        None if there is nothing to rank, or nothing to rank by.
    """
    rows = judged_rows(len(rare))
    rare, values = rare[rows], without_blanks(values.iloc[rows])
    if not 2 <= rare.sum() <= len(rare) - 2 or not COLUMN_KINDS[guess.kind].varies:
        return None
    missing = values.isna().to_numpy()
    found = [] if _same(missing) else [ColumnScore(_either_end(rare, missing), by_missing=True)]
    by_values = _rank_values(values, guess, rows, rare)
    if by_values is not None:
        found.append(ColumnScore(by_values, by_missing=False))
    return max(found, key=lambda each: each.score, default=None)


def _rank_values(values: Any, guess: ColumnGuess, rows: NDArray[np.intp], rare: NDArray[np.bool_]) -> float | None:
    if guess.parsed is not None:
        numbers = guess.parsed.numbers[rows]
        known = np.nan_to_num(numbers, nan=float(np.nanmedian(numbers)) if not np.isnan(numbers).all() else 0.0)
        return _either_end(rare, known)
    rank = COLUMN_KINDS[guess.kind].rank
    if rank is None:
        return None
    halves = list(StratifiedKFold(2, shuffle=True, random_state=0).split(rare, rare))
    score = rank(as_words(values).fillna("").tolist(), rare, halves)
    return max(0.5, float(roc_auc_score(rare, score)))


def _either_end(rare: NDArray[np.bool_], score: NDArray[Any]) -> float:
    area = float(roc_auc_score(rare, score))
    return max(area, 1 - area)


def _same(missing: NDArray[np.bool_]) -> bool:
    return bool(missing.all() or not missing.any())


def decided_alone(values: Any, name: str, labels: NDArray[np.intp]) -> ColumnScore | None:
    """Return the cross-fitted balanced accuracy of a small tree on one column, or None if that means nothing.

    If knowing whether a value is missing does as well, that is the result.

    Args:
        values: of the column, in :func:`judged_rows`.
        name: of the column.
        labels: class indices of these rows, (rows,).
    """
    if np.bincount(labels).min() < LEAST_ROWS or len(np.bincount(labels)) < 2:
        return None
    column = without_blanks(values)
    missing = column.isna().to_numpy()
    found = [] if _same(missing) else [ColumnScore(_by_tree(missing[:, None], labels), by_missing=True)]
    x = _numbers(column, guess_kind(column, name))
    if x is not None:
        found.append(ColumnScore(_by_tree(x, labels), by_missing=False))
    return max(found, key=lambda each: each.score, default=None)


def _by_tree(x: NDArray[Any], labels: NDArray[np.intp]) -> float:
    decided = np.empty_like(labels)
    tree = DecisionTreeClassifier(max_leaf_nodes=LEAVES * len(np.unique(labels)), random_state=0)
    for fit, rest in StratifiedKFold(2, shuffle=True, random_state=0).split(x, labels):
        decided[rest] = tree.fit(x[fit], labels[fit]).predict(x[rest])
    return float(balanced_accuracy_score(labels, decided))


def _numbers(column: Any, guess: ColumnGuess) -> NDArray[np.float64] | None:
    """Return a column as a tree can split it: numbers, or categories by name; None for other kinds."""
    kind = COLUMN_KINDS[guess.kind]
    if not kind.varies:
        return None
    if guess.parsed is not None:
        limit = float(np.finfo(np.float32).max) / 2
        numbers = guess.parsed.numbers
        return np.asarray(np.clip(np.where(np.isnan(numbers), -limit, numbers), -limit, limit)[:, None])
    if not kind.levels:
        return None
    codes = np.unique(as_words(column).fillna("").to_numpy(dtype=str), return_inverse=True)[1]
    return np.asarray(codes[:, None] == np.arange(min(codes.max() + 1, 200)), dtype=np.float64)


def judged_rows(rows: int) -> NDArray[np.intp]:
    """Return the rows, of this many, that columns are judged on."""
    return np.arange(0, rows, -(-rows // MOST_ROWS))
