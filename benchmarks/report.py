"""What every benchmark prints and writes: the machine, a table, a JSON file."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.text import Text

import npu_tensor as nt
from npu_tensor.drawing.terminal import print_table
from npu_tensor.runtime.system import processor_name
from npu_tensor.selection import accelerators, selection_of

__all__ = ["Session", "headline", "show", "verdict", "write_json"]

# Cores. An idle system needs less; a process of somebody else that computes needs a whole one.
MUCH = 0.1

# In a line of /proc/stat: the fields that count idle time.
IDLE_FIELDS = slice(3, 5)

PACKAGES = ("npu-tensor", "numpy", "ml_dtypes", "llvmlite", "torch", "jax", "jaxlib", "tinygrad", "ggml-python")

SYSTEM = Path("/sys")


def others_seconds() -> float | None:
    """Processor seconds of everybody but this process and its ended children since the system started."""
    statistics = Path("/proc/stat")
    if not statistics.exists():
        return None
    fields = list(map(int, statistics.read_text().split(maxsplit=9)[1:9]))
    busy = sum(fields) - sum(fields[IDLE_FIELDS])
    return busy / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])


class Session:
    """The time from its creation to `machine()`."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._others = others_seconds()

    def machine(self) -> dict[str, Any]:
        """What the figures depend on. `others`: cores that other processes used meanwhile, if known."""
        others = None
        now = others_seconds()
        if self._others is not None and now is not None:
            others = (now - self._others) / (time.monotonic() - self._start)
        return {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "processor": processor_name(),
            "cores": os.cpu_count(),
            "threads": nt.get_num_threads(),
            "others": others,
            "memory_bytes": _memory(),
            "npus": _npus(),
            "commit": _commit(),
            "system": platform.platform(),
            "python": platform.python_version(),
            "governor": _line(SYSTEM / "devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            "power": _power(),
            "versions": {name: _version(name) for name in PACKAGES},
        }


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None


def _npus() -> list[dict[str, Any]]:
    """Of every NPU: name and columns, versions of XRT, driver and firmware, power mode."""
    if "npu" not in {device.uri for device in nt.list_devices()}:
        return []
    from npu_tensor.runtime.xrt.device import XrtDevice

    return [
        {"name": npu.npu.name, "columns": npu.target.columns, **npu.identity}
        for device in accelerators(selection_of("npu"))
        for npu in device.members
        if isinstance(npu, XrtDevice)
    ]


def _commit() -> str | None:
    """Of the checkout that this file belongs to, with "+" if files differ; None if it is installed."""
    root = Path(__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return None
    asked = ["describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+"]
    try:
        git = ["git", "--no-optional-locks", "-C", str(root), *asked]
        return subprocess.run(git, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _line(file: Path) -> str | None:
    try:
        return file.read_text("utf-8").strip()
    except (OSError, ValueError):
        return None


def _power() -> str | None:
    """What the machine runs on, where the system says so."""
    online = [_line(supply / "online") for supply in (SYSTEM / "class/power_supply").glob("*")]
    if "1" in online:
        return "mains"
    return "battery" if "0" in online else None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def verdict(met: bool | None) -> Text:
    """One word of a table: whether what is asked was reached; empty where nothing is asked."""
    return {None: Text(), True: Text("yes", "green"), False: Text("no", "bold red")}[met]


def headline(machine: Mapping[str, Any]) -> str:
    """One line on the machine, with a warning when others were using it."""
    line = f"{machine['processor']}, {machine['threads']} of {machine['cores']} cores, {machine['date']}"
    if (machine["others"] or 0) > MUCH:
        line += f"\nOther processes used {machine['others']:.2f} cores meanwhile: these figures say little."
    return line


def show(title: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; all columns but the first are numbers."""
    print_table(title, headings, rows, figures=headings[1:])


def write_json(path: Path | None, content: Mapping[str, Any]) -> None:
    """Write `content` to `path`, if there is one."""
    if path is not None:
        path.write_text(json.dumps(content, indent=1) + "\n")
