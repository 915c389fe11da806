"""Cores and threads available to this process."""

from __future__ import annotations

import math
import os
from pathlib import Path, PurePosixPath

__all__ = ["available_cores", "default_threads"]


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


def _cpu_quota(membership: Path, mount: Path) -> float:
    """Return the smallest CPU quota of this process's control groups and their ancestors, in cores.

    Each line of `membership` is `number:controllers:path`. The hierarchy of version 2 names no controllers.
    """
    quota = math.inf
    try:
        lines = membership.read_text("utf-8").splitlines()
    except OSError:
        return quota
    for line in lines:
        fields = line.split(":", 2)
        if len(fields) != 3:
            continue
        _, controllers, path = fields
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = mount / controllers if controllers else mount
        # In a container the path may be the host's, of which only the root is visible.
        group = PurePosixPath(path.lstrip("/"))
        for each in (group, *group.parents):
            quota = min(quota, _quota_of(root / each, version=1 if controllers else 2))
    return quota


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
