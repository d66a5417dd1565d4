"""Finished fits survive kills, full lines and wrong hands."""

import json

import pytest

from equipoise.app.compare import Fit, ResultStore
from equipoise.app.run_folder import versions
from equipoise.errors import InvalidInputError, InvalidStateError

FIRST, SECOND = Fit("digits", "smote", 0), Fit("digits", "smote", 0, 1)


def open_store(path, *, data="1a2b", folds=3):
    return ResultStore(path, data={"digits": data}, settings={"folds": folds})


def fill(path):
    with open_store(path) as store:
        store.add(FIRST, {"scores": {"accuracy": 0.5}})
        store.add(SECOND, {"cannot_run": "too few."})


def test_records_come_back(tmp_path):
    path = tmp_path / "new" / "fits.jsonl"
    fill(path)
    with open_store(path) as store:
        assert FIRST in store
        assert Fit("digits", "smote", 1) not in store
        assert store[FIRST]["scores"] == {"accuracy": 0.5}
        assert [record["fold"] for record in store.records] == [0, 1]
        assert len(store.records[0]["code"]) == 16
    header = json.loads(path.read_text().splitlines()[0])
    assert header == {"format": 1, "data": {"digits": "1a2b"}, "settings": {"folds": 3}, "versions": versions()}
    assert {"torch", "imbalanced-learn", "python"} <= header["versions"].keys()


@pytest.mark.parametrize("cut", [1, 10, 40])
def test_a_torn_last_line_is_dropped_and_the_file_goes_on(tmp_path, cut):
    path = tmp_path / "fits.jsonl"
    fill(path)
    path.write_bytes(path.read_bytes()[:-cut])
    with open_store(path) as store:
        assert FIRST in store
        assert SECOND not in store
        store.add(SECOND, {"scores": {}})
    with open_store(path) as store:
        assert len(store) == 2
    assert len(path.read_text().splitlines()) == 3


def test_a_last_line_of_zeros_is_dropped(tmp_path):
    """What some file systems leave of a line when the power goes."""
    path = tmp_path / "fits.jsonl"
    fill(path)
    with path.open("ab") as file:
        file.write(b"\0" * 50 + b"\n")
    with open_store(path) as store:
        assert len(store) == 2
        store.add(Fit("digits", "smote", 7), {})
    with open_store(path) as store:
        assert len(store) == 3


def test_a_damaged_line_in_the_middle_is_an_error(tmp_path):
    path = tmp_path / "fits.jsonl"
    fill(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + b"{oops\n" + lines[2])
    before = path.read_bytes()
    with pytest.raises(InvalidInputError, match=r"line 2 of .* is damaged"), open_store(path):
        pass
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("changed", "says"),
    [({"data": "ffff"}, "data digits = '1a2b', and now it is 'ffff'"), ({"folds": 5}, "settings folds = 3")],
)
def test_other_data_and_settings_are_refused(tmp_path, changed, says):
    path = tmp_path / "fits.jsonl"
    fill(path)
    with pytest.raises(InvalidInputError, match=says), open_store(path, **changed):
        pass


def test_new_data_join_the_file_and_old_ones_stay(tmp_path):
    path = tmp_path / "fits.jsonl"
    fill(path)
    with ResultStore(path, data={"digits": "1a2b", "faces": "3c4d"}, settings={"folds": 3}) as store:
        assert FIRST in store
        store.add(Fit("faces", "smote", 0), {"scores": {}})
        with pytest.raises(InvalidStateError, match="in use by another process"), open_store(path):
            pass
    with open_store(path) as store:  # the new data may be gone again
        assert len(store) == 3
        assert store.header["data"] == {"digits": "1a2b", "faces": "3c4d"}
    with (
        pytest.raises(InvalidInputError, match="data faces = '3c4d', and now it is 'ffff'"),
        ResultStore(path, data={"faces": "ffff"}, settings={"folds": 3}),
    ):
        pass
    assert path.read_text().count("\n") == 4


def test_other_versions_are_refused(tmp_path):
    path = tmp_path / "fits.jsonl"
    fill(path)
    torch = versions()["torch"]
    path.write_text(path.read_text().replace(f'"torch": "{torch}"', '"torch": "1.0"'))
    with pytest.raises(InvalidInputError, match=r"versions torch = '1.0'.*must not be mixed"), open_store(path):
        pass


@pytest.mark.parametrize("content", [b"", b"hello\n", b"[1]\n", b'{"format": 99}\n'])
def test_a_foreign_file_is_left_alone(tmp_path, content):
    path = tmp_path / "fits.jsonl"
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"is not a file of results of format 1|is damaged"), open_store(path):
        pass
    assert path.read_bytes() == content


def test_a_line_that_is_no_result_is_an_error(tmp_path):
    path = tmp_path / "fits.jsonl"
    fill(path)
    with path.open("a") as file:
        file.write('{"method": "smote"}\n')
    with pytest.raises(InvalidInputError, match="holds a line that is not a result"), open_store(path):
        pass


def test_one_process_at_a_time(tmp_path):
    path = tmp_path / "fits.jsonl"
    with open_store(path), pytest.raises(InvalidStateError, match="in use by another process"), open_store(path):
        pass


def test_a_cell_is_added_once_and_only_to_an_open_store(tmp_path):
    store = open_store(tmp_path / "fits.jsonl")
    with pytest.raises(InvalidStateError, match="is not open"):
        store.add(FIRST, {})
    with store:
        store.add(FIRST, {})
        with pytest.raises(InvalidStateError, match="must not be run twice"):
            store.add(FIRST, {})


def test_a_score_that_is_no_number_never_reaches_the_file(tmp_path):
    path = tmp_path / "fits.jsonl"
    with open_store(path) as store, pytest.raises(ValueError, match="not JSON compliant"):
        store.add(FIRST, {"scores": {"accuracy": float("nan")}})
    with open_store(path) as store:
        assert len(store) == 0
