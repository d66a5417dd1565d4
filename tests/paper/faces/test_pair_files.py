"""Lists of pairs: LFW's, YouTube Faces', plain ones; and what is wrong with them."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import InvalidInputError
from equipoise.paper.faces.pair_files import read_lfw_pairs, read_pair_list, read_ytf_pairs
from equipoise.paper.faces.pairs import EncodedImages, consecutive_folds
from tests.paper.faces.faces_made import LFW_FACES, LFW_LINES, encoded, write_faces, write_list

DATA = Path(os.environ.get("EQUIPOISE_DATA") or "no data")


def named(pairs):
    """Each pair by its first images' names."""
    first_image = {int(face): pairs.files[place] for place, face in reversed(list(enumerate(pairs.face)))}
    columns = zip(pairs.first, pairs.second, pairs.same, pairs.fold, strict=True)
    return [(first_image[int(a)], first_image[int(b)], bool(same), int(fold)) for a, b, same, fold in columns]


@pytest.mark.parametrize("nested", [True, False])
def test_lfw_has_folds_of_both_kinds(tmp_path, nested):
    faces = [f"{name.rsplit('_', 1)[0]}/{name}" if nested else name for name in LFW_FACES]
    root = write_faces(tmp_path / "lfw", faces)
    pairs = read_lfw_pairs(write_list(tmp_path / "pairs.txt", *LFW_LINES), root)
    found = [(a.rsplit("/", 1)[-1], b.rsplit("/", 1)[-1], same, fold) for a, b, same, fold in named(pairs)]
    assert found == [
        ("Ann_0001.jpg", "Ann_0002.jpg", True, 1),
        ("Ann_0001.jpg", "Ann_0003.jpg", True, 1),
        ("Ann_0001.jpg", "Bob_0001.jpg", False, 1),
        ("Ann_0003.jpg", "Bob_0002.jpg", False, 1),
        ("Cid_0001.jpg", "Cid_0002.jpg", True, 2),
        ("Dee_0001.jpg", "Dee_0002.jpg", True, 2),
        ("Cid_0001.jpg", "Dee_0001.jpg", False, 2),
        ("Cid_0002.jpg", "Dee_0001.jpg", False, 2),
    ]
    assert pairs.people == ("Ann", "Bob", "Cid", "Dee")
    assert (len(pairs.files), pairs.faces, pairs.notes) == (9, 9, ())


def test_three_folds_of_one_pair_of_each_kind(tmp_path):
    root = write_faces(tmp_path / "lfw", LFW_FACES)
    lines = ["3 1", "Ann 1 2", "Ann 1 Bob 1", "Cid 1 2", "Cid 1 Bob 1", "Dee 1 2", "Dee 1 Bob 2"]
    pairs = read_lfw_pairs(write_list(tmp_path / "pairs.txt", *lines), root)
    assert pairs.fold.tolist() == [1, 1, 2, 2, 3, 3]
    assert pairs.same.tolist() == [True, False] * 3


@pytest.mark.nightly
@pytest.mark.skipif(not (DATA / "lfw").is_dir(), reason="EQUIPOISE_DATA has no lfw")
def test_the_real_list_of_lfw(tmp_path, monkeypatch):
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path))
    (archive,) = (DATA / "lfw").glob("*.tar.xz")
    with pytest.raises(InvalidInputError, match="to leave 395 of 6,000 pairs out"):
        read_lfw_pairs(DATA / "lfw" / "pairs.txt", archive)
    pairs = read_lfw_pairs(DATA / "lfw" / "pairs.txt", archive, skip_missing=True)
    assert (len(pairs), int(pairs.same.sum()), pairs.faces) == (5_605, 2_803, 7_292)
    who = np.array([name.rsplit("/", 1)[-1].rsplit("_", 1)[0] for name in pairs.files])
    assert ((who[pairs.first] == who[pairs.second]) == pairs.same).all()
    people = [set(who[np.concatenate([pairs.first[pairs.fold == fold], pairs.second[pairs.fold == fold]])])
              for fold in range(1, 11)]  # fmt: skip
    assert sum(map(len, people)) == len(set().union(*people)) == len(pairs.people), "no person is in two folds"


