"""Atomic checkpoints: everything that changes while training, as tensors and JSON, never as a pickle."""

import json
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from accelerate import Accelerator
from torch import Tensor

from equipoise.errors import EquipoiseWarning, InvalidInputError
from equipoise.storage.files import remove_abandoned, write_atomically
from equipoise.storage.size_limits import open_tensors, parse_json
from equipoise.training.curriculum import Curriculum
from equipoise.training.network_recipe import Network
from equipoise.training.watchers import Record

State = dict[str, Any]
KEPT = 2
"""Checkpoints kept in a folder: if the newest is damaged, the one before it is used."""


@dataclass
class Position:
    """The position in a run: the next step, and what has been recorded so far."""

    epoch: int = 0
    step: int = 0  # within the epoch
    total: int = 0  # over all epochs
    loss_sum: float = 0.0  # over this epoch's steps
    best_score: float = float("-inf")
    best_epoch: int = -1
    history: list[Record] = field(default_factory=list)

    def advance(self, loss: float) -> None:
        """Advance by one step."""
        self.step, self.total, self.loss_sum = self.step + 1, self.total + 1, self.loss_sum + loss

    def mean_loss(self) -> float:
        """Return the mean loss over this epoch's steps so far."""
        return self.loss_sum / max(self.step, 1)

    def end_epoch(self, record: Record) -> None:
        """Advance to the next epoch."""
        self.history.append(record)
        self.epoch, self.step, self.loss_sum = self.epoch + 1, 0, 0.0


@dataclass
class Trainee:
    """Everything that changes while training and therefore belongs in a checkpoint."""

    accelerator: Accelerator
    network: Network
    optimizer: Any
    scheduler: Any
    curriculum: Curriculum | None
    best: dict[str, Tensor] = field(default_factory=dict)

    def tensors(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return named tensors and JSON; every process takes part, since each has its own random state."""
        optimizer, plain = pack_optimizer(self.optimizer.state_dict())
        device, gather = self.accelerator.device, self.accelerator.gather
        states = {name: gather(state.to(device)).cpu() for name, state in random_states(device).items()}
        tensors = (
            with_prefix("network", self.network.state_dict())
            | with_prefix("optimizer", optimizer)
            | with_prefix("random", states)
            | with_prefix("curriculum", {} if self.curriculum is None else self.curriculum.state_dict())
            | with_prefix("best", self.best)
        )
        return tensors, {"optimizer": plain, "scheduler": self.scheduler.state_dict()}

    def load(self, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Restore what :meth:`tensors` returned."""
        self.network.load_state_dict(of_prefix("network", tensors))
        self.optimizer.load_state_dict(unpack_optimizer(of_prefix("optimizer", tensors), state["optimizer"]))
        # Moments keep their parameter's memory layout, as before saving: another layout would round differently.
        for parameter, moments in self.optimizer.state.items():
            for name, moment in moments.items():
                if isinstance(moment, Tensor) and moment.ndim and moment.shape == parameter.shape:
                    moments[name] = torch.empty_like(parameter, dtype=moment.dtype, device=moment.device).copy_(moment)
        self.scheduler.load_state_dict(state["scheduler"])
        if self.curriculum is not None:
            self.curriculum.load_state_dict(of_prefix("curriculum", tensors))
        self.best = of_prefix("best", tensors)
        self._restore_random(of_prefix("random", tensors), state)

    def _restore_random(self, joined: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Restore this process's own random state; other processes than before draw anew."""
        rank, device = self.accelerator.process_index, self.accelerator.device
        saved = len(state["loss_sums"])
        if saved == self.accelerator.num_processes:
            restore_random_states({name: each.view(saved, -1)[rank].clone() for name, each in joined.items()}, device)
        else:
            torch.manual_seed(state["position"]["total"] * 1_000_003 + rank)


class Checkpoints:
    """The two newest checkpoints of a run, in ``folder``; older ones are removed once a newer one is on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if folder.is_symlink():  # in somebody else's run it could lead anywhere
            raise InvalidInputError(f"{folder} is a link; put the folder itself there, or train into another one.")
        folder.mkdir(parents=True, exist_ok=True)
        remove_abandoned(folder)

    def save(self, step: int, tensors: dict[str, Tensor], state: State) -> Path:
        """Write checkpoint number ``step``."""
        plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        content = safetensors.torch.save(plain, metadata={"state": json.dumps(state)})
        path = self.folder / f"step-{step:09d}.safetensors"
        write_atomically(path, content)
        for old in self._paths()[:-KEPT]:
            old.unlink(missing_ok=True)
        return path

    def newest(self) -> tuple[dict[str, Tensor], State] | None:
        """Return the newest readable checkpoint, or None; skip others with a warning."""
        for path in reversed(self._paths()):
            try:
                with open_tensors(path) as file:
                    state = parse_json((file.metadata() or {})["state"])
                    if not isinstance(state, dict):
                        raise ValueError("its state is not an object")
                    return {name: file.get_tensor(name) for name in file.keys()}, state  # noqa: SIM118
            except (safetensors.SafetensorError, KeyError, ValueError, RecursionError, OSError) as error:
                sentence = f"{path} is damaged ({error}); the checkpoint before it is used."
                warnings.warn(sentence, EquipoiseWarning, stacklevel=2)
        return None

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("step-*.safetensors"))


def pack_optimizer(state: State) -> tuple[dict[str, Tensor], State]:
    """Split an optimiser's state dict into named tensors and JSON."""
    every = {f"{parameter}.{name}": value for parameter, own in state["state"].items() for name, value in own.items()}
    tensors = {name: value for name, value in every.items() if isinstance(value, Tensor)}
    plain = {name: value for name, value in every.items() if name not in tensors}
    return tensors, {"param_groups": state["param_groups"], "state": plain}


def unpack_optimizer(tensors: dict[str, Tensor], state: State) -> State:
    """Undo :func:`pack_optimizer`."""
    values: dict[int, State] = {}
    for key, value in (state["state"] | tensors).items():
        parameter, _, name = key.partition(".")
        values.setdefault(int(parameter), {})[name] = value
    return {"param_groups": state["param_groups"], "state": values}


def with_prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Add a prefix to names, so that several sets of tensors fit into one file."""
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def of_prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Undo :func:`with_prefix`."""
    return {name.removeprefix(f"{prefix}/"): t for name, t in tensors.items() if name.startswith(f"{prefix}/")}


def random_states(device: torch.device) -> dict[str, Tensor]:
    """Return the states of the random generators that a training step uses."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def restore_random_states(states: dict[str, Tensor], device: torch.device) -> None:
    """Undo :func:`random_states`."""
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)
