"""Predictions for new data, in every format and from every source."""

import io
import json
import shutil
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import torch

from equipoise.app.output_files import format_of
from equipoise.app.runs import RunModel
from equipoise.app.runs import unlabelled_data as sources
from equipoise.app.runs.answer_table import rule_column, rule_of
from equipoise.app.runs.predict import human_threshold, predict_to
from equipoise.calibration.calibrated_probabilities import Calibrated
from equipoise.calibration.scaling import Scaling
from equipoise.errors import InvalidInputError
from tests.app.runs.made import digits_frame, pictures


def predict(run, source, out, *, kind="csv", threshold=0.3, force=False):
    told = []
    found = predict_to(
        RunModel.load(run), str(source), out, kind=kind, threshold=threshold, tell=told.append, force=force
    )
    return found.samples, told


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_every_format_holds_the_same(table_run, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(sources, "ROWS_AT_ONCE", 250)  # so that there are parts
    out = tmp_path / f"answers.{kind}"
    frame = digits_frame().drop(columns="digit")
    frame.to_csv(tmp_path / "new.csv", index=False)
    assert predict(table_run, tmp_path / "new.csv", out, kind=kind) == (len(frame), [])
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet, "jsonl": lambda path: pd.read_json(path, lines=True)}
    found = read[kind](out)
    model = RunModel.load(table_run)
    names = [f"p_{name}" for name in model.classes]
    assert list(found.columns) == ["row", "class", "rule", *names, "uncertainty", "human"]
    assert found["row"].tolist() == list(range(len(frame)))
    answered = model.predictions(frame)
    probabilities, uncertainty = answered.probabilities, answered.uncertainty
    np.testing.assert_allclose(found[names].to_numpy(), probabilities, atol=2e-6)
    np.testing.assert_allclose(found["uncertainty"], uncertainty, atol=2e-6)
    assert found["class"].tolist() == model.predict(frame)
    assert found["human"].tolist() == (uncertainty > 0.3).tolist()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_every_row_says_by_which_rule_it_was_decided_and_why_another_class_may_be_more_probable(table_run, tmp_path):
    digits_frame().to_csv(tmp_path / "new.csv", index=False)
    model = RunModel.load(table_run)
    predict(table_run, tmp_path / "new.csv", tmp_path / "a.jsonl", kind="jsonl")
    found = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    for row in found:
        likeliest = max(model.classes, key=lambda name: row[f"p_{name}"])
        why = "balanced" if likeliest == row["class"] else "balanced: most probable if all classes were equally common"
        assert row["rule"] == why
    assert {row["rule"] for row in found} == {"balanced", "balanced: most probable if all classes were equally common"}
    predict_to(
        model,
        str(tmp_path / "new.csv"),
        tmp_path / "b.csv",
        kind="csv",
        threshold=0.3,
        tell=print,
        prior=model.calibrated.prior.numpy(),
    )
    natural = pd.read_csv(tmp_path / "b.csv")
    assert set(natural["rule"]) == {"prior"}
    largest = natural[[f"p_{name}" for name in model.classes]].to_numpy().argmax(1)
    assert natural["class"].tolist() == [model.classes[place] for place in largest]


@pytest.mark.parametrize(
    ("prior", "aimed", "rule"),
    [
        ((0.9, 0.1), (0.5, 0.5), "balanced"),
        ((0.9, 0.1), (0.9, 0.1), "natural"),
        ((0.9, 0.1), (0.7, 0.3), "method"),
        ((0.5, 0.5), (0.5, 0.5), "balanced"),
    ],
)
def test_the_rule_is_that_of_the_class_mix_aimed_at(prior, aimed, rule):
    shares = (torch.tensor(part, dtype=torch.float64) for part in (prior, aimed))
    model = SimpleNamespace(calibrated=Calibrated(*shares, Scaling.identity((2,))), chosen=None)
    assert rule_of(model, None) == rule
    assert rule_of(model, np.array(prior)) == "prior"


