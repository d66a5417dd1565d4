"""Labels judged without themselves, against a regression that is really fitted anew for each sample."""

import tracemalloc

import numpy as np
import pytest
from scipy.stats import norm

from equipoise.errors import InvalidInputError
from equipoise.evaluation import LabelDoubt, label_doubt
from equipoise.evaluation.label_quality import LEAST_SAMPLES, RIDGE, LabelJudge, class_sizes

SIZES = (9, 6, 5)


def clusters(seed=0, sizes=SIZES, columns=4, apart=2.0):
    """Overlapping clouds of unequal size, in an order that says nothing."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    centres = rng.normal(size=(len(sizes), columns)) * apart
    return centres[labels] + rng.normal(size=(len(labels), columns)) + 3.0, labels


def fitted(features, targets, weight, total, square):
    """Coefficients of a weighted ridge regression by stacking, with the penalty of all samples."""
    width = features.shape[1] + 1
    rows = np.hstack((features, np.ones((len(features), 1)))) * np.sqrt(weight)[:, None]
    penalty = np.sqrt(RIDGE / width * total * np.append(np.full(width - 1, square), 1.0))
    stacked = np.vstack((rows, np.diag(penalty)))
    wanted = np.vstack((targets * np.sqrt(weight)[:, None], np.zeros((width, targets.shape[1]))))
    return np.linalg.lstsq(stacked, wanted, rcond=None)[0]


def slow_values(features, targets, weight):
    """For each sample what a regression on all others says of it, and how much less its own would count."""
    total = weight.sum()
    square = (weight * (features**2).sum(1)).sum() / total
    values, kept = [], []
    for place in range(len(features)):
        others = np.arange(len(features)) != place
        row = np.append(features[place], 1.0)
        without = fitted(features[others], targets[others], weight[others], total, square)
        values.append(row @ without)
        # a target of 1 for this sample alone: what it would pull its own value up by
        alone = np.eye(len(features))[:, [place]]
        kept.append(1 - float(row @ fitted(features, alone, weight, total, square)[:, 0]))
    return np.array(values), np.array(kept)


def slow_errors(features, labels):
    counts = np.bincount(labels)
    values, kept = slow_values(features, np.eye(len(counts))[labels], counts[labels] ** -0.5)
    errors, rivals = [], []
    for value, label in zip(values, labels, strict=True):
        other = [value[c] - value[label] if c != label else -np.inf for c in range(len(counts))]
        errors.append(max(other))
        rivals.append(int(np.argmax(other)))
    errors = np.array(errors)
    spread = np.sqrt(np.mean([k * (e + 1) ** 2 for k, e in zip(kept, errors, strict=True)]))
    return np.sqrt(kept) * errors / spread, np.array(rivals)


@pytest.mark.parametrize(("sizes", "apart"), [(SIZES, 1.0), ((8, 7), 4.0)])
def test_each_label_is_judged_as_if_it_had_not_been_there(sizes, apart):
    features, labels = clusters(sizes=sizes, apart=apart)
    found = label_doubt(features, labels)
    errors, rivals = slow_errors(features, labels)
    np.testing.assert_allclose(found.error, errors, rtol=1e-9)
    np.testing.assert_array_equal(found.suggested, rivals)
    np.testing.assert_allclose(found.score, norm.cdf(errors), rtol=1e-9)
    np.testing.assert_array_equal(found.suspected, errors > 0)
    assert found.suspected.any() == (apart == 1.0)  # far apart, a rival's value falls below 0


def test_several_labels_are_judged_attribute_by_attribute():
    features, place = clusters(3, sizes=(8, 7, 6))
    labels = np.stack((place == 0, place == 2), axis=1).astype(int)
    values, kept = slow_values(features, labels.astype(float), np.ones(len(labels)))
    for column in range(2):
        y, v = labels[:, column], values[:, column]
        placed = (v - v[y == 0].mean()) / (v[y == 1].mean() - v[y == 0].mean())
        values[:, column] = np.where(y == 1, 1 - 2 * placed, 2 * placed - 1)
    spread = np.sqrt((kept[:, None] * (values + 1) ** 2).mean())
    found = label_doubt(features, labels)
    np.testing.assert_allclose(found.error, np.sqrt(kept)[:, None] * values / spread, rtol=1e-9)
    np.testing.assert_array_equal(found.suggested, 1 - labels)
    assert found.ranking()[0] == found.error.argmax()


def test_others_do_not_move_an_attributes_level():
    features, place = clusters(3, sizes=(8, 7, 6))
    labels = np.stack((place == 0, place == 2), axis=1).astype(np.int64)
    judge = LabelJudge(class_sizes(labels, 2), several=True)
    judge.add(features, labels)
    judge.look(features, labels, added=True)
    judge.look(features + 5, 1 - labels, added=False)
    expected = label_doubt(features, labels).error
    np.testing.assert_allclose(judge.doubt().error[: len(labels)], expected, rtol=1e-9)


def test_an_attribute_with_few_ones_or_zeros_is_not_judged():
    features, place = clusters(3, sizes=(8, 7, LEAST_SAMPLES - 1))
    labels = np.stack((place == 0, place == 2, place != 2), axis=1).astype(int)
    found = np.isnan(label_doubt(features, labels).error)
    assert found.all(0).tolist() == [False, True, True]
    assert not found[:, 0].any()


def test_what_is_added_after_a_look_counts():
    features, labels = clusters()
    judge = LabelJudge(class_sizes(labels, 3))
    judge.add(features[:8], labels[:8])
    judge.look(features[:8], labels[:8], added=True)
    judge.add(features[8:], labels[8:])
    judge.look(features, labels, added=True)
    found, expected = judge.doubt().error[8:], label_doubt(features, labels).error
    np.testing.assert_allclose(found / np.linalg.norm(found), expected / np.linalg.norm(expected), rtol=1e-9)


def test_samples_that_were_not_added_change_nothing_and_are_judged_as_if_left_out():
    features, labels = clusters()
    judge = LabelJudge(class_sizes(labels, 3))
    judge.add(features[:8], labels[:8])  # in two parts, looked at in three
    judge.add(features[8:], labels[8:])
    judge.look(features[:5], labels[:5], added=True)
    judge.look(features[5:], labels[5:], added=True)
    new, given = clusters(7)
    judge.look(new, given, added=False)
    found = judge.doubt()
    np.testing.assert_allclose(found.error[: len(labels)], label_doubt(features, labels).error, rtol=1e-9)
    counts = np.bincount(labels)
    weight, own = counts[labels] ** -0.5, counts[given[0]] ** -0.5
    total, row = weight.sum(), np.append(new[0], 1.0)
    square = (weight * (features**2).sum(1)).sum() / total
    value = row @ fitted(features, np.eye(3)[labels], weight, total, square)
    error = max(value[c] - value[given[0]] for c in range(3) if c != given[0])
    # had it been added beside the others, its own label would pull its value by h
    beside = fitted(np.vstack((features, new[:1])), np.eye(21)[:, -1:], np.append(weight, own), total, square)
    values, kept = slow_values(features, np.eye(3)[labels], weight)
    errors = [max(v[c] - v[y] for c in range(3) if c != y) for v, y in zip(values, labels, strict=True)]
    spread = np.sqrt(np.mean(kept * (np.array(errors) + 1) ** 2))
    expected = np.sqrt(1 - float(row @ beside[:, 0])) * error / spread
    np.testing.assert_allclose(found.error[len(labels)], expected, rtol=1e-9)


def test_flipped_labels_come_first_and_their_own_class_is_suggested():
    features, labels = clusters(1, sizes=(60, 60, 20), apart=4.0)
    flipped = np.array([3, 50, 77, 120])
    given = labels.copy()
    given[flipped] = (labels[flipped] + 1) % 3
    found = label_doubt(features, np.array(["a", "b", "c"])[given])
    assert set(found.ranking()[:4].tolist()) == set(flipped.tolist())
    np.testing.assert_array_equal(found.suggested[flipped], np.array(["a", "b", "c"])[labels[flipped]])
    assert found.suspected[flipped].all()


def test_the_unit_of_the_features_does_not_matter():
    features, labels = clusters()
    expected = label_doubt(features, labels).error
    for unit in (1e-6, 1e6):
        np.testing.assert_allclose(label_doubt(features * unit, labels).error, expected, rtol=1e-6)


def test_classes_too_small_to_judge_are_left_out():
    features, labels = clusters(sizes=(9, LEAST_SAMPLES, LEAST_SAMPLES - 1))
    found = label_doubt(features, labels)
    np.testing.assert_array_equal(np.isnan(found.error), labels == 2)
    assert not found.suspected[labels == 2].any()
    assert len(found.ranking()) == 9 + LEAST_SAMPLES


def test_one_class_alone_or_features_that_say_nothing():
    assert np.isnan(label_doubt(np.ones((9, 2)), np.zeros(9)).error).all()
    nothing = label_doubt(np.zeros((12, 2)), np.repeat((0, 1), 6))
    assert np.isfinite(nothing.error).all()


def test_many_classes_do_not_fill_the_memory():
    rng, labels = np.random.default_rng(0), np.tile(np.arange(4000), 2)
    tracemalloc.start()
    try:
        found = label_doubt(rng.normal(size=(8000, 2)), labels)
        assert tracemalloc.get_traced_memory()[1] < 250e6  # 4,000² numbers are 128 MB, 8,000 · 4,000 are 256 MB
        judge = LabelJudge(class_sizes(labels, 4000))
        tracemalloc.reset_peak()
        judge.add(np.ones((5, 2)), labels[:5])
        judge.look(np.ones((5, 2)), labels[:5], added=True)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()
    assert np.isnan(found.error).all()  # two samples each


def test_far_off_labels_are_still_ranked():
    found = LabelDoubt(np.array([9.0, np.nan, 40.0, -3.0]), np.zeros(4))
    assert found.score[0] == found.score[2] == 1.0
    assert found.ranking().tolist() == [2, 0, 3]


@pytest.mark.parametrize(
    ("features", "labels", "said"),
    [
        (np.zeros((3, 2)), [0, 1], r"with the same number of rows, got \(3, 2\) and \(2,\)"),
        (np.zeros(3), [0, 1, 0], r"got \(3,\) and \(3,\)"),
        (np.zeros((0, 2)), [], r"labels must be labels .* got an array of shape \(0,\)"),
        (np.zeros((2, 2)), [[0, 2], [1, 0]], "a matrix labels must hold 0 and 1 only"),
        (np.full((2, 2), np.nan), [0, 1], "features must be finite"),
    ],
)
def test_what_cannot_be_judged_is_refused(features, labels, said):
    with pytest.raises(InvalidInputError, match=said):
        label_doubt(features, labels)
