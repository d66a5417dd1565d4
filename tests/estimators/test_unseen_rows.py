"""What rules are expected to give is measured on what new rows get: the members' mean, not one member."""

import numpy as np
import pytest
import torch
from scipy.stats import binom
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from equipoise import BalancedClassifier
from equipoise.decisions import Costs, RecallAtLeast, ReviewBudget
from equipoise.estimators.unseen_rows import as_if_unseen


def outputs_of(memorised: float, generator, rows=400):
    """Return the second class's probabilities of five members, (5, rows), labels, and the member that saw no label."""
    labels, by = generator.integers(0, 2, rows), generator.integers(0, 5, rows)
    p = generator.beta(1 + labels, 2 - labels, (5, rows))
    seen = np.arange(5)[:, None] != by
    towards = np.broadcast_to(labels, p.shape)
    p[seen] = ((1 - memorised) * p + memorised * (0.999 * towards + 0.001 * p))[seen]
    return p, labels, by, seen


@pytest.mark.parametrize("memorised", [0.0, 0.3, 1.0])
def test_members_that_saw_a_row_spread_like_those_that_did_not(memorised):
    p, labels, by, seen = outputs_of(memorised, np.random.default_rng(1))
    outputs = torch.from_numpy(np.stack((1 - p, p), -1))

    found = as_if_unseen(outputs, torch.from_numpy(labels), by).numpy()

    np.testing.assert_array_equal(found[~seen], outputs.numpy()[~seen])
    np.testing.assert_allclose(found.sum(-1), 1)
    for label in (0, 1):
        own = labels == label
        honest, others = found[~seen & own, 1], found[seen & own, 1]
        np.testing.assert_allclose(
            np.quantile(others, [0.1, 0.5, 0.9]), np.quantile(honest, [0.1, 0.5, 0.9]), atol=0.03
        )


def test_as_far_as_labels_were_memorised_the_one_honest_member_speaks_for_all():
    p, labels, by, seen = outputs_of(1.0, np.random.default_rng(2))
    found = as_if_unseen(torch.from_numpy(np.stack((1 - p, p), -1)), torch.from_numpy(labels), by).numpy()[..., 1]
    assert (found == p[by, np.arange(len(by))]).mean() > 0.95  # what was learnt by heart tells nothing else
    p, labels, by, seen = outputs_of(0.0, np.random.default_rng(2), rows=4000)
    found = as_if_unseen(torch.from_numpy(np.stack((1 - p, p), -1)), torch.from_numpy(labels), by).numpy()[..., 1]
    assert (found == p[by, np.arange(len(by))])[seen].mean() < 0.1
    given, others = p[seen & (labels == 1)], found[seen & (labels == 1)]
    assert np.corrcoef(given, others)[0, 1] > 0.9  # the order stays


@pytest.mark.parametrize("shape", [(3, 30, 4), (3, 30, 2, 2)])
def test_many_classes_and_several_labels_stay_probabilities(shape):
    generator = np.random.default_rng(2)
    p = generator.dirichlet(np.ones(shape[-1]), shape[:-1])
    labels = generator.integers(0, shape[-1], shape[1:-1])
    by = generator.integers(0, 3, 30)
    found = as_if_unseen(torch.from_numpy(p), torch.from_numpy(labels), by).numpy()
    np.testing.assert_allclose(found.sum(-1), 1)
    assert found.shape == shape
    assert (found >= 0).all()
    np.testing.assert_allclose(found[by, np.arange(30)], p[by, np.arange(30)])


def imbalanced(seed: int, rows: int = 6000):
    return make_classification(rows, n_features=20, n_informative=8, weights=[0.92], flip_y=0.02, random_state=seed)


@pytest.mark.slow
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
