"""Conformal sets: against counting, and their coverage of every class over many draws."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.calibration import ClassThresholds, move_prior
from equipoise.calibration.conformal import MOST_KEPT, unanswered, unanswered_rows
from equipoise.errors import InvalidInputError
from tests.reference import trust as reference

COUNTS = np.array([2000, 1500, 400, 100, 5])  # the last is too small for 90 %
CENTRES = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5], [1.5, 1.5], [0.7, 0.7]])


def draw(rng, counts):
    """Points around five centres, and what a sloppy model at a balanced mix says of them."""
    labels = np.repeat(np.arange(len(counts)), counts)
    x = CENTRES[labels] + rng.normal(size=(len(labels), 2))
    logits = -0.9 * ((x[:, None] - CENTRES) ** 2).sum(-1) + np.array([0.5, 0.0, 0.0, -0.5, 0.0])
    p = np.exp(logits - logits.max(1, keepdims=True))
    return p / p.sum(1, keepdims=True), labels


def coverage(level, seeds):
    """Mean over draws of the share of each class's new samples with their class in the set."""
    found = []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        fitted = ClassThresholds.fit(*draw(rng, COUNTS))
        p, labels = draw(rng, np.full(5, 1000))
        inside = fitted.sets(p, level)[np.arange(len(labels)), labels]
        found.append([inside[labels == place].mean() for place in range(5)])
    return np.mean(found, axis=0)


@pytest.mark.parametrize(("level", "seeds"), [(0.8, 100), (0.9, 20), (0.95, 20)])
def test_every_class_is_covered_as_often_as_asked_for(level, seeds):
    """With 100 calibration samples one draw strays by 3 points at 0.9 and by 4 at 0.8, which takes more of them."""
    found = coverage(level, seeds)
    assert (np.abs(found[:4] - level) <= 0.02).all()
    if level == 0.8:
        assert found[4] == pytest.approx(5 / 6, abs=0.08)  # five of six places, the rank rounded up
    else:
        assert found[4] == 1.0


def test_the_rank_is_exact_in_a_small_class():
    """Nine samples at 0.8: the eighth of ten places. A rank more or less is a tenth, which 1,500 draws tell apart."""
    rng = np.random.default_rng(0)
    inside = []
    for _ in range(1500):
        u = rng.uniform(0.01, 0.99, 11)
        fitted = ClassThresholds.fit(np.column_stack([u[:9], 1 - u[:9]]), np.zeros(9, dtype=int))
        inside.append(fitted.sets([[u[9], 1 - u[9]]], 0.8)[0])
    assert np.mean(inside, axis=0)[0] == pytest.approx(0.8, abs=0.031)  # three standard errors
    assert np.all(inside, axis=0)[1], "of the other class there is no sample to rule it out by"


def test_the_class_mix_of_new_samples_is_of_no_account():
    rng = np.random.default_rng(1)
    fitted = ClassThresholds.fit(*draw(rng, COUNTS))
    p, labels = draw(rng, np.array([300, 300, 300, 3000, 300]))
    inside = fitted.sets(p, 0.9)[np.arange(len(labels)), labels]
    first, again = inside[labels == 3][:1500].mean(), inside[labels == 3][1500:].mean()
    assert first == pytest.approx(again, abs=0.04)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(2, 4), st.sampled_from([1, 7, 50, 80, 90, 95, 99]),
    st.booleans(),
)  # fmt: skip
def test_sets_are_what_counting_gives(seed, rows, classes, percent, equal):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(classes), rows + 10)
    if equal:
        p = np.round(p * 4) + 1
        p /= p.sum(1, keepdims=True)
    labels = rng.integers(0, classes, rows)
    fitted = ClassThresholds.fit(p[:rows], labels)
    own = [[p[row, place] for row in range(rows) if labels[row] == place] for place in range(classes)]
    expected = [reference.conformal_set(own, row.tolist(), percent) for row in p]
    for row, probabilities in zip(expected, p.tolist(), strict=True):
        row[probabilities.index(max(probabilities))] = True  # never empty
    assert fitted.sets(p, percent / 100).tolist() == expected
    assert fitted.counts.tolist() == [len(mine) for mine in own]


