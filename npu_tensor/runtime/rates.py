"""How fast this machine's processor and its NPUs are: measured by `npu-tensor calibrate`, else priors.

    npu_rates("npu2", {"NPU": "NPU Strix"}).dispatch_seconds
    too_long(kernel.cost)               # why a kernel must not be launched, or None

The priors stand in priors.json, each with its source, and those of the arrays in dataflow.array. What was measured lies
in the cache directory, in one file per processor, and per NPU with its driver and power mode.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from npu_tensor._util.affinity import available_cores
from npu_tensor._util.user_warnings import warn
from npu_tensor.config import config
from npu_tensor.dataflow.array import ARRAYS
from npu_tensor.errors import ArgumentError
from npu_tensor.runtime.devices.system import processor_fields
from npu_tensor.runtime.store.directories import readable, writable
from npu_tensor.runtime.store.files import read_file, write_atomically
from npu_tensor.task import Cost, Expense

__all__ = [
    "MAX_LAUNCH_SECONDS",
    "Level",
    "NpuRates",
    "ProcessorRates",
    "TileShape",
    "calibration_path",
    "forget",
    "npu_rates",
    "priors",
    "processor_identity",
    "processor_rates",
    "save",
    "too_long",
]

MAX_LAUNCH_SECONDS: Final = 0.5
"""The longest predicted launch that is made. The driver's watchdog ends one after 2 s (amd/xdna-driver#1083), and a
prediction may be wrong by some factor."""

FORMAT: Final = 4
"""Of calibration files; those of another format are not read."""


@dataclass(frozen=True)
class Level:
    """A level of the memory of a processor."""

    nbytes: float  # that one thread has of it; the last level is the memory itself
    thread_bytes_per_second: float  # that one thread reads and writes
    bytes_per_second: float  # of all threads together
    line_seconds: float  # for a cache line that is on another page than the one before


@dataclass(frozen=True)
class TileShape:
    """Of a part of a matrix product, whose sums are in registers."""

    rows: int
    columns: int


@dataclass(frozen=True)
class ProcessorRates:
    """What the CPU device's kernels reach. Rates are per second and, if nothing else is said, of one thread."""

    lanes: float  # float32 lanes of the vectors that all of it holds for
    launch_seconds: float  # of the smallest kernel, from Python
    fork_seconds: float  # that a launch takes more if several threads work
    levels: tuple[Level, ...]  # the smallest first
    flops: float  # operations of element-wise float32 programs as `PRIMITIVES` counts them
    row_seconds: float  # of a row for each reduction, besides its elements
    macs: Mapping[str, float]  # multiply-accumulates by `gemm_micro.Unit`
    tiles: Mapping[str, TileShape]  # the fastest ones, by unit; none if nothing was measured
    tile_seconds: float  # of a tile of a product, besides its multiply-accumulates
    packed_bytes: float  # operands of a product, put in the order in which it reads them
    scattered_elements: float  # that are read or written one by one
    reference_seconds: float  # of one call of the NumPy reference
    reference_elements: float  # per element and op in NumPy
    reference_macs: Mapping[str, float]  # of NumPy's products, "float" or "integer"
    thread_watts: float  # of a busy one

    def scaled(self, lanes: int) -> ProcessorRates:
        """The same for vectors of another width, which arithmetic follows and memory does not."""
        ratio = lanes / self.lanes
        macs = {unit: rate * ratio for unit, rate in self.macs.items()}
        return replace(self, lanes=lanes, flops=self.flops * ratio, macs=macs)

    def expense(self, seconds: float, working: float = 1) -> Expense:
        """Of work that takes `seconds` and keeps so many threads busy."""
        return Expense(seconds, seconds * working, seconds * working * self.thread_watts)


@dataclass(frozen=True)
class NpuRates:
    """What launches on an NPU take of it and of the host."""

    python_seconds: float  # of a launch until XRT has it
    dispatch_seconds: float  # from then until the host sees the end of an empty kernel
    step_seconds: float  # of each kernel within a launch, besides what its design predicts
    change_seconds: float | None  # more, behind a kernel of another configuration; None where a launch has one
    switch_seconds: float  # more, if the launch before was in another hardware context
    bytes_per_second: float  # between host memory and array, in all columns
    core_rate: float  # what its cores reach of the rate that cycles of designs are predicted for
    sync_seconds_per_byte: float  # for the host to write back or drop the cache lines of a buffer
    copied_bytes: float  # per second, of a tensor into a buffer as it is
    converted_elements: float  # per second, where dtype, order or padding changes
    watts: float  # while a kernel runs


def too_long(cost: Cost) -> str | None:
    """Why a kernel of an NPU must not be launched, or None: the driver would end it before its work is done."""
    seconds = cost.expense.seconds
    if seconds <= MAX_LAUNCH_SECONDS:
        return None
    return (
        f"one launch is predicted to take {seconds:.2f} s; {MAX_LAUNCH_SECONDS} s are the most, because the driver "
        "stops kernels that run for 2 s. Compute it in several smaller parts"
    )


@cache
def priors() -> Mapping[str, Mapping[str, Any]]:
    """By "processor", "npu1" and "npu2", then by field: the value. Sources stand beside them in the files."""
    content = json.loads(files(__package__).joinpath("priors.json").read_text("utf-8"))
    rates = {kind: {name: figure["value"] for name, figure in figures.items()} for kind, figures in content.items()}
    for array in ARRAYS.values():
        rates[array.device]["dispatch_seconds"] = array.dispatch_seconds
        rates[array.device]["change_seconds"] = array.change_seconds
        rates[array.device]["bytes_per_second"] = array.ddr_bytes_per_second
    return rates


