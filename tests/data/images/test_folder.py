"""A folder with a folder per class, as people have them: with everything else that lies in such folders."""

import os
import shutil
import tarfile
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from equipoise.data.images import Images, read_images
from equipoise.data.images.scan import scan
from equipoise.errors import InvalidInputError
from tests.data.images.pictures import class_folder, noise, write


def notes(samples) -> str:
    return " ".join(samples.notes)


def test_the_first_folder_is_the_class_and_the_order_is_sorted(tmp_path):
    class_folder(tmp_path, {"dog": 2, "cat": 1})
    write(tmp_path / "cat" / "more" / "deep" / "x.jpg", 9)
    samples = read_images(tmp_path)
    assert samples.x.names == ["cat/0.png", "cat/more/deep/x.jpg", "dog/0.png", "dog/1.png"]
    assert samples.y.tolist() == ["cat", "cat", "dog", "dog"]
    assert isinstance(samples.x, Images)
    assert samples.x.shape == (4, 3, 40, 40)
    assert samples.partition is None
    assert np.array_equal(samples.x[2], noise(0)[:, 4:44].transpose(2, 0, 1))


@pytest.mark.parametrize(
    "label", ["two words", "Größe 漢字", "<b>&amp;</b>", "a,b;c", "007", "NA", " lead", "per%cent"]
)
def test_labels_are_the_folders_names_verbatim(label, tmp_path):
    safe = label.replace("/", "∕")  # a name cannot hold the separator itself
    samples = read_images(class_folder(tmp_path, {safe: 1, "other": 1}))
    assert sorted(samples.y.tolist()) == sorted([safe, "other"])


def test_hidden_and_foreign_files_are_passed_over_and_only_the_visible_ones_noted(tmp_path):
    class_folder(tmp_path, {"cat": 1, "dog": 1})
    for name in ("Thumbs.db", "notes.txt", ".DS_Store", "._0.png", "upper.PNG.part"):
        (tmp_path / "cat" / name).write_bytes(b"x")
    shutil.copy(tmp_path / "cat" / "0.png", tmp_path / "cat" / "B.PNG")
    class_folder(tmp_path / ".hidden", {"x": 1})
    class_folder(tmp_path / "__MACOSX", {"cat": 1})
    samples = read_images(tmp_path)
    assert samples.x.names == ["cat/0.png", "cat/B.PNG", "dog/0.png"]
    assert "'cat/Thumbs.db', 'cat/notes.txt', 'cat/upper.PNG.part' are not images and are ignored." in samples.notes


def test_more_than_three_names_are_counted(tmp_path):
    class_folder(tmp_path, {"cat": 1, "dog": 1})
    for number in range(5):
        (tmp_path / f"{number}.txt").touch()
    assert "'0.txt', '1.txt', '2.txt' and 2 more are not images and are ignored." in read_images(tmp_path).notes


def test_an_empty_class_folder_is_left_out_and_noted(tmp_path):
    class_folder(tmp_path, {"cat": 1, "dog": 1, "emu": 0})
    samples = read_images(tmp_path)
    assert "class 'emu' has no image and is left out." in samples.notes
    assert set(samples.y) == {"cat", "dog"}


@pytest.mark.parametrize(
    "names", [("train", "val", "test"), ("Training", "valid", "testing"), ("TRAIN", "validation", "Test")]
)
def test_train_val_and_test_are_the_official_partition(names, tmp_path):
    for seed, name in enumerate(names):
        write(tmp_path / name / "cat" / "x.png", 2 * seed)
        write(tmp_path / name / "dog" / "deep" / "x.png", 2 * seed + 1)
    samples = read_images(tmp_path)
    assert {part: samples.part(part).y.tolist() for part in ("train", "val", "test")} == {
        part: ["cat", "dog"] for part in ("train", "val", "test")
    }
    assert samples.part("val").x.names == [f"{names[1]}/cat/x.png", f"{names[1]}/dog/deep/x.png"]


def test_a_train_folder_alone_is_no_partition_and_one_beside_classes_is_a_class(tmp_path):
    class_folder(tmp_path / "a" / "train", {"cat": 1, "dog": 1})
    alone = read_images(tmp_path / "a")
    assert alone.partition is None
    assert alone.y.tolist() == ["cat", "dog"]
    class_folder(tmp_path / "b", {"train": 1, "bus": 1, "test": 1})  # pictures of trains
    assert set(read_images(tmp_path / "b").y) == {"train", "bus", "test"}


