"""Calibration: measure the rates of this machine, which replace the priors of the cost model.

    for figure in calibrate("cpu").figures: print(figure)

The cache directory keeps the rates per processor, and per NPU with its driver and power mode. Devices opened afterwards
use them. Calibration of an NPU was not run on an NPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from npu_tensor.errors import DeviceError
from npu_tensor.planner import selection
from npu_tensor.runtime import rates
from npu_tensor.runtime.rates import NpuRates, ProcessorRates
from npu_tensor.tools.calibrate.cpu_rates import measure_processor
from npu_tensor.tools.calibrate.npu import measure_npu
from npu_tensor.tools.calibrate.probes import Unclear
from npu_tensor.tools.report import single_uri

if TYPE_CHECKING:
    from npu_tensor.runtime.xrt.xrt_device import XrtDevice

__all__ = ["Calibration", "Figure", "calibrate", "measure_npu", "measure_processor", "npus"]

ATTEMPTS: Final = 3


class Figure(NamedTuple):
    """A rate: its name, its prior if there is one, and the measured value if it could be measured."""

    name: str
    prior: float | None
    measured: float | None


class Calibration(NamedTuple):
    """Measured rates of a device. `path` is their file, `identity` the hardware they are valid for."""

    uri: str
    path: Path
    identity: dict[str, str]
    figures: tuple[Figure, ...]


def calibrate(uri: str = "cpu", quick: bool = False) -> tuple[Calibration, ...]:
    """Measure the processor, or the NPUs at a URI with their host overheads, and store the rates.

    Args:
        uri: Device URI.
        quick: True to take a few seconds instead of a quarter of a minute, with less exact results.

    Raises:
        ArgumentError: The URI lists several devices.
        DeviceError: The device is simulated or does not exist.
        BuildError: The kernels for an NPU are not available.
        NpuTensorError: The measurements are inconsistent.
        OSError: The rates cannot be written.
    """
    devices = npus(uri)
    if not devices:
        identity = rates.processor_identity()
        return (_kept(uri, "processor", identity, partial(measure_processor, quick)),)
    return tuple(
        _kept(npu.uri, npu.target.array.device, npu.identity, partial(measure_npu, npu, quick)) for npu in devices
    )


def npus(uri: str) -> tuple[XrtDevice, ...]:
    """Return the NPUs at a URI that `calibrate` measures; none for the processor.

    Raises:
        ArgumentError: The URI lists several devices.
        DeviceError: The device is simulated or does not exist.
    """
    device_uri = single_uri(uri)
    if device_uri.scheme == "sim":
        raise DeviceError(
            f"{uri} is simulated: there is nothing to measure, its costs are those of the real array",
            "INVALID_ARGUMENT",
        )
    if device_uri.scheme == "cpu":
        return ()
    from npu_tensor.runtime.xrt.xrt_device import XrtDevice

    (device,) = selection.accelerators(selection.selection_of(uri, "always"))
    return tuple(member for member in device.members if isinstance(member, XrtDevice))


def _kept(
    uri: str, kind: str, identity: dict[str, str], measure: Callable[[], ProcessorRates | NpuRates]
) -> Calibration:
    measured = _clear(measure)
    path = rates.save(kind, identity, measured)
    before, after = (dict(_flat("", values)) for values in (rates.priors()[kind], asdict(measured)))
    # A rate that was not measured equals its prior exactly.
    figures = [Figure(n, prior := before.get(n), None if value == prior else value) for n, value in after.items()]
    return Calibration(uri, path, identity, tuple(figures))


def _clear(measure: Callable[[], ProcessorRates | NpuRates]) -> ProcessorRates | NpuRates:
    """Measure in up to `ATTEMPTS` attempts, because the machine may be busy for a while."""
    for _ in range(ATTEMPTS - 1):
        with suppress(Unclear):
            return measure()
    return measure()


def _flat(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """Yield names and numbers of a nested record, without missing values."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _flat(f"{name}.{key}" if name else key, part)
    elif isinstance(value, (list, tuple)):
        for number, part in enumerate(value):
            yield from _flat(f"{name}[{number}]", part)
    elif value is not None:
        yield name, float(value)
