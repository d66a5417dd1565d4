"""What every decision rule promises, whichever it is."""

import json
import pickle

import numpy as np
import pytest
from sklearn.metrics import fbeta_score

from equipoise.decisions import (
    DECISIONS,
    Balanced,
    Chosen,
    Costs,
    DecisionRule,
    Evidence,
    FScore,
    Natural,
    PrecisionAtLeast,
    RecallAtLeast,
    ReviewBudget,
    Situation,
    rule_from_json,
)
from equipoise.errors import InvalidInputError
from tests.decisions.made import many_classes, several_labels, two_classes

RULES: dict[str, DecisionRule] = {
    "balanced": Balanced(),
    "natural": Natural(class_prior={"b": 0.3}),
    "costs": Costs(miss={"b": 20}, false_alarm={"b": 2}),
    "recall_at_least": RecallAtLeast({"b": 0.9}),
    "precision_at_least": PrecisionAtLeast({"b": 0.5}),
    "review_budget": ReviewBudget(40, per=1000, of=("b",)),
    "f_score": FScore(2, of="b"),
}
SITUATIONS = {
    "two": two_classes(names=("a", "b")),
    "many": many_classes(),
    "several": several_labels(),
}


def renamed(rule: DecisionRule, label: str) -> DecisionRule:
    return rule_from_json(json.loads(json.dumps(rule.to_json()).replace('"b"', f'"{label}"')))


def test_every_rule_is_tried_here():
    assert set(RULES) == set(DECISIONS)
    assert all(DECISIONS[name] is type(rule) and rule.name == name for name, rule in RULES.items())


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_rules_are_immutable_comparable_and_can_be_pasted(rule):
    pasted = eval(repr(rule), dict(DECISIONS) | {type(rule).__name__: type(rule)})
    assert pasted == rule == pickle.loads(pickle.dumps(rule)) == rule_from_json(json.loads(json.dumps(rule.to_json())))
    assert hash(pasted) == hash(rule)
    assert rule != type(rule)(**{**vars(rule), "class_prior": {"b": 0.25}})
    with pytest.raises(AttributeError, match="cannot assign"):
        rule.class_prior = None


@pytest.mark.parametrize(
    ("given", "same"),
    [
        (lambda: FScore(np.int64(2), of=np.int64(1)), FScore(2, of=1)),
        (lambda: ReviewBudget(np.int64(40), np.int32(500), of=1), ReviewBudget(40, 500, of=(1,))),
        (lambda: ReviewBudget(40, of=np.array([1, 2])), ReviewBudget(40, of=(1, 2))),
        (lambda: Costs(false_alarm=np.int64(2)), Costs(false_alarm=2)),
        (lambda: Costs([[0, 1], [5, 0]], classes=np.array([0, 1])), Costs([[0, 1], [5, 0]], classes=(0, 1))),
    ],
)
def test_rules_take_numbers_and_labels_of_numpy(given, same):
    rule = given()
    assert rule == same
    assert repr(rule) == repr(same)
    assert rule_from_json(json.loads(json.dumps(rule.to_json()))) == same


@pytest.mark.parametrize("situation", SITUATIONS.values(), ids=SITUATIONS)
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_chosen_rules_come_back_from_json_and_answer_alike(rule, situation):
    chosen = renamed(rule, "t" if situation.several else "b").choose(situation)
    back = Chosen.from_json(
        json.loads(json.dumps(chosen.to_json())), situation.classes, several=situation.several, where="x.json"
    )
    q = situation.at(chosen.rule.class_prior).probabilities
    assert (back.policy.places(q) == chosen.policy.places(q)).all()
    assert back.rule == chosen.rule
    assert list(back.sentences()) == list(chosen.sentences()) != []
    assert chosen.expected is not None
    answers = chosen.rule.crossed(situation, situation.probabilities) if rule.searches else chosen.policy.places(q)
    labels, place = situation.evidence.labels, 1
    own, named = (labels[:, 1] == 1, answers[:, 1] == 1) if situation.several else (labels == place, answers == place)
    found = chosen.expected.classes[place]
    assert found.recall.value == pytest.approx(named[own].mean())
    assert found.recall.low <= found.recall.value <= found.recall.high
    if rule.class_prior is None:
        shares = situation.used_at[1] if situation.several else situation.used_at
        alarms = sum(
            shares[k] * named[(labels[:, 1] if situation.several else labels) == k].mean()
            for k in range(len(shares))
            if k != 1
        )
        assert found.false_alarms.value == pytest.approx(1000 * alarms)
        assert found.precision.value == pytest.approx(
            shares[1] * found.recall.value / (shares[1] * found.recall.value + alarms)
        )