def test_names_of_parts_are_classes_unless_all_are_parts_and_one_is_train(tmp_path):
    for number, name in enumerate(("a/test/cat", "a/val/cat", "b/train/cat", "b/bus/big", "c/train/cat", "c/val/dog")):
        write(tmp_path / name / "x.png", number)
    assert read_images(tmp_path / "a").y.tolist() == ["test", "val"]
    assert read_images(tmp_path / "b").y.tolist() == ["bus", "train"]
    divided = read_images(tmp_path / "c")
    assert divided.y.tolist() == ["cat", "dog"]
    assert divided.partition.tolist() == ["train", "val"]


def test_a_test_folder_without_classes_is_no_part(tmp_path):
    class_folder(tmp_path / "train", {"cat": 1, "dog": 1})
    write(tmp_path / "test" / "1.png", 7)
    samples = read_images(tmp_path)
    assert samples.y.tolist() == ["cat", "dog"]
    assert samples.partition is None


def test_one_class_with_a_folder_inside_is_still_one_class(tmp_path):
    write(tmp_path / "cat" / "sub" / "x.png")
    with pytest.raises(InvalidInputError, match="all 1 images are of one class, 'cat'"):
        read_images(tmp_path)


def test_a_class_without_training_images_and_images_without_a_class_are_noted(tmp_path):
    class_folder(tmp_path / "train", {"cat": 1, "dog": 1})
    write(tmp_path / "test" / "emu" / "x.png", 7)
    write(tmp_path / "test" / "loose.png", 8)
    samples = read_images(tmp_path)
    assert "class 'emu' has no image in train." in samples.notes
    assert "'test/loose.png' is outside any class folder." in samples.notes
    assert len(samples) == 3


def test_a_folder_around_the_class_folders_is_stepped_into(tmp_path):
    class_folder(tmp_path / "photos" / "v1", {"cat": 1, "dog": 2})
    (tmp_path / "readme.txt").touch()
    samples = read_images(tmp_path)
    assert samples.y.tolist() == ["cat", "dog", "dog"]
    assert "the classes are the folders in 'photos/v1'." in samples.notes


def test_images_without_class_folders_say_what_is_expected(tmp_path):
    write(tmp_path / "1.png")
    with pytest.raises(InvalidInputError, match=r"1 images but no folder per class; .* or give a CSV .*--labels"):
        read_images(tmp_path)


def test_no_image_one_class_or_no_folder_are_errors(tmp_path):
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "x.txt").touch()
    with pytest.raises(InvalidInputError, match=r"no images found in .*expected files such as cat/1\.jpg"):
        read_images(tmp_path)
    write(tmp_path / "cat" / "x.png")
    with pytest.raises(InvalidInputError, match="all 1 images are of one class, 'cat'; a classifier needs"):
        read_images(tmp_path)
    with pytest.raises(InvalidInputError, match="is not a folder or archive; give the folder that holds the images"):
        read_images(tmp_path / "none")
    with pytest.raises(InvalidInputError, match="columns of a CSV; give it"):
        read_images(tmp_path, target="dx")


