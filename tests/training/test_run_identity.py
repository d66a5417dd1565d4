"""Two runs are the same only if nothing at all differs."""

from functools import partial

import numpy as np
import torch

from equipoise.losses import LogitLoss, UncertaintyMarginLoss
from equipoise.losses.logit_losses import logit_adjustment
from equipoise.models import MLP
from equipoise.training import ArrayData, Curriculum, Network, Settings
from equipoise.training.resumable_run import checksum, data_identity, options_of, run_identity


def test_data_are_known_to_the_last_bit_in_memory_and_on_disk(tmp_path, monkeypatch):
    x, y = torch.randn(1000, 3), torch.randint(4, (1000,))
    np.save(tmp_path / "x.npy", x.numpy())
    own = data_identity(ArrayData(x, y))
    monkeypatch.setattr("equipoise.training.resumable_run.ROWS_AT_ONCE", 1000)
    assert data_identity(ArrayData(np.load(tmp_path / "x.npy", mmap_mode="r"), y)) == own
    touched = x.clone()
    touched[1, 2] += 1e-6
    others = [
        ArrayData(touched, y),
        ArrayData(x.flip(1), y),
        ArrayData(x.flip(0), y.flip(0)),
        ArrayData(x[:999], y[:999]),
        ArrayData(x, y.roll(1)),
        ArrayData(x.view(1000, 3, 1), y),
        ArrayData(x.double(), y),
        ArrayData(x, y, torch.ones(1000)),
        ArrayData(x, y).subset(torch.randperm(1000)),
    ]
    assert [i for i, other in enumerate(others) if data_identity(other) == own] == []


def identity(network, **changes):
    data = ArrayData(torch.ones(4, 2), torch.tensor([0, 1, 0, 1]))
    return run_identity(network, data, Settings(epochs=3, batch_size=2, **changes), Curriculum(3), None)


def network(criterion=None):
    torch.manual_seed(0)
    backbone = MLP(2, (4,))
    counts = torch.tensor([2.0, 2.0])
    head = (
        UncertaintyMarginLoss(4, 2) if criterion is None else LogitLoss(4, 2, criterion=criterion, class_counts=counts)
    )
    return Network(backbone, head)


def test_weights_and_constants_of_a_loss_belong_to_it():
    own = identity(network())
    assert identity(network()) == own
    moved = network()
    with torch.no_grad():
        moved.backbone.layers[0].weight[0, 0] += 1e-6
    assert identity(moved) != own
    one, three = (identity(network(partial(logit_adjustment, tau=tau))) for tau in (1.0, 3.0))
    assert one != three
    assert identity(network(), seed=1) != own


def test_what_changes_while_training_does_not():
    curriculum = Curriculum(3)
    before = options_of(curriculum)
    curriculum.set_uncertainty(torch.tensor([1.0, 2.0]), UncertaintyMarginLoss(4, 2))
    curriculum.angle = 0.3
    assert options_of(curriculum) == before
    assert options_of(UncertaintyMarginLoss(4, 2).train()) == options_of(UncertaintyMarginLoss(4, 2).eval())


def test_a_checksum_tells_types_apart_and_takes_every_one():
    zeros = [torch.zeros(4, dtype=dtype) for dtype in (torch.float32, torch.int32, torch.bfloat16, torch.bool)]
    assert len({checksum([tensor]) for tensor in zeros}) == 4
    assert checksum([torch.tensor(1.0)]) != checksum([torch.tensor(2.0)])
