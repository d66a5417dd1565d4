"""Samples held back from the first two stages, and what predictions gain by them."""

import pytest
import torch

from equipoise.losses import UncertaintyMarginLoss
from equipoise.models import MLP
from equipoise.training import ArrayData, Curriculum, Network, Settings, train
from equipoise.training.loop import _held_back
from equipoise.training.watchers import Silence
from equipoise.uncertainty.margins import log_steps


def overlapping(samples, *, rare, seed):
    """Two Gaussians in 20 dimensions, so wide that few samples can only be learnt by heart."""
    generator = torch.Generator().manual_seed(seed)
    y = (torch.arange(samples) < rare).long()
    x = torch.randn(samples, 20, generator=generator)
    x[:, :4] += 0.8 * y[:, None]
    return ArrayData(x, y)


def fit(data, *, held_back, epochs=30, watcher=None):
    torch.manual_seed(0)
    network = Network(MLP(20, (128, 128)), UncertaintyMarginLoss(128, 2, dropout=0.5, sample_level="expected"))
    curriculum = Curriculum(epochs, held_back=held_back)
    settings = Settings(epochs=epochs, batch_size=32, weight_decay=0.0, learning_rate=3e-3)
    history = train(network, data, settings, curriculum=curriculum, watcher=watcher)
    return network, curriculum, history


def recalls(network, data):
    with torch.no_grad():
        right = network(data.x).argmax(-1) == data.y
    return [float(right[data.y == c].double().mean()) for c in (0, 1)]


@pytest.mark.slow
def test_what_is_learnt_by_heart_is_made_up_for():
    data, test = overlapping(700, rare=70, seed=0), overlapping(4000, rare=2000, seed=1)
    plain, _, _ = fit(data, held_back=0.0)
    network, curriculum, history = fit(data, held_back=0.1)
    shifts = {record["epoch"]: record["shift"] for record in history if "shift" in record}
    assert list(shifts) == [19], "measured once, at the end of the class stage"
    assert shifts[19] > 0.2
    torch.testing.assert_close(network.head.shift, shifts[19] * log_steps(curriculum.uncertainty).float())
    assert recalls(plain, data)[1] > 0.95, "the margins are met on the training samples"
    before, after = recalls(plain, test), recalls(network, test)
    assert after[1] > before[1] + 0.05
    assert sum(after) > sum(before) + 0.02


def test_nothing_is_moved_where_nothing_is_lacking():
    network, _, history = fit(overlapping(600, rare=300, seed=0), held_back=0.1, epochs=6)
    assert len([record for record in history if "shift" in record]) == 1
    assert float(network.head.shift.max()) < 0.1


def test_held_back_samples_are_trained_on_in_the_last_stage_only():
    steps = []

    class Counter(Silence):
        def step(self, epoch, stage, batches):
            steps.append((epoch, stage, batches))

    fit(overlapping(640, rare=64, seed=0), held_back=0.25, epochs=6, watcher=Counter())
    assert {batches for epoch, stage, batches in steps if stage != "sample"} == {15}
    assert {batches for epoch, stage, batches in steps if stage == "sample"} == {20}
    assert len(steps) == 4 * 15 + 2 * 20


def test_a_class_too_small_to_spare_a_sample_gives_none():
    y = torch.cat([torch.zeros(40), torch.ones(10), torch.full((9,), 2.0)]).long()
    held = _held_back(ArrayData(torch.zeros(59, 2), y), Settings(epochs=3, batch_size=8), Curriculum(3))
    assert torch.bincount(y[held], minlength=3).tolist() == [4, 1, 0]
    few = ArrayData(torch.zeros(9, 2), y[-9:] - 2)
    assert _held_back(few, Settings(epochs=3, batch_size=8), Curriculum(3)) is None


def test_samples_of_several_labels_are_held_back_alike():
    y = (torch.arange(40)[:, None] % torch.tensor([2, 5]) == 0).long()
    held = _held_back(ArrayData(torch.zeros(40, 2), y), Settings(epochs=3, batch_size=8), Curriculum(3))
    assert len(held) == 4
