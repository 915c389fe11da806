"""The engines of this process, one per NPU, and how they end: with the process, and in forked ones."""

from __future__ import annotations

import atexit
import ctypes
from contextlib import ExitStack
from typing import Final

from npu_tensor._util.forks import in_child
from npu_tensor.dataflow.array import Arch
from npu_tensor.runtime.memory import Allocator
from npu_tensor.runtime.npu.npu_engine import NpuEngine, lock
from npu_tensor.runtime.xrt import xrt_submission
from npu_tensor.runtime.xrt.xrt_context import XrtContext
from npu_tensor.runtime.xrt.xrt_driver import XrtDriver

__all__ = ["close_engines", "engine_of"]

_engines: Final[dict[int, NpuEngine]] = {}


def engine_of(index: int, arch: Arch, uri: str, allocator: Allocator) -> NpuEngine:
    """The one engine of an NPU in this process, whatever URIs name it. index: pyxrt's. Raises DeviceError.

    One that was closed is opened again, as the steps of a plan may still have it.
    """
    with lock:
        engine = _engines.get(index)
        if engine is None or (not engine.ready and engine.arch != arch):
            engine = _engines[index] = NpuEngine(XrtDriver(index), arch, uri, allocator)
        elif not engine.ready:
            engine.check_process()
            engine.uri = engine.notices.uri = uri
            engine.reopen()
        return engine


def close_engines() -> None:
    """Give everything back that XRT has for this process, also what steps of kept plans have opened again."""
    with ExitStack() as stack:  # Each, also if one fails or an interrupt comes.
        for engine in tuple(_engines.values()):
            stack.callback(engine.close)


@atexit.register
def _at_exit() -> None:
    """XRT's objects must go before the interpreter does, and those in use must not go at all."""
    forked = any(engine.forked for engine in _engines.values())
    try:
        close_engines()
    finally:
        xrt_submission.keep_for_ever(ask=not forked)


def _leave_to_parent() -> None:
    """Nothing of XRT works in a forked process, and giving anything back there would take it from the parent."""
    for engine in _engines.values():
        engine.forked = True
        engine.ready = False
        objects = [engine, *(list(context.runs) for context in engine.contexts if isinstance(context, XrtContext))]
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(objects))  # Not even at the end of the process.


in_child(_leave_to_parent)
