"""Costs: the cheapest answer by a slow loop, what it is expected to cost, and matrices that decide nothing."""

from dataclasses import replace

import numpy as np
import pytest

from equipoise.decisions import Costs, Evidence, Situation
from equipoise.decisions.costs import cheapest_threshold
from equipoise.decisions.expected_results import expect
from equipoise.errors import InvalidInputError
from equipoise.evaluation.intervals import Estimate, for_next, wilson
from tests.decisions.made import many_classes, several_labels, two_classes

MATRIX = [[0.0, 1.0, 4.0], [3.0, 0.5, 2.0], [10.0, 6.0, 0.0]]


def slow_answers(q: np.ndarray, costs: list[list[float]]) -> list[int]:
    found = []
    for row in q.tolist():
        each = [sum(p * costs[true][named] for true, p in enumerate(row)) for named in range(len(row))]
        found.append(each.index(min(each)))
    return found


def test_the_cheapest_class_is_named_in_any_order_of_the_matrix():
    situation = many_classes(500)
    q = situation.probabilities
    assert Costs(MATRIX).choose(situation).policy.places(q).tolist() == slow_answers(q, MATRIX)
    order = [2, 0, 1]
    turned = [[MATRIX[a][b] for b in order] for a in order]
    chosen = Costs(turned, classes=("c", "a", "b")).choose(situation)
    assert chosen.policy.places(q).tolist() == slow_answers(q, MATRIX)


def test_misses_and_false_alarms_are_a_matrix():
    situation = many_classes(500)
    q = situation.probabilities
    chosen = Costs(miss={"c": 30}, false_alarm={"b": 2}).choose(situation)
    expected = slow_answers(q, [[0, 2, 1], [1, 0, 1], [30, 30, 0]])
    assert chosen.policy.places(q).tolist() == expected
    assert Costs(miss={"c": 30}, false_alarm=3).choose(situation).policy.costs.tolist() == [
        [0, 3, 3],
        [3, 0, 3],
        [30, 30, 0],
    ]


def test_each_row_may_have_its_own_costs():
    situation = two_classes(6)
    amounts = [1.0, 5.0, 10.0, 50.0, 100.0, 1000.0]
    chosen = Costs(miss={"fraud": amounts}, false_alarm=2.0).choose(situation)
    q = situation.probabilities
    assert chosen.policy.places(q).tolist() == [
        slow_answers(row[None], [[0, 2], [amount, 0]])[0] for row, amount in zip(q, amounts, strict=True)
    ]
    assert chosen.expected is None
    with pytest.raises(InvalidInputError, match="cannot be saved"):
        chosen.to_json()


def test_several_labels_have_thresholds_by_their_costs():
    situation = several_labels()
    rule = Costs(miss={"s": 9}, false_alarm={"t": 3})
    by_theory = rule.choose(replace(situation, evidence=None))
    assert by_theory.thresholds == pytest.approx({"s": 0.1, "t": 0.75})
    chosen = rule.choose(situation)
    assert chosen.thresholds == pytest.approx(by_theory.thresholds, abs=0.1)  # the evidence may move them
    assert chosen.expected is not None
    assert chosen.expected.cost is not None


def test_evidence_of_wrong_probabilities_moves_the_threshold_and_of_right_ones_hardly():
    right = two_classes(20_000)
    p = right.evidence.probabilities[:, 1].astype(float)
    wrong = p / (p + 20 * (1 - p))  # twenty times too small odds
    evidence = Evidence.of(np.stack((1 - wrong, wrong), 1), right.evidence.labels)
    rule, y = Costs(miss={"fraud": 9}), right.evidence.labels
    (claim,) = rule.choose(right).policy.claims
    assert claim.threshold == pytest.approx(0.1, abs=0.03)
    situation = replace(right, evidence=evidence)
    (moved,) = rule.choose(situation).policy.claims
    odds = 0.1 / 0.9 / 20
    assert moved.threshold == pytest.approx(odds / (1 + odds), rel=0.5)
    costs = [1000 * (np.where(y == 1, 9, 1) * ((wrong >= at) != y)).mean() for at in (0.1, moved.threshold)]
    assert costs[1] < 0.8 * costs[0]


