"""Run folders that are damaged or contradict themselves: one sentence, and no word of Python in it."""

import json
import re
import shutil
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from equipoise.app.report import run_page as page
from equipoise.app.report import write_report
from equipoise.app.runs import RunModel
from equipoise.app.runs.predict import human_threshold
from equipoise.app.runs.run_options import read_config
from equipoise.app.stored_run import read_run
from equipoise.errors import EquipoiseError, InvalidInputError
from tests.app.runs import made
from tests.marks import mostly_slow

PYTHON = re.compile(
    r"NoneType|list indices|not subscriptable|' object|Error\b|Traceback|unhashable|numpy|dtype|\bint\b|\n"
)
DEEP = "[" * 100_000
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
SOME = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.fixture(autouse=True)
def _plain_pages(monkeypatch):
    made.plain_pictures(monkeypatch)  # strange values are to be drawn


@pytest.fixture(scope="session")
def spoilt(table_run, tmp_path_factory):
    """A copy of a run without what takes long to copy."""
    folder = tmp_path_factory.mktemp("spoilt") / "run"
    shutil.copytree(table_run, folder, ignore=shutil.ignore_patterns("checkpoints"))
    return folder


@pytest.fixture(autouse=True)
def _restored(spoilt, table_run):
    yield
    for path in spoilt.iterdir():
        shutil.copy(table_run / path.name, path)


def refused(call):
    """The sentence with which a call is refused; None where it goes through."""
    sentence = None
    try:
        call()
    except EquipoiseError as error:
        sentence = str(error)
    assert sentence is None or not PYTHON.search(sentence), sentence
    return sentence


def read_or_refused(call):
    """Whether a call goes through or is refused in plain words; any other error is raised as it is."""
    sentence = refused(call)
    return sentence is None or sentence.endswith(".")


def replaced(draw, value):
    """The same JSON value with something else at one place in it."""
    if isinstance(value, dict | list) and value and draw(st.integers(0, 3)):
        key = draw(st.sampled_from(sorted(value) if isinstance(value, dict) else range(len(value))))
        copy = dict(value) if isinstance(value, dict) else list(value)
        copy[key] = replaced(draw, value[key])
        return copy
    return draw(VALUES)


@pytest.mark.parametrize(
    "name", mostly_slow(["run.json", "scores.json", "before_scores.json", "gallery.json", "model.json"])
)
@given(data=st.data())
@SOME
def test_any_value_in_any_place_is_read_or_refused(spoilt, table_run, name, data):
    content = json.loads((table_run / name).read_text())
    (spoilt / name).write_text(json.dumps(replaced(data.draw, content)))
    if name != "model.json":
        assert read_or_refused(lambda: read_run(spoilt))
    if name in ("run.json", "model.json"):
        assert read_or_refused(lambda: RunModel.load(spoilt))
        assert read_or_refused(lambda: read_config(spoilt / "run.json"))


@given(
    content=st.binary(max_size=60), name=st.sampled_from(["metrics.jsonl", "held_out.npz", "run.json", "scores.json"])
)
@SOME
def test_any_bytes_are_read_or_refused(spoilt, table_run, content, name):
    shutil.copy(table_run / name, spoilt / name)
    (spoilt / name).write_bytes(content)
    assert read_or_refused(lambda: read_run(spoilt))
    assert read_or_refused(lambda: human_threshold(spoilt, 0.1))
    assert read_or_refused(lambda: RunModel.load(spoilt))
    shutil.copy(table_run / name, spoilt / name)


@given(place=st.floats(0, 1), byte=st.integers(0, 255))
@SOME
def test_one_changed_byte_in_the_answers(spoilt, table_run, place, byte):
    content = bytearray((table_run / "held_out.npz").read_bytes())
    content[int(place * (len(content) - 1))] = byte
    (spoilt / "held_out.npz").write_bytes(content)
    assert read_or_refused(lambda: read_run(spoilt))
    assert read_or_refused(lambda: human_threshold(spoilt, 0.1))


@pytest.mark.parametrize("name", ["run.json", "model.json", "scores.json", "gallery.json"])
def test_json_nested_without_end_is_refused(spoilt, name):
    (spoilt / name).write_text(DEEP)
    call = (lambda: read_run(spoilt)) if name != "model.json" else (lambda: RunModel.load(spoilt))
    assert "nested too deeply" in refused(call)
    if name == "run.json":
        assert "nested too deeply" in refused(lambda: RunModel.load(spoilt))
        assert "nested too deeply" in refused(lambda: read_config(spoilt / name))


def test_other_classes_in_the_record_than_in_the_model(spoilt):
    record = json.loads((spoilt / "run.json").read_text())
    record["classes"] = record["classes"][::-1]
    (spoilt / "run.json").write_text(json.dumps(record))
    with pytest.raises(InvalidInputError, match=r"run\.json names other classes than the model has; train again"):
        RunModel.load(spoilt)


def test_answers_of_another_number_of_samples(spoilt):
    with np.load(spoilt / "held_out.npz") as file:
        arrays = {name: values[1:] for name, values in file.items()}
    np.savez(spoilt / "held_out.npz", **arrays)
    number = len(arrays["labels"])
    with pytest.raises(
        InvalidInputError, match=rf"npz holds {number} samples, but scores\.json has {number + 1}; train"
    ):
        read_run(spoilt)


def test_nothing_of_an_epoch_in_the_metrics(spoilt):
    (spoilt / "metrics.jsonl").write_bytes(b"\xff\xfe rubbish\n[]\n" + DEEP.encode())
    with pytest.raises(
        InvalidInputError, match=r"metrics\.jsonl has no valid record of an epoch; delete it for a report"
    ):
        read_run(spoilt)
    (spoilt / "metrics.jsonl").unlink()
    assert read_run(spoilt).epochs == []


def test_words_are_no_probabilities(spoilt):
    with np.load(spoilt / "held_out.npz") as file:
        arrays = dict(file)
    np.savez(spoilt / "held_out.npz", **(arrays | {"probabilities": arrays["probabilities"].astype("U9")}))
    with pytest.raises(InvalidInputError, match="do not fit each other or the 10 classes"):
        read_run(spoilt)


def test_what_only_the_page_meets_is_one_sentence_too(spoilt, tmp_path, monkeypatch):
    monkeypatch.setattr(page, "SECTIONS", (lambda record: record.scores["nothing"][0],))
    sentence = refused(lambda: write_report(spoilt, tmp_path / "page.html"))
    assert sentence == f"{spoilt} is damaged, or its parts contradict each other; train again."
    assert not (tmp_path / "page.html").exists()


@pytest.mark.parametrize("header", [b"{'descr': (((((", b"{'descr': '<f8', 'fortran"])
def test_an_array_whose_header_breaks_off_is_refused(spoilt, header):
    with zipfile.ZipFile(spoilt / "held_out.npz", "w") as archive:
        archive.writestr("uncertainty.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    assert "damaged, or not arrays" in refused(lambda: human_threshold(spoilt, 0.1))
