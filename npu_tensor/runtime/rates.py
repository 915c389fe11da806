"""Speed of this machine's processor and NPUs: measured by `npu-tensor calibrate`, else priors.

    npu_rates("npu2", {"NPU": "NPU Strix"}).dispatch_seconds
    too_long(kernel.cost)               # reason not to launch a kernel, or None

The priors are in priors.json and, for NPUs, in dataflow/rates.json, each with its source. Measurements are in the cache
directory, in one file per processor, and one per NPU, driver and power mode.
"""

from __future__ import annotations

import json
import platform
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

from npu_tensor._util.affinity import available_cores
from npu_tensor._util.user_warnings import warn
from npu_tensor.config import config
from npu_tensor.dataflow.array import RATES
from npu_tensor.errors import ArgumentError
from npu_tensor.runtime.devices.system import processor_fields
from npu_tensor.runtime.store.directories import readable, writable
from npu_tensor.runtime.store.files import write_atomically
from npu_tensor.task import Cost, Expense

MAX_LAUNCH_SECONDS: Final = 0.5
"""The longest predicted launch that is made. The driver's watchdog ends one after 2 s (amd/xdna-driver#1083), and a
prediction may be wrong by some factor."""

FORMAT: Final = 5
"""Format of calibration files. Files of other formats are ignored."""


@dataclass(frozen=True)
class Level:
    """A level of the memory of a processor."""

    nbytes: float  # that one thread has of it; the last level is the memory itself
    thread_bytes_per_second: float  # that one thread reads and writes
    bytes_per_second: float  # of all threads together
    line_seconds: float  # for a cache line that is on another page than the one before


@dataclass(frozen=True)
class TileShape:
    """Tile of a matrix product whose sums are in registers."""

    rows: int
    columns: int


@dataclass(frozen=True)
class ProcessorRates:
    """Rates of the CPU device's kernels, per second and per thread unless noted."""

    lanes: float  # float32 lanes of the vectors that all of it holds for
    launch_seconds: float  # latency of the smallest kernel, from Python
    fork_seconds: float  # extra latency of a launch with several threads
    levels: tuple[Level, ...]  # the smallest first
    flops: float  # operations of element-wise float32 programs, counted as in `PRIMITIVES`
    row_seconds: float  # overhead of a row for each reduction
    macs: Mapping[str, float]  # multiply-accumulates by `gemm_micro.Unit`
    tiles: Mapping[str, TileShape]  # fastest tiles by unit; empty without a measurement
    tile_seconds: float  # overhead of a tile of a product
    packed_bytes: float  # operands of a product, put in the order in which it reads them
    scattered_elements: float  # that are read or written one by one
    reference_seconds: float  # of one call of the NumPy reference
    reference_elements: float  # per element and op in NumPy
    reference_macs: Mapping[str, float]  # of NumPy's products, "float" or "integer"
    thread_watts: float  # of a busy one

    def scaled(self, lanes: int) -> ProcessorRates:
        """Return the rates for vectors of another width, which affects arithmetic but not memory."""
        ratio = lanes / self.lanes
        macs = {unit: rate * ratio for unit, rate in self.macs.items()}
        return replace(self, lanes=lanes, flops=self.flops * ratio, macs=macs)

    def expense(self, seconds: float, working: float = 1) -> Expense:
        """Return the expense of work that lasts `seconds` and keeps `working` threads busy."""
        return Expense(seconds, seconds * working, seconds * working * self.thread_watts)


@dataclass(frozen=True)
class NpuRates:
    """Launch overheads on the NPU and on the host."""

    python_seconds: float  # of a launch until XRT has it
    dispatch_seconds: float  # then until the host sees the end of an empty kernel
    step_seconds: float  # overhead of each kernel within a launch
    change_seconds: float | None  # extra after another configuration; None if a launch has one
    switch_seconds: float  # extra after a launch in another hardware context
    switch_column_seconds: float  # the same for each column of the context
    clock_hz: float  # of cores and streams
    ddr_bytes_per_second: float  # between host memory and array, in all columns
    core_rate: float  # measured rate of its cores as a fraction of the predicted rate
    sync_seconds_per_byte: float  # for the host to write back or drop the cache lines of a buffer
    copied_bytes: float  # per second, of a tensor into a buffer as it is
    converted_elements: float  # per second, where dtype, order or padding changes
    watts: float  # while a kernel runs


def too_long(cost: Cost) -> str | None:
    """Return the reason why an NPU must not launch a kernel: the driver would end it early. None if it may."""
    seconds = cost.expense.seconds
    if seconds <= MAX_LAUNCH_SECONDS:
        return None
    return (
        f"one launch is predicted to take {seconds:.2f} s; {MAX_LAUNCH_SECONDS} s are the most, because the driver "
        "stops kernels that run for 2 s. Compute it in several smaller parts"
    )


@cache
def priors() -> Mapping[str, Mapping[str, Any]]:
    """Return the priors by "processor", "npu1" or "npu2", and by field. Their sources are in the files."""
    processor = json.loads(Path(__file__).with_name("priors.json").read_text("utf-8"))["processor"]
    names = [field.name for field in fields(NpuRates)]
    rates = {device: {name: RATES[device][name] for name in names} for device in ("npu1", "npu2")}
    return {"processor": {name: figure["value"] for name, figure in processor.items()}, **rates}


