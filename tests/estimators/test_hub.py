"""Models on the Hub: the client's own requests, against a stand-in on loopback."""

import sys

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from equipoise import BalancedClassifier, UncertaintyBalancedClassifier
from equipoise.errors import InvalidInputError
from tests.estimators.hub_server import PRIVATE, REPOSITORIES, hub_on_loopback

X, Y = make_classification(120, 4, weights=[0.8], random_state=0)


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """The address of a hub; nothing that the client keeps lands outside of the test's folder."""
    huggingface_hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    from huggingface_hub import constants

    with hub_on_loopback() as address:
        monkeypatch.setattr(constants, "ENDPOINT", address)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_PROGRESS_BARS", True)
        template = address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setenv("HF_TOKEN", "hf_of_this_test")
        yield huggingface_hub


@pytest.mark.parametrize(
    "model",
    [
        BalancedClassifier(LogisticRegression(), random_state=0),
        UncertaintyBalancedClassifier(epochs=3, width=8, random_state=0),
    ],
    ids=["blend", "network"],
)
@pytest.mark.usefixtures("hub")
def test_a_model_comes_back_from_the_hub_as_it_was(model):
    model = model.fit(X, Y)
    address = model.push_to_hub("somebody/rare")
    assert "/somebody/rare/commit/" in address
    assert PRIVATE["somebody/rare"]
    assert {"README.md", "model.json", "model.safetensors"} <= set(REPOSITORIES["somebody/rare"])
    found = type(model).from_hub("somebody/rare")
    np.testing.assert_array_equal(found.predict_proba(X), model.predict_proba(X))


@pytest.mark.usefixtures("hub")
def test_only_the_files_of_a_model_are_read():
    model = BalancedClassifier(LogisticRegression(), random_state=0).fit(X, Y)
    model.push_to_hub("somebody/rare", private=False)
    assert not PRIVATE["somebody/rare"]
    REPOSITORIES["somebody/rare"]["setup.py"] = b"raise SystemExit"
    from equipoise.estimators.hub import fetch_model

    folder = fetch_model("somebody/rare", revision=None)
    assert {path.name for path in folder.iterdir()} == {"README.md", "model.json", "model.safetensors", "members"}


@pytest.mark.usefixtures("hub")
@pytest.mark.parametrize("name", ["somebody/missing", "no such name"])
def test_a_repository_that_cannot_be_read_is_named(name):
    with pytest.raises(InvalidInputError, match=f"{name} cannot be read from the Hub"):
        BalancedClassifier.from_hub(name)


def test_without_the_client_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InvalidInputError, match=r"pip install 'equipoise\[hub\]'"):
        BalancedClassifier.from_hub("somebody/rare")
