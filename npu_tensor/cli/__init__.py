"""Command `npu-tensor`. Subcommands of more than a few lines have their own modules.

Every use, including `--help`, imports all these modules. Dependencies of a running command, such as rich, llvmlite or
parts of the package that `import npu_tensor` omits, are therefore imported inside its function.
"""

from __future__ import annotations

import io
import sys
import warnings
from typing import Any

import click

import npu_tensor as nt
from npu_tensor.benchmarks.command import bench as bench_command
from npu_tensor.cli.cache import cache as cache_command
from npu_tensor.cli.calibrate import calibrate as calibrate_command
from npu_tensor.cli.demo_command import demo as demo_command
from npu_tensor.cli.doctor import doctor as doctor_command
from npu_tensor.cli.examples import examples as examples_command
from npu_tensor.cli.gen_kernels import gen_kernels as gen_kernels_command
from npu_tensor.cli.generate_text import generate as generate_command
from npu_tensor.cli.info import info as info_command
from npu_tensor.cli.kernel_source import kernel_source as kernel_source_command
from npu_tensor.cli.ops import ops as ops_command
from npu_tensor.cli.output import CommandGroup
from npu_tensor.cli.pack import pack as pack_command
from npu_tensor.cli.pack import unpack as unpack_command
from npu_tensor.cli.profile import profile as profile_command
from npu_tensor.cli.selftest import selftest as selftest_command
from npu_tensor.cli.settings import config_command
from npu_tensor.config import config

__all__ = ["main"]


class _Commands(CommandGroup):
    """Command group that reports errors of the package as errors of the command, without a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except nt.NpuTensorError as error:
            raise click.ClickException(str(error)) from None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(nt.__version__, prog_name="npu-tensor")
@click.pass_context
def main(context: click.Context) -> None:
    """Lazy tensors, planned as a graph and compiled for the device."""
    if context.invoked_subcommand != "profile":  # Warnings of a profiled program refer to its lines.
        # File and line lie in the package and mean nothing to a user of the command.
        warnings.showwarning = lambda message, *_, **__: click.echo(f"Warning: {message}", err=True)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # Paths may contain characters outside the locale.
    try:
        config.read_followed()
    except nt.ArgumentError as error:  # `npu-tensor config` shows it among the other settings.
        click.echo(f"Warning: {error}", err=True)


for command in (
    bench_command,
    cache_command,
    calibrate_command,
    config_command,
    demo_command,
    ops_command,
    doctor_command,
    examples_command,
    gen_kernels_command,
    generate_command,
    info_command,
    kernel_source_command,
    pack_command,
    profile_command,
    selftest_command,
    unpack_command,
):
    main.add_command(command)
