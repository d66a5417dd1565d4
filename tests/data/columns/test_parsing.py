"""Numbers and dates as people write them, a word among them, and forms nobody can know."""

import json
from datetime import date, timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.data.columns.notation import DATES, NUMBERS, plain
from equipoise.data.encoder import TableEncoder
from equipoise.data.tables.read_table import iterate_table, read_table
from equipoise.errors import InvalidInputError

FLOATS = [f"{i * i / 8 + 0.125}" for i in range(200)]


def learnt(values, name="a"):
    return TableEncoder().fit(pd.DataFrame({name: values, "other": range(0, 10 * len(values), 10)}))


def encoded(encoder, values, name="a"):
    return encoder.transform(pd.DataFrame({name: values, "other": 0}))[:, :-1]


# --- a word among numbers -------------------------------------------------------------------------------------------


def test_a_word_in_a_column_of_numbers_is_a_missing_value():
    values = [*FLOATS, "low", "n.d."]
    encoder = learnt(values)
    assert encoder.column_names_ == ["a", "other"]
    assert encoder.notes_ == [
        "a: 2 values that are not numbers ('low', 'n.d.') treated as missing.",
        "a: 2 missing values filled with the median 1237.69.",
    ]
    assert encoded(encoder, values)[:, 0].tolist() == [*map(float, FLOATS), 1237.6875, 1237.6875]
    unread = encoder.encode(pd.DataFrame({"a": values, "other": 0})).unread
    assert {name: np.flatnonzero(rows).tolist() for name, rows in unread.items()} == {"a": [200, 201]}


@pytest.mark.parametrize(("words", "kind"), [(["low"] * 2, "number"), (["low", "high", "none"], "category")])
def test_one_in_a_hundred_may_be_a_word(words, kind):
    values = [f"{i % 7}.5" for i in range(198)] + words
    assert learnt(values).columns_[0].kind == kind


def test_few_values_may_have_no_word_among_them():
    assert learnt([f"{i % 4}.5" for i in range(17)] + ["low", "low"]).columns_[0].kind == "category"
    assert learnt([f"{i % 4}.5" for i in range(100)] + ["low"]).columns_[0].kind == "number"


def test_answers_among_numbers_have_columns_of_their_own():
    values = [str(i % 11) for i in range(44)] + ["refused"] * 10 + ["don't know"] * 2 + [None]
    encoder = learnt(values)
    assert encoder.column_names_ == ["a", "a=don't know", "a=refused", "a=(missing)", "other"]
    assert encoder.notes_ == [
        "a: numbers; \"don't know\", 'refused' in 12 rows marked in columns of their own.",
        "a: 1 missing value filled with the median 5.",
    ]
    found = encoded(encoder, ["7", "refused", "don't know", None, "never"])
    assert found.tolist() == [[7, 0, 0, 0], [5, 0, 1, 0], [5, 1, 0, 0], [5, 0, 0, 1], [5, 0, 0, 1]]
    unread = encoder.encode(pd.DataFrame({"a": ["7", "refused", "never"], "other": 0})).unread
    assert unread["a"].tolist() == [False, False, True]


@pytest.mark.parametrize(
    "words", [["a", "a", "b", "b", "c", "c", "d", "d"], ["low", "low", "high"], ["3+", "3+"], ["no"] * 50]
)
def test_other_words_among_numbers_make_a_category(words):
    assert learnt([str(i % 11) for i in range(44)] + words).columns_[0].kind == "category"
    assert learnt([str(i % 2) for i in range(44)] + ["no"] * 4).columns_[0].kind == "category"


def test_codes_that_begin_with_zeros_are_names():
    assert learnt([f"0{i % 4}" for i in range(200)] + ["A1"]).columns_[0].kind == "category"
    assert learnt([f"{i % 14:02}" for i in range(200)] + ["A1"]).columns_[0].kind == "category"
    assert learnt([f"0{i % 4}" for i in range(200)]).columns_[0].kind == "category"
    assert learnt([f"0{i % 14}" for i in range(200)]).columns_[0].kind == "number"  # 09 and 010: of two lengths


def test_many_kinds_of_words_are_not_all_listed():
    values = [f"{i / 4}" for i in range(1000)] + list("pqrst")
    assert "a: 5 values that are not numbers ('p', 'q', 'r', …) treated as missing." in learnt(values).notes_


def test_a_word_met_later_is_missing_and_counted():
    encoder = learnt([1, 2, 4])
    assert encoded(encoder, ["1", "many", "few"]).tolist() == [[1], [2], [2]]
    assert encoded(encoder, ["many"]).tolist() == [[2]]
    assert encoder.encode(pd.DataFrame({"a": ["1", "many"], "other": 0})).unread["a"].tolist() == [False, True]
    assert encoder.encode(pd.DataFrame({"a": ["1", None], "other": 0})).unread == {}


