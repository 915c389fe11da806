"""Launches as XRT has them: run objects that were started, and what XRT still uses of those that nobody waits for.

Launches are started one by one, or, where a probe saw that this driver can, all but the last as a runlist and the last
by itself. Some firmware rejects runlists of two and more (iree-amd-aie#1404). Asking the last one for its state, unlike
XRT's waiting for a runlist, does not keep other Python threads from running.

XRT ends the process when a run is dropped that was started and was not seen to have ended, and the NPU may write into
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

__all__ = ["RunObject", "XrtSubmission", "keep_for_ever", "release"]

NEW: Final = 1
COMPLETED: Final = 4
PENDING: Final = frozenset({1, 2, 3, 7})
"""Values of XRT's ert_cmd_state: new, queued, running (which pyxrt has no name for), submitted."""

_STATE: Final = re.compile(r"ERT_CMD_STATE_([A-Z]+)")


@dataclass(eq=False, slots=True)
class RunObject:
    """One of XRT's run objects, and what its arguments are set to.

    run: None after the context is gone.
    words: of the runtime parameters in its instructions.
    """

    run: Any = None
    arguments: list[ref[XrtMemory] | None] = field(default_factory=list)
    instructions: XrtMemory | None = None
    words: Sequence[int] | None = None


class XrtSubmission:
    """See `driver.Submission`. chained: the launches that become a runlist, before those that are started singly."""

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
        """Notes of what is started are made before it is: an interrupt may come between any two lines."""
        try:
            if self._chained:
                self._runlist = self._context.runlist(self._chained)
                try:
                    self._runlist.execute()
                except RuntimeError:
                    self._runlist = None  # Nothing of it was submitted: it is one chain.
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
            return self._started  # It was seen before; an interrupt came then.
        if self._state in PENDING:
            try:
                self._state = int(runs[-1].state())
            except RuntimeError as error:
                raise driver_error(error) from None
        return self._state not in PENDING

    def wait(self, seconds: float) -> None:
        """XRT has no wait that other threads of Python could use."""
        time.sleep(seconds)

    def check(self) -> None:
        """See `driver.Submission`."""
        try:
            for run in self._runs:
                state = run.state()
                if int(state) != COMPLETED:
                    raise DriverError(f"the launch ended in state {str(state).rpartition('STATE_')[2]}")
            if self._runlist is not None:
                self._runlist.wait()  # Returns at once. pyxrt cannot take the time limit that it says it takes.
        except RuntimeError as error:
            if named := _STATE.search(str(error)):
                raise DriverError(f"the launch ended in state {named[1]}") from None
            raise driver_error(error) from None
        self._forget()

    def _forget(self) -> None:
        """Let go of XRT's objects, which keep a context alive: who waits may still have this."""
        self._runs, self._runlist = [], None

    def observed(self, number: int) -> Sequence[Any]:
        """XRT says nothing of what happened on the array."""
        return ()

    def abandon(self, *used: object) -> None:
        """Hold what was started, and what it uses, until it has ended. Called before the context is closed."""
        if not self._runs and self._runlist is None:
            return
        run_objects = [*self._chained, *self._single]
        self._used = (*used, [run_object.instructions for run_object in run_objects])
        if not self._runs:
            # A list of runs cannot be asked for its state: the run behind it is its fence, also if XRT refused it.
            self._runs = [self._single[-1].run]
        if not self._started:
            with suppress(RuntimeError):
                self._runs[-1].start()  # Its state is that of its last start, which may have been for an earlier list.
        _unended.append(self)
        release()

    def has_ended(self) -> bool:
        """Whether XRT uses nothing of an abandoned one any more."""
        if not self._runs:
            return True
        *earlier, last = self._runs
        try:
            if int(last.state()) in PENDING:
                if not self._started:  # It may not have been, as long as its state does not tell.
                    last.start()  # Raises RuntimeError if it is under way.
                return False
            if any(int(run.state()) in PENDING for run in earlier):  # Each must have been asked before it is dropped.
                return False
        except RuntimeError:
            return False
        if self._runlist is not None:
            with suppress(RuntimeError):
                self._runlist.wait()  # Returns at once; XRT complains of a list that is dropped before.
        self._forget()
        return True


_unended: Final[list[XrtSubmission]] = []
"""Those that nobody waits for and that were not seen to have ended."""


def release() -> None:
    """Let go of what has ended, and with it of its context."""
    _unended[:] = [submission for submission in _unended if not submission.has_ended()]


def keep_for_ever(ask: bool = True) -> None:
    """Hold what has not ended beyond the end of the interpreter. ask: whether XRT may be asked what has."""
    if ask:
        release()
    for submission in _unended:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(submission))
