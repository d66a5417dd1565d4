"""A run on disk: killing it at any moment loses nothing but time, and it resumes to identical results."""

import functools
import hashlib
import json
import signal
import threading
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from equipoise.data.samples import rows_of
from equipoise.errors import InvalidStateError, OtherProcessesWarning
from equipoise.storage.files import foreign_files, raise_if_full, write_atomically, write_tensors, writing_into
from equipoise.storage.records import read_json
from equipoise.storage.run_files import CHECKPOINTS, METRICS_LOG, RECORD
from equipoise.training.batches import ArrayData
from equipoise.training.checkpoints import Checkpoints, Position, Trainee
from equipoise.training.curriculum import Curriculum
from equipoise.training.network_recipe import Network
from equipoise.training.processes import any_process
from equipoise.training.settings import Settings
from equipoise.training.watchers import Record

IDENTITY, PROCESSES = "training", "processes"
"""Fields of ``run.json`` that identify a run; others belong to whoever wrote them."""
CHANGES_WHILE_TRAINING = ("training", "uncertainty", "angle")
ROWS_AT_ONCE = 16_384


class Stopped(KeyboardInterrupt):
    """Training was asked to stop (Ctrl-C, SIGTERM) and saved its state: run the same script again to continue."""


class Run:
    """A run's folder with ``run.json``, ``metrics.jsonl`` and ``checkpoints/``; a run of the same identity is resumed.

    Without a folder, nothing is written.
    """

    def __init__(self, folder: Path | None, trainee: Trainee) -> None:
        self.folder, self.trainee = folder, trainee
        self.main = trainee.accelerator.is_main_process

    def open(self, identity: Callable[[], dict[str, Any]]) -> Position:
        """Return the position to start from: the newest checkpoint's, or the beginning.

        ``identity`` returns what identifies the run; it is called only if there is a folder.
        """
        if self.folder is None:
            return Position()
        known = json.loads(json.dumps(identity() | {PROCESSES: self.trainee.accelerator.num_processes}))
        with writing_into(self.folder, "a run"):
            self._check_identity(self.folder / RECORD, known)
            self.checkpoints = Checkpoints(self.folder / CHECKPOINTS)
        self.trainee.accelerator.wait_for_everyone()
        found = self.checkpoints.newest()
        position = Position()
        if found is not None:
            with foreign_files(self.folder / CHECKPOINTS, "delete that folder to train from the beginning"):
                self.trainee.load(*found)
                position = Position(**found[1]["position"])
                position.loss_sum = self._own_loss_sum(found[1]["loss_sums"])
        if self.main:  # without what a killed run wrote after its last checkpoint
            write_metrics(self.folder / METRICS_LOG, position.history)
        return position

    def save(self, position: Position) -> None:
        """Write a checkpoint now."""
        if self.folder is None:
            return
        tensors, state = self.trainee.tensors()
        accelerator = self.trainee.accelerator
        sums = accelerator.gather(torch.tensor([position.loss_sum], dtype=torch.float64, device=accelerator.device))
        if self.main:
            state |= {"position": asdict(position), "loss_sums": sums.tolist()}
            self.checkpoints.save(position.total, tensors, state)
        self.trainee.accelerator.wait_for_everyone()

    def _own_loss_sum(self, sums: list[float]) -> float:
        accelerator = self.trainee.accelerator
        if len(sums) == accelerator.num_processes:
            return float(sums[accelerator.process_index])
        return sum(sums) / len(sums)

    def keep_weights(self, name: str) -> None:
        """Write the network's current weights into the folder under this file name, for a later comparison."""
        if self.folder is not None and self.main:
            write_tensors(self.folder / name, self.trainee.network.state_dict())

    def record(self, record: Record) -> None:
        """Append an epoch to ``metrics.jsonl``."""
        if self.folder is not None and self.main:
            append_metrics(self.folder / METRICS_LOG, record)

    def _check_identity(self, path: Path, identity: dict[str, Any]) -> None:
        """Raise an error for another run's folder; other fields of ``run.json`` stay as they are."""
        remedy = "choose another folder for this run"
        record = read_json(path, dict[str, Any], remedy=remedy) if path.exists() else {}
        known = record.get(IDENTITY)
        if known is not None and not isinstance(known, dict):
            raise InvalidStateError(f"{path} does not identify its run; {remedy}.")
        if known is None and self.main:
            write_atomically(path, json.dumps(record | {IDENTITY: identity}, indent=2).encode())
        if known is None:
            return
        before, now = _leaves(known), _leaves(identity)
        processes = before.pop(PROCESSES, 1), now.pop(PROCESSES)
        if processes[0] != processes[1] and self.main:
            warnings.warn(
                f"{path.parent} began with {processes[0]} processes and resumes with {processes[1]}: weights, "
                "optimiser state and position in the data are the same, but dropout masks and so the bits differ.",
                OtherProcessesWarning,
                stacklevel=4,
            )
        first = min((name for name in {*before, *now} if before.get(name) != now.get(name)), default=None)
        if first is not None:
            raise InvalidStateError(
                f"{path.parent} holds another run: {first} was {before.get(first)!r} and is now {now.get(first)!r}; "
                "choose another folder, or delete that one."
            )


