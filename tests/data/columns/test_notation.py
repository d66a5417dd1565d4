"""Numbers as people write them in bills and reports."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.data.columns.notation import AMOUNTS, plain
from equipoise.data.encoder import TableEncoder

POINT, COMMA = AMOUNTS
CENTS = st.integers(0, 10**11)
GAPS = st.sampled_from([",", "'", "’", " ", "\u00a0", "\u202f"])


def grouped(cents, gap, point):
    return f"{cents // 100:,}".replace(",", gap) + f"{point}{cents % 100:02}"


@given(CENTS, GAPS, st.sampled_from(["{} €", "€{}", "$ {}", "{} CHF", "EUR {}", "{}kr"]), st.booleans())
def test_an_amount_is_the_number_in_it(cents, gap, shape, negative):
    text = shape.format(grouped(cents, gap, "."))
    sign = -1 if negative else 1
    for written in [f"({text})", f"-{text}", f"\u2212{text}"] if negative else [text, f" {text} "]:
        assert float(plain(written, POINT)) == sign * cents / 100


@given(CENTS, st.sampled_from([".", "'", " ", "\u00a0"]))
def test_a_decimal_comma_in_an_amount(cents, gap):
    assert float(plain(f"{grouped(cents, gap, ',')} €", COMMA)) == cents / 100


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("8%", 8),
        ("8 %", 8),
        ("-0.5%", -0.5),
        ("1.5k", 1500),
        ("2K", 2000),
        ("3.25M", 3250000.0),
        ("$1.2bn", 1200000000.0),
        ("(132.10)", -132.1),
        ("-$5", -5),
        ("$-5", -5),
        ("12", 12),
        ("+3", 3),
        ("0", 0),
    ],
)
def test_signs_and_factors(text, number):
    assert float(plain(text, POINT)) == pytest.approx(number, rel=1e-12)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "(",
        ")",
        "()",
        "%",
        "k",
        "€",
        "$$5",
        "5 €€",
        "(-5)",
        "(5",
        "5)",
        "--5",
        "1,23 €",
        "12,34,567",
        "1 2 3",
        "kk",
        "5 kg",
        "1e3k",
        "5%%",
        "5k%",
        "five €",
        "٣ €x",
        "nan",
        "inf €",
    ],
)
def test_what_is_no_amount(text):
    assert plain(text, POINT) is None


@given(st.text(max_size=80))
def test_any_text_is_an_amount_or_none(text):
    for notation in AMOUNTS:
        found = plain(text, notation)
        assert found is None or np.isfinite(float(found))


@pytest.mark.parametrize("shape", ["1", "(", " ", "1 ", "€", "1,", "1.", "-", "k"])
def test_long_cells_are_not_even_looked_at(shape):
    assert plain(shape * 10**6 + "x", POINT) is None
    assert plain(shape * 10**6 + "x", COMMA) is None


def learnt(values):
    return TableEncoder().fit(pd.DataFrame({"a": values, "other": range(0, 10 * len(values), 10)}))


def test_a_note_says_what_amounts_were_read_as():
    encoder = learnt(["1,234.50 €", "(132.10)", "8%", "1.5k", "12"] * 2)
    assert encoder.column_names_ == ["a", "other"]
    assert encoder.columns_[0].notation == POINT
    assert encoder.notes_ == ["a: amounts read as numbers, '1,234.50 €' as 1234.5, '(132.10)' as -132.1, '8%' as 8."]
    found = encoder.transform(pd.DataFrame({"a": ["$7", "(1k)"], "other": 0}))
    assert found[:, 0].tolist() == [7, -1000]
    assert encoder.text_columns == ["a"]


def test_german_amounts():
    encoder = learnt(["1.234,50 €", "99,00 €", "0,50 €"])
    assert encoder.columns_[0].notation == COMMA
    assert encoder.transform(pd.DataFrame({"a": ["2.000,25 €"], "other": 0}))[0, 0] == 2000.25


def test_case_alone_makes_no_category():
    encoder = learnt(["yes", "Yes", "NO", "no", "yes", "No "] * 3)
    assert encoder.column_names_ == ["a=NO", "a=yes", "other"]
    assert encoder.notes_ == ["a: values that differ only in case are merged, such as 'yes' and 'Yes'."]
    found = encoder.transform(pd.DataFrame({"a": ["YES", "nO", "maybe", None], "other": 0}))
    assert found[:, :2].tolist() == [[0, 1], [1, 0], [0, 0], [0, 0]]
    again = TableEncoder.from_json(encoder.to_json())
    assert np.array_equal(again.transform(pd.DataFrame({"a": ["YES"], "other": 0})), found[:1])
