"""Cores, threads and memory available to this process."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath


def available_cores() -> int:
    """Return the number of cores that this process may use.

    `taskset`, cpusets and CPU quotas of control groups reduce it.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(cores, _cpu_quota(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")))))


def default_threads() -> int:
    """Return OMP_NUM_THREADS, bounded by the available cores, or all of them if it is not a valid number."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    cores = available_cores()
    return min(int(first), cores) if first.isdecimal() and int(first) > 0 else cores


def available_memory() -> int:
    """Return the bytes of memory that this process may use, or 0 if they are not known.

    Limits of control groups reduce it.
    """
    try:
        physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not on Windows
        return 0
    return int(min(physical, _memory_limit(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))))


def _cpu_quota(membership: Path, mount: Path) -> float:
    """Return the smallest CPU quota of this process's control groups and their ancestors, in cores."""
    return min((_quota_of(*group) for group in _control_groups(membership, mount, "cpu")), default=math.inf)


def _memory_limit(membership: Path, mount: Path) -> float:
    """Return the smallest memory limit of this process's control groups and their ancestors, in bytes."""
    return min((_limit_of(*group) for group in _control_groups(membership, mount, "memory")), default=math.inf)


def _control_groups(membership: Path, mount: Path, controller: str) -> Iterator[tuple[Path, int]]:
    """Yield the directories of this process's control groups and their ancestors, each with its version.

    Each line of `membership` is `number:controllers:path`. The hierarchy of version 2 names no controllers.
    """
    try:
        lines = membership.read_text("utf-8").splitlines()
    except OSError:
        return
    for line in lines:
        fields = line.split(":", 2)
        if len(fields) != 3:
            continue
        _, controllers, path = fields
        if controllers and controller not in controllers.split(","):
            continue
        root = mount / controllers if controllers else mount
        # In a container the path may be the host's, of which only the root is visible.
        group = PurePosixPath(path.lstrip("/"))
        for each in (group, *group.parents):
            yield root / each, 1 if controllers else 2


def _quota_of(group: Path, version: int) -> float:
    """Return the CPU quota of one control group in cores; infinity if it has none."""
    try:
        if version == 2:
            used, period = (group / "cpu.max").read_text("utf-8").split()
        else:
            used, period = ((group / f"cpu.cfs_{name}_us").read_text("utf-8") for name in ("quota", "period"))
        return int(used) / int(period) if int(used) > 0 else math.inf
    except (OSError, ValueError, ZeroDivisionError):  # `max` is not a number
        return math.inf


def _limit_of(group: Path, version: int) -> float:
    """Return the memory limit of one control group in bytes; infinity if it has none."""
    try:
        return int((group / ("memory.max" if version == 2 else "memory.limit_in_bytes")).read_text("utf-8"))
    except (OSError, ValueError):  # `max` is not a number
        return math.inf
