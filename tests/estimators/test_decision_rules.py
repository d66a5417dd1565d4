"""Decision rules of both estimators: a parameter, an argument, kept by files, never chosen by training rows."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification, make_multilabel_classification
from sklearn.linear_model import LogisticRegression

from equipoise import BalancedClassifier, UncertaintyBalancedClassifier
from equipoise.decisions import Balanced, Costs, Natural, RecallAtLeast, ReviewBudget
from equipoise.errors import InvalidInputError

RULE = RecallAtLeast({"rare": 0.8})


@pytest.fixture(scope="module")
def data():
    x, y = make_classification(1500, 8, n_informative=4, weights=[0.85], class_sep=1.0, random_state=0)
    return x.astype(np.float32), np.where(y == 1, "rare", "common")


@pytest.fixture(scope="module")
def blend(data):
    return BalancedClassifier(LogisticRegression(), decision=RULE, random_state=0).fit(*data)


@pytest.fixture(scope="module")
def network(data):
    model = UncertaintyBalancedClassifier(
        epochs=3, calibration="validation", validation_fraction=0.4, decision=RULE, random_state=0
    )
    return model.fit(*data)


@pytest.fixture(params=["blend", "network"])
def model(request):
    return request.getfixturevalue(request.param)


def test_the_rule_answers_and_says_what_to_expect(model, data):
    x, _ = data
    chosen = model.decision_
    p = model.predict_proba(x)[:, list(model.classes_).index("rare")]
    expected = np.where(p >= chosen.thresholds["rare"], "rare", "common")
    assert (model.predict(x) == expected).all()
    assert chosen.promises[0].promised == 0.8
    assert chosen.expected.classes[1].recall.value >= 0.8
    assert (model.predict(x, decision=Balanced()) != expected).any()


def test_it_is_a_parameter_that_is_cloned_saved_and_loaded(model, data, tmp_path):
    x, _ = data
    assert clone(model).get_params()["decision"] == RULE
    model.save(tmp_path / "model")
    again = type(model).load(tmp_path / "model")
    assert again.get_params()["decision"] == RULE
    assert (again.predict(x) == model.predict(x)).all()
    for rule in (ReviewBudget(50), Costs(miss={"rare": 9}), Natural()):
        assert (again.predict(x, decision=rule) == model.predict(x, decision=rule)).all()
        assert list(again.choose(rule).sentences()) == list(model.choose(rule).sentences())


def test_balanced_is_what_estimators_do_without_a_rule(model, data):
    x, _ = data
    plain = clone(model).set_params(decision=None)
    plain.fit(*data)
    assert (plain.predict(x) == model.predict(x, decision=Balanced())).all()
    assert (plain.predict(x, decision=Natural()) == plain.predict(x, target_prior=plain.prior_)).all()
    assert plain.decision_.rule == Balanced()


def test_a_class_prior_given_to_predict_takes_precedence(model, data):
    x, _ = data
    there = model.choose(RecallAtLeast({"rare": 0.8}, class_prior={"rare": 0.01}))
    moved = model.choose(RULE, target_prior=[0.99, 0.01])
    assert there.thresholds == pytest.approx(moved.thresholds)
    budget = ReviewBudget(50)
    assert (model.predict(x, decision=budget, target_prior=[0.5, 0.5]) == "rare").mean() < (
        model.predict(x, decision=budget) == "rare"
    ).mean()


def test_a_parameter_set_after_the_fit_counts_at_once(data):
    x, y = data
    model = BalancedClassifier(LogisticRegression(), decision=RULE, random_state=0).fit(x, y)
    expected = model.predict(x, decision=Natural())
    assert (model.set_params(decision=Natural()).predict(x) == expected).all()


def test_abstention_never_rules_the_answer_out(model, data):
    x, _ = data
    masked = model.predict(x, decision=Costs(miss={"rare": 30}), abstain=0.2)
    assert (masked.data == model.predict(x, decision=Costs(miss={"rare": 30}))).all()
    assert 0 < masked.mask.sum() < len(x)


def test_new_labelled_rows_choose_the_thresholds_anew(data):
    x, y = data
    model = BalancedClassifier(LogisticRegression(), decision=RULE, random_state=0).fit(x[:700], y[:700])
    before = model.decision_.thresholds["rare"]
    model.calibrate(x[700:], y[700:])
    assert model.decision_.expected.rows == len(x) - 700
    assert model.decision_.thresholds["rare"] != before


def test_a_network_without_unseen_samples_says_what_it_needs(data):
    x, y = data
    with pytest.raises(InvalidInputError, match="needs samples that no epoch sees; set calibration='validation'"):
        UncertaintyBalancedClassifier(epochs=1, decision=RULE).fit(x, y)
    model = UncertaintyBalancedClassifier(epochs=2, random_state=0).fit(x[:600], y[:600])
    with pytest.raises(InvalidInputError, match="this rule is chosen on samples that no epoch has seen"):
        model.predict(x, decision=RULE)
    cheap, dear = (model.predict(x, decision=Costs(miss={"rare": cost})) == "rare" for cost in (1, 1000))
    assert cheap.sum() < dear.sum()
    model.calibrate(x[600:], y[600:])
    assert model.choose(RULE).promises[0].promised == 0.8


def test_what_is_no_rule_is_refused_before_anything_is_fitted(data):
    for model in (BalancedClassifier(decision="recall"), UncertaintyBalancedClassifier(decision=0.5)):
        with pytest.raises(InvalidInputError, match=r"decision must be a rule of equipoise\.decisions, got"):
            model.fit(*data)


def test_several_labels_are_answered_by_their_thresholds():
    x, y = make_multilabel_classification(800, n_classes=3, random_state=0)
    model = BalancedClassifier(LogisticRegression(), random_state=0).fit(x, y)
    rule = RecallAtLeast({2: 0.9, 0: 0.7})
    answers = model.predict(x, decision=rule)
    chosen = model.choose(rule)
    thresholds = np.array([chosen.thresholds[str(place)] for place in range(3)])
    assert (answers == (model.predict_proba(x) >= thresholds)).all()
    assert (answers[:, 1] == model.predict(x)[:, 1]).all()
    assert answers[y[:, 2] == 1, 2].mean() > 0.88


def test_a_class_prior_by_class_is_that_in_the_order_of_the_classes():
    X, y = make_classification(300, weights=[0.8], random_state=0)
    model = BalancedClassifier(LogisticRegression(), members=2, random_state=0).fit(X, y)
    by_class, in_order = {1: 0.1, 0: 0.9}, [0.9, 0.1]
    np.testing.assert_array_equal(model.predict(X, target_prior=by_class), model.predict(X, target_prior=in_order))
    found = model.predict_proba(X, target_prior={1: 0.1})
    np.testing.assert_allclose(found, model.predict_proba(X, target_prior=in_order))
    rule = ReviewBudget(100)
    assert model.choose(rule, target_prior=by_class).thresholds == model.choose(rule, target_prior=in_order).thresholds
    with pytest.raises(InvalidInputError, match="the shares of target_prior must add up to 1"):
        model.predict(X, target_prior={0: 0.9, 1: 0.5})
    with pytest.raises(InvalidInputError, match="unknown class '2'"):
        model.uncertainty(X, target_prior={2: 0.5})
