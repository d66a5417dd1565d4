"""Decisions as a person asks for them: from a table to a promised recall, and one sentence for what is wrong."""

import json

import pandas as pd
import pytest

from tests.app.runs.made import patients_frame
from tests.marks import mostly_slow


@pytest.fixture
def patients(tmp_path):
    patients_frame(600).to_csv(tmp_path / "patients.csv", index=False)


@pytest.mark.slow
def test_from_a_table_to_a_promised_recall_and_what_it_costs(equipoise, patients, tmp_path):  # noqa: ARG001
    flags = ("--target", "state", "--model", "forest", "--out", "run")
    done = equipoise("train", "patients.csv", *flags, "--recall", "ill=0.8")
    assert done.code == 0, done.err
    expected, promised = done.out.splitlines()[-2:]  # whatever becomes of standard error
    assert expected.startswith("The decision finds ")
    assert " % of class 'ill' [" in expected
    assert " false alarms per 1,000 cases [" in expected
    assert promised == "With 95 % confidence it finds at least 80 % of class 'ill'."
    assert "The decision finds" not in done.err
    found = equipoise("predict", "run", "patients.csv", "--out", "a.csv", "--json", "--cost", "miss:ill=30")
    told = json.loads(found.out)
    assert told["decision"]["rule"] == {"rule": "costs", "miss": [["ill", 30.0]]}
    assert "The decision costs " in found.err
    assert set(pd.read_csv(tmp_path / "a.csv")["rule"].str.partition(":")[0]) == {"costs"}
    judged = equipoise("evaluate", "run", "patients.csv", "--json", "-q", "--review", "50/1000", "--prior", "estimate")
    told = json.loads(judged.out)
    assert told["decision"]["rule"]["rule"] == "review_budget"
    assert told["cost"] is None
    assert told["decision"]["expected"]["reviews"]["value"] <= 50
    costs = equipoise("evaluate", "run", "patients.csv", "-q", "--cost", "miss:ill=30", "--prior", "ill=0.02")
    assert "These samples cost " in costs.out
    assert "On these samples it finds " in costs.out
    assert "The decision finds " in costs.out
    wrong = equipoise("predict", "run", "patients.csv", "--out", "b.csv", "--prior", "ill=0.5,well=0.9")
    assert "the shares of --prior must add up to 1 if every class is listed, got 1.4." in wrong.err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--recall", "il=0.9"], "unknown class 'il'; did you mean 'ill'?"),
        (["--recall", "ill=95"], "the recall of 'ill' must be above 0 and below 1, got 95; did you mean 0.95?"),
        (["--recall", "ill=95%"], "--recall takes shares above 0 and below 1, got 95%; did you mean 0.95?"),
        (["--prior", "ill=0.5,well=0.9"], "the shares of the class prior must add up to 1 if every class is listed"),
        (["--recall", "ill=0.9", "--precision", "ill=0.5"], "--recall and --precision ask for different decisions"),
        (["--cost", "miss:ill=0"], "miss: the cost of 'ill' must be above 0 and below"),
        (["--cost", "costs.csv"], "the cost matrix is singular: in row 1 every answer costs the same"),
        (["--review", "2000/1000"], "a review budget must be above 0 and below the number of cases"),
        (["--prior", "ill=1.5"], "the class prior leaves no share for the other classes"),
        (["--f-score", "0"], "--f-score must be a finite number above 0, got 0.0."),
    ],
)
def test_wrong_decisions_are_one_sentence_before_training(equipoise, patients, tmp_path, flags, message):  # noqa: ARG001
    (tmp_path / "costs.csv").write_text("true,ill,well\nill,0,0\nwell,1,0\n")
    done = equipoise("train", "patients.csv", "--target", "state", "--out", "run", *flags)
    assert done.code == 1
    assert message in done.err
    assert done.err.count("error:") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("flag", "value", "metric", "counted"),
    mostly_slow(
        [
            ("--cost", "miss:ill=30", "cost_saved", "expected_cost"),
            ("--recall", "ill=0.8", "false_alarms_spared", "false_alarms"),
            ("--review", "200/1000", "found", "missed"),
        ]
    ),
)
def test_a_comparison_by_a_rule_ranks_by_what_it_is_judged_by(equipoise, patients, flag, value, metric, counted):  # noqa: ARG001
    flags = ("--target", "state", "--methods", "logistic_regression,random_forest", "--seeds", 1, "--folds", 2)
    done = equipoise("compare", "patients.csv", *flags, flag, value, "--out", "fits.jsonl")
    assert done.code == 0, done.err
    assert "per 1,000" in done.out
    assert metric.replace("_", " ") in " ".join(done.out.split())
    again = equipoise("compare", "patients.csv", *flags, flag, value, "--json", "-q", "--out", "fits.jsonl")
    told = json.loads(again.out)
    assert told["metric"] == metric
    assert all(place["scores"][counted] >= 0 for place in told["places"])


def test_a_rule_is_chosen_with_labels(equipoise, tmp_path):
    (tmp_path / "new.csv").write_text("p_ill\n0.5\n")
    (tmp_path / "decision.json").write_text("{}")
    done = equipoise("rebalance", "--apply", "decision.json", "new.csv", "--recall", "ill=0.9")
    assert (done.code, done.err) == (
        1,
        "error: --apply uses the rule chosen on labelled rows; give a rule's flags when you fit the decision.\n",
    )
