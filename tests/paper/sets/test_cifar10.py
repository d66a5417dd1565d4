"""CIFAR-10 in its three layouts; a pickle is read, never run."""

import io
import os
import pickle
import tarfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.errors import InvalidInputError
from equipoise.paper.sets.cifar10 import NAMES, read_binary_batch, read_cifar10, read_python_batch
from tests.paper.sets.layouts import cifar10_binary, cifar10_images, cifar10_python


def assert_is(samples, arrays):
    pixels = np.concatenate([pixels for pixels, _ in arrays.values()])
    labels = [NAMES[label] for _, own in arrays.values() for label in own]
    assert np.array_equal(samples.x, pixels.reshape(-1, 3, 32, 32))
    assert samples.y.tolist() == labels
    assert samples.partition.tolist() == ["train"] * 20 + ["test"] * 4


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
def test_python_batches(tmp_path, protocol):
    arrays = cifar10_python(tmp_path, protocol=protocol)
    assert_is(read_cifar10(tmp_path), arrays)
    assert_is(read_cifar10(tmp_path / "cifar-10-batches-py"), arrays)


def test_a_batch_as_python_2_and_old_numpy_wrote_it(tmp_path):
    pixels = np.arange(3072, dtype=np.int64).astype(np.uint8)
    path = tmp_path / "batch"
    path.write_bytes(
        b"\x80\x02}q\x01(U\x04dataq\x02cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85"
        b"U\x01b\x87Rq\x05(K\x01K\x01M\x00\x0c\x86cnumpy\ndtype\nq\x06U\x02u1K\x00K\x01\x87R"
        b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89T\x00\x0c\x00\x00"
        + pixels.tobytes()
        + b"tbU\x06labelsq\x07]q\x08K\x06au."
    )
    images, labels = read_python_batch(path)
    assert np.array_equal(images.ravel(), pixels)
    assert labels.tolist() == [6]


def test_binary_batches(tmp_path):
    arrays = cifar10_binary(tmp_path)
    assert_is(read_cifar10(tmp_path), arrays)
    assert_is(read_cifar10(tmp_path / "cifar-10-batches-bin"), arrays)


@pytest.mark.parametrize("write", [cifar10_python, cifar10_binary])
def test_the_archive_as_it_is_published(tmp_path, write):
    arrays = write(tmp_path / "made")
    (tmp_path / "downloads").mkdir()
    with tarfile.open(tmp_path / "downloads" / "cifar-10-python.tar.gz", "w:gz") as tar:
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
    with pytest.raises(InvalidInputError, match=r"data_batch_4.bin is not in .*; there must be five"):
        read_cifar10(tmp_path)
    for part in ("train", "test"):
        for name in NAMES:
            (tmp_path / "empty" / part / name).mkdir(parents=True)
    with pytest.raises(InvalidInputError, match="has the folders of the set, but no image is in them"):
        read_cifar10(tmp_path / "empty")


class Hostile:
    """What a pickle runs when it is loaded."""

    def __init__(self, *call):
        self.call = call

    def __reduce__(self):
        return self.call[0], self.call[1:]


@pytest.mark.parametrize("call", [(os.system, "touch {}"), (open, "{}", "w"), (eval, "open('{}', 'w')")])
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_hostile_pickle_is_refused_and_not_run(tmp_path, call, protocol):
    mark = tmp_path / "mark"
    arguments = [part.format(mark) if isinstance(part, str) else part for part in call[1:]]
    batch = tmp_path / "batch"
    batch.write_bytes(pickle.dumps({b"data": Hostile(call[0], *arguments), b"labels": [1]}, protocol=protocol))
    with pytest.raises(
        InvalidInputError,
        match=r"batch is refused: it names '\w+\.\w+', which plain data do not need; nothing",
    ):
        read_python_batch(batch)
    assert not mark.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02cnumpy\nndarray.tofile\n.",
        b"\x80\x04\x8c\x05numpy\x8c\x0fdtype.__class__\x93.",
        b"\x80\x02cnumpy.core.multiarray\nfromfile\n.",
        b"\x80\x02c_codecs\nlookup\n.",
        b"\x80\x02cbuiltins\ngetattr\n.",
    ],
)
def test_only_the_few_names_of_a_batch_are_known(tmp_path, content):
    path = tmp_path / "batch"
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match="which plain data do not need"):
        read_python_batch(path)


