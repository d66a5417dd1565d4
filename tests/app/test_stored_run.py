"""A run's folder is read whole, or refused in one sentence."""

import json

import numpy as np
import pytest

from equipoise.app.output_files import one_line
from equipoise.app.run_folder import Gallery
from equipoise.app.stored_run import read_run
from equipoise.errors import InvalidInputError
from tests.app.report.runs import dump, made_up


def edit(path, **changes):
    dump(path, json.loads(path.read_text(encoding="utf-8")) | changes)


def test_everything_is_read(tmp_path):
    record = read_run(made_up(tmp_path / "seven", 7))
    assert len(record.classes) == 7
    assert record.groups == ("common",) * 3 + ("medium",) * 2 + ("rare",) * 2
    assert record.support.sum() == record.scores["samples"] == len(record.held_out.labels) == 900
    assert record.each("recall").shape == (7,)
    assert not np.array_equal(record.each("recall"), record.each("recall", before=True))
    assert [epoch["stage"] for epoch in record.epochs] == ["softmax"] * 3 + ["class"] * 3 + ["sample"] * 3
    assert (record.name, record.noun, record.nouns) == ("seven", "class", "classes")


def test_what_may_be_missing_is_none(tmp_path):
    folder = made_up(tmp_path, 3, before=None, class_uncertainty=None, margins=None, gallery=None)
    for name in ("held_out.npz", "metrics.jsonl"):
        (folder / name).unlink()
    record = read_run(folder)
    assert (record.held_out, record.before, record.uncertainty, record.margins) == (None,) * 4
    assert (record.epochs, record.gallery) == ([], Gallery())
    assert np.isnan(record.each("recall", before=True)).all()


def test_null_is_not_a_number(tmp_path):
    record = read_run(made_up(tmp_path, 3, margins=[1.0, None, float("inf")]))
    np.testing.assert_array_equal(record.margins, [1.0, np.nan, np.nan])


def test_a_line_cut_off_is_left_out(tmp_path):
    folder = made_up(tmp_path, 3)
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write('[]\n{"epoch": "first", "stage": "softmax"}\n{"epoch": 9, "sta')
    assert len(read_run(folder).epochs) == 9


def test_no_finished_run(tmp_path):
    with pytest.raises(InvalidInputError, match=r"must be the folder of a finished run.*equipoise train"):
        read_run(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train_counts": [1, 2]}, "train_counts .* one number for each of 3 classes"),
        ({"train_counts": [1, 2, -3]}, r"no valid field 'train_counts\[2\]': expected a whole number >= 0"),
        ({"train_counts": [1, 2, None]}, r"no valid field 'train_counts\[2\]': expected a whole number, got nothing"),
        ({"train_counts": "many"}, "no valid field 'train_counts': expected a list, got text"),
        ({"classes": "abc"}, "no valid field 'classes': expected a list, got text"),
        ({"classes": [1, 2, 3]}, r"no valid field 'classes\[0\]': expected text, got a whole number"),
        ({"classes": ["a", "b"]}, "names 2 classes and scores 3"),
        ({"margins": [1.0]}, "margins .* one number for each of 3 classes"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, changes, message):
    folder = made_up(tmp_path, 3)
    edit(folder / "run.json", **changes)
    with pytest.raises(InvalidInputError, match=message):
        read_run(folder)


@pytest.mark.parametrize(
    ("file", "changes", "message"),
    [
        ("scores.json", {"recall": {"mean": 1.5, "each": [1, 2]}}, "do not fit each other or the classes"),
        ("before_scores.json", {"f1": None}, "no valid field 'f1': expected an object in braces, got nothing"),
        ("scores.json", {"samples": "all"}, "no valid field 'samples': expected a whole number, got text"),
        ("scores.json", {"support": None}, "no valid field 'support': expected a list, got nothing"),
        ("scores.json", {"accuracy": "high"}, "no valid field 'accuracy': expected a number or nothing, got text"),
        (
            "scores.json",
            {"calibration": []},
            "no valid field 'calibration': expected an object in braces or nothing, got a list",
        ),
        ("scores.json", {"confusion": [[1]]}, "do not fit each other or the classes"),
    ],
)
def test_scores_that_do_not_fit_are_refused(tmp_path, file, changes, message):
    folder = made_up(tmp_path, 3)
    edit(folder / file, **changes)
    with pytest.raises(InvalidInputError, match=message):
        read_run(folder)


def test_an_older_record_is_refused(tmp_path):
    folder = made_up(tmp_path, 3)
    about = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    del about["train_counts"]
    dump(folder / "run.json", about)
    with pytest.raises(InvalidInputError, match=r"train_counts .* one number for each"):
        read_run(folder)


@pytest.mark.parametrize("content", ["", "[1]", "{", "[" * 100_000])
def test_a_damaged_file_is_refused(tmp_path, content):
    folder = made_up(tmp_path, 3)
    (folder / "scores.json").write_text(content, encoding="utf-8")
    with pytest.raises(InvalidInputError, match=r"scores.json (cannot be read|is invalid: expected an object)"):
        read_run(folder)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("labels", np.full(900, 3)),
        ("labels", np.full(900, -1)),
        ("predicted", np.zeros(5, dtype=np.int64)),
        ("before", np.full(900, 7)),
        ("probabilities", np.zeros((900, 4))),
        ("uncertainty", np.zeros((900, 1))),
        ("rows", np.arange(3)),
    ],
)
def test_answers_that_do_not_fit_are_refused(tmp_path, name, value):
    folder = made_up(tmp_path, 3)
    with np.load(folder / "held_out.npz") as file:
        arrays = dict(file)
    np.savez(folder / "held_out.npz", **(arrays | {name: value}))
    with pytest.raises(InvalidInputError, match="do not fit each other or the 3 classes"):
        read_run(folder)


class Trap:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return type(self.path).touch, (self.path,)


def test_a_pickle_is_not_opened(tmp_path):
    folder = made_up(tmp_path / "run", 3)
    with np.load(folder / "held_out.npz") as file:
        arrays = dict(file)
    np.savez(folder / "held_out.npz", **(arrays | {"rows": np.array([Trap(tmp_path / "ran")] * 900, dtype=object)}))
    with pytest.raises(InvalidInputError, match="damaged"):
        read_run(folder)
    assert not (tmp_path / "ran").exists()
    (folder / "held_out.npz").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(InvalidInputError, match="damaged"):
        read_run(folder)


def test_names_are_made_fit_for_a_page(tmp_path):
    names = ["a\nb\tc", "\u202eevil\x00", "x" * 1000]
    assert read_run(made_up(tmp_path, 3, names=names)).classes == ("a b c", "\ufffdevil\ufffd", "x" * 199 + "…")
    assert one_line("lone \ud800") == "lone \ufffd"
    assert one_line("non\xa0breaking, naïve 血管") == "non breaking, naïve 血管"
