"""``equipoise inspect``, as a person meets it."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

from equipoise.app.runs import RunOptions, train_run
from equipoise.app.runs.choose_split import GivenSamples
from equipoise.app.runs.inspect import ADVICE, _advice, inspect_run
from equipoise.app.stored_arrays import JudgedLabels
from equipoise.app.stored_run import read_run
from equipoise.data import Samples
from equipoise.evaluation import label_doubt
from equipoise.storage.run_files import LABELS
from tests.app.report.runs import write_run
from tests.app.report.test_numbers import one_hot
from tests.app.runs import made


@pytest.fixture(scope="session")
def several_run(tmp_path_factory):
    return made.once(made.several_run, tmp_path_factory)


def flipped_digits(folder, seed):
    """A run on digits with a twentieth of all labels flipped, and which are."""
    x, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    chosen = rng.permutation(len(y))[: len(y) // 20]
    y = y.copy()
    y[chosen] = (y[chosen] + rng.integers(1, 10, len(chosen))) % 10
    train, test = order[:1400], order[1400:]
    given = GivenSamples(Samples(x[train], y[train]), Samples(x[test], y[test]))
    train_run(RunOptions("digits", seed=seed, epochs=20), folder, given=given)
    rows = np.where(inspect_run(folder).ranking["part"] == "train", 0, 1)
    place = inspect_run(folder).ranking["row"].to_numpy()
    ranked = np.where(rows == 0, train[np.minimum(place, len(train) - 1)], test[np.minimum(place, len(test) - 1)])
    return ranked, chosen


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(3))
def test_four_fifths_of_flipped_labels_are_in_the_first_tenth(tmp_path, seed):
    ranked, chosen = flipped_digits(tmp_path / "run", seed)
    assert sorted(ranked.tolist()) == list(range(1797))
    found = np.isin(chosen, ranked[:180]).mean()
    assert found >= 0.8, found


def test_classes_and_samples_are_printed(equipoise, table_run):
    done = equipoise("inspect", table_run, "--top", 3)
    assert (done.code, done.err) == (0, "")
    assert "<digit> 3" in done.out
    assert "what to do" in done.out
    assert "of 600 labels fit another class better" in done.out
    assert done.out.count(" train ") + done.out.count(" test ") == 3


def test_json_has_all_classes_and_the_first_samples(equipoise, table_run):
    found = json.loads(equipoise("inspect", table_run, "--json", "--top", 5).out)
    assert (found["labels"], found["judged"], len(found["samples"])) == (600, 600, 5)
    assert len(found["classes"]) == 10
    scores = [sample["score"] for sample in found["samples"]]
    assert scores == sorted(scores, reverse=True)
    urgency = [list(ADVICE).index(entry["kind"]) for entry in found["classes"]]
    assert urgency == sorted(urgency)
    assert sum(entry["samples"] + entry["tested"] for entry in found["classes"]) == 600
    assert sum(entry["suspected"] for entry in found["classes"]) == found["suspected"]


def test_no_class_that_is_missed_or_named_wrongly_is_called_good(tmp_path):
    """28 % missed is less than the mean class here, and a class that is never missed may be named far too often."""
    labels = np.repeat([0, 1, 2, 3], [50, 50, 20, 50])
    predicted = labels.copy()
    predicted[0:14], predicted[50:100] = 1, 2
    options = {"counts": [1000, 900, 20, 900], "names": list("abcd"), "before": None}
    folder = write_run(tmp_path, probabilities=one_hot(predicted, 4), labels=labels, **options)
    doubt = label_doubt(one_hot(predicted, 4), labels)
    judged = JudgedLabels(np.arange(170), np.ones(170, dtype=bool), labels, doubt)
    found = {entry.name: entry for entry in _advice(read_run(folder), judged)}
    assert {name: entry.advice for name, entry in found.items()} == {
        "a": "better than average, but not good",
        "b": "look at labels and features",
        "c": "seldom missed, mostly false alarms",
        "d": "seldom missed",
    }
    assert found["a"].missed == pytest.approx(0.28)
    assert found["c"].precision == pytest.approx(20 / 70)


def test_json_lists_suspected_samples_alone(equipoise, table_run):
    found = json.loads(equipoise("inspect", table_run, "--json").out)
    assert len(found["samples"]) == min(20, found["suspected"]) < 20
    assert all(sample["score"] > 0.5 for sample in found["samples"])


def test_rows_and_labels_are_those_of_the_users_file(table_run):
    frame = made.digits_frame()
    found = inspect_run(table_run).ranking
    assert sorted(found["row"]) == list(range(600))
    assert found["label"].tolist() == frame["digit"].iloc[found["row"].to_numpy()].tolist()
    assert (found["label"] != found["suggested"]).all()
    split = json.loads((table_run / "split.json").read_text())
    assert set(found.loc[found["part"] == "test", "row"]) == set(split["test"])


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_the_ranking_is_written_once(equipoise, table_run, tmp_path, ending):
    file = tmp_path / f"relabel.{ending}"
    done = equipoise("inspect", table_run, "--out", file.name, "--quiet")
    assert done == (0, "", "")
    found = pd.read_csv(file) if ending == "csv" else pd.read_json(file, lines=True)
    assert len(found) == 600
    again = equipoise("inspect", table_run, "--out", file.name)
    assert (again.code, again.err) == (
        1,
        f"error: {file.name} exists; pass --force to replace it, or name another file.\n",
    )
    done = equipoise("inspect", table_run, "--out", file.name, "--force", "--top", 7)
    assert (done.code, done.err) == (0, f"7 samples written to {file.name}, the most doubtful first.\n")
    assert len(file.read_text().splitlines()) == (8 if ending == "csv" else 7)


def test_images_are_named_by_their_files(equipoise, image_run):
    found = inspect_run(image_run).ranking
    assert sorted(found["file"])[:2] == ["day/00.png", "day/01.png"]
    assert (found["file"].str.split("/").str[0] == found["label"]).all()
    assert equipoise("inspect", image_run).code == 0


def test_several_labels_are_judged_each(equipoise, several_run):
    found = inspect_run(several_run).ranking
    frame = pd.read_csv(several_run.parent / "several.csv")
    assert len(found) == 800
    given = [frame.loc[row, name] for row, name in zip(found["row"], found["attribute"], strict=True)]
    assert found["label"].tolist() == given
    assert "attribute" in equipoise("inspect", several_run).out


def test_an_earlier_run_and_a_stranger_are_one_sentence(equipoise, table_run, tmp_path):
    shutil.copytree(table_run, tmp_path / "old")
    (tmp_path / "old" / LABELS).write_bytes(b"PK\x03\x04 nothing")
    done = equipoise("inspect", "old")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert f"old/{LABELS} cannot be read" in done.err
    (tmp_path / "old" / LABELS).unlink()
    done = equipoise("inspect", "old")
    assert done.err.startswith("error: old has no judged labels: an earlier version wrote it, or its notes say why; ")
    assert "; train again with `equipoise train" in done.err
    (tmp_path / "empty").mkdir()
    done = equipoise("inspect", "empty")
    assert done.err == "error: empty is not a run; give a folder that `equipoise train` has written.\n"
    assert equipoise("inspect", table_run, "--out", "x.txt").err.startswith("error: x.txt must end in .csv")
