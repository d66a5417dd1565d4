"""CelebA's lists and images."""

import numpy as np
import pytest

from equipoise.errors import InvalidInputError
from equipoise.paper.sets.celeba import read_attributes, read_celeba, read_partition
from tests.paper.sets.layouts import celeba


def test_attributes_and_parts(tmp_path):
    values = celeba(tmp_path)
    samples = read_celeba(tmp_path)
    assert samples.x.shape == (6, 3, 218, 178)
    assert np.array_equal(samples.y, values == 1)
    assert samples.multilabel
    assert samples.attributes == tuple(f"Attribute_{number}" for number in range(40))
    assert samples.partition.tolist() == ["train", "train", "val", "test", "test", "train"]
    assert [path.name for path in samples.x.paths] == [f"{number:06d}.jpg" for number in range(1, 7)]
    assert samples.notes == ()


@pytest.mark.parametrize("image_folder", ["Img/img_align_celeba", "img_align_celeba/img_align_celeba"])
def test_the_official_folders(tmp_path, image_folder):
    celeba(tmp_path / "made")
    for old, new in (
        ("img_align_celeba", image_folder),
        ("list_attr_celeba.txt", "Anno/list_attr_celeba.txt"),
        ("list_eval_partition.txt", "Eval/list_eval_partition.txt"),
    ):
        place = tmp_path / "official" / new
        place.parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "made" / old).rename(place)
    assert len(read_celeba(tmp_path / "official")) == 6


def test_images_that_are_not_there_are_left_out(tmp_path):
    values = celeba(tmp_path)
    (tmp_path / "img_align_celeba" / "000002.jpg").unlink()
    samples = read_celeba(tmp_path)
    assert np.array_equal(samples.y, np.delete(values, 1, axis=0) == 1)
    assert samples.partition.tolist() == ["train", "val", "test", "test", "train"]
    assert samples.notes == ("1 images of list_attr_celeba.txt are not there and were left out.",)


def test_what_does_not_fit_together_is_one_sentence(tmp_path):
    celeba(tmp_path)
    lines = (tmp_path / "list_eval_partition.txt").read_text().splitlines(keepends=True)
    (tmp_path / "list_eval_partition.txt").write_text("".join(lines[:-1]))
    with pytest.raises(InvalidInputError, match=r"must give the part of every image, but has no 000006.jpg"):
        read_celeba(tmp_path)
    for path in (tmp_path / "img_align_celeba").iterdir():
        path.rename(path.with_name("x" + path.name))
    with pytest.raises(InvalidInputError, match=r"none of the images of list_attr_celeba.txt is in"):
        read_celeba(tmp_path)
    (tmp_path / "list_eval_partition.txt").unlink()
    with pytest.raises(InvalidInputError, match=r"list_eval_partition.txt is not in"):
        read_celeba(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda _: "", r"must start with the number of images and a line of 40 attributes, got '' and 0"),
        (lambda text: text.replace("6\n", "six\n", 1), r"got 'six' and 40"),
        (lambda text: text.replace("Attribute_3 ", "", 1), r"got '6' and 39"),
        (lambda text: text.replace("Attribute_3 ", "Attribute_4 ", 1), r"got '6' and 40"),
        (lambda text: text.replace("6\n", "7\n", 1), r"says that it lists 7 images, and lists 6"),
        (lambda text: text.replace("000002.jpg", "000001.jpg"), r"says that it lists 6 images, and lists 5"),
        (lambda text: text + "\n", r"line 9 of .* must be a file name and 40 times 1 or -1"),
        (lambda text: text.replace("000002.jpg", "../../etc/passwd"), r"line 4 of .* must be a file name"),
        (lambda text: text.rstrip()[:-2] + " 0\n", r"line 8 of .* must be a file name and 40 times 1 or -1"),
        (lambda text: text.rstrip() + " 1\n", r"line 8 of .* must be"),
    ],
)
def test_a_damaged_list_of_attributes_names_the_line(tmp_path, change, message):
    celeba(tmp_path)
    path = tmp_path / "list_attr_celeba.txt"
    path.write_text(change(path.read_text()))
    with pytest.raises(InvalidInputError, match=message):
        read_attributes(path)


@pytest.mark.parametrize("line", ["000001.jpg 3", "000001.jpg", "000001.jpg 0 0", ""])
def test_a_damaged_partition_names_the_line(tmp_path, line):
    path = tmp_path / "list_eval_partition.txt"
    path.write_text(f"000000.jpg 1\n{line}\n")
    with pytest.raises(InvalidInputError, match=r"line 2 of .* must be a file name and 0, 1 or 2"):
        read_partition(path)
    path.write_bytes(b"\xff\xfe\xff")
    with pytest.raises(InvalidInputError, match=r"cannot be read \(not UTF-8 text"):
        read_partition(path)
