"""Diagnosis of problems that keep this machine from running kernels on an NPU, with fixes.

Example:
    findings = diagnose()
    print(verdict(findings))            # "No NPU can be used; fix driver first (sudo modprobe amdxdna); ..."
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from npu_tensor.errors import ArgumentError
from npu_tensor.tools.doctor import hardware, package, software
from npu_tensor.tools.doctor.finding import CheckResult, Finding, Status, System, problem

__all__ = ["CHECKS", "Finding", "Status", "System", "diagnose", "usable", "verdict"]

CHECKS: Final[dict[str, Callable[[System], CheckResult]]] = {
    "operating system": hardware.operating_system,
    "processor": hardware.processor,
    "firmware": hardware.firmware,
    "driver": hardware.driver,
    "device files": hardware.accel_nodes,
    "permissions": hardware.permissions,
    "locked memory": hardware.locked_memory,
    "idle NPUs": hardware.idle,
    "XRT": software.xrt,
    "pyxrt": software.pyxrt,
    "NPUs": software.npus,
    "mlir-aie": software.mlir_aie,
    "Peano": software.peano,
    "xclbinutil": software.xclbinutil,
    "HSA runtime": software.hsa,
    "cache directory": package.cache_directory,
    "C++ compiler": package.host_cxx,
    "simulated NPU": package.simulated_npu,
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
    findings = [_finding(name, check, system) for name, check in CHECKS.items()]
    problems = {finding.check for finding in findings if finding.status == "problem"}
    return [
        finding._replace(follows=next((check for check in _FOLLOWS.get(finding.check, ()) if check in problems), ""))
        if finding.status == "problem"
        else finding
        for finding in findings
    ]


def _finding(name: str, check: Callable[[System], CheckResult], system: System) -> Finding:
    try:
        result = check(system)
    except ArgumentError as error:
        result = problem(str(error), "this check depends on it", "unset it, or give it an allowed value")
    except Exception as error:  # XRT may raise any exception. The other checks must still run.
        failure = f"the check itself failed with {type(error).__name__}: {error}"
        result = problem(failure, "nothing is known about this", "report it, with npu-tensor doctor --json")
    status, *texts = result
    return Finding(name, status, *("; ".join(text.split("\n")) for text in texts))  # Texts may have lines.


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
