"""Margins from uncertainty in heads without a curriculum, and the paper to the letter."""

from functools import partial

import pytest
import torch

from equipoise.app.compare.margins import LateMargins, MarginWatcher
from equipoise.errors import InvalidInputError
from equipoise.losses import LOSSES, CosineMarginLoss, UncertaintyMarginLoss
from equipoise.models import MLP
from equipoise.training import ArrayData, Network, Settings, train

SETTINGS = Settings(epochs=6, batch_size=16, seed=0)
PRINTED = partial(UncertaintyMarginLoss, form="angular", placement="target", normalize=False, sample_level="printed")


def rare_data():
    generator = torch.Generator().manual_seed(0)
    y = torch.tensor([0] * 60 + [1] * 60 + [2] * 8)
    centres = torch.eye(3)
    return ArrayData(centres[y] + 0.7 * torch.randn(len(y), 3, generator=generator), y, None)


def watched(head, late):
    """What the head's buffers are after each epoch."""
    network = Network(MLP(3, (16,), dropout=0.3), head(16, 3, dropout=0.3))
    data = rare_data()
    watcher = MarginWatcher(network, data, SETTINGS, late)
    seen = []

    class Both:
        def step(self, epoch, stage, steps):  # noqa: ARG002
            if len(seen) == epoch:
                buffers = ("margins", "strength", "sample_strength")
                seen.append({name: getattr(network.head, name, torch.zeros(())).clone() for name in buffers})

        def epoch(self, record):
            watcher.epoch(record)

    train(network, data, SETTINGS, watcher=Both())
    return seen


def test_a_cosine_head_has_no_margin_then_the_uncertaintys():
    seen = watched(partial(CosineMarginLoss, kind="am_softmax"), LateMargins(0.0, 0.35, "unresolved"))
    assert all(torch.equal(epoch["margins"], torch.zeros(3)) for epoch in seen[:1])
    late = seen[1]["margins"]
    assert all(torch.equal(epoch["margins"], late) for epoch in seen[2:])  # once, and kept
    assert late.min() == 0
    assert late.max() == pytest.approx(0.35)
    assert late.argmax() == 2  # the rare class


def test_the_same_margin_for_all_classes_is_the_fixed_one():
    seen = watched(LOSSES["l_softmax"], LateMargins(4.0, 4.0, "unresolved", strength=1 / 6))
    assert [round(float(epoch["strength"]), 4) for epoch in seen] == [0] + [0.1667] * 5
    assert torch.equal(seen[-1]["margins"], torch.full((3,), 4.0))


def test_a_margin_that_rises_has_all_of_it_at_the_end_of_the_class_stage():
    seen = watched(LOSSES["l_softmax"], LateMargins(4.0, 4.0, "unresolved", strength=1 / 6, rising=True))
    assert [round(float(epoch["strength"]), 4) for epoch in seen] == [0, 0.0556, 0.1111, 0.1667, 0.1667, 0.1667]
    assert all(torch.equal(epoch["margins"], torch.full((3,), 4.0)) for epoch in seen[1:])
    seen = watched(partial(CosineMarginLoss, kind="arcface"), LateMargins(0.4, 0.4, "unresolved", rising=True))
    assert [round(float(epoch["margins"].min()), 4) for epoch in seen] == [0, 0.1333, 0.2667, 0.4, 0.4, 0.4]


def test_the_paper_as_printed_has_whole_margins_at_full_strength_and_the_sample_level_last():
    seen = watched(PRINTED, LateMargins(1.0, 3.0, "own", "paper"))
    assert [float(epoch["strength"]) for epoch in seen] == [0, 1, 1, 1, 1, 1]
    assert [float(epoch["sample_strength"]) for epoch in seen] == [0, 0, 0, 0, 1, 1]
    margins = seen[-1]["margins"]
    assert set(margins.tolist()) <= {1.0, 2.0, 3.0}
    assert margins.max() == 3


def test_other_heads_have_no_margins():
    network = Network(MLP(3, (16,)), LOSSES["focal"](16, 3))
    with pytest.raises(InvalidInputError, match="margins are of CosineMarginLoss"):
        MarginWatcher(network, rare_data(), SETTINGS, LateMargins(0.0, 1.0, "own"))
