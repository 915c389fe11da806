"""Submissions to XRT: started run objects, and the objects that abandoned ones still use.

Launches are started one by one. If a probe saw that the driver supports it, all but the last become a runlist and the
last is started by itself. Some firmware rejects runlists of two and more (iree-amd-aie#1404). Polling the state of the
last run lets other Python threads run, unlike XRT's wait for a runlist.

XRT ends the process if a run is dropped that was started and was not seen to have ended, and the NPU may write into
its buffers until then. All functions are called with the lock of the NPUs.
"""

from __future__ import annotations

import ctypes
import re
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from weakref import ref

from npu_tensor.runtime.npu.driver import DriverError
from npu_tensor.runtime.xrt.xrt_memory import XrtMemory, driver_error

if TYPE_CHECKING:
    from npu_tensor.runtime.xrt.xrt_context import XrtContext

__all__ = ["RunObject", "XrtSubmission", "keep_forever", "release"]

NEW: Final = 1
COMPLETED: Final = 4
PENDING: Final = frozenset({1, 2, 3, 7})
"""Values of XRT's ert_cmd_state: new, queued, running (unnamed in pyxrt), submitted."""

_STATE: Final = re.compile(r"ERT_CMD_STATE_([A-Z]+)")


@dataclass(eq=False, slots=True)
class RunObject:
    """A run object of XRT and the current values of its arguments.

    Attributes:
        run: The object; None before it is created and after the context is closed.
        words: Runtime parameters in its instructions.
    """

    run: Any = None
    arguments: list[ref[XrtMemory] | None] = field(default_factory=list)
    instructions: XrtMemory | None = None
    words: Sequence[int] | None = None


class XrtSubmission:
    """See `driver.Submission`. The `chained` runs become a runlist, and the `single` ones follow one by one."""

    def __init__(self, context: XrtContext, chained: Sequence[RunObject], single: Sequence[RunObject]) -> None:
        self._context = context
        self._chained = tuple(chained)
        self._single = single
        self._state = NEW
        self._runlist: Any = None
        self._runs: list[Any] = []
        self._started = False
        self._used: tuple[object, ...] = ()

    def start(self) -> None:
        """Start the runs. Each is recorded before it is started because an interrupt may come between any two lines."""
        try:
            if self._chained:
                self._runlist = self._context.runlist(self._chained)
                try:
                    self._runlist.execute()
                except RuntimeError:
                    self._runlist = None  # A chain is submitted as a whole or not at all.
                    raise
            for run_object in self._single:
                self._runs.append(run_object.run)
                try:
                    run_object.run.start()
                except RuntimeError:
                    self._runs.pop()
                    raise
        except (RuntimeError, MemoryError) as error:
            raise driver_error(error) from None
        self._started = True

    def ended(self) -> bool:
        """See `driver.Submission`."""
        runs = self._runs
        if not runs:
            return self._started  # The end was seen before an interrupt.
        if self._state in PENDING:
            try:
                self._state = int(runs[-1].state())
            except RuntimeError as error:
                raise driver_error(error) from None
        return self._state not in PENDING

    def wait(self, seconds: float) -> None:
        """Sleep: during XRT's own wait no other Python thread runs."""
        time.sleep(seconds)

    def check(self) -> None:
        """See `driver.Submission`."""
        try:
            for run in self._runs:
                state = run.state()
                if int(state) != COMPLETED:
                    raise DriverError(f"the launch ended in state {str(state).rpartition('STATE_')[2]}")
            if self._runlist is not None:
                self._runlist.wait()  # Returns at once. pyxrt rejects its documented time limit.
        except RuntimeError as error:
            if named := _STATE.search(str(error)):
                raise DriverError(f"the launch ended in state {named[1]}") from None
            raise driver_error(error) from None
        self._forget()

    def _forget(self) -> None:
        """Drop XRT's objects, which keep a context alive, because waiting threads may hold this submission."""
        self._runs, self._runlist = [], None

    def observed(self, number: int) -> Sequence[Any]:
        """Return nothing: XRT provides no counters."""
        return ()

    def abandon(self, *used: object) -> None:
        """Keep started runs and their objects until they have ended. Called before the context is closed."""
        if not self._runs and self._runlist is None:
            return
        run_objects = [*self._chained, *self._single]
        self._used = (*used, [run_object.instructions for run_object in run_objects])
        if not self._runs:
            # A runlist has no state to poll. The run after it is its fence, even if XRT refused it.
            self._runs = [self._single[-1].run]
        if not self._started:
            with suppress(RuntimeError):
                self._runs[-1].start()  # Its state is that of its last start, which may have been for an earlier list.
        _unended.append(self)
        release()

    def has_ended(self) -> bool:
        """Return True if XRT has finished with an abandoned submission."""
        if not self._runs:
            return True
        *earlier, last = self._runs
        try:
            if int(last.state()) in PENDING:
                if not self._started:  # Its state does not tell whether it was started.
                    last.start()  # Raises RuntimeError if it is in flight.
                return False
            if any(int(run.state()) in PENDING for run in earlier):  # Each must be polled before it is dropped.
                return False
        except RuntimeError:
            return False
        if self._runlist is not None:
            with suppress(RuntimeError):
                self._runlist.wait()  # Returns at once. XRT requires it before the list is dropped.
        self._forget()
        return True


_unended: Final[list[XrtSubmission]] = []
"""Abandoned submissions that were not seen to have ended."""


def release() -> None:
    """Drop ended submissions and thereby their contexts."""
    _unended[:] = [submission for submission in _unended if not submission.has_ended()]


def keep_forever(poll: bool = True) -> None:
    """Keep pending submissions beyond the end of the interpreter. Without `poll`, keep all abandoned ones."""
    if poll:
        release()
    for submission in _unended:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(submission))
