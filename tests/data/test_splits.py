"""Splits: complete, disjoint, repeatable; no group on both sides; class shares kept."""

import json
import os
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.data.samples import Samples
from equipoise.data.splits import (
    Split,
    hold_out,
    load_split,
    official,
    save_split,
    stratified_folds,
)
from equipoise.errors import InvalidInputError

labels = st.lists(st.sampled_from(["a", "b", "c"]), min_size=6, max_size=60)
grouped = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 11)), min_size=8, max_size=60)


def assert_parts(pairs, samples):
    """Every pair covers all rows without overlap, and the test parts cover each row once."""
    for train, test in pairs:
        assert sorted([*train, *test]) == list(range(samples))
        assert len(test) > 0
        assert np.all(np.diff(train) > 0)
        assert np.all(np.diff(test) > 0)
    assert sorted(row for _, test in pairs for row in test) == list(range(samples))


@given(labels, st.integers(2, 5), st.integers(0, 3))
def test_folds_cover_every_row_once_and_keep_the_shares_within_one_sample(y, folds, seed):
    pairs = stratified_folds(y, folds, seed=seed, allow_missing=True)
    assert_parts(pairs, len(y))
    counts = [Counter(np.array(y)[test]) for _, test in pairs]
    if max(Counter(y).values()) >= folds:
        for name in set(y):
            assert max(c[name] for c in counts) - min(c[name] for c in counts) <= 1
    again = stratified_folds(y, folds, seed=seed, allow_missing=True)
    assert all(
        np.array_equal(a, b) for one, two in zip(pairs, again, strict=True) for a, b in zip(one, two, strict=True)
    )


def test_another_seed_gives_other_folds():
    y = np.arange(40) % 2
    tests = {tuple(stratified_folds(y, 2, seed=seed)[0][1]) for seed in range(5)}
    assert len(tests) == 5


def test_folds_name_the_class_that_is_too_small():
    y = ["many"] * 6 + ["few"] * 2
    with pytest.raises(
        InvalidInputError, match=r"1 of the classes have fewer samples than the 3 folds: 'few' \(2\); use"
    ):
        stratified_folds(y, 3, seed=0)
    pairs = stratified_folds(y, 3, seed=0, allow_missing=True)
    assert sorted(Counter(np.array(y)[test])["few"] for _, test in pairs) == [0, 1, 1]
    assert stratified_folds(y, 2, seed=0)


def test_only_the_first_small_classes_are_named():
    with pytest.raises(
        InvalidInputError, match=r"7 of the classes .*: 0 \(1\), 1 \(1\), 2 \(1\), 3 \(1\), 4 \(1\) and 2 more;"
    ):
        stratified_folds(list(range(7)) + [8] * 3, 3, seed=0)


def test_several_labels_are_shuffled_and_cut():
    y = np.random.default_rng(0).integers(0, 2, (11, 3))
    pairs = stratified_folds(y, 3, seed=1)
    assert_parts(pairs, 11)
    assert sorted(len(test) for _, test in pairs) == [3, 4, 4]
    assert len({tuple(stratified_folds(y, 3, seed=seed)[0][1]) for seed in range(5)}) == 5


@pytest.mark.parametrize(
    ("y", "folds", "message"),
    [
        ([0, 1], 1, "folds must be 2 or more, got 1"),
        ([0, 1], 3, "3 folds need at least 3 samples, got 2"),
        ([], 2, r"y must be labels .* not empty; got an array of shape \(0,\)"),
        (np.zeros((2, 2, 2)), 2, r"got an array of shape \(2, 2, 2\)"),
    ],
)
def test_folds_refuse_what_cannot_be_divided(y, folds, message):
    with pytest.raises(InvalidInputError, match=message):
        stratified_folds(y, folds, seed=0)