@pytest.mark.parametrize("prior", [None, {"c": 0.4}])
def test_the_expected_cost_is_that_of_the_evidence_at_the_prior(prior):
    situation = many_classes()
    chosen = Costs(MATRIX, class_prior=prior).choose(situation)
    here = situation.at(chosen.rule.class_prior)
    named, y = chosen.policy.places(here.probabilities), situation.evidence.labels
    slow = 0.0
    for true in range(3):
        own = [MATRIX[true][place] for place in named[y == true].tolist()]
        slow += here.used_at[true] * sum(own) / len(own)
    assert chosen.expected is not None
    cost = chosen.expected.cost
    assert cost.value == pytest.approx(1000 * slow)
    assert cost.low < cost.value < cost.high


@pytest.mark.slow
def test_the_interval_of_the_cost_holds_the_true_one():
    """Evidence of 400 rows, 200 times; the true cost is that of the same rule on very many rows."""
    rule, huge = Costs(miss={"fraud": 20}), two_classes(400_000, seed=10_000)
    named, y, w = rule.choose(huge).policy.places(huge.probabilities), huge.evidence.labels, huge.evidence.weight
    cost = np.where(y == 1, 20.0, 1.0) * (named != y)
    true = 1000 * float((cost * w).sum() / w.sum())
    inside = 0
    for seed in range(200):
        found = rule.choose(two_classes(400, seed=seed)).expected
        assert found is not None
        inside += found.cost.low <= true <= found.cost.high
    assert inside >= 200 * 0.95 - 3 * np.sqrt(200 * 0.95 * 0.05)


@pytest.mark.slow
def test_the_next_cases_cost_what_was_said_19_times_of_20():
    """Evidence of 400 rows, 200 times; each time 300 new rows are answered."""
    rule, inside = Costs(miss={"fraud": 20}), 0
    for seed in range(200):
        chosen, new = rule.choose(two_classes(400, seed=seed)), two_classes(300, seed=5000 + seed)
        cost = chosen.cost_of(new.evidence.labels, chosen.policy.places(new.probabilities))
        ahead = chosen.expected.cost_of_next(300)
        inside += ahead.low <= cost <= ahead.high
        assert ahead.high - ahead.low > chosen.expected.cost.high - chosen.expected.cost.low
    assert 200 * 0.95 - 3 * np.sqrt(200 * 0.95 * 0.05) <= inside < 200


def test_both_tails_of_the_next_cases_are_small_where_misses_are_few():
    """Of 60 samples 3 are missed on average, and of 20 new ones 1; each costs 20."""
    generator, tails = np.random.default_rng(0), np.zeros(2)
    for missed, new in zip(generator.binomial(60, 0.05, 3000), generator.binomial(20, 0.05, 3000), strict=True):
        share, ends = missed / 60, wilson(np.array(float(missed)), np.array(60.0))
        ahead = for_next(
            Estimate(20 * share, *(20 * float(end) for end in ends)), 20 * np.sqrt(share * (1 - share)), 20
        )
        tails += (new < ahead.low - 1e-9, new > ahead.high + 1e-9)
    assert (tails / 3000 < 0.04).all()


def test_intervals_of_a_blend_span_what_single_members_gave():
    """The mean's probabilities are an estimate; what one member each gave was observed."""
    one, rule = two_classes(2000), Costs(miss={"fraud": 20})
    better = (0.8 * one.evidence.probabilities + 0.2 * np.eye(2)[one.evidence.labels]).astype(np.float32)
    both = replace(one, evidence=replace(one.evidence, answered=better))
    found = rule.choose(both).expected
    alone = expect(both, rule.crossed(both, both.probabilities), rule.cost_matrix(both.classes, several=False))
    assert found.cost.value < 0.8 * alone.cost.value
    assert found.cost.low < alone.cost.low
    assert found.cost.high == alone.cost.high
    assert found.classes[1].recall.low == alone.classes[1].recall.low < found.classes[1].recall.value
    assert found.cost_spread**2 / found.cost.value >= alone.cost_spread**2 / alone.cost.value * (1 - 1e-9)


