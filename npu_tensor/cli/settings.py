"""Command `npu-tensor config`: prints the settings, their values and their origins."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click

from npu_tensor._util.output_files import json_option, put_json
from npu_tensor.config import SETTINGS, Setting, as_text, config
from npu_tensor.dataflow.array import configured_arch
from npu_tensor.errors import NpuTensorError
from npu_tensor.observe.drawing.text import print_table
from npu_tensor.runtime.devices.backends import preferred_uris


def _check_cpu_features() -> None:
    if config.cpu_features in ("", "numpy"):
        return  # Only LLVM can check other values, and it takes long to load.
    with suppress(ImportError):  # Without llvmlite, the CPU device compiles nothing.
        from npu_tensor.runtime.cpu.target import host_target

        host_target(config.cpu_features)


_CHECKS: Final[Mapping[str, Callable[[], object]]] = {
    "arch": configured_arch,
    "cpu_features": _check_cpu_features,
    "device": lambda: preferred_uris(config.device),
    "kernel_dirs": config.ready_kernel_dirs,
}
"""Checks of settings whose type does not define the allowed values. They raise if the value is unusable here."""


def setting_rows() -> list[dict[str, Any]]:
    """Return all settings for JSON. `origin` is that of Config.origin; `error` is empty for a usable value."""
    return [_row(name, setting) for name, setting in SETTINGS.items()]


def _row(name: str, setting: Setting) -> dict[str, Any]:
    value, error = None, ""
    try:
        value = getattr(config, name)
        _CHECKS.get(name, lambda: None)()
    except NpuTensorError as raised:
        error = str(raised)
    variable, *aliases = setting.readers
    return {
        "name": name,
        "variable": variable,
        "aliases": aliases,
        "value": value,
        "origin": config.origin(name),
        "default": setting.default,
        "meaning": setting.doc,
        "error": error,
    }


def print_settings(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print variable, value or error, and origin. The meaning is in docs/settings.md and in the JSON."""
    print_table(
        "settings",
        ("variable", "value", "from"),
        ((row["variable"], row["error"] or _printable(as_text(row["value"])), row["origin"]) for row in rows),
    )


def _printable(text: str) -> str:
    """Escape bytes of a path that are not valid text."""
    return os.fsencode(text).decode("utf-8", "backslashreplace")


@click.command("config")
@json_option("also the meaning, the default and other variables")
def config_command(json_file: Path | None) -> None:
    """Print every setting, its value and where that comes from.

    That is "default", or the environment variable that is set; a variable of npu_tensor comes before those of other
    programs. Exit code 1 if a value is not allowed; its row says what is.
    """
    rows = setting_rows()
    if not put_json(json_file, {"settings": rows, "cache_dir": str(config.cache_dir)}):
        print_settings(rows)
        click.echo(f"directory of the cache: {_printable(str(config.cache_dir))}")
    if any(row["error"] for row in rows):
        sys.exit(1)
