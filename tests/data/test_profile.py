"""A table's columns at a glance, and what is suspicious about them."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from equipoise.data.leaks import leak_notes
from equipoise.data.profile import profile_columns, rarest
from equipoise.data.samples import Samples

ROWS = 400
RNG = np.random.default_rng(0)
ILL = RNG.random(ROWS) < 0.2
TABLE = pd.DataFrame(
    {
        "age": np.where(RNG.random(ROWS) < 0.05, np.nan, RNG.normal(50, 9, ROWS) - 12 * ILL),
        "town": RNG.choice(["Oslo", "Rome"], ROWS),
        "ward": np.where(ILL, RNG.choice(["a", "b"], ROWS, p=[0.8, 0.2]), RNG.choice(["a", "b"], ROWS, p=[0.2, 0.8])),
        "notes": [f"seen on day {i}, {'fever and cough' if ill else 'nothing to report'}" for i, ill in enumerate(ILL)],
        "seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 300, ROWS), unit="D"),
        "key": [f"K{i:05}" for i in range(ROWS)],
        "unit": "mg",
    }
)


def test_what_a_profile_says():
    found = {each.name: each for each in profile_columns(TABLE, np.where(ILL, "ill", "well"))}
    assert {name: each.kind for name, each in found.items()} == {
        "age": "number",
        "town": "category",
        "ward": "category",
        "notes": "text",
        "seen": "date",
        "key": "identifier",
        "unit": "constant",
    }
    age = found["age"]
    assert age.missing == TABLE["age"].isna().mean()
    filled = TABLE["age"].fillna(TABLE["age"].median())
    assert age.auc == pytest.approx(1 - roc_auc_score(ILL, filled))
    assert sum(age.histogram) == TABLE["age"].notna().sum()
    assert len(age.bars) == 8
    assert found["seen"].examples[0] == str(TABLE["seen"].min().date())
    assert found["town"].distinct == 2
    assert set(found["town"].examples) == {"Oslo", "Rome"}
    assert found["town"].auc < 0.6 < found["ward"].auc < 0.9 < found["notes"].auc == 1
    assert found["key"].auc is found["unit"].auc is None
    assert json.loads(json.dumps([each.as_dict() for each in found.values()], allow_nan=False))


@pytest.mark.parametrize("filled", ["2024-03-01", 7.5, "moved", "{}", "reason {}: too dear for what it is", "AX-{}"])
def test_a_column_that_ranks_by_being_missing(filled):
    each = [str(filled).format(i) if isinstance(filled, str) else filled for i in range(ROWS)]
    column = pd.Series([value if ill else None for value, ill in zip(each, ILL, strict=True)])
    (found,) = profile_columns(pd.DataFrame({"closed": column}), ILL)
    assert found.auc == 1
    assert found.auc_by_missing
    assert found.reason.endswith("; the AUC is that of being missing")
    (note,) = leak_notes(samples(closed=column))
    assert note.startswith("the column 'closed' alone decides the target, by whether it is missing; if it is only")


def test_values_that_rank_better_than_their_absence():
    gone = RNG.random(ROWS) < 0.1
    (found,) = profile_columns(pd.DataFrame({"a": np.where(gone, np.nan, ILL + RNG.normal(size=ROWS))}), ILL)
    assert not found.auc_by_missing
    assert found.reason == "its values are numbers"


def test_a_constant_that_is_seldom_missing_ranks_nothing():
    (found,) = profile_columns(pd.DataFrame({"a": [None, *[1.0] * (ROWS - 1)]}), ILL)
    assert (found.kind, found.auc) == ("constant", None)


def test_without_labels_nothing_is_ranked():
    assert {each.auc for each in profile_columns(TABLE)} == {None}


def test_the_rarest_class_or_attribute():
    assert rarest(np.array(["a", "b", "a"])).tolist() == [False, True, False]
    assert rarest(np.array([[1, 0], [1, 1], [0, 0]])).tolist() == [False, True, False]


@settings(max_examples=25)
@given(st.lists(st.one_of(st.none(), st.text(max_size=6), st.floats(), st.integers()), min_size=4, max_size=30))
def test_any_column_has_a_profile(values):
    y = np.arange(len(values)) % 2
    (found,) = profile_columns(pd.DataFrame({"a": pd.Series(values, dtype=object)}), y)
    assert 0 <= found.missing <= 1
    assert found.auc is None or 0.5 <= found.auc <= 1
    json.dumps(found.as_dict(), allow_nan=False)


# --- leaks ----------------------------------------------------------------------------------------------------------


def samples(y=None, **columns):
    return Samples(TABLE[["age", "town"]].assign(row_age=range(0, 3 * ROWS, 3), **columns), ILL if y is None else y)


def test_a_sound_table_has_nothing_to_say():
    assert leak_notes(samples(), samples().take([])) == []
    images = Samples(np.zeros((4, 1, 8, 8), dtype=np.uint8), np.array([0, 1, 0, 1]))
    assert leak_notes(images, images) == []


@pytest.mark.parametrize(
    ("column", "how"),
    [
        (np.where(ILL, "yes", "no"), "decides"),
        (np.where(ILL, 2.5, 1) + RNG.random(ROWS), "decides"),
        (np.where(np.arange(ROWS) == np.flatnonzero(~ILL)[0], True, ILL), "nearly decides"),
    ],
)
def test_a_column_that_gives_the_target_away(column, how):
    assert leak_notes(samples(outcome=column)) == [
        f"the column 'outcome' alone {how} the target; if it is only known afterwards, leave it out: --drop outcome."
    ]


def test_a_leak_among_a_few_wrong_labels():
    y = np.array(["no", "yes"])[ILL.astype(int)]
    y[np.flatnonzero(~ILL)[:4]] = "yes"
    (note,) = leak_notes(samples(y, closed=np.where(ILL, "2024-03-01", None)))
    assert note.startswith("the column 'closed' alone nearly decides the target, by whether it is missing; if")


def test_a_column_that_says_much_but_not_all_is_none():
    assert leak_notes(samples(outcome=np.where(RNG.random(ROWS) < 0.9, ILL, ~ILL))) == []


def test_three_classes_and_a_copy_of_them():
    y = RNG.choice(["a", "b", "c"], ROWS, p=[0.7, 0.2, 0.1])
    (note,) = leak_notes(samples(y, copy=pd.Series(y).map({"a": "x", "b": "y", "c": "z"})))
    assert "'copy' alone decides the target" in note


def test_rows_that_repeat_others():
    whole = samples()
    again = whole.take(np.tile(np.arange(ROWS), 5))
    assert leak_notes(again) == [
        "1,600 of 2,000 rows repeat another row; weigh or remove them unless they are separate cases."
    ]
    assert leak_notes(whole.take([*range(ROWS), 0])) == []  # one is chance


def test_a_few_copies_in_a_long_table():
    long = Samples(pd.DataFrame({"a": RNG.normal(size=1500), "b": RNG.normal(size=1500)}), np.arange(1500) % 2)
    assert leak_notes(long.take([*range(1500), *range(4)])) == []
    (note,) = leak_notes(long.take([*range(1500), *range(5)]))
    assert note.startswith("5 of 1,505 rows repeat another row;")


def test_rows_that_contradict_each_other():
    whole = samples()
    twice = whole.take([*range(ROWS), 7])
    y = twice.y.copy()
    y[-1] = not y[-1]
    (note,) = leak_notes(Samples(twice.x, y))
    assert note == "2 rows have a different label than another row with the same values; no model can tell them apart."
    several = np.stack([y, ~y], axis=1).astype(int)
    assert leak_notes(Samples(twice.x, several, ("a", "b"))) == [note]


def test_test_rows_that_were_trained_on():
    whole = samples()
    assert leak_notes(whole.take(range(300)), whole.take(range(290, 400))) == [
        "10 of 110 test rows also appear in the training rows, so the scores may be too optimistic; remove them, or "
        "keep them together with --group."
    ]


def test_arrays_and_cells_that_hold_lists():
    x = RNG.normal(size=(60, 2))
    y = np.arange(60) % 2
    assert leak_notes(Samples(x, y), Samples(x[:5], y[:5]))[0].startswith("5 of 5 test rows")
    lists = pd.DataFrame({"a": [[1, 2], [3]] * 30, "b": range(60)})
    assert leak_notes(Samples(lists, RNG.permutation(y))) == []


def visits() -> Samples:
    patients = np.repeat(np.arange(40), 3)
    return Samples(pd.DataFrame({"patient": patients, "dose": RNG.normal(size=120)}), RNG.integers(0, 2, 120))


def test_rows_of_one_patient_on_both_sides_of_a_split():
    both = visits()
    (note,) = leak_notes(both.take(np.arange(100)), both.take(np.arange(100, 120)))
    assert note == (
        "the column 'patient' has 34 values in 100 rows, and 2 of 20 test rows share theirs with training rows; if "
        "rows of one value belong together, such as visits of a patient, keep them on one side: --group patient."
    )
    (note,) = leak_notes(both)
    assert "40 values in 120 rows, and a split may divide them" in note


def test_no_patient_is_divided():
    both = visits()
    assert leak_notes(both.take(np.arange(99)), both.take(np.arange(99, 120))) == []
    assert leak_notes(Samples(both.x, both.y, groups=both.x["patient"].to_numpy())) == []
    assert leak_notes(Samples(both.x.rename(columns={"patient": "ward"}), both.y)) == []
    assert leak_notes(Samples(both.x.assign(patient=np.arange(120)), both.y)) == []  # a row each
