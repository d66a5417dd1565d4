"""What the files of a model and a run must look like: the words of JSON Schema known here, and what they refuse."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import InvalidInputError
from equipoise.storage.schema import EPOCH, KINDS, MODEL, OPTIONS, RUN, check, fits

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer"}, [0, -3, 10**30], [1.0, True, "1", None, [], {}]),
        ({"type": "number"}, [0, 0.5], [True, "1", None]),
        ({"type": "boolean"}, [True, False], [0, 1, None]),
        ({"type": ["string", "null"]}, ["", None], [0, False, []]),
        ({"type": "object"}, [{}], [[], None]),
        ({"enum": ["a", 1]}, ["a", 1], ["b", True, 1.0, None]),
        ({"type": "integer", "minimum": 2, "maximum": 4}, [2, 3, 4], [1, 5]),
        ({"type": "number", "minimum": 0}, [0, 1e300], [-1e-9, float("nan")]),
        ({"type": "string", "maxLength": 2}, ["", "ab"], ["abc"]),
        ({"type": "array", "items": {"type": "integer"}, "maxItems": 2}, [[], [1, 2]], [[1, 2, 3], [1, "2"]]),
        ({"type": "object", "required": ["a"]}, [{"a": None}, {"a": 1, "b": 2}], [{}, {"b": 1}]),
        ({"properties": {"a": {"type": "null"}}}, [{}, {"a": None}, {"b": 1}, 3], [{"a": 1}]),
    ],
)
def test_a_word_means_what_json_schema_says(schema, good, bad):
    assert [value for value in good if not fits(value, schema)] == []
    assert [value for value in bad if fits(value, schema)] == []


def test_the_first_wrong_place_is_named():
    record = {"options": {}, "classes": ["a", 7], "margins": "wide"}
    with pytest.raises(InvalidInputError, match=r"^x has no valid field 'classes\.1': text is expected, got a whole n"):
        check(record, RUN, "x", remedy="train again")
    with pytest.raises(InvalidInputError, match=r"^x is not as it should be: an object in braces is expected, got a l"):
        check([], RUN, "x", remedy="train again")
    with pytest.raises(InvalidInputError, match=r"'input\.kind': it is missing; train again\.$"):
        check({"options": {}, "input": {}}, RUN, "x", remedy="train again")


@given(value=JSON, schema=st.sampled_from([RUN, MODEL, OPTIONS, EPOCH]))
def test_any_json_fits_or_is_refused_in_one_line(value, schema):
    sentence = None
    try:
        check(value, schema, "the file", remedy="train again")
    except InvalidInputError as error:
        sentence = str(error)
    assert fits(value, schema) is (sentence is None)
    assert sentence is None or (sentence.startswith("the file ") and sentence.endswith("; train again."))
    assert sentence is None or "\n" not in sentence


def test_every_word_used_is_known():
    known = {"type", "enum", "minimum", "maximum", "maxLength", "items", "maxItems", "properties", "required"}

    def words(schema):
        assert set(schema) <= known, schema
        kinds = schema.get("type", [])
        assert {kinds} <= set(KINDS) if isinstance(kinds, str) else set(kinds) <= set(KINDS)
        for inner in (*schema.get("properties", {}).values(), *([schema["items"]] if "items" in schema else [])):
            words(inner)

    for schema in (RUN, MODEL, EPOCH):
        words(json.loads(json.dumps(schema)))  # plain JSON, for other programs to use


def test_options_are_all_described():
    from dataclasses import fields

    from equipoise.app.runs import TrainOptions

    assert set(OPTIONS["properties"]) == {field.name for field in fields(TrainOptions)}
    assert fits(TrainOptions("data.csv").as_dict(), OPTIONS)
