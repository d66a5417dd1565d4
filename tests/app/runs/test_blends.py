"""Runs whose model is cross-fitted from other classifiers."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from equipoise.app.report import write_report
from equipoise.app.run_folder import read_run_record
from equipoise.app.run_watcher import RunWatcher
from equipoise.app.runs import RunModel, RunOptions, train_run
from equipoise.app.runs.choose_model import own_estimator
from equipoise.app.runs.evaluate import evaluate_run
from equipoise.app.runs.export import export_run
from equipoise.app.runs.inspect import inspect_run
from equipoise.app.stored_arrays import read_judged_labels
from equipoise.app.stored_run import read_run
from equipoise.errors import InvalidInputError
from equipoise.estimators.balanced import BalancedClassifier
from equipoise.models import build_backbone
from tests.app.runs import made
from tests.marks import mostly_nightly
from tests.training.processes import ENVIRONMENT

LOGISTIC = "sklearn.linear_model:LogisticRegression"
"""Quicker than any family of the library's own."""


@pytest.fixture(scope="module")
def frame():
    return made.patients_frame()


@pytest.fixture
def table(tmp_path, frame):
    frame.to_csv(tmp_path / "t.csv", index=False)
    return str(tmp_path / "t.csv")


def test_a_loaded_run_predicts_as_the_estimator_in_its_folder(blend_run, frame):
    model, estimator = RunModel.load(blend_run), BalancedClassifier.load(blend_run)
    rows = model.input.rows(frame)
    np.testing.assert_array_equal(model.predict(frame), estimator.predict(rows))
    np.testing.assert_allclose(model.predict_proba(frame), estimator.predict_proba(rows), atol=1e-6)
    np.testing.assert_allclose(model.uncertainty(frame), estimator.uncertainty(rows), atol=1e-6)
    balanced = model.predictions(frame, [0.5, 0.5])
    np.testing.assert_allclose(balanced.probabilities, estimator.predict_proba(rows, [0.5, 0.5]), atol=1e-6)
    assert model.predict_rows(rows[:0]).probabilities.shape == (0, 2)


def test_the_record_says_what_the_model_is_made_of_and_calibrated_on(blend_run):
    record = read_run_record(blend_run)
    assert [(part.name, part.weight, part.members) for part in record.blend] == [("random forest", 1.0, 5)]
    assert record.calibration.source == "out_of_fold"
    assert record.calibration.samples == sum(record.train_counts)
    assert record.options["model"] == "forest"
    assert record.class_uncertainty[0] > record.class_uncertainty[1]  # ill is rare
    assert record.margins[0] > 0 == record.margins[1]


def test_warnings_of_the_library_are_notes(tmp_path):
    rows = pd.DataFrame({"x": np.arange(60) % 7, "y": ["common"] * 59 + ["rare"]})
    rows.to_csv(tmp_path / "t.csv", index=False)
    run = train_run(RunOptions(str(tmp_path / "t.csv"), model=LOGISTIC), tmp_path / "run").folder
    assert any(note.startswith("all rows of rare lie in one fold") for note in read_run_record(run).notes)


def test_before_is_the_same_model_with_its_most_probable_class(blend_run):
    run = read_run(blend_run)
    held = run.held_out
    np.testing.assert_array_equal(held.before, held.probabilities.argmax(1))
    assert run.before["log_loss"] == run.scores["log_loss"]
    assert run.before["recall"]["each"][0] < run.scores["recall"]["each"][0]
    assert run.epochs == []


def test_the_report_says_what_is_in_it_and_nothing_of_stages(blend_run, tmp_path):
    page = (blend_run / "report.html").read_text()
    headings = re.findall(r"<h2[^>]*>([^<]*)", page)
    assert "What the model is made of" in headings
    assert "Training" not in headings
    text = re.sub(r"<(style|script).*?</\1>|<[^>]*>", " ", page, flags=re.DOTALL)
    for sentence in (
        "The classifier was fitted 5 times",
        "random forest before balancing",
        "is the same random forest, predicting the most probable class",
        "calibrated on 192 training samples, each predicted by members that were not fitted to it",
    ):
        assert sentence in text, sentence
    assert not re.search("softmax|epoch|dropout", text)
    folder = shutil.copytree(blend_run, tmp_path / "run")
    record = json.loads((folder / "run.json").read_text())
    record["blend"] = [
        {"name": "<b>\u202e", "weight": 0.25, "members": 3},
        {"name": "trees", "weight": 0.75, "members": 3},
    ]
    (folder / "run.json").write_text(json.dumps(record))
    page = write_report(folder).read_text()
    assert "<b>" not in page
    assert "\u202e" not in page
    assert "&lt;b&gt;" in page
    assert "75.0%" in page


