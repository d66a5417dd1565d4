"""Every file is decoded once before training; what is broken is named, left out and counted."""

import hashlib
import os
import shutil

import numpy as np
import pytest
from PIL import Image

from equipoise.data.images import duplicate_note, read_images
from equipoise.data.images.check import check_files, inspect_files, tolerate
from equipoise.data.images.file_table import FileTable
from equipoise.errors import InvalidInputError
from tests.data.images.pictures import class_folder, encoded, noise, write

SMALL = {"height": 3, "width": 4}


def broken_among(tmp_path, good: int):
    """200 small pictures and a broken one of each kind."""
    root = class_folder(tmp_path / "photos", {"cat": good // 2, "dog": good // 2}, **SMALL)
    (root / "cat" / "empty.jpg").touch()
    whole = encoded(Image.fromarray(noise(5)), "JPEG")
    (root / "dog" / "half.jpg").write_bytes(whole[: len(whole) // 2])
    (root / "dog" / "bomb.png").write_bytes(encoded(Image.new("1", (10_000, 9_000))))
    return root


def test_broken_files_are_listed_skipped_and_counted(tmp_path):
    samples = read_images(broken_among(tmp_path, 300))
    assert len(samples) == len(samples.y) == 300
    assert [name for name, _ in samples.x.skipped] == ["cat/empty.jpg", "dog/bomb.png", "dog/half.jpg"]
    assert dict(samples.x.skipped)["cat/empty.jpg"] == "the file is empty"
    note = next(note for note in samples.notes if "cannot be read" in note)
    assert note.startswith("3 of 303 image files cannot be read; left out: 'cat/empty.jpg' (the file is empty), ")
    assert "10000 × 9000 pixels" in note
    assert not {"cat/empty.jpg", "dog/bomb.png", "dog/half.jpg"} & set(samples.x.names)
    assert samples.x[:].shape == (300, 3, 32, 32)
    hashed = [hashlib.blake2b(path.read_bytes(), digest_size=16).digest() for path in samples.x.paths]
    assert [digest.tobytes() for digest in samples.x.digests] == hashed
    assert [label for label, name in zip(samples.y, samples.x.names, strict=True) if not name.startswith(label)] == []


def test_too_many_are_an_error_that_names_the_first(tmp_path):
    root = broken_among(tmp_path, 26)
    with pytest.raises(
        InvalidInputError,
        match=r"3 of 29 image files cannot be read, more than the 2 .*'cat/empty\.jpg' \(the file is empty\); rep",
    ):
        read_images(root)
    assert len(read_images(root, check=False, size=8, channels=3)) == 29


@pytest.mark.parametrize(
    ("total", "allowed"), [(9, 0), (10, 1), (19, 1), (20, 2), (30, 3), (99, 3), (399, 3), (400, 4), (1000, 10)]
)
def test_one_in_a_hundred_is_tolerated_and_up_to_three_of_fewer(total, allowed):
    bad = [str(place) for place in range(allowed + 1)]
    if allowed:
        assert tolerate(bad[:-1], total, what="are odd", remedy="y").startswith(
            f"{allowed} of {total} are odd; left out"
        )
    with pytest.raises(
        InvalidInputError, match=f"{allowed + 1} of {total} are odd, more than the {allowed} that may be"
    ):
        tolerate(bad, total, what="are odd", remedy="y")


def test_what_is_tolerated_is_named():
    assert tolerate([], 0, what="x", remedy="y") is None
    assert tolerate(["a"], 100, what="files are odd", remedy="y") == "1 of 100 files are odd; left out: a."
    assert tolerate(list("abcd"), 400, what="are odd", remedy="y") == "4 of 400 are odd; left out: a, b, c and 1 more."
    with pytest.raises(InvalidInputError, match=r"2 of 19 are odd, .* the first a; look\.$"):
        tolerate(["a", "b"], 19, what="are odd", remedy="look")


def test_processes_find_what_one_process_finds_in_the_same_order(tmp_path, monkeypatch):
    monkeypatch.setattr("equipoise.data.images.check.FILES_AT_ONCE", 3)
    root = broken_among(tmp_path, 40)
    names = sorted(str(path.relative_to(root)) for path in root.rglob("*.*g"))
    table, steps = FileTable.of(root, names), []
    two = check_files(table, workers=2, progress=lambda done, total: steps.append((done, total)))
    assert steps == [(min(3 * step, 43), 43) for step in range(1, 16)]
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "other"))
    one = check_files(table, workers=1)
    for name in ("digests", "shapes", "grey", "deepest", "reasons", "passing"):
        assert np.array_equal(getattr(one, name), getattr(two, name)), name
    good = np.flatnonzero(one.reasons == "")
    assert good.tolist() == [row for row, name in enumerate(names) if name.split("/")[1][0].isdigit()]
    assert one.shapes[good].tolist() == [[3, 4]] * 40
    assert len({digest.tobytes() for digest in one.digests}) == 43


def test_the_second_start_reads_no_file_until_one_changes(tmp_path):
    root = class_folder(tmp_path / "photos", {"cat": 2, "dog": 2})
    first, calls = read_images(root), []
    again = read_images(root, progress=lambda *step: calls.append(step))
    assert calls == []
    assert again.x.fingerprint() == first.x.fingerprint()
    assert np.array_equal(again.x.digests, first.x.digests)
    for path in root.rglob("*.png"):  # the same size and time, another content
        status = path.stat()
        path.write_bytes(b"\0" * status.st_size)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    with pytest.raises(InvalidInputError, match="4 of 4 image files cannot be read"):
        read_images(root)


def test_another_pillow_looks_anew(tmp_path, monkeypatch):
    root, calls = class_folder(tmp_path / "photos", {"cat": 2, "dog": 2}), []
    read_images(root)
    monkeypatch.setattr("PIL.__version__", "1.0")
    read_images(root, progress=lambda *step: calls.append(step))
    assert calls == [(4, 4)]


def test_a_file_that_could_not_be_opened_is_tried_again_and_the_others_are_not(tmp_path):
    root, steps = class_folder(tmp_path / "photos", {"cat": 3}), []
    (root / "cat" / "0.png").write_bytes(b"no image")
    table = FileTable.of(root, ["cat/0.png", "cat/1.png", "cat/2.png"])
    (root / "cat" / "1.png").rename(root / "away")
    first = check_files(table)
    assert first.reasons.tolist() == ["it is not an image of a known format", "No such file or directory", ""]
    assert first.passing.tolist() == [False, True, False]
    (root / "away").rename(root / "cat" / "1.png")
    for expected in ([(1, 1)], [(1, 1)]):  # from now on nothing is left to try
        again = check_files(table, progress=lambda *step: steps.append(step))
        assert steps == expected
        assert again.reasons.tolist() == ["it is not an image of a known format", "", ""]
        assert not again.passing.any()
        assert again.shapes.tolist() == [[0, 0], [40, 48], [40, 48]]
        digest = hashlib.blake2b((root / "cat" / "1.png").read_bytes(), digest_size=16).digest()
        assert [row.tobytes() for row in again.digests][1:] == [digest, first.digests[2].tobytes()]


def test_no_file_gives_no_finding(tmp_path):
    found = check_files(FileTable.of(tmp_path, []))
    assert found.digests.shape == (0, 16)
    assert found.shapes.shape == (0, 2)


@pytest.mark.parametrize("damage", [b"", b"PK nonsense", None])
def test_a_damaged_or_unwritable_memory_costs_time_only(damage, tmp_path, own_cache):
    root = class_folder(tmp_path / "photos", {"cat": 1, "dog": 1})
    read_images(root)
    memory = next((own_cache / "verified").glob("*.npz"))
    if damage is None:
        shutil.rmtree(own_cache)
        own_cache.write_text("a file where the folder should be")
    else:
        memory.write_bytes(damage)
    assert len(read_images(root)) == 2


def test_the_same_picture_in_two_classes_is_noted(tmp_path):
    root = class_folder(tmp_path, {"cat": 2, "dog": 2})
    shutil.copy(root / "cat" / "0.png", root / "cat" / "copy.png")
    assert not [note for note in read_images(root).notes if "another class" in note]
    shutil.copy(root / "cat" / "0.png", root / "dog" / "copy.png")
    expected = "1 image has the content of an image of another class, such as 'dog/copy.png' and 'cat/0.png'."
    assert expected in read_images(root).notes


def test_the_same_picture_on_both_sides_of_a_split_is_noted(tmp_path):
    root = class_folder(tmp_path, {"cat": 3, "dog": 3})
    for name in ("x", "y"):
        shutil.copy(root / "cat" / "0.png", root / "cat" / f"{name}.png")
    images = read_images(root).x
    names = images.names
    at = [names.index(name) for name in ("cat/0.png", "dog/0.png", "cat/x.png", "cat/y.png", "cat/1.png")]
    assert duplicate_note(images.take(at[:2]), images.take(at[4:])) is None
    assert duplicate_note(images.take(at[:2]), images.take(at[2:])) == (
        "2 of the 3 test images have the content of a training image ('cat/x.png', 'cat/y.png'): "
        "scores will be too optimistic."
    )
    unchecked = read_images(root, check=False).x
    assert duplicate_note(unchecked, unchecked) is None


def test_an_official_partition_is_searched_for_duplicates(tmp_path):
    class_folder(tmp_path / "train", {"cat": 2, "dog": 2})
    write(tmp_path / "test" / "cat" / "new.png", 50)
    write(tmp_path / "test" / "dog" / "same.png", 3)
    samples = read_images(tmp_path)
    assert [note for note in samples.notes if "test images" in note] == [
        "1 of the 2 test images has the content of a training image ('test/dog/same.png'): "
        "scores will be too optimistic."
    ]


def test_a_file_that_cannot_be_opened_is_a_finding_not_an_error(tmp_path):
    findings = inspect_files(
        [str(tmp_path / "gone.jpg"), str(write(tmp_path / "x.png", height=7, width=9, channels=1))]
    )
    assert findings[0][1:] == ((0, 0), False, 0, "No such file or directory", True)
    assert findings[1][1:] == ((7, 9), True, 0, "", False)
