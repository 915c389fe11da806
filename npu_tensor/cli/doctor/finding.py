"""Findings of checks, the checked system, and comparison with tested versions."""

from __future__ import annotations

import getpass
import grp
import json
import os
import re
import resource
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from npu_tensor.runtime.build import mlir_aie
from npu_tensor.runtime.build.iron import IronBackend
from npu_tensor.runtime.devices.discovery import Discovery, discover
from npu_tensor.runtime.devices.shared_libraries import HSA, XRT, RuntimeLibrary
from npu_tensor.runtime.devices.system import tool_output
from npu_tensor.runtime.sim import host_compiler
from npu_tensor.runtime.store.kernel_directory import no_kernels
from npu_tensor.runtime.xrt.bindings import pyxrt

if TYPE_CHECKING:
    from npu_tensor.runtime.build.mlir_aie import Toolchain

Status = Literal["ok", "note", "problem"]
"""Severity of a finding. A "problem" prevents the use of NPUs; a "note" is useful or reports something unknown."""


class Finding(NamedTuple):
    """Result of a check.

    Attributes:
        check: Name of the check; empty until `diagnose` sets it.
        status: Severity.
        found: State of the system.
        why: Reason why it matters.
        fix: Command or instruction that fixes it.
        follows: Check whose problem may have caused this one and must be fixed first; empty if there is none.
    """

    check: str
    status: Status
    found: str
    why: str = ""
    fix: str = ""
    follows: str = ""


def ok(found: str) -> Finding:
    """Create a finding without a problem."""
    return Finding("", "ok", found)


def note(found: str, why: str = "", fix: str = "") -> Finding:
    """Create a finding that is worth knowing."""
    return Finding("", "note", found, why, fix)


def problem(found: str, why: str, fix: str) -> Finding:
    """Create a finding that prevents the use of NPUs."""
    return Finding("", "problem", found, why, fix)


def _group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


@dataclass(frozen=True)
class System:
    """Interface of the checks to the system. Tests replace its functions.

    Attributes:
        root: Directory below which system files are read.
        memlock: Function that returns the soft and hard limit of locked memory in bytes; -1 for no limit.
        usable: Function that returns True if this user can read and write a file.
        group_of: Function that returns the group of a file.
        memberships: Function that returns the groups of this process.
        tool: Function that returns the output of a command, or raises DeviceError.
        no_kernels: Function that returns why no kernels can be built for an array.
    """

    root: Path = Path("/")
    xrt: RuntimeLibrary = XRT
    hsa: RuntimeLibrary = HSA
    memlock: Callable[[], tuple[int, int]] = lambda: resource.getrlimit(resource.RLIMIT_MEMLOCK)
    usable: Callable[[Path], bool] = lambda path: os.access(path, os.R_OK | os.W_OK)
    user: Callable[[], str] = getpass.getuser
    group_of: Callable[[Path], str] = lambda path: _group_name(path.stat().st_gid)
    memberships: Callable[[], set[str]] = lambda: set(map(_group_name, [os.getegid(), *os.getgroups()]))
    pyxrt: Callable[[RuntimeLibrary], Any] = pyxrt
    discover: Callable[[Path], Discovery] = discover
    tool: Callable[..., str] = tool_output
    toolchain: Callable[[], Toolchain | str] = mlir_aie.find
    xclbinutil: Callable[[], str | None] = mlir_aie.xclbinutil
    no_kernels: Callable[[str], str | None] = lambda arch: no_kernels(arch, IronBackend())
    compiler: Callable[[], str | None] = host_compiler.reason

    def read(self, *path: str) -> str:
        """Read a file below root and strip white space. Return an empty string if it cannot be read."""
        try:
            return self.root.joinpath(*path).read_text("utf-8", "replace").strip()
        except OSError:
            return ""


# --- tested versions: tested.json lists them with their sources


@cache
def _matrix() -> dict[str, dict[str, Any]]:
    matrix: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("tested.json").read_text("utf-8"))
    return matrix


def tested_versions(component: str) -> dict[str, str]:
    """Return the tested versions with the purpose of each test."""
    versions: dict[str, str] = _matrix()[component]["tested"]
    return versions


def against_tested(component: str, version: str, why: str, fix: str) -> Finding:
    """Compare a version with the tested ones: ok if tested, note if unknown, problem if known to fail.

    A version with more digits than a tested one counts as tested.

    Args:
        component: Name in tested.json.
        version: Version to compare.
        why: Reason why a tested version matters.
        fix: Instruction to get one.
    """
    text = version or "unknown version"
    row = _matrix()[component]
    for part, reason in row.get("faulty", {}).items():
        if part in version:
            return problem(text, reason, fix)
    if _older(version, row.get("least", "0")):
        return problem(text, f"it is older than {row['least']}: {why}", fix)
    for known, how in row["tested"].items():
        if version == known or re.match(rf"{re.escape(known)}\D", version):
            return ok(f"{text} ({how})")
    return note(text, f"not among those that were tested, {', '.join(row['tested'])}: {why}")


def _older(version: str, least: str) -> bool:
    """Return True if a release is older than another. Builds such as 0.0.1.2025110304+abc are not ordered."""
    number = re.match(r"\d+(\.\d+)+", version)
    if number is None or version.startswith("0.0.1."):
        return False
    return [int(part) for part in number[0].split(".")] < [int(part) for part in least.split(".")]
