"""What of this machine may be used: memory and cores, as far as a container or a scheduler leaves them to us."""

import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
OWN_GROUP = Path("/proc/self/cgroup")
# limit and use, by the names of version 2 and of version 1
COUNTERS = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))


def cores() -> int:
    """Cores this process may run on."""
    try:
        return len(os.sched_getaffinity(0)) or 1
    except (AttributeError, OSError):  # not every system tells
        return os.cpu_count() or 1


def free_memory() -> int:
    """Bytes that can be taken without swapping and within the limit of a container; all of the memory where the system
    does not say."""
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
        number, _, rest = line.partition(":")
        controllers, _, name = rest.partition(":")
        root = CGROUP if number == "0" else CGROUP / "memory" if "memory" in controllers.split(",") else None
        own = name.strip("/")
        while root is not None and own and ".." not in own:
            folders.append(root / own)
            own = own.rpartition("/")[0]
    return folders
