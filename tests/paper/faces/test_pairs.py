"""Pairs drawn from a folder of people."""

from collections import Counter

import numpy as np
import pytest

from equipoise.errors import InvalidInputError
from equipoise.paper.faces.drawn_pairs import _numbered_pair, pairs_of_people, write_pairs
from equipoise.paper.faces.pair_files import read_pair_list
from tests.paper.faces.faces_made import write_faces


def people(root, counts):
    return write_faces(root, [f"{name}/{number}.png" for name, count in counts.items() for number in range(count)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    counts = {f"p{number:02}": 1 + number % 4 for number in range(24)} | {"many": 12}
    return people(tmp_path_factory.mktemp("people"), counts)


def persons(pairs):
    """The two people of each pair."""
    who = [name.split("/")[0] for name in pairs.files]
    return [(who[first], who[second]) for first, second in zip(pairs.first, pairs.second, strict=True)]


def test_pairs_are_what_they_say(folder):
    pairs = pairs_of_people(folder, pairs=80, folds=4)
    assert [one == other for one, other in persons(pairs)] == pairs.same.tolist()
    assert pairs.same.sum() * 2 == len(pairs)
    drawn = Counter(frozenset(pair) for pair in zip(pairs.first.tolist(), pairs.second.tolist(), strict=True))
    assert max(drawn.values()) == 1, "no pair twice"
    assert all(len(pair) == 2 for pair in drawn)


def test_nobody_is_in_two_folds(folder):
    pairs = pairs_of_people(folder, pairs=80, folds=4)
    of_fold = {fold: set() for fold in range(1, 5)}
    for fold, pair in zip(pairs.fold.tolist(), persons(pairs), strict=True):
        of_fold[fold] |= set(pair)
    assert all(of_fold.values())
    assert sum(map(len, of_fold.values())) == len(set().union(*of_fold.values()))
    for fold in of_fold:
        kinds = pairs.same[pairs.fold == fold]
        assert kinds.sum() * 2 == len(kinds) > 0


def test_people_with_many_images_do_not_outweigh_the_others(folder):
    pairs = pairs_of_people(folder, pairs=60, folds=2)
    same = Counter(one for (one, _), kind in zip(persons(pairs), pairs.same, strict=True) if kind)
    assert same["many"] <= 6  # it has 66 of the 120 pairs of one person
    assert len(same) == 19, "everybody with two images or more has a turn"


def test_the_seed_decides(folder):
    first, again, other = (pairs_of_people(folder, pairs=40, seed=seed) for seed in (1, 1, 2))
    assert persons(first) == persons(again)
    assert first.files == again.files
    assert persons(first) != persons(other)


def test_notes_tell_what_is_less_than_asked(folder):
    notes = pairs_of_people(folder, pairs=6000).notes
    assert notes[0] == "6 of 25 people have one image: they are in pairs of two people only."
    assert notes[-1].startswith("the images give ")


def test_few_people_make_few_folds(tmp_path):
    pairs = pairs_of_people(people(tmp_path, {"a": 2, "b": 2, "c": 1, "d": 3}), pairs=20)
    assert set(pairs.fold.tolist()) == {1, 2}
    assert "4 people are enough for 2 folds." in pairs.notes


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"a": 1, "b": 1, "c": 1, "d": 1}, "got 4 people, 0 of them with two images"),
        ({"a": 3, "b": 1, "c": 1, "d": 1}, "got 4 people, 1 of them with two images"),
        ({"a": 3, "b": 3, "c": 1}, "got 3 people, 2 of them"),
        ({"Ann": 2, "ann": 2, "b": 2, "c": 2}, "'Ann' and 'ann' differ only in case"),
    ],
)
def test_folders_that_give_no_pairs(tmp_path, counts, said):
    with pytest.raises(InvalidInputError, match=said):
        pairs_of_people(people(tmp_path, counts), pairs=20)


def test_too_few_pairs_are_refused(folder):
    with pytest.raises(InvalidInputError, match="at least 2 folds, and 2 pairs for each, got 10 and 10"):
        pairs_of_people(folder, pairs=10)


def test_what_is_written_is_read_again(folder, tmp_path):
    pairs = pairs_of_people(folder, pairs=40)
    write_pairs(pairs, tmp_path / "pairs.txt")
    again = read_pair_list(tmp_path / "pairs.txt", folder)
    assert again.files == pairs.files
    for name in ("face", "first", "second", "same", "fold"):
        np.testing.assert_array_equal(getattr(again, name), getattr(pairs, name))
    with pytest.raises(InvalidInputError, match=r"pairs\.txt exists; name a new file"):
        write_pairs(pairs, tmp_path / "pairs.txt")
    with pytest.raises(InvalidInputError, match="cannot be written"):
        write_pairs(pairs, tmp_path / "gone" / "pairs.txt")


def test_a_name_that_would_break_the_list_is_refused(tmp_path):
    root = people(tmp_path / "people", {"a\tb": 2, "c": 2, "d": 2, "e": 2})
    with pytest.raises(InvalidInputError, match="cannot be written to a list of pairs"):
        write_pairs(pairs_of_people(root, pairs=20), tmp_path / "pairs.txt")


@pytest.mark.parametrize("count", [2, 3, 10, 31])
def test_numbers_name_every_pair_once(count):
    files = [str(number) for number in range(count)]
    found = {_numbered_pair(files, number) for number in range(count * (count - 1) // 2)}
    assert len(found) == count * (count - 1) // 2
    assert all(int(first) < int(second) for first, second in found)