def test_rules_of_several_labels_tell_where_any_is_decided_against_its_probability():
    p = np.array([[0.9, 0.2], [0.4, 0.2], [0.5, 0.7]], dtype=np.float32)
    found = np.array([[1, 0], [1, 0], [1, 1]])
    column = rule_column("balanced", p, found, np.array([True, True, True]))
    assert column.tolist() == ["balanced", "balanced: most probable if all classes were equally common", "balanced"]


@pytest.mark.parametrize("abstain", [None, 0.2])
def test_a_row_without_finite_probabilities_has_no_class_and_goes_to_a_human(table_run, tmp_path, abstain):
    digits_frame().iloc[:6].to_csv(tmp_path / "new.csv", index=False)
    model = RunModel.load(table_run)

    def overflows(_module, inputs, output):
        output = output.clone()
        output[2:4] = torch.inf if len(inputs[0]) == 6 else 0
        return output

    model.network.backbone.register_forward_hook(overflows)
    found = predict_to(
        model, str(tmp_path / "new.csv"), tmp_path / "a.csv", kind="csv", threshold=9.0, tell=print, abstain=abstain
    )
    rows = pd.read_csv(tmp_path / "a.csv")
    assert rows["human"].tolist() == [False, False, True, True, False, False]
    assert rows["class"].isna().tolist() == rows["human"].tolist()
    assert set(rows["rule"][2:4]) == {"none: the network gave no finite probabilities"}
    assert rows[["p_<digit> 0", "uncertainty"]].isna().any(axis=1).tolist() == rows["human"].tolist()
    assert found.human == 2
    with pytest.raises(InvalidInputError, match=r"non-finite values for 2 of 6 rows \(counted from 0: 2, 3\)"):
        model.predict(digits_frame().iloc[:6])
    if abstain is not None:
        assert rows["abstain"][2:4].all()
        assert found.abstained == int(rows["abstain"].sum())


