"""Command `npu-tensor selftest`: compares the kernels of every family on a device with NumPy."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from npu_tensor._util.output_files import STDOUT, json_option, put_json
from npu_tensor.cli.options import device_errors, device_option, search_path_options
from npu_tensor.errors import ArgumentError, DTypeError
from npu_tensor.observe.drawing.terminal import print_table
from npu_tensor.runtime.devices.device_uri import split_uris

if TYPE_CHECKING:
    from npu_tensor.tools.self_test import CaseRow

__all__ = ["selftest"]


@click.command()
@device_option("npu")
@click.option("--family", "families", metavar="F", multiple=True, help="Only kernels of this family. Repeatable.")
@click.option("--dtype", "dtypes", metavar="D", multiple=True, help="Only this element type. Repeatable.")
@click.option("--quick", is_flag=True, help="Every element type of every family once.")
@search_path_options
@json_option("the report, with what a bug report needs: versions, device, reasons in full")
def selftest(
    device: str, families: tuple[str, ...], dtypes: tuple[str, ...], quick: bool, json_file: Path | None
) -> None:
    """Test kernels against NumPy.

    First asks an NPU and its driver what kernels rely on, such as how sums round. Then runs the kernels of every family
    in every element type on a device.
    Kernels that are not there yet are built first. Exit code 0 only if no result is wrong and no kernel failed; what
    the device does not take is listed as refused.
    """
    from npu_tensor.tools.self_test import HEADINGS, Report, about, case_names, run_cases

    if len(split_uris(device)) > 1:
        raise click.BadParameter("one device is tested at a time", param_hint="--device")
    try:
        names = case_names(families, dtypes, quick)
    except (ArgumentError, DTypeError) as error:
        raise click.UsageError(str(error)) from None
    rows: list[CaseRow] = []
    interrupted = False
    with device_errors():
        machine = about(device)
        try:
            _collect(rows, run_cases(device, names), len(names))
        except KeyboardInterrupt:
            interrupted = True  # Builds take long, so partial results are shown.
    report = Report(device, machine, tuple(rows))
    if json_file != STDOUT:
        print_table("system", ("", ""), machine.items())
        print_table(report.summary, HEADINGS, (row.cells() for row in rows), folded=("shapes", "reason"))
    put_json(json_file, report.as_dict())
    if interrupted:
        raise click.Abort
    if not report.ok:
        raise SystemExit(1)


def _collect(rows: list[CaseRow], found: Iterable[CaseRow], total: int) -> None:
    """Collect rows as they arrive and print a line on stderr for each. Lines do not disturb the progress bar."""
    for row in found:
        rows.append(row)
        click.echo(f"{len(rows)}/{total} {row.family}-{row.case}-{row.dtype}: {row.result}", err=True)
