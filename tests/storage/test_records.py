"""JSON is decoded into what is declared, or refused in one sentence without a word of Python's."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.app.run_folder import Gallery, RunRecord
from equipoise.errors import InvalidInputError
from equipoise.estimators.network_files import ModelRecord
from equipoise.storage.records import as_record, read_json

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
KNOWN = st.fixed_dictionaries({"options": st.just({})}, optional=dict.fromkeys(RunRecord.__struct_fields__[1:], JSON))


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ([], "is invalid: expected an object in braces, got a list"),
        ({}, "has no valid field 'options': it is missing"),
        ({"options": []}, "has no valid field 'options': expected an object in braces, got a list"),
        ({"options": {}, "classes": ["a", 7]}, r"has no valid field 'classes[1]': expected text, got a whole number"),
        ({"options": {}, "margins": "wide"}, "has no valid field 'margins': expected a list or nothing, got text"),
        ({"options": {}, "train_counts": [-1]}, "has no valid field 'train_counts[0]': expected a whole number >= 0"),
        ({"options": {}, "train_counts": [True]}, "'train_counts[0]': expected a whole number, got true or false"),
        ({"options": {}, "seconds": 10**400}, "has no valid field 'seconds': number out of range"),
        ({"options": {}, "input": {}}, "has no valid field 'input.kind': it is missing"),
        ({"options": {}, "input": {"kind": "pick\nle"}}, "'input.kind': not one of the allowed values"),
        ({"options": {}, "classes": ["x" * 10_001]}, "'classes[0]': expected text of length <= 10000"),
    ],
)
def test_the_first_wrong_place_is_named(value, sentence):
    with pytest.raises(InvalidInputError, match=rf"^x .*{re.escape(sentence)}; train again\.$"):
        as_record(value, RunRecord, "x", remedy="train again")


def test_what_is_not_declared_is_ignored_and_what_may_be_missing_has_a_default():
    found = as_record({"options": {"new": 1}, "later": [2]}, RunRecord, "x", remedy="train again")
    assert found == RunRecord(options={"new": 1})
    assert as_record({}, Gallery, "x", remedy="train again") == Gallery()


@given(value=JSON | KNOWN, kind=st.sampled_from([RunRecord, ModelRecord, Gallery]))
def test_any_json_fits_or_is_refused_in_one_line(value, kind):
    try:
        assert isinstance(as_record(value, kind, "the file", remedy="train again"), kind)
    except InvalidInputError as error:
        sentence = str(error)
        assert sentence.startswith("the file ")
        assert sentence.endswith("; train again.")
        assert not re.search(r"\n|\b(int|str|float|bool|object)\b(?! in braces)", sentence)


@pytest.mark.parametrize(
    ("content", "reason"),
    [("{", "cannot be read"), ("[" * 100_000, "nested too deeply"), ('{"a": ' + "[]" * 2, "cannot be read")],
)
def test_a_file_that_is_no_json_is_refused(tmp_path, content, reason):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(InvalidInputError, match=r"x\.json cannot be read.*; train again\.$") as caught:
        read_json(tmp_path / "x.json", RunRecord, remedy="train again")
    assert reason in str(caught.value)


def test_a_file_larger_than_allowed_is_not_read(tmp_path):
    (tmp_path / "x.json").write_text(json.dumps({"options": {}}))
    assert read_json(tmp_path / "x.json", RunRecord, remedy="train again") == RunRecord(options={})
    with pytest.raises(InvalidInputError, match="more than the limit of 3"):
        read_json(tmp_path / "x.json", RunRecord, remedy="train again", most_bytes=3)


def test_half_a_character_in_a_name_that_is_looked_up_is_refused():
    with pytest.raises(InvalidInputError, match=r"run\.json holds half of a character \('\\ud800'\); train again\."):
        as_record({"\ud800": 1, "options": {}}, RunRecord, "run.json", remedy="train again")
