"""An NPU as a device: `npu`, `npu:0`, `npu://<id>`, with options as in `npu:0?cols=4&float32=emulate`.

It runs the tasks for which a kernel family of `npu_tensor.kernels` has a design. Written to XRT's documented interface;
not run on an NPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from npu_tensor._util.user_warnings import warn
from npu_tensor.errors import DeviceError
from npu_tensor.kernels.offer import Target
from npu_tensor.runtime.build import mlir_aie
from npu_tensor.runtime.build.iron import IronBackend
from npu_tensor.runtime.devices.discovery import PhysicalDevice
from npu_tensor.runtime.devices.system import driver_clock_hz, driver_version, file_text, tool_output
from npu_tensor.runtime.memory import Allocator
from npu_tensor.runtime.npu.checked import CheckedKernels
from npu_tensor.runtime.npu.launch_plan import LaunchPlan
from npu_tensor.runtime.npu.npu_cost import NpuCosts
from npu_tensor.runtime.npu.npu_device import NpuDevice
from npu_tensor.runtime.npu.npu_engine import NpuEngine
from npu_tensor.runtime.rates import npu_rates, processor_rates
from npu_tensor.runtime.store.library import KernelLibrary
from npu_tensor.runtime.store.requests import ProgramRequest
from npu_tensor.runtime.store.store import Artifact
from npu_tensor.runtime.xrt import bindings
from npu_tensor.runtime.xrt.engines import engine_of
from npu_tensor.runtime.xrt.xrt_program import XrtProgram, read_bundled, read_program
from npu_tensor.task import Step, Task

_POWER_MODES: Final = {"low": "powersaver", "medium": "balanced", "high": "performance", "turbo": "turbo"}
"""Names in xrt-smi of the power modes of iree-amd-aie."""


@cache
def library() -> KernelLibrary:
    """Return the kernel library of all NPUs."""
    return KernelLibrary(IronBackend())


def set_power_mode(bdf: str, mode: str) -> None:
    """Request a power mode: low, medium, high or turbo. Warns if the driver refuses, as some do unless root asks."""
    try:
        tool_output("xrt-smi", "configure", "--device", bdf, "--pmode", _POWER_MODES[mode])
    except DeviceError as error:
        warn(f"the power mode of NPU {bdf} is not {mode}: {error}")


def driver_identity(npu: PhysicalDevice, xrt: str, root: Path = Path("/")) -> str:
    """Describe NPU, XRT, driver and firmware in one line. Results of a kernel may depend on each of them."""
    files = (root / "sys/module/amdxdna/srcversion", root / f"sys/bus/pci/devices/{npu.bdf}/fw_version")
    return " ".join([npu.name, xrt, *filter(None, [driver_version(root), *map(file_text, files)])])


class XrtDevice(NpuDevice):
    """One NPU of this machine."""

    def __init__(
        self,
        uri: str,
        npu: PhysicalDevice,
        target: Target,
        allocator: Allocator,
        on_host: Callable[[Task], Step],
    ) -> None:
        super().__init__(uri, target, allocator, on_host)
        self.npu = npu
        self._power = "default"
        self._costs: NpuCosts | None = None
        self._checked: CheckedKernels | None = None

    def set_power(self, mode: str) -> None:
        """Change the power mode and the predictions. See `set_power_mode`."""
        set_power_mode(self.npu.bdf, mode)
        self._power = mode
        self._costs = None

    @property
    def _driver(self) -> str:
        return driver_identity(self.npu, bindings.xrt_version())

    @property
    def identity(self) -> dict[str, str]:
        """Key of measured rates."""
        return {"npu": self.npu.id, "driver": self._driver, "power": self._power}

    @property
    def costs(self) -> NpuCosts:
        """Costs from rates measured with this NPU, driver and power mode, or from priors.

        Launches have several configurations if a file for them can be built.
        """
        if self._costs is None:
            rates = npu_rates(self.target.array.device, self.identity, driver_clock_hz(self.npu.bdf))
            elf = self.target.array.full_elfs
            missing = library().backend.missing() is not None if elf else mlir_aie.xclbinutil() is None
            if missing:
                rates = replace(rates, change_seconds=None)
            self._costs = NpuCosts(rates, processor_rates(), self.target)
        return self._costs

    def open_engine(self) -> NpuEngine:
        """Return the engine of this NPU, one per process."""
        return engine_of(self.npu.index, self.npu.arch, self.uri, self.allocator)

    @property
    def checked(self) -> CheckedKernels:
        """Kernels that gave correct results with this NPU, driver and firmware."""
        if self._checked is None:
            self._checked = CheckedKernels(self._driver)
        return self._checked

    def kernels(self) -> KernelLibrary:
        """Return the library, shared by all NPUs."""
        return library()

    def program(self, plan: LaunchPlan, artifacts: Sequence[Artifact], packed: Sequence[Artifact]) -> XrtProgram:
        """See `NpuDevice.program`. A full ELF serves one launch."""
        program, artifact = plan.program, artifacts[0]
        if not self.target.array.full_elfs and (packed or len(program.configurations) > 1):
            return read_bundled(program, artifacts, packed or artifacts)
        if len(plan.kernels) > 1 and (len(program.configurations) > 1 or ".xclbin" not in artifact.files):
            artifact = self.library.find(ProgramRequest(plan.program.name, program))
        return read_program(program, artifact)
