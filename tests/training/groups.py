"""Groups of real processes over gloo, forked from one that has imported torch: ``python -m tests.training.groups``.

Reads a JSON object a line from standard input, ``{"processes": 3, "function": "module:name", "arguments": {...}}``,
calls the function in so many processes, and writes a line with each one's exit code, answer and last line of errors.
"""

import ctypes
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from tests.training.processes import ENVIRONMENT, ROOT


class Groups:
    """The launcher as a process of its own, to be used by the tests of a module."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.training.groups"],
            cwd=ROOT,
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> "Groups":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()

    def run(
        self, processes: int, function: str, *, hosts: dict[str, Any] | None = None, **arguments: Any
    ) -> list[dict[str, Any]]:
        """Each process's exit code (negative for a signal), answer and last line of errors, in the order of ranks."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        request = {"processes": processes, "function": function, "arguments": arguments} | (hosts or {})
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer: list[dict[str, Any]] = json.loads(self.process.stdout.readline())
        return answer

    def answers(self, processes: int, function: str, **arguments: Any) -> list[Any]:
        """The answers of processes that must all end well."""
        found = self.run(processes, function, **arguments)
        assert [each["code"] for each in found] == [0] * processes, [each["error"] for each in found]
        return [each["answer"] for each in found]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def enter_namespace(name: str) -> None:
    """Move this process to another network namespace."""
    with Path("/run/netns", name).open() as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), 0x40000000) != 0:  # CLONE_NEWNET
            raise OSError(ctypes.get_errno(), f"cannot enter the namespace {name}")


def _child(rank: int, request: dict[str, Any], port: int, folder: Path) -> None:
    size = str(request["processes"])
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)} | request.get("environment", {})
    if "namespaces" in request:
        enter_namespace(request["namespaces"][rank])
    errors = os.open(folder / f"{rank}.err", os.O_CREAT | os.O_WRONLY)
    for stream in (1, 2):  # the launcher's own line is the only one on standard output
        os.dup2(errors, stream)
    code = 1
    try:
        module, _, name = request["function"].partition(":")
        answer = getattr(importlib.import_module(module), name)(**request["arguments"])
        (folder / f"{rank}.json").write_text(json.dumps(answer))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _group(request: dict[str, Any]) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as name:
        folder, port, children = Path(name), free_port(), []
        for rank in range(request["processes"]):
            child = os.fork()
            if child == 0:
                _child(rank, request, port, folder)
            children.append(child)
        found = []
        codes = {child: os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children}
        for rank, child in enumerate(children):
            answer, errors = folder / f"{rank}.json", (folder / f"{rank}.err").read_text().strip()
            own = json.loads(answer.read_text()) if answer.exists() else None
            found.append({"code": codes[child], "answer": own, "error": errors})
        return found


def main() -> None:
    import torch

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    torch.set_num_threads(1)
    torch.optim.AdamW(torch.nn.Linear(1, 1).parameters())  # the first optimiser of a process imports a lot
    for module in ("equipoise.training", "torch.nn.parallel", "tests.training.digits_run"):
        importlib.import_module(module)
    for line in sys.stdin:
        print(json.dumps(_group(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
