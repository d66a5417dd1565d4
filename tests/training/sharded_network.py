"""Steps of a sharded network beside those of a whole one: for groups of processes."""

import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from torch.distributed.tensor import DTensor

from equipoise.losses import LOSSES
from equipoise.models import MLP
from equipoise.training import Network
from equipoise.training.sharding import load_sharded, save_sharded, shard_network, whole_state

BATCH, STEPS = 8, 6


def new_network() -> Network:
    torch.manual_seed(0)
    head = LOSSES["uncertainty_margin"](24, 5, margin=2.0, strength=0.5)
    return Network(MLP(12, (24, 24), dropout=0.0), head)


def steps(model: Any, optimizer: torch.optim.Optimizer, first: int, last: int, rank: int, size: int) -> None:
    for step in range(first, last):
        generator = torch.Generator().manual_seed(step)
        x, target = torch.randn(BATCH, 12, generator=generator), torch.randint(5, (BATCH,), generator=generator)
        own = slice(rank * BATCH // size, (rank + 1) * BATCH // size)
        model(x[own], target[own]).backward()
        optimizer.step()
        optimizer.zero_grad()


def optimizer_of(network: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(network.parameters(), lr=0.01)


def whole() -> dict[str, torch.Tensor]:
    """The weights of one process."""
    network = new_network()
    steps(network, optimizer_of(network), 0, STEPS, 0, 1)
    return network.state_dict()


def by_accelerate() -> dict[str, Any]:
    """What Accelerate's plugin for FSDP2 makes of processes on CPUs."""
    accelerator = Accelerator(cpu=True, fsdp_plugin=FullyShardedDataParallelPlugin(fsdp_version=2))
    model = accelerator.prepare(new_network())
    sharded = any(isinstance(each, DTensor) for each in model.parameters())
    return {"kind": accelerator.distributed_type.value, "wrapper": type(model).__name__, "sharded": sharded}


def compare(folder: str, resume: bool = False) -> dict[str, Any]:
    """Train sharded, half of the steps and the rest after a checkpoint; the largest difference from one process."""
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    network = shard_network(new_network())
    optimizer = optimizer_of(network)
    if resume:
        steps(network, optimizer, 90, 91, rank, size)  # other weights and moments, which the checkpoint replaces
        load_sharded(folder, network, optimizer)
    else:
        steps(network, optimizer, 0, STEPS // 2, rank, size)
        save_sharded(folder, network, optimizer)
    steps(network, optimizer, STEPS // 2, STEPS, rank, size)
    found, expected = whole_state(network), whole()
    own = sum(each.to_local().numel() for each in network.parameters())
    every = sum(each.numel() for each in network.parameters())
    dist.destroy_process_group()
    return {
        "names": sorted(found) == sorted(expected),
        "difference": max(float((found[name] - expected[name]).abs().max()) for name in expected),
        "moved": max(float((found[name] - start).abs().max()) for name, start in new_network().state_dict().items()),
        "share": own / every,
        "files": sorted(os.listdir(Path(folder))),
    }