@given(grouped, st.integers(2, 5), st.integers(0, 3), st.booleans())
def test_a_group_is_never_on_both_sides(rows, folds, seed, several):
    y = np.array([name for name, _ in rows])
    groups = np.array([group for _, group in rows])
    target = np.stack([y == "a", y == "b"], axis=1).astype(int) if several else y
    if len(set(groups.tolist())) < folds:
        with pytest.raises(InvalidInputError, match=rf"{folds} folds need at least {folds} groups, got"):
            stratified_folds(target, folds, groups=groups, seed=seed, allow_missing=True)
        return
    pairs = stratified_folds(target, folds, groups=groups, seed=seed, allow_missing=True)
    assert_parts(pairs, len(y))
    for train, test in pairs:
        assert not set(groups[train]) & set(groups[test])
    again = stratified_folds(target, folds, groups=groups, seed=seed, allow_missing=True)
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(pairs, again, strict=True))


def test_grouped_folds_keep_the_shares_of_the_classes():
    generator = np.random.default_rng(0)
    groups = np.repeat(np.arange(120), generator.integers(1, 4, 120))
    y = np.array(["rare" if group % 10 == 0 else "common" for group in groups])
    share = np.mean(y == "rare")
    for _, test in stratified_folds(y, 3, groups=groups, seed=0):
        assert abs(np.mean(y[test] == "rare") - share) < 0.02
        assert abs(len(test) - len(y) / 3) < 6


def test_grouped_folds_differ_by_seed_and_take_names():
    groups = np.array([f"lesion {row // 2}" for row in range(40)])
    y = np.arange(40) // 20
    assert len({tuple(stratified_folds(y, 2, groups=groups, seed=seed)[0][1]) for seed in range(4)}) > 1


def test_grouped_folds_name_the_class_with_too_few_groups():
    y, groups = ["a"] * 6 + ["b"] * 6, [0, 1, 2, 3, 4, 5, 6, 6, 6, 6, 7, 7]
    with pytest.raises(InvalidInputError, match=r"fewer groups than the 3 folds: 'b' \(2\)"):
        stratified_folds(y, 3, groups=groups, seed=0)
    assert_parts(stratified_folds(y, 3, groups=groups, seed=0, allow_missing=True), 12)
    with pytest.raises(InvalidInputError, match="a group for each of the 12 samples, got"):
        stratified_folds(y, 3, groups=groups[:-1], seed=0)


@given(labels, st.floats(0.05, 0.9), st.integers(0, 3))
def test_held_out_rows_follow_the_rule(y, share, seed):
    train, held = hold_out(y, share, seed=seed)
    assert sorted([*train, *held]) == list(range(len(y)))
    for name, count in Counter(y).items():
        own = Counter(np.array(y)[held])[name]
        if count < 3:
            assert own == 0
        else:
            assert 1 <= own <= count - 2
            assert own in (round(share * count), 1, count - 2)
    assert np.array_equal(held, hold_out(y, share, seed=seed)[1])


@given(labels, st.floats(0.01, 0.9), st.randoms(use_true_random=False))
def test_rows_are_held_in_the_order_given(y, share, random):
    order = random.sample(range(len(y)), len(y))
    expected = []
    for name in set(y):
        own = [row for row in order if y[row] == name]
        wanted = max(1, round(share * len(own)))
        while own[2:] and wanted:  # two stay at least
            expected.append(own.pop(0))
            wanted -= 1
    assert hold_out(y, share, order=order)[1].tolist() == sorted(expected)


def test_hold_out_draws_and_leaves_all_at_zero():
    y = np.zeros(30, int)
    assert len({tuple(hold_out(y, 0.2, seed=seed)[1]) for seed in range(5)}) == 5
    for groups in (None, np.arange(30)):
        train, held = hold_out(y, 0.0, seed=0, groups=groups)
        assert len(held) == 0
        assert train.tolist() == list(range(30))
        for share in (1.0, -0.1, float("nan")):
            with pytest.raises(InvalidInputError, match=r"share must lie in \[0, 1\), got"):
                hold_out(y, share, seed=0, groups=groups)


def test_several_labels_are_held_out_alike():
    y = np.zeros((10, 2), int)
    train, held = hold_out(y, 0.3, seed=0)
    assert (len(train), len(held)) == (7, 3)
    groups = np.repeat(np.arange(5), 2)
    train, held = hold_out(y, 0.4, seed=0, groups=groups)
    assert len(held) == 4
    assert not set(groups[train]) & set(groups[held])