def test_a_column_of_words_where_numbers_were_is_refused():
    encoder = learnt([1, 2, 4])
    with pytest.raises(
        InvalidInputError,
        match=r"the column 'a' held numbers in training but now holds 'many' and others that are not, 3 of 5; correct",
    ):
        encoded(encoder, ["1", "many", "few", "some", "2", None])
    assert encoded(encoder, ["1", "many", "few", "3"])[:, 0].tolist() == [1, 2, 2, 3]
    assert encoded(encoder, ["1", "many", "few", "3", "some", "1"])[:, 0].tolist() == [1, 2, 2, 3, 2, 1]


def test_a_word_among_dates_is_missing_too():
    days = [str(date(2020, 1, 1) + timedelta(days=3 * i)) for i in range(200)]
    encoder = learnt([*days, "soon"])
    assert encoder.notes_[:2] == [
        "a: dates, read as days since 1970-01-01.",
        "a: 1 value that is not a date ('soon') treated as missing.",
    ]
    assert encoded(encoder, ["1970-01-03", "later"]).tolist() == [[2], [encoder.columns_[0].fill]]


def test_a_table_with_a_word_among_its_numbers_trains_from_its_file(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "".join(f"{value},{i % 2}\n" for i, value in enumerate([*FLOATS, "low"])))
    x = read_table(path).x
    encoder = TableEncoder().fit(x)
    assert encoder.column_names_ == ["a"]
    parts = [encoder.transform(part) for part in iterate_table(path, rows=9, text=encoder.text_columns)]
    assert np.array_equal(np.concatenate(parts), encoder.transform(x))


# --- forms of numbers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "numbers", "note"),
    [
        (
            ["1,234.50", "999", "12,345,678"],
            [1234.5, 999, 12345678],
            "a comma between the thousands, such as '1,234.50'",
        ),
        (["1,234", "-56,789", " 7 "], [1234, -56789, 7], "a comma between the thousands, such as '1,234'"),
        (["1.234,50", "999", "0,5"], [1234.5, 999, 0.5], "a decimal comma, such as '1.234,50'"),
        (["0,125", "1,250", "-3"], [0.125, 1.25, -3], "a decimal comma, such as '0,125'"),
        (["1,5", "1.000,25", "2e3"], [1.5, 1000.25, 2000], "a decimal comma, such as '1,5'"),
    ],
)
def test_commas_in_numbers(values, numbers, note):
    encoder = learnt(values)
    assert encoder.notes_ == [f"a: numbers with {note}."]
    assert encoded(encoder, values)[:, 0].tolist() == np.float32(numbers).tolist()
    assert encoded(encoder, [2.5])[0, 0] == 2.5, "what is a number already has no form"
    assert encoder.text_columns == ["a"], "1.234 is to be read as it stands"
    again = TableEncoder.from_json(json.loads(json.dumps(encoder.to_json())))
    assert np.array_equal(encoded(again, values), encoded(encoder, values))


def test_odd_spaces_around_a_number_are_no_comma():
    values = ["0.5", "\u2028\x85-0.67", "1.5"]  # more kinds of space than the parser of numbers knows
    encoder = learnt(values)
    assert encoder.notes_ == []
    assert encoder.columns_[0].notation == ""
    assert encoded(encoder, values)[:, 0].tolist() == np.float32([0.5, -0.67, 1.5]).tolist()


@pytest.mark.parametrize("values", [["1,234.5", "1.234,5"], ["1,23,456", "1,5.5"], ["1,2", "x"]])
def test_commas_that_fit_no_form_make_categories(values):
    assert learnt(values * 2).columns_[0].kind == "category"


@given(st.lists(st.floats(-1e9, 1e9).map(lambda number: round(number, 2)), min_size=3, max_size=20, unique=True))
def test_every_number_comes_back_from_its_form(numbers):
    text = [f"{number:,.2f}" for number in numbers]
    german = [word.translate(str.maketrans(",.", ".,")) for word in text]
    assert [float(plain(word, "1,234.5")) for word in text] == numbers
    assert [float(plain(word, "1.234,5")) for word in german] == numbers
    assert plain("5 kg", "1,234.5") is None
    assert plain(7.5, "1.234,5") == 7.5


