"""CIFAR-10 in its two layouts; the pickles of its third are refused."""

import io
import tarfile

import numpy as np
import pytest

from equipoise.errors import InvalidInputError
from equipoise.paper.sets.cifar10 import NAMES, read_binary_batch, read_cifar10
from tests.paper.sets.layouts import cifar10_binary, cifar10_images


def assert_is(samples, arrays):
    pixels = np.concatenate([pixels for pixels, _ in arrays.values()])
    labels = [NAMES[label] for _, own in arrays.values() for label in own]
    assert np.array_equal(samples.x, pixels.reshape(-1, 3, 32, 32))
    assert samples.y.tolist() == labels
    assert samples.partition.tolist() == ["train"] * 20 + ["test"] * 4


@pytest.mark.parametrize("inner", [".", "cifar-10-batches-py"])
def test_python_batches_are_refused_with_the_way_to_the_binary_ones(tmp_path, inner):
    (tmp_path / inner).mkdir(exist_ok=True)
    (tmp_path / inner / "data_batch_1").write_bytes(b"\x80\x02}.")
    with pytest.raises(InvalidInputError, match=r"pickles are not read; get .* with `equipoise data fetch"):
        read_cifar10(tmp_path)
    arrays = cifar10_binary(tmp_path)  # beside them
    assert_is(read_cifar10(tmp_path), arrays)


def test_binary_batches(tmp_path):
    arrays = cifar10_binary(tmp_path)
    assert_is(read_cifar10(tmp_path), arrays)
    assert_is(read_cifar10(tmp_path / "cifar-10-batches-bin"), arrays)


def test_the_archive_as_it_is_published(tmp_path):
    arrays = cifar10_binary(tmp_path / "made")
    (tmp_path / "downloads").mkdir()
    with tarfile.open(tmp_path / "downloads" / "cifar-10-binary.tar.gz", "w:gz") as tar:
        for entry in (tmp_path / "made").iterdir():
            tar.add(entry, entry.name)
    assert_is(read_cifar10(tmp_path / "downloads"), arrays)


@pytest.mark.parametrize("ending", ["png", "jpg"])
def test_image_folders(tmp_path, ending):
    cifar10_images(tmp_path, ending=ending)
    samples = read_cifar10(tmp_path)
    assert samples.x.shape == (30, 3, 32, 32)
    assert samples.y.tolist() == [name for name in NAMES for _ in range(2)] + list(NAMES)
    assert samples.partition.tolist() == ["train"] * 20 + ["test"] * 10
    assert [path.relative_to(tmp_path).parts[:2] for path in samples.x.paths] == list(
        zip(samples.partition, samples.y, strict=True)
    )
    assert any("these images are JPEG" in note for note in samples.notes) == (ending == "jpg")


def test_names_of_the_labels_are_in_the_order_of_their_sorting():
    assert sorted(NAMES) == list(NAMES)


def test_a_layout_with_gaps_is_one_sentence(tmp_path):
    cifar10_images(tmp_path / "images")
    (tmp_path / "images" / "test" / "frog").rename(tmp_path / "images" / "test" / "toad")
    with pytest.raises(InvalidInputError, match=r"test must have a folder for each of airplane.*; check 'frog'"):
        read_cifar10(tmp_path / "images")
    cifar10_binary(tmp_path)
    (tmp_path / "cifar-10-batches-bin" / "data_batch_4.bin").unlink()
    with pytest.raises(InvalidInputError, match=r"data_batch_4.bin is not in .*; five data batches"):
        read_cifar10(tmp_path)
    for part in ("train", "test"):
        for name in NAMES:
            (tmp_path / "empty" / part / name).mkdir(parents=True)
    with pytest.raises(InvalidInputError, match="has the folders of the set, but no image is in them"):
        read_cifar10(tmp_path / "empty")


def test_binary_batches_of_the_wrong_length_or_label_are_one_sentence(tmp_path, monkeypatch):
    path = tmp_path / "data_batch_1.bin"
    for content in (b"", bytes(3072), bytes(3074)):
        path.write_bytes(content)
        with pytest.raises(InvalidInputError, match=rf"must hold records of 3,073 bytes, got {len(content):,} bytes"):
            read_binary_batch(path)
    path.write_bytes(b"\x0a" + bytes(3072))
    with pytest.raises(InvalidInputError, match="must hold labels from 0 to 9"):
        read_binary_batch(path)
    path.write_bytes(b"\x09" + bytes(3072))
    assert read_binary_batch(path)[1].tolist() == [9]
    monkeypatch.setattr("equipoise.paper.sets.cifar10.BATCH_BYTES", 3072)
    with pytest.raises(InvalidInputError, match=r"cannot be read \(it has 3,073 bytes, more than the limit of 3,072"):
        read_binary_batch(path)
    with pytest.raises(InvalidInputError, match=r"cannot be read \(No such file"):
        read_binary_batch(tmp_path / "none")


def test_an_archive_with_a_link_is_refused(tmp_path):
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as tar:
        link = tarfile.TarInfo("cifar-10-batches-bin/data_batch_1.bin")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link, io.BytesIO())
    with pytest.raises(InvalidInputError, match="is a link or a device"):
        read_cifar10(tmp_path)
