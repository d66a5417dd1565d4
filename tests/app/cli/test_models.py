"""``--model`` as a person meets it."""

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.app.runs import made


@pytest.fixture
def patients(tmp_path):
    made.patients_frame().to_csv(tmp_path / "patients.csv", index=False)
    return "patients.csv"


@pytest.mark.slow
def test_every_command_takes_a_run_of_forests(equipoise, blend_run):
    table = blend_run.parent / "patients.csv"
    done = equipoise("predict", blend_run, table, "--out", "p.csv", "--abstain", "0.1", "--prior", "estimate")
    assert done.code == 0, done.err
    found = pd.read_csv("p.csv")
    assert len(found) == 240
    assert {"class", "rule", "p_ill", "p_well", "uncertainty", "human", "set", "abstain"} <= set(found.columns)
    done = equipoise("evaluate", blend_run, table, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["scores"]["balanced_accuracy"] > 0.8
    done = equipoise("inspect", blend_run, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["judged"] == 240
    done = equipoise("report", blend_run, "--out", "page.html")
    assert done.code == 0, done.err
    done = equipoise("export", blend_run, "m.onnx")
    assert done.err.startswith("m.onnx is written; onnxruntime and Python differ by ")


@pytest.mark.slow
def test_the_json_of_training_is_alone_on_standard_output(equipoise, patients):
    done = equipoise("train", patients, "--target", "state", "--model", "forest", "--json", "--out", "run")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert found["before"]["recall"]["each"][0] < found["scores"]["recall"]["each"][0]
    assert "The run is in run." in done.err


def test_a_method_that_is_the_default_still_asks_for_the_network(equipoise, patients, monkeypatch):
    chosen = []
    monkeypatch.setattr("equipoise.app.runs.train.train_run", lambda options, *_, **__: chosen.append(options) or 1 / 0)
    equipoise("train", patients, "--target", "state", "--method", "uncertainty_margin")
    equipoise("train", patients, "--target", "state")
    toml = Path("o.toml")
    toml.write_text('target = "state"\nmethod = "uncertainty_margin"\n')
    equipoise("train", patients, "--config", toml)
    toml.write_text('target = "state"\nmodel = "boosting"\n')
    equipoise("train", patients, "--config", toml)
    assert [options.model for options in chosen] == ["network", None, "network", "boosting"]


def test_a_wrong_model_is_one_sentence(equipoise, patients):
    done = equipoise("train", patients, "--target", "state", "--model", "tree")
    assert done.code != 0
    assert done.err == (
        "error: --model must be one of auto, network, forest, extra_trees, boosting or MODULE:OBJECT, got 'tree'.\n"
    )
    done = equipoise("train", patients, "--target", "state", "--model", "forest", "--epochs", "3")
    assert done.err == ("error: --epochs is an option of the network, and --model is forest; leave one of them out.\n")


def test_a_record_does_not_choose_what_is_imported(equipoise, patients):
    record = {"options": {"data": patients, "target": "state", "model": "os:abort"}}
    Path("run.json").write_text(json.dumps(record))
    done = equipoise("train", "--config", "run.json", "--out", "run")
    assert done.err == "error: run.json names the model os:abort, and importing it runs code; add --model os:abort.\n"