def test_held_out_samples_are_for_scoring_alone(blend_run, frame):
    """The saved calibration is that of the fit, and each held-out figure comes from it."""
    model, held = RunModel.load(blend_run), read_run(blend_run).held_out
    found = model.predictions(frame.iloc[held.rows])
    np.testing.assert_allclose(found.probabilities, held.probabilities, atol=1e-6)
    np.testing.assert_array_equal(found.predicted, held.predicted)
    np.testing.assert_array_equal(model.calibrated.sets(found.logits, 0.9), held.trust.sets)
    assert model.calibrated.thresholds.counts.sum() == read_run_record(blend_run).calibration.samples


@pytest.mark.slow
def test_labels_are_judged_by_members_that_have_not_seen_them(tmp_path):
    """A flipped label stands out, though every forest knows its own rows by heart."""
    frame = made.patients_frame()
    frame["state"] = np.where(frame["age"] > 1.0, "ill", "well")
    train_run(RunOptions(_written(frame, tmp_path / "right.csv"), target="state", model="forest"), tmp_path / "right")
    split = json.loads((tmp_path / "right/split.json").read_text())
    sure = [row for row in split["train"] if frame["age"][row] < -0.5][:3]
    frame.loc[sure, "state"] = "ill"
    train_run(RunOptions(_written(frame, tmp_path / "flip.csv"), target="state", model="forest"), tmp_path / "flip")
    worst = inspect_run(tmp_path / "flip").ranking.head(3)
    assert set(worst["row"]) == set(sure)
    assert set(worst["suggested"]) == {"well"}
    assert (worst["score"] > 0.8).all()
    assert len(read_judged_labels(tmp_path / "flip", 2, multilabel=False).rows) == len(frame)


def _written(frame, path):
    frame.to_csv(path, index=False)
    return str(path)


def test_a_run_is_evaluated_at_any_prior_with_sets(blend_run):
    found = evaluate_run(
        RunModel.load(blend_run), str(blend_run.parent / "patients.csv"), prior="balanced", abstain=0.1
    )
    assert found.scores.balanced_accuracy > 0.8
    assert found.prior == {"ill": 0.5, "well": 0.5}
    assert found.sets["classes"]["ill"]["coverage"] > 0.85


@pytest.mark.slow
def test_the_default_for_a_table_is_the_blend_of_all_families(table, tmp_path):
    told = RunWatcher()
    result = train_run(RunOptions(table, target="state"), tmp_path / "run", watcher=told)
    names = [part.name for part in read_run_record(tmp_path / "run").blend]
    assert names == ["network", "random forest", "extra trees", "gradient boosting"]
    assert isinstance(result.model, BalancedClassifier)
    assert not any("--model" in sentence for sentence in told.notes)
    assert len(RunModel.load(tmp_path / "run").predict(made.patients_frame())) == 240


def test_an_option_of_the_network_without_a_model_trains_the_network(table, tmp_path):
    told = RunWatcher()
    train_run(RunOptions(table, target="state", epochs=1), tmp_path / "run", watcher=told)
    assert "--epochs is an option of the network, so the network is trained instead of --model auto." in told.notes
    assert read_run_record(tmp_path / "run").blend is None
    assert RunModel.load(tmp_path / "run").network is not None


def test_several_labels(tmp_path):
    frame = made.patients_frame().drop(columns="state")
    frame = frame.assign(up=(frame["age"] > 1).astype(int), right=(frame["weight"] > 0).astype(int))
    options = RunOptions(_written(frame, tmp_path / "t.csv"), target="up,right", model=LOGISTIC)
    result = train_run(options, tmp_path / "run")
    model = RunModel.load(result.folder)
    assert model.classes == ("up", "right")
    assert model.predict(frame).shape == (240, 2)
    assert inspect_run(result.folder).several
    assert len(read_judged_labels(result.folder, 2, multilabel=True).labels) == 240


def test_groups_are_kept_together_in_the_folds(blend_run, monkeypatch, tmp_path):
    seen, fit = [], BalancedClassifier.fit

    def watched(self, *given, groups):
        seen.append(groups)
        return fit(self, *given, groups=groups)

    monkeypatch.setattr(BalancedClassifier, "fit", watched)
    options = RunOptions(str(blend_run.parent / "patients.csv"), target="state", group="family", model=LOGISTIC)
    train_run(options, tmp_path / "run")
    assert len(set(seen[0].tolist())) < len(seen[0])


