"""A real NPU as the runtime's driver. Written to XRT's documented interface; not run on an NPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from npu_tensor.config import config
from npu_tensor.runtime.npu.npu_program import NpuProgram
from npu_tensor.runtime.xrt import bindings, xrt_submission
from npu_tensor.runtime.xrt.xrt_context import XrtContext
from npu_tensor.runtime.xrt.xrt_memory import XrtMemory
from npu_tensor.runtime.xrt.xrt_program import XrtProgram

__all__ = ["XrtDriver"]


class XrtDriver:
    """See `driver.Driver`. `group` is the memory group of host buffers."""

    group = 0  # Bank 0 is the host's memory. A slot in the upper bits would tie a buffer to one context.

    def __init__(self, index: int) -> None:
        self.index = index
        self._pyxrt: Any = None
        self._device: Any = None

    @property
    def launch_seconds(self) -> float:
        """Time limit from the settings, in seconds."""
        return config.launch_seconds

    def open(self) -> None:
        """See `driver.Driver`."""
        self._pyxrt = bindings.pyxrt()
        self._device = bindings.open_device(self.index)

    def close(self, lost: bool) -> None:
        """See `driver.Driver`. XRT keeps a device open for this process unless it is lost."""
        self._device = None
        if lost:
            bindings.forget_device(self.index)

    def allocate(self, nbytes: int, group: int | None = None) -> XrtMemory:
        """See `driver.Driver`. `group` replaces the usual memory group."""
        group = self.group if group is None else group
        return XrtMemory(self._pyxrt, self._device, nbytes, self._pyxrt.bo.flags.host_only, group)

    def load(self, program: NpuProgram, release_memory: Callable[[], object]) -> XrtContext:
        """See `driver.Driver`."""
        assert isinstance(program, XrtProgram)
        xrt_submission.release()  # Ended submissions release their contexts.
        return XrtContext(program, self._pyxrt, self._device, release_memory)
