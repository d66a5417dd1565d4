"""A training on the digits in which a process ends at a step: for groups of processes and under torchrun.

``torchrun --nproc_per_node 2 --max-restarts 3 -m tests.training.interrupted FOLDER '[[1, 5, 9], ...]'``, where an entry
is the process to be killed, its attempt and the step.
"""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

from equipoise.training import Stopped
from equipoise.training.checkpoints import Checkpoints
from equipoise.training.watchers import Silence
from tests.training.digits_run import run

CUT_OFF = 0
"""In place of a signal: takes down the network of its own namespace."""


class Ends(Silence):
    """Sends a signal to its own process after a number of steps of this attempt."""

    def __init__(self, steps: int | None, number: int) -> None:
        self.left, self.number = steps, number

    def step(self, epoch: int, stage: str, steps: int) -> None:  # noqa: ARG002
        if self.left is not None:
            self.left -= 1
            if self.left == 0 and self.number == CUT_OFF:
                subprocess.run(["ip", "link", "set", "eth0", "down"], check=True)
            elif self.left == 0:
                os.kill(os.getpid(), self.number)


def train_digits(folder: str, ends: dict[str, int] | None = None, number: int = 9, **options: Any) -> Any:
    """The weights' sha256 and the history, or where it stopped; the processes in ``ends`` get a signal at a step."""
    told: list[str] = []
    steps = (ends or {}).get(os.environ["RANK"])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            sha256, history = run(Path(folder), epochs=3, watcher=Ends(steps, number), **options)
        except Stopped as stopped:
            found = Checkpoints(Path(folder) / "checkpoints").newest()
            assert found is not None
            return {"stopped": str(stopped), "total": found[1]["position"]["total"]}
    told = [str(each.message) for each in caught]
    return {"sha256": sha256, "history": history, "warnings": told}


def main() -> None:
    torch.set_num_threads(1)
    folder, plan = sys.argv[1], json.loads(sys.argv[2])
    attempt, rank = os.environ["TORCHELASTIC_RESTART_COUNT"], os.environ["RANK"]
    steps = {str(process): step for process, number, step in plan if str(number) == attempt}
    found = train_digits(folder, steps, checkpoint_steps=4, batch_size=50)
    (Path(folder) / f"{rank}.json").write_text(json.dumps(found | {"attempt": attempt}))


if __name__ == "__main__":
    main()
