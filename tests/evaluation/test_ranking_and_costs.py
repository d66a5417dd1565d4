"""Ranking scores, Matthews' correlation, costs and their bootstrap intervals: against scikit-learn and slow loops."""

import functools
import json
import math
import operator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, brier_score_loss, matthews_corrcoef, roc_auc_score

from equipoise.errors import InvalidInputError
from equipoise.evaluation import bootstrap, scores
from equipoise.evaluation.bootstrap import RESAMPLES, resamples
from equipoise.evaluation.ranking import MOST_STEPS, ranking_sums


def case(seed, samples=120, classes=3, *, ties=False, rare=False):
    rng = np.random.default_rng(seed)
    share = np.geomspace(1, 0.1, classes) if rare else np.ones(classes)
    true = rng.choice(classes, samples, p=share / share.sum())
    p = rng.dirichlet(np.ones(classes), samples) + 0.4 * (true[:, None] == np.arange(classes))
    p = np.round(p * 4) + 1 if ties else p
    return true, p / p.sum(1, keepdims=True)


def one_hot(true, classes):
    return (true[:, None] == np.arange(classes)).astype(int)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("ties", [False, True])
def test_micro_and_macro_rankings_are_scikit_learns(classes, ties):
    true, p = case(classes, classes=classes, ties=ties)
    found = scores(true, p.argmax(1), probabilities=p)
    wide = one_hot(true, classes)
    for average, area, precision in (
        ("micro", found.micro_auc, found.micro_average_precision),
        ("macro", found.auc.mean, found.average_precision.mean),
    ):
        assert area == pytest.approx(roc_auc_score(wide, p, average=average))
        assert precision == pytest.approx(average_precision_score(wide, p, average=average))


def test_micro_rankings_of_attributes_are_scikit_learns():
    rng = np.random.default_rng(1)
    true, p = rng.integers(0, 2, (60, 3)), rng.random((60, 3)).round(1)
    found = scores(true, (p > 0.5).astype(int), probabilities=p)
    assert found.micro_auc == pytest.approx(roc_auc_score(true, p, average="micro"))
    assert found.micro_average_precision == pytest.approx(average_precision_score(true, p, average="micro"))
    each = [brier_score_loss(true[:, c], p[:, c]) for c in range(3)]
    assert found.as_dict()["brier"] == pytest.approx(np.mean(each))


def test_brier_of_two_classes_is_twice_scikit_learns():
    true, p = case(5, classes=2)
    assert scores(true, true, probabilities=p).as_dict()["brier"] == pytest.approx(2 * brier_score_loss(true, p[:, 1]))


@pytest.mark.filterwarnings("ignore:A single label was found")
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40))
def test_matthews_correlation_is_scikit_learns(pairs):
    true, predicted = np.array(pairs).T
    found = scores(true, predicted, classes=range(4)).matthews
    assert found == pytest.approx(matthews_corrcoef(true, predicted), abs=1e-12)


def test_matthews_of_attributes_is_their_mean():
    rng = np.random.default_rng(3)
    true, predicted = rng.integers(0, 2, (50, 3)), rng.integers(0, 2, (50, 3))
    predicted[:, 2] = 1  # one answer to all
    each = [matthews_corrcoef(true[:, c], predicted[:, c]) for c in range(3)]
    assert each[2] == 0
    assert scores(true, predicted).matthews == pytest.approx(np.mean(each))


def slow_hits_at_k(own, score, k):
    """Mean over many random orders of equal scores is exact here: each tied sample is taken equally often."""
    hits, left = 0.0, k
    for value in sorted(set(score.tolist()), reverse=True):
        tied = [bool(o) for o, s in zip(own, score, strict=True) if s == value]
        taken = min(left, len(tied))
        hits += taken * sum(tied) / len(tied)
        left -= taken
    return hits


