"""What a finished run leaves in its folder, for the report and for whoever predicts with it."""

import base64
import io
import json

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from equipoise import UncertaintyBalancedClassifier
from equipoise.app.run_folder import finished_record, read_run_record
from equipoise.app.runs import RunModel, RunOptions, train_run
from equipoise.app.runs.notable_samples import key_columns, thumbnail
from equipoise.data.images.decode import decode_image
from equipoise.errors import InvalidInputError
from equipoise.evaluation import scores
from tests.app.runs.made import EPOCHS


def held(folder):
    with np.load(folder / "held_out.npz", allow_pickle=False) as stored:
        return {name: stored[name] for name in stored.files}


def record_of(folder):
    return json.loads((folder / "run.json").read_text())


def test_the_record_says_what_was_found_and_how(table_run):
    record = record_of(table_run)
    assert record["classes"] == [f"<digit> {number}" for number in range(10)]
    assert record["attributes"] == []
    split = json.loads((table_run / "split.json").read_text())
    labels = pd.read_csv(table_run.parent / "digits.csv")["digit"].to_numpy()
    counted = pd.Series(labels[split["train"]]).value_counts()
    assert record["train_counts"] == [counted[name] for name in record["classes"]]
    assert len(record["class_uncertainty"]) == len(record["margins"]) == 10
    rare = np.argsort(record["train_counts"])[:3]
    assert np.mean(np.array(record["margins"])[rare]) > np.mean(record["margins"])
    assert record["command"] == "equipoise train digits.csv"
    epochs = [json.loads(line) for line in (table_run / "metrics.jsonl").read_text().splitlines()]
    assert [epoch["stage"] for epoch in epochs] == ["class"] * 4 + ["sample"] * 2
    assert len(epochs) == EPOCHS
    assert record["seconds"] > sum(epoch["seconds"] for epoch in epochs)
    assert any("pixel 20: " in sentence for sentence in record["notes"])
    assert set(record["versions"]) >= {"equipoise", "torch", "python"}
    assert record["training"]["settings"]["epochs"] == EPOCHS


def test_the_answers_are_those_the_scores_are_of(table_run):
    stored, record = held(table_run), record_of(table_run)
    kinds = {name: (values.dtype.name, values.shape[1:]) for name, values in stored.items()}
    assert kinds == {
        "probabilities": ("float32", (10,)),
        "labels": ("int64", ()),
        "predicted": ("int64", ()),
        "uncertainty": ("float32", ()),
        "before": ("int64", ()),
        "rows": ("int64", ()),
        "uncalibrated": ("float32", (10,)),
        "sets": ("bool", (10,)),
        "prior": ("float64", ()),
    }
    table = pd.read_csv(table_run.parent / "digits.csv")
    names = np.array(record["classes"])
    np.testing.assert_array_equal(names[stored["labels"]], table["digit"].to_numpy()[stored["rows"]])
    assert (stored["predicted"] != stored["probabilities"].argmax(1)).any()  # a rare class may be named
    np.testing.assert_array_equal(stored["predicted"], (stored["uncalibrated"] / stored["prior"]).argmax(1))
    np.testing.assert_allclose(stored["prior"], np.array(record["train_counts"]) / sum(record["train_counts"]))
    for file, predicted in (("scores.json", "predicted"), ("before_scores.json", "before")):
        known = json.loads((table_run / file).read_text())
        found = scores(names[stored["labels"]], names[stored[predicted]], classes=names)
        assert known["balanced_accuracy"] == pytest.approx(found.balanced_accuracy)
        assert known["confusion"] == [list(row) for row in found.confusion]
        assert set(known["group_recall"]) == {"common", "rare"}
        assert known["classes"] == record["classes"]
    assert (stored["before"] != stored["predicted"]).any()
    wrong = stored["predicted"] != stored["labels"]
    assert stored["uncertainty"][wrong].mean() > stored["uncertainty"][~wrong].mean()


def test_the_gallery_of_a_table(table_run):
    gallery, stored, record = (
        json.loads((table_run / "gallery.json").read_text()),
        held(table_run),
        record_of(table_run),
    )
    assert gallery["kind"] == "table"
    assert len(gallery["uncertain"]) == 12
    order = np.argsort(-stored["uncertainty"], kind="stable")[:12]
    assert [item["row"] for item in gallery["uncertain"]] == stored["rows"][order].tolist()
    assert 1 <= len(gallery["wrong"]) <= 12
    sure = [item["probability"] for item in gallery["wrong"]]
    assert sure == sorted(sure, reverse=True)
    table = pd.read_csv(table_run.parent / "digits.csv", dtype=str)
    for item in (*gallery["uncertain"], *gallery["wrong"]):
        place = stored["rows"].tolist().index(item["row"])
        assert item["name"] == f"row {item['row']}"
        assert item["true"] == record["classes"][stored["labels"][place]] == table["digit"][item["row"]]
        assert item["predicted"] == record["classes"][stored["predicted"][place]]
        own = stored["probabilities"][place][stored["predicted"][place]]
        assert item["probability"] == pytest.approx(float(own))
        assert len(item["columns"]) == 8
        shown = {name: value for name, value in item["columns"].items() if name.startswith("pixel")}
        assert shown
        for name, value in shown.items():
            assert float(value) == float(table[name][item["row"]]) or value == "nan"
    assert all(item["true"] != item["predicted"] for item in gallery["wrong"])


