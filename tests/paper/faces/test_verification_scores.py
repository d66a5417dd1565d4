"""Verification against a case worked out by hand, slow loops and scikit-learn."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score, roc_curve

from equipoise.errors import InvalidInputError
from equipoise.paper.faces.verification_scores import (
    averaged,
    best_threshold,
    cosines,
    resolves,
    roc,
    tar_at_far,
    verification,
)
from tests.reference import verification as slow

BY_HAND = {  # fold: similarity, whether one person
    1: [(0.9, 1), (0.7, 1), (0.5, 0), (0.1, 0)],
    2: [(0.8, 1), (0.4, 1), (0.3, 0), (0.2, 0)],
    3: [(0.95, 1), (0.75, 0), (0.65, 1), (0.0, 0)],
}


def by_hand():
    rows = [(value, same, fold) for fold, pairs in BY_HAND.items() for value, same in pairs]
    return (np.array(column) for column in zip(*rows, strict=True))


def some_pairs(seed=0, pairs=400, levels=None):
    rng = np.random.default_rng(seed)
    same = rng.random(pairs) < 0.45
    similarity = rng.normal(size=pairs) + 1.2 * same
    if levels:
        similarity = np.round(similarity * levels) / levels  # ties, also across the kinds
    return similarity, same, rng.integers(1, 6, pairs)


def test_a_case_worked_out_by_hand():
    """Fold 1: of folds 2 and 3 (0 .2 .3 .75 different; .4 .65 .8 .95 same) one mistake is the least, between .3 and .4
    alone: all pairs of fold 1 but the one at .5 are right. Fold 2: of 1 and 3 (0 .1 .5 .75; .65 .7 .9 .95) one
    mistake between .5 and .65 alone: .4 is refused wrongly. Fold 3: of 1 and 2 (.1 .2 .3 .5; .4 .7 .8 .9) one mistake
    between .3 and .4 or between .5 and .7, which is the wider gap: .75 is accepted wrongly."""
    found = verification(*by_hand())
    assert [fold.threshold for fold in found.folds] == pytest.approx([0.35, 0.575, 0.6])
    assert [fold.accuracy for fold in found.folds] == [0.75, 0.75, 0.75]
    assert [(fold.name, fold.pairs) for fold in found.folds] == [(1, 4), (2, 4), (3, 4)]
    assert (found.accuracy, found.deviation, found.pairs, found.same) == (0.75, 0.0, 12, 6)
    # of 36 comparisons .4 loses to .5 and .75, .65 and .7 to .75
    assert found.roc.area == pytest.approx(32 / 36)


def test_a_fold_is_scored_without_looking_at_it():
    """Fold 2 alone would want a threshold of its own; what it gets is that of fold 1."""
    similarity = np.array([0.1, 0.2, 0.8, 0.9, 5.1, 5.2, 5.8, 5.9])
    same = np.array([0, 0, 1, 1] * 2)
    found = verification(similarity, same, [1] * 4 + [2] * 4)
    assert [fold.threshold for fold in found.folds] == pytest.approx([5.5, 0.5])
    assert [fold.accuracy for fold in found.folds] == [0.5, 0.5]


def test_a_pair_at_the_threshold_is_accepted():
    found = verification([0.0, 1.0, 0.25, 0.5], [0, 1, 0, 1], [1, 1, 2, 2])
    assert [fold.threshold for fold in found.folds] == [0.375, 0.5]
    assert [fold.accuracy for fold in found.folds] == [1.0, 1.0]


def test_mean_and_deviation_are_over_the_folds_not_the_pairs():
    similarity = np.array([0.9, 0.1, 0.9, 0.1, 0.1, 0.9, 0.9, 0.1, 0.9, 0.1])
    same = np.array([1, 0, 1, 0, 1, 0, 1, 0, 1, 0])
    found = verification(similarity, same, [1, 1, 1, 1, 2, 2, 3, 3, 3, 3])
    assert [fold.accuracy for fold in found.folds] == [1.0, 0.0, 1.0]
    assert found.accuracy == pytest.approx(2 / 3)
    assert found.deviation == pytest.approx(math.sqrt(1 / 3))
    assert found.standard_error == pytest.approx(1 / 3)


@pytest.mark.parametrize("levels", [None, 3, 1])
@pytest.mark.parametrize("seed", range(3))
def test_thresholds_are_as_good_as_any(seed, levels):
    similarity, same, fold = some_pairs(seed, levels=levels)
    threshold = best_threshold(similarity, same)
    best = slow.best_accuracy(similarity.tolist(), same.tolist())
    assert slow.accuracy_at(similarity.tolist(), same.tolist(), threshold) == pytest.approx(best)
    assert threshold not in similarity
    found = verification(similarity, same, fold)
    for each in found.folds:
        mine = fold == each.name
        others = similarity[~mine].tolist(), same[~mine].tolist()
        assert slow.accuracy_at(*others, each.threshold) == pytest.approx(slow.best_accuracy(*others))
        assert each.accuracy == slow.accuracy_at(similarity[mine].tolist(), same[mine].tolist(), each.threshold)


@given(st.lists(st.tuples(st.integers(-4, 4), st.booleans()), min_size=1, max_size=12))
def test_the_best_threshold_of_any_few_pairs(pairs):
    similarity, same = [float(value) for value, _ in pairs], [truth for _, truth in pairs]
    threshold = best_threshold(similarity, same)
    assert slow.accuracy_at(similarity, same, threshold) == pytest.approx(slow.best_accuracy(similarity, same))


def test_of_equally_good_thresholds_the_widest_gap_wins():
    assert best_threshold([0.0, 0.1, 0.9, 1.0], [0, 1, 0, 1]) == pytest.approx(0.05)  # gaps .1 and .1: the lower
    assert best_threshold([0.0, 0.1, 0.6, 1.0], [0, 1, 0, 1]) == pytest.approx(0.8)


def test_accepting_all_or_none_is_the_last_resort():
    assert best_threshold([0.2, 0.2], [1, 1]) == 0.2
    assert best_threshold([0.2, 0.2], [0, 0]) > 0.2
    assert best_threshold([0.2, 0.4], [1, 0]) == 0.2  # between them both would be wrong


def test_neighbouring_numbers_are_told_apart():
    low = 0.1
    high = np.nextafter(low, 1)
    assert best_threshold([low, high], [0, 1]) == high


@pytest.mark.parametrize("levels", [None, 2])
def test_roc_is_scikit_learns(levels):
    similarity, same, _ = some_pairs(1, levels=levels)
    found = roc(similarity, same)
    far, tar, threshold = roc_curve(same, similarity, drop_intermediate=False)
    np.testing.assert_allclose(found.far, far, rtol=0, atol=1e-15)
    np.testing.assert_allclose(found.tar, tar, rtol=0, atol=1e-15)
    np.testing.assert_array_equal(found.threshold, threshold)
    assert found.area == pytest.approx(roc_auc_score(same, similarity), abs=1e-12)
    assert found.area == pytest.approx(slow.area(similarity.tolist(), same.tolist()), abs=1e-12)


@pytest.mark.parametrize("far", [0.0, 0.01, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("levels", [None, 2])
def test_true_accepts_never_exceed_the_false_ones_allowed(far, levels):
    similarity, same, _ = some_pairs(2, pairs=300, levels=levels)
    assert tar_at_far(roc(similarity, same), far) == pytest.approx(
        slow.true_accepts(similarity.tolist(), same.tolist(), far)
    )


def test_a_rate_is_told_only_where_the_pairs_resolve_it():
    rng = np.random.default_rng(0)
    same = np.arange(2_200) < 1_100
    found = verification(rng.normal(size=2_200) + same, same, np.arange(2_200) % 10, fars=(0.01, 0.001))
    assert found.tar[0.001] is None
    assert 0 < found.tar[0.01] < 0.5
    assert resolves(1_000, 0.01)
    assert not resolves(999, 0.01)


def test_cosines_are_of_directions():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(5, 7)), rng.normal(size=(5, 7))
    expected = [float(x @ y / np.sqrt((x @ x) * (y @ y))) for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(cosines(a, b), expected, atol=1e-14)
    np.testing.assert_allclose(cosines(1e-200 * a, 1e200 * b), expected, atol=1e-14)
    assert cosines(a, -a).tolist() == pytest.approx([-1] * 5)
    assert cosines([[0.0, 0.0]], [[1.0, 0.0]]).tolist() == [0.0]


def test_features_are_averaged_by_group():
    features = np.array([[1.0, 0.0], [3.0, 2.0], [10.0, 10.0], [5.0, 4.0]])
    assert averaged(features, [0, 0, 1, 0], 2).tolist() == [[3.0, 2.0], [10.0, 10.0]]
    with pytest.raises(InvalidInputError, match="each of the 3 groups must have a feature"):
        averaged(features, [0, 0, 1, 0], 3)


def test_figures_are_plain_json():
    similarity, same, fold = some_pairs()
    found = json.loads(json.dumps(verification(similarity, same, fold).as_dict(), allow_nan=False))
    assert found["pairs"] == 400
    assert set(found["tar_at_far"]) == {"0.01", "0.001", "0.0001"}
    assert found["tar_at_far"]["0.0001"] is None
    assert sum(each["pairs"] for each in found["folds"]) == 400


@pytest.mark.parametrize(
    ("similarity", "same", "fold", "said"),
    [
        ([0.1, 0.2], [0, 1], [1, 1], "at least two folds"),
        ([0.1, np.nan], [0, 1], [1, 2], "must be finite"),
        ([0.1, 0.2], [0, 2], [1, 2], "0 and 1"),
        ([0.1], [0, 1], [1, 2], "one value for each pair"),
        ([], [], [], "one value for each pair"),
        ([0.1, 0.2, 0.3, 0.4], [1, 1, 1, 1], [1, 1, 2, 2], "pairs of one person and pairs of two, got 4 and 0"),
        ([0.1, 0.2, 0.3, 0.4], [0, 0, 0, 0], [1, 1, 2, 2], "pairs of one person and pairs of two, got 0 and 4"),
        ([0.1, 0.2, 0.3, 0.4], [0, 1, 1, 1], [1, 2, 2, 2], "fold 1 holds every pair of two people"),
        ([0.1, 0.2, 0.3, 0.4], [1, 0, 0, 0], [1, 2, 2, 2], "fold 1 holds every pair of one person"),
    ],
)
def test_what_is_refused(similarity, same, fold, said):
    with pytest.raises(InvalidInputError, match=said):
        verification(similarity, same, fold)


def test_a_curve_needs_both_kinds():
    with pytest.raises(InvalidInputError, match="got 2 and 0"):
        roc([0.1, 0.2], [1, 1])
    with pytest.raises(InvalidInputError, match="from 0 to 1, got 2"):
        tar_at_far(roc([0.1, 0.2], [0, 1]), 2)
