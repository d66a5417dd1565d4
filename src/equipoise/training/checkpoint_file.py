"""Checkpoints that are whole or not there: tensors and JSON in one safetensors file, never a pickle."""

import json
import warnings
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor

from equipoise.errors import InvalidInputError
from equipoise.storage.files import remove_abandoned, write_atomically
from equipoise.storage.limits import open_tensors, parse_json

State = dict[str, Any]


class Checkpoints:
    """The newest few checkpoints of a run, in ``folder``; older ones are removed once a newer one is safe."""

    def __init__(self, folder: Path, *, keep: int = 2) -> None:
        self.folder, self.keep = folder, keep
        if folder.is_symlink():  # of a run that somebody else has made, it could lead anywhere
            raise InvalidInputError(f"{folder} is a link; put the folder itself there, or train into another one.")
        folder.mkdir(parents=True, exist_ok=True)
        remove_abandoned(folder)

    def save(self, step: int, tensors: dict[str, Tensor], state: State) -> Path:
        """Write checkpoint number ``step``."""
        plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        content = safetensors.torch.save(plain, metadata={"state": json.dumps(state)})
        path = self.folder / f"step-{step:09d}.safetensors"
        write_atomically(path, content)
        for old in self._paths()[: -self.keep]:
            old.unlink(missing_ok=True)
        return path

    def newest(self) -> tuple[dict[str, Tensor], State] | None:
        """The newest checkpoint that can be read, or None; one that cannot is passed over with a warning."""
        for path in reversed(self._paths()):
            try:
                with open_tensors(path) as file:
                    state = parse_json((file.metadata() or {})["state"])
                    if not isinstance(state, dict):
                        raise ValueError("its state is no object")
                    return {name: file.get_tensor(name) for name in file.keys()}, state  # noqa: SIM118
            except (safetensors.SafetensorError, KeyError, ValueError, RecursionError, OSError) as error:
                warnings.warn(f"{path} is damaged ({error}); the checkpoint before it is used.", stacklevel=2)
        return None

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("step-*.safetensors"))


def pack_optimizer(state: State) -> tuple[dict[str, Tensor], State]:
    """An optimiser's state_dict as named tensors and JSON."""
    tensors: dict[str, Tensor] = {}
    plain: dict[str, State] = {}
    for parameter, values in state["state"].items():
        plain[str(parameter)] = {}
        for name, value in values.items():
            if isinstance(value, Tensor):
                tensors[f"{parameter}.{name}"] = value
            else:
                plain[str(parameter)][name] = value
    return tensors, {"param_groups": state["param_groups"], "state": plain}


def unpack_optimizer(tensors: dict[str, Tensor], state: State) -> State:
    """The inverse of :func:`pack_optimizer`."""
    values: dict[int, State] = {int(parameter): dict(plain) for parameter, plain in state["state"].items()}
    for key, tensor in tensors.items():
        parameter, _, name = key.partition(".")
        values[int(parameter)][name] = tensor
    return {"param_groups": state["param_groups"], "state": values}


def with_prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Names under a prefix, for several sets of tensors in one file."""
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


def of_prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of :func:`with_prefix`."""
    return {name.removeprefix(f"{prefix}/"): t for name, t in tensors.items() if name.startswith(f"{prefix}/")}


def random_states(device: torch.device) -> dict[str, Tensor]:
    """The generators a training step draws from."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def restore_random_states(states: dict[str, Tensor], device: torch.device) -> None:
    """The inverse of :func:`random_states`."""
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)
