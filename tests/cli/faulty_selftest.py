"""Process of the self-test on a simulated NPU with a fault, which `test_selftest` names in the environment.

NT_FAULT: Name of a `Fault`, or of another one below. NT_OCCURRED: File that exists once it has occurred.
"""

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import fake_system
from backend import StandinBackend
from machine import Machine, Npu, install
from npu_contexts import Core
from npu_faults import Fault

from npu_tensor.cli import calibrate
from npu_tensor.cli.doctor import diagnose
from npu_tensor.cli.selftest import kernel_cases, stages
from npu_tensor.cli.selftest.outcome import Outcome
from npu_tensor.errors import BuildError
from npu_tensor.ggml_hsa.config_file import Entry
from npu_tensor.runtime.npu.npu_kernel import NpuKernel
from npu_tensor.runtime.rates import npu_rates
from npu_tensor.runtime.sim import host_compiler
from npu_tensor.runtime.store.library import KernelLibrary
from npu_tensor.runtime.xrt import bindings, xrt_device
from npu_tensor.runtime.xrt.xrt_device import XrtDevice
from npu_tensor.runtime.xrt.xrt_driver import XrtDriver
from npu_tensor.task import Device, Kernel, Refusal

TARGET = "elementwise-one_stream-i32"
"""Kernel that has the fault."""


def wait_forever(*_: object) -> None:
    while True:
        time.sleep(1)


def crash(*_: object) -> None:
    os.write(2, b"terminate called after throwing an instance of 'xrt_core::error'\n")
    os.abort()


def fail_to_build(*_: object) -> None:
    raise BuildError(f"Peano failed in {Path.home()}/work")


def main() -> None:
    """Run the steps with the fault."""
    fault, occurred = os.environ["NT_FAULT"], Path(os.environ["NT_OCCURRED"])
    machine = Machine([Npu()])
    machine.devices[0].present = not (fault == "GONE" and occurred.exists())
    compared, library = kernel_cases._compared, KernelLibrary(StandinBackend())
    with ExitStack() as stack:

        def with_fault(device: Device, entry: Entry, kernel: Kernel, row: Outcome) -> Outcome:
            if entry.exported_name == TARGET and not occurred.exists():
                occurred.touch()
                if fault in Fault.__members__:
                    machine.inject(Fault[fault], times=3 if fault in ("CONTEXT", "MEMORY", "BAD_ALLOC") else 1)
                elif fault == "GONE":
                    machine.inject(Fault.LOST)
                elif fault in CALLS:
                    owner, name, effect = CALLS[fault]
                    with mock.patch.object(owner, name, effect):
                        return compared(device, entry, kernel, row)
            return compared(device, entry, kernel, row)

        root = Path(stack.enter_context(TemporaryDirectory()))
        system = fake_system.Machine(root, root).system()
        patch = mock.patch.object
        for each in (
            install(machine),
            patch(xrt_device, "library", lambda: library),
            patch(bindings, "xrt_version", lambda: "2.25.0"),
            patch(stages, "diagnose", lambda: diagnose(root, system)),
            patch(stages, "TIMED_LAUNCHES", 2),
            patch(stages, "QUICK_SIDE", 64),
            patch(kernel_cases, "RUN_SECONDS", 5),
            patch(kernel_cases, "_compared", with_fault),
            patch(XrtDriver, "launch_seconds", 0.5),
            patch(host_compiler, "_FLAGS", tuple("-O0" if flag == "-O2" else flag for flag in host_compiler._FLAGS)),
            # The stand-in takes no time that could be measured.
            patch(calibrate, "measure_npu", lambda npu, quick: replace(npu_rates("npu2"), dispatch_seconds=2e-3)),
        ):
            stack.enter_context(each)
        if fault == "REFUSED":
            claim = XrtDevice.claim
            refuse = lambda device, task: Refusal("too much") if task.name == "relu" else claim(device, task)  # noqa: E731
            stack.enter_context(patch(XrtDevice, "claim", refuse))
        if fault == "STUCK" and occurred.exists():
            stack.enter_context(patch(Core, "submit", wait_forever))
        stages.work()


CALLS: dict[str, tuple[object, str, Callable[..., None]]] = {
    "BLOCKED": (Core, "submit", wait_forever),
    "STUCK": (Core, "submit", wait_forever),
    "CRASH": (Core, "submit", crash),
    "BUILD": (NpuKernel, "bind", fail_to_build),
}
"""Functions that do not return, by fault."""
