"""Runs a compiler: in a process group of its own, with a time limit, its output in a log.

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
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from npu_tensor.config import config
from npu_tensor.errors import BuildError

__all__ = ["end_all", "run"]

SHOWN_CHARACTERS: Final = 6000
"""Of a log that becomes part of an error's message: its end, where compilers say what failed."""

_ACCIDENT: Final = re.compile(
    "|".join([*map(os.strerror, (errno.ENOMEM, errno.ENOSPC, errno.EDQUOT)), r"\bKilled\b", r"\bTerminated signal\b"])
    + r"|\bSIGKILL\b|[Oo]ut of memory\b|memory exhausted|\bbad_alloc\b|\bMemoryError\b"
)
"""What compilers say if they lack memory or disk, or if a signal that is none of their errors ended one of them: gcc,
as its driver, "Killed signal terminated program cc1plus", clang "unable to execute command: Killed"."""

_running: Final[set[subprocess.Popen[bytes]]] = set()
if hasattr(os, "register_at_fork"):  # They are the parent's to end.
    os.register_at_fork(after_in_child=_running.clear)


def end_all() -> None:
    """End all commands that run; whoever waits for one gets a BuildError that is transient."""
    for process in tuple(_running):
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    # A compiler driver starts others, which would go on without it.
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)


def run(
    command: Sequence[str],
    directory: Path,
    log: Path,
    seconds: float,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run `command` in `directory`, adding its output to `log`. environment: what differs from this process's.

    Raises BuildError with the end of the log if the command fails, and ends it with all of its children if it takes
    longer than `seconds`. The error is `transient` if time, memory or disk did not suffice, or if a signal ended it.
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
        _running.add(process)
        try:
            code = process.wait(seconds)
        except BaseException as error:
            _end(process)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                limit = f"{command[0]} was ended after {seconds:g} s (NPU_TENSOR_BUILD_SECONDS sets the limit)"
                failed = BuildError(f"{limit}\n{_tail(log, before)}".rstrip())
                failed.transient = True
                raise failed from None
            raise
        finally:
            _running.discard(process)
    if config.jit_verbose:
        print(f"$ {shlex.join(command)}\n{_tail(log, before)}{time.perf_counter() - start:.2f} s", file=sys.stderr)
    if code:
        said = _tail(log, before).rstrip()
        failed = BuildError(said or f"{shlex.join(command)} failed with exit code {code}")
        failed.transient = code < 0 or _ACCIDENT.search(said) is not None
        raise failed


def _tail(log: Path, start: int) -> str:
    """The last of what was written to a log since `start`."""
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(start, size - SHOWN_CHARACTERS))
        return file.read().decode(errors="replace")
