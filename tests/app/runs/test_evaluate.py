"""A finished run on other labelled data."""

import json

import numpy as np
import pandas as pd
import pytest

from equipoise.app.runs import RunModel
from equipoise.app.runs.evaluate import evaluate_run
from equipoise.errors import InvalidInputError
from tests.app.runs.made import digits_frame, pictures


def test_on_its_own_held_out_rows_it_finds_its_own_scores(table_run, tmp_path):
    split = json.loads((table_run / "split.json").read_text())
    digits_frame().iloc[split["test"]].to_csv(tmp_path / "test.csv", index=False)
    found = evaluate_run(RunModel.load(table_run), str(tmp_path / "test.csv")).scores
    known = json.loads((table_run / "scores.json").read_text())
    assert found.confusion == tuple(tuple(row) if isinstance(row, tuple) else row for row in known["confusion"])
    assert found.balanced_accuracy == pytest.approx(known["balanced_accuracy"])
    assert found.group_recall == pytest.approx(known["group_recall"])


def test_classes_may_be_missing_but_not_new(table_run, tmp_path):
    frame = digits_frame()
    frame[frame["digit"].isin(["<digit> 0", "<digit> 1"])].to_csv(tmp_path / "two.csv", index=False)
    found = evaluate_run(RunModel.load(table_run), str(tmp_path / "two.csv")).scores
    assert found.support[:2] != (0, 0)
    assert found.support[2:] == (0,) * 8
    frame.loc[3, "digit"] = "ten"
    frame.to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(InvalidInputError, match="the data have classes that training has not seen: 'ten'; leave them"):
        evaluate_run(RunModel.load(table_run), str(tmp_path / "new.csv"))


def test_another_name_of_the_target(table_run, tmp_path):
    digits_frame().rename(columns={"digit": "truth"}).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InvalidInputError, match="has no column 'digit'"):
        evaluate_run(RunModel.load(table_run), str(tmp_path / "t.csv"))
    found = evaluate_run(RunModel.load(table_run), str(tmp_path / "t.csv"), target="truth").scores
    assert found.samples == len(digits_frame())


def test_images_in_folders_or_with_a_table_of_labels(image_run, tmp_path):
    model = RunModel.load(image_run)
    photos = pictures(tmp_path / "photos", {"night": 4, "day": 3}, side=50)
    found = evaluate_run(model, str(photos)).scores
    assert (found.samples, found.accuracy) == (7, 1.0)
    rows = [f"{name}/{place:02}.png,{name}" for name, count in (("night", 4), ("day", 3)) for place in range(count)]
    (tmp_path / "labels.csv").write_text("file,kind\n" + "\n".join(rows))
    assert evaluate_run(model, str(photos), target="kind", labels=tmp_path / "labels.csv").scores == found
    np.savez(tmp_path / "a.npz", images=np.full((2, 32, 32), [[[10]], [[220]]], np.uint8), labels=["night", "day"])
    assert evaluate_run(model, str(tmp_path / "a.npz")).scores.accuracy == 1.0


def test_several_labels(several_run):
    found = evaluate_run(RunModel.load(several_run), str(several_run.parent / "several.csv")).scores
    assert found.multilabel
    assert found.bca.mean > 0.8


def test_data_of_another_kind(table_run, image_run, several_run, tmp_path):
    photos = pictures(tmp_path / "photos", {"night": 2, "day": 2})
    np.savez(tmp_path / "i.npz", images=np.zeros((4, 32, 32), np.uint8), labels=["day", "night"] * 2)
    with pytest.raises(
        InvalidInputError, match=r"the run was trained on a table, and .*i\.npz holds images; give a table"
    ):
        evaluate_run(RunModel.load(table_run), str(tmp_path / "i.npz"))
    with pytest.raises(
        InvalidInputError, match=r"the run was trained on a table, and .*photos holds images; give a table"
    ):
        evaluate_run(RunModel.load(table_run), str(photos))
    pd.DataFrame({"a": [1, 2], "y": ["day", "night"]}).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(InvalidInputError, match=r"the run was trained on images, and .*t\.csv is a table; give images"):
        evaluate_run(RunModel.load(image_run), str(tmp_path / "t.csv"))
    with pytest.raises(InvalidInputError, match=r"the run predicts up, right with 0/1 each; .* has other labels"):
        evaluate_run(RunModel.load(several_run), str(several_run.parent / "several.csv"), target="up")
