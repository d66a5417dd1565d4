"""Decision rules of a run: chosen without the rows they answer, kept, asked for anew, and in the exported graph."""

import json

import numpy as np
import pandas as pd
import pytest

from equipoise.app.run_folder import RECORD
from equipoise.app.runs import RunModel, RunOptions, train_run
from equipoise.app.runs.answer_table import rule_of
from equipoise.app.runs.evaluate import evaluate_run
from equipoise.app.runs.export import export_run
from equipoise.app.runs.predict import predict_to
from equipoise.app.runs.rebalance import rebalance
from equipoise.app.stored_run import read_run
from equipoise.decisions import Balanced, Costs, FScore, Natural, PrecisionAtLeast, RecallAtLeast, ReviewBudget
from equipoise.errors import InvalidInputError
from equipoise.estimators.balanced import BalancedClassifier
from tests.app.runs.made import patients_frame
from tests.marks import mostly_slow

RULES = [
    Balanced(),
    Natural(class_prior={"ill": 0.02}),
    Costs(miss={"ill": 30}),
    Costs([[0, 7], [2, 0]], classes=("ill", "well")),
    RecallAtLeast({"ill": 0.8}),
    PrecisionAtLeast({"ill": 0.5}),
    ReviewBudget(100, per=1000, class_prior={"ill": 0.05}),
    FScore(2),
]


def answers_of(path, x):
    onnxruntime = pytest.importorskip("onnxruntime", reason="the extra 'export' is not installed")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(["predicted"], {"x": x})[0]


@pytest.fixture(scope="module")
def recall_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recall")
    patients_frame(900).to_csv(folder / "patients.csv", index=False)
    options = RunOptions(str(folder / "patients.csv"), target="state", model="forest", recall="ill=0.8")
    return train_run(options, folder / "run").folder


def test_a_run_keeps_its_rule_and_answers_by_it(recall_run, tmp_path):
    model = RunModel.load(recall_run)
    assert model.chosen is not None
    assert model.chosen.rule == RecallAtLeast({"ill": 0.8})
    frame = pd.read_csv(recall_run.parent / "patients.csv")
    p = model.predict_proba(frame)[:, model.classes.index("ill")]
    expected = np.where(p >= model.chosen.policy.claims[0].threshold, "ill", "well")
    assert model.predict(frame) == expected.tolist()
    predict_to(model, str(recall_run.parent / "patients.csv"), tmp_path / "a.csv", kind="csv", threshold=1, tell=print)
    rules = set(pd.read_csv(tmp_path / "a.csv")["rule"])
    assert rules == {"recall_at_least", "recall_at_least: by the threshold for the requested recall"}
    again = BalancedClassifier.load(recall_run)
    assert again.get_params()["decision"] == model.chosen.rule
    stored = read_run(recall_run)
    held = stored.held_out
    place = model.classes.index("ill")
    assert (held.predicted[held.labels == place] == place).mean() > 0.7
    assert stored.scores["recall"]["each"][place] == pytest.approx(
        (held.predicted[held.labels == place] == place).mean()
    )


def test_the_thresholds_are_those_of_out_of_fold_rows_not_of_test_rows(recall_run):
    model = RunModel.load(recall_run)
    evidence = model.predictor.estimator.evidence_
    assert evidence is not None
    held = read_run(recall_run).held_out
    assert len(evidence.labels) + len(held.labels) == 900
    assert model.chosen.policy.claims[0].threshold == pytest.approx(
        RecallAtLeast({"ill": 0.8}).choose(model.situation()).policy.claims[0].threshold
    )


@pytest.mark.slow
def test_a_network_answers_its_test_rows_by_thresholds_from_the_others(tmp_path):
    patients_frame(900).to_csv(tmp_path / "patients.csv", index=False)
    options = RunOptions(str(tmp_path / "patients.csv"), target="state", epochs=4, recall="ill=0.8", test_share=0.4)
    result = train_run(options, tmp_path / "run")
    model, held = RunModel.load(result.folder), read_run(result.folder).held_out
    place = model.classes.index("ill")
    assert len(model.predictor.estimator.evidence_.labels) == len(held.labels) == 360
    by_all = held.probabilities[:, place] >= model.chosen.policy.claims[0].threshold
    assert (by_all != (held.predicted == place)).any()
    assert (by_all == (held.predicted == place)).mean() > 0.8
    assert "with 95 % confidence it finds at least 80 % of class 'ill'." in list(model.chosen.sentences())
    if pytest.importorskip("onnxruntime", reason="the extra 'export' is not installed"):
        assert export_run(model, tmp_path / "m.onnx") < 1e-4


@pytest.mark.parametrize("rule", mostly_slow(RULES, fast=2), ids=repr)
def test_another_rule_is_chosen_for_a_finished_run_and_exported(recall_run, tmp_path, rule):
    model = RunModel.load(recall_run).deciding(rule)
    assert model.chosen.rule == rule
    assert model.chosen.expected is not None
    frame = pd.read_csv(recall_run.parent / "patients.csv")
    answers = model.predict(frame)
    assert len(set(answers)) == 2
    export_run(model, tmp_path / "m.onnx")
    found = answers_of(tmp_path / "m.onnx", model.input.rows(frame))
    assert [model.classes[place] for place in found] == answers
    onnx = pytest.importorskip("onnx", reason="the extra 'export' is not installed")
    about = {entry.key: json.loads(entry.value) for entry in onnx.load(tmp_path / "m.onnx").metadata_props}
    assert about["decision"]["rule"] == json.loads(json.dumps(rule.to_json()))


