"""Training in other processes, to be killed there; and results that several test workers share."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

fcntl = pytest.importorskip("fcntl", reason="locks and signals of POSIX")

ROOT = Path(__file__).parents[2]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def command(folder: Path, *options: object) -> list[str]:
    return [sys.executable, "-m", "tests.training.digits_run", str(folder), *map(str, options)]


class Attempts:
    """Runs of ``digits_run`` in one folder, one after the other, each a process of its own."""

    def __init__(self, folder: Path, *options: object) -> None:
        self.process = subprocess.Popen(
            command(folder, *options, "--again"),
            cwd=ROOT,
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.line() == "ready"

    def __enter__(self) -> "Attempts":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.communicate()  # closes its standard input, which ends it

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def start(self, steps: int) -> int:
        """Start a run that waits after so many steps; its process id."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        word, pid = self.line().split()
        assert word == "started"
        return int(pid)

    def after(self, steps: int) -> bool:
        """Wait for so many steps of the run; False if it ended before."""
        return all(self.line().startswith("step") for _ in range(steps))

    def end(self) -> int:
        """Wait for the end of the run; its exit code, negative for a signal."""
        while True:
            line = self.line()
            if line.startswith("ended"):
                return int(line.split()[1])
            assert line, "the launcher itself ended"

    def killed(self, pid: int, number: int = signal.SIGKILL) -> int:
        """Send a signal and end the wait; the exit code that follows."""
        assert self.process.stdin is not None
        os.kill(pid, number)
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.end()


def shared_once(factory: pytest.TempPathFactory, name: str, build: Callable[[Path], Any]) -> Any:
    """JSON made once for all workers of a test run: the first builds it in a folder of its own, the others wait."""
    base = factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        base = base.parent
    result = base / f"{name}.json"
    with (base / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not result.exists():
            folder = base / name
            folder.mkdir(exist_ok=True)
            result.write_text(json.dumps(build(folder)))
    return json.loads(result.read_text())