def test_loops_of_links_end_and_true_folders_come_before_links(tmp_path):
    class_folder(tmp_path / "photos", {"ant": 1, "bee": 1})
    (tmp_path / "photos" / "ant" / "up").symlink_to(tmp_path / "photos")
    (tmp_path / "photos" / "ant" / "over").symlink_to(tmp_path / "photos" / "bee")
    (tmp_path / "photos" / "self").symlink_to(tmp_path / "photos" / "self")
    class_folder(tmp_path / "elsewhere", {"cow": 2})
    (tmp_path / "photos" / "cow").symlink_to(tmp_path / "elsewhere" / "cow")
    samples = read_images(tmp_path / "photos")
    assert samples.x.names == ["ant/0.png", "bee/0.png", "cow/0.png", "cow/1.png"]
    assert "'ant/over', 'ant/up' are links to folders read once." in samples.notes


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_link_that_leads_nowhere_and_a_pipe_are_passed_over(tmp_path):
    class_folder(tmp_path, {"ant": 1, "bee": 1})
    (tmp_path / "ant" / "gone.png").symlink_to(tmp_path / "nothing.png")
    os.mkfifo(tmp_path / "ant" / "pipe.png")  # whoever opens it waits for ever
    samples = read_images(tmp_path)
    assert len(samples) == 2
    assert "'ant/gone.png' is a link that leads nowhere and is ignored." in samples.notes
    assert "'ant/pipe.png' is not an image and is ignored." in samples.notes


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can become a user without rights")
def test_folders_without_the_right_to_write_or_read(monkeypatch):
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        photos, closed = class_folder(root / "photos", {"ant": 1, "bee": 1}), root / "photos" / "ant" / "closed"
        closed.mkdir()
        (root / "cache").mkdir()
        monkeypatch.setenv("EQUIPOISE_CACHE", str(root / "cache"))
        for path in [root, *root.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        closed.chmod(0o000)
        os.seteuid(65_534)
        try:
            samples = read_images(photos)
        finally:
            os.seteuid(0)
    assert samples.y.tolist() == ["ant", "bee"]
    assert "'ant/closed' is a folder that may not be read." in samples.notes


@pytest.mark.parametrize("kind", ["tar.xz", "zip"])
def test_an_archive_is_read_like_its_folder(kind, tmp_path):
    folder = class_folder(tmp_path / "photos", {"cat": 2, "dog": 1})
    archive = tmp_path / f"photos.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(archive, "w") as file:
            for path in folder.rglob("*.png"):
                file.write(path, path.relative_to(tmp_path))
    else:
        with tarfile.open(archive, "w:xz") as file:
            file.add(folder, "photos")
    packed, plain = read_images(archive), read_images(folder)
    assert packed.y.tolist() == plain.y.tolist()
    assert np.array_equal(packed.x[:], plain.x[:])


@pytest.mark.parametrize(
    ("shape", "side"),
    [((10, 90), 32), ((35, 90), 32), ((36, 99), 32), ((37, 37), 40), ((100, 64), 64), ((600, 230), 224)],
)
def test_the_size_follows_the_median_shorter_side(shape, side, tmp_path):
    class_folder(tmp_path, {"cat": 2, "dog": 1}, height=shape[0], width=shape[1])
    write(tmp_path / "dog" / "odd.png", 50, height=300, width=300)
    samples = read_images(tmp_path)
    assert samples.x.shape[2:] == (side, side)
    assert f"the median shorter side is {min(shape)} pixels: images are read at {side} × {side}." in samples.notes


def test_channels_follow_the_images_and_both_can_be_given(tmp_path):
    class_folder(tmp_path, {"cat": 2, "dog": 1}, channels=1)
    grey = read_images(tmp_path)
    assert grey.x.shape[1] == 1
    assert "every image is grey: one channel is read." in grey.notes
    write(tmp_path / "dog" / "c.png", 50)
    colour = read_images(tmp_path)
    assert colour.x.shape[1] == 3
    assert "1 of 4 images have colour: three channels are read." in colour.notes
    given = read_images(tmp_path, size=(8, 16), channels=1, fit="stretch")
    assert given.x.shape == (4, 1, 8, 16)
    assert given.x.fit == "stretch"
    assert given.notes == ()
    assert read_images(tmp_path, size=24).x.size == (24, 24)


def test_names_that_are_no_utf8_are_read_and_their_label_can_be_written(tmp_path):
    class_folder(tmp_path, {"cat": 1})
    folder = os.path.join(os.fsencode(tmp_path), b"caf\xe9")
    os.mkdir(folder)
    Image.fromarray(noise(3)).save(os.fsdecode(os.path.join(folder, b"\xff.png")), "PNG")
    samples = read_images(tmp_path)
    assert samples.y.tolist() == ["caf�", "cat"]
    assert samples.x[:].shape == (2, 3, 40, 40)


@given(
    st.lists(
        st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="/\0"), min_size=1, max_size=20),
        max_size=8,
    )
)
def test_any_names_are_scanned(names):
    with tempfile.TemporaryDirectory() as root:
        wanted = set()
        for name in names:
            if name.startswith(".") or len(os.fsencode(name)) > 100:
                continue
            path = Path(root) / name / "x.png"
            if name in ("__MACOSX", "@eaDir"):
                continue
            path.parent.mkdir(exist_ok=True)
            path.touch()
            wanted.add(f"{name}/x.png")
        assert scan(Path(root)).images == sorted(wanted)


@pytest.mark.parametrize("check", [True, False])
def test_deep_images_that_use_few_of_their_bits_are_noted(check, tmp_path):
    for number, name in enumerate(("cat", "dog")):
        (tmp_path / name).mkdir()
        values = np.full((8, 8), 3000 + number, dtype=np.uint16)
        Image.fromarray(values).save(tmp_path / name / "x.png")
    expected = (
        "the 16-bit images hold no value above 3001 of 65,535, so only 12 of 256 shades are left; multiply their "
        "values by 16 to use all."
    )
    assert expected in read_images(tmp_path, check=check).notes
    Image.fromarray(np.full((8, 8), 2**13, dtype=np.uint16)).save(tmp_path / "dog" / "y.png")
    assert "16-bit" not in notes(read_images(tmp_path, check=check))
    write(tmp_path / "dog" / "y.png")
    assert expected in read_images(tmp_path, check=check).notes
