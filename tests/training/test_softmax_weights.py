"""The network as it was at the end of the softmax stage, kept for a comparison."""

import pytest
import safetensors.torch
import torch

from equipoise.training import Settings, train
from equipoise.training.watchers import Silence
from tests.training.digits_run import digits_network, imbalanced_digits, run

EPOCHS = 6


class Snapshots(Silence):
    """The weights at the end of each epoch; and an end of its own, if asked."""

    def __init__(self, network, *, last: int | None = None):
        self.network, self.last, self.states = network, last, {}

    def epoch(self, record):
        self.states[record["epoch"]] = (
            record["stage"], {name: tensor.clone() for name, tensor in self.network.state_dict().items()}
        )  # fmt: skip
        if record["epoch"] == self.last:
            raise AbandonedError


class AbandonedError(Exception):
    pass


def kept(folder):
    return safetensors.torch.load_file(folder / "softmax.safetensors")


def test_they_are_those_at_the_end_of_the_stage(tmp_path):
    network = digits_network()
    seen = Snapshots(network)
    run(tmp_path / "run", epochs=EPOCHS, network=network, watcher=seen)
    stages = [stage for stage, _ in seen.states.values()]
    last = stages.index("class") - 1
    found, expected = kept(tmp_path / "run"), seen.states[last][1]
    assert found.keys() == expected.keys()
    weights = [name for name in found if name != "head.margins"]  # the margins follow from these weights
    assert all(torch.equal(found[name], expected[name]) for name in weights)
    assert not torch.equal(found["head.weight"], network.head.weight)
    assert bool((found["head.margins"] == found["head.margins"][0]).all())


def test_a_run_that_is_resumed_in_a_later_stage_still_has_them(tmp_path):
    network = digits_network()
    with pytest.raises(AbandonedError):
        run(tmp_path / "run", epochs=EPOCHS, network=network, watcher=Snapshots(network, last=3))
    before = (tmp_path / "run" / "softmax.safetensors").read_bytes()
    run(tmp_path / "run", epochs=EPOCHS)
    assert (tmp_path / "run" / "softmax.safetensors").read_bytes() == before
    run(tmp_path / "undisturbed", epochs=EPOCHS)
    assert (tmp_path / "undisturbed" / "softmax.safetensors").read_bytes() == before


def test_a_run_that_ends_in_the_stage_has_none(tmp_path):
    run(tmp_path / "short", epochs=1)
    assert not (tmp_path / "short" / "softmax.safetensors").exists()
    network, digits = digits_network(), imbalanced_digits()
    train(network, digits.train, Settings(epochs=2, batch_size=64), folder=tmp_path / "plain")
    assert not (tmp_path / "plain" / "softmax.safetensors").exists()


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(None, epochs=3)
    assert list(tmp_path.iterdir()) == []