def test_each_image_is_read_once(tmp_path):
    root = write_faces(tmp_path / "lfw", LFW_FACES)
    pairs = read_lfw_pairs(write_list(tmp_path / "pairs.txt", *LFW_LINES), root)
    pixels = pairs.images((8, 8), 3)
    assert pixels.shape == (9, 3, 8, 8)
    assert len(set(pairs.files)) == 9


def test_missing_images_are_refused_or_counted(tmp_path):
    root = write_faces(tmp_path / "lfw", [name for name in LFW_FACES if name != "Ann_0003.jpg"])
    path = write_list(tmp_path / "pairs.txt", *LFW_LINES)
    with pytest.raises(InvalidInputError, match=r"names 'Ann_0003', which is not in .* to leave 2 of 8 pairs out"):
        read_lfw_pairs(path, root)
    pairs = read_lfw_pairs(path, root, skip_missing=True)
    assert pairs.fold.tolist() == [1, 1, 2, 2, 2, 2]
    assert pairs.notes == ("2 of 8 pairs are left out: 'Ann_0003' is not there.",)


def test_a_fold_without_a_pair_is_refused(tmp_path):
    root = write_faces(tmp_path / "lfw", [name for name in LFW_FACES if name.startswith(("Cid", "Dee"))])
    path = write_list(tmp_path / "pairs.txt", *LFW_LINES)
    with pytest.raises(InvalidInputError, match=r"fold 1 of 2 has no pair in pairs\.txt"):
        read_lfw_pairs(path, root, skip_missing=True)
    (tmp_path / "others").mkdir()
    write_faces(tmp_path / "others", ["Zoe_0001.jpg"])
    with pytest.raises(InvalidInputError, match=r"none of the pairs of pairs\.txt is in"):
        read_lfw_pairs(path, tmp_path / "others", skip_missing=True)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["10"], "must list 1 × 2 × 10 = 20 pairs as its first line says, got 0"),
        (["2 2", *LFW_LINES[1:-1]], "must list 2 × 2 × 2 = 8 pairs as its first line says, got 7"),
        (["Ann 1 2"], "must begin with the number of folds and of pairs"),
        (["0 2"], "must begin with the number of folds and of pairs"),
        (["1 1", "Ann 1", "Ann 1 Bob 1"], "line 2 of pairs.txt must be 'name 1 2' or 'name 1 name 2'"),
        (["1 1", "Ann 1 x", "Ann 1 Bob 1"], r"line 2 of pairs.txt must number its images, got \['1', 'x'\]"),
        (["2 1", "Ann 1 1", "Ann 1 Bob 1", "Cid 1 2", "Cid 1 Dee 1"], "pairs 'Ann_0001' with itself in line 2"),
        ([""], "lists no pair"),
    ],
)
def test_a_damaged_list_of_lfw(tmp_path, lines, said):
    root = write_faces(tmp_path / "lfw", LFW_FACES)
    with pytest.raises(InvalidInputError, match=said):
        read_lfw_pairs(write_list(tmp_path / "pairs.txt", *lines), root)


def test_a_face_that_is_there_twice_is_refused(tmp_path):
    root = write_faces(tmp_path / "lfw", [*LFW_FACES, "Zoe_0001.jpg", "others/Zoe_0001.jpg"])
    assert len(read_lfw_pairs(write_list(tmp_path / "pairs.txt", *LFW_LINES), root)) == 8  # Zoe is in no pair
    write_faces(root, ["funneled/Ann_0001.png"])
    with pytest.raises(InvalidInputError, match=r"'Ann_0001.jpg' and 'funneled/Ann_0001.png', both Ann_0001"):
        read_lfw_pairs(write_list(tmp_path / "pairs.txt", *LFW_LINES), root)


YTF_LINES = ("split number, pair number, first name, second name, is same?", "1, 1, Ann/0, Ann/2, 1")
YTF_LINES += ("1, 2, Ann/0, Bob/1, 0", "2, 1, Bob/1, Bob/3, 1", "2, 2, Ann/2, Bob/3, 0")
YTF_FACES = [
    f"frames/{video}/{number}.jpg" for video in ("Ann/0", "Ann/2", "Bob/1", "Bob/3") for number in range(2, 12)
]


