"""Command `npu-tensor calibrate`: measures the rates of this machine, which replace the priors of the cost model.

    for figure in calibrate("cpu").figures: print(figure)

The cache directory keeps the rates per processor, and per NPU with its driver and power mode. Devices opened afterwards
use them. Calibration of an NPU was not run on an NPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from npu_tensor._util.output_files import json_option, put_json
from npu_tensor._util.units import quantity
from npu_tensor.cli.calibrate.cpu_rates import measure_processor
from npu_tensor.cli.calibrate.npu import measure_npu
from npu_tensor.cli.calibrate.probes import Unclear
from npu_tensor.cli.info import single_uri
from npu_tensor.cli.options import device_errors, device_option, search_path_options
from npu_tensor.errors import ArgumentError, DeviceError
from npu_tensor.observe.drawing.text import print_table
from npu_tensor.planner import selection
from npu_tensor.runtime import rates
from npu_tensor.runtime.rates import NpuRates, ProcessorRates

if TYPE_CHECKING:
    from npu_tensor.runtime.xrt.xrt_device import XrtDevice

__all__ = ["Calibration", "Figure", "calibrate", "in_units", "npus_at"]

ATTEMPTS: Final = 3
"""Maximum number of measurements, because the machine may be busy for a while."""

BUSY: Final = 0.5
"""Upper bound on the load average. Above it, other load makes the measured rates too low."""

UNITS: Final = {
    "seconds_per_byte": "s/B",
    "bytes_per_second": "B/s",
    "seconds": "s",
    "nbytes": "B",
    "bytes": "B/s",
    "elements": "elements/s",
    "macs": "MAC/s",
    "flops": "FLOP/s",
    "watts": "W",
    "hz": "Hz",
}
"""Units of rates by part of their names. The first match counts."""

UNLIMITED: Final = 1e18
"""Size of main memory in the priors, in bytes."""


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
    devices = npus_at(uri)
    if not devices:
        identity = rates.processor_identity()
        return (_kept(uri, "processor", identity, partial(measure_processor, quick)),)
    return tuple(
        _kept(npu.uri, npu.target.array.device, npu.identity, partial(measure_npu, npu, quick)) for npu in devices
    )


def npus_at(uri: str) -> tuple[XrtDevice, ...]:
    """Return the NPUs to measure at a URI; none for the processor."""
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
    for _ in range(ATTEMPTS - 1):
        with suppress(Unclear):
            measured = measure()
            break
    else:
        measured = measure()
    path = rates.save(kind, identity, measured)
    before, after = (
        {name: float(value) for name, value in rates.flat(values)}
        for values in (rates.priors()[kind], asdict(measured))
    )
    # A rate that was not measured equals its prior exactly.
    figures = [Figure(n, prior := before.get(n), None if value == prior else value) for n, value in after.items()]
    return Calibration(uri, path, identity, tuple(figures))


@click.command("calibrate")
@device_option()
@click.option("--quick", is_flag=True, help="In a few seconds, less exact.")
@click.option("--force", is_flag=True, help="Also on a machine that is busy.")
@json_option("an object with the devices")
@search_path_options
def calibrate_command(device: str, quick: bool, force: bool, json_file: Path | None) -> None:
    """Measure this machine for predictions.

    Measures the processor, or an NPU and the host's share of its launches. The figures lie in the cache directory, in
    one file per processor, and per NPU, driver and power mode; without it, costs are predicted from priors. Leave the
    machine alone meanwhile: a busy one is not measured unless --force is given. A simulated NPU has nothing to measure.
    """
    with device_errors():
        try:
            npus_at(device)
        except ArgumentError as error:
            raise click.BadParameter(str(error), param_hint="--device") from None
        load = os.getloadavg()[0]
        if load > BUSY and not force:
            raise click.ClickException(
                f"the load of this machine is {load:.1f}: rates would come out too low, and placement would go by "
                f"them. Wait until it is below {BUSY}, or use --force"
            )
        try:
            calibrations = calibrate(device, quick)
        except OSError as error:
            raise click.ClickException(f"what was measured cannot be kept: {error}") from None
    if put_json(json_file, {"devices": [_as_dict(one) for one in calibrations]}):
        return
    for one in calibrations:
        rows = ((name, in_units(name, prior), in_units(name, measured)) for name, prior, measured in one.figures)
        print_table(f"{one.uri}: kept in {one.path}", ("rate", "prior", "measured"), rows)


def in_units(name: str, value: float | None) -> str:
    """Format the value of a figure with its unit."""
    if value is None:
        return "none"
    if value >= UNLIMITED:
        return "no limit"
    unit = next((unit for part, unit in UNITS.items() if part in name), None)
    return f"{value:g}" if unit is None else quantity(value, unit)


def _as_dict(found: Calibration) -> dict[str, Any]:
    figures = {figure.name: {"prior": figure.prior, "measured": figure.measured} for figure in found.figures}
    return {"uri": found.uri, "file": str(found.path), "identity": found.identity, "figures": figures}
