"""Runs on pretrained features: image folders by default, models of transformers, and pictures named in a table."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
import torch

from equipoise import BalancedClassifier
from equipoise.app.runs import RunModel, RunOptions, train_run
from equipoise.data.encoder import TableEncoder
from equipoise.errors import InvalidInputError
from equipoise.models import ImageBackbone, ImageInput
from equipoise.models.efficientnet_lite import EfficientNetLite
from equipoise.models.picture_features import PictureFeatures
from equipoise.models.pretrained_weights import packaged_weights
from tests.app.runs.made import pictures

installed = pytest.mark.skipif(packaged_weights("efficientnet_lite0") is None, reason="its package is not installed")


@installed
def test_a_folder_of_pictures_takes_pretrained_features_and_keeps_them(tmp_path):
    photos = pictures(tmp_path / "photos", {"night": 16, "day": 8}, side=40)
    options = RunOptions(str(photos), epochs=2, test_share=0.4)
    first = train_run(options, tmp_path / "one")
    record = json.loads((tmp_path / "one" / "run.json").read_text())
    assert record["input"]["backbone"] == {
        "name": "efficientnet_lite0",
        "channels": 1,
        "size": [40, 40],
        "frozen": True,
    }
    assert any("624 features of efficientnet_lite0" in note for note in record["notes"])
    kept = [path.stat().st_mtime_ns for path in (tmp_path / "cache" / "features").glob("*.npy")]
    assert train_run(options, tmp_path / "two").scores == first.scores
    assert [path.stat().st_mtime_ns for path in (tmp_path / "cache" / "features").glob("*.npy")] == kept != []
    model = RunModel.load(tmp_path / "one")  # with the weights in its folder
    pixels = np.random.default_rng(0).integers(0, 256, (3, 3, 40, 40), dtype=np.uint8)
    assert model.predict_proba(pixels).shape == (3, 2)


@pytest.mark.slow
def test_a_run_of_a_model_of_transformers_needs_its_folder_no_more(tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    tiny = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    transformers.ViTModel(transformers.ViTConfig(**tiny, image_size=16, patch_size=8)).save_pretrained(tmp_path / "vit")
    photos = pictures(tmp_path / "photos", {"night": 12, "day": 8}, side=32)
    options = RunOptions(str(photos), epochs=2, backbone=f"hf:{tmp_path / 'vit'}")
    before = train_run(options, tmp_path / "run")
    shutil.rmtree(tmp_path / "vit")
    model, record = RunModel.load(tmp_path / "run"), json.loads((tmp_path / "run" / "run.json").read_text())
    assert model.predict_proba(np.zeros((2, 3, 32, 32), dtype=np.uint8)).shape == (2, 2)
    assert before.classes == list(model.classes)
    record["input"]["backbone"]["config"]["model"]["num_hidden_layers"] = 10**5
    (tmp_path / "run" / "run.json").write_text(json.dumps(record))
    with pytest.raises(InvalidInputError, match=r"num_hidden_layers = 100000, more than its .* tensors allow"):
        RunModel.load(tmp_path / "run")


def small_reader(**options):
    """Reads pictures by an untrained network of few layers."""
    torch.manual_seed(0)
    extractor = ImageBackbone(ImageInput(3), EfficientNetLite(stages=(1, 2), enlarge=None)).eval()
    return PictureFeatures("tiny", extractor=extractor, **options)


@pytest.fixture
def sightings(tmp_path):
    """A table beside a folder of pictures: relative paths, one missing, one of no file, one of no image."""
    photos = pictures(tmp_path / "photos", {"night": 20, "day": 10}, side=32)
    files = sorted(photos.rglob("*.png"))
    frame = pd.DataFrame({"photo": [str(file.relative_to(tmp_path)) for file in files], "dose": np.arange(30) % 7})
    frame["state"] = [file.parent.name for file in files]
    (photos / "broken.png").write_bytes(b"none")
    frame.loc[[0, 3, 5], "photo"] = [None, "photos/gone.png", "photos/broken.png"]
    frame.to_csv(tmp_path / "sightings.csv", index=False)
    return tmp_path / "sightings.csv"


def test_pictures_stand_beside_the_other_columns(sightings, monkeypatch):
    frame = pd.read_csv(sightings)
    monkeypatch.chdir(sightings.parent)
    encoder = TableEncoder(pictures=small_reader()).fit(frame.drop(columns="state"))
    assert [(guess.name, guess.kind) for guess in encoder.guesses_] == [("photo", "image"), ("dose", "number")]
    assert encoder.column_names_ == [f"photo picture {n}" for n in range(1, 41)] + ["photo=(missing)", "dose"]
    found = encoder.encode(frame)
    assert np.flatnonzero(found.unread["photo"]).tolist() == [3, 5]
    assert np.flatnonzero(found.values[:, 40]).tolist() == [0, 3, 5]
    np.testing.assert_allclose(
        found.values[0, :40], np.delete(found.values, [0, 3, 5], axis=0)[:, :40].mean(0), rtol=1e-4
    )
    again = TableEncoder.from_json(json.loads(json.dumps(encoder.to_json())), small_reader())
    np.testing.assert_array_equal(again.transform(frame[::-1])[::-1], found.values)
    np.testing.assert_array_equal(again.transform(frame[:1]), found.values[:1])  # not one picture among the rows
    with pytest.raises(InvalidInputError, match=r"takes pictures through tiny, which is missing; pip install"):
        TableEncoder.from_json(encoder.to_json()).transform(frame)


def test_without_a_reader_image_paths_are_left_out_and_said(sightings):
    encoder = TableEncoder().fit(pd.read_csv(sightings).drop(columns="state"))
    assert encoder.column_names_ == ["dose"]
    assert any("pip install 'equipoise[images]' to learn from them" in note for note in encoder.notes_)


def test_paths_of_nothing_are_refused(sightings):
    frame = pd.read_csv(sightings)  # from another folder than its own
    with pytest.raises(InvalidInputError, match=r"'photo' names 29 pictures that cannot be read.*no such"):
        TableEncoder(pictures=small_reader()).fit(frame)


def test_an_interrupted_extraction_goes_on_where_it_stopped(sightings, tmp_path, monkeypatch):
    frame, done = pd.read_csv(sightings).iloc[6:], []
    frame.attrs["folder"] = str(tmp_path)

    def stop(rows, total):
        done.append((rows, total))
        if rows > 0 and len(done) < 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(
        "equipoise.models.feature_extraction.extract_features.__kwdefaults__",
        {"cache": None, "batch_size": 10, "progress": None},
    )
    encoder = TableEncoder(pictures=small_reader(progress=stop))
    with pytest.raises(KeyboardInterrupt):
        encoder.fit(frame.drop(columns="state"))
    encoder.fit(frame.drop(columns="state"))
    assert done == [(0, 24), (10, 24), (10, 24), (20, 24), (24, 24)]


@installed
@pytest.mark.slow
def test_a_run_of_a_table_with_pictures(sightings, tmp_path, monkeypatch):
    options = RunOptions(str(sightings), target="state", model="forest")
    result = train_run(options, tmp_path / "run")
    assert result.scores.balanced_accuracy > 0.8
    monkeypatch.setattr("equipoise.models.backbones.packaged_weights", lambda _: None)  # its folder has all it needs
    model = RunModel.load(tmp_path / "run")
    assert model.input.encoder.pictures.cache is False
    assert model.predict_proba(pd.read_csv(sightings).iloc[:1]).shape == (1, 2)


@installed
@pytest.mark.slow
def test_an_estimator_takes_a_frame_with_pictures(sightings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = pd.read_csv(sightings)
    model = BalancedClassifier("forest", random_state=0).fit(frame.drop(columns="state"), frame["state"])
    model.save(tmp_path / "model")
    again = BalancedClassifier.load(tmp_path / "model")
    rows = frame.drop(columns="state")
    np.testing.assert_allclose(again.predict_proba(rows), model.predict_proba(rows))
