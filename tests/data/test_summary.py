"""What is in a training set, before training."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.data.summary import class_groups, rare_classes, summarize
from equipoise.errors import InvalidInputError


@pytest.mark.parametrize(
    ("counts", "groups"),
    [
        ([5000, 5000, 500, 500], ["common", "common", "rare", "rare"]),
        ([10, 99, 100, 101, 999, 1000, 10_000], ["rare", "rare", "medium", "medium", "medium", "common", "common"]),
        ([100, 149], ["common", "common"]),
        ([100, 150], ["rare", "common"]),
        ([7, 7, 7], ["common"] * 3),
        ([0, 1, 3, 8], ["rare", "rare", "medium", "common"]),
        ([0, 0], ["common", "common"]),
        ([], []),
    ],
)
def test_groups_are_thirds_of_the_range_by_ratio(counts, groups):
    assert list(class_groups(counts)) == groups


def test_the_long_tail_of_cifar_has_all_three():
    counts = [round(5000 * 100 ** (-k / 9)) for k in range(10)]
    assert (
        list(class_groups(counts)) == ["common"] * 3 + ["medium"] * 3 + ["rare"] * 4
    )  # 1,077 and 232 were rounded down


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=20), st.integers(1, 1000))
def test_groups_follow_the_counts(counts, factor):
    rank = {"rare": 0, "medium": 1, "common": 2}
    groups = class_groups(counts)
    order = [rank[groups[i]] for i in np.argsort(counts, kind="stable")]
    assert order == sorted(order), "more samples, no lower group"
    assert groups[int(np.argmax(counts))] == "common"
    if max(counts) >= 1.5 * max(min(counts), 1):
        assert groups[int(np.argmin(counts))] == "rare"
    if min(counts) > 0:
        assert class_groups([factor * count for count in counts]) == groups, "only ratios matter"


@pytest.mark.parametrize("counts", [[-1, 2], [float("nan")], [[1, 2]], [float("inf"), 1]])
def test_what_is_no_count_is_refused(counts):
    with pytest.raises(InvalidInputError, match="counts must be one number per class, none negative, got"):
        class_groups(counts)


def test_a_table_of_classes():
    found = summarize(["owl"] * 6 + ["cat"] * 60 + ["dog"] * 30 + ["elk"] * 24)
    assert found.rows() == [
        {"name": "cat", "count": 60, "share": 0.5, "group": "common"},
        {"name": "dog", "count": 30, "share": 0.25, "group": "common"},
        {"name": "elk", "count": 24, "share": 0.2, "group": "medium"},
        {"name": "owl", "count": 6, "share": 0.05, "group": "rare"},
    ]
    assert found.names == ("cat", "dog", "elk", "owl")
    assert (found.ratio, found.samples, found.multilabel, found.notes) == (10.0, 120, False, ())


def test_labels_from_a_data_frame_are_labels():
    assert summarize(pd.Series(["u", "v", "u"])).counts == (2, 1)
    assert summarize(pd.Series(["1", 2, "1"], dtype=object)).names == ("1", "2")


def test_a_table_of_attributes():
    y = np.array([[1, 0], [1, 0], [0, 1], [1, 0]] * 5)
    found = summarize(y, names=["smile", "hat"])
    assert found.multilabel
    assert found.counts == (15, 5)
    assert found.shares == (0.75, 0.25)
    assert found.ratio == 3.0
    assert [row["name"] for row in found.rows()] == ["smile", "hat"]
    assert summarize(y).names == ("attribute 0", "attribute 1")


def test_the_least_balanced_attribute_sets_the_ratio():
    y = np.zeros((20, 2), dtype=int)
    y[:10, 0] = 1
    y[:19, 1] = 1
    assert summarize(y).ratio == 19.0
    y[:, 1] = 1
    found = summarize(y, names=["a", "b"])
    assert found.ratio == float("inf")
    assert found.notes == ("attribute 'b' has the same value in every sample: nothing to learn.",)
    assert found.as_dict()["ratio"] is None


def test_what_may_go_wrong_is_said():
    y = ["a"] * 10 + ["b"] + ["c"] * 4 + ["d"] * 2 + ["e"] * 5
    assert summarize(y).notes == (
        "class 'b' has one sample only: it cannot be in both training and test.",
        "2 classes (c, d) have fewer than 5 samples: their scores will be rough.",
    )


def test_many_small_classes_are_not_all_named():
    notes = summarize([f"c{i:04}" for i in range(1000)] + ["z"] * 10).notes
    assert notes[0] == (
        "1000 classes (c0000, c0001, c0002, c0003, c0004 and 995 more) have one sample only: "
        "they cannot be in both training and test."
    )
    assert notes[1].startswith("1001 classes: check that the target is a class")
    assert summarize(np.repeat(np.arange(999), 5)).notes == ()


def test_names_alike_are_said():
    notes = summarize(["Cat", "cat ", "c at", "dog"] * 5).notes
    assert notes == ("the names 'Cat', 'cat ' differ only in case or spaces; are they one class?",)


def test_one_class_is_said():
    assert summarize(["a"] * 9).notes == ("every sample has the class 'a': training needs at least two.",)


def test_names_replace_labels():
    assert summarize([3, 1, 1], names=["one", "three"]).rows()[0]["name"] == "one"
    with pytest.raises(InvalidInputError, match="names must hold 2 names, got 1"):
        summarize([3, 1, 1], names=["one"])


@pytest.mark.parametrize("y", [[], 3, np.zeros((2, 2, 2)), np.zeros((0, 3))])
def test_what_is_no_label_is_refused(y):
    with pytest.raises(InvalidInputError, match=r"y must be labels .* or a 0/1 matrix .* got an array of shape"):
        summarize(y)


def test_a_matrix_of_other_values_is_refused():
    with pytest.raises(InvalidInputError, match=r"a matrix y must hold 0 and 1 only, got \[0, 2\]"):
        summarize([[0, 2], [2, 0]])


def test_the_record_is_plain_json():
    record = summarize(np.array([True, False, True])).as_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["classes"] == 2
    assert record["rows"][0] == {"name": "True", "count": 2, "share": 2 / 3, "group": "common"}


@pytest.mark.parametrize(
    ("counts", "rare"),
    [
        ([10_000, 1_000, 100, 99, 10], [False, False, False, True, True]),  # docs/words.md: below 100 is rare
        ([1000, 101, 99, 10], [False, False, False, True]),  # 99 is below the geometric mean, and medium all the same
        ([5, 5, 5], [False, False, False]),
        ([9, 0], [False, True]),
        ([[90, 10], [50, 50], [1, 99]], [[False, True], [False, False], [True, False]]),
    ],
)
def test_rare_is_the_lowest_group_of_classes_everywhere(counts, rare):
    assert rare_classes(counts).tolist() == rare
    if np.ndim(counts) == 1:
        assert [group == "rare" for group in class_groups(counts)] == rare
