"""Arrays, data frames and images on disk behind one interface."""

import numpy as np
import pandas as pd
import pytest

from equipoise.data.images import Images
from equipoise.data.labels import class_indices, label_indices
from equipoise.data.samples import Samples, rows_of
from equipoise.errors import InvalidInputError
from tests.data.images.pictures import write


def test_arrays_and_frames_are_in_memory_and_have_no_files():
    for x in (np.zeros((3, 2)), pd.DataFrame({"a": [1, 2, 3]})):
        rows = rows_of(x)
        assert not rows.from_files
        assert not rows.on_disk
        assert (rows.names, rows.digests, rows.fingerprint(), rows.read_as) == (None, None, None, {})
        assert rows.cached() is x


def test_images_answer_for_themselves(tmp_path):
    write(tmp_path / "a.png", height=8, width=4)
    images = Images(tmp_path, ["a.png"], size=(4, 2), channels=3)
    assert rows_of(images) is images
    assert images.from_files
    assert images.on_disk
    assert not images.cached().on_disk
    assert images.read_as == {"size": (4, 2), "channels": 3}
    assert images.preview(0, 16).shape == (3, 16, 8)
    (tmp_path / "a.png").unlink()
    assert images.preview(0, 16) is None


def test_every_kind_of_sample_is_taken_alike(tmp_path):
    names = [write(tmp_path / f"{row}.png", row).name for row in range(3)]
    images = Images(tmp_path, names, size=(4, 4), channels=3)
    for x in (np.arange(6).reshape(3, 2), pd.DataFrame({"a": [1, 2, 3]}), images):
        taken = Samples(x, np.array([0, 1, 2])).take([2, 0])
        assert taken.y.tolist() == [2, 0]
        assert np.array_equal(np.asarray(taken.x), np.asarray(x)[[2, 0]])


def test_labels_of_known_classes_have_their_places():
    assert label_indices(np.array([7, 5, 7]), [5, 7]).tolist() == [1, 0, 1]
    assert label_indices(np.array([7.0, 5.0]), np.array([5, 7])).tolist() == [1, 0]
    assert label_indices(np.array([[0, 1]]), ["a", "b"], multilabel=True).tolist() == [[0, 1]]
    with pytest.raises(InvalidInputError, match="the data have classes that training has not seen: 'c', 'd'; leave"):
        label_indices(np.array(["a", "d", "c"]), ["a", "b"], whose="the data have")
    with pytest.raises(InvalidInputError, match="y must be a matrix of 0 and 1 with 2 columns"):
        label_indices(np.array([[0, 2]]), ["a", "b"], multilabel=True)


def test_labels_are_encoded_once_for_all_parts(monkeypatch):
    calls = []
    monkeypatch.setattr("equipoise.data.samples.class_indices", lambda y: calls.append(len(y)) or class_indices(y))
    samples = Samples(np.zeros((6, 1)), np.array(["c", "a", "b", "a", "c", "c"]))
    parts = [samples.take(rows) for rows in ([5, 1, 0], [2, 2], [])]
    assert calls == []  # only on demand
    assert samples.class_names == ("a", "b", "c")
    for part, alone in zip([samples.take(rows) for rows in ([5, 1, 0], [2, 2], [])], parts, strict=True):
        assert calls[0] == 6
        before = len(calls)
        classes, places = part.encoded
        assert len(calls) == before
        assert classes.tolist() == alone.encoded[0].tolist()
        assert places.tolist() == alone.encoded[1].tolist()
        assert classes[places].tolist() == part.y.tolist()


def test_several_labels_are_their_own_encoding():
    samples = Samples(np.zeros((2, 1)), np.array([[0, 1], [1, 1]]), attributes=("p", "q"))
    assert samples.class_names == ("p", "q")
    assert samples.encoded[0].tolist() == [0, 1]
    assert samples.take([1]).encoded[1].tolist() == [[1, 1]]
