"""From the fits of benchmarks/tables.py to ranks, paired differences and times: pure functions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from equipoise.app.compare import Interval, paired_interval

Fold = tuple[str, int, int]
"""Table, seed, and number of the fold."""
Results = dict[str, dict[Fold, dict[str, Any]]]
"""Method -> fold -> scores, or an error."""
Matrix = NDArray[np.float64]
SCORES = {
    "balanced_accuracy": True,
    "g_mean": True,
    "macro_f1": True,
    "average_precision": True,
    "log_loss": False,
    "calibration_error": False,
}
"""Score -> whether higher is better."""
SAME = 0.0005
"""Table means that differ by less are a tie."""


@dataclass(frozen=True)
class Duel:
    """One method against another by one score; differences are positive where the first is better.

    Args:
        difference: mean over the tables, with its 95 % interval.
        wins, ties, losses: tables by the sign of the difference.
        clear_wins, clear_losses: tables whose own interval over the folds excludes 0.
        p: of Wilcoxon's signed-rank test over the tables, two-sided; 1 where no table differs.
    """

    difference: Interval
    wins: int
    ties: int
    losses: int
    clear_wins: int
    clear_losses: int
    p: float


def results_of(
    cells: Mapping[str, Mapping[str, Any]], same_as: Mapping[str, str], without_text: Sequence[str], separator: str
) -> Results:
    """Sort stored fits by method and fold.

    Args:
        cells: "table | seed | fold | method" -> scores.
        same_as: method -> the one whose results stand for it on tables without text columns.
        without_text: these tables.
        separator: of the parts of a cell's name.
    """
    found: Results = {}
    for key, cell in cells.items():
        table, seed, fold, method = key.split(separator)
        found.setdefault(method, {})[table, int(seed), int(fold)] = dict(cell)
    for method, other in same_as.items():
        if method in found:
            copied = {fold: cell for fold, cell in found.get(other, {}).items() if fold[0] in without_text}
            found[method] = copied | found[method]
    return found


def shared_folds(results: Results, methods: Sequence[str]) -> list[Fold]:
    """Return the folds on which each of the methods was run, whether it failed or not."""
    return sorted(set.intersection(*(set(results[method]) for method in methods)))


def fold_values(results: Results, methods: Sequence[str], folds: Sequence[Fold], name: str) -> Matrix:
    """Return a score, (methods, folds); a fit that failed has the worst value that any method has on that fold."""
    values = np.array([[results[method][fold].get(name, np.nan) for fold in folds] for method in methods], dtype=float)
    worst = np.nanmin(values, axis=0) if SCORES.get(name, False) else np.nanmax(values, axis=0)
    return np.where(np.isnan(values), worst, values)


def table_means(values: Matrix, folds: Sequence[Fold]) -> Matrix:
    """Return means over the folds of each table, (methods, tables), tables in alphabetical order."""
    names = np.array([fold[0] for fold in folds])
    return np.stack([values[:, names == name].mean(1) for name in np.unique(names)], axis=1)


def mean_ranks(means: Matrix, *, higher: bool) -> Matrix:
    """Return each method's rank among the methods, 1 the best and ties shared, averaged over the tables.

    Args:
        means: (methods, tables).
        higher: whether a higher score is better.
    """
    ranks = stats.rankdata(np.round(-means if higher else means, 6), axis=0)
    return np.asarray(ranks.mean(1))


def duel(one: Matrix, other: Matrix, folds: Sequence[Fold], *, higher: bool, test_to_train: float) -> Duel:
    """Compare two methods by their scores on the same folds, (folds,) each.

    Args:
        one, other: scores of the two.
        folds: what they are of.
        higher: whether a higher score is better.
        test_to_train: rows scored against rows fitted to, for the intervals of single tables.
    """
    gains = (one - other) if higher else (other - one)
    names = np.array([fold[0] for fold in folds])
    tables = np.unique(names)
    means = np.array([gains[names == name].mean() for name in tables])
    own = [paired_interval(gains[names == name], test_to_train=test_to_train) for name in tables]
    clear = [interval.mean for interval in own if not interval.contains_zero]
    return Duel(
        difference=paired_interval(means),
        wins=int((means >= SAME).sum()),
        ties=int((np.abs(means) < SAME).sum()),
        losses=int((means <= -SAME).sum()),
        clear_wins=sum(mean > 0 for mean in clear),
        clear_losses=sum(mean < 0 for mean in clear),
        p=float(stats.wilcoxon(means).pvalue) if np.any(means != 0) else 1.0,
    )


def time_ratios(seconds: Matrix, baseline: int) -> Matrix:
    """Return the median over the tables of each method's time divided by the baseline's.

    Args:
        seconds: (methods, tables).
        baseline: place of the method to divide by.
    """
    return np.asarray(np.median(seconds / seconds[baseline], axis=1))
