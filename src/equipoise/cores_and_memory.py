"""The memory and cores available to this process, within a container's limits, and worker processes."""

import atexit
import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

Work = TypeVar("Work")
Result = TypeVar("Result")

CGROUP = Path("/sys/fs/cgroup")
OWN_GROUP = Path("/proc/self/cgroup")
LEFT_BEHIND = "left behind"
"""Name of a thread that compiled code keeps beyond a time limit."""
# limit and usage files, as version 2 and version 1 of cgroups name them
COUNTERS = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))


def cores() -> int:
    """Return the number of cores this process may run on."""
    try:
        return len(os.sched_getaffinity(0)) or 1
    except (AttributeError, OSError):  # not every system reports it
        return os.cpu_count() or 1


def in_parts(
    executor: Executor, work: Callable[[Work], Result], parts: Iterable[Work], *, ahead: int
) -> Iterator[Result]:
    """Yield the results of all parts in order, a few running at a time so that memory does not grow with the parts.

    After a KeyboardInterrupt the running parts finish, and their results are yielded before it is raised.
    """
    waiting = deque[Future[Result]]()
    try:
        for part in parts:
            with warnings.catch_warnings():  # newer Pythons warn about forking beside threads
                warnings.simplefilter("ignore", DeprecationWarning)
                waiting.append(executor.submit(work, part))
            if len(waiting) >= ahead:
                yield waiting[0].result()
                waiting.popleft()
        while waiting:
            yield waiting[0].result()
            waiting.popleft()
    except KeyboardInterrupt:
        executor.shutdown(cancel_futures=True)
        yield from (future.result() for future in waiting if not future.cancelled())
        raise
    finally:
        executor.shutdown(cancel_futures=True)


def begin_worker() -> None:
    """Prepare a worker process: leave Ctrl-C to its parent, and end with the parent even if that is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def end_past_threads(code: int) -> None:
    """End the process if a thread was left behind: Python's own way out crashes where it still runs compiled code."""
    if not any(thread.name == LEFT_BEHIND for thread in threading.enumerate()):
        return
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):  # closed, or gone
            stream.flush()
    os._exit(code)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def free_memory() -> int:
    """Return the bytes available without swapping and within a container's limit.

    It is all memory if the system reports nothing.
    """
    found = _available()
    return min([found, *(max(0, left) for left in _left_in_groups())])


def release_memory() -> None:
    """Return freed memory to the system: the allocators of glibc and Arrow keep much of it otherwise."""
    if (arrow := sys.modules.get("pyarrow")) is not None:
        arrow.default_memory_pool().release_unused()
    if sys.platform == "linux":
        with suppress(AttributeError, OSError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)


def _available() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError):
        pass
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError, AttributeError):
        return 2**32


def _left_in_groups() -> list[int]:
    """Return what is left (limit minus usage) in every limited control group around this process."""
    left = []
    for folder in _groups():
        for limit, use in COUNTERS:
            try:
                within, used = int((folder / limit).read_text()), int((folder / use).read_text())
            except (OSError, ValueError):  # the other cgroup version, or "max": no limit
                continue
            left.append(within - used + _old_files(folder))
    return left


def _old_files(folder: Path) -> int:
    """Return the bytes of inactive file cache: counted as used, but freed before any allocation fails."""
    try:
        counted = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return int(counted.get("total_inactive_file") or counted["inactive_file"])
    except (OSError, ValueError, KeyError):
        return 0


def _groups() -> list[Path]:
    """Return the folders of this process's memory groups, up to the root, where a container mounts its own."""
    folders = [CGROUP, CGROUP / "memory"]
    try:
        lines = OWN_GROUP.read_text().splitlines()
    except (OSError, ValueError):
        return folders
    for line in lines:
        number, controllers, name = (*line.split(":", 2), "", "")[:3]
        if number != "0" and "memory" not in controllers.split(","):
            continue
        own = Path(name.strip("/"))
        if ".." not in own.parts:
            folders += [(CGROUP if number == "0" else CGROUP / "memory") / part for part in (own, *own.parents)]
    return folders