def test_a_pickle_cannot_ask_for_memory(tmp_path):
    path = tmp_path / "batch"
    path.write_bytes(b"\x80\x02}r\xff\xff\xff\x7f.")  # a memo of two thousand million entries
    with pytest.raises(InvalidInputError, match="must be a dictionary with the array data and the list labels"):
        read_python_batch(path)


def test_a_pickle_cannot_alter_the_next_reading(tmp_path):
    path = tmp_path / "batch"
    # builds attributes onto the stand-in which reconstructs arrays
    path.write_bytes(b"\x80\x02cnumpy\ndtype\nN}U\x04nameU\x01xs\x86b.")
    with pytest.raises(InvalidInputError, match="it sets the state of something that is not an array"):
        read_python_batch(path)
    arrays = cifar10_python(tmp_path)
    assert_is(read_cifar10(tmp_path), arrays)


@given(st.binary(max_size=300))
def test_any_bytes_are_one_sentence(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("batch") / "data_batch_1"
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"data_batch_1 (is not a batch|must be a dictionary|is refused)"):
        read_python_batch(path)


@given(st.data())
def test_a_cut_or_changed_batch_is_one_sentence_or_a_batch(tmp_path_factory, data):
    batch = pickle.dumps({b"labels": [3, 4], b"data": np.zeros((2, 3072), np.uint8)}, protocol=2)
    place = data.draw(st.integers(0, len(batch) - 1))
    value = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("batch") / "data_batch_1"
    path.write_bytes(batch[:place] + bytes([value]) + batch[place + 1 :])
    try:
        images, labels = read_python_batch(path)
    except InvalidInputError:
        return
    assert images.shape == (2, 3, 32, 32)
    assert set(labels.tolist()) <= set(range(10))


PIXELS = np.zeros((2, 3072), np.uint8)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ([1, 2], "must be a dictionary"),
        ({b"data": PIXELS}, "must be a dictionary with the array data and the list labels"),
        ({b"data": b"x", b"labels": [1]}, "must be a dictionary with the array data"),
        ({b"data": PIXELS, b"labels": [1, 2.0]}, "list labels of whole numbers"),
        ({b"data": PIXELS, b"labels": [1, True]}, "list labels of whole numbers"),
        ({b"data": PIXELS, b"labels": [1]}, r"must hold an array of bytes, \(1, 3072\), for its 1 labels"),
        ({b"data": PIXELS[:0], b"labels": []}, r"for its 0 labels"),
        ({b"data": PIXELS.astype(np.int8), b"labels": [1, 2]}, "must hold an array of bytes"),
        ({b"data": PIXELS.astype(float), b"labels": [1, 2]}, "must hold an array of bytes"),
        ({b"data": np.asfortranarray(PIXELS), b"labels": [1, 2]}, "must hold an array of bytes"),
        ({b"data": PIXELS[:, :3071], b"labels": [1, 2]}, "must hold an array of bytes"),
        ({b"data": PIXELS.ravel(), b"labels": [1, 2]}, "must hold an array of bytes"),
        ({b"data": PIXELS, b"labels": [1, 10]}, "must hold labels from 0 to 9"),
        ({b"data": PIXELS, b"labels": [1, -1]}, "must hold labels from 0 to 9"),
        ({b"data": PIXELS, b"labels": [1, 10**30]}, "must hold labels from 0 to 9"),
    ],
)
def test_a_pickle_that_is_no_batch_is_one_sentence(tmp_path, batch, message):
    path = tmp_path / "batch"
    path.write_bytes(pickle.dumps(batch, protocol=4))
    with pytest.raises(InvalidInputError, match=message):
        read_python_batch(path)


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
    with pytest.raises(InvalidInputError, match="cannot be read: it has 3,073 bytes, more than the 3,072"):
        read_binary_batch(path)
    with pytest.raises(InvalidInputError, match="cannot be read: No such file"):
        read_binary_batch(tmp_path / "none")


def test_an_archive_with_a_link_is_refused(tmp_path):
    with tarfile.open(tmp_path / "cifar-10-python.tar.gz", "w:gz") as tar:
        link = tarfile.TarInfo("cifar-10-batches-py/data_batch_1")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link, io.BytesIO())
    with pytest.raises(InvalidInputError, match="is a link or a device"):
        read_cifar10(tmp_path)
