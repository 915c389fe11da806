"""Command `npu-tensor calibrate`: measures the rates of this machine for the cost model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from npu_tensor._util.output_files import json_option, put_json
from npu_tensor._util.units import quantity
from npu_tensor.cli.options import device_errors, device_option, search_path_options
from npu_tensor.errors import ArgumentError
from npu_tensor.observe.drawing.terminal import print_table

if TYPE_CHECKING:
    from npu_tensor.tools.calibrate import Calibration

__all__ = ["calibrate"]

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
}
"""Units of rates by part of their names. The first match counts."""

UNLIMITED: Final = 1e18
"""Size of main memory in the priors, in bytes."""


@click.command()
@device_option()
@click.option("--quick", is_flag=True, help="In a few seconds, less exact.")
@click.option("--force", is_flag=True, help="Also on a machine that is busy.")
@json_option("an object with the devices")
@search_path_options
def calibrate(device: str, quick: bool, force: bool, json_file: Path | None) -> None:
    """Measure this machine for predictions.

    What is measured is the processor, or an NPU and what the host does for it. The figures lie in the cache directory,
    in one file per processor, and per NPU, driver and power mode; without it costs are predicted from priors. Leave
    the machine alone meanwhile: on a busy one nothing is measured and nothing changes, unless --force. A simulated NPU
    has nothing to measure.
    """
    from npu_tensor.tools.calibrate import calibrate as measure
    from npu_tensor.tools.calibrate import npus

    with device_errors():
        try:
            npus(device)
        except ArgumentError as error:
            raise click.BadParameter(str(error), param_hint="--device") from None
        load = os.getloadavg()[0]
        if load > BUSY and not force:
            raise click.ClickException(
                f"the load of this machine is {load:.1f}: rates would come out too low, and placement would go by "
                f"them. Wait until it is below {BUSY}, or use --force"
            )
        try:
            calibrations = measure(device, quick)
        except OSError as error:
            raise click.ClickException(f"what was measured cannot be kept: {error}") from None
    if put_json(json_file, {"devices": [_as_dict(one) for one in calibrations]}):
        return
    for one in calibrations:
        rows = ((name, _in_units(name, prior), _in_units(name, measured)) for name, prior, measured in one.figures)
        print_table(f"{one.uri}: kept in {one.path}", ("rate", "prior", "measured"), rows)


def _in_units(name: str, value: float | None) -> str:
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