def processor_identity() -> dict[str, str]:
    """What the rates of this machine's processor depend on: model, cores of this process, instruction set."""
    return {"processor": _model(), "cores": str(available_cores()), "features": config.cpu_features}


def _model() -> str:
    # AArch64 has no "model name" but a number for each part.
    keys = ("model name", "cpu family", "model", "CPU part")
    fields = processor_fields()
    return " ".join(fields[key] for key in keys if key in fields) or platform.machine()


def processor_rates(lanes: int | None = None) -> ProcessorRates:
    """Of this machine's processor, whose vectors have so many float32 lanes; None if arithmetic does not matter."""
    measured = _read("processor", tuple(processor_identity().items()), config.cache_dir)
    rates = measured or _prior("processor")
    assert isinstance(rates, ProcessorRates)
    return rates if measured or lanes is None else rates.scaled(lanes)


def npu_rates(device: str, identity: Mapping[str, str] | None = None) -> NpuRates:
    """Of an NPU of the kind "npu1" or "npu2". identity: which one, driver, power mode; None if it is simulated."""
    measured = None if identity is None else _read(device, tuple(identity.items()), config.cache_dir)
    rates = measured or _prior(device)
    assert isinstance(rates, NpuRates)
    return rates


@cache
def _prior(kind: str) -> ProcessorRates | NpuRates:
    return _of_kind(kind, priors()[kind])


def calibration_path(kind: str, identity: Mapping[str, str]) -> Path:
    """The name of the file of a device, below the cache directory."""
    text = json.dumps(identity, sort_keys=True)
    return Path("calibration") / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


@cache
def _read(kind: str, identity: tuple[tuple[str, str], ...], root: Path) -> ProcessorRates | NpuRates | None:
    """What was measured here; None if nothing was, and with a warning if the file cannot be used."""
    for directory in readable(root):
        path = directory / calibration_path(kind, dict(identity))
        try:
            content = read_file(path)
        except OSError:
            continue
        try:
            stored = json.loads(content)
            if not isinstance(stored, dict) or stored.get("format") != FORMAT:
                raise ArgumentError(f"it is no calibration of format {FORMAT}")
            if stored.get("identity") != dict(identity):
                raise ArgumentError(f"it was measured with {stored.get('identity')}, and this is {dict(identity)}")
            return _of_kind(kind, stored.get("rates"))
        except (ValueError, RecursionError) as error:  # ArgumentError is one, and so is what is no JSON.
            warn(f"{path} is not used: {error}. `npu-tensor calibrate` measures again")
    return None


def forget() -> None:
    """Read the files again when rates are asked for next."""
    _read.cache_clear()


def save(kind: str, identity: Mapping[str, str], rates: ProcessorRates | NpuRates) -> Path:
    """Keep what was measured; returns the file. Raises ArgumentError for rates that are no rates, OSError."""
    content = {"format": FORMAT, "identity": dict(identity), "rates": asdict(rates)}
    _of_kind(kind, content["rates"])  # What is refused later must not be written.
    path = writable(config.cache_dir) / calibration_path(kind, identity)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(content, indent=1, default=str).encode())
    forget()
    return path


def _of_kind(kind: str, content: object) -> ProcessorRates | NpuRates:
    """The record of a JSON object. Raises ArgumentError unless it has exactly the fields, all finite and positive.

    A rate that is 0 in the priors may be 0; one that the array does not have must be None.
    """
    if kind != "processor":
        return NpuRates(**_checked(NpuRates.__name__, content, priors()[kind]))
    rates = _checked(ProcessorRates.__name__, content, priors()[kind])
    levels = tuple(Level(**level) for level in rates["levels"])
    if any(small.nbytes >= large.nbytes for small, large in pairwise(levels)):
        raise ArgumentError("the sizes of levels do not grow")
    tiles = {unit: TileShape(int(tile["rows"]), int(tile["columns"])) for unit, tile in rates["tiles"].items()}
    return ProcessorRates(**rates | {"levels": levels, "tiles": tiles})


def _checked(name: str, value: object, prior: object) -> Any:
    """A JSON value of the same form as a prior. ArgumentError otherwise, and unless numbers are positive.

    The priors have no tiles; there may be those of any unit.
    """
    if name == "tiles" and isinstance(value, Mapping):
        prior = {unit: {"rows": 1, "columns": 1} for unit in value}
    if isinstance(prior, Mapping):
        if not isinstance(value, Mapping) or set(value) != set(prior):
            raise ArgumentError(f"{name} has not just the entries {', '.join(sorted(prior))}")
        return {key: _checked(key, value[key], prior[key]) for key in prior}
    if isinstance(prior, list):
        if not isinstance(value, (list, tuple)) or not value:
            raise ArgumentError(f"{name} is no list")
        return [_checked(name, entry, prior[0]) for entry in value]
    if prior is None:
        if value is not None:
            raise ArgumentError(f"{name} is {value!r}; this array has no such rate")
        return None
    least = 0.0 if prior == 0 else sys.float_info.min
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= sys.float_info.max:
        raise ArgumentError(f"{name} is {value!r}, not a positive number")
    return float(value)