@settings(max_examples=60)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), min_size=2, max_size=30), st.data())
def test_precision_recall_and_lift_at_k(rows, data):
    own, level = np.array([row[0] for row in rows]), np.array([row[1] for row in rows]) / 5
    k = data.draw(st.integers(1, len(own)))
    p = np.stack((1 - level, level), axis=1)
    found = scores(own.astype(int), own.astype(int), probabilities=p, classes=[0, 1], k=k).top
    assert found.k == k
    if own.all() or not own.any():
        assert math.isnan(found.precision.each[1])
        return
    hits = slow_hits_at_k(own, level, k)
    assert found.precision.each[1] == pytest.approx(hits / k)
    assert found.recall.each[1] == pytest.approx(hits / own.sum())
    assert found.lift.each[1] == pytest.approx(hits / k / own.mean())


def test_k_is_a_tenth_of_the_samples_and_the_rarer_of_two_counts():
    true, p = case(4, samples=200, classes=2, rare=True)
    found = scores(true, true, probabilities=p)
    assert found.top.k == 20
    record = found.as_dict()
    for name in ("precision", "recall", "lift"):
        assert record[f"{name}_at_k"] == getattr(found.top, name).each[1]
    three, q = case(4)
    many = scores(three, three, probabilities=q)
    assert many.as_dict()["lift_at_k"] == pytest.approx(np.mean(many.top.lift.each))
    assert scores(true, true).as_dict()["lift_at_k"] is None
    for wrong in (0, 201):
        with pytest.raises(InvalidInputError, match="k must be a whole number from 1 to the 200 samples"):
            scores(true, true, probabilities=p, k=wrong)


def test_expected_cost_is_the_mean_over_the_answers():
    true, p = case(6)
    predicted = p.argmax(1)
    costs = np.array([[0, 1, 2], [5, 0, 3], [50, 7, 0.5]])
    slow = sum(costs[t, q] for t, q in zip(true.tolist(), predicted.tolist(), strict=True)) / len(true)
    assert scores(true, predicted, costs=costs).expected_cost == pytest.approx(slow)
    assert scores(true, predicted).expected_cost is None
    several, answers = one_hot(true, 3), one_hot(predicted, 3)
    apart = np.arange(12.0).reshape(3, 2, 2)
    slow = sum(apart[c, several[i, c], answers[i, c]] for i in range(len(true)) for c in range(3)) / len(true)
    assert scores(several, answers, costs=apart).expected_cost == pytest.approx(slow)
    for wrong in (costs[:2], costs * np.nan, apart):
        with pytest.raises(InvalidInputError, match=r"costs must be finite numbers of shape \(3, 3\)"):
            scores(true, predicted, costs=wrong)


def test_one_class_alone_has_no_ranking_and_a_correlation_of_zero():
    p = [[0.9, 0.1], [0.6, 0.4]]
    record = scores([0, 0], [0, 1], probabilities=p, classes=[0, 1], intervals=True).as_dict()
    assert record["micro_auc"] is not None
    assert record["auc"]["each"] == [None, None]
    assert record["matthews"] == 0.0
    assert record["intervals"]["auc"] == {"mean": [None, None], "each": [[None, None]] * 2}
    assert json.loads(json.dumps(record, allow_nan=False)) == record


def test_resamples_keep_the_counts_of_the_classes():
    true = np.repeat([0, 1, 3], [50, 5, 1])
    drawn = np.concatenate(list(resamples(true, 4)), axis=1)
    assert drawn.shape == (56, RESAMPLES)
    assert all((drawn[true == c].sum(0) == (true == c).sum()).all() for c in (0, 1, 3))
    assert len(np.unique(drawn[:50], axis=1).T) > 990
    assert drawn[:50].var() == pytest.approx(49 / 50, abs=0.05)  # of a binomial of 50 draws with 1 in 50
    several = np.concatenate(list(resamples(one_hot(true, 4), 4)), axis=1)
    assert (several.sum(0) == 56).all()
    assert len(set(several[50:55].sum(0).tolist())) > 3
    assert not list(resamples(np.zeros(5_000_000, dtype=int), 1))


def test_many_resamples_are_fewer():
    assert sum(part.shape[1] for part in resamples(np.zeros(100_000, dtype=int), 2)) == 200


