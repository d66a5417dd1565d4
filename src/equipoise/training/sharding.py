"""Networks too large for one process: weights, gradients and optimiser state shared by all of them (FSDP2).

A network is cut by ``torch.distributed.fsdp.fully_shard``; Accelerate's plugin, which does the same on GPUs, ignores
processes on CPUs. Every process writes its own share of a checkpoint, as safetensors and JSON, never as a pickle; any
number of processes reads it.
"""

import json
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from equipoise.errors import InvalidInputError, InvalidStateError
from equipoise.storage.files import write_atomically
from equipoise.storage.records import read_json
from equipoise.training.network_recipe import Network

GROUPS = "param_groups.json"
"""File of an optimiser's values that are not tensors, such as learning rates."""
WEIGHTS, STATE = "network.", "optimizer."


def shard_network(network: Network, *, mesh: DeviceMesh | None = None) -> Network:
    """Share a network's weights between all processes, in place; make its optimiser afterwards.

    While a part of the backbone works, each process has that part and the head whole, and its share of everything
    else. ``network(x, target)`` and ``network(x)`` work as before.

    Args:
        network: the same on every process.
        mesh: the processes; None is all of them.
    """
    if not dist.is_initialized():
        raise InvalidStateError(
            "shard_network needs several processes; start them with torchrun and initialise their process group."
        )
    if mesh is None:
        device = next(network.parameters()).device.type
        mesh = init_device_mesh(device, (dist.get_world_size(),))
    for part in network.backbone.children():
        if any(True for _ in part.parameters()) and not isinstance(part, nn.ModuleList):
            fully_shard(part, mesh=mesh)
    fully_shard(network.backbone, mesh=mesh)
    fully_shard(network, mesh=mesh)
    return network


def whole_state(network: nn.Module) -> dict[str, Tensor]:
    """Return the whole weights and buffers on every process, with which an unsharded network can be loaded."""
    found = {}
    for name, value in network.state_dict().items():
        whole = value.full_tensor() if isinstance(value, DTensor) else value
        found[name] = whole.detach().cpu().clone()
    return found


def save_sharded(folder: str | Path, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Write every process's share of weights and optimiser state into a ``folder``; all processes call this."""
    folder = Path(folder)
    tensors, groups = _parts(network, optimizer)
    save(tensors, storage_writer=HuggingFaceStorageWriter(str(folder), save_distributed=True))
    if dist.get_rank() == 0:  # last: a folder without it is unfinished
        write_atomically(folder / GROUPS, json.dumps(groups).encode())
    dist.barrier()


def load_sharded(folder: str | Path, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Read what :func:`save_sharded` wrote, also by another number of processes; all of them call this."""
    folder = Path(folder)
    if not (folder / GROUPS).is_file():
        raise InvalidInputError(f"{folder} is not a finished checkpoint of a sharded network; check the path.")
    tensors, _ = _parts(network, optimizer)
    load(tensors, storage_reader=HuggingFaceStorageReader(str(folder)))
    state: dict[str, Any] = {}
    for key, value in tensors.items():
        if key.startswith(STATE):
            name, _, field = key.removeprefix(STATE).rpartition(".")
            state.setdefault(name, {})[field] = value
    groups = read_json(folder / GROUPS, list[dict[str, Any]], remedy="take another checkpoint")
    weights: dict[str, Any] = {
        key.removeprefix(WEIGHTS): value for key, value in tensors.items() if key.startswith(WEIGHTS)
    }
    set_state_dict(
        network,
        optimizer,
        model_state_dict=weights,
        optim_state_dict={"state": state, "param_groups": groups},
    )


def _parts(network: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], Any]:
    """Return named tensors, shards as they are, and the plain values of the optimiser."""
    found: tuple[Any, Any] = get_state_dict(network, optimizer)
    weights, own = found
    tensors: dict[str, Tensor] = {f"{WEIGHTS}{name}": value for name, value in weights.items()}
    for name, fields in own["state"].items():
        tensors |= {f"{STATE}{name}.{field}": value for field, value in fields.items()}
    return tensors, own["param_groups"]
