"""A replica has the original's weights and answers, and nothing done to it reaches the original."""

from types import MethodType

import pytest
import torch
from torch import Tensor, nn

from equipoise.models import resnet18
from equipoise.models.evaluation_copy import eval_replica


class Knotted(nn.Module):
    """Modules shared, listed, hidden from torch and reached by bound methods."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.again = self.first
        self.listed = [self.norm]
        self.step = self._step
        self.seen: list[int] = []

    def _step(self, x: Tensor) -> Tensor:
        self.seen.append(len(x))
        return self.listed[0](self.again(x))

    def forward(self, x: Tensor) -> Tensor:
        return self.step(self.first(x))


def test_weights_are_shared_and_modes_are_not():
    original = resnet18().train()
    copied = eval_replica(original)
    assert all(a is b for a, b in zip(original.parameters(), copied.parameters(), strict=True))
    assert all(a is b for a, b in zip(original.buffers(), copied.buffers(), strict=True))
    assert not any(module.training for module in copied.modules())
    assert all(module.training for module in original.modules())
    assert not {id(module) for module in copied.modules()} & {id(module) for module in original.modules()}
    x = torch.randn(2, 3, 32, 32)
    statistics = [buffer.clone() for buffer in original.buffers()]
    found = copied(x)
    assert all(torch.equal(a, b) for a, b in zip(original.buffers(), statistics, strict=True))
    assert torch.equal(found, original.eval()(x))


def test_modules_reached_by_other_ways_are_those_of_the_copy():
    original = Knotted().train()
    copied = eval_replica(original)
    x = torch.randn(5, 4)
    found = copied(x)
    assert copied.again is copied.first
    assert copied.listed[0] is copied.norm
    assert original.seen == []
    assert int(original.norm.num_batches_tracked) == 0  # its BatchNorm, in training mode, was not run
    assert torch.equal(found, original.eval()(x))


def test_hooks_run_on_the_copy_and_new_ones_only_there():
    original, calls = nn.Sequential(nn.Linear(3, 3)), []
    original[0].register_forward_hook(lambda *_: calls.append("old"))
    copied = eval_replica(original)
    copied[0].register_forward_hook(lambda *_: calls.append("new"))
    copied(torch.ones(1, 3))
    assert calls == ["old", "new"]
    original(torch.ones(1, 3))
    assert calls == ["old", "new", "old"]


def test_a_forward_put_in_place_of_the_classs_own_works_on_the_copy():
    original = nn.Linear(3, 3)
    original.forward = MethodType(lambda self, x: (self, 2 * nn.Linear.forward(self, x)), original)
    copied = eval_replica(original)
    owner, found = copied(torch.ones(1, 3))
    assert owner is copied
    assert torch.equal(found, original(torch.ones(1, 3))[1])


@pytest.mark.slow  # torch's compiler takes seconds to import
def test_a_compiled_module_is_copied_uncompiled():
    plain = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).train()
    compiled = eval_replica(torch.compile(plain, backend="eager"))
    assert type(compiled) is nn.Sequential
    assert plain.training
    x = torch.ones(2, 3)
    assert torch.equal(compiled(x), plain[0](x))


@pytest.mark.slow
def test_a_module_compiled_in_place_runs_as_itself():
    plain = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5)).train()
    plain.compile(backend="eager")
    copied = eval_replica(plain)
    assert torch.equal(copied(torch.ones(2, 3)), plain[0](torch.ones(2, 3)))