def test_the_key_columns_have_the_largest_weights(table_run):
    model = RunModel.load(table_run)
    layer = model.network.backbone[1].layers[0].weight
    names = model.input.encoder.column_names_
    place = names.index("pixel 36")
    layer.data[:, place] = 100.0
    assert key_columns(model)[0] == "pixel 36"
    layer.data[:, next(names.index(name) for name in names if name.startswith("half="))] = 200.0
    assert key_columns(model, most=2) == ["half", "pixel 36"]


def test_the_gallery_of_images(image_run):
    gallery = json.loads((image_run / "gallery.json").read_text())
    assert gallery["kind"] == "images"
    photos = image_run.parent / "photos"
    for item in gallery["uncertain"]:
        assert item["name"].split("/")[0] == item["true"]
        with Image.open(io.BytesIO(base64.b64decode(item["thumbnail"]))) as image:
            assert (image.format, image.size) == ("JPEG", (128, 128))
            seen = decode_image(photos / item["name"], size=(128, 128), channels=1)
            assert abs(np.asarray(image).mean() - seen.mean()) < 3
    record = record_of(image_run)
    assert record["input"]["kind"] == "images"
    assert record["input"]["backbone"] == {"name": "lenet", "channels": 1, "size": [32, 32]}


def test_several_labels_keep_one_number_an_attribute(several_run):
    record, stored = record_of(several_run), held(several_run)
    assert record["classes"] == record["attributes"] == ["up", "right"]
    assert len(record["train_counts"]) == len(record["class_uncertainty"]) == len(record["margins"]) == 2
    frame = pd.read_csv(several_run.parent / "several.csv")
    np.testing.assert_array_equal(stored["labels"], frame[["up", "right"]].to_numpy()[stored["rows"]])
    p, prior = stored["probabilities"].astype(float), stored["prior"]
    np.testing.assert_array_equal(stored["predicted"], p * prior[:, 0] > (1 - p) * prior[:, 1])
    assert stored["before"].shape == stored["predicted"].shape
    estimator = UncertaintyBalancedClassifier.load(several_run)
    assert record["margins"] == estimator.margins_[:, 1].tolist()
    assert record["class_uncertainty"] == estimator.class_uncertainty_[:, 1].tolist()
    assert json.loads((several_run / "scores.json").read_text())["classes"] == ["up", "right"]
    named = {"none", "up", "right", "up, right"}
    gallery = json.loads((several_run / "gallery.json").read_text())
    assert {item["true"] for item in gallery["uncertain"]} <= named
    for item in gallery["uncertain"]:
        own = stored["probabilities"][stored["rows"].tolist().index(item["row"])].astype(float)
        chances = [p if name in item["predicted"] else 1 - p for name, p in zip(("up", "right"), own, strict=True)]
        assert item["probability"] == pytest.approx(chances[0] * chances[1])
    assert all(item["true"] != item["predicted"] for item in gallery["wrong"])


def test_a_method_without_stages_has_no_before(tmp_path):
    frame = pd.DataFrame({"a": np.arange(80) % 7, "b": np.arange(80) % 5, "y": (np.arange(80) % 7 > 4)})
    frame.to_csv(tmp_path / "t.csv", index=False)
    result = train_run(RunOptions(str(tmp_path / "t.csv"), method="weighted", epochs=2), tmp_path / "run")
    assert result.before is None
    assert not (tmp_path / "run" / "before_scores.json").exists()
    assert "before" not in held(tmp_path / "run")
    record = record_of(tmp_path / "run")
    assert (record["class_uncertainty"], record["margins"]) == (None, None)
    assert record["classes"] == ["False", "True"]


def test_a_thumbnail_is_small_and_keeps_its_shape():
    def opened(pixels):
        with Image.open(io.BytesIO(base64.b64decode(thumbnail(pixels)))) as image:
            return image.mode, image.size

    assert opened(np.zeros((3, 100, 400), dtype=np.uint8)) == ("RGB", (128, 32))
    assert opened(np.zeros((1, 8, 8), dtype=np.uint8)) == ("L", (8, 8))


@pytest.mark.parametrize("content", ["", "[1]", '{"options": 3}', "{}", "\x00"])
def test_a_damaged_record_is_one_sentence(tmp_path, content):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(
        InvalidInputError, match=r"run\.json (cannot be read|is invalid|is not as|has no).*; train again into another f"
    ):
        read_run_record(tmp_path)


def test_an_unfinished_run_says_how_to_go_on(tmp_path):
    with pytest.raises(InvalidInputError, match="is not a run; give a folder that `equipoise train` has written"):
        finished_record(tmp_path)
    (tmp_path / "run.json").write_text('{"options": {}}')
    (tmp_path / "model.safetensors").touch()  # of a run that was killed before its last file
    with pytest.raises(InvalidInputError, match="is not finished; resume with `equipoise train --resume --out"):
        finished_record(tmp_path)
