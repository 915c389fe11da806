"""Command `npu-tensor doctor`: diagnoses problems that keep this machine from using an NPU, and names fixes.

Example:
    findings = diagnose()
    print(verdict(findings))            # "No NPU can be used; fix driver first (sudo modprobe amdxdna); ..."
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from npu_tensor._util.output_files import json_option, put_json
from npu_tensor.cli.doctor import hardware, software
from npu_tensor.cli.doctor.finding import Finding, System, problem
from npu_tensor.cli.options import search_path_options
from npu_tensor.errors import ArgumentError
from npu_tensor.observe.drawing.text import beside

__all__ = ["CHECKS", "Finding", "System", "diagnose", "doctor", "usable", "verdict"]

CHECKS: Final[dict[str, Callable[[System], Finding]]] = {
    "operating system": hardware.operating_system,
    "processor": hardware.processor,
    "firmware": hardware.firmware,
    "IOMMU": hardware.iommu,
    "driver": hardware.driver,
    "device files": hardware.accel_nodes,
    "permissions": hardware.permissions,
    "locked memory": hardware.locked_memory,
    "idle NPUs": hardware.idle,
    "power": hardware.power,
    "XRT": software.xrt,
    "pyxrt": software.pyxrt,
    "NPUs": software.npus,
    "mlir-aie": software.mlir_aie,
    "Peano": software.peano,
    "xclbinutil": software.xclbinutil,
    "HSA runtime": software.hsa,
    "cache directory": software.cache_directory,
    "C++ compiler": software.host_cxx,
    "simulated NPU": software.simulated_npu,
}
"""Checks in the order of fixing: each follows the checks that it depends on."""

_FOLLOWS: Final[dict[str, tuple[str, ...]]] = {
    "driver": ("processor",),
    "device files": ("processor", "firmware", "driver"),
    "XRT": ("processor",),
    "pyxrt": ("processor", "XRT"),
    "NPUs": ("processor", "firmware", "driver", "device files", "permissions", "locked memory", "XRT", "pyxrt"),
}
"""Checks whose problem may follow from another one, and possible causes in the order of CHECKS."""


def diagnose(root: Path = Path("/"), system: System | None = None) -> list[Finding]:
    """Run all checks and return the findings in the order of CHECKS. Never raises.

    Args:
        root: Directory below which system files are read.
        system: System to check; None for this one.
    """
    system = replace(system or System(), root=root)
    findings: dict[str, Finding] = {}
    for name, check in CHECKS.items():
        try:
            finding = check(system)
        except ArgumentError as error:
            finding = problem(str(error), "this check depends on it", "unset it, or give it an allowed value")
        except Exception as error:  # XRT may raise any exception. The other checks must still run.
            failure = f"the check itself failed with {type(error).__name__}: {error}"
            finding = problem(failure, "nothing is known about this", "report it, with npu-tensor doctor --json")
        found, why, fix = ("; ".join(text.split("\n")) for text in (finding.found, finding.why, finding.fix))
        follows = ""
        if finding.status == "problem":
            causes = (cause for cause in _FOLLOWS.get(name, ()) if findings[cause].status == "problem")
            follows = next(causes, "")
        findings[name] = Finding(name, finding.status, found, why, fix, follows)
    return list(findings.values())


def usable(findings: Iterable[Finding]) -> bool:
    """Return True if an NPU can be used, that is, if no finding is a problem."""
    return all(finding.status != "problem" for finding in findings)


def verdict(findings: Iterable[Finding]) -> str:
    """Summarize the findings in one sentence: an NPU can be used, or what to fix first and what works meanwhile."""
    by_check = {finding.check: finding for finding in findings}
    first = next((finding for finding in by_check.values() if finding.status == "problem"), None)
    if first is None:
        return f"An NPU can be used: {by_check['NPUs'].found}."
    simulated = " and the simulated NPU" if by_check["simulated NPU"].status == "ok" else ""
    return (
        f"No NPU can be used; fix {first.check} first ({first.fix}); everything works on the CPU{simulated} meanwhile."
    )


@click.command()
@json_option("an object with the findings")
@search_path_options
@click.option("--root", type=click.Path(path_type=Path, file_okay=False, exists=True), default="/", hidden=True)
def doctor(json_file: Path | None, root: Path) -> None:
    """Check what an NPU needs here.

    Every check is ok, a note (worth knowing) or a PROBLEM (no NPU can be used before it is fixed); why that matters
    and how to fix it stand below. Problems that may follow from another one stand below it; --json has their fixes.
    Exit code 0 if an NPU can be used, else 1.
    """
    findings = diagnose(root)
    content = {
        "usable": usable(findings),
        "verdict": verdict(findings),
        "findings": [finding._asdict() for finding in findings],
    }
    if not put_json(json_file, content):
        for finding in findings:
            if not finding.follows:
                followers = [other for other in findings if other.follows == finding.check]
                click.echo(_described(finding, followers, len("problem ") + max(map(len, CHECKS)) + 2))
        click.echo(verdict(findings))
    if not usable(findings):
        raise SystemExit(1)


def _described(finding: Finding, followers: Sequence[Finding], indent: int) -> str:
    status = finding.status.upper() if finding.status == "problem" else finding.status
    lines = beside(f"{status:<8}{finding.check}", finding.found, indent)
    if finding.why:
        lines += beside("        why:", finding.why, 14)
    if finding.fix:
        lines.append(f"        fix:  {finding.fix}")  # One line, so that a command can be copied.
    if followers:
        lines.append("        to fix after it, if they remain:")
    for follower in followers:
        lines += beside(f"          {follower.check}", follower.found, indent)
    return "\n".join(lines)