@pytest.mark.parametrize("rule", [rule for rule in RULES.values() if rule.needs_evidence], ids=lambda rule: rule.name)
def test_rules_with_thresholds_need_samples_that_no_epoch_has_seen(rule):
    situation = two_classes(names=("a", "b"))
    with pytest.raises(InvalidInputError, match="samples that no epoch has seen"):
        rule.choose(type(situation)(situation.classes, situation.prior, situation.aimed, None))


def test_a_misspelt_class_is_refused_with_the_nearest_name():
    with pytest.raises(InvalidInputError, match=r"unknown class 'frod'; did you mean 'fraud'\?"):
        RecallAtLeast({"frod": 0.9}).choose(two_classes())


def test_numbers_as_text_find_their_class():
    chosen = RecallAtLeast({"1": 0.9}).choose(two_classes(names=(0, 1)))
    assert chosen.policy.claims[0].places == (1,)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"rule": "no such"}, "names the rule 'no such'"),
        ({"rule": "recall_at_least"}, "an invalid rule recall_at_least"),
        ({"rule": "recall_at_least", "floors": [["a", 2]]}, "must be above 0 and below 1, got 2"),
        ({"rule": "recall_at_least", "floors": [["a", True]]}, "must be finite numbers"),
        ({"rule": "recall_at_least", "floors": 3}, "must be given by class"),
        ({"rule": "recall_at_least", "floors": []}, "at least one class"),
        ({"rule": "recall_at_least", "floors": [["a", 0.5]], "more": 1}, "unknown parts"),
        ({"rule": "review_budget", "cases": "40"}, "a review budget must be above 0"),
        ({"rule": "f_score", "beta": -1}, "beta must be a finite number above 0"),
        ({"rule": 3}, "expected text, got a whole number"),
        ([], "expected an object in braces"),
    ],
)
def test_json_that_is_no_rule_is_refused(value, message):
    with pytest.raises(InvalidInputError, match=message):
        rule_from_json(value)


@pytest.mark.parametrize(
    "change",
    [
        {"weights": [1.0]},
        {"weights": None},
        {"claims": [{"places": [7], "threshold": 0.5}]},
        {"claims": [{"places": [], "threshold": 0.5}]},
        {"mix": [[1.0, 2.0]]},
        {"weights": [float("nan"), 1.0]},
    ],
)
def test_a_damaged_choice_is_refused(change):
    situation = two_classes()
    value = RecallAtLeast({"fraud": 0.9}).choose(situation).to_json() | change
    with pytest.raises(InvalidInputError, match="choose it again"):
        Chosen.from_json(value, situation.classes, several=False)


def test_the_budget_is_kept_and_no_smaller_than_need_be():
    for situation in (two_classes(), many_classes()):
        for prior in (None, {situation.classes[-1]: 0.3}):
            chosen = ReviewBudget(60, per=1000, class_prior=prior).choose(situation)
            assert chosen.expected is not None
            assert 55 < chosen.expected.reviews.value <= 60


def test_the_f_score_is_the_best_of_all_thresholds():
    situation = two_classes(400)
    p, y = situation.probabilities[:, 1], situation.evidence.labels
    rows = situation.row_weights()
    chosen = FScore(2).choose(situation)
    (claim,) = chosen.policy.claims
    best = max(fbeta_score(y, p >= at, beta=2, sample_weight=rows) for at in np.unique(p))
    assert fbeta_score(y, p >= claim.threshold, beta=2, sample_weight=rows) == pytest.approx(best)


