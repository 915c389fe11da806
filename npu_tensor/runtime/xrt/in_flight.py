"""What XRT still uses for launches that nobody waits for any more.

XRT ends the process when a run is dropped that was started and was not seen to have ended, and the NPU may write into
its buffers until then. All functions are called with the lock of the NPUs.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

from npu_tensor.runtime.xrt.launches import PENDING, Batch

__all__ = ["keep", "keep_batch", "keep_for_ever"]

_kept: Final[list[tuple[Any, ...]]] = []
"""The run first; None where a list of runs was handed over without one behind it, whose state would tell."""


def keep(run: Any, *used: Any) -> None:
    """Hold a run that was given up, and what it uses, until it has ended."""
    _kept.append((run, *used))
    _release()


def keep_batch(batch: Batch) -> None:
    """The same for a batch, if it was submitted."""
    if batch.tail is not None or batch.runlist is not None:
        bounds = [bound for launch in batch.launches for bound in (launch.site.listed, launch.site.tail)]
        buffers = [launch.leases for launch in batch.launches]
        keep(batch.tail, batch.runlist, buffers, [bound.instructions for bound in bounds])


def keep_for_ever() -> None:
    """Hold what has not ended beyond the end of the interpreter."""
    _release()
    for entry in _kept:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(entry))


def _release() -> None:
    _kept[:] = [entry for entry in _kept if _is_running(entry[0])]


def _is_running(run: Any) -> bool:
    if run is None:
        return True
    try:
        return int(run.state()) in PENDING
    except RuntimeError:
        return True
