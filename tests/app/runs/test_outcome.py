"""What a rule gave on labelled rows: counts, and whether a promise was kept, missed by chance, or broken."""

import re
from dataclasses import replace

import numpy as np
import pytest

from equipoise.app.runs.evaluate import outcome
from equipoise.decisions import Costs, RecallAtLeast, Situation
from tests.decisions.made import two_classes

BELOW = "that is below the 90 % recall of class 'fraud' promised"


def rows(found: int, of: int, alarms: int, others: int):
    """Return labels and answers with so many hits of class 1 and so many false alarms."""
    labels = np.repeat([1, 0], [of, others])
    named = np.concatenate([np.arange(of) < found, np.arange(others) < alarms]).astype(np.int64)
    return labels, named


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (92, "the 90 % recall of class 'fraud' promised is kept here."),
        (87, f"{BELOW}, but by no more than chance explains in 100 cases."),
        (70, f"{BELOW}, and by more than chance explains: these samples differ"),
    ],
)
def test_a_promise_is_compared_with_what_came(found, sentence):
    chosen = RecallAtLeast({"fraud": 0.9}).choose(two_classes(2000, seed=0))
    first, second = outcome(chosen, *rows(found, 100, 30, 200))
    finds = f"it finds {found} of 100 of class 'fraud' ({found} %)"
    assert first == f"on these samples {finds}, with 100 false alarms per 1,000 cases."
    assert second.startswith(sentence)


def test_costs_are_said_and_a_class_without_samples_has_no_share():
    situation = two_classes(2000, seed=0)
    chosen = Costs(miss={"fraud": 20}).choose(situation)
    *_, cost = outcome(chosen, *rows(3, 5, 10, 95))
    assert cost.startswith("these samples cost 500.0 per 1,000 cases, within the ")
    assert cost.endswith(" expected of 100 cases.")
    *_, cost = outcome(chosen, *rows(10, 500, 10, 500))
    assert re.search(r"more than the [\d.,]+ to [\d.,]+ expected of 1,000 cases: these samples differ", cost)
    *_, cost = outcome(chosen, *rows(0, 0, 0, 5000))
    assert "these samples cost 0.0 per 1,000 cases, less than the " in cost
    only = list(outcome(RecallAtLeast({"fraud": 0.9}).choose(situation), *rows(0, 0, 10, 100)))
    assert only == ["on these samples none is of class 'fraud', with 100 false alarms per 1,000 cases."]


def test_each_of_several_labels_is_counted_by_itself():
    one = two_classes(2000, seed=0)
    evidence = one.known()
    pairs = np.stack((1 - one.prior[1:], one.prior[1:]), axis=-1)
    several = replace(evidence, probabilities=evidence.probabilities[:, 1:], labels=evidence.labels[:, None])
    chosen = RecallAtLeast({"ill": 0.5}).choose(Situation(("ill",), pairs, pairs, several))
    labels, named = (part[:, None] for part in rows(8, 10, 5, 40))
    first, second = outcome(chosen, labels, named)
    assert first == "on these samples it finds 8 of 10 of class 'ill' (80 %), with 100 false alarms per 1,000 cases."
    assert second == "the 50 % recall of class 'ill' promised is kept here."
