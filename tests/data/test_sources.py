"""One door for tables, image folders and known sets: groups kept apart, and no option without an effect."""

import numpy as np
import pandas as pd
import pytest

from equipoise.data.sources import NAMED_SETS, open_data
from equipoise.errors import InvalidInputError
from equipoise.paper.sets import DATASETS, find_set
from tests.paper.sets.layouts import orl, write_image


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path_factory):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(autouse=True)
def _known_sets(monkeypatch):
    for name in DATASETS:
        monkeypatch.setitem(NAMED_SETS, name, find_set)


def table(folder, column):
    path = folder / "table.csv"
    frame = pd.DataFrame({"patient": column, "age": np.arange(len(column)) * 7 % 5, "label": list("ab") * 3})
    frame.to_csv(path, index=False)
    return path


# --- groups ---------------------------------------------------------------------------------------------------------


def test_groups_have_their_whole_names_though_one_is_missing(tmp_path):
    samples = open_data(table(tmp_path, ["p10", "p2", None, "p10", "p11", None]), group="patient")
    assert samples.groups[[0, 1, 3, 4]].tolist() == ["p10", "p2", "p10", "p11"]
    assert len(set(samples.groups.tolist())) == 5, "a row without a group is a group of its own"
    assert samples.notes == ("2 of 6 rows have no value in the group column 'patient': each is a group of its own.",)
    assert list(samples.x) == ["age"]


def test_groups_may_be_numbers(tmp_path):
    samples = open_data(table(tmp_path, [10, 2, 10, None, 2, 2]), group="patient")
    assert samples.groups[[0, 1, 2, 4, 5]].tolist() == ["10", "2", "10", "2", "2"]
    whole = open_data(table(tmp_path, [10, 2, 10, 3, 2, 2]), group="patient")
    assert whole.groups.tolist() == ["10", "2", "10", "3", "2", "2"]
    assert whole.notes == ()


def test_a_group_of_blanks_is_none(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('g,a,y\np1,1,u\n" ",2,v\n" ",4,u\n')
    assert len(set(open_data(path, group="g").groups.tolist())) == 3


def test_a_group_must_be_a_column(tmp_path):
    with pytest.raises(
        InvalidInputError,
        match="group must be a column of the table other than the target, got 'who'; there are patient, age",
    ):
        open_data(table(tmp_path, list("uvwxyz")), group="who")
    np.savez(tmp_path / "t.npz", X=np.zeros((2, 2)), y=[0, 1])
    with pytest.raises(
        InvalidInputError, match="group must be a column name, got 'who' for an array without names; give a CSV"
    ):
        open_data(tmp_path / "t.npz", group="who")


# --- options without an effect --------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["target", "labels", "group"])
def test_a_known_set_has_labels_of_its_own(option, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        InvalidInputError, match=f"orl is a named set with its own labels, so {option} does not apply; leave"
    ):
        open_data("orl", **{option: "x"})


@pytest.mark.parametrize(("option", "value"), [("labels", "l.csv"), ("size", 32), ("channels", 1)])
def test_a_table_has_no_images(option, value, tmp_path):
    path = table(tmp_path, list("uvwxyz"))
    with pytest.raises(
        InvalidInputError,
        match=rf"table\.csv is a file, not a folder of images, so {option} does not apply; leave",
    ):
        open_data(path, **{option: value})


def test_labels_of_an_npz_file_are_not_chosen_by_another_name(tmp_path):
    np.savez(tmp_path / "t.npz", X=np.zeros((3, 2)), y=[0, 1, 1])
    with pytest.raises(InvalidInputError, match=r"t\.npz has no labels named 'sick'; .* in y: leave target out"):
        open_data(tmp_path / "t.npz", target="sick")
    assert open_data(tmp_path / "t.npz", target="y").y.tolist() == [0, 1, 1]


# --- images ---------------------------------------------------------------------------------------------------------


def test_what_is_nowhere_is_one_sentence():
    with pytest.raises(InvalidInputError, match=r"no such file or folder: 'nothing'; give a table, .* mnist"):
        open_data("nothing")


@pytest.mark.parametrize("size", [12, (12, 12)])
def test_folders_of_images_come_at_the_size_asked_for(tmp_path, size):
    for number, name in enumerate(["cat", "cat", "dog", "dog"]):
        write_image(tmp_path / "pets" / name / f"{number}.png")
    samples = open_data(tmp_path / "pets", size=size, channels=1)
    assert samples.x.shape == (4, 1, 12, 12)
    assert samples.y.tolist() == ["cat", "cat", "dog", "dog"]


def test_a_broken_file_of_a_known_set_is_left_out_and_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EQUIPOISE_DATA", str(tmp_path))
    orl(tmp_path / "orl")
    bad = tmp_path / "orl" / "s1" / "1.pgm"
    bad.write_bytes(bad.read_bytes()[:200])
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with pytest.raises(InvalidInputError, match=r"1 of 9 image files cannot be read, .*s1/1\.pgm"):
        open_data("orl")
    monkeypatch.setattr("equipoise.data.images.check.TOLERATED", 0.5)
    samples = open_data("orl")
    assert len(samples) == 8
    assert any("1 of 9 image files cannot be read; left out: 's1/1.pgm'" in note for note in samples.notes)
    assert samples.x[list(range(8))].shape == (8, 1, 112, 92), "nothing that is left stops the training"
