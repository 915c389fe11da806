"""What XRT still uses for launches that nobody waits for any more.

XRT ends the process when a run is dropped that was started and was not seen to have ended, and the NPU may write into
its buffers until then. All functions are called with the lock of the NPUs.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Any, Final, NamedTuple

from npu_tensor.runtime.xrt.launches import PENDING, LaunchBatch

__all__ = ["keep", "keep_batch", "keep_for_ever", "release"]


class _Unended(NamedTuple):
    """A run that was started and not seen to have ended.

    earlier: runs that were started in front of it. runlist: the list of runs in front of it, or None.
    fence: whether it may not have been started, and is started again as long as its state does not tell.
    used: what must live until it has ended.
    """

    run: Any
    earlier: list[Any]
    runlist: Any
    fence: bool
    used: tuple[Any, ...]


_unended: Final[list[_Unended]] = []


def keep(run: Any, *used: Any) -> None:
    """Hold a run that was given up, and what it uses, until it has ended."""
    _unended.append(_Unended(run, [], None, False, used))
    release()


def keep_batch(batch: LaunchBatch) -> None:
    """The same for a batch, if it was submitted. Called before its context is closed."""
    if batch.runs or batch.runlist is not None:
        steps = [launch.step for launch in batch.launches]
        used = (
            [launch.leases for launch in batch.launches],
            [(step.chained_run.instructions, step.single_run.instructions) for step in steps],
        )
        # A list of runs cannot be asked for its state: the run behind it is its fence, also if XRT refused it before.
        run = batch.runs[-1] if batch.runs else steps[-1].single_run.run
        fence = batch.phase == "submitting"
        if fence:
            with suppress(RuntimeError):
                run.start()  # Its state is that of its last start, which may have been for an earlier list.
        _unended.append(_Unended(run, batch.runs[:-1], batch.runlist, fence, used))
        release()


def keep_for_ever(ask: bool = True) -> None:
    """Hold what has not ended beyond the end of the interpreter. ask: whether XRT may be asked what has."""
    if ask:
        release()
    for entry in _unended:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(entry))


def release() -> None:
    """Let go of what has ended, and with it of its context."""
    _unended[:] = [entry for entry in _unended if not _has_ended(entry)]


def _has_ended(entry: _Unended) -> bool:
    try:
        if int(entry.run.state()) in PENDING:
            if entry.fence:
                entry.run.start()  # Raises RuntimeError if it is under way.
            return False
        if any(int(run.state()) in PENDING for run in entry.earlier):  # Each must have been asked before it is dropped.
            return False
    except RuntimeError:
        return False
    if entry.runlist is not None:
        with suppress(RuntimeError):
            entry.runlist.wait()  # Returns at once; XRT complains of a list that is dropped before.
    return True
