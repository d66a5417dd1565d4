"""Equipoise on imbalanced digits in a run folder: ``python -m tests.training.digits_run FOLDER --epochs 9``.

Writes ``started`` and one line a step to standard output, and at the end the sha256 of the weights and the history.
With ``--steps`` it waits after so many of them for a byte on standard input, so that it can be stopped before its end
on a machine of any speed. With ``--again`` it forks a process for every number on standard input, the steps that one
waits after: torch is imported once for many of them.
"""

import argparse
import gzip
import hashlib
import importlib.util
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from equipoise.data.imbalance import step
from equipoise.data.splits import hold_out
from equipoise.losses import UncertaintyMarginLoss
from equipoise.models import MLP
from equipoise.training import ArrayData, Curriculum, Network, Settings, Stopped, train
from equipoise.training.epoch_order import random_order
from equipoise.training.watchers import Silence, Watcher

STOPPED = 75
"""Exit code of a run that was asked to stop."""


@dataclass
class Digits:
    """Training and validation samples."""

    train: ArrayData
    validation: ArrayData


def imbalanced_digits(seed: int = 0) -> Digits:
    installed = importlib.util.find_spec("sklearn")  # its file alone: the package takes longer to import than to train
    assert installed is not None
    assert installed.origin is not None
    with gzip.open(Path(installed.origin).parent / "datasets" / "data" / "digits.csv.gz") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    y = table[:, -1].astype(np.int64)
    kept = step(y, rng=seed)
    data = ArrayData(torch.from_numpy(table[kept, :-1] / 16), torch.from_numpy(y[kept]))
    rows, held = hold_out(data.y, 0.2, order=random_order(len(data), seed))
    return Digits(data.subset(torch.from_numpy(rows)), data.subset(torch.from_numpy(held)))


def digits_network(width: int = 32) -> Network:
    torch.manual_seed(0)
    backbone: nn.Module = MLP(64, (width, width))
    return Network(backbone, UncertaintyMarginLoss(width, 10, sample_level="expected", dropout=0.5))


def weights_sha256(network: nn.Module) -> str:
    """Over every parameter and buffer, names included."""
    digest = hashlib.sha256()
    for name, tensor in sorted(network.state_dict().items()):
        digest.update(name.encode() + tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def run(
    folder: Path | None,
    *,
    epochs: int = 9,
    batch_size: int = 64,
    checkpoint_steps: int | None = None,
    accumulate: int = 1,
    patience: int | None = None,
    learning_rate: float = 3e-3,
    digits: Digits | None = None,
    network: Network | None = None,
    watcher: Watcher | None = None,
) -> tuple[str, list[dict[str, Any]]]:
    """The weights' sha256 and the history."""
    digits = digits or imbalanced_digits()
    network = network or digits_network()
    settings = Settings(
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        checkpoint_steps=checkpoint_steps,
        accumulate=accumulate,
        patience=patience,
    )
    history = train(
        network,
        digits.train,
        settings,
        curriculum=Curriculum(epochs),
        validation=digits.validation,
        folder=folder,
        watcher=watcher,
    )
    return weights_sha256(network), history


def without_seconds(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records without what no two runs share."""
    return [{name: value for name, value in record.items() if name != "seconds"} for record in history]


class Lines(Silence):
    """One line a step, and after the last of ``steps`` a wait for a byte on standard input."""

    def __init__(self, steps: int | None) -> None:
        self.left = steps

    def step(self, epoch: int, stage: str, steps: int) -> None:  # noqa: ARG002
        print(f"step {epoch} {stage}", flush=True)
        if self.left is not None:
            self.left -= 1
            if self.left == 0:
                os.read(0, 1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, default=9)
    parser.add_argument("--checkpoint-steps", type=int)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--again", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if not arguments.again:
        one_run(arguments)
        return
    torch.optim.AdamW(nn.Linear(1, 1).parameters())  # the first optimiser of a process imports a lot
    print("ready", flush=True)
    while line := sys.stdin.readline():
        if not line.strip():  # a byte that the process before did not wait for
            continue
        child = os.fork()
        if child == 0:
            arguments.steps = int(line)
            one_run(arguments)
            return
        _, status = os.waitpid(child, 0)
        print(f"ended {os.waitstatus_to_exitcode(status)}", flush=True)


def one_run(arguments: argparse.Namespace) -> None:
    print(f"started {os.getpid()}", flush=True)
    try:
        sha256, history = run(
            arguments.folder,
            epochs=arguments.epochs,
            checkpoint_steps=arguments.checkpoint_steps,
            watcher=Lines(arguments.steps),
        )
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        sys.exit(STOPPED)
    print("finished " + json.dumps({"sha256": sha256, "history": history}), flush=True)


if __name__ == "__main__":
    main()
