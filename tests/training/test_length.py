"""Training whose length is one of steps: epochs of some batches, stages, and a warning where epochs are too few."""

import math
import re
import warnings

import numpy as np
import pytest
import torch

from equipoise import UncertaintyBalancedClassifier
from equipoise.errors import ShortTrainingWarning
from equipoise.losses import LOSSES
from equipoise.models import MLP
from equipoise.training import ArrayData, Curriculum, Network, Settings, settings, train
from equipoise.training.stages import CLASS_STEPS


def blobs(samples: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(samples) % 3
    return (rng.normal(size=(samples, 4)) + 2 * y[:, None]).astype(np.float32), y


def small_network() -> Network:
    torch.manual_seed(0)
    return Network(MLP(4, (8,)), LOSSES["uncertainty_margin"](8, 3, dropout=0.5, sample_level="expected"))


def test_a_fit_of_small_data_takes_the_least_steps(monkeypatch):
    monkeypatch.setattr(settings, "LEAST_STEPS", 90)
    x, y = blobs(70)
    model = UncertaintyBalancedClassifier(width=8, random_state=0).fit(x, y)
    assert {name: model.history_["chosen"][name] for name in ("epochs", "epoch_batches", "batch_size", "steps")} == {
        "epochs": 30,
        "epoch_batches": 3,
        "batch_size": 32,
        "steps": 90,
    }
    assert [record["steps"] for record in model.history_["epochs"]] == [3] * 30


def test_two_visits_of_large_data_have_all_stages(monkeypatch):
    monkeypatch.setattr(settings, "LEAST_PART", 4)
    x, y = blobs(480)
    model = UncertaintyBalancedClassifier(width=8, epochs=2, batch_size=32, random_state=0).fit(x, y)
    stages = [record["stage"] for record in model.history_["epochs"]]
    assert stages == ["class"] * 4 + ["sample"] * 2
    assert model.history_["chosen"]["steps"] == 30  # 15 batches, twice
    assert "shift" in model.history_["epochs"][3]


def test_a_run_of_epochs_of_some_batches_resumes_to_the_same_bits(tmp_path):
    x, y = blobs(100)
    data, settings = ArrayData(x, y), Settings(epochs=6, batch_size=10, epoch_batches=4, seed=3, checkpoint_steps=1)

    class StopAt:
        """End in the middle of an epoch."""

        def __init__(self) -> None:
            self.steps = 0

        def step(self, epoch: int, stage: str, steps: int) -> None:  # noqa: ARG002
            self.steps += 1
            if self.steps == 14:
                raise InterruptedError("the machine went down")

        def epoch(self, record: dict) -> None: ...

    whole, parts = small_network(), small_network()
    expected = train(whole, data, settings, curriculum=Curriculum(6))
    with pytest.raises(InterruptedError, match="went down"):
        train(parts, data, settings, curriculum=Curriculum(6), folder=tmp_path, watcher=StopAt())
    resumed = small_network()
    found = train(resumed, data, settings, curriculum=Curriculum(6), folder=tmp_path)
    assert [record["loss"] for record in found] == [record["loss"] for record in expected]
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, resumed.state_dict()[name]), name


def warned(**options) -> list[str]:
    x, y = blobs(options.pop("samples", 100))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ShortTrainingWarning)
        UncertaintyBalancedClassifier(width=8, random_state=0, **options).fit(x, y)
    return [str(each.message) for each in told if each.category is ShortTrainingWarning]


def test_too_few_epochs_say_how_many_it_takes():
    sentence = r"training is short: margins get 3 optimiser steps but need about \d+ to act; set epochs to (\d+)"
    told = warned(epochs=3, batch_size=32, margins="uncertainty")  # of 90 samples and of 100
    assert len(told) == 1
    found = re.match(sentence, told[0])
    assert found is not None
    enough = int(found[1])
    stages = Curriculum(enough)
    assert 3 * (stages.sample_start - stages.class_start) >= CLASS_STEPS - 6  # whole epochs
    assert "margins get 0 optimiser steps" in warned(epochs=1, margins="uncertainty")[0]
    assert "margins get 6 optimiser steps" in warned(epochs=3, batch_size=32)[0]  # no softmax stage
    (told,) = warned(class_epochs=2, sample_epochs=1, batch_size=32)
    assert told.endswith(f"give the class stage {math.ceil(CLASS_STEPS / 3)} epochs or more.")


def test_enough_steps_and_other_methods_warn_of_nothing(monkeypatch):
    monkeypatch.setattr("equipoise.training.stages.CLASS_STEPS", 3)
    assert warned(epochs=3, batch_size=32) == []
    monkeypatch.undo()
    assert warned(epochs=1, method="cross_entropy") == []
    assert Curriculum(9, softmax=3, class_level=0, sample_level=6).short_stage([1] * 9, 1) is None  # as asked for
