"""Calls in a process of their own: code that hangs or crashes there is reported, and nothing else ends.

answers = run_apart([partial(pow, 2, 3)], seconds=10)
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any, NamedTuple

from npu_tensor.errors import NpuTensorError

_is_apart = False


class Failure(NamedTuple):
    """Answer of a call that raised, crashed or did not end."""

    reason: str


def run_apart(calls: Sequence[Callable[[], Any]], seconds: float) -> list[Any]:
    """Return the results of calls that can be pickled, made one after another, with a `Failure` in place of errors.

    After a crash, or at the end of the time, the remaining calls fail too.
    """
    if not calls:
        return []
    if _is_apart:
        return [_answer(call) for call in calls]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = subprocess.Popen(
        [sys.executable, "-c", f"from {__name__} import serve; serve()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
    )  # fmt: skip
    try:
        output, _ = process.communicate(pickle.dumps(calls), seconds)
        code = process.returncode
        reason = f"the code crashed ({signal.Signals(-code).name})" if code < 0 else f"its process ended with {code}"
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        reason = f"the code did not end within {seconds:g} s: is there an endless loop?"
    answers: list[Any] = []
    stream = BytesIO(output)
    while len(answers) < len(calls):
        try:
            answers.append(pickle.load(stream))
        except (EOFError, pickle.UnpicklingError):
            rest = len(calls) - len(answers) - 1
            answers += [Failure(reason), *[Failure("not tried, because an earlier one failed")] * rest]
    return answers


def serve() -> None:
    """Answer the calls of `run_apart` on the standard streams."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # What the code prints must not get among the answers.
    global _is_apart
    _is_apart = True
    for call in pickle.load(sys.stdin.buffer):
        pickle.dump(_answer(call), answers)
        answers.flush()


def _answer(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except NpuTensorError as error:
        return Failure(str(error))
    except Exception as error:
        return Failure(f"{type(error).__name__}: {error}")
