"""A model on disk comes back as it was, and a file from elsewhere can run no code."""

import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
import torch
from torch import nn

from equipoise import UncertaintyBalancedClassifier
from equipoise.errors import InvalidInputError
from equipoise.estimators.saved_model import labels_from_json, labels_to_json

X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
NUMBERS = np.arange(40) % 3
LABELS = {
    "strings": np.array(["é", "longer", "c"])[NUMBERS],
    "objects": np.array(["a", "b", "c"], dtype=object)[NUMBERS],
    "integers": np.array([-5, 0, 7])[NUMBERS],
    "bytes of integers": np.array([1, 2, 255], dtype=np.uint8)[NUMBERS],
    "floats": np.array([-1.0, 0.0, 2.0])[NUMBERS],
    "booleans": NUMBERS > 0,
    "several": np.random.default_rng(1).integers(0, 2, (40, 4)),
}


def fitted(y=LABELS["strings"], x=X, **options) -> UncertaintyBalancedClassifier:
    return UncertaintyBalancedClassifier(epochs=3, width=8, random_state=0, **options).fit(x, y)


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    fitted().save(folder)
    return folder


@pytest.fixture
def folder(saved, tmp_path) -> Path:
    """A saved model of one's own to damage."""
    for path in saved.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def rewrite(folder: Path, *names, to) -> None:
    """Put a value into ``model.json``."""
    record = json.loads((folder / "model.json").read_text())
    inner = record
    for name in names[:-1]:
        inner = inner[name]
    inner[names[-1]] = to
    (folder / "model.json").write_text(json.dumps(record))


def assert_alike(loaded: UncertaintyBalancedClassifier, model: UncertaintyBalancedClassifier, x=X) -> None:
    assert loaded.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(loaded.classes_, model.classes_)
    predicted, expected = loaded.predict(x), model.predict(x)
    assert predicted.dtype == expected.dtype
    np.testing.assert_array_equal(predicted, expected)
    np.testing.assert_array_equal(loaded.predict_proba(x), model.predict_proba(x))
    np.testing.assert_array_equal(loaded.uncertainty(x), model.uncertainty(x))
    assert loaded.history_ == model.history_


@pytest.mark.parametrize("y", LABELS.values(), ids=LABELS)
def test_a_model_comes_back_as_it_was(tmp_path, y):
    model = fitted(y)
    model.save(tmp_path / "new" / "folder")
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == [
        "README.md",
        "model.json",
        "model.safetensors",
    ]
    loaded = UncertaintyBalancedClassifier.load(tmp_path / "new" / "folder")
    assert_alike(loaded, model)
    np.testing.assert_array_equal(loaded.margins_, model.margins_)
    np.testing.assert_array_equal(loaded.class_uncertainty_, model.class_uncertainty_)
    assert loaded.get_params() == model.get_params()


def test_a_method_without_margins_and_columns_with_names_come_back(tmp_path):
    table = pd.DataFrame(X.astype(np.float64), columns=["a", "b", "ç"])
    model = fitted(x=table, method="ldam_drw")
    model.save(tmp_path)
    loaded = UncertaintyBalancedClassifier.load(tmp_path)
    assert_alike(loaded, model, table)
    assert loaded.feature_names_in_.tolist() == ["a", "b", "ç"]
    assert loaded.margins_ is None or np.array_equal(loaded.margins_, model.margins_)


def test_a_backbone_of_ones_own_is_passed_again(tmp_path):
    backbone = nn.Sequential(nn.Linear(3, 6), nn.ReLU())
    model = fitted(backbone=backbone)
    model.save(tmp_path)
    with pytest.raises(InvalidInputError, match="was trained with a custom backbone; pass an equal one as backbone="):
        UncertaintyBalancedClassifier.load(tmp_path)
    loaded = UncertaintyBalancedClassifier.load(tmp_path, backbone=nn.Sequential(nn.Linear(3, 6), nn.ReLU()))
    assert_alike(loaded, model)
    with pytest.raises(InvalidInputError, match=r"the weights in .* do not fit the network"):
        UncertaintyBalancedClassifier.load(tmp_path, backbone=nn.Sequential(nn.Linear(3, 6), nn.Linear(6, 6)))


def test_saving_again_replaces(folder):
    model = fitted(LABELS["integers"])
    model.save(folder)
    assert_alike(UncertaintyBalancedClassifier.load(folder), model)


