"""MNIST's idx files: what is in them comes out, and nothing else is believed."""

import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from equipoise.errors import InvalidInputError
from equipoise.paper.sets.mnist import FASHION_NAMES, read_fashion_mnist, read_idx, read_mnist
from tests.paper.sets.layouts import idx, mnist


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("inner", ["", "raw", "MNIST/raw"])
def test_mnist_has_its_images_labels_and_parts(tmp_path, packed, inner):
    files = mnist(tmp_path / inner, packed=packed)
    samples = read_mnist(tmp_path)
    assert samples.x.shape == (30, 1, 28, 28)
    assert np.array_equal(samples.x[:20, 0], files["train-images-idx3-ubyte"])
    assert np.array_equal(samples.x[20:, 0], files["t10k-images-idx3-ubyte"])
    assert samples.y.tolist() == [*(n % 10 for n in range(20)), *range(9, -1, -1)]
    assert samples.y.dtype == np.int64
    assert samples.partition.tolist() == ["train"] * 20 + ["test"] * 10


def test_fashion_mnist_has_names_for_labels(tmp_path):
    mnist(tmp_path)
    samples = read_fashion_mnist(tmp_path)
    assert samples.y[:10].tolist() == list(FASHION_NAMES)
    assert samples.y[-1] == "T-shirt/top"
    assert samples.partition.tolist() == ["train"] * 20 + ["test"] * 10


def test_names_with_a_dot_and_a_gzip_without_its_ending_are_read(tmp_path):
    mnist(tmp_path)
    for path in list(tmp_path.iterdir()):
        path.rename(tmp_path / path.name.replace("-idx", ".idx").removesuffix(".gz"))
    assert len(read_mnist(tmp_path)) == 30


@given(arrays.arrays(np.uint8, arrays.array_shapes(min_dims=1, max_dims=3, min_side=0)), st.booleans())
def test_any_array_comes_back(tmp_path_factory, array, packed):
    path = tmp_path_factory.mktemp("idx") / "file"
    path.write_bytes(gzip.compress(idx(array)) if packed else idx(array))
    assert np.array_equal(read_idx(path, dimensions=array.ndim), array)


@given(st.binary(max_size=200), st.booleans())
def test_any_other_bytes_are_one_sentence(tmp_path_factory, content, packed):
    path = tmp_path_factory.mktemp("idx") / "file"
    path.write_bytes(b"\1" + content if not packed else gzip.compress(b"\1" + content))
    with pytest.raises(InvalidInputError, match="is not an idx file: it starts with 01"):
        read_idx(path, dimensions=1)


GOOD = idx(np.arange(6).reshape(2, 3))
PACKED = gzip.compress(GOOD, mtime=0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not an idx file: it starts with nothing"),
        (GOOD[:3], "is not an idx file: it starts with 000008"),
        (b"\0\1" + GOOD[2:], "is not an idx file: it starts with 00010802"),
        (b"\0\0\x0d" + GOOD[3:], r"unsigned bytes \(type 08\) in 2 dimensions, got type 0d in 2"),
        (idx(np.arange(3)), r"in 2 dimensions, got type 08 in 1"),
        (GOOD[:9], "ends within its header"),
        (GOOD[:-1], r"must hold 6 bytes for its \(2, 3\), got 5"),
        (GOOD + b"x", r"must hold 6 bytes for its \(2, 3\), got more"),
        (GOOD[:4] + b"\xff" * 8, r"claims \(4294967295, 4294967295\), more than the limit of 1,073,741,824 bytes"),
        (PACKED[:-9], "cannot be read .*; fetch it again"),
        (PACKED[:10] + b"\xff" * 8, "cannot be read .*; fetch it again"),
        (PACKED[:-8] + b"\0" * 8, "cannot be read .*; fetch it again"),
        (b"\x1f\x8b\0\0", "cannot be read .*; fetch it again"),
    ],
)
def test_a_damaged_file_is_one_sentence(tmp_path, content, message):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match=message):
        read_idx(path, dimensions=2)


def test_a_bomb_is_not_unpacked_beyond_what_its_header_says(tmp_path):
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(idx(np.zeros((2, 3))))
        for _ in range(50):
            file.write(bytes(2**20))
    with pytest.raises(InvalidInputError, match=r"must hold 6 bytes .* got more"):
        read_idx(path, dimensions=2)
    path.write_bytes(GOOD)
    with pytest.raises(InvalidInputError, match="more than the limit of 5 bytes"):
        read_idx(path, dimensions=2, limit_bytes=5)
    assert read_idx(path, dimensions=2, limit_bytes=6).shape == (2, 3)


def test_what_is_not_mnist_is_refused(tmp_path):
    mnist(tmp_path, packed=False)
    labels = tmp_path / "t10k-labels-idx1-ubyte"
    labels.write_bytes(idx(np.full(10, 10)))
    with pytest.raises(InvalidInputError, match=r"t10k-labels-idx1-ubyte must hold labels from 0 to 9, got 10"):
        read_mnist(tmp_path)
    labels.write_bytes(idx(np.arange(9)))
    with pytest.raises(InvalidInputError, match=r"holds 10 images and .*t10k-labels-idx1-ubyte 9 labels"):
        read_mnist(tmp_path)
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(idx(np.zeros((9, 28, 27))))
    with pytest.raises(InvalidInputError, match=r"must hold images of 28×28, got 28×27"):
        read_mnist(tmp_path)
    labels.unlink()
    with pytest.raises(InvalidInputError, match=r"t10k-labels-idx1-ubyte or t10k-labels-idx1-ubyte.gz is not in"):
        read_mnist(tmp_path)


def test_a_folder_in_place_of_a_file_is_one_sentence(tmp_path):
    with pytest.raises(InvalidInputError, match=r"cannot be read \(Is a directory"):
        read_idx(tmp_path, dimensions=1)
