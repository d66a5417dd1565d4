"""A run loaded again, from its own folder and from a stranger's."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from equipoise.app.runs import RunModel, RunOptions, train_run
from equipoise.calibration.scaling import Scaling
from equipoise.errors import EquipoiseError, InvalidInputError
from equipoise.estimators.network import UncertaintyBalancedClassifier
from equipoise.models import build_backbone
from tests.app.runs.made import digits_frame, pictures


def stored(folder):
    with np.load(folder / "held_out.npz", allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def without_scaling(model):
    """What a run says before it is calibrated on its held-out samples."""
    plain = replace(model.calibrated, scaling=Scaling.identity(tuple(model.calibrated.prior.shape)))
    return replace(model, calibrated=plain)


def test_a_table_is_answered_as_in_training(table_run):
    model, known = RunModel.load(table_run), stored(table_run)
    frame = pd.read_csv(table_run.parent / "digits.csv", dtype={"half": str})
    rows = frame.drop(columns="digit").iloc[known["rows"]]
    plain = without_scaling(model)
    np.testing.assert_allclose(plain.predict_proba(rows), known["uncalibrated"], atol=1e-6)
    np.testing.assert_allclose(model.calibrated.prior, known["prior"])
    # what is kept was answered by calibrations on the other samples, the model by one on all of them
    assert np.corrcoef(model.uncertainty(rows), known["uncertainty"])[0, 1] > 0.95
    assert model.classes == tuple(f"<digit> {number}" for number in range(10))
    named = np.array([model.classes[place] for place in known["predicted"]])
    assert (np.array(model.predict(rows)) == named).mean() > 0.9
    other_order = rows[list(rows.columns[::-1])]
    np.testing.assert_array_equal(model.predict_proba(other_order), model.predict_proba(rows))


def test_images_and_several_labels_are_answered_as_in_training(image_run, several_run):
    from equipoise.data import open_data

    images, known = RunModel.load(image_run), stored(image_run)
    samples = open_data(image_run.parent / "photos").take(known["rows"])
    np.testing.assert_allclose(without_scaling(images).predict_proba(samples.x), known["uncalibrated"], atol=1e-5)
    several, known = RunModel.load(several_run), stored(several_run)
    rows = pd.read_csv(several_run.parent / "several.csv").iloc[known["rows"]]
    assert np.corrcoef(several.uncertainty(rows), known["uncertainty"])[0, 1] > 0.95
    assert (several.predict(rows) == known["predicted"]).mean() > 0.9


def test_no_rows_are_no_answers(table_run):
    found = RunModel.load(table_run).predictions(digits_frame().iloc[:0])
    assert [part.shape for part in found] == [(0, 10), (0,), (0,), (0, 10)]


@pytest.mark.parametrize("prior", [None, "another"])
def test_the_estimator_says_the_same_of_the_same_rows(table_run, several_run, prior):
    """One definition of class, probabilities and uncertainty, whoever is asked."""
    for run, frame in ((table_run, digits_frame()), (several_run, pd.read_csv(several_run.parent / "several.csv"))):
        model, estimator = RunModel.load(run), UncertaintyBalancedClassifier.load(run)
        rows, mix = model.input.rows(frame), None
        if prior is not None:
            mix = model.calibrated.balanced() * ([[1, 3]] if model.multilabel else np.arange(1, 11))
        answered = model.predictions(frame, mix)
        np.testing.assert_allclose(estimator.uncertainty(rows, target_prior=mix), answered.uncertainty, atol=1e-6)
        np.testing.assert_allclose(estimator.predict_proba(rows, mix), answered.probabilities, atol=1e-6)
        places = np.searchsorted(estimator.classes_, estimator.predict(rows, target_prior=mix))
        found = estimator.predict(rows, target_prior=mix) if model.multilabel else places
        np.testing.assert_array_equal(found, answered.predicted)


@pytest.fixture(scope="module")
def features_run(tmp_path_factory):
    """On features of a frozen backbone."""
    folder = tmp_path_factory.mktemp("features")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EQUIPOISE_CACHE", str(folder / "cache"))
        torch.save(build_backbone("lenet").state_dict(), folder / "weights.pth")
        photos = pictures(folder / "photos", {"night": 14, "day": 8}, side=32)
        options = RunOptions(str(photos), epochs=3, backbone="lenet", weights=str(folder / "weights.pth"), freeze=True)
        run = train_run(options, folder / "run").folder
    (folder / "weights.pth").unlink()
    return run


def test_a_frozen_backbone_comes_from_the_run_and_leaves_no_cache(features_run, tmp_path, monkeypatch):
    from equipoise.data import open_data

    samples = open_data(features_run.parent / "photos").take(stored(features_run)["rows"])
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "empty"))
    model = RunModel.load(features_run)
    found = without_scaling(model).predict_proba(samples.x)
    np.testing.assert_allclose(found, stored(features_run)["uncalibrated"], atol=1e-5)
    assert not (tmp_path / "empty").exists()


def changed(run, folder, change):
    """A copy of a run whose record was changed."""
    copy = folder / "copy"
    shutil.copytree(run, copy, ignore=shutil.ignore_patterns("checkpoints"))
    record = json.loads((copy / "run.json").read_text())
    change(record)
    (copy / "run.json").write_text(json.dumps(record))
    return copy


def put(place, value):
    def change(record):
        inner = record
        for name in place[:-1]:
            inner = inner[name]
        inner[place[-1]] = value

    return change


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        (["input"], None, r"run\.json lacks the backbone and image size; train again"),
        (
            ["input"],
            [],
            r"run\.json has no valid field 'input': expected an object in braces or nothing, got a list; train",
        ),
        (
            ["input", "kind"],
            "table",
            "the table encoding is invalid: expected an object in braces, got nothing",
        ),
        (
            ["input", "kind"],
            "pickle",
            r"run\.json has no valid field 'input\.kind': not one of the allowed values; train",
        ),
        (["input", "kind"], "features", r"extractor\.safetensors cannot be read"),
        (["input", "backbone"], None, r"run\.json lacks the backbone and image size; train again"),
        (
            ["input", "backbone", "size"],
            [10**9, 10**9],
            r"'input\.backbone\.size\[0\]': expected a whole number <= 4096",
        ),
        (["input", "backbone", "size"], [32], r"'input\.backbone\.size': expected a list of length 2"),
        (["input", "backbone", "channels"], 4, r"'input\.backbone\.channels': not one of the allowed values"),
        (["input", "backbone", "name"], "resnet50", "are not those of resnet50: backbone.body"),
        (["input", "backbone", "name"], "../../etc/passwd", "backbone must be one of lenet"),
        (["input", "backbone", "name"], ["lenet"], r"'input\.backbone\.name': expected text, got a list"),
    ],
)
def test_a_strangers_folder_is_checked_before_memory_is_taken(image_run, tmp_path, place, value, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        RunModel.load(changed(image_run, tmp_path, put(place, value)))


def test_an_encoding_of_other_columns_is_refused(table_run, tmp_path):
    def drop_one(record):
        record["input"]["encoder"]["columns"].pop()

    with pytest.raises(InvalidInputError, match="holds a table encoding of another model; train again"):
        RunModel.load(changed(table_run, tmp_path, drop_one))


def test_attributes_must_be_those_of_the_model(several_run, tmp_path):
    with pytest.raises(InvalidInputError, match="the run names 3 attributes and its model has 2"):
        RunModel.load(changed(several_run, tmp_path, put(["attributes"], ["a", "b", "c"])))


def test_paths_in_the_options_are_never_opened(table_run, tmp_path):
    def point_elsewhere(record):
        record["options"] |= {"data": "/dev/zero", "weights": "/dev/zero", "labels": "/dev/zero", "test": "/dev/zero"}

    assert RunModel.load(changed(table_run, tmp_path, point_elsewhere)).classes[0] == "<digit> 0"


def test_fields_of_the_wrong_kind_are_refused_and_of_another_length_not_shown(table_run, tmp_path):
    with pytest.raises(InvalidInputError, match=r"'margins\[0\]': expected a number or nothing, got text; train"):
        RunModel.load(changed(table_run, tmp_path / "words", put(["margins"], ["[link=x]"] * 10)))
    model = RunModel.load(changed(table_run, tmp_path, put(["margins"], [1.0] * 9)))
    assert model.learnt("margins") is None
    assert model.learnt("train_counts") == model.record.train_counts


def test_no_weights_of_another_run(table_run, image_run, tmp_path):
    copy = changed(image_run, tmp_path, lambda _: None)
    for name in ("model.safetensors", "model.json"):
        shutil.copy(table_run / name, copy / name)
    with pytest.raises(EquipoiseError, match="are not those of lenet"):
        RunModel.load(copy)
