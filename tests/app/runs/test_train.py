"""A run from a user's file or folder to a scored model."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from equipoise import UncertaintyBalancedClassifier
from equipoise.app.run_folder import read_run_record
from equipoise.app.runs import RunModel, RunOptions, new_folder, train_run
from equipoise.data.imbalance import step
from equipoise.errors import InvalidInputError, InvalidStateError


@pytest.fixture
def digits(tmp_path) -> Path:
    """Imbalanced digits as a CSV, with a column of words and a few holes."""
    x, y = load_digits(return_X_y=True)
    kept = step(y, rng=0)
    frame = pd.DataFrame(x[kept], columns=[f"pixel {place}" for place in range(64)])
    frame["half"] = np.where(y[kept] < 5, "low & <b>slow</b>", "high")
    frame.loc[:20, "pixel 20"] = np.nan
    frame["digit"] = [f"digit {label}" for label in y[kept]]
    path = tmp_path / "digits.csv"
    frame.to_csv(path, index=False, sep=";")
    return path


@pytest.fixture
def table(tmp_path) -> Path:
    """Two classes of a few rows as a CSV."""
    x = np.random.default_rng(0).normal(size=(120, 3)).round(3)
    frame = pd.DataFrame(x, columns=["age", "dose", "weight"]).assign(state=np.where(x[:, 0] > 0.8, "ill", "well"))
    path = tmp_path / "patients.csv"
    frame.to_csv(path, index=False, sep=";")
    return path


def image_folder(root: Path, counts: dict[str, int], *, size: tuple[int, int] = (20, 16)) -> Path:
    """Classes that differ in colour, with noise."""
    rng = np.random.default_rng(0)
    for number, (name, count) in enumerate(counts.items()):
        (root / name).mkdir(parents=True)
        for place in range(count):
            pixels = rng.integers(0, 90, size=(*size, 3), dtype=np.uint8)
            pixels[..., number % 3] += 120
            Image.fromarray(pixels).save(root / name / f"{place:03}.png")
    return root


class Listener:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.notes, self.tables, self.profiles = [], [], []

    def columns(self, profiles):
        self.profiles += profiles

    def note(self, *sentences):
        self.notes += sentences

    def summary(self, classes, *, train, test):
        self.tables.append((classes, train, test))

    def progress(self, done, total):
        assert 0 <= done <= total


def test_a_table_becomes_a_run(digits, tmp_path):
    told, folder = Listener(), tmp_path / "run"
    result = train_run(RunOptions(data=str(digits), target="digit", epochs=8), folder, watcher=told)
    assert result.scores.balanced_accuracy > 0.85
    assert result.classes == [f"digit {number}" for number in range(10)]
    assert {path.name for path in folder.iterdir()} >= {
        "run.json", "split.json", "scores.json", "metrics.jsonl", "model.json", "model.safetensors", "checkpoints",
    }  # fmt: skip
    record = json.loads((folder / "run.json").read_text())
    assert record["options"]["target"] == "digit"
    assert record["input"]["kind"] == "table"
    assert record["training"]["settings"]["epochs"] == 8
    assert json.loads((folder / "scores.json").read_text())["accuracy"] == result.scores.accuracy
    assert any("pixel 20: " in sentence and "missing values filled" in sentence for sentence in told.notes)
    assert {profile.kind for profile in told.profiles} >= {"number"}
    classes, train, test = told.tables[0]
    assert (len(classes.names), train + test) == (10, len(pd.read_csv(digits, sep=";")))
    loaded = UncertaintyBalancedClassifier.load(folder)
    np.testing.assert_array_equal(loaded.margins_, result.model.margins_)


def test_the_split_is_kept_and_follows_the_seed(table, tmp_path):
    splits = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        train_run(RunOptions(data=str(table), target="state", epochs=1, seed=seed), tmp_path / name)
        splits.append(json.loads((tmp_path / name / "split.json").read_text()))
    assert splits[0] == splits[1] != splits[2]
    rows = len(pd.read_csv(table, sep=";"))
    assert sorted(splits[0]["train"] + splits[0]["test"]) == list(range(rows))
    assert 0.15 < len(splits[0]["test"]) / rows < 0.25


def test_groups_stay_on_one_side(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"x": rng.normal(size=300), "patient": np.repeat(np.arange(60), 5), "ill": rng.integers(0, 2, 300)}
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    train_run(RunOptions(str(tmp_path / "t.csv"), target="ill", group="patient", epochs=1), tmp_path / "run")
    split = json.loads((tmp_path / "run" / "split.json").read_text())
    patients = frame["patient"].to_numpy()
    assert not set(patients[split["train"]]) & set(patients[split["test"]])
    columns = json.loads((tmp_path / "run" / "run.json").read_text())["input"]["encoder"]["columns"]
    assert [column["name"] for column in columns] == ["x"]  # who it is is nothing to learn from


def test_a_test_table_is_divided_by_its_own_groups(tmp_path):
    rng = np.random.default_rng(0)
    ill = rng.integers(0, 2, 300)
    frame = pd.DataFrame({"x": rng.normal(size=300) + 2 * ill, "patient": np.repeat(np.arange(60), 5), "ill": ill})
    frame[:200].to_csv(tmp_path / "t.csv", index=False)
    tables = {"one": frame[200:].assign(patient=7), "many": frame[200:], "none": frame[200:].drop(columns="patient")}
    found = {}
    for name, other in tables.items():
        other.to_csv(tmp_path / f"{name}.csv", index=False)
        options = RunOptions(
            str(tmp_path / "t.csv"), target="ill", group="patient", test=str(tmp_path / f"{name}.csv"), epochs=1
        )
        train_run(options, tmp_path / name)
        found[name] = json.loads((tmp_path / name / "run.json").read_text())
    assert [found[name]["calibration"]["folds"] for name in tables] == [0, 5, 5]
    assert found["one"]["calibration"]["source"] == "nothing"  # one epoch has no stages
    assert "all 100 held-out samples are of one group" in found["one"]["notes"][-1]
    assert 'id="calibration"' not in (tmp_path / "one" / "report.html").read_text()
    assert 'id="calibration"' in (tmp_path / "many" / "report.html").read_text()
    assert not any("as independent" in note for note in found["many"]["notes"])
    assert any("none.csv has no column 'patient'; calibration" in note for note in found["none"]["notes"])
    trained_on = "100 of 100 test samples belong to groups in the training samples"
    assert [any(trained_on in note for note in found[name]["notes"]) for name in tables] == [True, False, False]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (MemoryError(), "(out of memory)"),
        pytest.param(np.linalg.LinAlgError("Singular matrix"), "(Singular matrix)", marks=pytest.mark.slow),
        pytest.param(InvalidInputError("got NaN."), "(got NaN)", marks=pytest.mark.slow),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory\nat"),
            "(DefaultCPUAllocator: can't allocate memory)",
        ),
    ],
)
def test_labels_that_cannot_be_judged_cost_no_trained_model(tmp_path, monkeypatch, error, said):
    def fail(*_):
        raise error

    monkeypatch.setattr("equipoise.app.runs.train.judge_labels", fail)
    x = np.random.default_rng(0).normal(size=120)
    pd.DataFrame({"x": x, "high": (x > 0).astype(int)}).to_csv(tmp_path / "t.csv", index=False)
    run = train_run(RunOptions(str(tmp_path / "t.csv"), target="high", epochs=1), tmp_path / "run").folder
    assert f"the labels could not be judged {said}; `equipoise inspect`" in read_run_record(run).notes[-1]
    assert not (run / "labels.npz").exists()
    assert RunModel.load(run).classes == ("0", "1")


@pytest.mark.slow
def test_an_image_folder_becomes_a_run(tmp_path, monkeypatch):
    monkeypatch.setattr("equipoise.models.backbones.packaged_weights", lambda _: None)  # not installed
    photos = image_folder(tmp_path / "photos", {"red <i>": 30, "grün": 16, "blue sky": 10})
    options = RunOptions(str(photos), epochs=4, size=16, batch_size=16)
    result = train_run(options, tmp_path / "run")
    assert result.classes == ["blue sky", "grün", "red <i>"]
    assert result.scores.balanced_accuracy > 0.8
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["input"]["backbone"]["name"] == "resnet18"
    assert [note for note in record["notes"] if "`pip install 'equipoise[images]'` brings a pretrained network" in note]


@pytest.mark.slow
def test_frozen_features_are_extracted_once(tmp_path):
    import torch

    from equipoise.models import build_backbone

    photos = image_folder(tmp_path / "photos", {"red": 40, "green": 20})
    torch.save(build_backbone("vgg16").state_dict(), tmp_path / "vgg16.pth")
    options = RunOptions(str(photos), epochs=3, size=16, backbone="vgg16", weights=str(tmp_path / "vgg16.pth"))
    first = train_run(options, tmp_path / "one")
    kept = sorted(path.stat().st_mtime_ns for path in (tmp_path / "cache" / "features").rglob("*.npy"))
    second = train_run(options, tmp_path / "two")
    assert sorted(path.stat().st_mtime_ns for path in (tmp_path / "cache" / "features").rglob("*.npy")) == kept != []
    assert first.scores == second.scores
    assert (tmp_path / "one" / "extractor.safetensors").stat().st_size > 14_714_688 * 4


def test_a_test_set_of_ones_own(table, tmp_path):
    frame = pd.read_csv(table, sep=";")
    frame[::3].to_csv(tmp_path / "test.csv", index=False)
    result = train_run(
        RunOptions(str(table), target="state", epochs=2, test=str(tmp_path / "test.csv")), tmp_path / "run"
    )
    assert result.scores.samples == len(frame[::3])
    assert json.loads((tmp_path / "run" / "split.json").read_text())["train"] == list(range(len(frame)))


def test_several_labels(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3))
    frame = pd.DataFrame(x, columns=["a", "b", "c"]).assign(
        up=(x[:, 0] > 1).astype(int), right=(x[:, 1] > 0).astype(int)
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    result = train_run(RunOptions(str(tmp_path / "t.csv"), target="up,right", epochs=10), tmp_path / "run")
    assert result.classes == ["up", "right"]
    assert result.scores.bca.mean > 0.8


class HaltError(Exception):
    pass


def test_an_unfinished_run_goes_on_only_when_asked_and_as_it_was(table, tmp_path, monkeypatch):
    options, folder = RunOptions(str(table), target="state", epochs=2), tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(UncertaintyBalancedClassifier, "save", lambda *_: (_ for _ in ()).throw(HaltError))
        with pytest.raises(HaltError):
            train_run(options, folder)
    with pytest.raises(InvalidInputError, match="holds an unfinished run; pass --resume to continue, or another --out"):
        train_run(options, folder)
    other = RunOptions(str(table), target="state", epochs=3)
    with pytest.raises(InvalidStateError, match="was started with epochs = 2, and now it is 3; use the same value"):
        train_run(other, folder, resume=True)
    finished = train_run(options, folder, resume=True)
    assert finished.scores == train_run(options, tmp_path / "other").scores
    with pytest.raises(InvalidInputError, match="holds a finished run; choose another folder with --out"):
        train_run(options, folder, resume=True)


def test_a_folder_of_something_else_is_left_alone(table, tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.txt").write_text("all of it")
    with pytest.raises(InvalidInputError, match="precious exists and is not a run; choose another folder with --out"):
        train_run(RunOptions(str(table), target="state"), tmp_path / "precious")
    assert [path.name for path in (tmp_path / "precious").iterdir()] == ["thesis.txt"]


def test_options_for_images_are_refused_for_a_table(table, tmp_path):
    with pytest.raises(InvalidInputError, match=r"--backbone is for images, and .*patients\.csv is a table; leave"):
        train_run(RunOptions(str(table), target="state", backbone="resnet18"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_freezing_needs_weights(tmp_path):
    photos = image_folder(tmp_path / "photos", {"red": 6, "green": 6})
    with pytest.raises(InvalidInputError, match="--freeze needs a pretrained backbone; pass its --weights"):
        train_run(RunOptions(str(photos), backbone="resnet18", freeze=True), tmp_path / "run")


def test_runs_get_names_that_are_free(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert new_folder("some/where/photos/") == Path("runs/photos")
    Path("runs/photos").mkdir(parents=True)
    assert new_folder("photos.tar.gz") == Path("runs/photos-2")


def test_the_same_picture_on_both_sides_is_reported(tmp_path):
    photos = image_folder(tmp_path / "photos", {"red": 12, "green": 12})
    for place in range(12):
        twin = photos / "red" / f"copy {place}.png"
        twin.write_bytes((photos / "red" / f"{place:03}.png").read_bytes())
    told = Listener()
    train_run(RunOptions(str(photos), epochs=1, backbone="lenet"), tmp_path / "run", watcher=told)
    assert [sentence for sentence in told.notes if "train" in sentence and "test" in sentence]


def test_test_images_are_read_as_the_training_images_were(tmp_path):
    train = image_folder(tmp_path / "train set", {"red": 12, "green": 12}, size=(40, 40))
    test = image_folder(tmp_path / "test set", {"red": 4, "green": 4, "blue": 3}, size=(90, 60))
    told = Listener()
    options = RunOptions(str(train), test=str(test), epochs=1, backbone="lenet")
    result = train_run(options, tmp_path / "run", watcher=told)
    assert result.scores.samples == 8
    assert "3 test samples of classes without a training sample are left out: 'blue'." in told.notes
    assert json.loads((tmp_path / "run" / "run.json").read_text())["input"]["backbone"]["size"] == [40, 40]


def test_official_parts_without_a_test_part_are_scored_on_validation(tmp_path):
    image_folder(tmp_path / "photos" / "train", {"red": 10, "green": 10})
    image_folder(tmp_path / "photos" / "val", {"red": 5, "green": 6})
    told = Listener()
    options = RunOptions(str(tmp_path / "photos"), epochs=1, backbone="lenet")
    result = train_run(options, tmp_path / "run", watcher=told)
    assert result.scores.samples == 11
    assert "this data set has no official test part; the scores are those of the validation part." in told.notes


def test_a_test_set_of_ones_own_spares_the_official_test_part(tmp_path):
    image_folder(tmp_path / "photos" / "train", {"red": 10, "green": 10})
    image_folder(tmp_path / "photos" / "test", {"red": 5, "green": 6})
    other = image_folder(tmp_path / "other", {"red": 3, "green": 3})
    options = RunOptions(str(tmp_path / "photos"), test=str(other), epochs=1, backbone="lenet")
    train_run(options, tmp_path / "run")
    assert sum(json.loads((tmp_path / "run" / "run.json").read_text())["train_counts"]) == 20


def test_what_is_wrong_with_the_test_set_is_said_before_training(table, tmp_path):
    frame = pd.read_csv(table, sep=";")
    frame.drop(columns="dose").to_csv(tmp_path / "test.csv", index=False)
    options = RunOptions(str(table), target="state", epochs=2, test=str(tmp_path / "test.csv"))
    with pytest.raises(InvalidInputError, match="the table lacks 1 column that the model was trained on: dose"):
        train_run(options, tmp_path / "run")
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_too_few_samples_to_hold_any_out(tmp_path):
    photos = image_folder(tmp_path / "photos", {"red": 2, "green": 1})
    with pytest.raises(InvalidInputError, match="only classes with three samples or more have some held out"):
        train_run(RunOptions(str(photos), epochs=1), tmp_path / "run")


@pytest.mark.slow
def test_features_of_another_split_are_found_again(tmp_path):
    import torch

    from equipoise.models import build_backbone

    photos = image_folder(tmp_path / "photos", {"red": 20, "green": 12})
    torch.save(build_backbone("vgg16").state_dict(), tmp_path / "vgg16.pth")
    for seed in (0, 1):
        weights = str(tmp_path / "vgg16.pth")
        options = RunOptions(str(photos), epochs=1, size=16, backbone="vgg16", weights=weights, seed=seed)
        train_run(options, tmp_path / f"run {seed}")
    assert len(list((tmp_path / "cache" / "features").glob("*.npy"))) == 1


@pytest.mark.nightly
def test_a_run_in_mixed_precision_is_near_one_in_full(digits, tmp_path):
    options = {"data": str(digits), "target": "digit", "epochs": 6}
    full = train_run(RunOptions(**options), tmp_path / "full")
    mixed = train_run(RunOptions(**options, precision="bf16"), tmp_path / "mixed")
    assert mixed.model.precision == "bf16"
    weights = [run.model.network_.head.weight for run in (full, mixed)]
    assert not weights[0].equal(weights[1])
    assert abs(full.scores.balanced_accuracy - mixed.scores.balanced_accuracy) < 0.1
