"""A run on disk: saved so that killing it at any moment loses nothing but time, and resumed to the same bits."""

import json
import signal
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import safetensors.torch
import torch
from accelerate import Accelerator
from torch import Tensor

from equipoise.errors import InvalidInputError, InvalidStateError
from equipoise.storage.files import DiskFullError, foreign_files, write_atomically
from equipoise.training.checkpoint_file import (
    Checkpoints,
    of_prefix,
    pack_optimizer,
    random_states,
    restore_random_states,
    unpack_optimizer,
    with_prefix,
)
from equipoise.training.curriculum import Curriculum
from equipoise.training.module import Network
from equipoise.training.progress import MetricsFile, Record

IDENTITY = "training"
"""Of ``run.json``: what makes two runs the same; other parts of it belong to whoever wrote them."""


class Stopped(KeyboardInterrupt):
    """Training was asked to stop (Ctrl-C, SIGTERM), and has saved where it was: the same script, run again, goes on."""


@dataclass
class Position:
    """Where a run is: the next step to take, and what it has recorded so far."""

    epoch: int = 0
    step: int = 0  # within the epoch
    total: int = 0  # over all epochs
    loss_sum: float = 0.0  # over this epoch's steps
    best_score: float = float("-inf")
    best_epoch: int = -1
    history: list[Record] = field(default_factory=list)

    def advance(self, loss: float) -> None:
        """One step further."""
        self.step, self.total, self.loss_sum = self.step + 1, self.total + 1, self.loss_sum + loss

    def mean_loss(self) -> float:
        """Of this epoch's steps so far."""
        return self.loss_sum / max(self.step, 1)

    def end_epoch(self, record: Record) -> None:
        """Move on to the next epoch."""
        self.history.append(record)
        self.epoch, self.step, self.loss_sum = self.epoch + 1, 0, 0.0


