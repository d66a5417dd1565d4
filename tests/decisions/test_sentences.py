"""What rules say they are expected to give: of which classes, and in which words."""

import numpy as np
import pytest

from equipoise.decisions import Costs, Evidence, FScore, Natural, RecallAtLeast, ReviewBudget, Situation
from equipoise.errors import InvalidInputError
from tests.decisions.made import many_classes, several_labels, two_classes


def spoken_of(rule, situation):
    sentences = list(rule.choose(situation).sentences())
    return [sentence.split("of class ")[1].split()[0] for sentence in sentences if sentence.startswith("finds")]


@pytest.mark.parametrize("rule", [FScore(), ReviewBudget(100), Costs([[0, 1, 2], [3, 0, 1], [5, 4, 0]])])
def test_rules_about_no_class_speak_of_all_but_the_most_common_one(rule):
    assert spoken_of(rule, many_classes()) == ["'b'", "'c'"]


def test_costs_speak_of_their_misses_first_and_of_two_classes_of_these_alone():
    assert spoken_of(Costs(miss={"c": 9}), many_classes()) == ["'c'", "'b'"]
    assert spoken_of(Costs(miss={"ok": 9}), two_classes()) == ["'ok'"]
    assert spoken_of(Costs(false_alarm={"ok": 9}), two_classes()) == ["'fraud'"]


def test_several_labels_are_all_spoken_of_and_of_many_classes_five():
    assert spoken_of(FScore(), several_labels()) == ["'s'", "'t'"]
    counts = np.arange(10, 90, 10)
    y = np.repeat(np.arange(8), counts)
    p = np.full((len(y), 8), 0.05)
    p[np.arange(len(y)), y] = 0.65
    prior = counts / counts.sum()
    found = spoken_of(ReviewBudget(300), Situation(tuple(range(8)), prior, prior, Evidence.of(p, y)))
    assert found == ["'0'", "'1'", "'2'", "'3'", "'4'"]


def test_a_budget_says_how_many_cases_it_flags():
    chosen = ReviewBudget(100).choose(many_classes())
    reviews = chosen.expected.reviews
    assert next(chosen.sentences()) == f"flags 100 cases per 1,000 [{reviews.low:.0f}, {reviews.high:.0f}]."
    assert next(ReviewBudget(100, of=["c"]).choose(many_classes()).sentences()).startswith("finds ")  # b is named too
    assert next(ReviewBudget(100).choose(several_labels()).sentences()).startswith("finds ")


def test_priors_that_cannot_be_are_refused():
    with pytest.raises(
        InvalidInputError, match=r"the class prior must add up to 1 if every class is listed, got 1\.4\."
    ):
        Natural(class_prior={"fraud": 0.5, "ok": 0.9}).choose(two_classes())
    rounded = Natural(class_prior={"a": 0.333, "b": 0.333, "c": 0.333}).choose(many_classes())
    np.testing.assert_allclose(rounded.target_prior, 1 / 3)


def test_floors_without_a_class_are_one_sentence():
    with pytest.raises(InvalidInputError, match=r"the recall must name at least one class, such as .*, got none"):
        RecallAtLeast({})
    with pytest.raises(InvalidInputError, match=r"must be above 0 and below 1, got 95; did you mean 0\.95\?"):
        RecallAtLeast({"fraud": 95})
    with pytest.raises(InvalidInputError, match=r"must be above 0 and below 1, got -1\."):
        RecallAtLeast({"fraud": -1})
