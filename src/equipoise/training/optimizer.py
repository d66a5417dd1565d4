"""The optimiser, its learning rates and their schedule, and how it steps."""

import math
import os
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

from equipoise.training.network_recipe import Network
from equipoise.training.settings import Settings


def make_optimizer(network: Network, settings: Settings, steps: int) -> tuple[torch.optim.Optimizer, LambdaLR]:
    """Return AdamW, and a schedule that decays the learning rate to 0 along a cosine over ``steps``."""
    groups = _parameter_groups(network, settings.learning_rate)
    with surroundings_kept():
        optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate, weight_decay=settings.weight_decay, fused=True)
    return optimizer, LambdaLR(optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * min(step / max(steps, 1), 1.0))))


class Stepper:
    """The steps of an optimiser and its schedule, through Accelerate, or through plain torch if the result is the same.

    At each step, Accelerate's wrappers look for packages on the disk, enter contexts and divide the loss by 1. For a
    small network that takes nearly as long as the step itself, so a single process without a loss scale bypasses them.

    Args:
        accelerator: the accelerator of the training.
        model, optimizer, scheduler: as prepared by it.
    """

    def __init__(self, accelerator: Accelerator, model: Any, optimizer: Any, scheduler: Any) -> None:
        alone = accelerator.distributed_type == DistributedType.NO and accelerator.scaler is None
        self.every_batch = alone and accelerator.gradient_accumulation_steps == 1
        self.accelerator, self.model = accelerator, model
        self.optimizer = optimizer.optimizer if alone else optimizer
        self.scheduler = scheduler.scheduler if self.every_batch else scheduler

    @property
    def complete(self) -> bool:
        """True once the gradients of all accumulated batches are there."""
        return self.every_batch or bool(self.accelerator.sync_gradients)

    def batch(self) -> AbstractContextManager[object]:
        """Return a context for the forward pass and :meth:`step` of a batch."""
        return nullcontext() if self.every_batch else self.accelerator.accumulate(self.model)

    def step(self, loss: Tensor) -> None:
        """Run the backward pass, and step once the gradients are complete."""
        if self.every_batch:
            loss.backward()
        else:
            self.accelerator.backward(loss)
        if self.complete:
            self.optimizer.step()
            self.optimizer.zero_grad()
        self.scheduler.step()


def _parameter_groups(network: Network, rate: float) -> list[dict[str, Any]]:
    """Return the paper's two learning rates: a small one up to the global pooling, where weights are pretrained."""
    body_rate = float(getattr(network.backbone, "body_rate", 1.0))
    if body_rate == 1:
        return [{"params": list(network.parameters())}]
    body = list(network.backbone.get_submodule("body").parameters())
    inside = {id(parameter) for parameter in body}
    rest = [parameter for parameter in network.parameters() if id(parameter) not in inside]
    return [{"params": body, "lr": rate * body_rate}, {"params": rest}]


@contextmanager
def surroundings_kept() -> Iterator[None]:
    """Restore environment variables and warning filters afterwards.

    torch's first optimiser imports its compiler, which sets a cache folder in the environment, and sympy, which adds a
    filter.
    """
    before = dict(os.environ)
    try:
        with warnings.catch_warnings():
            yield
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update({name: value for name, value in before.items() if os.environ.get(name) != value})