def _leaves(value: Any, name: str = "") -> dict[str, Any]:
    """Flatten nested JSON to one level: ``settings.epochs``."""
    if not isinstance(value, dict | list):
        return {name: value}
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    return {key: leaf for own, part in parts for key, leaf in _leaves(part, f"{name}.{own}".lstrip(".")).items()}


class StopRequest:
    """SIGINT and SIGTERM as a request: the loop saves at the next step, then stops. Works only in a main thread."""

    def __init__(self, *, enabled: bool) -> None:
        self.enabled = enabled and threading.current_thread() is threading.main_thread()
        self.signal: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopRequest":
        if self.enabled:
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if kind is None and self.signal is not None:  # it came after the last step: pass it on to the caller
            signal.raise_signal(self.signal)

    def _receive(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        self.signal = number

    def agreed(self, accelerator: Accelerator) -> bool:
        """Return whether any process was asked to stop: all must do so at the same step."""
        asked = self.signal is not None
        return any_process(accelerator, asked) if self.enabled else asked


def write_metrics(path: Path, history: list[Record]) -> None:
    """Write one line per epoch, replacing the file."""
    write_atomically(path, "".join(json.dumps(record) + "\n" for record in history).encode())


def append_metrics(path: Path, record: Record) -> None:
    """Append one epoch's line."""
    line = json.dumps(record) + "\n"
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(line)
    except OSError as error:
        raise_if_full(error, path, len(line))
        raise


def run_identity(
    network: Network, data: ArrayData, settings: Settings, curriculum: Curriculum | None, validation: ArrayData | None
) -> dict[str, Any]:
    """Return what identifies a run, as plain values for ``run.json``; call it before the first step."""
    return {
        "settings": asdict(settings),
        "data": data_identity(data),
        "validation": None if validation is None else data_identity(validation),
        "network": repr(network).splitlines(),
        "weights": checksum(tensor for _, tensor in sorted(network.state_dict().items())),
        "head": options_of(network.head),
        "curriculum": options_of(curriculum),
    }


def data_identity(data: ArrayData) -> dict[str, Any]:
    """Return the number of rows and checksums of samples, labels and weights."""
    return {
        "rows": len(data),
        "samples": _samples_checksum(data),
        "labels": checksum([data.y]),
        "sample_weight": None if data.weight is None else checksum([data.weight]),
    }


def _samples_checksum(data: ArrayData) -> str:
    files = rows_of(data.x).fingerprint()
    if files is not None:  # decoding them all just to identify them would take an epoch
        return files + ("" if data.rows is None else checksum([data.rows]))
    starts = range(0, len(data), ROWS_AT_ONCE)
    return checksum(data.__getitems__(range(start, min(start + ROWS_AT_ONCE, len(data))))[0] for start in starts)


def checksum(tensors: Iterable[Tensor]) -> str:
    """Return a checksum of the bytes, shapes and types of tensors, in order."""
    found = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        found.update(f"{tensor.dtype}{list(tensor.shape[1:])}".encode())
        found.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def options_of(part: object) -> dict[str, Any]:
    """Return the arguments an object was built with, as far as they are plain values or named functions."""
    options = {}
    for name, value in getattr(part, "__dict__", {}).items():
        if name.startswith("_") or name in CHANGES_WHILE_TRAINING:
            continue
        if value is None or isinstance(value, bool | int | float | str):
            options[name] = value
        elif callable(value):
            options[name] = _named(value)
    return options


def _named(function: Any) -> str:
    """Return a function's name; for a partial, with its arguments."""
    if isinstance(function, functools.partial):
        return f"{_named(function.func)}{function.args}{sorted(function.keywords.items())}"
    return str(getattr(function, "__name__", type(function).__name__))
