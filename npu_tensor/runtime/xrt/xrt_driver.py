"""A real NPU as the runtime's driver. Written to XRT's documented interface; not run on an NPU."""

from __future__ import annotations

from typing import Any, Final

from npu_tensor.runtime.npu.driver import NpuProgram
from npu_tensor.runtime.xrt import bindings, xrt_submission
from npu_tensor.runtime.xrt.xrt_context import XrtContext
from npu_tensor.runtime.xrt.xrt_memory import XrtMemory
from npu_tensor.runtime.xrt.xrt_program import XrtProgram

HOST_MEMORY: Final = 0
"""Memory group of buffers: bank 0, without the slot of a context in the upper bits, so that all contexts share them."""


class XrtDriver:
    """See `driver.Driver`."""

    launch_seconds: float = 10
    """Time limit of a launch. The driver itself ends launches after 2 s."""

    def __init__(self, index: int) -> None:
        self.index = index
        self._pyxrt: Any = None
        self._device: Any = None

    def open(self) -> None:
        """See `driver.Driver`."""
        self._pyxrt = bindings.pyxrt()
        self._device = bindings.open_device(self.index)

    def close(self, lost: bool) -> None:
        """See `driver.Driver`. XRT keeps a device open for this process unless it is lost."""
        self._device = None
        if lost:
            bindings.forget_device(self.index)

    def allocate(self, nbytes: int) -> XrtMemory:
        """See `driver.Driver`."""
        return XrtMemory(self._pyxrt, self._device, nbytes, self._pyxrt.bo.flags.host_only, HOST_MEMORY)

    def load(self, program: NpuProgram) -> XrtContext:
        """See `driver.Driver`."""
        assert isinstance(program, XrtProgram)
        xrt_submission.release()  # Ended submissions release their contexts.
        return XrtContext(program, self._pyxrt, self._device)
