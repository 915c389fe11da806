"""Engines of this process, one per NPU, and their end at exit and in forked processes."""

from __future__ import annotations

import atexit
import ctypes
from contextlib import ExitStack
from typing import Final

from npu_tensor._util.forks import in_child
from npu_tensor.dataflow.array import Arch
from npu_tensor.runtime.memory import Allocator
from npu_tensor.runtime.npu.npu_engine import NpuEngine, lock
from npu_tensor.runtime.xrt.xrt_driver import XrtContext, XrtDriver, keep_forever

_engines: Final[dict[int, NpuEngine]] = {}


def engine_of(index: int, arch: Arch, uri: str, allocator: Allocator) -> NpuEngine:
    """Return the engine of pyxrt's NPU `index`, the same for all URIs. Raises DeviceError.

    A closed engine is reopened because plans may still use it.
    """
    with lock:
        engine = _engines.get(index)
        if engine is None or (not engine.ready and engine.arch != arch):
            engine = _engines[index] = NpuEngine(XrtDriver(index), arch, uri, allocator)
        elif not engine.ready:
            engine.check_process()
            engine.uri = uri
            engine.reopen()
        return engine


def close_engines() -> None:
    """Close all engines, including those that kept plans have reopened."""
    with ExitStack() as stack:  # Close all, even if one fails or an interrupt comes.
        for engine in tuple(_engines.values()):
            stack.callback(engine.close)


@atexit.register
def _at_exit() -> None:
    """Release XRT's objects before the interpreter ends, except those in use."""
    forked = any(engine.forked for engine in _engines.values())
    try:
        close_engines()
    finally:
        keep_forever(poll=not forked)


def _leave_to_parent() -> None:
    """Disable the engines in a forked process. XRT does not work there, and a release would affect the parent."""
    for engine in _engines.values():
        engine.forked = True
        engine.ready = False
        objects = [engine, *(list(context.runs) for context in engine.contexts if isinstance(context, XrtContext))]
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(objects))  # Never freed, not even at exit.


in_child(_leave_to_parent)
