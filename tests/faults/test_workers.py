"""Memory that runs out and workers that are killed: one sentence, no hang, and what was finished is kept."""

import multiprocessing
import os
import resource
import subprocess
import sys
import threading

import numpy as np
import pytest

from equipoise.app.compare import Fit, ResultStore, run_fits
from equipoise.data.images.check import check_files
from equipoise.data.images.file_table import FileTable
from equipoise.errors import InvalidStateError
from tests.training.processes import ENVIRONMENT

ROOM = 2**26
HUNGRY = f"""
import resource, sys
import equipoise.main, equipoise.app.report.run_page, equipoise.app.runs.train, sklearn.utils.validation, torch
sizes = open("/proc/self/statm").read().split()
limit = int(sizes[0]) * resource.getpagesize() + {ROOM}
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
equipoise.main.main()
"""
"""The command line with 64 MB beyond what its packages take."""

needs_linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is limited by Linux's means")


def limit_memory() -> None:
    """Allow this process 64 MB beyond what it has; only the soft limit, so that a later call may set it anew."""
    with open("/proc/self/statm", encoding="ascii") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, hard))


@needs_linux
@pytest.mark.slow
def test_a_table_that_the_memory_does_not_hold_is_one_sentence(tmp_path):
    x = np.zeros((20_000, 1000), dtype=np.float32)
    np.savez(tmp_path / "wide.npz", X=x, y=np.arange(20_000) % 2)
    command = [sys.executable, "-c", HUNGRY, "train", "wide.npz", "--epochs", "1", "--quiet"]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    sentences = ("error: out of memory; what was finished", "error: wide.npz asks for more memory than there is")
    assert done.stderr.startswith(sentences)  # wherever it ran out first
    assert not (tmp_path / "runs").exists()


LOADER = """
import os, signal, torch
from equipoise.training.accelerate_setup import workers_watched
from equipoise.errors import InvalidStateError

class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, row):
        if row == 5:
            END
        return row

try:
    with workers_watched():
        for batch in torch.utils.data.DataLoader(Samples(), batch_size=1, num_workers=1):
            pass
except InvalidStateError as error:
    os.write(1, str(error).encode())
except BaseException as error:
    os.write(1, f"{type(error).__name__} as it was".encode())
os._exit(0)
"""
"""Batches from a worker of which one is its last; torch's signal may come anywhere, so it is a process of its own."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "a worker that decodes images died, perhaps because memory ran out"),
        ("raise RuntimeError('a bug')", "RuntimeError as it was"),
    ],
    ids=["killed", "a bug"],
)
def test_a_killed_worker_ends_training_in_a_sentence(end, said):
    command = [sys.executable, "-c", LOADER.replace("END", end)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.stdout.startswith(said), done.stderr


def starved():
    limit_memory()
    np.ones(2**30, dtype=np.uint8)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_killed_worker_ends_the_check_of_images_in_a_sentence(tmp_path, monkeypatch):
    """A pipe that nobody writes to keeps the worker at one file for as long as it takes to be killed."""
    monkeypatch.setenv("EQUIPOISE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "a.png").write_bytes(b"no picture")
    table = FileTable.of(tmp_path, ["a.png"])
    (tmp_path / "a.png").unlink()
    os.mkfifo(tmp_path / "a.png")

    others, ended = multiprocessing.active_children(), threading.Event()

    def kill_workers():
        while not ended.wait(0.01):
            for child in multiprocessing.active_children():
                if child not in others:  # earlier tests may have left some
                    child.kill()

    killer = threading.Thread(target=kill_workers, daemon=True)
    killer.start()
    try:
        with pytest.raises(InvalidStateError, match="a worker that decodes images died, perhaps because memory"):
            check_files(table, workers=2)
    finally:
        ended.set()
        killer.join()
    assert not list((tmp_path / "cache").rglob("*.npz")), "what was not seen must not be remembered"


class Hungry:
    """A fit that the memory does not hold, after one that it does."""

    def __call__(self, fit):
        if fit.seed > 0:
            starved()
        return {"scores": {}}


@needs_linux
@pytest.mark.slow
def test_a_fit_without_memory_ends_the_table_and_keeps_what_was_finished():
    fits = [Fit("case", "method", seed) for seed in range(3)]
    with ResultStore(None, data={}, settings={}) as store:
        with pytest.raises(MemoryError, match="Unable to allocate"):
            run_fits(fits, store, Hungry(), jobs=2)
        assert fits[0] in store
        assert fits[1] not in store