class Danger:
    """Leaves a file behind when a pickle of it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("name", ["model.safetensors", "model.json"])
@pytest.mark.parametrize("write", [pickle.dump, torch.save], ids=["pickle", "torch"])
def test_a_pickle_is_refused_and_never_run(folder, name, write):
    with (folder / name).open("wb") as file:
        write(Danger(folder / "trace"), file)
    with pytest.raises(InvalidInputError, match=r"model\.\w+ cannot be read \(.*; save the model again"):
        UncertaintyBalancedClassifier.load(folder)
    assert not (folder / "trace").exists()


@pytest.mark.parametrize("name", ["model.safetensors", "model.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\x00" * 9], ids=["empty", "cut", "garbage"])
def test_damaged_files_are_refused(folder, name, content):
    (folder / name).write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"model\.\w+ cannot be read \(.*; save the model again"):
        UncertaintyBalancedClassifier.load(folder)


@pytest.mark.parametrize("name", ["model.safetensors", "model.json"])
def test_missing_files_are_named(folder, name):
    (folder / name).unlink()
    with pytest.raises(InvalidInputError, match="is not a saved model"):
        UncertaintyBalancedClassifier.load(folder)


def test_a_foreign_safetensors_file_is_refused(folder):
    safetensors.torch.save_file({"layer.weight": torch.ones(3)}, folder / "model.safetensors")
    with pytest.raises(InvalidInputError, match=r"tensor 'prior' of finite numbers, .* was expected; save it again"):
        UncertaintyBalancedClassifier.load(folder)


@pytest.mark.parametrize("name", ["calibrated/prior", "calibrated/scale", "calibrated/conformal_scores", "uncertainty"])
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float8_e4m3fn, torch.complex64, torch.bool])
def test_tensors_of_odd_types_are_one_sentence(folder, name, kind):
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    tensors[name] = torch.ones(tensors.get(name, torch.ones(3)).shape).to(kind)
    try:
        safetensors.torch.save_file(tensors, folder / "model.safetensors")
    except KeyError:
        pytest.skip(f"this safetensors writes no {kind}")
    with pytest.raises(InvalidInputError, match=rf"the tensor '{name.split('/')[-1]}' is of the type torch\.\w+; save"):
        UncertaintyBalancedClassifier.load(folder)


def test_weights_of_another_network_are_refused(folder):
    tensors = safetensors.torch.load_file(folder / "model.safetensors")
    del tensors["network/head.weight"]
    safetensors.torch.save_file(tensors, folder / "model.safetensors")
    with pytest.raises(InvalidInputError, match=r"(?s)the weights in .* do not fit the network: .*head\.weight"):
        UncertaintyBalancedClassifier.load(folder)


@pytest.mark.parametrize(
    ("names", "value", "message"),
    [
        (["format"], 2, "has format 2, this version reads 1; update equipoise"),
        (["format"], "1", "has no valid field 'format'"),
        (["classes"], {"a": 1}, "has no valid field 'classes'"),
        (["classes"], ["a", "b"], "its labels are not those of its recipe"),
        (["classes"], [["a"], ["b"], ["c"]], "its labels are not those of its recipe"),
        (["class_type"], "S1", "names labels of an unsupported type"),
        (["class_type"], "a", "names labels of an unsupported type"),
        (["class_type"], "<a4", "names labels of an unsupported type"),
        (["class_type"], "V8", "names labels of an unsupported type"),
        (["class_type"], "no type", "names labels of an unsupported type"),
        (["class_type"], "i8", "names labels of an unsupported type"),
        (["recipe"], {}, "has no valid recipe"),
        (["recipe", "method"], "os.system", "has no valid recipe .*method must be one of"),
        (["recipe", "width"], "8", "has no valid recipe .*width must be a whole number of at least 1, got '8'"),
        (["recipe", "columns"], -1, "has no valid recipe .*columns must be a whole number"),
        (["recipe", "classes"], True, "has no valid recipe .*classes must be a whole number"),
        (["recipe", "classes"], 4, "its labels are not those of its recipe"),
        (["recipe", "classes"], 2**40, "its labels are not those of its recipe"),  # nothing of that size is built
        (["recipe", "classes"], 2**70, "its labels are not those of its recipe"),
        (["recipe", "dropout"], None, r"has no valid recipe .*dropout must lie in \[0, 1\)"),
        (["recipe", "dropout"], 1.5, r"has no valid recipe .*must lie in \[0, 1\), got 1.5"),
        (["recipe", "form"], "round", "form must be one of angular, additive, got 'round'"),
        (["recipe", "width"], 9, "the weights in .* do not fit the network"),
        (["recipe", "more"], 1, "has no valid recipe"),
        (["features"], "8", "has no valid field 'features'"),
        (["column_names"], "abc", "has no valid field 'column_names'"),
        (["history"], {}, r"the history in .*model\.json has no valid field 'chosen': it is missing"),
        (
            ["history", "chosen"],
            None,
            r"the history in .*model\.json has no valid field 'chosen': expected an object in braces",
        ),
        (["history", "chosen", "seed"], "7", r"the history in .*model\.json has no valid field 'chosen\.seed'"),
        (["parameters", "run_dir"], "/tmp/elsewhere", "names a run_dir among its parameters; save the model again"),
        (["parameters", "unheard_of"], 1, r"has parameters that this version lacks: \['unheard_of'\]"),
    ],
)
def test_a_record_that_was_not_written_by_save_is_refused(folder, names, value, message):
    rewrite(folder, *names, to=value)
    with pytest.raises(InvalidInputError, match=message):
        UncertaintyBalancedClassifier.load(folder)


def test_a_record_that_is_no_object_is_refused(folder):
    (folder / "model.json").write_text("[1, 2]")
    with pytest.raises(InvalidInputError, match="expected an object in braces, got a list; save"):
        UncertaintyBalancedClassifier.load(folder)


@pytest.mark.parametrize("y", [v for v in LABELS.values() if v.ndim == 1], ids=[n for n in LABELS if n != "several"])
def test_labels_survive_json(y):
    classes = np.unique(y)
    values, kind = labels_to_json(classes)
    again = labels_from_json(json.loads(json.dumps(values)), kind)
    assert again.dtype == classes.dtype
    np.testing.assert_array_equal(again, classes)


def test_labels_take_no_more_memory_than_their_letters():
    for claimed in ("<U20000000", "<U1", "<U0"):
        again = labels_from_json(["a", "longer"], claimed)
        assert again.tolist() == ["a", "longer"]
        assert again.nbytes == 2 * 6 * 4


@pytest.mark.parametrize("classes", [np.array([b"a", b"b"]), np.array(["2020-01-01"], dtype="M8[D]"), np.array([1j])])
def test_labels_of_other_types_are_refused(classes):
    with pytest.raises(InvalidInputError, match=r"labels of type .* cannot be saved; use strings, numbers or booleans"):
        labels_to_json(classes)