# --- forms of dates -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "form"),
    [
        ("%d.%m.%Y", "day.month.year"),
        ("%d/%m/%Y", "day/month/year"),
        ("%m/%d/%Y", "month/day/year"),
        ("%d-%m-%Y", "day/month/year"),
        ("%Y/%m/%d", "year/month/day"),
        ("%d.%m.%Y %H:%M", "day.month.year"),
        ("%m/%d/%Y 9:05:30", "month/day/year"),
    ],
)
def test_dates_by_day_or_month(pattern, form):
    days = [date(2019, 12, 20) + timedelta(days=i) for i in range(60)]
    values = [day.strftime(pattern) for day in days]
    encoder = learnt(values)
    assert encoder.notes_ == [f"a: dates as {form}, read as days since 1970-01-01."]
    expected = np.array([(day - date(1970, 1, 1)).days for day in days])
    assert np.array_equal(np.floor(encoded(encoder, values)[:, 0]), expected)
    short = values[20].replace("0", "", 1) if values[20].startswith("0") else values[20]
    assert np.floor(encoded(encoder, [short])[0, 0]) == expected[20]
    again = TableEncoder.from_json(encoder.to_json())
    assert np.array_equal(encoded(again, values), encoded(encoder, values))


def test_a_time_of_day_is_part_of_the_date():
    encoder = learnt(["2.1.1970 12:00", "31.01.1970 6:00:00", "13.1.1970"])
    assert encoded(encoder, ["2.1.1970 12:00", "31.01.1970 6:00:00"])[:, 0].tolist() == [1.5, 30.25]


def test_days_and_months_that_may_be_either_are_not_guessed():
    values = [f"{day:02}/{month:02}/{year}" for day in range(1, 13) for month in range(1, 13) for year in (2020, 2021)]
    encoder = learnt(values)
    assert encoder.notes_ == [
        "a: ignored, it holds numbers or dates in an unknown notation, such as '01/01/2020'; write 1234.5 or "
        "2020-01-31 (288 different values in 288 rows)."
    ]
    assert learnt([*values, "13/01/2020"]).columns_[0].notation == "day/month/year"
    assert learnt([*values, "01/13/2020"]).columns_[0].notation == "month/day/year"


def test_days_that_do_not_exist_are_no_dates():
    assert learnt(["30.02.2020", "31.02.2020"] * 2).columns_[0].kind == "category"


# --- unknown notations ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["{} kg", "{} May 2020", "Mar {}, 2021", "{}:30", "{}/7", "€ {},-"])
def test_numbers_in_an_unknown_notation_are_called_so(shape):
    encoder = learnt([shape.format(i) for i in range(10, 40)])
    assert encoder.column_names_ == ["other"]
    assert "holds numbers or dates in an unknown notation, such as" in encoder.notes_[0]


@pytest.mark.parametrize("shape", ["HAM_{}", "name {}", "{} Street", "ab{}cd", "x{}"])
def test_names_are_still_called_names(shape):
    encoder = learnt([shape.format(i) for i in range(10, 40)])
    assert encoder.notes_ == ["a: ignored, it looks like an identifier (30 different values in 30 rows)."]


@pytest.mark.parametrize("text", [True, False])
def test_numbers_too_large_to_be_told_apart(text):
    values = [10**30 + i for i in range(30)]
    encoder = learnt([str(value) for value in values] if text else pd.Series(values, dtype=object))
    assert encoder.notes_ == [
        "a: ignored, its 30 different values are too large to be distinguished, all about 1e+30 in every row."
    ]
    assert learnt(["1", "1.0", "1e0"] * 10).notes_ == ["a: ignored, it is 1 in every row."]
    assert learnt([1e30] * 30).notes_ == ["a: ignored, it is 1e+30 in every row."]


# --- a stranger's file ----------------------------------------------------------------------------------------------


def test_a_record_of_before_there_were_forms_is_read():
    record = learnt([1.0, 2.0, 4.0]).to_json()
    for column in record["columns"]:
        assert column.pop("form") == ""
    assert encoded(TableEncoder.from_json(record), [5]).tolist() == [[5]]


@pytest.mark.parametrize(
    ("values", "form"),
    [([1.0, 2.0], "day.month.year"), ([1.0, 2.0], "other"), ([1.0, 2.0], 3), (["u", "v"] * 2, "1,234.5")],
)
def test_a_form_that_is_none_of_the_kind_is_refused(values, form):
    record = learnt(values).to_json()
    record["columns"][0]["form"] = form
    with pytest.raises(
        InvalidInputError, match=r"the table encoding has (no valid field 'columns\[0\]\.form|the column 'a' )"
    ):
        TableEncoder.from_json(record)


@given(st.text(max_size=12), st.sampled_from([*NUMBERS, *DATES]))
def test_any_text_is_read_or_not(text, form):
    found = plain(text, form)
    assert found is None or isinstance(found, str)
    if found is not None and form in NUMBERS:
        assert isinstance(float(found), float)  # what is called a number is one
