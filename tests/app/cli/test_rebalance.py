"""``equipoise rebalance`` as a person meets it."""

import io
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit


@pytest.fixture
def predictions(tmp_path):
    """A file of predictions, of a model that names the rare class far too often."""
    draws = np.random.default_rng(3)
    y = (draws.random(300) < 0.15).astype(int)
    p = expit(2 * draws.normal(2 * y - 1) + 2)
    frame = pd.DataFrame({"p_=ok": 1 - p, "p_fraud": p, "truth": np.array(["=ok", "fraud"])[y]})
    frame.to_csv(tmp_path / "predictions.csv", index=False)
    frame.drop(columns="truth").to_csv(tmp_path / "new.csv", index=False)
    return frame


def test_from_predictions_to_a_decision_and_to_answers(equipoise, predictions, tmp_path):  # noqa: ARG001
    done = equipoise("rebalance", "predictions.csv", "--target", "truth")
    assert done.code == 0, done.err
    assert done.out.splitlines()[0] == "On 300 labelled rows, each corrected by a fit to the others"
    for word in ("balanced accuracy", "log loss", "calibration error", "recall before", "fraud", "=ok"):
        assert word in done.out
    told = done.out.partition("margin")[2]
    assert "The model separates the rare class fraud well from the rest" in told
    assert "False alarms, wrong predictions of this class, went from" in told  # what it changed, and what it cost
    folder = tmp_path / "runs/predictions"
    assert done.err.splitlines()[0] == "The decision, the corrected answers and the report are in runs/predictions."
    assert sorted(path.name for path in folder.iterdir()) == ["answers.csv", "decision.json", "report.html"]
    answers = pd.read_csv(folder / "answers.csv")
    assert set(answers["class"]) == {"'=ok", "fraud"}  # no formula for a spreadsheet
    again = equipoise("rebalance", "--apply", folder / "decision.json", "new.csv", "--out", "a.csv", "--abstain", 0.1)
    assert (again.code, again.out) == (0, "")
    assert again.err.splitlines()[-1] == "300 answers in a.csv."
    found = pd.read_csv(tmp_path / "a.csv")
    assert list(found) == list(answers)
    assert (found["class"] == answers["class"]).mean() > 0.97
    twice = equipoise("rebalance", "--apply", folder / "decision.json", "new.csv", "--out", "a.csv")
    assert (twice.code, twice.err) == (1, "error: a.csv exists; pass --force to replace it, or name another file.\n")


def test_as_json_and_from_a_pipe(equipoise, predictions, monkeypatch):
    done = equipoise("rebalance", "predictions.csv", "--target", "truth", "--out", "out", "--json", "--quiet")
    told = json.loads(done.out)
    assert (done.err, told["classes"]) == ("", ["=ok", "fraud"])
    assert told["verdict"]["headline"].startswith("The model separates the rare class fraud well")
    assert told["after"]["calibration"]["log_loss"] < told["before"]["calibration"]["log_loss"]
    text = predictions.iloc[:3].to_csv(index=False).encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    piped = equipoise("rebalance", "--apply", "out/decision.json", "-", "--format", "jsonl", "--raw", "-q")
    rows = [json.loads(line) for line in piped.out.splitlines()]
    assert [row["row"] for row in rows] == [0, 1, 2]
    filed = equipoise("rebalance", "--apply", "out/decision.json", "new.csv", "--out", "a.parquet", "--json", "-q")
    assert json.loads(filed.out)["samples"] == 300
    np.testing.assert_allclose(pd.read_parquet("a.parquet")["p_fraud"][:3], [row["p_fraud"] for row in rows], atol=1e-8)


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("predictions.csv", "--abstain", "0.1"), "--abstain"),
        (("predictions.csv", "--format", "csv"), "--format"),
        (("predictions.csv", "--force"), "--force"),
        (("new.csv", "--apply", "predictions.csv", "--target", "truth"), "--target"),
        (("new.csv", "--apply", "predictions.csv", "--json"), "--json"),
    ],
)
def test_options_of_the_other_use_are_refused(equipoise, predictions, words, option):  # noqa: ARG001
    done = equipoise("rebalance", *words)
    assert (done.code, done.out) == (2, "")
    assert f"Invalid value for '{option}'" in done.err


def test_a_rule_is_fitted_for_the_class_prior_where_it_is_used(equipoise, predictions):  # noqa: ARG001
    words = ("--target", "truth", "--cost", "miss:fraud=9")
    done = equipoise("rebalance", "predictions.csv", *words, "--prior", "fraud=0.01", "--out", "rare")
    assert done.code == 0
    assert "the next 1,000 will cost" in done.out
    kept = json.loads(Path("rare/decision.json").read_text())["decision"]["rule"]
    assert kept == {"rule": "costs", "miss": [["fraud", 9.0]], "class_prior": [["fraud", 0.01]]}
    refused = equipoise("rebalance", "predictions.csv", *words, "--prior", "balanced")
    assert (refused.code, refused.out, refused.err.count("\n")) == (1, "", 1)
    assert "--prior must be CLASS=NUMBER" in refused.err


def test_the_page_decides_where_the_threshold_lies(equipoise, predictions):  # noqa: ARG001
    assert equipoise("rebalance", "predictions.csv", "--target", "truth", "--out", "out").code == 0
    page = Path("out/report.html").read_text(encoding="utf-8")
    assert 'id="decide-miss"' in page
    assert "equipoise rebalance predictions.csv --target truth" in page
    assert "equipoise rebalance --apply out/decision.json new.csv" in page


def test_a_file_that_is_no_decision_is_one_sentence(equipoise, predictions):  # noqa: ARG001
    done = equipoise("rebalance", "--apply", "predictions.csv", "new.csv")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert "predictions.csv cannot be read" in done.err
    assert "make it again with `equipoise rebalance`" in done.err
