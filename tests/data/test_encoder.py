"""Columns as numbers: learnt once, the same for every later table, and safe to read from a stranger's file."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from equipoise import BalancedClassifier
from equipoise.data.columns.guess_kind import MOST_LEVELS
from equipoise.data.encoder import TableEncoder
from equipoise.data.tables.read_table import iterate_table, read_table
from equipoise.errors import InvalidInputError, InvalidStateError

TABLE = pd.DataFrame(
    {
        "age": [31.0, None, 54.0, 40.0],
        "town": ["Oslo", "Rome", "Oslo", "Rome"],
        "member": [True, False, True, True],
        "joined": pd.to_datetime(["1970-01-02", "1970-01-11", "2020-02-29", "1970-01-02 12:00"], format="ISO8601"),
    }
)


def column(values, name="a", index=None):
    return pd.DataFrame({name: values}, index=index)


def learnt(values, name="a"):
    return TableEncoder().fit(pd.DataFrame({name: values, "other": range(0, 10 * len(values), 10)}))


def encoded(encoder, values, name="a"):
    """The outputs of one column, without those of the column beside it."""
    table = pd.DataFrame({name: values, "other": 0})
    return encoder.transform(table)[:, :-1].tolist()


def test_each_kind_of_column():
    encoder = TableEncoder().fit(TABLE)
    assert encoder.column_names_ == ["age", "age=(missing)", "town=Oslo", "town=Rome", "member", "joined"]
    matrix = encoder.transform(TABLE)
    assert matrix.dtype == np.float32
    assert matrix.flags["C_CONTIGUOUS"]
    assert matrix.tolist() == [
        [31, 0, 1, 0, 1, 1],
        [40, 1, 0, 1, 0, 10],
        [54, 0, 1, 0, 1, 18321],
        [40, 0, 0, 1, 1, 1.5],
    ]
    assert encoder.notes_ == [
        "age: 1 missing value filled with the median 40.",
        "joined: dates, read as days since 1970-01-01.",
    ]
    assert encoder.text_columns == ["town", "joined"]


def test_order_of_columns_and_further_columns_do_not_matter():
    encoder = TableEncoder().fit(TABLE)
    other = TABLE[["joined", "member", "age", "town"]].assign(extra=1)
    assert np.array_equal(encoder.transform(other), encoder.transform(TABLE))
    shuffled = TABLE.set_index(pd.Index([7, 7, 3, 1]))
    assert np.array_equal(encoder.transform(shuffled), encoder.transform(TABLE))


def test_a_column_that_is_not_there_is_named():
    with pytest.raises(
        InvalidInputError, match="lacks 2 columns that the model was trained on: town, joined; add what is missing"
    ):
        TableEncoder().fit(TABLE).transform(TABLE[["age", "member"]])


def test_an_array_lacks_the_names_of_a_frame():
    with pytest.raises(
        InvalidInputError, match="got an array; pass a data frame with these columns: age, town, member, joined"
    ):
        TableEncoder().fit(TABLE[["age", "town", "member", "joined"]]).transform(np.zeros((3, 4)))
    numbered = TableEncoder().fit(np.eye(4)[[0, 1, 2, 3, 0]])
    with pytest.raises(InvalidInputError, match="X has 3 features, but TableEncoder is expecting 4 features"):
        numbered.transform(np.eye(3))


def test_an_estimator_has_the_notes_of_its_encoder():
    rows = np.arange(60)
    frame = pd.DataFrame({"key": [f"K{i}" for i in rows], "age": np.where(rows == 7, np.inf, rows % 9), "town": "Oslo"})
    fitted = BalancedClassifier(LogisticRegression()).fit(frame, rows % 2)
    assert fitted.encoder_.notes_ == [
        "key: ignored, it looks like an identifier (60 different values in 60 rows).",
        "age: 1 infinite value treated as missing.",
        "age: 1 missing value filled with the median 4.",
        "town: ignored, it is 'Oslo' in every row.",
    ]


def test_the_table_is_left_as_it_was():
    before = TABLE.copy(deep=True)
    TableEncoder().fit(TABLE).transform(TABLE)
    pd.testing.assert_frame_equal(TABLE, before)


# --- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        [1, 5, 3],
        [1.0, 5.0, 3.0],
        ["1", " 5 ", "3e0"],
        pd.Series([1, 5, 3], dtype="Int64"),
        pd.Series([1, 5, 3], dtype="uint8"),
        pd.Series([1, 5, 3], dtype="Float32"),
        pd.Series([1, "5", 3.0], dtype=object),
        pd.to_timedelta([1, 5, 3], unit="D"),
    ],
)
def test_what_holds_numbers_becomes_numbers(values):
    encoder = learnt(values)
    assert encoder.column_names_ == ["a", "other"]
    assert encoded(encoder, values) == [[1], [5], [3]]


@pytest.mark.parametrize("values", [[True, False, None], pd.array([True, False, None], dtype="boolean")])
def test_truth_values_may_be_missing(values):
    encoder = learnt(values)
    assert encoded(encoder, values) == [[1, 0], [0, 0], [0.5, 1]]


def test_missing_numbers_become_the_median_of_the_training_values():
    encoder = learnt([1.0, 2.0, 30.0, None, None])
    assert encoded(encoder, [None, 5.0]) == [[2, 1], [5, 0]]
    assert encoder.notes_ == ["a: 2 missing values filled with the median 2."]
    assert encoded(encoder, ["", "7"]) == [[2, 1], [7, 0]]


def test_few_missing_numbers_get_no_column_of_their_own():
    values = np.arange(200) ** 2.0
    assert learnt(np.where(np.arange(200) < 1, np.nan, values)).column_names_ == ["a", "other"]
    assert learnt(np.where(np.arange(200) < 2, np.nan, values)).column_names_ == ["a", "a=(missing)", "other"]


def test_a_number_first_missing_in_prediction_becomes_the_median():
    assert encoded(learnt([1, 2, 30]), [None, 4]) == [[2], [4]]


def test_infinite_numbers_are_taken_as_missing_and_said():
    encoder = learnt([1.0, 3.0, np.inf, -np.inf, 1e300, np.nan])
    assert encoder.notes_ == [
        "a: 3 infinite values treated as missing.",
        "a: 4 missing values filled with the median 2.",
    ]
    assert encoded(encoder, [np.inf, "-inf", "1e39", 5]) == [[2, 1], [2, 1], [2, 1], [5, 0]]
    assert encoded(learnt([1e300, 3e300, np.inf, 2e300]), [1e300, 1e39]) == [[1e300, 0], [1e39, 0]]


def test_float64_is_used_where_a_column_needs_it_and_survives_json():
    for values, kind in (
        ([0.1, 0.2, 7.3], np.float32),
        ([1.7e12, 1.7e12 + 5], np.float64),
        ([1e-40, 2e-40], np.float64),
    ):
        again = TableEncoder.from_json(json.loads(json.dumps(learnt(values).to_json())))
        assert again.transform(pd.DataFrame({"a": values, "other": 0})).dtype == kind
    earlier = learnt([0.1, 0.2, 7.3]).to_json()
    del earlier["columns"][0]["wide"]
    assert TableEncoder.from_json(earlier).dtype is np.float32


# --- categories -----------------------------------------------------------------------------------------------------


def test_unseen_and_missing_categories():
    without = learnt(["u", "v", "u", "v"])
    assert without.column_names_ == ["a=u", "a=v", "other"]
    assert encoded(without, ["v", "w", None]) == [[0, 1], [0, 0], [0, 0]]
    both = learnt(["u", "v", "u", "v", None, "once"])
    assert both.column_names_ == ["a=u", "a=v", "a=(other)", "a=(missing)", "other"]
    assert encoded(both, ["v", "w", None, "once"]) == [[0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0, 0, 1, 0]]
    assert both.notes_ == [
        "a: 1 rare category of 3 merged into one.",
        "a: 1 missing value treated as a category of its own.",
    ]
    assert encoded(both, [" ", "", float("nan")]) == [[0, 0, 0, 1]] * 3, "empty text is missing"
    rare = learnt(["u", "v", "u", "v", "once"])
    assert encoded(rare, [None]) == [[0, 0, 1]], "missing for the first time: like a category never seen"


def test_beyond_fifty_the_most_frequent_categories_stay():
    values = [f"v{i:02}" for i in range(60) for _ in range(2 if i < 30 else 4)]
    encoder = learnt(values)
    kept = [f"a=v{i:02}" for i in range(60) if i >= 30 or i < MOST_LEVELS - 30]
    assert encoder.column_names_ == [*kept, "a=(other)", "other"]
    assert encoder.notes_ == ["a: 10 rare categories of 60 merged into one."]


def test_categories_are_the_same_however_they_are_typed():
    encoder = learnt(["1", "2", "x", "1", "2", "x"])
    assert encoder.column_names_ == ["a=1", "a=2", "a=x", "other"]
    for values in ([1, 2], [1.0, 2.0], ["1 ", " 2"], pd.Categorical([1, 2]), pd.array([1, 2], dtype="Int64")):
        assert encoded(encoder, values) == [[1, 0, 0], [0, 1, 0]]


def test_a_pandas_category_of_numbers_stays_a_category():
    encoder = learnt(pd.Categorical([10, 20, 10, 20]))
    assert encoder.column_names_ == ["a=10", "a=20", "other"]
    assert encoded(encoder, [20.0]) == [[0, 1]]


def test_words_may_hold_anything():
    values = ["<b>x</b>", "a=b", "(missing)", "naïve ☃"] * 2
    encoder = learnt(values)
    assert np.array_equal(np.array(encoded(encoder, sorted(values[:4]))), np.eye(4))


# --- dates ----------------------------------------------------------------------------------------------------------


def test_dates_as_text_and_in_time_zones():
    encoder = learnt(["1970-01-02", "1970-01-03T12:00:00", None, "1970-01-11 00:00"])
    assert encoder.columns_[0].kind == "date"
    assert encoded(encoder, ["1970-01-02", None]) == [[1, 0], [2.5, 1]]
    zoned = pd.to_datetime(["1970-01-02 02:00+02:00", "1970-01-05 00:00+00:00"], utc=True).tz_convert("Asia/Tokyo")
    assert encoded(encoder, zoned) == [[1, 0], [4, 0]]
    assert encoded(encoder, ["1970-01-02", "soon"]) == [[1, 0], [2.5, 1]]
    with pytest.raises(
        InvalidInputError, match="the column 'a' held dates in training but now holds 'soon' and others"
    ):
        encoder.transform(pd.DataFrame({"a": ["soon", "later", "never", "1970-01-02", None, "1970-01-02"], "other": 0}))


@pytest.mark.skipif(pd.__version__ < "3", reason="pandas 2 reads dates in nanoseconds")
def test_dates_beyond_the_range_of_nanoseconds():
    encoder = learnt(pd.Series(["0001-01-01", "9999-12-31"]))
    assert encoded(encoder, ["1970-01-01", "9999-12-31"]) == [[0], [2932896]]


def test_what_only_looks_like_a_date_is_a_category():
    assert learnt(["2020-13-45", "2020-13-46"] * 2).columns_[0].kind == "category"


# --- columns left out -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "note"),
    [
        ([None] * 30, "a: ignored, it has no value."),
        ([np.inf] * 30, "a: ignored, it has no finite value."),
        ([3.5] * 30, "a: ignored, it is 3.5 in every row."),
        (["x"] * 30, "a: ignored, it is 'x' in every row."),
        (list(range(1, 31)), "a: ignored, it looks like an identifier."),
        (list(range(30)), "a: ignored, it looks like an identifier."),
        ([f"name {i}" for i in range(30)], "a: ignored, it looks like an identifier (30 different values in 30 rows)."),
        (
            [f"name {i % 21}" for i in range(30)],
            "a: ignored, it looks like an identifier (21 different values in 30 rows).",
        ),
    ],
)
def test_columns_that_tell_nothing_are_left_out_and_said(values, note):
    encoder = learnt(values)
    assert encoder.column_names_ == ["other"]
    assert encoder.notes_ == [note]


@pytest.mark.parametrize("name", ["id", "PassengerId", "patient_id", "ID", "Unnamed: 0", "unnamed 1", "record key"])
def test_numbers_all_different_under_the_name_of_an_identifier(name):
    assert learnt([17, 5, 90, 33], name).column_names_ == ["other"]
    assert learnt([17, 5, 90, 90], name).column_names_ == [name, "other"]
    assert learnt([17.5, 5, 90, 33], name).column_names_ == [name, "other"]


@pytest.mark.parametrize("name", ["price", "humid", "column 1", "grid", "paid", "width"])
def test_numbers_all_different_under_another_name_stay(name):
    assert learnt([17, 5, 90, 33], name).column_names_ == [name, "other"]


def test_numbers_that_count_from_elsewhere_or_backwards_stay():
    for values in (range(2, 32), range(30, 0, -1), range(0, 60, 2), range(19)):
        assert learnt(list(values)).column_names_ == ["a", "other"]


def test_a_value_that_is_constant_where_it_is_known_tells_by_being_there():
    encoder = learnt([1.0, None, 1.0, None])
    assert encoded(encoder, [1.0, None]) == [[1, 0], [1, 1]]
    assert encoded(learnt(["x", None, "x", None]), ["x", None]) == [[1, 0], [0, 1]]


def test_more_values_than_half_of_the_rows_name_the_rows():
    assert learnt([f"v{i % 22}" for i in range(44)]).column_names_[-2:] == ["a=v9", "other"]
    assert learnt([f"v{i % 22}" for i in range(43)]).column_names_ == ["other"]
    assert learnt([f"v{i % 20}" for i in range(30)]).column_names_ != ["other"], "so few may stand for themselves"


def test_a_constant_with_hardly_a_value_missing_is_left_out():
    for values, word in (([7.0] * 199 + [None], "7"), ([0.5] * 500 + [None] * 5, "0.5")):
        encoder = learnt(values)
        assert encoder.column_names_ == ["other"]
        assert encoder.notes_ == [f"a: ignored, it is {word} in every row."]


def test_nothing_left_is_an_error_that_says_why():
    with pytest.raises(InvalidInputError, match="no column is left to learn from: a: ignored, it is 1 in every row"):
        TableEncoder().fit(column([1, 1, 1]))
    with pytest.raises(InvalidInputError, match="no column is left to learn from: the table has none"):
        TableEncoder().fit(pd.DataFrame(index=range(3)))
    with pytest.raises(InvalidInputError, match="the table must have rows to learn from, got none"):
        TableEncoder().fit(pd.DataFrame({"a": []}))


# --- arrays and names -----------------------------------------------------------------------------------------------


def test_arrays_have_numbered_columns():
    x = np.array([[1.0, 7.0], [2.0, 9.0], [4.0, 8.0]])
    encoder = TableEncoder().fit(x)
    assert encoder.column_names_ == ["column 1", "column 2"]
    assert np.array_equal(encoder.transform(x), x)
    with pytest.raises(InvalidInputError, match=r"a table must have rows and columns, got an array of shape \(3,\)"):
        encoder.transform(x[:, 0])


def test_names_are_text_and_differ():
    encoder = TableEncoder().fit(pd.DataFrame({0: [1, 3], "b": [1, 2]}))
    assert encoder.column_names_ == ["0", "b"]
    with pytest.raises(InvalidInputError, match="more than one column named '0'"):
        TableEncoder().fit(pd.DataFrame([[1, 2]], columns=[0, "0"]))


def test_before_fit_there_is_nothing_to_encode():
    for use in (lambda e: e.transform(TABLE), lambda e: e.column_names_, lambda e: e.to_json()):
        with pytest.raises(InvalidStateError, match="is not fitted yet; call fit first"):
            use(TableEncoder())
    with pytest.raises(NotFittedError):
        TableEncoder().transform(TABLE)
    assert "transform" in dir(TableEncoder())  # which asks for every property
    assert not hasattr(TableEncoder(), "dtype")


def test_it_is_a_transformer_of_scikit_learn():
    labels = ["a", "b"] * (len(TABLE) // 2) + ["a"] * (len(TABLE) % 2)
    pipeline = clone(make_pipeline(TableEncoder().set_output(transform="pandas"), LogisticRegression()))
    assert len(pipeline.fit(TABLE, labels).predict(TABLE)) == len(TABLE)
    encoded = pipeline[0].transform(TABLE)
    assert list(encoded.columns) == pipeline[0].column_names_
    assert np.array_equal(encoded.to_numpy(), TableEncoder().fit_transform(TABLE))


OWN_WORDS = {
    "check_estimators_empty_data_messages": "its message says that no column is left",
    "check_fit2d_1sample": "its message says that every column is constant",
}


@parametrize_with_checks([TableEncoder()], expected_failed_checks=lambda _: OWN_WORDS)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def test_an_array_with_further_columns_is_refused():
    encoder = TableEncoder().fit(np.arange(20.0).reshape(10, 2) ** 2)
    with pytest.raises(InvalidInputError, match="X has 3 features, but TableEncoder is expecting 2 features as input"):
        encoder.transform(np.zeros((4, 3)))


def test_a_fit_that_fails_leaves_the_last_one():
    encoder = TableEncoder().fit(TABLE)
    with pytest.raises(InvalidInputError, match="no column is left"):
        encoder.fit(column([1, 1]))
    assert len(encoder.column_names_) == 6


# --- any table ------------------------------------------------------------------------------------------------------

kinds = st.one_of(
    st.lists(st.one_of(st.none(), st.floats(width=64)), min_size=6, max_size=6),
    st.lists(st.one_of(st.none(), st.integers(-(2**70), 2**70)), min_size=6, max_size=6),
    st.lists(st.one_of(st.none(), st.booleans()), min_size=6, max_size=6),
    st.lists(st.one_of(st.none(), st.text(max_size=3)), min_size=6, max_size=6),
    st.lists(st.one_of(st.none(), st.datetimes()), min_size=6, max_size=6),
    st.lists(st.one_of(st.none(), st.floats(), st.text(max_size=2), st.booleans()), min_size=6, max_size=6),
    st.lists(st.sampled_from(["1", "2.0", "nan", "", "inf", "2020-01-01"]), min_size=6, max_size=6),
)


@settings(max_examples=30)
@given(st.lists(kinds, min_size=1, max_size=3))
def test_any_table_becomes_finite_numbers_and_the_record_does_the_same(columns):
    table = pd.DataFrame({f"c{i}": pd.Series(values, dtype=object) for i, values in enumerate(columns)})
    table["number"] = [3, 1, 4, 1, 5, 9]
    encoder = TableEncoder().fit(table)
    matrix = encoder.transform(table)
    assert matrix.shape == (6, len(encoder.column_names_))
    assert np.isfinite(matrix).all()
    again = TableEncoder.from_json(json.loads(json.dumps(encoder.to_json(), allow_nan=False)))
    assert np.array_equal(again.transform(table), matrix)
    assert again.column_names_ == encoder.column_names_
    rows = [again.transform(table.iloc[[i]]) for i in (0, 5)]
    assert np.array_equal(np.concatenate(rows), matrix[[0, 5]]), "a row does not depend on its neighbours"


# --- a stranger's file ----------------------------------------------------------------------------------------------


def test_the_record_is_plain_json():
    record = TableEncoder().fit(TABLE).to_json()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert TableEncoder.from_json(record).notes_ == record["notes"]


@pytest.mark.parametrize("record", [None, [], {}, {"format": 2, "columns": []}, {"format": 1, "columns": "abc"}])
def test_what_is_no_record_is_refused(record):
    with pytest.raises(InvalidInputError, match=r"the table encoding .*; train the model again"):
        TableEncoder.from_json(record)


@pytest.mark.parametrize(
    "change",
    [
        {"name": 3},
        {"kind": "code"},
        {"kind": ["number"]},
        {"fill": "0"},
        {"fill": float("nan")},
        {"fill": 10**400},
        {"fill": True},
        {"indicator": 1},
        {"other": None},
        {"levels": "abc"},
        {"levels": [1]},
        {"levels": ["a", "a"]},
        {"kind": "date", "levels": ["a"]},
        {"other": True},
        {"kind": "text"},
        {"text": {"words": ["a"], "characters": [], "weights": "AACAPw==", "components": "ADw=", "dimensions": 1}},
        {"kind": "category"},
        {"kind": "category", "levels": ["a", "a"]},
    ],
)
def test_a_wrong_value_in_a_record_is_refused(change):
    record = TableEncoder().fit(column([1.0, 2.0, 4.0])).to_json()
    record["columns"][0].update(change)
    sentence = r"the table encoding has (no valid field 'columns\[0\]\.|the column 'a' with values that contradict)"
    with pytest.raises(InvalidInputError, match=sentence):
        TableEncoder.from_json(record)


def test_a_record_with_other_fields_or_columns_is_refused():
    record = TableEncoder().fit(column([1.0, 2.0, 4.0])).to_json()
    for wrong in ([3], [{}], [record["columns"][0] | {"run": "me"}]):
        with pytest.raises(InvalidInputError, match=r"the table encoding has no valid field 'columns\[0\]"):
            TableEncoder.from_json(record | {"columns": wrong})
    for wrong in ({"columns": []}, {"columns": record["columns"] * 2}, {"notes": "abc"}, {"notes": [1]}):
        with pytest.raises(InvalidInputError, match=r"has no valid field '(columns|notes)|has the column 'a' twice"):
            TableEncoder.from_json(record | wrong)


# --- files ----------------------------------------------------------------------------------------------------------


def test_a_file_in_parts_is_encoded_like_the_whole(tmp_path):
    lines = [f"{i % 5},{'x' if i == 99 else f'0{i % 3}'},{'' if i % 10 == 1 else i % 4},{i % 2}" for i in range(100)]
    path = tmp_path / "t.csv"
    path.write_text("number,code,some,y\n" + "\n".join(lines) + "\n")
    samples = read_table(path)
    encoder = TableEncoder().fit(samples.x)
    assert "code=00" in encoder.column_names_
    parts = [encoder.transform(part) for part in iterate_table(path, rows=7, text=encoder.text_columns)]
    assert np.array_equal(np.concatenate(parts), encoder.transform(samples.x))


def test_the_skin_lesions_metadata():
    path = Path(os.environ.get("EQUIPOISE_DATA", "")) / "ham10000" / "metadata.csv"
    if not path.exists():
        pytest.skip("EQUIPOISE_DATA names no folder with ham10000")
    encoder = TableEncoder().fit(read_table(path, target="dx").x)
    assert encoder.notes_ == [
        "lesion_id: ignored, it looks like an identifier (5879 different values in 7017 rows).",
        "image_id: ignored, it looks like an identifier (7017 different values in 7017 rows).",
        "age: 26 missing values filled with the median 50.",
    ]
    assert sum(name.startswith("localization=") for name in encoder.column_names_) == 15
