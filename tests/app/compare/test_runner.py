"""Cells are run once each, whatever happens to the process."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from equipoise.app.compare import CannotRunError, run_fits
from equipoise.errors import InvalidInputError, InvalidStateError
from tests.app.compare.slow_table import ENDING, FITS, Noted, new_store
from tests.marks import mostly_nightly

ROOT = Path(__file__).parents[3]


def lines(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


def wait_until(condition):
    while not condition():
        time.sleep(0.02)


def alive(process):
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.mark.parametrize("jobs", mostly_nightly([2, 1]))
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_a_killed_table_goes_on_and_leaves_no_process_behind(tmp_path, jobs):
    path = tmp_path / "fits.jsonl"
    command = [sys.executable, "-m", "tests.app.compare.slow_table", str(path), str(jobs)]
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        wait_until(lambda: lines(path) >= 3)  # the header and two fits
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    workers = {int(line) for each in tmp_path.glob("started-*") for line in each.read_text().split()}
    assert len(workers) <= jobs
    wait_until(lambda: not any(alive(worker) for worker in workers))
    with new_store(path) as store:
        finished = {fit for fit in FITS if fit in store}
        assert 2 <= len(finished) <= ENDING
        run_fits(FITS, store, Noted(tmp_path))
        assert len(store) == len(FITS)
    for fit in finished:
        assert lines(tmp_path / f"started-{fit.seed}") == 1  # never run twice


def test_progress_counts_what_was_there_before(tmp_path):
    seen = []
    with new_store(None) as store:
        run_fits(FITS[:2], store, Noted(tmp_path))
        run_fits([*FITS[:4], FITS[3]], store, Noted(tmp_path), progress=lambda *told: seen.append(told))
        assert store[FITS[3]]["scores"] == {"accuracy": 0.3}
        assert store[FITS[3]]["seconds"] >= 0
    assert seen == [(FITS[2], 3, 4), (FITS[3], 4, 4)]


def test_what_cannot_run_is_a_result_and_other_errors_end_the_run(tmp_path):
    def run(fit):
        if fit.seed == 1:
            raise CannotRunError("one sample is too few.")
        if fit.seed == 3:
            raise RuntimeError("a bug")
        return {"scores": {"accuracy": 1.0}}

    path = tmp_path / "fits.jsonl"
    with new_store(path) as store, pytest.raises(RuntimeError, match="a bug"):
        run_fits(FITS, store, run)
    with new_store(path) as store:
        assert len(store) == 3
        assert store[FITS[1]]["cannot_run"] == "one sample is too few."
        assert "scores" not in store[FITS[1]]


class Dying:
    """Its process ends without a word, as the kernel does where memory runs out."""

    def __call__(self, fit):  # noqa: ARG002
        os._exit(9)


@pytest.mark.slow
def test_a_worker_that_dies_is_told_in_a_sentence():
    with new_store(None) as store, pytest.raises(InvalidStateError, match=r"has died.*fewer jobs"):
        run_fits(FITS, store, Dying(), jobs=2)


def test_jobs_are_counted_from_one(tmp_path):
    with new_store(None) as store, pytest.raises(InvalidInputError, match="jobs must be at least 1, got 0"):
        run_fits(FITS, store, Noted(tmp_path), jobs=0)
