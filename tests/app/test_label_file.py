"""The labels of a run, as a file that anyone may have written."""

import numpy as np
import pytest

from equipoise.app.runs.inspect import ranking
from equipoise.app.stored_arrays import JudgedLabels, read_judged_labels
from equipoise.errors import InvalidInputError
from equipoise.evaluation import LabelDoubt
from equipoise.storage.run_files import LABELS


def judged(names=None) -> JudgedLabels:
    doubt = LabelDoubt(np.array([-1.0, 2.0, np.nan, 2.5], np.float32), np.array([1, 0, 2, 1]))
    return JudgedLabels(
        np.array([4, 0, 9, 2]), np.array([False, False, True, True]), np.array([0, 2, 1, 0]), doubt, names
    )


def spoilt(folder, **changes):
    """The file with some arrays replaced, or without those that are None."""
    judged(("a.png", "ä/b.png", "c\nd.png", "")).save(folder)
    with np.load(folder / LABELS, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files} | changes
    np.savez(folder / LABELS, **{name: values for name, values in arrays.items() if values is not None})


@pytest.mark.parametrize("names", [None, ("a.png", "ä/b.png", "c\nd.png", "")])
def test_what_was_saved_is_read(tmp_path, names):
    judged(names).save(tmp_path)
    found, expected = read_judged_labels(tmp_path, 3, multilabel=False), judged(names)
    assert found.names == names
    for name in ("rows", "test", "labels"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    np.testing.assert_array_equal(found.doubt.error, expected.doubt.error)
    np.testing.assert_array_equal(found.doubt.suggested, expected.doubt.suggested)


def test_the_most_doubtful_come_first_and_what_cannot_be_judged_not_at_all():
    found = ranking(judged(), ("x", "y", "z"))
    assert found.drop(columns="score").to_dict(orient="list") == {
        "row": [2, 0, 4],
        "part": ["test", "train", "train"],
        "label": ["x", "z", "x"],
        "suggested": ["y", "x", "y"],
    }
    np.testing.assert_allclose(found["score"], [0.99379, 0.97725, 0.15866], atol=1e-5)
    assert ranking(judged(("a", "b", "c", "d")), ("x", "y", "z"))["file"].tolist() == ["d", "b", "a"]


def test_several_labels_have_a_line_each():
    doubt = LabelDoubt(np.array([[0.5, -1.0], [2.0, -2.0]], np.float32), np.array([[1, 0], [0, 1]]))
    several = JudgedLabels(np.array([7, 8]), np.array([False, True]), np.array([[0, 1], [1, 0]]), doubt)
    found = ranking(several, ("up", "right"))
    assert found["row"].tolist() == [8, 7, 7, 8]
    assert found["attribute"].tolist() == ["up", "up", "right", "right"]
    assert (found["label"].tolist(), found["suggested"].tolist()) == ([1, 0, 1, 0], [0, 1, 0, 1])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"error": None}, "lacks error; train again"),
        ({"labels": np.array([0, 2, 3, 0])}, "do not fit each other or the 3 classes"),
        ({"suggested": np.array([0, -1, 0, 0])}, "do not fit each other"),
        ({"rows": np.zeros((4, 1), np.int64)}, "do not fit each other"),
        ({"rows": np.zeros(3, np.int64)}, "do not fit each other"),
        ({"test": np.zeros(4)}, "do not fit each other"),
        ({"error": np.zeros(4)}, "do not fit each other"),
        ({"error": np.zeros((4, 3), np.float32)}, "do not fit each other"),
        ({"labels": np.array(["0"] * 4)}, "do not fit each other"),
        ({"names": np.frombuffer(b"a\0b", np.uint8)}, "do not fit each other"),
        ({"names": np.array(["a"] * 4)}, "the names in .* are not text"),
        ({"rows": np.array([None] * 4)}, "cannot be read"),
    ],
)
def test_a_spoilt_file_is_one_sentence(tmp_path, changes, said):
    spoilt(tmp_path, **changes)
    with pytest.raises(InvalidInputError, match=said):
        read_judged_labels(tmp_path, 3, multilabel=False)


def test_a_run_of_an_earlier_version_says_what_to_do(tmp_path):
    with pytest.raises(
        InvalidInputError, match=r"has no judged labels: .*; train again with `equipoise train --config"
    ):
        read_judged_labels(tmp_path, 3, multilabel=False)
