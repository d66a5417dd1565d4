"""What rules are expected to give is measured on what new rows get: the members' mean, not one member."""

import numpy as np
import pytest
import torch
from scipy.special import expit
from scipy.stats import binom
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from equipoise import BalancedClassifier
from equipoise.decisions import Costs, RecallAtLeast, ReviewBudget
from equipoise.estimators.unseen_rows import mean_as_if_unseen


def outputs_of(memorised: float, generator, rows=400, members=5):
    """Return the second class's probabilities, (members, rows), labels, and the member that saw no label."""
    labels, by = generator.integers(0, 2, rows), generator.integers(0, members, rows)
    p = generator.beta(1 + labels, 2 - labels, (members, rows))
    seen = np.arange(members)[:, None] != by
    towards = np.broadcast_to(labels, p.shape)
    p[seen] = ((1 - memorised) * p + memorised * (0.999 * towards + 0.001 * p))[seen]
    return p, labels, by, seen


def mean_of(p, labels, by):
    """Return the mean's probability of the second class, (rows,)."""
    found = mean_as_if_unseen(torch.from_numpy(np.stack((1 - p, p), -1)), torch.from_numpy(labels), by).numpy()
    np.testing.assert_allclose(found.sum(-1), 1)
    return found[:, 1]


@pytest.mark.parametrize("memorised", [0.0, 0.3, 1.0])
def test_a_member_that_saw_a_row_spreads_like_one_that_did_not(memorised):
    p, labels, by, seen = outputs_of(memorised, np.random.default_rng(1), members=2)
    found = mean_of(p, labels, by)
    for label in (0, 1):
        own, levels = labels == label, [0.1, 0.5, 0.9]
        honest = p[~seen & own]  # of two members one saw the row: the mean is that one's
        np.testing.assert_allclose(np.quantile(found[own], levels), np.quantile(honest, levels), atol=0.05)


def test_as_far_as_labels_were_memorised_the_one_honest_member_speaks_for_all():
    p, labels, by, seen = outputs_of(1.0, np.random.default_rng(2))
    assert (mean_of(p, labels, by) == p[by, np.arange(len(by))]).mean() > 0.95  # labels learnt by heart tell no more
    p, labels, by, seen = outputs_of(0.0, np.random.default_rng(2), rows=4000)
    found = mean_of(p, labels, by)
    assert (found == p[by, np.arange(len(by))]).mean() < 0.1
    for label in (0, 1):
        own = labels == label
        average = np.where(seen, p, 0).sum(0)[own] / 4
        assert np.corrcoef(average, found[own])[0, 1] > 0.9


@pytest.mark.parametrize("memory", [0.5, 1.0])
def test_what_averaging_saves_is_not_overestimated(memory):
    """Members that know a label agree, more than with the one that does not: an average with that one flatters."""
    generator = np.random.default_rng(3)
    rows, members = 20_000, 5
    by, labels = generator.integers(0, members, rows), np.ones(rows, dtype=np.int64)
    row = generator.normal(1, 1.5, rows)  # how hard a row is, for every member
    unseen = expit(row + generator.normal(0, 0.7, (members, rows)))
    known = expit(row + generator.normal(0.5, memory, rows) + generator.normal(0, 0.7, (members, rows)))
    found = mean_of(np.where(np.arange(members)[:, None] == by, unseen, known), labels, by)
    for threshold in (0.05, 0.1, 0.2):
        truth, single = (unseen.mean(0) < threshold).mean(), (unseen < threshold).mean()
        assert truth < (found < threshold).mean() < (truth + 2 * single) / 3


@pytest.mark.parametrize("shape", [(3, 30, 4), (3, 30, 2, 2)])
def test_many_classes_and_several_labels_stay_probabilities(shape):
    generator = np.random.default_rng(2)
    p = generator.dirichlet(np.ones(shape[-1]), shape[:-1])
    labels = generator.integers(0, shape[-1], shape[1:-1])
    by = generator.integers(0, 3, 30)
    found = mean_as_if_unseen(torch.from_numpy(p), torch.from_numpy(labels), by).numpy()
    np.testing.assert_allclose(found.sum(-1), 1)
    assert found.shape == shape[1:]
    assert (found >= 0).all()


def imbalanced(seed: int, rows: int = 6000):
    return make_classification(rows, n_features=20, n_informative=8, weights=[0.92], flip_y=0.02, random_state=seed)


@pytest.mark.nightly
def test_what_is_expected_of_new_rows_lies_in_its_interval():
    """Of 20 draws of the training rows so many are inside as 95 % intervals allow with a probability of 99.9 %.

    The test rows are many, so that what they found is nearly the truth.
    """
    model = HistGradientBoostingClassifier(max_iter=40, max_leaf_nodes=8)
    rules = {"false alarms": RecallAtLeast({1: 0.9}), "reviews": ReviewBudget(200), "cost": Costs(miss={1: 10})}
    inside = dict.fromkeys((*rules, "recall"), 0)
    draws = 20
    for seed in range(500, 500 + draws):
        X, y = imbalanced(seed, 12_000)
        clf = BalancedClassifier(model, random_state=seed).fit(X[:1500], y[:1500])
        for name, rule in rules.items():
            expected, named, truth = clf.choose(rule).expected, clf.predict(X[1500:], decision=rule), y[1500:]
            given = {
                "false alarms": (expected.classes[1].false_alarms, 1000 * ((named == 1) & (truth == 0)).mean()),
                "reviews": (expected.reviews, 1000 * (named == 1).mean()),
                "cost": (expected.cost, 1000 * (np.where(truth == 1, 10, 1) * (named != truth)).mean()),
            }
            interval, found = given[name]
            inside[name] += interval.low <= found <= interval.high
        recall = expected.classes[1].recall  # of the costs
        inside["recall"] += recall.low <= (named[truth == 1] == 1).mean() <= recall.high
    assert min(inside.values()) >= binom.ppf(0.001, draws, 0.95), inside


def test_evidence_by_all_members_is_kept_by_save_and_given_up_by_calibrate(tmp_path):
    X, y = imbalanced(0, 600)
    clf = BalancedClassifier(LogisticRegression(), members=3, random_state=0).fit(X[:400], y[:400])
    clf.save(tmp_path / "model")
    loaded = BalancedClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.evidence_.answered, clf.evidence_.answered)
    rule = RecallAtLeast({1: 0.8})
    assert loaded.choose(rule).expected == clf.choose(rule).expected
    assert clf.calibrate(X[400:], y[400:]).evidence_.answered is None  # all members answer these rows