@pytest.mark.nightly
def test_many_classes_and_several_labels_are_exported_with_their_claims(table_run, several_run, tmp_path):
    pytest.importorskip("onnxscript", reason="the extra 'export' is not installed")
    many = RunModel.load(table_run)
    frame = pd.read_csv(table_run.parent / "digits.csv", dtype={"half": str})
    rare, rarer = many.classes[0], many.classes[1]
    matrix = 1 + np.random.default_rng(0).random((10, 10))
    np.fill_diagonal(matrix, 0)
    for rule in (RecallAtLeast({rare: 0.6, rarer: 0.5}), Costs(matrix.tolist()), ReviewBudget(300, per=1000), FScore()):
        model = many.deciding(rule)
        export_run(model, tmp_path / "m.onnx", force=True)
        found = answers_of(tmp_path / "m.onnx", model.input.rows(frame))
        differ = [model.classes[place] != name for place, name in zip(found, model.predict(frame), strict=True)]
        assert sum(differ) <= 1  # a threshold is a row's own probability: rounding may move that row across it
    several = RunModel.load(several_run).deciding(RecallAtLeast({"up": 0.7}, class_prior={"right": 0.1}))
    export_run(several, tmp_path / "s.onnx")
    frame = pd.read_csv(several_run.parent / "several.csv")
    found = answers_of(tmp_path / "s.onnx", several.input.rows(frame))
    np.testing.assert_array_equal(found, several.predict(frame))


def test_the_rule_column_names_the_most_probable_class_by_its_prior(recall_run):
    model = RunModel.load(recall_run)
    names = {
        Balanced(): "balanced",
        Natural(): "natural",
        Natural(class_prior={"ill": 0.3}): "prior",
        FScore(): "f_score",
    }
    assert {rule: rule_of(model.deciding(rule), None) for rule in names} == names


def test_a_class_prior_moves_the_rule_of_a_run(recall_run):
    model = RunModel.load(recall_run)
    there = model.deciding(None, model.read_prior("ill=0.01,well=0.99"))
    assert there.chosen.rule == model.chosen.rule
    assert there.chosen.policy.claims[0].threshold < model.chosen.policy.claims[0].threshold / 5
    assert there.chosen.expected.classes[0].precision.value < model.chosen.expected.classes[0].precision.value
    frame = pd.read_csv(recall_run.parent / "patients.csv")
    assert there.predict(frame) == model.predict(frame)  # of two classes the same samples are above the threshold


def test_evaluation_says_what_the_answers_cost(recall_run):
    model = RunModel.load(recall_run)
    data = str(recall_run.parent / "patients.csv")
    found = evaluate_run(model, data, rule=Costs(miss={"ill": 30}))
    frame = pd.read_csv(data)
    named = np.array(model.deciding(Costs(miss={"ill": 30})).predict(frame))
    cost = np.where(frame["state"] == "ill", 30, 1) * (named != frame["state"])
    assert found.cost == pytest.approx(1000 * cost.mean())
    assert evaluate_run(model, data).cost is None


def test_a_rule_that_names_no_class_of_the_data_is_refused_before_training(tmp_path):
    patients_frame().to_csv(tmp_path / "patients.csv", index=False)
    options = RunOptions(str(tmp_path / "patients.csv"), target="state", model="forest", recall="il=0.8")
    with pytest.raises(InvalidInputError, match=r"unknown class 'il'; did you mean 'ill'\?"):
        train_run(options, tmp_path / "run")
    assert not (tmp_path / "run" / RECORD).exists()


def test_a_damaged_rule_in_a_run_is_one_sentence(recall_run, tmp_path):
    import shutil

    folder = shutil.copytree(recall_run, tmp_path / "run")
    record = json.loads((folder / RECORD).read_text())
    record["decision"]["claims"] = [{"places": [9], "threshold": 0.5}]
    (folder / RECORD).write_text(json.dumps(record))
    with pytest.raises(InvalidInputError, match="does not fit its 2 classes"):
        RunModel.load(folder)


def test_rebalance_answers_by_a_rule_and_keeps_it(tmp_path):
    from equipoise.app.runs.decision_file import Decision
    from equipoise.app.runs.rebalance import apply_decision

    rng = np.random.default_rng(0)
    y = rng.random(1500) < 0.1
    p = 1 / (1 + np.exp(-(rng.normal(size=1500) + 2 * y - 2)))
    pd.DataFrame({"kind": np.where(y, "fraud", "ok"), "p_fraud": p}).to_csv(tmp_path / "p.csv", index=False)
    found = rebalance(tmp_path / "p.csv", tmp_path / "out", target="kind", rule=RecallAtLeast({"fraud": 0.9}))
    assert found.after.recall.each[0] > 0.85
    decision = Decision.load(tmp_path / "out" / "decision.json")
    assert decision.chosen.rule == RecallAtLeast({"fraud": 0.9})
    apply_decision(decision, str(tmp_path / "p.csv"), tmp_path / "a.csv", kind="csv", tell=print)
    answers = pd.read_csv(tmp_path / "a.csv")
    named = answers["class"] == "fraud"
    assert (named == (answers["p_fraud"] >= decision.chosen.policy.claims[0].threshold)).all()
    assert named[y].mean() > 0.9
    assert set(answers["rule"].str.partition(":")[0]) == {"recall_at_least"}
