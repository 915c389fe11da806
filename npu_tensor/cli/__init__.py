"""Command `npu-tensor`. Each subcommand has a module, which is imported when the command is used or listed."""

from __future__ import annotations

import io
import os
import sys
import warnings
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

import click

import npu_tensor as nt
from npu_tensor.config import config

__all__ = ["main"]

COMMANDS: Final = {
    "bench": "npu_tensor.benchmarks.command:bench",
    "cache": "npu_tensor.cli.cache:cache",
    "calibrate": "npu_tensor.cli.calibrate:calibrate_command",
    "config": "npu_tensor.cli.settings:config_command",
    "demo": "npu_tensor.cli.demo:demo",
    "doctor": "npu_tensor.cli.doctor:doctor",
    "examples": "npu_tensor.cli.examples:examples",
    "gen-kernels": "npu_tensor.cli.gen_kernels:gen_kernels",
    "generate": "npu_tensor.cli.generate_text:generate",
    "info": "npu_tensor.cli.info:info",
    "kernel-source": "npu_tensor.cli.kernel_source:kernel_source",
    "ops": "npu_tensor.cli.ops:ops",
    "pack": "npu_tensor.cli.pack:pack",
    "profile": "npu_tensor.cli.profile:profile",
    "run": "npu_tensor.cli.run_model:run_model",
    "selftest": "npu_tensor.cli.selftest:selftest_command",
    "unpack": "npu_tensor.cli.pack:unpack",
}
"""Module and name of each command."""


class _Commands(click.Group):
    """Command group that reports errors of the package, of files and of libraries in a line, without a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), name)
        return command

    def main(self, *args: Any, **kwargs: Any) -> Any:
        try:
            try:
                return super().main(*args, **kwargs)
            finally:
                sys.stdout.flush()
        except OSError as error:
            with suppress(OSError):  # Python would try to write the rest at exit.
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if not isinstance(error, BrokenPipeError):
                what = error.filename or "the output cannot be written"
                click.echo(f"Error: {f'{what}: {error.strerror}' if error.strerror else error}", err=True)
            sys.exit(1)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (nt.NpuTensorError, ImportError) as error:
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