def test_the_threshold_follows_no_single_row():
    """Four quarters of the same rows lead to about the same threshold."""
    p = np.linspace(0.3, 0.7, 400)
    y = (np.random.default_rng(0).random(400) < p).astype(float)
    found = [cheapest_threshold(p[part::4], 1 - y[part::4], y[part::4], 0.2) for part in range(4)]
    assert np.ptp(found) < 0.15
    assert np.mean(found) == pytest.approx(0.5, abs=0.07)


def test_the_spread_of_several_labels_is_that_of_their_sum():
    situation = several_labels()
    chosen = Costs(miss={"s": 9}, false_alarm={"t": 3}).choose(situation)
    evidence, expected = situation.evidence, chosen.expected
    named = Costs(miss={"s": 9}, false_alarm={"t": 3}).crossed(situation, situation.probabilities)
    cost = (np.array([[9, 1]]) * (evidence.labels > named) + np.array([[1, 3]]) * (evidence.labels < named)).sum(1)
    assert expected.cost_spread == pytest.approx(1000 * cost.std())
    assert expected.cost_of_next(100).high > expected.cost_of_next(10_000).high > expected.cost.high


def test_no_miss_among_few_is_not_taken_for_certain():
    p, y = np.array([[0.995, 0.005]] * 90 + [[0.1, 0.9]] * 10), np.repeat([0, 1], [90, 10])
    prior = np.array([0.9, 0.1])
    found = Costs(miss={1: 100}).choose(Situation((0, 1), prior, prior, Evidence.of(p, y))).expected
    assert found is not None
    assert found.cost.value == 0
    assert found.cost.high > 1000 * 0.1 * 100 * 0.2  # ten hits leave room for more than a fifth of misses


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"matrix": [[0, 1], [2, 3], [4, 5]]}, r"a row and a column for each class, got \(3, 2\)"),
        ({"matrix": [[0, -1], [1, 0]]}, "finite numbers that are not negative"),
        ({"matrix": [[0, float("inf")], [1, 0]]}, "finite numbers that are not negative"),
        ({"matrix": [[0, 0], [1, 0]]}, "singular: in row 1 every answer costs the same"),
        ({"matrix": [[0, 1, 1], [1, 0, 0], [1, 0, 0]]}, "singular: columns 2 and 3 are the same"),
        ({"matrix": [[2, 1], [1, 0]]}, "in row 1 of the cost matrix the right answer costs more"),
        ({"matrix": [[0, 1], [1, 0]], "miss": {"a": 2}}, "give one of these"),
        ({}, "give one of these"),
        ({"miss": {"a": -2}}, "must be above 0 and below 1e"),
        ({"miss": 3}, "must be given by class"),
        ({"miss": {"a": [1, -2]}}, "every cost of 'a' must be a finite number above 0"),
        (
            {"matrix": [[0, 1], [1, 0]], "classes": ("a", "a")},
            "classes must name each of the 2 rows of the cost matrix once",
        ),
    ],
)
def test_costs_that_decide_nothing_are_refused(given, message):
    with pytest.raises(InvalidInputError, match=message):
        Costs(**given)


def test_a_matrix_of_other_classes_is_refused():
    with pytest.raises(InvalidInputError, match="must have 3 rows, one per class, got 2"):
        Costs([[0, 1], [1, 0]]).choose(many_classes(50))
    with pytest.raises(InvalidInputError, match="give miss and false_alarm by attribute"):
        Costs([[0, 1], [1, 0]]).choose(several_labels(50))