def test_videos_are_their_frames(tmp_path):
    root = write_faces(tmp_path / "ytf", [*YTF_FACES, "frames/Cid/0/1.jpg"])
    pairs = read_ytf_pairs(write_list(tmp_path / "splits.txt", *YTF_LINES), root)
    assert np.bincount(pairs.face).tolist() == [10, 10, 10, 10]
    assert len({name for name in pairs.files if name.startswith("frames/Ann/0/")}) == 10
    assert [(same, fold) for _, _, same, fold in named(pairs)] == [(True, 1), (False, 1), (True, 2), (False, 2)]
    assert pairs.people == ("Ann", "Bob")
    of_pair = [{name.rsplit("/", 1)[0] for name, face in zip(pairs.files, pairs.face, strict=True) if face == a}
               for a in (pairs.first[2], pairs.second[2])]  # fmt: skip
    assert of_pair == [{"frames/Bob/1"}, {"frames/Bob/3"}]


def test_frames_are_spread_over_a_video_in_their_order(tmp_path):
    root = write_faces(tmp_path / "ytf", YTF_FACES)
    pairs = read_ytf_pairs(write_list(tmp_path / "splits.txt", *YTF_LINES[1:]), root, frames=2)
    assert [name for name in pairs.files if "Ann/0" in name] == ["frames/Ann/0/4.jpg", "frames/Ann/0/9.jpg"]
    with pytest.raises(InvalidInputError, match="must be at least 1, got 0"):
        read_ytf_pairs(tmp_path / "splits.txt", root, frames=0)


def test_two_kinds_of_frames_of_one_video_are_refused(tmp_path):
    root = write_faces(tmp_path / "ytf", [*YTF_FACES, "aligned/Ann/0/2.jpg"])
    with pytest.raises(InvalidInputError, match=r"holds the video 'Ann/0' in 'aligned/Ann/0' and in 'frames/Ann/0'"):
        read_ytf_pairs(write_list(tmp_path / "splits.txt", *YTF_LINES), root)


@pytest.mark.parametrize("line", ["1, 1, Ann/0, Ann/2", "one, 1, Ann/0, Ann/2, 1", "1, 1, Ann/0, Ann/2, 2"])
def test_a_damaged_line_of_ytf(tmp_path, line):
    root = write_faces(tmp_path / "ytf", YTF_FACES)
    with pytest.raises(
        InvalidInputError, match=r"line 2 of splits\.txt must be 'split, number, Name/1, Name/2, 0 or 1'"
    ):
        read_ytf_pairs(write_list(tmp_path / "splits.txt", YTF_LINES[0], line), root)


FACES = ["a/1.png", "a/2.png", "b/1.png", "b/2 x.png"]


@pytest.mark.parametrize("lines", [
    ["a/1.png a/2.png 1 1", "a/1.png b/1.png 0 2"],
    ["a/1.png,a/2.png,1,1", "# a comment", "", "a/1.png,b/1.png,0,2"],
    ["./a/1.png\ta\\2.png\t1\t1", "a/1.png\tb/1.png\t0\t2"],
    ["a/1.png a/2.png true 1", "a/1.png b/1.png False 2"],
])  # fmt: skip
def test_plain_lists(tmp_path, lines):
    pairs = read_pair_list(write_list(tmp_path / "list.txt", *lines), write_faces(tmp_path / "faces", FACES))
    assert named(pairs) == [("a/1.png", "a/2.png", True, 1), ("a/1.png", "b/1.png", False, 2)]
    assert pairs.people == ("a", "b")


def test_names_with_spaces_need_tabs(tmp_path):
    root = write_faces(tmp_path / "faces", FACES)
    with pytest.raises(InvalidInputError, match=r"line 1 of list.txt must be 'path path 0/1'.* need tabs"):
        read_pair_list(write_list(tmp_path / "list.txt", "a/1.png b/2 x.png 0"), root)
    lines = ["a/1.png\tb/2 x.png\t0", "a/1.png\ta/2.png\t1"] * 2
    assert named(read_pair_list(write_list(tmp_path / "list.txt", *lines), root))[0][1] == "b/2 x.png"


