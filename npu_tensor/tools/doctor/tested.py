"""Found versions against tested.json, the one place that says which versions were tried, and by whom."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from npu_tensor.tools.doctor.finding import CheckResult, note, ok, problem

__all__ = ["against_tested", "tested_versions"]


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
    found = version or "unknown version"
    row = _matrix()[component]
    for part, reason in row.get("faulty", {}).items():
        if part in version:
            return problem(found, reason, fix)
    if _older(version, row.get("least", "0")):
        return problem(found, f"it is older than {row['least']}: {why}", fix)
    for known, how in row["tested"].items():
        if version == known or re.match(rf"{re.escape(known)}\D", version):
            return ok(f"{found} ({how})")
    return note(found, f"not among those that were tested, {', '.join(row['tested'])}: {why}")


def _older(version: str, least: str) -> bool:
    """Whether a release is older than another. Builds such as 0.0.1.2025110304+abc have no place in their order."""
    number = re.match(r"(\d+)\.(\d+)", version)
    if number is None or version.startswith("0.0.1."):
        return False
    return [int(part) for part in number.groups()] < [int(part) for part in least.split(".")]
