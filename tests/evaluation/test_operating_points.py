"""Operating points: counts against a slow loop, thresholds against expected cost, intervals against simulation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.evaluation.intervals import Estimate, combined, wilson
from equipoise.evaluation.operating_points import (
    MOST_POINTS,
    against_strongest,
    cost_threshold,
    operating_points,
)
from tests.marks import mostly_slow

rows = st.lists(st.tuples(st.booleans(), st.integers(0, 8)), min_size=2, max_size=40).filter(
    lambda found: len({own for own, _ in found}) == 2
)


@given(rows)
def test_counts_are_those_above_each_threshold(found):
    own, score = np.array([row[0] for row in found]), np.array([row[1] for row in found]) / 8
    points = operating_points(own, score)
    assert points.thresholds.tolist() == [2.0, *sorted(set(score.tolist()), reverse=True)]
    for threshold, hits, alarms in zip(points.thresholds, points.found, points.alarms, strict=True):
        assert hits == sum(bool(o) and s >= threshold for o, s in zip(own, score, strict=True))
        assert alarms == sum(not o and s >= threshold for o, s in zip(own, score, strict=True))
    assert (points.positives, points.negatives) == (own.sum(), (~own).sum())


def many_scores(samples=20_000, share=0.02):
    rng = np.random.default_rng(0)
    own = rng.random(samples) < share
    return own, 1 / (1 + np.exp(4 - 2 * own - rng.normal(size=samples)))


def test_of_many_scores_few_are_kept_and_few_false_alarms_stay_apart():
    own, score = many_scores()
    points = operating_points(own, score)
    assert 100 < len(points.thresholds) <= MOST_POINTS + 1
    assert points.found[-1] == own.sum()
    assert points.alarms[-1] == (~own).sum()
    assert np.diff(points.found / own.sum()).max() < 0.02
    known = points.alarms[points.alarms > 10]
    assert (known[1:] / known[:-1]).max() < 1.2
    for threshold, hits in zip(points.thresholds, points.found, strict=True):
        assert hits == (own & (score >= threshold)).sum()


@given(
    miss=st.floats(0.1, 1000),
    prior=st.floats(0.01, 0.9),
    prevalence=st.floats(0.001, 0.9),
    logits=st.lists(st.floats(-4, 4), min_size=3, max_size=3),
)
def test_a_class_is_named_where_that_costs_least_on_average(miss, prior, prevalence, logits):
    """Three classes: move the prior, expect the cost of each answer, take the cheapest."""
    p = np.exp(logits) / np.exp(logits).sum()
    moved = p * np.array([(1 - prevalence) / (1 - prior)] * 2 + [prevalence / prior])
    moved /= moved.sum()
    costs = 1 - np.eye(3)
    costs[2, :2] = miss
    expected = moved @ costs
    threshold = cost_threshold(miss, prior=prior, prevalence=prevalence)
    score = against_strongest(p[None], 2)[0]
    if abs(score - threshold) > 1e-9:
        assert (score > threshold) == (expected[2] < expected[:2].min())


def test_of_two_classes_the_score_is_the_probability():
    p = np.array([[0.7, 0.3], [0.0, 1.0], [1.0, 0.0]])
    np.testing.assert_allclose(against_strongest(p, 1), p[:, 1])
    assert against_strongest(np.zeros((1, 2)), 1).tolist() == [0.0]


def test_the_lowest_point_that_the_budget_allows():
    own, score = many_scores(2000, 0.1)
    points = operating_points(own, score)
    for threshold in (0.5, 0.1, 0.01):
        place = points.place(threshold)
        assert points.thresholds[place] >= threshold
        assert place + 1 == len(points.thresholds) or points.thresholds[place + 1] < threshold
        for budget in (0.0, 0.03, 0.2, 1.0):
            within = points.place(threshold, prevalence=0.02, budget=budget)
            assert points.outcome(within, prevalence=0.02, miss=1).reviews.value <= 1000 * budget + 1e-9
            if within < place:
                assert points.outcome(within + 1, prevalence=0.02, miss=1).reviews.value > 1000 * budget


def test_what_a_point_means_for_a_thousand_cases():
    points = operating_points(np.repeat([True, False], [10, 90]), np.repeat([0.9, 0.1, 0.9, 0.1], [8, 2, 9, 81]))
    found = points.outcome(points.place(0.5), prevalence=0.02, miss=50)
    assert found.found.value == pytest.approx(16)
    assert found.missed.value == pytest.approx(4)
    assert found.alarms.value == pytest.approx(98)
    assert found.reviews.value == pytest.approx(114)
    assert found.cost.value == pytest.approx(4 * 50 + 98)
    assert found.recall.value == 0.8
    assert found.alarm_rate.value == pytest.approx(0.1)
    assert found.precision.value == pytest.approx(16 / 114)
    hits, sizes = np.array([8.0, 9.0]), np.array([10.0, 90.0])
    ends = wilson(hits, sizes)
    for estimate, weights in ((found.reviews, (20, 980)), (found.alarms, (0, 980)), (found.found, (20, 0))):
        assert (estimate.low, estimate.high) == pytest.approx(combined(hits / sizes, *ends, weights))
    low, high = combined(hits / sizes, *ends, (-50 * 20, 980))
    assert (found.cost.low, found.cost.high) == pytest.approx((1000 + low, 1000 + high))
    assert (found.missed.low, found.missed.high) == pytest.approx((20 * (1 - ends[1][0]), 20 * (1 - ends[0][0])))


def test_a_point_that_names_none_or_finds_none():
    own, score = np.array([True, False, False]), np.array([0.1, 0.9, 0.0])
    points = operating_points(own, score)
    none = points.outcome(0, prevalence=0.3, miss=2)
    assert none.precision is None
    assert none.found == Estimate(0.0, 0.0, pytest.approx(300 * wilson(np.array(0.0), np.array(1.0))[1]))
    wrong = points.outcome(1, prevalence=0.3, miss=2)
    assert wrong.precision.value == wrong.precision.low == 0
    assert 0 < wrong.precision.high < 1


@settings(max_examples=200)
@given(st.integers(1, 30), st.integers(1, 300), st.data(), st.floats(0.001, 0.9))
def test_intervals_hold_the_value_and_stay_possible(positives, negatives, data, prevalence):
    hits, alarms = data.draw(st.integers(0, positives)), data.draw(st.integers(0, negatives))
    own = np.repeat([True, False], [positives, negatives])
    score = np.concatenate([np.arange(positives) < hits, np.arange(negatives) < alarms]) * 0.8 + 0.1
    points = operating_points(own, score)
    found = points.outcome(points.place(0.5), prevalence=prevalence, miss=7)
    for name, estimate in vars(found).items():
        if estimate is not None:
            assert estimate.low <= estimate.value + 1e-9 <= estimate.high + 2e-9, name
            assert estimate.low >= 0, name
    if found.precision is not None:
        assert found.precision.high <= 1


@pytest.mark.parametrize(("positives", "negatives"), mostly_slow([(20, 400), (60, 600)]))
def test_the_interval_of_precision_holds_as_often_as_it_says(positives, negatives):
    """At another prevalence than that of the samples; 2,000 draws, a little less than 95 % is allowed for."""
    rng = np.random.default_rng(0)
    recall, rate, prevalence = 0.7, 0.05, 0.01
    truth = recall * prevalence / (recall * prevalence + rate * (1 - prevalence))
    held, cases = 0, 2000
    for hits, alarms in zip(rng.binomial(positives, recall, cases), rng.binomial(negatives, rate, cases), strict=True):
        own = np.repeat([True, False], [positives, negatives])
        score = np.concatenate([np.arange(positives) < hits, np.arange(negatives) < alarms]) * 0.8 + 0.1
        points = operating_points(own, score)
        found = points.outcome(points.place(0.5), prevalence=prevalence, miss=1).precision
        held += found is not None and found.low <= truth <= found.high
    assert 0.93 <= held / cases <= 0.98