def test_weights_that_are_not_finite_are_refused_before_anything_is_answered(table_run, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(table_run, copy, ignore=shutil.ignore_patterns("checkpoints"))
    tensors = safetensors.torch.load_file(copy / "model.safetensors")
    name = next(name for name in tensors if name.endswith("layers.0.weight"))
    tensors[name][0, 0] = torch.nan
    safetensors.torch.save_file(tensors, copy / "model.safetensors")
    with pytest.raises(
        InvalidInputError, match=r"model.safetensors holds NaN or infinity in 'backbone.1.layers.0.weight'"
    ):
        RunModel.load(copy)


@pytest.mark.slow
def test_parts_do_not_change_the_answers(table_run, tmp_path, monkeypatch):
    digits_frame().to_csv(tmp_path / "new.csv", index=False)
    predict(table_run, tmp_path / "new.csv", tmp_path / "whole.csv")
    monkeypatch.setattr(sources, "ROWS_AT_ONCE", 7)  # words such as 007 alone in a part would be numbers
    predict(table_run, tmp_path / "new.csv", tmp_path / "parts.csv")
    whole, parts = (pd.read_csv(tmp_path / name) for name in ("whole.csv", "parts.csv"))
    assert whole["class"].tolist() == parts["class"].tolist()
    np.testing.assert_allclose(parts["uncertainty"], whole["uncertainty"], atol=1e-5)


def test_parquet_and_npz_come_in_too(table_run, several_run, tmp_path):
    digits_frame().to_parquet(tmp_path / "new.parquet")
    assert predict(table_run, tmp_path / "new.parquet", tmp_path / "a.csv")[0] == len(digits_frame())
    np.savez(tmp_path / "new.npz", X=np.zeros((4, 3)))
    with pytest.raises(InvalidInputError, match="the table lacks 3 columns that the model was trained on: a, b, c"):
        predict(several_run, tmp_path / "new.npz", tmp_path / "b.csv")
    assert not (tmp_path / "b.csv").exists()
    np.savez(tmp_path / "cube.npz", X=np.zeros((4, 3, 2)))
    with pytest.raises(InvalidInputError, match=r"must hold rows and columns, got an array of shape \(4, 3, 2\)"):
        predict(several_run, tmp_path / "cube.npz", tmp_path / "b.csv")
    (tmp_path / "bad.npz").write_bytes(b"PK")
    with pytest.raises(InvalidInputError, match=r"bad\.npz is not a \.npz file of numbers"):
        predict(several_run, tmp_path / "bad.npz", tmp_path / "b.csv")


def test_several_labels_have_a_column_each(several_run, tmp_path):
    predict(several_run, several_run.parent / "several.csv", tmp_path / "a.csv")
    found = pd.read_csv(tmp_path / "a.csv")
    assert list(found.columns) == ["row", "is_up", "is_right", "rule", "p_up", "p_right", "uncertainty", "human"]
    frame = pd.read_csv(several_run.parent / "several.csv")
    np.testing.assert_array_equal(found[["is_up", "is_right"]], RunModel.load(several_run).predict(frame))


def test_standard_input_and_output(table_run, monkeypatch, capfdbinary):
    text = digits_frame().iloc[:5].to_csv(index=False).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    assert predict(table_run, "-", None, kind="jsonl")[0] == 5
    lines = [json.loads(line) for line in capfdbinary.readouterr().out.decode().splitlines()]
    assert [line["row"] for line in lines] == [0, 1, 2, 3, 4]


def test_nothing_on_standard_input_is_one_sentence(table_run, image_run, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    with pytest.raises(InvalidInputError, match="standard input is empty; a table starts with a line of column names"):
        predict(table_run, "-", None)
    with pytest.raises(InvalidInputError, match="standard input must be a table, and this run was trained on images"):
        predict(image_run, "-", None)


def test_a_folder_of_images_of_any_depth(image_run, tmp_path):
    inbox = pictures(tmp_path / "inbox", {"a/b": 2, "c": 1})
    (inbox / "loose.png").write_bytes((inbox / "c" / "00.png").read_bytes())
    (inbox / "broken.png").write_bytes(b"no image")
    (inbox / "empty.jpg").touch()
    (inbox / "notes.txt").write_text("x")
    count, told = predict(image_run, inbox, tmp_path / "a.csv")
    found = pd.read_csv(tmp_path / "a.csv")
    assert found["file"].tolist() == ["a/b/00.png", "a/b/01.png", "broken.png", "c/00.png", "empty.jpg", "loose.png"]
    assert count == 6
    assert [sentence.split(":")[0] for sentence in told] == [
        "no prediction for broken.png",
        "no prediction for empty.jpg",
    ]
    broken = found["file"].isin(["broken.png", "empty.jpg"])
    assert found.loc[broken, ["class", "p_day", "p_night", "uncertainty"]].isna().all(axis=None)
    assert found.loc[broken, "human"].all()
    good = found[~broken].reset_index()
    assert good["p_day"][2] == good["p_day"][3]
    assert good["class"].tolist() == ["night", "night", "day", "day"]  # by their brightness, not by their folder


def test_one_image_an_archive_and_an_array(image_run, tmp_path):
    photo = image_run.parent / "photos" / "day" / "03.png"
    predict(image_run, photo, tmp_path / "a.csv")
    assert pd.read_csv(tmp_path / "a.csv")["class"].tolist() == ["day"]
    import zipfile

    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:
        archive.write(photo, "x/03.png")
    predict(image_run, tmp_path / "p.zip", tmp_path / "b.csv")
    assert pd.read_csv(tmp_path / "b.csv")["file"].tolist() == ["x/03.png"]
    np.savez(tmp_path / "p.npz", images=np.full((2, 32, 32), 200, dtype=np.uint8))
    predict(image_run, tmp_path / "p.npz", tmp_path / "c.csv")
    found = pd.read_csv(tmp_path / "c.csv")
    assert (found["row"].tolist(), found["class"].tolist()) == ([0, 1], ["day", "day"])


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.zeros((2, 28, 28), np.uint8), "trained on uint8 images of 1 × 32 × 32, and .* holds 1 × 28 × 28; bring"),
        (np.zeros((2, 3, 32, 32), np.uint8), "holds 3 × 32 × 32; bring them to that size"),
        (np.zeros((2, 32, 32), np.float32), "trained on uint8 images of 1 × 32 × 32"),
    ],
)
def test_images_of_another_shape_are_refused(image_run, tmp_path, array, sentence):
    np.savez(tmp_path / "p.npz", images=array)
    with pytest.raises(InvalidInputError, match=sentence):
        predict(image_run, tmp_path / "p.npz", tmp_path / "a.csv")