@given(grouped, st.floats(0.05, 0.9), st.integers(0, 3))
def test_whole_groups_are_held_out(rows, share, seed):
    y = np.array([name for name, _ in rows])
    groups = np.array([group for _, group in rows])
    train, held = hold_out(y, share, seed=seed, groups=groups)
    assert sorted([*train, *held]) == list(range(len(y)))
    assert not set(groups[train]) & set(groups[held])
    rarest = Counter(y).most_common()
    least = min(Counter(y).values())
    if sum(count == least for _, count in rarest) == 1:  # the rarest class: its groups follow the rule alone
        name = rarest[-1][0]
        own = set(groups[y == name].tolist())
        taken = own & set(groups[held].tolist())
        free = [g for g in own if all(len(set(groups[y == c])) > 2 for c in set(y[groups == g]))]
        assert len(taken) <= max(len(own) - 2, 0)
        assert bool(taken) == bool(free)
    for name in set(y):
        before, after = len(set(groups[y == name])), len(set(groups[train][y[train] == name]))
        assert after >= min(before, 2), "two groups of each class stay, and all of a class with fewer than three"


def test_a_class_whose_only_group_holds_a_rarer_one_stays():
    y = np.array(["lone"] * 8 + ["rare"] * 5 + ["common"] * 40)
    groups = np.array([0] * 8 + [0, 1, 2, 3, 4] + [5 + row // 4 for row in range(40)])
    for seed in range(50):
        train, held = hold_out(y, 0.3, seed=seed, groups=groups)
        assert "lone" in y[train]
        assert 1 <= np.sum(y[held] == "rare") <= 3, "another group of the rare class goes in its place"


def test_classes_spread_over_the_groups_of_rarer_ones_keep_two():
    rare = [(name, f"{name}{number}") for name in "uvw" for number in range(4)]
    wide = [("wide", group) for group in ("u0", "v0", "w0")] * 5
    pair = [("pair", group) for group in ("u1", "u2")] * 4
    y, groups = (np.array(column) for column in zip(*rare, *wide, *pair, strict=True))
    for seed in range(60):
        train, _ = hold_out(y, 0.5, seed=seed, groups=groups)
        assert len(set(groups[train][y[train] == "wide"])) >= 2
        assert len(set(groups[train][y[train] == "pair"])) == 2, "fewer than three give none"


def test_groups_passed_over_are_made_good_by_the_next():
    y = np.array(["rare"] * 6 + ["lone"] * 7 + ["sole"] * 7 + ["common"] * 40)
    groups = np.array([*range(6), *[0] * 7, *[1] * 7, *(6 + row // 4 for row in range(40))])
    for seed in range(20):
        _, held = hold_out(y, 0.2, seed=seed, groups=groups)  # 4 of the 20 samples in the groups of the rare class
        assert Counter(y[held].tolist()) == {"rare": 4, "common": 8}


def test_the_groups_held_out_come_nearest_to_the_share():
    groups = np.repeat(np.arange(50), 4)
    y = np.repeat(np.arange(2), 100)
    _, held = hold_out(y, 0.2, seed=3, groups=groups)
    assert Counter(y[held].tolist()) == {0: 20, 1: 20}


def test_a_group_counts_for_the_rarest_of_its_classes():
    y = np.array(["common"] * 12 + ["rare"] * 3)
    groups = np.array([*range(12), 0, 1, 2])  # each rare sample shares its group with a common one
    for seed in range(10):
        _, held = hold_out(y, 0.5, seed=seed, groups=groups)
        assert np.sum(y[held] == "rare") == 1


def test_official_parts_are_given_by_name():
    samples = Samples(np.zeros((4, 1)), np.zeros(4), partition=np.array(["train", "test", "train", "test"]))
    parts = official(samples)
    assert {name: rows.tolist() for name, rows in parts.items()} == {"train": [0, 2], "test": [1, 3]}
    with pytest.raises(InvalidInputError, match="no official partition; use stratified_folds or hold_out"):
        official(Samples(np.zeros((1, 1)), np.zeros(1)))
    odd = Samples(np.zeros((2, 1)), np.zeros(2), partition=np.array(["train", "dev"]))
    with pytest.raises(InvalidInputError, match="partition must hold train, val, test, got 'dev'"):
        official(odd)


def test_a_split_comes_back_from_its_file(tmp_path):
    split = Split(np.array([4, 0, 2]), [], [1, 3])
    path = tmp_path / "run" / "split.json"
    save_split(split, path, samples=5)
    assert load_split(path, samples=5) == split
    assert load_split(path, samples=5).train.dtype == np.intp
    assert load_split(path, samples=5).train.tolist() == [4, 0, 2]
    assert [entry.name for entry in path.parent.iterdir()] == ["split.json"]
    content = json.loads(path.read_text())
    assert content["samples"] == 5
    assert content["test"] == [1, 3]


def test_a_saved_split_is_never_overwritten_by_another(tmp_path):
    path = tmp_path / "split.json"
    save_split(Split([0], [], [1]), path, samples=2)
    before = path.read_bytes()
    save_split(Split([0], [], [1]), path, samples=2)
    with pytest.raises(InvalidInputError, match="holds another split; delete it or give another name"):
        save_split(Split([1], [], [0]), path, samples=2)
    path2 = tmp_path / "notes.json"
    path2.write_text("mine")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        save_split(Split([0], [], [1]), path2, samples=2)
    assert (path.read_bytes(), path2.read_text()) == (before, "mine")


@pytest.mark.parametrize("parts", [([0], [0], []), ([0, 0], [], []), ([], [], [])])
def test_a_split_has_each_row_once(parts):
    with pytest.raises(InvalidInputError, match="a split must have rows, and each only once"):
        Split(*parts)


@pytest.mark.parametrize("rows", [[-1], [0.5], ["a"], [[0]], [[0], [1, 2]], [True]])
def test_a_part_is_a_list_of_row_numbers(rows):
    with pytest.raises(InvalidInputError, match="val must be a list of row numbers"):
        Split([0], rows, [])


def test_splits_differ_by_any_part():
    split = Split([0], [1], [2])
    assert split == Split([0], [1], [2])
    for other in (Split([3], [1], [2]), Split([0], [3], [2]), Split([0], [1], [3]), "split"):
        assert split != other


GOOD = {"format": "equipoise split 1", "samples": 3, "train": [0], "val": [1], "test": [2]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "cannot be read .*; delete it, and split the data again"),
        (b"\xff\xfe", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b"[]", "is invalid: expected an object in braces, got a list; delete it, and split"),
        (GOOD | {"format": "other"}, "has no valid field 'format': not one of the allowed values; delete it"),
        (GOOD | {"samples": 4}, "is a split of 4 samples, and there are 3; the data have changed"),
        (GOOD | {"train": [3]}, "is damaged: row 3 is in the split, but there are only 3 samples"),
        (GOOD | {"train": [1]}, "is damaged: a split must have rows, and each only once"),
        (GOOD | {"train": [-1]}, "has no valid field 'train.0.': "),
        (GOOD | {"val": None}, "has no valid field 'val': expected a list, got nothing"),
        (GOOD | {"val": ["1"]}, "has no valid field 'val.0.': expected a whole number, got text"),
        (GOOD | {"val": [True]}, "has no valid field 'val.0.': expected a whole number, got true or false"),
        (GOOD | {"val": [2**70]}, "has no valid field 'val.0.'"),
    ],
)
def test_a_damaged_file_is_one_sentence(tmp_path, content, message):
    path = tmp_path / "split.json"
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with pytest.raises(InvalidInputError, match=message):
        load_split(path, samples=3)


def test_rows_beyond_the_samples_are_not_saved(tmp_path):
    with pytest.raises(InvalidInputError, match="row 5 is in the split, but there are only 5 samples"):
        save_split(Split([0], [], [5]), tmp_path / "split.json", samples=5)
    with pytest.raises(InvalidInputError, match=r"cannot be read \(No such file"):
        load_split(tmp_path / "split.json", samples=5)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="folder rights bind neither Windows nor root")
def test_a_folder_without_write_access_is_one_sentence(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InvalidInputError, match="cannot be written: Permission denied"):
        save_split(Split([0], [], [1]), tmp_path / "split.json", samples=2)


def test_a_file_in_the_way_of_the_folder_is_one_sentence(tmp_path):
    (tmp_path / "run").write_text("")
    with pytest.raises(InvalidInputError, match="cannot be written: "):
        save_split(Split([0], [], [1]), tmp_path / "run" / "split.json", samples=2)