def clock_hz(device: str, processor: str, power: str = "default") -> float:
    """Return the clock of an NPU by the name of its processor and the power mode, from priors."""
    clocks = RATES["processors"].items() if device == "npu1" else ()
    known = next((clock for pattern, clock in clocks if re.search(pattern, f"{processor} ")), RATES[device]["clock_hz"])
    return float(known * RATES["power"].get(power, 1))


def processor_identity() -> dict[str, str]:
    """Return the key of the processor's rates: model, cores of this process, instruction set."""
    return {"processor": _model(), "cores": str(available_cores()), "features": config.cpu_features}


def _model() -> str:
    # AArch64 has no "model name" but a number for each part.
    keys = ("model name", "cpu family", "model", "CPU part")
    fields = processor_fields()
    return " ".join(fields[key] for key in keys if key in fields) or platform.machine()


def processor_rates(lanes: int | None = None) -> ProcessorRates:
    """Return the rates of this machine's processor.

    Args:
        lanes: Number of float32 lanes of a vector; None if arithmetic does not matter.
    """
    measured = _read("processor", tuple(processor_identity().items()), config.cache_dir)
    rates = measured or _prior("processor")
    assert isinstance(rates, ProcessorRates)
    return rates if measured or lanes is None else rates.scaled(lanes)


def npu_rates(device: str, identity: Mapping[str, str] | None = None, clock: float | None = None) -> NpuRates:
    """Return the rates of an NPU.

    Args:
        device: Kind of the NPU, "npu1" or "npu2".
        identity: Name, driver and power mode of the NPU; None if it is simulated.
        clock: Clock in Hz if the driver reports it. Without a measurement, it replaces the prior.
    """
    prior = _prior(device)
    assert isinstance(prior, NpuRates)
    if identity is None:
        return prior
    measured = _read(device, tuple(identity.items()), config.cache_dir)
    assert measured is None or isinstance(measured, NpuRates)
    return measured or replace(prior, clock_hz=clock or clock_hz(device, _model(), identity["power"]))


@cache
def _prior(kind: str) -> ProcessorRates | NpuRates:
    return _of_kind(kind, priors()[kind])


def calibration_path(kind: str, identity: Mapping[str, str]) -> Path:
    """Return the name of the file of a device, below the cache directory."""
    import hashlib  # loads OpenSSL

    text = json.dumps(identity, sort_keys=True)
    return Path("calibration") / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


@cache
def _read(kind: str, identity: tuple[tuple[str, str], ...], root: Path) -> ProcessorRates | NpuRates | None:
    """Read a measurement. Return None if there is none, with a warning if the file cannot be used."""
    for directory in readable(root):
        path = directory / calibration_path(kind, dict(identity))
        try:
            content = path.read_bytes()
        except OSError:
            continue
        try:
            stored = json.loads(content)
            if not isinstance(stored, dict) or stored.get("format") != FORMAT:
                raise ArgumentError(f"it is not a calibration of format {FORMAT}")
            if stored.get("identity") != dict(identity):
                raise ArgumentError(f"it was measured with {stored.get('identity')}, and this is {dict(identity)}")
            return _of_kind(kind, stored.get("rates"))
        except (ValueError, RecursionError) as error:  # ArgumentError and JSONDecodeError are ValueErrors.
            warn(f"{path} is not used: {error}. `npu-tensor calibrate` measures again")
    return None


def forget() -> None:
    """Drop the cached rates, so that the next call reads the files again."""
    _read.cache_clear()


def save(kind: str, identity: Mapping[str, str], rates: ProcessorRates | NpuRates) -> Path:
    """Store a measurement and return the file. Raises ArgumentError for invalid rates, and OSError."""
    content = {"format": FORMAT, "identity": dict(identity), "rates": asdict(rates)}
    _of_kind(kind, content["rates"])  # Check the content, so that the file can be read later.
    path = writable(config.cache_dir) / calibration_path(kind, identity)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(content, indent=1, default=str).encode())
    forget()
    return path


def _of_kind(kind: str, content: Any) -> ProcessorRates | NpuRates:
    """Return the record of a JSON object. Raises ArgumentError unless it has exactly the fields, with valid numbers."""
    record = ProcessorRates if kind == "processor" else NpuRates
    try:
        if record is ProcessorRates:
            levels = tuple(Level(**level) for level in content["levels"])
            tiles = {unit: TileShape(**tile) for unit, tile in content["tiles"].items()}
            content = content | {"levels": levels, "tiles": tiles}
        rates = record(**content)
    except (TypeError, KeyError, AttributeError) as error:
        raise ArgumentError(f"it does not have the fields of {record.__name__}: {error}") from error
    for name, value in flat(asdict(rates)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= sys.float_info.max:
            raise ArgumentError(f"{name} is {value!r}, not a positive number")
    return rates


def flat(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of nested records, each with its path, such as "levels[0].nbytes". None is left out."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from flat(part, f"{name}.{key}" if name else key)
    elif isinstance(value, (list, tuple)):
        for number, part in enumerate(value):
            yield from flat(part, f"{name}[{number}]")
    elif value is not None:
        yield name, value