def test_equal_probabilities_widen_a_set():
    p = np.tile([0.5, 0.5], (20, 1))
    fitted = ClassThresholds.fit(p, np.repeat([0, 1], 10))
    assert fitted.sets(p[:1], 0.1).all()
    assert not fitted.sets([[0.499, 0.501]], 0.1)[0, 0]


def test_attributes_are_problems_of_two_classes():
    rng = np.random.default_rng(0)
    p, labels = rng.uniform(size=(300, 3)), rng.integers(0, 2, (300, 3))
    labels[:, 2] = 0
    fitted = ClassThresholds.fit(p, labels)
    pairs = np.stack((1 - p, p), axis=-1)
    found = fitted.sets(p, 0.9)
    assert found.shape == (300, 3, 2)
    assert np.array_equal(ClassThresholds.fit(pairs, labels).scores, fitted.scores)
    assert np.array_equal(fitted.sets(pairs, 0.9), found)
    for place in range(3):
        alone = ClassThresholds.fit(pairs[:, place], labels[:, place])
        assert np.array_equal(found[:, place], alone.sets(pairs[:, place], 0.9))
    assert found[:, 2, 1].all()
    assert not found[:, 2, 0].all()


@pytest.mark.parametrize("count", [MOST_KEPT, MOST_KEPT + 1, 3 * MOST_KEPT, 12_345])
def test_of_many_samples_enough_are_kept(count):
    """Never a smaller set than all scores would give, and by at most a 2,000th of the samples larger."""
    p = np.random.default_rng(0).permutation(np.linspace(0.001, 0.999, count))
    fitted = ClassThresholds.fit(np.column_stack([p, 1 - p]), np.zeros(count, dtype=int))
    assert fitted.scores.shape == (2, MOST_KEPT)
    assert fitted.scores.dtype == np.float32
    ascending = np.sort(-np.log(p))
    for level in (0.001, 0.5, 0.9, 0.95, 0.99, 0.999, 0.9995):
        rank = int(np.ceil((count + 1) * level - 1e-9))
        widened = np.searchsorted(ascending, fitted.thresholds(level)[0] * (1 + 1e-6), side="right")
        assert rank <= widened <= rank + max(0, -(-count // MOST_KEPT) - 1)
        if count == MOST_KEPT:
            assert fitted.thresholds(level)[0] == np.float32(ascending[rank - 1])
    assert np.isinf(fitted.thresholds(1 - 0.5 / count)[0])


def test_probabilities_next_to_nothing_and_to_all_are_told_apart():
    """A model that is far too sure: 1 − p is 1 of every sample, and would keep a set from ever leaving out a class."""
    tiny = np.geomspace(1e-40, 1e-20, 99)
    fitted = ClassThresholds.fit(np.column_stack([tiny, 1 - tiny]), np.zeros(99, dtype=int))
    new = np.geomspace(1e-40, 1e-20, 1000)
    assert fitted.sets(np.column_stack([new, 1 - new]), 0.9)[:, 0].mean() == pytest.approx(0.9, abs=0.01)
    high = 1 - np.geomspace(1e-12, 1e-9, 99)
    fitted = ClassThresholds.fit(np.column_stack([high, 1 - high]), np.zeros(99, dtype=int))
    new = 1 - np.geomspace(1e-12, 1e-9, 1000)
    sets = fitted.sets(np.column_stack([new, 1 - new]), 0.9, predicted=np.ones(1000, dtype=int))
    assert sets[:, 0].mean() == pytest.approx(0.9, abs=0.01)
    zero = ClassThresholds.fit(np.tile([0.0, 1.0], (99, 1)), np.zeros(99, dtype=int))
    assert np.isfinite(zero.thresholds(0.9)[0])
    assert zero.sets([[0.0, 1.0]], 0.9).all()


def test_sets_grow_with_the_level():
    rng = np.random.default_rng(0)
    fitted = ClassThresholds.fit(*draw(rng, COUNTS))
    p, _ = draw(rng, np.full(5, 50))
    found = [fitted.sets(p, level) for level in (0.5, 0.8, 0.9, 0.99)]
    assert all((small <= large).all() for small, large in pairwise(found))
    assert found[0].sum() < found[-1].sum()


def test_thresholds_are_on_the_mix_that_they_were_fitted_at():
    """The caller's balanced mix: moved probabilities give other sets, each covering its own classes."""
    rng = np.random.default_rng(0)
    p, labels = draw(rng, COUNTS)
    mix = [0.6, 0.3, 0.06, 0.03, 0.01]
    moved = ClassThresholds.fit(move_prior(p, old=np.ones(5), new=mix), labels)
    assert not np.allclose(moved.thresholds(0.9)[:4], ClassThresholds.fit(p, labels).thresholds(0.9)[:4], rtol=0.05)


def test_arrays_go_into_a_file_and_come_back():
    fitted = ClassThresholds.fit(*draw(np.random.default_rng(0), COUNTS))
    back = ClassThresholds.of_arrays(fitted.arrays())
    assert np.array_equal(back.scores, fitted.scores)
    assert np.array_equal(back.thresholds(0.9), fitted.thresholds(0.9))


def changed(name, value, place=(0, 0)):
    fitted = ClassThresholds.fit(*draw(np.random.default_rng(0), COUNTS))
    arrays = {key: array.copy() for key, array in fitted.arrays().items()}
    arrays[name][place[: arrays[name].ndim]] = value
    return arrays


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        changed("conformal_scores", np.nan),
        changed("conformal_scores", -1.0),
        changed("conformal_scores", 50.0),
        changed("conformal_scores", np.inf),
        changed("conformal_scores", 0.5, (4, 6)),
        changed("conformal_counts", -1),
        changed("conformal_counts", 3, (2,)),
        changed("conformal_counts", 500, (2,)),
        {"conformal_scores": np.zeros((1, 2000), np.float32), "conformal_counts": np.array([2**53 // 2000 + 1])},
        {"conformal_scores": np.zeros((2, 3, 1), np.float32), "conformal_counts": np.ones((2, 3), np.int64)},
        {"conformal_scores": np.zeros((2, 1), np.float32), "conformal_counts": np.ones(3, np.int64)},
        {"conformal_scores": np.zeros((2, 1), np.float64), "conformal_counts": np.ones(2, np.int64)},
        {"conformal_scores": np.zeros((2, 0), np.float32), "conformal_counts": np.zeros(2, np.int64)},
    ],
)
def test_damaged_arrays_are_refused(arrays):
    with pytest.raises(InvalidInputError, match="damaged or of another version; train again"):
        ClassThresholds.of_arrays(arrays)


@pytest.mark.parametrize(
    ("p", "labels", "sentence"),
    [
        ([[0.5, 0.5]], [0, 1], r"one for each of \(1,\) answers and at least one, got int64 of shape \(2,\)"),
        (np.zeros((0, 2)), np.zeros(0, int), "at least one, got int64"),
        ([[0.5, 0.5]], [0.0], "labels must be whole numbers, .* got float64"),
        ([[0.5, 0.5]], [2], "labels must lie between 0 and 1, got 2 to 2"),
        ([[0.5, 0.5]], [-1], "labels must lie between 0 and 1, got -1 to -1"),
        ([[0.5, 0.5]], [[0, 2]], "labels must lie between 0 and 1, got 0 to 2"),
        ([[0.5, 0.6]], [0], "must sum to 1; apply softmax"),
        ([[np.nan, 0.6]], [0], "must lie between 0 and 1; apply softmax"),
        ([0.5, 0.5], [0], r"must have the shape \(rows, classes\), got \(2,\)"),
        ([[[0.5, 0.5]]], [0], r"must have the shape \(rows, classes\), got \(1, 1, 2\)"),
        ([[[0.2, 0.3, 0.5]]], [[0]], r"\(rows, attributes\) or \(rows, attributes, 2\), got \(1, 1, 3\)"),
    ],
)
def test_what_cannot_be_calibrated_on_is_refused(p, labels, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        ClassThresholds.fit(p, labels)


def test_a_row_is_unanswered_where_more_than_one_class_is_left():
    sets = np.array([[False, True], [True, False], [True, True]])
    several = np.stack((sets, sets[[1, 1, 1]]), axis=1)
    assert unanswered(sets).tolist() == unanswered_rows(sets).tolist() == [False, False, True]
    assert unanswered(several).tolist() == [[False, False], [False, False], [True, False]]
    assert unanswered_rows(several).tolist() == [False, False, True]


@pytest.mark.parametrize("several", [False, True])
def test_sets_have_the_named_class_and_grow_with_the_level(several):
    """A good model asked for little: most samples have no class within the thresholds."""
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 2, (600, 3)) if several else rng.integers(0, 4, 600)
    right = np.eye(2 if several else 4)[labels]
    p = 0.97 * right + 0.03 * rng.dirichlet(np.ones(right.shape[-1]), labels.shape)
    fitted = ClassThresholds.fit(p[:300], labels[:300])
    named = rng.integers(0, right.shape[-1], labels[300:].shape)
    levels = (0.05, 0.3, 0.5, 0.7, 0.9, 0.95, 0.99)
    found = [fitted.sets(p[300:], level) for level in levels]
    chosen = [fitted.sets(p[300:], level, predicted=named) for level in levels]
    for sets in (found, chosen):
        assert all((smaller <= larger).all() for smaller, larger in pairwise(sets))
        shares = [unanswered_rows(each).mean() for each in sets]
        assert shares == sorted(shares), "asking for less certainty never leaves more unanswered"
    best = p[300:].argmax(-1)
    for level, one, other in zip(levels, found, chosen, strict=True):
        assert np.take_along_axis(one, best[..., None], -1).all()
        assert np.take_along_axis(other, named[..., None], -1).all()
        assert np.take_along_axis(one, labels[300:][..., None], -1).mean() >= level - 0.05
    assert unanswered_rows(found[0]).mean() == 0


def test_a_class_is_never_ruled_out_by_fewer_samples_than_the_level_needs():
    counts = np.array([8, 9, 20])
    labels = np.repeat(np.arange(3), counts)
    fitted = ClassThresholds.fit(np.full((37, 3), 1 / 3), labels)
    assert fitted.never_ruled_out(0.9).tolist() == [True, False, False]
    ones = np.stack((labels == 0, labels == 1, labels == 2), axis=1).astype(np.int64)
    several = ClassThresholds.fit(np.full((37, 3), 0.5), ones)
    assert several.never_ruled_out(0.9).tolist() == [True, False, False]
    assert several.never_ruled_out(0.95).tolist() == [True, True, True]


@pytest.mark.parametrize("level", [0, 1, 90, -0.1, float("nan")])
def test_a_level_is_a_share(level):
    fitted = ClassThresholds.fit([[0.5, 0.5]], [0])
    with pytest.raises(InvalidInputError, match=r"level must lie between 0 and 1, such as 0\.9 for 90%, got"):
        fitted.thresholds(level)
    with pytest.raises(InvalidInputError, match=r"must be of the \(2,\) calibrated classes, got \(3,\)"):
        fitted.sets([[0.2, 0.3, 0.5]], 0.9)


def test_a_rank_is_that_of_the_decimal_number():
    """100 · 0.07 is a trifle more than 7 in floating point."""
    p = np.linspace(0.1, 0.9, 99)
    fitted = ClassThresholds.fit(np.column_stack([p, 1 - p]), np.zeros(99, dtype=int))
    assert fitted.thresholds(0.07)[0] == np.float32(-np.log(p[-7]))
