"""Calls in another process: code that hangs or crashes there is reported, and nothing else ends.

answers = run_apart([partial(pow, 2, 3)], seconds=10)
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Timer
from time import monotonic
from typing import Any, Final, NamedTuple

from npu_tensor._util.forks import in_child, new_lock
from npu_tensor.errors import BuildError, NpuTensorError

_is_apart = False


class Failure(NamedTuple):
    """Answer of a call that raised, crashed or did not end. ran: False if the code did not even compile."""

    reason: str
    ran: bool = True


class _Idle(NamedTuple):
    """Process in which no code has failed. It waits for more calls, because importing the package takes a second."""

    process: subprocess.Popen[bytes]
    environment: dict[str, str]


_idle: Final[list[_Idle]] = []
_lock: Final = new_lock()
in_child(_idle.clear)


def run_apart(calls: Sequence[Callable[[], Any]], seconds: float) -> list[Any]:
    """Return the results of calls that can be pickled, made one after another, with a `Failure` in place of errors.

    After a crash, or at the end of the time, the remaining calls fail too.
    """
    if not calls:
        return []
    if _is_apart:
        return [_answer(call) for call in calls]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = _started(environment)
    assert process.stdin
    assert process.stdout
    end = monotonic() + seconds
    timer = Timer(seconds, process.kill)
    timer.start()
    answers: list[Any] = []
    try:
        process.stdin.write(pickle.dumps(calls))
        process.stdin.flush()
        while len(answers) < len(calls):
            answers.append(pickle.load(process.stdout))
    except (EOFError, OSError, pickle.UnpicklingError):
        code = process.wait()
        if monotonic() >= end:
            reason = f"the code did not end within {seconds:g} s: is there an endless loop?"
        else:
            reason = (
                f"the code crashed ({signal.Signals(-code).name})" if code < 0 else f"its process ended with {code}"
            )
        rest = len(calls) - len(answers) - 1
        answers += [Failure(reason), *[Failure("not tried, because an earlier one failed")] * rest]
    finally:
        timer.cancel()
        if len(answers) < len(calls) or any(isinstance(answer, Failure) and answer.ran for answer in answers):
            _end(process)
        else:
            _idle.append(_Idle(process, environment))
    return answers


def _started(environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Return an idle process with this environment, or start one."""
    with _lock:
        while _idle:
            process, its_environment = _idle.pop()
            if its_environment == environment and process.poll() is None:
                return process
            _end(process)
    return subprocess.Popen(
        [sys.executable, "-c", f"from {__name__} import serve; serve()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
    )  # fmt: skip


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    with process:  # Close the pipes and wait.
        pass


@atexit.register
def _end_all() -> None:
    while _idle:
        _end(_idle.pop().process)


def serve() -> None:
    """Answer the calls of `run_apart` on the standard streams."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # What the code prints must not get among the answers.
    global _is_apart
    _is_apart = True
    with suppress(EOFError):
        while True:
            for call in pickle.load(sys.stdin.buffer):
                pickle.dump(_answer(call), answers)
                answers.flush()


def _answer(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except NpuTensorError as error:
        return Failure(str(error), not isinstance(error, BuildError))
    except Exception as error:
        return Failure(f"{type(error).__name__}: {error}")
