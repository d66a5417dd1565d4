"""Decision rules from the command line."""

from dataclasses import fields

import pytest

from equipoise.app.cli.flags import DECISION
from equipoise.app.decision_options import DECISION_FLAGS, RULES, DecisionOptions, read_decision
from equipoise.app.runs import RunOptions
from equipoise.decisions import Costs, FScore, Natural, PrecisionAtLeast, ReviewBudget
from equipoise.errors import InvalidInputError


def test_every_option_has_a_rule_and_a_flag_of_its_own():
    names = [each.name for each in fields(DecisionOptions)]
    assert [*RULES, "prior"] == [*DECISION, "prior"] == names == list(DECISION_FLAGS)
    assert DECISION_FLAGS["precision_floor"] == "--precision"  # --mixed-precision has the option's name
    assert len(set(DECISION_FLAGS.values())) == len(names)
    assert set(names) <= {each.name for each in fields(RunOptions)}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"recall": "fraud"}, "--recall must be CLASS=NUMBER"),
        ({"recall": "fraud=0.9,ok"}, "--recall must be CLASS=NUMBER"),
        ({"recall": "fraud=0.9,fraud=0.8"}, "--recall must be CLASS=NUMBER"),
        ({"recall": "fraud=1.5"}, "the recall of 'fraud' must be above 0 and below 1, got 1.5"),
        ({"precision_floor": "fraud=0"}, "the precision of 'fraud' must be above 0 and below 1, got 0"),
        ({"recall": "fraud=0.9", "review": "40/1000"}, "--recall and --review ask for different decisions"),
        ({"review": "40"}, "--review must be a number of cases out of a total"),
        ({"review": "1000/40"}, "above 0 and below the number of cases"),
        ({"cost": "fraud=50"}, "--cost must be miss:CLASS=COST or alarm:CLASS=COST"),
        ({"cost": "miss:fraud=-50"}, "must be above 0 and below 1e"),
        ({"cost": "gone.csv"}, "the costs in gone.csv cannot be read"),
        ({"f_score": -1.0}, "beta must be a finite number above 0"),
        ({"prior": "fraud=-1"}, None),
    ],
)
def test_wrong_flags_are_one_sentence(flags, message):
    if message is None:
        assert read_decision(flags) == Natural(class_prior={"fraud": -1.0})  # refused where the classes are known
        return
    with pytest.raises(InvalidInputError, match=message):
        read_decision(flags)


def test_a_matrix_is_read_by_its_names(tmp_path):
    path = tmp_path / "costs.csv"
    path.write_text("true,ok,fraud\nfraud,50,0\nok,0,1\n")
    assert read_decision({"cost": str(path)}) == Costs([[0, 1], [50, 0]], classes=("ok", "fraud"))
    for text in ("true,ok\nfraud,50,0\n", "true,ok,fraud\nok,0,1\nfraud,x,0\n", "", "true,ok,ok\nok,1,0\nok,0,1\n"):
        path.write_text(text)
        with pytest.raises(InvalidInputError, match="must be a square table of numbers"):
            read_decision({"cost": str(path)})


def test_flags_of_all_rules():
    assert read_decision({}) is None
    assert read_decision({"cost": "miss:a=5,alarm:b=2"}) == Costs(miss={"a": 5}, false_alarm={"b": 2})
    assert read_decision({"review": "40/1000", "prior": "a=0.1"}) == ReviewBudget(
        40.0, per=1000.0, class_prior={"a": 0.1}
    )
    assert read_decision({"precision_floor": "a=0.5"}) == PrecisionAtLeast({"a": 0.5})
    assert read_decision({"f_score": 2.0}) == FScore(2.0)
