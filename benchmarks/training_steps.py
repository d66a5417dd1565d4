"""Training steps: beside their matrix products, beside plain torch, and in epochs of a million rows."""

import statistics
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from matrix_products import beside_its_products, cpu_seconds

from equipoise.losses import LOSSES
from equipoise.models import MLP, LeNet
from equipoise.models.resnet import resnet18
from equipoise.training import ArrayData, Network, Settings, train
from equipoise.training.accelerate_setup import make_accelerator
from equipoise.training.optimizer import Stepper, make_optimizer

COLUMNS, WIDTH, CLASSES, BATCH = 512, 512, 10, 256
"""Sizes of the table network."""


def networks() -> dict[str, tuple[Network, torch.Tensor]]:
    """A table network, LeNet and ResNet-18, each with a batch, as training has them."""
    torch.manual_seed(0)
    bodies: dict[str, tuple[torch.nn.Module, torch.Tensor]] = {
        "table network": (MLP(COLUMNS, (WIDTH, WIDTH)), torch.randn(BATCH, COLUMNS)),
        "table network, larger batch": (MLP(COLUMNS, (WIDTH, WIDTH)), torch.randn(4 * BATCH, COLUMNS)),
        "LeNet": (LeNet(), torch.randn(128, 1, 28, 28)),
        "ResNet-18": (resnet18(), torch.randn(8, 3, 224, 224)),
    }
    heads = {
        name: LOSSES["uncertainty_margin"](body.out_features, CLASSES, dropout=0.5, margin=2.0, strength=0.5)
        for name, (body, _) in bodies.items()
    }
    return {name: (Network(body, heads[name]), x) for name, (body, x) in bodies.items()}


def stepping(network: Network, settings: Settings, steps: int) -> Callable[..., None]:
    """Return a step by torch alone: forward pass, backward pass, AdamW and its schedule."""
    optimizer, scheduler = make_optimizer(network, settings, steps)

    def step(*batch: torch.Tensor) -> None:
        network(*batch).backward()
        optimizer.step()
        optimizer.zero_grad()
        scheduler.step()

    return step


def steps_beside_their_products() -> dict[str, object]:
    """How much of a step is spent on what it cannot do without."""
    found: dict[str, object] = {}
    for name, (network, x) in networks().items():
        step = partial(
            stepping(network, Settings(epochs=1, batch_size=len(x)), 10**6), x, torch.arange(len(x)) % CLASSES
        )
        found[name] = {"batch": len(x)} | beside_its_products(step, times=1 if name == "ResNet-18" else 10)
    return found


def loop_overhead(steps: int = 500, rounds: int = 7) -> dict[str, float]:
    """Microseconds of a step of a tiny network on batches cut beforehand, by torch alone, as the loop steps and through
    Accelerate's wrappers; and of a step of ``train`` with all that belongs to it.
    """
    x, y = torch.randn(32 * steps, 8), torch.arange(32 * steps) % 3
    batches = list(zip(x.split(32), y.split(32), strict=True))
    data, settings = ArrayData(x, y), Settings(epochs=1, batch_size=32)

    def network() -> Network:
        return Network(MLP(8, (16,), dropout=0.0), LOSSES["cross_entropy"](16, 3))

    def by_torch() -> None:
        step = stepping(network(), settings, steps)
        for batch in batches:
            step(*batch)

    def by_loop(*, wrapped: bool) -> None:
        accelerator, own = make_accelerator(settings, None, None), network()
        model, optimizer, scheduler = accelerator.prepare(own, *make_optimizer(own, settings, steps))
        stepper = Stepper(accelerator, model, optimizer, scheduler)
        if wrapped:
            stepper.every_batch, stepper.optimizer, stepper.scheduler = False, optimizer, scheduler
        for batch in batches:
            with stepper.batch():
                stepper.step(model(*batch))

    works: dict[str, Callable[[], object]] = {
        "torch": by_torch,
        "loop": partial(by_loop, wrapped=False),
        "accelerate": partial(by_loop, wrapped=True),
        "train": lambda: train(network(), data, settings),
    }
    return {name: round(statistics.median(v) * 1e6 / steps, 1) for name, v in in_turns(works, rounds).items()}


def million_rows(rows: int = 1_000_000, columns: int = 30, batch: int = 4096) -> dict[str, object]:
    """CPU seconds of one epoch of a table network: by torch alone and by ``train``."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, columns)).astype(np.float32)
    y = torch.as_tensor((x @ rng.normal(size=columns) > 8).astype(np.int64))
    data, settings = ArrayData(x, y), Settings(epochs=1, batch_size=batch)

    def network(method: str) -> Network:
        torch.manual_seed(0)
        return Network(MLP(columns, (WIDTH, WIDTH)), LOSSES[method](WIDTH, 2, dropout=0.5))

    def by_torch() -> None:
        step = stepping(network("cross_entropy"), settings, rows // batch)
        for part in torch.randperm(rows).split(batch):
            step(torch.from_numpy(x[part.numpy()]), y[part])

    works: dict[str, Callable[[], object]] = {
        "torch, cross_entropy": by_torch,
        "train, cross_entropy": lambda: train(network("cross_entropy"), data, settings),
        "train, uncertainty_margin": lambda: train(network("uncertainty_margin"), data, settings),
    }
    shape = {"rows": rows, "columns": columns, "hidden": [WIDTH, WIDTH], "batch": batch}
    return shape | {"seconds": {name: round(value, 1) for name, (value,) in in_turns(works, 1).items()}}


def in_turns(works: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """CPU seconds of each work in each round, all of them in turns."""
    taken: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            taken[name].append(cpu_seconds(work))
    return taken
