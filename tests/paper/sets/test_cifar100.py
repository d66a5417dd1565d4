"""CIFAR-100 in its binary version; the pickles of the other are refused."""

import tarfile

import numpy as np
import pytest

from equipoise.errors import InvalidInputError
from equipoise.paper.sets.cifar100 import read_cifar100
from tests.paper.sets.layouts import cifar100_binary


def assert_is(samples, arrays):
    assert np.array_equal(samples.x, np.concatenate([own[0] for own in arrays.values()]).reshape(-1, 3, 32, 32))
    assert samples.y.tolist() == [f"class_{label:02d}" for _, labels in arrays.values() for label in labels]
    assert samples.partition.tolist() == [part for part, (_, labels) in arrays.items() for _ in labels]


def test_images_have_their_fine_labels(tmp_path):
    arrays = cifar100_binary(tmp_path, train=2)
    assert_is(read_cifar100(tmp_path), arrays)
    assert_is(read_cifar100(tmp_path / "cifar-100-binary"), arrays)


def test_the_archive_as_it_is_published(tmp_path):
    arrays = cifar100_binary(tmp_path / "made")
    (tmp_path / "downloads").mkdir()
    with tarfile.open(tmp_path / "downloads" / "cifar-100-binary.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "made" / "cifar-100-binary", "cifar-100-binary")
    assert_is(read_cifar100(tmp_path / "downloads"), arrays)


def test_python_batches_are_refused_with_the_way_to_the_binary_ones(tmp_path):
    (tmp_path / "cifar-100-python").mkdir()
    for name in ("train", "meta"):
        (tmp_path / "cifar-100-python" / name).write_bytes(b"\x80\x02}.")
    with pytest.raises(InvalidInputError, match=r"pickles are not read; get .* with `equipoise data fetch cifar100`"):
        read_cifar100(tmp_path)
    arrays = cifar100_binary(tmp_path)  # beside them
    assert_is(read_cifar100(tmp_path), arrays)


def test_broken_files_are_one_sentence(tmp_path):
    cifar100_binary(tmp_path)
    place = tmp_path / "cifar-100-binary"
    record = bytes(3074)
    (place / "test.bin").write_bytes(record[1:])
    with pytest.raises(InvalidInputError, match=r"test.bin must hold records of 3,074 bytes, got 3,073 bytes"):
        read_cifar100(tmp_path)
    (place / "test.bin").write_bytes(bytes([0, 100]) + record[2:])
    with pytest.raises(InvalidInputError, match="must hold labels from 0 to 99, got others"):
        read_cifar100(tmp_path)
    (place / "test.bin").unlink()
    with pytest.raises(InvalidInputError, match=r"test.bin cannot be read \(No such file"):
        read_cifar100(tmp_path)
    (place / "test.bin").write_bytes(record)
    (place / "fine_label_names.txt").write_text("apple\nbaby\n")
    with pytest.raises(InvalidInputError, match=r"must hold 100 different names, got 2; fetch it again"):
        read_cifar100(tmp_path)
    (place / "fine_label_names.txt").unlink()
    with pytest.raises(InvalidInputError, match=r"fine_label_names.txt cannot be read \(No such file"):
        read_cifar100(tmp_path)
