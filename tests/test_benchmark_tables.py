"""How benchmarks/tables.py sums up its fits: ranks, failures, paired differences and times."""

import importlib
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def analysis(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("tables_analysis")


def stored(**methods):
    """Fits with a balanced accuracy, or an error, for each fold of the tables a and b."""
    folds = [(table, fold) for table in "ab" for fold in range(2)]
    return {
        f"{table} | 0 | {fold} | {method}": {"error": "no"} if value is None else {"balanced_accuracy": value}
        for method, values in methods.items()
        for (table, fold), value in zip(folds, values, strict=False)
    }


def test_folds_are_averaged_in_a_table_before_tables_are_ranked(analysis):
    results = analysis.results_of(stored(one=[0.9, 0.1, 0.8, 0.8], two=[0.4, 0.4, 0.9, 0.9]), {}, [], " | ")
    folds = analysis.shared_folds(results, ["one", "two"])
    values = analysis.fold_values(results, ["one", "two"], folds, "balanced_accuracy")
    means = analysis.table_means(values, folds)
    np.testing.assert_allclose(means, [[0.5, 0.8], [0.4, 0.9]])
    np.testing.assert_allclose(analysis.mean_ranks(np.c_[means, means[:, 1]], higher=True), [5 / 3, 4 / 3])
    np.testing.assert_allclose(analysis.mean_ranks(np.array([[1.0], [1.0], [0.5]]), higher=False), [2.5, 2.5, 1])


def test_a_fit_that_failed_counts_as_the_worst(analysis):
    results = analysis.results_of(stored(one=[None, 0.6], two=[0.5, 0.7], three=[0.9, 0.8]), {}, [], " | ")
    methods = ["one", "two", "three"]
    folds = analysis.shared_folds(results, methods)
    values = analysis.fold_values(results, methods, folds, "balanced_accuracy")
    np.testing.assert_allclose(values, [[0.5, 0.6], [0.5, 0.7], [0.9, 0.8]])


def test_folds_that_a_method_has_not_reached_are_left_out(analysis):
    results = analysis.results_of(stored(one=[0.5, 0.6, 0.7], two=[0.5]), {}, [], " | ")
    assert analysis.shared_folds(results, ["one", "two"]) == [("a", 0, 0)]


def test_another_method_stands_in_on_tables_without_text_only(analysis):
    cells = stored(plain=[0.1, 0.2, 0.3, 0.4], native=[None, None, 0.7, 0.8])
    cells = {key: cell for key, cell in cells.items() if "error" not in cell}
    results = analysis.results_of(cells, {"native": "plain"}, ["a"], " | ")
    assert [cell["balanced_accuracy"] for cell in results["native"].values()] == [0.1, 0.2, 0.7, 0.8]


@pytest.mark.parametrize(("higher", "sign"), [(True, 1), (False, -1)])
def test_a_duel_counts_tables_and_says_which_are_clear(analysis, higher, sign):
    folds = [(table, 0, fold) for table in "abcd" for fold in range(3)]
    gains = np.array([0.10, 0.11, 0.12, 0.2, -0.1, 0.0, 0.0, 0.0, 0.0, -0.30, -0.31, -0.32])
    found = analysis.duel(0.5 + sign * gains, np.full(12, 0.5), folds, higher=higher, test_to_train=0.5)
    assert (found.wins, found.ties, found.losses) == (2, 1, 1)
    assert (found.clear_wins, found.clear_losses) == (1, 1)
    assert found.difference.mean == pytest.approx(gains.mean())
    assert found.difference.pairs == 4


def test_wilcoxon_of_tables_that_all_differ_alike(analysis):
    folds = [(table, 0, fold) for table in "abcdef" for fold in range(2)]
    one = np.repeat([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], 2)
    assert analysis.duel(one, np.zeros(12), folds, higher=True, test_to_train=0).p == pytest.approx(2 / 2**6)
    assert analysis.duel(one, one, folds, higher=True, test_to_train=0).p == 1.0


def test_time_ratios_are_medians_over_tables(analysis):
    seconds = np.array([[1.0, 2.0, 4.0], [2.0, 2.0, 40.0]])
    np.testing.assert_allclose(analysis.time_ratios(seconds, 0), [1, 2])