def test_huge_values_are_answered(blend_run, frame):
    odd = frame.assign(age=[1e300, -1e300, *frame["age"][2:]])
    assert np.isfinite(RunModel.load(blend_run).predict_proba(odd)).all()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"model": "tree"}, "--model must be one of auto, network, forest, extra_trees, boosting or MODULE:OBJECT"),
        ({"model": "forest", "epochs": 3}, "--epochs is an option of the network, and --model is forest; leave one"),
        ({"model": "auto", "method": "focal"}, "--method is an option of the network, and --model is auto"),
        ({"model": "a.b:C", "dropout": 0.1}, "--dropout is an option of the network, and --model is a.b:C"),
    ],
)
def test_a_model_that_cannot_be_is_one_sentence(options, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        RunOptions("t.csv", **options)


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        ("nowhere_at_all:Forest", "nowhere_at_all:Forest cannot be used as an estimator"),
        ("sklearn.svm:LinearSVC", "estimator must be a classifier with predict_proba, got LinearSVC without"),
        ("tests.app.runs.test_blends:Mine", "a tests.app.runs.test_blends.Mine cannot be stored without pickle"),
        ("sklearn.svm:", "your own estimator must be given as MODULE:OBJECT, got 'sklearn.svm:'"),
    ],
)
def test_a_classifier_that_cannot_be_used_is_refused_before_anything_is_read(tmp_path, model, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        train_run(RunOptions("gone.csv", model=model), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "model", ["lightgbm:LGBMClassifier", "xgboost:XGBClassifier", "catboost:CatBoostClassifier", f"{__name__}:piped"]
)
def test_what_can_be_stored_is_taken(model):
    if "." not in model:
        pytest.importorskip(model.partition(":")[0])
    assert hasattr(own_estimator(RunOptions("t.csv", model=model)), "fit")


def piped():
    return make_pipeline(StandardScaler(), LogisticRegression())


class Mine:
    """A classifier of a class that no file can name."""

    def get_params(self, deep=True):  # noqa: ARG002
        return {}

    def fit(self, *_):
        return self

    def predict_proba(self, X):
        return np.full((len(X), 2), 0.5)


def test_a_classifier_of_the_users_is_named_in_the_record_and_where_it_cannot_be_exported(table, tmp_path):
    train_run(RunOptions(table, target="state", model=LOGISTIC), tmp_path / "run")
    assert [part.name for part in read_run_record(tmp_path / "run").blend] == ["LogisticRegression"]
    model = RunModel.load(tmp_path / "run")
    assert set(model.predict(made.patients_frame())) == {"ill", "well"}
    with pytest.raises(InvalidInputError, match="LogisticRegression cannot be exported to ONNX; train with"):
        export_run(model, tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()


def test_images_need_the_network(tmp_path):
    photos = made.pictures(tmp_path / "photos", {"night": 8, "day": 8})
    with pytest.raises(InvalidInputError, match="--model forest takes a table, or images through a frozen backbone"):
        train_run(RunOptions(str(photos), model="forest"), tmp_path / "run")


@pytest.mark.slow
def test_images_through_a_frozen_backbone_go_to_any_model(tmp_path):
    photos = made.pictures(tmp_path / "photos", {"night": 30, "day": 12})
    torch.save(build_backbone("lenet").state_dict(), tmp_path / "lenet.pth")
    images = {"backbone": "lenet", "weights": str(tmp_path / "lenet.pth"), "freeze": True}
    train_run(RunOptions(str(photos), **images, model="forest"), tmp_path / "run")
    model = RunModel.load(tmp_path / "run")
    assert evaluate_run(model, str(photos)).scores.accuracy > 0.9
    with pytest.raises(InvalidInputError, match="a blend behind a frozen backbone cannot be exported"):
        export_run(model, tmp_path / "m.onnx")


@pytest.fixture
def onnx_answers():
    onnxruntime = pytest.importorskip("onnxruntime")

    def answers(path, x):
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        return dict(zip(("probabilities", "uncertainty", "predicted"), session.run(None, {"x": x}), strict=True))

    return answers


def assert_agrees(model, out, x, answers):
    assert export_run(model, out) < 1e-5
    found, expected = answers(out, x), model.predict_rows(x)
    np.testing.assert_allclose(found["probabilities"], expected.probabilities, atol=1e-5)
    np.testing.assert_allclose(found["uncertainty"], expected.uncertainty, atol=1e-5)
    np.testing.assert_array_equal(found["predicted"], expected.predicted)


@pytest.mark.parametrize("classes", mostly_nightly([3, 2]))
def test_an_exported_blend_of_all_families_answers_as_the_run(tmp_path, frame, onnx_answers, classes):
    if classes == 3:
        frame = frame.assign(state=frame["state"].where(frame["age"] < 1.5, "very ill"))
    path = _written(frame.assign(huge=frame["age"] * 1e30), tmp_path / "t.csv")
    model = RunModel.load(train_run(RunOptions(path, target="state"), tmp_path / "run").folder)
    x = model.input.rows(frame.assign(huge=frame["age"] * 1e30))
    assert_agrees(model, tmp_path / "m.onnx", x, onnx_answers)
    with pytest.raises(InvalidInputError, match=r"m\.onnx exists"):
        export_run(model, tmp_path / "m.onnx")


@pytest.mark.slow
def test_the_text_of_a_run_votes_and_is_exported(tmp_path, onnx_answers):
    rng = np.random.default_rng(0)
    kinds = np.repeat(["bill", "login", "parcel"], (90, 60, 12))
    words = {"bill": "invoice charged twice", "login": "cannot enter password", "parcel": "box never arrived"}
    texts = [
        f"{rng.choice(words[kind].split())} and {rng.choice(words[kind].split())} {rng.integers(9999)}"
        for kind in kinds
    ]
    frame = pd.DataFrame({"note": texts, "days": rng.normal(size=len(kinds)), "kind": kinds})
    options = RunOptions(_written(frame, tmp_path / "t.csv"), target="kind", text_encoder="none")
    model = RunModel.load(train_run(options, tmp_path / "run").folder)
    assert [type(own[0]).__name__ for own in model.predictor.estimator.members_][-1] == "LogOddsVote"
    assert "text alone" in (tmp_path / "run/report.html").read_text(encoding="utf-8")
    assert_agrees(model, tmp_path / "m.onnx", model.input.rows(frame), onnx_answers)


@pytest.mark.slow
def test_an_exported_forest_of_several_labels_with_a_rare_one(tmp_path, onnx_answers):
    """The label is so rare that a fold has none of it: its member there answers the same for all rows."""
    frame = made.patients_frame().drop(columns="state")
    frame = frame.assign(up=(frame["age"] > 1).astype(int), odd=(np.arange(240) % 100 == 7).astype(int))
    options = RunOptions(_written(frame, tmp_path / "t.csv"), target="up,odd", model="forest")
    model = RunModel.load(train_run(options, tmp_path / "run").folder)
    assert_agrees(model, tmp_path / "m.onnx", model.input.rows(frame), onnx_answers)


def test_what_needs_a_network_says_so(blend_run):
    with pytest.raises(InvalidInputError, match="this run's model is random forest; train with --model network"):
        _ = RunModel.load(blend_run).network


def test_a_record_of_another_input_is_refused(blend_run, tmp_path):
    folder = shutil.copytree(blend_run, tmp_path / "run")
    record = json.loads((folder / "run.json").read_text())
    record["input"] = {"kind": "images", "backbone": {"name": "lenet", "channels": 1, "size": [28, 28]}}
    (folder / "run.json").write_text(json.dumps(record))
    with pytest.raises(InvalidInputError, match="describes images, but the model beside it takes none; train again"):
        RunModel.load(folder)


KILLED = """
import os, signal, sys
from equipoise.app.runs import RunOptions, train_run
import equipoise.estimators.{module} as module

real, calls = module.{name}, []

def killed(*given, **more):
    calls.append(1)
    if len(calls) > {after}:
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*given, **more)

module.{name} = killed
train_run(RunOptions(sys.argv[1], target="state", model="forest"), sys.argv[2])
"""


@pytest.mark.parametrize(
    ("module", "name", "after"),
    mostly_nightly(
        [("cross_fitted", "_fit", 2), ("blend_files", "save_member", 3), ("saved_model", "write_atomically", 0)]
    ),
    ids=["while members are fitted", "while they are written", "before model.json"],
)
def test_killed_and_resumed_is_as_if_it_had_not_been(table, tmp_path, module, name, after):
    script = KILLED.format(module=module, name=name, after=after)
    folder, options = tmp_path / "run", RunOptions(table, target="state", model="forest")
    done = subprocess.run([sys.executable, "-c", script, table, folder], env=ENVIRONMENT, check=False)
    assert done.returncode == -9
    with pytest.raises(InvalidInputError, match="is not finished"):
        RunModel.load(folder)
    resumed = train_run(options, folder, resume=True)
    whole = train_run(options, tmp_path / "whole")
    assert resumed.scores == whole.scores
    frame = pd.read_csv(table)
    one, other = (RunModel.load(result.folder).predictions(frame) for result in (resumed, whole))
    assert one.logits.equal(other.logits)
    for path in ("model.safetensors", "model.json", "held_out.npz"):
        assert (folder / path).read_bytes() == (tmp_path / "whole" / path).read_bytes()
