"""Memory and cores that a container or a scheduler leaves to us."""

import ctypes
import os
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from equipoise import cores_and_memory as machine
from equipoise.app.compare import deadline
from equipoise.app.compare.deadline import Deadline, OutOfTimeError
from equipoise.cores_and_memory import cores, end_past_threads, free_memory, release_memory


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """A system of control groups of our own making, without a limit at first."""
    monkeypatch.setattr(machine, "CGROUP", tmp_path)
    monkeypatch.setattr(machine, "OWN_GROUP", tmp_path / "own")
    monkeypatch.setattr(machine, "_available", lambda: 10_000)
    return tmp_path


def write(folder, **counters: object) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in counters.items():
        (folder / name.replace("memory_", "memory.", 1)).write_text(f"{value}\n")


def test_without_groups_it_is_what_the_system_says(groups):
    assert free_memory() == 10_000
    write(groups, memory_max="max", memory_current=5)
    assert free_memory() == 10_000


def test_a_container_s_limit_counts_less_what_it_uses(groups):
    write(groups, memory_max=7_000, memory_current=1_000)
    assert free_memory() == 6_000
    write(groups, memory_max=900_000, memory_current=1_000)
    assert free_memory() == 10_000
    write(groups, memory_max=7_000, memory_current=7_001)
    assert free_memory() == 0


def test_files_that_the_system_keeps_in_memory_do_not_count_as_used(groups):
    write(groups, memory_max=7_000, memory_current=6_500, memory_stat="anon 500\ninactive_file 4000\nactive_file 9")
    assert free_memory() == 4_500
    write(groups, memory_stat="inactive_file 10\ntotal_inactive_file 3000")
    assert free_memory() == 3_500
    write(groups, memory_stat="nonsense")
    assert free_memory() == 500


def test_the_first_version_of_groups_has_other_names(groups):
    write(groups / "memory", memory_limit_in_bytes=5_000, memory_usage_in_bytes=2_000)
    assert free_memory() == 3_000


@pytest.mark.parametrize(("line", "folder"), [("0::/a/b", ""), ("4:cpu,memory:/a/b", "memory")])
def test_the_tightest_group_around_the_process_counts(line, folder, groups):
    (groups / "own").write_text(f"7:pids:/x\n{line}\n")
    limit, use = ("memory_max", "memory_current") if not folder else ("memory_limit_in_bytes", "memory_usage_in_bytes")
    write(groups / folder / "a" / "b", **{limit: 9_000, use: 0})
    write(groups / folder / "x", **{limit: 10, use: 0})
    assert free_memory() == 9_000
    write(groups / folder / "a", **{limit: 8_000, use: 500})
    assert free_memory() == 7_500


def test_this_machine_has_memory_and_cores(monkeypatch):
    assert 2**20 < free_memory() < 2**50
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 9}, raising=False)
    assert cores() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 7)
    assert cores() == 7


def test_a_thread_left_behind_does_not_crash_the_way_out(monkeypatch):
    ended, free = [], threading.Event()
    monkeypatch.setattr("os._exit", ended.append)
    monkeypatch.setattr("atexit._run_exitfuncs", lambda: None)
    monkeypatch.setattr(deadline, "GRACE", 0.0)
    end_past_threads(1)
    assert ended == []
    with pytest.raises(OutOfTimeError, match="time limit"):
        Deadline(started=0.0, seconds=1.0, clock=iter([0.0, 2.0, 2.0]).__next__).call(free.wait)
    end_past_threads(1)
    free.set()
    assert ended == [1]


@pytest.mark.skipif(sys.platform != "linux", reason="the allocator of glibc")
def test_freed_memory_is_returned_to_the_system():
    pieces = [np.ones(5_000) for _ in range(2_500)]  # 100 MB, each too small for a mapping of its own
    del pieces[:-1]  # the last one keeps the heap from shrinking by itself
    before = _resident()
    release_memory()
    assert _resident() < before - 5e7


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere, no library is asked")
def test_another_c_library_keeps_its_memory_and_arrow_may_be_out_of_reach(monkeypatch):
    asked = []
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # importing it fails
    monkeypatch.setattr(ctypes, "CDLL", lambda name: asked.append(name) or object())  # without malloc_trim
    release_memory()
    assert asked == [None]


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
