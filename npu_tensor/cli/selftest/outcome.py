"""Outcome of a step of the self-test, and the kinds of failures with advice."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

DRIVER_LOG: Final = "sudo dmesg | grep -e amdxdna -e AMD-Vi"


class Outcome(NamedTuple):
    """Outcome of one step.

    Attributes:
        stage: Name of the stage, a key of `stages.STAGES`.
        name: Name of the step; that of a kernel is its family, variant and dtype, joined by "-".
        work: Description of the step. A kernel has its op and the descriptors of operands and result.
        result: "pass", "note", "refused" if the device does not support the kernel, "not run", or one of FAILED.
        nmse: Normalized mean squared error of the values; None without values.
        seconds: Measured time on the device, in seconds; None on a simulated one.
        predicted: Predicted time on the array, in seconds.
        reason: Description of the kernel, or the failure in full.
        advice: Instruction for the user, if there is one.
    """

    stage: str
    name: str
    work: str = ""
    result: str = "pass"
    nmse: float | None = None
    seconds: float | None = None
    predicted: float | None = None
    reason: str = ""
    advice: str = ""

    def failed(self, error: Exception) -> Outcome:
        """Return this outcome with the result and the advice that follow from an exception."""
        reason = f"{type(error).__name__}: {error}"
        failure = next(failure for failure in _FAILURES if re.search(failure.pattern, reason))
        return self._replace(result=failure.result, reason=reason, advice=failure.advice)


class _Failure(NamedTuple):
    """Kind of failure whose message matches a pattern."""

    pattern: str
    result: str
    advice: str


NO_ANSWER: Final = _Failure(
    r"no answer within|LaunchTimeout|in state TIMEOUT",
    "hang",
    f"{DRIVER_LOG} shows if the driver reset the NPU. If only this step hangs, report it; if the next ones fail too,"
    " reboot, and compare driver and firmware with npu-tensor doctor",
)

WRONG: Final = _Failure(
    r"differs from the CPU's|not what they give one by one",
    "wrong",
    "zeros or old data mean that the kernel did not run or did not reach its buffers (Xilinx/mlir-aie#3653, #3654);"
    " other differences come from the compiler or the design. Compare mlir-aie and Peano with npu-tensor doctor",
)

_FAILURES: Final = (
    WRONG,
    _Failure(r"^BuildError", "build failed", "compare mlir-aie and Peano with npu-tensor doctor; attach this report"),
    NO_ANSWER,
    _Failure(r"^DeviceError: .* cannot run on ", "refused", "the kernels of this program stand below by themselves"),
    _Failure(
        r"err=-19\b|No such device",
        "device lost",
        f"the driver no longer has the NPU: {DRIVER_LOG} says why; reload the module amdxdna, or reboot",
    ),
    _Failure(
        r"err=-12\b|bad_alloc|OutOfMemory",
        "out of memory",
        "close programs that use the NPU or much memory; npu-tensor doctor checks the limit of locked memory",
    ),
    _Failure(
        r"err=-(28|22)\b",
        "no context",
        "other programs hold the contexts of the NPU: xrt-smi examine --report aie-partitions lists them",
    ),
    _Failure(
        r"err=-11\b|err=-13\b|^DeviceError", "no device", "npu-tensor doctor names what is missing, and what fixes it"
    ),
    _Failure(r"^LaunchError", "launch failed", f"the driver or the array refused the launch: {DRIVER_LOG}"),
    _Failure(r"", "error", "attach this report to a bug report"),
)
"""Kinds of failures by the text of the exception. The first match counts. XRT's texts have the numbers of Linux."""

SUSPECT: Final = frozenset(
    {"hang", "device lost", "out of memory", "no context", "no device", "launch failed", "crash"}
)
"""Results after which the device must show again that it runs a kernel."""

FAILED: Final = SUSPECT | {"problem", "wrong", "build failed", "error"}
