"""Programs in processes of their own, work in other threads and forked processes, interrupts, the events of a block."""

import dis
import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
from paths import ROOT

from npu_tensor import events
from npu_tensor.runtime.sim import host_compiler

needs_compiler = pytest.mark.skipif(host_compiler.reason() is not None, reason=str(host_compiler.reason()))
"""Mark of tests that need a compiler for the simulated NPUs."""


def python(
    *arguments: object, cwd: Path = ROOT, exit_code: int | None = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run Python and check its exit code; None allows any code."""
    command = [sys.executable, *map(str, arguments)]
    search_path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": search_path, **environment}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=3600)
    assert exit_code is None or done.returncode == exit_code, done.stdout + done.stderr
    return done


def in_thread(function: Callable[[], Any]) -> Any:
    """Return the result of a function in another thread. A hanging thread is an error and does not block the tests."""
    returned: list[Any] = []
    thread = threading.Thread(target=lambda: returned.append(function()), daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive(), "it waits"
    return returned[0]


def in_threads(*functions: Callable[[], object]) -> None:
    """Run functions at once."""
    threads = [threading.Thread(target=function) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def in_child(function: Callable[[], Any]) -> Any:
    """Return the result of a function in a forked process; raise AssertionError with its traceback if it fails."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads
        child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(60)  # ends a child that waits for a thread that it does not have
            try:
                answer = pickle.dumps((True, function()))
            except BaseException:
                answer = pickle.dumps((False, traceback.format_exc()))
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(answer)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, f"the forked process ends with {status}"
    returned, value = pickle.loads(answer)
    assert returned, value
    return value


class Interrupter:
    """Raises KeyboardInterrupt at the place of this number in watched functions, or counts places if that is 0.

    A place is where CPython looks for signals. watches: whether a function is watched.
    """

    CHECKING = ("CALL", "RESUME", "JUMP_BACKWARD")
    """Instructions at whose end CPython checks for signals."""

    def __init__(self, watches: Callable[[CodeType], bool], number: int = 0) -> None:
        self.watches = watches
        self.number = number
        self.count = 0
        self._before: dict[FrameType, str] = {}

    def __enter__(self) -> "Interrupter":
        sys.settrace(self._enter)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        self._before.clear()

    def _enter(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if not self.watches(code):
            return None
        frame.f_trace_opcodes = True
        return self._step

    def _step(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "return":
            self._before.pop(frame, None)
        if event == "exception":
            self._before[frame] = ""  # Python does not check for signals on the way to a handler.
        if event != "opcode":
            return self._step
        before = self._before.get(frame, "")
        self._before[frame] = _names(frame.f_code).get(frame.f_lasti, "")
        if before.startswith(self.CHECKING):
            self.count += 1
            if self.count == self.number:
                raise KeyboardInterrupt
        return self._step


@cache
def _names(code: CodeType) -> dict[int, str]:
    """Return the names of the instructions of a function, by offset."""
    return {instruction.offset: instruction.opname for instruction in dis.get_instructions(code)}


@contextmanager
def heard(*kinds: type[events.Event]) -> Iterator[list[Any]]:
    """The events of the block, or those of these kinds."""
    seen: list[Any] = []
    with events.listen(lambda event: seen.append(event) if isinstance(event, kinds or events.Event) else None):
        yield seen