@pytest.mark.parametrize("ties", [False, True])
def test_a_weighted_ranking_is_that_of_the_repeated_samples(ties):
    true, p = case(7, ties=ties)
    drawn = np.concatenate(list(resamples(true, 3)), axis=1)[:, :5]
    found = ranking_sums(p, true, 17, weights=drawn)
    for draw in range(5):
        rows = np.repeat(np.arange(len(true)), drawn[:, draw].astype(int))
        slow = ranking_sums(p[rows], true[rows], 17)
        for name in vars(found):
            np.testing.assert_allclose(getattr(found, name)[draw], getattr(slow, name)[0], atol=1e-12)


def test_merged_steps_change_resampled_rankings_little():
    true, p = case(8, samples=3 * MOST_STEPS, classes=2, rare=True)
    once = np.ones((len(true), 1), dtype=np.float32)
    merged, exact = ranking_sums(p, true, 300, weights=once), ranking_sums(p, true, 300)
    for name in vars(exact):
        np.testing.assert_allclose(getattr(merged, name), getattr(exact, name), rtol=2e-3)


def test_intervals_are_the_quantiles_of_scored_resamples(monkeypatch):
    monkeypatch.setattr(bootstrap, "RESAMPLES", 200)
    true, p = case(9, samples=60, rare=True)
    predicted, costs = p.argmax(1), np.array([[0, 1, 1], [3, 0, 1], [9, 9, 0.0]])
    found = scores(true, predicted, probabilities=p, costs=costs, intervals=True)
    drawn = np.concatenate(list(resamples(true, 3)), axis=1).astype(int)
    slow = []
    for draw in range(drawn.shape[1]):
        rows = np.repeat(np.arange(len(true)), drawn[:, draw])
        slow.append(scores(true[rows], predicted[rows], probabilities=p[rows], classes=range(3), costs=costs).as_dict())

    def quantiles(*path):
        values = [functools.reduce(operator.getitem, path, record) for record in slow]
        return pytest.approx(np.quantile(np.array(values, dtype=float), [0.025, 0.975]).tolist(), abs=1e-6)

    single = "accuracy balanced_accuracy matthews expected_cost micro_auc micro_average_precision brier log_loss"
    for name in (*single.split(), "lift_at_k", "precision_at_k", "recall_at_k", "worst_recall"):
        assert found.intervals[name] == quantiles(name), name
    for name in ("auc", "average_precision", "recall", "precision", "f1", "g_mean"):
        assert found.intervals[name]["mean"] == quantiles(name, "mean"), name
        assert found.intervals[name]["each"][2] == quantiles(name, "each", 2), name
    assert "ece" not in str(found.intervals)
    assert scores(true, predicted, probabilities=p, costs=costs, intervals=True).intervals == found.intervals


def test_fewer_samples_give_wider_intervals():
    widths = []
    for positives in (10, 40, 160):
        rng = np.random.default_rng(0)
        true = np.repeat([0, 1], [10 * positives, positives])
        score = 1 / (1 + np.exp(-rng.normal(size=len(true)) - 1.5 * true))
        p = np.stack((1 - score, score), axis=1)
        low, high = scores(true, p.argmax(1), probabilities=p, intervals=True).intervals["macro_average_precision"]
        widths.append(high - low)
    assert widths[0] > 1.4 * widths[1] > 1.4 * 1.4 * widths[2]


@pytest.mark.nightly
def test_intervals_hold_about_as_often_as_they_say():
    """Of 100 test sets with 40 positives, at least 87 % of the intervals of AUC and recall contain the truth."""
    rng = np.random.default_rng(0)
    held = np.zeros(2)
    area, recall = 0.8556, 0.6915  # Φ(1.5/√2) and P(N(1.5, 1) > 1)
    for _ in range(100):
        true = np.repeat([0, 1], [200, 40])
        z = rng.normal(size=240) + 1.5 * true
        score = 1 / (1 + np.exp(1 - z))
        p = np.stack((1 - score, score), axis=1)
        found = scores(true, p.argmax(1), probabilities=p, intervals=True).intervals
        for place, (ends, truth) in enumerate(((found["auc"]["each"][1], area), (found["recall"]["each"][1], recall))):
            held[place] += ends[0] <= truth <= ends[1]
    assert (held >= 87).all()
    assert (held <= 99).all()
