"""Submissions to XRT: started run objects, and the objects that abandoned ones still use.

Runs are started one by one, and the driver's queue keeps their order. Runlists are not used because some firmware
rejects lists of two and more (iree-amd-aie#1404). Polling the state of the last run lets other Python threads run,
unlike XRT's own wait.

XRT ends the process if a run is dropped that was started and was not seen to have ended, and the NPU may write into
its buffers until then. All functions are called with the lock of the NPUs.
"""

from __future__ import annotations

import ctypes
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

COMPLETED: Final = 4
PENDING: Final = frozenset({1, 2, 3, 7})
"""Values of XRT's ert_cmd_state: new, queued, running (unnamed in pyxrt), submitted."""


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
    """See `driver.Submission`."""

    def __init__(self, context: XrtContext, run_objects: Sequence[RunObject]) -> None:
        self._context = context
        self._run_objects = run_objects
        self._runs: list[Any] = []
        self._starting = False
        self._used: tuple[object, ...] = ()

    def start(self) -> None:
        """Start the runs. Each is recorded before it is started because an interrupt may come between any two lines."""
        try:
            for run_object in self._run_objects:
                self._starting = True
                self._runs.append(run_object.run)
                try:
                    run_object.run.start()
                except RuntimeError:
                    self._runs.pop()
                    raise
                finally:
                    self._starting = False
        except (RuntimeError, MemoryError) as error:
            raise driver_error(error) from None

    def ended(self) -> bool:
        """See `driver.Submission`."""
        if not self._runs:
            return True  # The end was seen before an interrupt.
        try:
            return int(self._runs[-1].state()) not in PENDING
        except RuntimeError as error:
            raise driver_error(error) from None

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
        except RuntimeError as error:
            raise driver_error(error) from None
        self._runs = []  # They keep a context alive, and waiting threads may hold this submission.

    def observed(self, number: int) -> Sequence[Any]:
        """Return nothing: XRT provides no counters."""
        return ()

    def abandon(self, *used: object) -> None:
        """Keep started runs and their objects until they have ended. Called before the context is closed."""
        if not self._runs:
            return
        self._used = (*used, [run_object.instructions for run_object in self._run_objects])
        if self._starting:  # An interrupt came: without a start, the state is that of an earlier launch.
            with suppress(RuntimeError):
                self._runs[-1].start()
        _unended.append(self)
        release()

    def has_ended(self) -> bool:
        """Return True if XRT has finished with an abandoned submission."""
        try:  # The last one first. Each must be polled before it is dropped.
            return not any(int(run.state()) in PENDING for run in reversed(self._runs))
        except RuntimeError:
            return False


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