def test_a_list_without_folds_is_cut_into_tenths(tmp_path):
    lines = ["a/1.png a/2.png 1", "a/1.png b/1.png 0"] * 15
    pairs = read_pair_list(write_list(tmp_path / "list.txt", *lines), write_faces(tmp_path / "faces", FACES))
    assert pairs.fold.tolist() == sorted([*range(1, 11)] * 3)
    assert pairs.notes == ()


def test_a_list_sorted_by_kind_is_dealt_kind_by_kind(tmp_path):
    lines = ["a/1.png a/2.png 1"] * 20 + ["a/1.png b/1.png 0"] * 30
    pairs = read_pair_list(write_list(tmp_path / "list.txt", *lines), write_faces(tmp_path / "faces", FACES))
    assert pairs.fold[pairs.same].tolist() == sorted([*range(1, 11)] * 2)
    assert pairs.fold[~pairs.same].tolist() == sorted([*range(1, 11)] * 3)
    assert pairs.notes == ("list.txt is sorted by kind: each kind of pair is divided into 10 folds by itself.",)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["a/1.png a/2.png 1 1", "a/1.png b/1.png 0 3"], r"fold 2 of 3 has no pair in list\.txt"),
        (["a/1.png a/2.png 1 1", "a/1.png b/1.png 0 1"], r"there is only one fold in list\.txt"),
        (["a/1.png a/2.png 1 1", "a/1.png b/1.png 0"], "gives the fold of only some pairs"),
        (["a/1.png a/2.png 1 0"], r"line 1 of list\.txt must have a fold from 1 to 1000, got '0'"),
        (["a/1.png a/2.png 1 99999999"], "must have a fold from 1 to 1000"),
        (["a/1.png a/2.png 2"], "must be 'path path 0/1'"),
        (["a/1.png a/2.png 1"] * 3, "has 3 pairs of one person and 0 of two"),
        (["a/1.png ../secret.png 1"], r"none of the pairs"),
    ],
)
def test_what_a_plain_list_must_not_hold(tmp_path, lines, said):
    (tmp_path / "secret.png").write_bytes(encoded())
    with pytest.raises(InvalidInputError, match=said):
        read_pair_list(write_list(tmp_path / "list.txt", *lines), write_faces(tmp_path / "faces", FACES))


def test_what_is_no_list(tmp_path):
    root = write_faces(tmp_path / "faces", FACES)
    (tmp_path / "list.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidInputError, match=r"not UTF-8 text.*bin file needs its suffix"):
        read_pair_list(tmp_path / "list.txt", root)
    with pytest.raises(InvalidInputError, match="No such file"):
        read_pair_list(tmp_path / "gone.txt", root)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInputError, match="no images found in"):
        read_pair_list(write_list(tmp_path / "list.txt", "a/1.png a/2.png 1"), tmp_path / "empty")


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tmp_path_factory, content):
    folder = tmp_path_factory.getbasetemp() / "any"
    if not folder.exists():
        write_faces(folder / "faces", FACES)
    (folder / "list.txt").write_bytes(content)
    for read in (read_lfw_pairs, read_ytf_pairs, read_pair_list):
        with pytest.raises(InvalidInputError, match=r"list\.txt"):
            read(folder / "list.txt", folder / "faces")


@given(st.integers(2, 200), st.integers(2, 12))
def test_consecutive_folds_are_kept_in_order_and_even(pairs, folds):
    fold = consecutive_folds(pairs, folds)
    sizes = np.bincount(fold, minlength=folds + 1)[1:]
    assert len(fold) == pairs
    assert (np.diff(fold) >= 0).all()
    assert sizes.max() - sizes.min() <= 1


def test_encoded_images_are_decoded_at_the_size_asked_for():
    images = EncodedImages((encoded(0), encoded(1), b"broken"), (4, 6), 1)
    assert images[0:2].shape == (2, 1, 4, 6)
    with pytest.raises(
        InvalidInputError, match=r"image 3 of 3 cannot be read \(it is not an image of a known format\)"
    ):
        images[2:3]