@dataclass
class Trainee:
    """Everything that changes while training, and so has to be in a checkpoint."""

    accelerator: Accelerator
    network: Network
    optimizer: Any
    scheduler: Any
    curriculum: Curriculum | None
    best: dict[str, Tensor] = field(default_factory=dict)

    def tensors(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Named tensors and JSON; every process takes part, for its own random state."""
        optimizer, plain = pack_optimizer(self.optimizer.state_dict())
        states = {
            name: self.accelerator.gather(state.to(self.accelerator.device)).cpu()
            for name, state in random_states(self.accelerator.device).items()
        }
        tensors = (
            with_prefix("network", self.network.state_dict())
            | with_prefix("optimizer", optimizer)
            | with_prefix("random", states)
            | with_prefix("curriculum", {} if self.curriculum is None else self.curriculum.state_dict())
            | with_prefix("best", self.best)
        )
        return tensors, {"optimizer": plain, "scheduler": self.scheduler.state_dict()}

    def load(self, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """The inverse of :meth:`tensors`."""
        self.network.load_state_dict(of_prefix("network", tensors))
        self.optimizer.load_state_dict(unpack_optimizer(of_prefix("optimizer", tensors), state["optimizer"]))
        # A moment lies in memory in its parameter's order, as before it was saved: in another, sums round otherwise.
        for parameter, moments in self.optimizer.state.items():
            for name, moment in moments.items():
                if isinstance(moment, Tensor) and moment.ndim and moment.shape == parameter.shape:
                    moments[name] = torch.empty_like(parameter, dtype=moment.dtype, device=moment.device).copy_(moment)
        self.scheduler.load_state_dict(state["scheduler"])
        if self.curriculum is not None:
            self.curriculum.load_state_dict(of_prefix("curriculum", tensors))
        self.best = of_prefix("best", tensors)
        own = {
            name: joined.view(self.accelerator.num_processes, -1)[self.accelerator.process_index].clone()
            for name, joined in of_prefix("random", tensors).items()
        }
        restore_random_states(own, self.accelerator.device)


class Run:
    """A run's folder: ``run.json``, ``metrics.jsonl`` and ``checkpoints/``. Without a folder nothing is written.

    Args:
        folder: new, or of a run with the same identity, which is then resumed.
    """

    def __init__(self, folder: Path | None, trainee: Trainee) -> None:
        self.folder, self.trainee = folder, trainee
        self.main = trainee.accelerator.is_main_process
        self.metrics: MetricsFile | None = None

    def open(self, identity: Callable[[], dict[str, Any]]) -> Position:
        """The position to start from: the newest checkpoint's, or the beginning.

        Args:
            identity: tells what makes two runs the same; asked only where there is a folder.
        """
        if self.folder is None:
            return Position()
        known = json.loads(json.dumps(identity() | {"processes": self.trainee.accelerator.num_processes}))
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._check_identity(self.folder / "run.json", known)
            self.checkpoints = Checkpoints(self.folder / "checkpoints")
        except DiskFullError:
            raise
        except OSError as error:
            raise InvalidInputError(
                f"{self.folder} cannot hold a run ({error}); choose a folder to write in."
            ) from error
        self.trainee.accelerator.wait_for_everyone()
        found = self.checkpoints.newest()
        position = Position()
        if found is not None:
            with foreign_files(self.folder / "checkpoints", "delete that folder to train from the beginning"):
                self.trainee.load(*found)
                position = Position(**found[1]["position"])
        if self.main:
            self.metrics = MetricsFile(self.folder / "metrics.jsonl", position.history)
        return position

    def save(self, position: Position) -> None:
        """Write a checkpoint of this moment."""
        if self.folder is None:
            return
        tensors, state = self.trainee.tensors()
        if self.main:
            self.checkpoints.save(position.total, tensors, state | {"position": asdict(position)})
        self.trainee.accelerator.wait_for_everyone()

    def keep_weights(self, name: str) -> None:
        """Write the network's weights of this moment as ``NAME.safetensors``, for a later comparison."""
        if self.folder is not None and self.main:
            tensors = {
                key: tensor.detach().cpu().contiguous() for key, tensor in self.trainee.network.state_dict().items()
            }
            write_atomically(self.folder / f"{name}.safetensors", safetensors.torch.save(tensors))

    def record(self, record: Record) -> None:
        """Add an epoch to ``metrics.jsonl``."""
        if self.metrics is not None:
            self.metrics.epoch(record)

    def _check_identity(self, path: Path, identity: dict[str, Any]) -> None:
        """The same run as before, or a new one: what else stands in ``run.json`` is its writer's and stays."""
        record: dict[str, Any] = {}
        if path.exists():
            try:
                record = json.loads(path.read_text(encoding="utf-8"))
                known = record.get(IDENTITY)
            except (ValueError, AttributeError) as error:
                raise InvalidStateError(
                    f"{path} is not a JSON object ({error}); choose another folder for this run."
                ) from error
            if known is not None:
                return _check_same(path.parent, known, identity)
        if self.main:
            write_atomically(path, json.dumps(record | {IDENTITY: identity}, indent=2).encode())
        return None


def _check_same(folder: Path, known: Any, identity: dict[str, Any]) -> None:
    before, now = _leaves(known), _leaves(identity)
    changed = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    if changed:
        first = changed[0]
        raise InvalidStateError(
            f"{folder} holds another run: {first} was {before.get(first)!r} and is now {now.get(first)!r}; choose "
            "another folder, or delete that one."
        )


def _leaves(value: Any, name: str = "") -> dict[str, Any]:
    """Nested JSON as one level: ``settings.epochs``."""
    if not isinstance(value, dict | list):
        return {name: value}
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    return {key: leaf for own, part in parts for key, leaf in _leaves(part, f"{name}.{own}".lstrip(".")).items()}


class StopRequest:
    """SIGINT and SIGTERM as a wish: the loop saves at the next step, then stops. Only in a main thread."""

    def __init__(self, *, enabled: bool) -> None:
        self.enabled = enabled and threading.current_thread() is threading.main_thread()
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        if self.enabled:
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if kind is None and self.signal is not None:  # it came after the last step: the caller's to deal with
            signal.raise_signal(self.signal)

    def _receive(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.signal = number

    def agreed(self, accelerator: Accelerator) -> bool:
        """Whether any process was asked to stop: they must all do so at the same step."""
        if accelerator.num_processes == 1 or not self.enabled:
            return self.signal is not None
        if self.signal is not None:
            accelerator.set_trigger()
        return bool(accelerator.check_trigger())
