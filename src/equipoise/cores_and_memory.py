"""What of this machine may be used: memory and cores as far as a container leaves them to us, and worker processes."""

import multiprocessing
import os
import signal
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import TypeVar

Work = TypeVar("Work")
Result = TypeVar("Result")

CGROUP = Path("/sys/fs/cgroup")
OWN_GROUP = Path("/proc/self/cgroup")
# limit and use, by the names of version 2 and of version 1
COUNTERS = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))


def cores() -> int:
    """Count the cores this process may run on."""
    try:
        return len(os.sched_getaffinity(0)) or 1
    except (AttributeError, OSError):  # not every system tells
        return os.cpu_count() or 1


def in_parts(
    executor: Executor, work: Callable[[Work], Result], parts: Iterable[Work], *, ahead: int
) -> Iterator[Result]:
    """Yield the results of all parts in order, with so many under way at a time: memory does not grow with the parts.

    After a KeyboardInterrupt the parts under way come to their end, and their results are yielded before it is raised.
    """
    waiting = deque[Future[Result]]()
    try:
        for part in parts:
            with warnings.catch_warnings():  # newer Pythons warn of a fork beside threads
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
    """Prepare a worker process: Ctrl-C is left to its parent, and it ends with it, even where that is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def free_memory() -> int:
    """Return the bytes that can be taken without swapping and within the limit of a container; all of the memory where
    the system does not say."""
    found = _available()
    return min([found, *(max(0, left) for left in _left_in_groups())])


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
    """Limit less use of every control group around this process that has a limit."""
    left = []
    for folder in _groups():
        for limit, use in COUNTERS:
            try:
                within, used = int((folder / limit).read_text()), int((folder / use).read_text())
            except (OSError, ValueError):  # the other version, or "max": no limit
                continue
            left.append(within - used + _old_files(folder))
    return left


def _old_files(folder: Path) -> int:
    """Bytes of files read a while ago: they count as used, and are given up before anything else is refused."""
    try:
        counted = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return int(counted.get("total_inactive_file") or counted["inactive_file"])
    except (OSError, ValueError, KeyError):
        return 0


def _groups() -> list[Path]:
    """The folders of this process's memory groups, from its own up to the root; a container mounts its own as root."""
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