def test_a_source_of_the_wrong_kind(table_run, image_run, tmp_path):
    (tmp_path / "nothing").mkdir()
    with pytest.raises(InvalidInputError, match=r"no images found in '.*nothing'; give a folder that holds some"):
        predict(image_run, tmp_path / "nothing", tmp_path / "a.csv")
    with pytest.raises(
        InvalidInputError, match=r"the run was trained on images, and .*csv is neither an image, a folder nor"
    ):
        predict(image_run, table_run.parent / "digits.csv", tmp_path / "a.csv")
    with pytest.raises(InvalidInputError, match="nothing is a folder; give the file of the table"):
        predict(table_run, tmp_path / "nothing", tmp_path / "a.csv")
    with pytest.raises(InvalidInputError, match=r"no such file or folder: 'gone.csv'; check the path"):
        predict(table_run, "gone.csv", tmp_path / "a.csv")
    assert not (tmp_path / "a.csv").exists()


def test_a_file_is_never_replaced_unless_asked(table_run, tmp_path):
    out, source = tmp_path / "a.csv", table_run.parent / "digits.csv"
    out.write_text("precious")
    with pytest.raises(InvalidInputError, match=r"a\.csv exists; pass --force to replace it, or name another file"):
        predict(table_run, source, out)
    assert out.read_text() == "precious"
    predict(table_run, source, out, force=True)
    assert out.read_text().startswith("row,class,")
    with pytest.raises(InvalidInputError, match="is a folder; name a file"):
        predict(table_run, source, tmp_path, force=True)
    with pytest.raises(InvalidInputError, match=r"a\.csv cannot be written; name a file in a folder that exists"):
        predict(table_run, source, tmp_path / "gone" / "a.csv")


def test_a_table_that_goes_wrong_half_way_leaves_no_file(table_run, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "ROWS_AT_ONCE", 100)
    frame = digits_frame()
    frame["pixel 9"] = frame["pixel 9"].astype(object)
    frame.loc[400:, "pixel 9"] = "smudge"
    frame.to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(InvalidInputError, match="the column 'pixel 9' held numbers in training but now holds 'smudge'"):
        predict(table_run, tmp_path / "new.csv", tmp_path / "a.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.csv"]


def test_the_share_for_a_human_is_that_of_the_held_out_samples(table_run):
    with np.load(table_run / "held_out.npz") as stored:
        known = stored["uncertainty"]
    for share in (0.05, 0.1, 0.5):
        assert (known > human_threshold(table_run, share)).sum() == int(share * len(known) + 1e-9)
    assert not (known > human_threshold(table_run, 0)).any()
    assert (known > human_threshold(table_run, 1)).all()


def test_the_threshold_needs_the_held_out_samples(tmp_path):
    with pytest.raises(InvalidInputError, match=r"held_out\.npz cannot be read .*; pass --human 0, or train again"):
        human_threshold(tmp_path, 0.1)
    assert human_threshold(tmp_path, 0) == np.inf
    np.savez(tmp_path / "held_out.npz", uncertainty=np.array([np.nan]))
    with pytest.raises(InvalidInputError, match="holds no uncertainties of held-out samples; pass --human 0"):
        human_threshold(tmp_path, 0.1)
    np.savez(tmp_path / "held_out.npz", uncertainty=np.array([{}], dtype=object))
    with pytest.raises(InvalidInputError, match="cannot be read"):
        human_threshold(tmp_path, 0.1)
    with pytest.raises(InvalidInputError, match=r"--human must be a share from 0 to 1, got 1.5"):
        human_threshold(tmp_path, 1.5)


