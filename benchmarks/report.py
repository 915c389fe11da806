"""What all benchmarks share: the options of the command, the description of the machine, tables, a JSON file."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.text import Text

import npu_tensor as nt
from npu_tensor._util.output_files import json_option, put_json
from npu_tensor.observe.drawing.terminal import print_table
from npu_tensor.planner.selection import accelerators, selection_of
from npu_tensor.runtime.devices.system import processor_name

__all__ = ["Outcome", "Session", "Table", "benchmark", "headline", "show", "table", "verdict"]

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
    from npu_tensor.runtime.xrt.xrt_device import XrtDevice

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
    command = ["describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+"]
    try:
        git = ["git", "--no-optional-locks", "-C", str(root), *command]
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


def headline(machine: Mapping[str, Any], timed: bool = True) -> str:
    """One line on the machine, with a warning when others were using it while something was timed."""
    line = f"{machine['processor']}, {machine['threads']} of {machine['cores']} cores, {machine['date']}"
    if timed and (machine["others"] or 0) > MUCH:
        line += f"\nOther processes used {machine['others']:.2f} cores meanwhile: these figures say little."
    return line


def show(title: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table; all columns but the first are numbers."""
    print_table(title, headings, rows, figures=headings[1:])


class Table(NamedTuple):
    """What `show` prints."""

    title: str
    headings: Sequence[str]
    rows: Iterable[Sequence[object]]


def table(title: str, rows: Iterable[Mapping[str, Any]], *columns: str) -> Table:
    """A table of rows by key. columns: "heading = key:format", with the key as heading if there is no other.

    What a row does not have, or has as None, is an empty cell; a truth value is a verdict.
    """
    headings = [column.partition(" = ")[0].partition(":")[0] for column in columns]
    fields = [column.rpartition(" = ")[2].partition(":") for column in columns]
    return Table(title, headings, [[_cell(row.get(key), form) for key, _, form in fields] for row in rows])


def _cell(value: Any, form: str) -> object:
    if value is None or isinstance(value, bool):
        return verdict(value)
    return format(value, form)


class Outcome(NamedTuple):
    """What a benchmark has found.

    content: of the JSON file, which describes the machine as well. remarks: lines below the tables.
    """

    content: Mapping[str, Any]
    tables: Sequence[Table]
    remarks: Sequence[str] = ()


def benchmark(quick: str, timed: bool = True) -> Callable[[Callable[..., Outcome]], click.Command]:
    """A decorator that makes a command of a function that takes `quick` and returns an `Outcome`.

    The command has the options --json and --quick, and those that are declared below the decorator; it prints the
    machine, the tables and the remarks. quick: what --quick does. timed: whether the figures are times of this machine,
    which other processes disturb.
    """

    def command(measure: Callable[..., Outcome]) -> click.Command:
        @click.command(context_settings={"help_option_names": ["-h", "--help"]})
        @json_option("the machine and all that was measured")
        @click.option("--quick", is_flag=True, help=quick)
        @functools.wraps(measure)
        def main(json_file: Path | None, **options: Any) -> None:
            session = Session()
            content, tables, remarks = measure(**options)
            machine = session.machine()
            if put_json(json_file, {"machine": machine, **content}):
                return
            print(headline(machine, timed))
            for table in tables:
                show(*table)
            for remark in remarks:
                print(remark)

        return main

    return command
