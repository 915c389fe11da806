"""Execution of compilers in process groups, with a time limit, and their output in a log.

Example:
    run([*compiler, "-o", "library.so", "source.cc"], directory, directory / "build.log", seconds=600)
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from pathlib import Path
from typing import Any, Final

from npu_tensor._util.affinity import available_cores
from npu_tensor.config import config
from npu_tensor.errors import BuildError

SHOWN_CHARACTERS: Final = 6000
"""Characters of the end of a log that becomes part of an error message."""

_ACCIDENT: Final = re.compile(
    "|".join(
        [
            *map(os.strerror, (errno.ENOENT, errno.ENOMEM, errno.ENOSPC, errno.EDQUOT)),
            r"\bKilled\b(?!')",
            r"\bTerminated signal\b",
        ]
    )
    + r"|\bSIGKILL\b|[Oo]ut of memory\b|memory exhausted|\bbad_alloc\b|\bMemoryError\b"
)
"""Messages of compilers that lack memory or disk, or that a signal has killed.

gcc's driver prints "Killed signal terminated program cc1plus", clang "unable to execute command: Killed".
"""

_SOURCE_LINE: Final = re.compile(r"^ *\d* \|.*$", re.MULTILINE)
"""Source lines in messages of compilers, which may contain any words."""


class ProcessGroup:
    """Group of commands that end together: those of the threads that have entered the group."""

    def __init__(self) -> None:
        self.ended = False
        self.running: set[subprocess.Popen[bytes]] = set()

    def enter(self) -> None:
        """Add later commands of this thread to the group."""
        _thread.group = self

    def end(self) -> None:
        """Kill all commands, including those about to start. Threads that wait for one get a transient BuildError."""
        self.ended = True
        for process in tuple(self.running):
            _end(process)


class _Thread(threading.local):
    def __init__(self) -> None:
        self.group = ProcessGroup()


_thread: Final = _Thread()


class _BuildThreads(ThreadPoolExecutor):
    """Executor whose threads see the settings of the context that submits."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        return super().submit(copy_context().run, function, *arguments, **named)


@contextmanager
def build_threads(jobs: int = 0) -> Iterator[ThreadPoolExecutor]:
    """Yield threads for builds, which wait for processes. An exception in the block kills the processes.

    There are as many as `jobs`, or as the process has cores if that is 0.
    """
    group = ProcessGroup()
    pool = _BuildThreads(jobs or available_cores(), "npu_tensor build", group.enter)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        group.end()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def is_cancelled() -> bool:
    """Return True if the build of this thread is cancelled."""
    return _thread.group.ended


def _end(process: subprocess.Popen[bytes]) -> None:
    # A compiler driver starts child processes, which would outlive it.
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


def run(
    command: Sequence[str],
    directory: Path,
    log: Path,
    seconds: float,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run a command, and append its output to a log. After `seconds`, the command and its children are killed.

    Raises BuildError with the end of the log if the command fails. It is transient if time, memory or disk did not
    suffice, or if a signal ended the command.
    """
    start = time.perf_counter()
    with log.open("ab") as output:
        output.write(f"$ {shlex.join(command)}\n".encode())
        output.flush()
        before = output.tell()
        try:
            process = subprocess.Popen(
                command,
                cwd=directory,
                env={**os.environ, "LC_ALL": "C", **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise BuildError(f"{command[0]} cannot be started: {error}") from None
        group = _thread.group
        group.running.add(process)
        if group.ended:
            _end(process)
        try:
            code = process.wait(seconds)
        except BaseException as error:
            _end(process)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                limit = f"{command[0]} was ended after {seconds:g} s (NPU_TENSOR_BUILD_SECONDS sets the limit)"
                raise BuildError(f"{limit}\n{_tail(log, before)}".rstrip(), transient=True) from None
            raise
        finally:
            group.running.discard(process)
    if config.debug >= 5:
        print(f"$ {shlex.join(command)}\n{_tail(log, before)}{time.perf_counter() - start:.2f} s", file=sys.stderr)
    if code:
        message = _tail(log, before).rstrip()
        transient = code < 0 or _ACCIDENT.search(_SOURCE_LINE.sub("", message)) is not None
        raise BuildError(message or f"{shlex.join(command)} failed with exit code {code}", transient=transient)


def _tail(log: Path, start: int) -> str:
    """Return the end of the text that was written to a log since `start`."""
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(start, size - SHOWN_CHARACTERS))
        return file.read().decode(errors="replace")
