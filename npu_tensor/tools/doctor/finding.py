"""What a check finds, what the checks ask of the system, and versions against those that were tested."""

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
from npu_tensor.runtime.sim import host_compiler
from npu_tensor.runtime.store.kernel_directory import no_kernels
from npu_tensor.runtime.xrt.bindings import pyxrt

if TYPE_CHECKING:
    from npu_tensor.runtime.build.mlir_aie import Toolchain

__all__ = ["CheckResult", "Finding", "Status", "System", "against_tested", "note", "ok", "problem", "tested_versions"]

Status = Literal["ok", "note", "problem"]
"""problem: no NPU can be used before it is fixed; note: worth knowing, also if something is merely unknown."""


class CheckResult(NamedTuple):
    """What a check returns. found: what there is; why: why that matters; fix: the command, or what else to do."""

    status: Status
    found: str
    why: str = ""
    fix: str = ""


class Finding(NamedTuple):
    """The result of the check of this name.

    follows: the check whose problem is to be fixed first, because this problem may follow from it; "" if there is none.
    """

    check: str
    status: Status
    found: str
    why: str
    fix: str
    follows: str = ""


def ok(found: str) -> CheckResult:
    """All is well."""
    return CheckResult("ok", found)


def note(found: str, why: str = "", fix: str = "") -> CheckResult:
    """Worth knowing."""
    return CheckResult("note", found, why, fix)


def problem(found: str, why: str, fix: str) -> CheckResult:
    """What keeps NPUs from being used."""
    return CheckResult("problem", found, why, fix)


def _group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)


@dataclass(frozen=True)
class System:
    """The system that is checked: files below `root`, and what else is asked.

    memlock: bytes that this process may lock, now and at most, -1 for no limit. usable: whether this user can read
    and write a file. group_of: the group that owns it. memberships: the groups of this process. no_kernels: why there
    can be none for an array.
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
    toolchain: Callable[[], Toolchain | str] = mlir_aie.find
    xclbinutil: Callable[[], str | None] = mlir_aie.xclbinutil
    no_kernels: Callable[[str], str | None] = lambda arch: no_kernels(arch, IronBackend())
    compiler: Callable[[], str | None] = host_compiler.reason

    def read(self, *path: str) -> str:
        """The text of a file below root, without white space around it; "" if it cannot be read."""
        try:
            return self.root.joinpath(*path).read_text("utf-8", "replace").strip()
        except OSError:
            return ""


# --- versions that were tried: tested.json says which, and by whom


@cache
def _matrix() -> dict[str, dict[str, Any]]:
    matrix: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("tested.json").read_text("utf-8"))
    return matrix


def tested_versions(component: str) -> dict[str, str]:
    """The tested versions, and what each was tested for."""
    versions: dict[str, str] = _matrix()[component]["tested"]
    return versions


def against_tested(component: str, version: str, why: str, fix: str) -> CheckResult:
    """ok for a tested version, also with more digits than listed; note for an unknown one; problem for a bad one.

    why: it matters that the version is a tested one; fix: how to get one.
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
    """Whether a release is older than another. Builds such as 0.0.1.2025110304+abc have no place in their order."""
    number = re.match(r"\d+(\.\d+)+", version)
    if number is None or version.startswith("0.0.1."):
        return False
    return [int(part) for part in number[0].split(".")] < [int(part) for part in least.split(".")]
