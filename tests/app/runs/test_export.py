"""A run as ONNX: the same answers from onnxruntime, and nothing kept that does not give them."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
import torch

from equipoise.app.runs import RunModel, RunOptions, train_run
from equipoise.app.runs import export as module
from equipoise.app.runs.export import export_run
from equipoise.errors import InvalidInputError, InvalidStateError
from equipoise.models import build_backbone
from tests.app.runs.made import pictures

onnx = pytest.importorskip("onnx", reason="the extra 'export' is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="the extra 'export' is not installed")
pytest.importorskip("onnxscript", reason="the extra 'export' is not installed")


def answers_of(path, x):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(["probabilities", "uncertainty", "predicted"], {"x": x})


def described(path):
    return {entry.key: json.loads(entry.value) for entry in onnx.load(path).metadata_props}


@pytest.mark.slow
def test_a_table(table_run, tmp_path):
    from equipoise.data.encoder import TableEncoder

    model, out = RunModel.load(table_run), tmp_path / "model.onnx"
    out.write_text("of an earlier run")
    assert export_run(model, out, force=True) < 1e-4
    about = described(out)
    assert about["input"] == "table"
    frame = pd.read_csv(table_run.parent / "digits.csv", dtype={"half": str})
    encoder = TableEncoder.from_json(about["encoder"])  # all that is needed is in the file
    probabilities, uncertainty, predicted = answers_of(out, encoder.transform(frame))
    assert [model.classes[place] for place in predicted] == model.predict(frame)
    assert (predicted != probabilities.argmax(1)).any()  # probabilities are natural, the class is not
    np.testing.assert_allclose(about["prior"], model.calibrated.prior)
    assert set(about["outputs"]) == {"probabilities", "uncertainty", "predicted"}
    np.testing.assert_allclose(probabilities, model.predict_proba(frame), atol=1e-4)
    np.testing.assert_allclose(uncertainty, model.uncertainty(frame), atol=1e-4)
    assert about["classes"] == list(model.classes)
    assert about["columns"] == encoder.column_names_
    assert about["multilabel"] is False
    assert str(table_run.parent).encode() not in out.read_bytes()
    assert b"prediction.py" not in out.read_bytes()  # nor paths of the program
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


@pytest.mark.slow
def test_images_and_several_labels(image_run, several_run, tmp_path):
    from equipoise.data import open_data

    model = RunModel.load(image_run)
    export_run(model, tmp_path / "images.onnx")
    about, x = described(tmp_path / "images.onnx"), open_data(image_run.parent / "photos").x[:]
    np.testing.assert_allclose(answers_of(tmp_path / "images.onnx", x)[0], model.predict_proba(x), atol=1e-4)
    assert (about["size"], about["channels"], len(about["mean"]), len(about["std"])) == ([32, 32], 1, 1, 1)
    assert about["mean"][0] == pytest.approx(float(model.network.backbone.input.mean))
    several = RunModel.load(several_run)
    export_run(several, tmp_path / "several.onnx")
    frame = pd.read_csv(several_run.parent / "several.csv")
    probabilities, uncertainty, predicted = answers_of(tmp_path / "several.onnx", several.input.rows(frame))
    np.testing.assert_array_equal(predicted, several.predict(frame))
    np.testing.assert_allclose(probabilities, several.predict_proba(frame), atol=1e-4)
    np.testing.assert_allclose(uncertainty, several.uncertainty(frame), atol=1e-4)


@pytest.mark.slow
def test_a_frozen_backbone_is_in_the_graph_and_cosines_too(tmp_path):
    torch.save(build_backbone("lenet").state_dict(), tmp_path / "w.pth")
    photos = pictures(tmp_path / "photos", {"night": 10, "day": 6}, side=32)
    options = RunOptions(
        str(photos), epochs=2, backbone="lenet", weights=str(tmp_path / "w.pth"), freeze=True, method="arcface"
    )
    model = RunModel.load(train_run(options, tmp_path / "run").folder)
    assert export_run(model, tmp_path / "model.onnx") < 1e-4
    x = np.random.default_rng(0).integers(0, 256, (3, 1, 32, 32), dtype=np.uint8)
    probabilities, uncertainty, _ = answers_of(tmp_path / "model.onnx", x)
    np.testing.assert_allclose(probabilities, model.predict_proba(x), atol=1e-4)
    np.testing.assert_allclose(uncertainty, model.uncertainty(x), atol=1e-4)


@pytest.mark.slow
def test_a_graph_that_differs_is_not_kept(table_run, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "TOLERANCE", -1.0)
    with pytest.raises(InvalidStateError, match=r"onnxruntime differs from Python by .*, so nothing was written"):
        export_run(RunModel.load(table_run), tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_never_replaced_unless_asked(table_run, tmp_path):
    (tmp_path / "model.onnx").write_text("precious")
    model = RunModel.load(table_run)
    with pytest.raises(InvalidInputError, match=r"model\.onnx exists; pass --force to replace it"):
        export_run(model, tmp_path / "model.onnx")
    with pytest.raises(InvalidInputError, match="cannot be written; name a file in a folder that exists"):
        export_run(model, tmp_path / "gone" / "model.onnx")
    with pytest.raises(InvalidInputError, match="is a folder; name a file"):
        export_run(model, tmp_path, force=True)
    assert (tmp_path / "model.onnx").read_text() == "precious"


@pytest.mark.parametrize("missing", ["onnx", "onnxscript", "onnxruntime"])
def test_an_absent_package_is_one_sentence_that_names_the_extra(table_run, tmp_path, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(
        InvalidInputError, match=rf"needs {missing}; install it with `pip install 'equipoise\[export\]'`"
    ):
        export_run(RunModel.load(table_run), tmp_path / "model.onnx")
