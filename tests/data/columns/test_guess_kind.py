"""The kind of each column, and why."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from equipoise.data import open_data
from equipoise.data.columns.guess_kind import guess_kind
from equipoise.data.encoder import TableEncoder
from equipoise.data.tables.read_table import iterate_table
from equipoise.errors import InvalidInputError

NOTES = [f"customer {i} called about {'a late parcel' if i % 3 else 'the wrong bill'} again" for i in range(60)]


@pytest.mark.parametrize(
    ("values", "kind", "reason"),
    [
        ([1.0, 2.5, 3.0], "number", "its values are numbers"),
        ([f"{i}.5" for i in range(200)] + ["low"], "number", "all but 1 of its values are numbers"),
        (["1,234.50 €", "8.00 €", "(3.10 €)"], "number", "its values are numbers, written like '1,234.50 €'"),
        (["7", "8%", "9%"], "number", "its values are numbers, written like '8%'"),
        ([*"0123456789", "refused"] * 4, "number", "its values are numbers, besides the answer 'refused'"),
        (["2020-01-31", "2021-05-01", "2020-01-31"], "date", "its values are dates"),
        (["31.01.2020", "01.05.2021", "02.05.2021"], "date", "its values are dates, written as day.month.year"),
        (["a", "b", "a"], "category", "2 different values"),
        (NOTES, "text", "60 different texts of 6 words on average"),
        (
            [f"AX-{i:05}" for i in range(60)],
            "identifier",
            "it looks like an identifier (60 different values in 60 rows)",
        ),
        (list(range(1, 61)), "identifier", "it looks like an identifier"),
        ([7] * 60, "constant", "it is 7 in every row"),
        (["x"] * 60, "constant", "it is 'x' in every row"),
        (["x" * 9000] * 60, "constant", f"it is '{'x' * 60}…' in every row"),
        ([None] * 60, "constant", "it has no value"),
        ([np.inf, np.inf, None], "constant", "it has no finite value"),
    ],
)
def test_each_kind_with_its_reason(values, kind, reason):
    found = guess_kind(pd.Series(values), "a")
    assert (found.kind, found.reason) == (kind, reason)


@pytest.mark.parametrize(
    "values",
    [
        ["very happy with the service"] * 30 + ["not happy with the service"] * 30,  # answers to choose from
        pd.Series(NOTES, dtype="category"),
    ],
)
def test_texts_that_come_back_are_categories(values):
    assert guess_kind(pd.Series(values), "a").kind != "text"


@pytest.mark.parametrize(
    "values",
    [
        [f"Braund, {'Mr.' if i % 2 else 'Miss'} Owen {i}" for i in range(60)],
        [f"これは{i}番目の問い合わせです" for i in range(60)],
        NOTES[:3],
    ],
)
def test_names_and_scripts_without_spaces_are_text(values):
    assert guess_kind(pd.Series(values), "a").kind == "text"


def test_numbers_of_rows_are_known_in_a_part_of_them_too():
    part = np.sort(np.random.default_rng(0).permutation(400)[:320])
    assert guess_kind(pd.Series(70_001 + part), "ticket").kind == "identifier"
    assert guess_kind(pd.Series(70_001 + 3 * part), "ticket").kind == "number"
    assert guess_kind(pd.Series(np.random.default_rng(1).permutation(70_001 + part)), "ticket").kind == "number"
    assert guess_kind(pd.Series(range(1990, 2030)), "year").kind == "number"


LONG = [10_000_000_000_000_000 + 7_919 * i for i in range(60)]


@pytest.mark.parametrize("values", [LONG, [str(value) for value in LONG]])
def test_identifiers_of_seventeen_digits(values):
    assert guess_kind(pd.Series(values), "account").kind == "identifier"


@pytest.mark.parametrize("values", [LONG, [str(value) for value in LONG]])
@pytest.mark.parametrize("more", [[LONG[0]], [LONG[0], None]])
def test_identifiers_that_come_back_or_are_missing(values, more):
    column = pd.Series([*values, *(type(values[0])(each) if each else None for each in more)], dtype=object)
    found = guess_kind(column, "account")
    assert (found.kind, found.reason) == ("identifier", "it looks like an identifier (60 different values in 61 rows)")


def test_long_identifiers_differ_in_digits_that_floats_lack():
    assert guess_kind(pd.Series([2**60 + i for i in range(60)] + [2**61]), "account").kind == "identifier"


@pytest.mark.parametrize("read", [int, str, "{:,}".format])
def test_digits_that_are_lost_are_noted(read):
    encoder = TableEncoder().fit(pd.DataFrame({"account": [read(value) for value in LONG[:5] * 12]}))
    assert encoder.guesses_[0].kind == "number"
    assert encoder.notes_[-1] == (
        "account: numbers above 2^53 lose their last digits, such as 10000000000007919 read as 10000000000007920; the "
        "kind category or identifier avoids that."
    )


def test_digits_that_are_kept_are_not_noted():
    assert TableEncoder().fit(pd.DataFrame({"a": [2**53, 2**54, 3] * 20, "b": [1e30, 7.5, 2.0] * 20})).notes_ == []


ZIPS = ["01000", "01039", "94110"] * 20


def test_digits_with_leading_zeros_are_categories():
    found = guess_kind(pd.Series([*ZIPS, None]), "zip")
    assert (found.kind, found.reason) == ("category", "3 different values, codes with leading zeros such as '01000'")
    found = guess_kind(pd.Series([f"{i:05}" for i in range(60)]), "till")
    assert (found.kind, found.reason) == ("identifier", "it looks like an identifier (60 different values in 60 rows)")
    assert guess_kind(pd.Series(["007", "12", "5"] * 20), "a").kind == "number"  # of several lengths
    assert guess_kind(pd.Series(["0", "1", "5"] * 20), "a").kind == "number"
    assert guess_kind(pd.Series(["0.50", "1.25"] * 20), "a").kind == "number"


def test_codes_keep_their_zeros_from_the_file_to_the_model(tmp_path):
    frame = pd.DataFrame({"zip": [*ZIPS[:-1], None], "age": range(30, 90), "y": ["p", "q"] * 30})
    frame.to_csv(tmp_path / "table.csv", index=False)
    encoder = TableEncoder().fit(open_data(tmp_path / "table.csv", target="y").x)
    assert encoder.column_names_[:4] == ["zip=01000", "zip=01039", "zip=94110", "zip=(missing)"]
    (part,) = iterate_table(tmp_path / "table.csv", rows=100, text=encoder.text_columns)
    assert encoder.transform(part)[:3, :3].tolist() == np.eye(3).tolist()


@pytest.mark.parametrize("start", [1.6e9, 1.6e12, 1.6e15, 1.6e18])
def test_times_since_1970_are_numbers(start):
    assert guess_kind(pd.Series([int(start) + 977 * i for i in range(60)]), "seen").kind == "number"
    assert guess_kind(pd.Series([int(start) + 977 * i for i in range(60)]), "visit_id").kind == "identifier"


def table():
    rows = range(60)
    return pd.DataFrame({"notes": NOTES, "zip": [f"{10_000 + i % 7}" for i in rows], "row": rows})


def test_a_user_knows_better():
    encoder = TableEncoder(kinds={"zip": "category", "notes": "identifier", "row": "number"}).fit(table())
    assert [(guess.name, guess.kind, guess.chosen) for guess in encoder.guesses_] == [
        ("notes", "identifier", True),
        ("zip", "category", True),
        ("row", "number", True),
    ]
    assert encoder.column_names_ == [*(f"zip={10_000 + i}" for i in range(7)), "row"]
    assert encoder.notes_ == ["notes: ignored, as requested."]
    assert clone(encoder).get_params() == {"kinds": encoder.kinds, "text_encoder": None, "pictures": None}


def test_values_that_are_not_of_the_kind_said_are_missing():
    frame = pd.DataFrame({"a": ["1", "2", "three", "4"] * 3, "b": ["01.02.2020", "x", "13.01.2020", "y"] * 3})
    encoder = TableEncoder(kinds={"a": "number", "b": "date"}).fit(frame)
    assert encoder.column_names_ == ["a", "a=(missing)", "b", "b=(missing)"]
    assert encoder.notes_[0] == "a: 3 values that are not numbers ('three') treated as missing."
    assert encoder.transform(frame)[:4, 0].tolist() == [1, 2, 2, 4]
    assert encoder.transform(frame)[:4, 3].tolist() == [0, 1, 0, 1]


def test_what_a_user_says_is_checked():
    with pytest.raises(InvalidInputError, match=r"kind of column 'zip' must be one of number, .*, got 'words'"):
        TableEncoder(kinds={"zip": "words"}).fit(table())
    with pytest.raises(InvalidInputError, match="kinds names 'zap', which is not a column; there are notes, zip, row"):
        TableEncoder(kinds={"zap": "text"}).fit(table())
    with pytest.raises(InvalidInputError, match=r"kinds must be a dict of kinds by column name, got \['text'\]"):
        TableEncoder(kinds=["text"]).fit(table())
    with pytest.raises(InvalidInputError, match=r"column 'notes' holds no number that can be read, for example 'cust"):
        TableEncoder(kinds={"notes": "number"}).fit(table())
