"""Command `npu-tensor cache`: lists, verifies and clears the cache of compiled kernels."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from npu_tensor._util.output_files import json_option, put_json
from npu_tensor._util.units import size
from npu_tensor.config import config
from npu_tensor.observe.drawing.text import print_table
from npu_tensor.runtime.store.files import LOG
from npu_tensor.runtime.store.upkeep import Removed, StoredItem, clear_everything, collect, describe, scan
from npu_tensor.runtime.store.upkeep import clear as clear_entries
from npu_tensor.runtime.store.upkeep import verify as verify_entry

_SHORTEST_KEY: Final = 8
_LOG_LINES: Final = 20
_UNITS: Final = {"": 1, "k": 1000, "m": 1000**2, "g": 1000**3, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}


def _size(_context: click.Context, _option: click.Parameter, text: str | None) -> int:
    if text is None:
        return config.cache_bytes
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([kmg]i?|)b?", text, re.IGNORECASE | re.ASCII)
    if match is None:
        raise click.BadParameter(f"{text!r} is not a size such as 500MB or 2GiB")
    return int(float(match[1]) * _UNITS[match[2].lower()])


def _root() -> Path:
    return config.cache_dir.absolute()


def _items() -> list[StoredItem]:
    return scan(_root())[0]


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


def _ago(moment: str) -> str:
    passed = max(0.0, time.time() - datetime.fromisoformat(moment).timestamp())
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if passed >= length:
            return f"{passed / length:.0f} {unit}"
    return f"{passed:.0f} s"


def _is_object(item: StoredItem) -> bool:
    return item.folder.name.startswith("cpu-")


def _row(item: StoredItem) -> dict[str, Any]:
    description = describe(item)
    return {
        "name": description["name"],
        "folder": item.folder.name,
        "kind": "object" if _is_object(item) else "kernel",
        "key": description.get("key"),
        "bytes": item.bytes,
        "created": _time(min(modified for _, modified in item.files.values())),  # A use updates only the description.
        "used": _time(item.used or 0.0),
        "files": [str(path) for path in sorted(item.files)],
    }


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    return row["name"], row["folder"], row["kind"], size(row["bytes"]), _ago(row["created"]), _ago(row["used"])


def _sum(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return one row for all objects of the CPU device."""
    return {
        **rows[-1],
        "name": f"objects of the CPU device: {len(rows)}",
        "bytes": sum(row["bytes"] for row in rows),
        "created": min(row["created"] for row in rows),
    }


@click.group()
def cache() -> None:
    """List, check or empty the cache of compiled kernels."""


@cache.command()
def path() -> None:
    """Print the cache directory."""
    click.echo(os.fsencode(config.cache_dir.absolute()))  # raw bytes, for programs that use the path


@cache.command("ls")
@json_option("an array, with every object of the CPU device")
def list_command(json_file: Path | None) -> None:
    """List the kernels, those used last at the end."""
    rows = [_row(item) for item in _items()]
    if json_file and put_json(json_file, rows):
        return
    shown = [row for row in rows if row["kind"] != "object"]
    objects = [row for row in rows if row["kind"] == "object"]
    if objects:
        shown.append(_sum(objects))
    if not shown:
        click.echo(f"{_root()}: nothing")
        return
    used = f"{size(sum(row['bytes'] for row in rows))} of {size(config.cache_bytes)}"
    print_table(f"{_root()}: {used}", ("name", "folder", "kind", "size", "age", "last use"), map(_cells, shown))


@cache.command()
@click.argument("kernel", metavar="NAME|KEY")
@json_option("an array of descriptions, each with its log")
def show(kernel: str, json_file: Path | None) -> None:
    """Print the ingredients of a kernel, and the end of its build's log.

    NAME may be a glob pattern, KEY the beginning of a key, of at least 8 digits.
    """
    descriptions = []
    for item in _items():
        description = describe(item)
        if not _is_object(item) and _is_meant(kernel, description):
            log = next((path.read_bytes() for path in item.files if path.suffix == LOG), b"")
            descriptions.append(description | {"log": log.decode("utf-8", "replace")})
    if not descriptions:
        raise _no_match(kernel)
    if put_json(json_file, descriptions):
        return
    for description in descriptions:
        lines = description.pop("log").splitlines()
        click.echo(json.dumps(description, indent=1))
        if len(lines) > _LOG_LINES:
            click.echo(f"the last {_LOG_LINES} of {len(lines)} lines of the log:")
        click.echo("\n".join(lines[-_LOG_LINES:]))


def _is_meant(kernel: str, description: dict[str, Any]) -> bool:
    if len(kernel) >= _SHORTEST_KEY and str(description.get("key")).startswith(kernel):
        return True
    return description["name"] == kernel or fnmatch.fnmatchcase(description["name"], kernel)


@cache.command()
def verify() -> None:
    """Read every file again and compare it with its checksum.

    Exit code 1 if one differs. Such a kernel is never loaded, but built again when it is needed.
    """
    items = _items()
    damaged = [(item, reason) for item in items if (reason := verify_entry(_root(), item)) is not None]
    for item, reason in damaged:
        click.echo(f"{item.description}: {reason}")
    click.echo(f"{len(damaged)} of {len(items)} entries are damaged")
    if damaged:
        raise SystemExit(1)


@cache.command()
@click.argument("name", required=False)
@click.option("--all", "everything", is_flag=True, help="All files below the cache directory.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def clear(name: str | None, everything: bool, yes: bool) -> None:
    """Remove the kernels whose name matches NAME, a glob pattern; without NAME, all.

    Files that are not those of the cache stay, except with --all. Without NAME, asks first on a terminal.
    """
    if everything and name is not None:
        raise click.UsageError("give a NAME or --all, not both")
    if everything:
        if not yes:
            click.confirm(f"Remove everything below {_root()}?", abort=True)
        _remove(clear_everything)
        return
    if name is None and not yes and sys.stdin.isatty():
        click.confirm(f"Remove all kernels in {_root()}?", abort=True)
    _remove(lambda root: clear_entries(root, name), name)


@cache.command()
@click.option("--max-size", callback=_size, help="Such as 500MB; default: NPU_TENSOR_CACHE_BYTES.")
def gc(max_size: int) -> None:
    """Remove leftovers of killed processes, and the least recently used kernels beyond the size limit.

    Kernels go until nine tenths of the limit are left.
    """
    _remove(lambda root: collect(root, max_size))


def _no_match(name: str) -> click.ClickException:
    return click.ClickException(f"no kernel matches {name!r}; npu-tensor cache ls lists them")


def _remove(action: Callable[[Path], Removed], name: str | None = None) -> None:
    """Run an action on the cache and print the number of removed files. With a name, at least one must match."""
    if not _root().is_dir():
        click.echo(f"{_root()}: nothing")
        return
    removed = action(_root())
    if name is not None and not (removed.entries or removed.busy):
        raise _no_match(name)
    entries = f"{removed.entries} {'entry' if removed.entries == 1 else 'entries'}"
    files = f"{removed.files} {'file' if removed.files == 1 else 'files'}"
    click.echo(f"{_root()}: removed {entries}, {files}, {size(removed.bytes)}")
    if removed.busy:
        click.echo(f"{removed.busy} are being built by other processes and were left")
