"""Shared parts of the benchmarks: command options, machine description, tables and JSON output."""

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

import npu_tensor as nt
from npu_tensor._util.output_files import json_option, put_json
from npu_tensor.observe.drawing.text import print_table
from npu_tensor.planner.selection import accelerators, selection_of
from npu_tensor.runtime.devices.system import processor_name

# Load by other processes, in cores, above which a warning is shown. An idle system is below it; a busy process uses 1.
MUCH = 0.1

# Fields of idle time in a line of /proc/stat.
IDLE_FIELDS = slice(3, 5)

PACKAGES = ("npu-tensor", "numpy", "ml_dtypes", "llvmlite", "torch", "jax", "jaxlib", "tinygrad", "ggml-python")

SYSTEM = Path("/sys")


def others_seconds() -> float | None:
    """Return the processor seconds of other processes since boot, without this process and its ended children."""
    statistics = Path("/proc/stat")
    if not statistics.exists():
        return None
    fields = list(map(int, statistics.read_text().split(maxsplit=9)[1:9]))
    busy = sum(fields) - sum(fields[IDLE_FIELDS])
    return busy / os.sysconf("SC_CLK_TCK") - sum(os.times()[:4])


class Session:
    """Period from its creation to `machine()`."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._others = others_seconds()

    def machine(self) -> dict[str, Any]:
        """Describe the machine. `others` is the number of cores used by other processes, if known."""
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
    """Describe every NPU: name, columns, versions of XRT, driver and firmware, power mode."""
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
    """Return the commit of the checkout, with "+" if files differ; None for an installed package."""
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
    """Return the power supply of the machine, if known."""
    online = [_line(supply / "online") for supply in (SYSTEM / "class/power_supply").glob("*")]
    if "1" in online:
        return "mains"
    return "battery" if "0" in online else None


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def verdict(met: bool | None) -> str:
    """Return a table cell that tells if a target was met; empty without a target."""
    return {None: "", True: "yes", False: "no"}[met]


def headline(machine: Mapping[str, Any], timed: bool = True) -> str:
    """Describe the machine in one line, with a warning if other processes used it during timing."""
    line = f"{machine['processor']}, {machine['threads']} of {machine['cores']} cores, {machine['date']}"
    if timed and (machine["others"] or 0) > MUCH:
        line += f"\nOther processes used {machine['others']:.2f} cores meanwhile: these figures say little."
    return line


def show(title: str, headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print a table. All columns except the first are numbers."""
    print_table(title, headings, rows, figures=headings[1:])


class Table(NamedTuple):
    """Arguments of `show`."""

    title: str
    headings: Sequence[str]
    rows: Iterable[Sequence[object]]


def table(title: str, rows: Iterable[Mapping[str, Any]], *columns: str) -> Table:
    """Create a table of rows by key. A missing value or None gives an empty cell, a boolean a verdict.

    Columns are "heading = key:format"; the heading defaults to the key.
    """
    headings = [column.partition(" = ")[0].partition(":")[0] for column in columns]
    fields = [column.rpartition(" = ")[2].partition(":") for column in columns]
    return Table(title, headings, [[_cell(row.get(key), form) for key, _, form in fields] for row in rows])


def _cell(value: Any, form: str) -> object:
    if value is None or isinstance(value, bool):
        return verdict(value)
    return format(value, form)


class Outcome(NamedTuple):
    """Result of a benchmark.

    Attributes:
        content: Content of the JSON file, without the machine description.
        tables: Tables to print.
        remarks: Lines below the tables.
    """

    content: Mapping[str, Any]
    tables: Sequence[Table]
    remarks: Sequence[str] = ()


def benchmark(quick: str, timed: bool = True) -> Callable[[Callable[..., Outcome]], click.Command]:
    """Create a decorator that turns a function from `quick` to an `Outcome` into a command.

    The command has the options --json and --quick, and those declared below the decorator. It prints the machine, the
    tables and the remarks.

    Args:
        quick: Help text of --quick.
        timed: True if the figures are times of this machine, which other processes disturb.
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