def test_the_format_follows_the_name(tmp_path):
    assert format_of(tmp_path / "a.CSV", None) == "csv"
    assert format_of(tmp_path / "a.pq", None) == "parquet"
    assert format_of(tmp_path / "a.ndjson", None) == "jsonl"
    assert format_of(tmp_path / "a.txt", "jsonl") == "jsonl"
    assert format_of(None, None) == "csv"
    with pytest.raises(InvalidInputError, match=r"a\.txt must end in \.csv, \.parquet, \.pq, .* or add --format"):
        format_of(tmp_path / "a.txt", None)
    with pytest.raises(InvalidInputError, match="--format must be one of csv, jsonl, parquet, got 'xml'"):
        format_of(None, "xml")
    with pytest.raises(InvalidInputError, match="Parquet cannot be printed; name a file with --out"):
        format_of(None, "parquet")


@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_a_broken_image_has_a_row_in_every_format(image_run, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(sources, "IMAGES_AT_ONCE", 2)  # the first part has no image that can be read
    inbox = pictures(tmp_path / "inbox", {"x": 3})
    for name in ("a.png", "b.png"):
        (inbox / name).write_bytes(b"no image")
    out = tmp_path / f"answers.{kind}"
    predict(image_run, inbox, out, kind=kind, threshold=np.inf)
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet, "jsonl": lambda path: pd.read_json(path, lines=True)}
    found = read[kind](out)
    assert found["file"].tolist() == ["a.png", "b.png", "x/00.png", "x/01.png", "x/02.png"]
    assert found["class"].isna().tolist() == found["human"].tolist() == [True, True, False, False, False]


def test_a_folder_of_broken_images_is_one_sentence(image_run, tmp_path, monkeypatch, capfdbinary):
    monkeypatch.setattr(sources, "IMAGES_AT_ONCE", 2)
    for place in range(5):
        (tmp_path / f"{place}.png").write_bytes(b"no image")
    for out in (tmp_path / "a.csv", None):
        with pytest.raises(
            InvalidInputError, match=r"none of the 5 images in .* can be read, the first, 0\.png: .*; che"
        ):
            predict(image_run, tmp_path, out)
    assert not (tmp_path / "a.csv").exists()
    assert capfdbinary.readouterr().out == b""


def test_a_value_that_cannot_be_read_is_for_a_human(table_run, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "ROWS_AT_ONCE", 10)
    frame = digits_frame().iloc[:30].astype({"pixel 9": object, "pixel 10": object})
    frame.loc[3, "pixel 9"] = "smudge"
    frame.loc[17, ["pixel 9", "pixel 10"]] = ["smudge", "blot"]
    frame.loc[5, "pixel 10"] = None  # missing, and nothing else
    frame.to_csv(tmp_path / "new.csv", index=False)
    model = RunModel.load(table_run)
    found = predict_to(model, str(tmp_path / "new.csv"), tmp_path / "a.csv", kind="csv", threshold=np.inf, tell=print)
    assert np.flatnonzero(pd.read_csv(tmp_path / "a.csv")["human"]).tolist() == [3, 17]
    assert (found.samples, found.broken, found.human) == (30, 0, 2)
    assert found.unread_values == {"pixel 9": 2, "pixel 10": 1}


@pytest.mark.parametrize("form", ["parquet", "csv.gz"])
def test_standard_input_may_be_packed(table_run, tmp_path, monkeypatch, form):
    frame, path = digits_frame().iloc[:5], tmp_path / f"t.{form}"
    frame.to_parquet(path) if form == "parquet" else frame.to_csv(path, index=False)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    assert predict(table_run, "-", tmp_path / "a.csv")[0] == 5
    assert pd.read_csv(tmp_path / "a.csv")["class"].tolist() == RunModel.load(table_run).predict(frame)


@pytest.mark.parametrize(
    "content", [b"PAR1 cut off", b"PK\x03\x04 cut off", b"\x1f\x8b cut off", b"\x00\xff\x00", b"a,b\n1\n"]
)
def test_no_name_of_ours_is_in_a_sentence(table_run, tmp_path, monkeypatch, content):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    with pytest.raises(InvalidInputError) as caught:
        predict(table_run, "-", tmp_path / "a.csv")
    assert "equipoise-" not in str(caught.value)
    assert str(caught.value).count("\n") == 0