def test_the_macro_f_score_of_many_classes_beats_every_scaled_weight():
    situation = many_classes()
    q, y, rows = situation.probabilities, situation.evidence.labels, situation.row_weights()

    def macro(weights: np.ndarray) -> float:
        return float(fbeta_score(y, (q * weights).argmax(1), beta=1, average="macro", sample_weight=rows))

    found = FScore().choose(situation).policy.weights
    assert found is not None
    reached = macro(found)
    assert reached > macro(situation.balanced_weights) + 0.01
    for place in range(3):
        for factor in (0.3, 0.5, 0.8, 1.25, 2.0, 3.0):
            changed = found.copy()
            changed[place] *= factor
            assert macro(changed) <= reached + 1e-9


def test_precision_names_as_many_as_the_floor_allows():
    situation = two_classes(20_000)
    low, high = (PrecisionAtLeast({"fraud": floor}).choose(situation) for floor in (0.4, 0.6))
    for chosen, floor in ((low, 0.4), (high, 0.6)):
        assert chosen.expected is not None
        assert floor <= chosen.expected.classes[1].precision.value < floor + 0.12
        assert chosen.promises[0].promised == floor
        assert chosen.policy.notes == ()
    assert low.expected.classes[1].recall.value > high.expected.classes[1].recall.value


def test_a_precision_beyond_the_samples_is_refused_in_a_sentence_with_the_best_one():
    chosen = PrecisionAtLeast({"fraud": 0.99}).choose(two_classes())
    (note,) = chosen.policy.notes
    assert "a precision of 99 % cannot be promised for class 'fraud'" in note
    assert 0 < chosen.promises[0].promised < 0.99


def test_precision_at_another_prior_is_that_of_rows_drawn_there():
    chosen = PrecisionAtLeast({"fraud": 0.5}, class_prior={"fraud": 0.3}).choose(two_classes(20_000, 0.1))
    there = two_classes(200_000, 0.3, seed=5)
    answers = chosen.policy.places(there.probabilities)
    right = (there.evidence.labels == 1)[answers == 1]
    weights = there.evidence.weight[answers == 1]
    assert chosen.expected is not None
    assert (
        0.5 <= np.average(right, weights=weights) == pytest.approx(chosen.expected.classes[1].precision.value, abs=0.03)
    )


def test_class_priors_of_some_classes_leave_the_rest_as_in_training():
    moved = many_classes().at(Natural(class_prior={"c": 0.5}).class_prior)
    np.testing.assert_allclose(moved.used_at, [0.5 * 0.8 / 0.95, 0.5 * 0.15 / 0.95, 0.5])
    with pytest.raises(InvalidInputError, match="leaves no share for the other classes"):
        many_classes().at(Natural(class_prior={"c": 1.5}).class_prior)


def test_parts_deal_out_every_class_and_every_row_once():
    situation = many_classes(500)
    evidence = situation.evidence
    parts = evidence.parts(5)
    assert sorted(np.concatenate([own for _, own in parts]).tolist()) == list(range(500))
    for others, own in parts:
        assert len(set(others) & set(own)) == 0
        assert np.abs(np.bincount(evidence.labels[own]) - np.bincount(evidence.labels) / 5).max() < 2


def test_a_threshold_that_was_searched_for_is_judged_by_rows_without_a_part_in_it():
    """Labels without any relation to the probabilities: the best F score on the rows themselves would flatter."""
    rng = np.random.default_rng(0)
    flattered, honest = [], []
    for _ in range(30):
        p, y = rng.random(80), (rng.random(80) < 0.15).astype(int)
        prior = np.array([0.85, 0.15])
        situation = Situation((0, 1), prior, prior, Evidence.of(np.stack((1 - p, p), 1), y))
        rule = Costs(miss={1: 6})
        chosen = rule.choose(situation)
        flattered.append(chosen.cost_of(y, chosen.policy.places(situation.probabilities)))
        honest.append(chosen.expected.cost.value)
    assert np.mean(flattered) < 0.9 * np.mean(honest)


def test_evidence_of_very_many_rows_keeps_rare_classes_whole():
    labels = np.repeat([0, 1], [200_000, 500])
    kept = Evidence.of(np.full((200_500, 2), 0.5), labels)
    assert kept is not None
    assert len(kept.labels) == 50_000
    assert (kept.labels == 1).sum() == 500
    np.testing.assert_allclose(np.bincount(kept.labels, weights=kept.weight), [200_000, 500])
