"""Programs in processes of their own, work in other threads, the events of a block."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from paths import ROOT

from npu_tensor import events
from npu_tensor.runtime.sim import host_compiler

needs_compiler = pytest.mark.skipif(host_compiler.reason() is not None, reason=str(host_compiler.reason()))
"""Of tests that need a compiler for the simulated NPUs."""


def python(
    *arguments: object, cwd: Path = ROOT, exit_code: int | None = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run Python. exit_code: what it must be; None if anything is allowed."""
    command = [sys.executable, *map(str, arguments)]
    search_path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": search_path, **environment}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=3600)
    assert exit_code is None or done.returncode == exit_code, done.stdout + done.stderr
    return done


def in_thread(function: Callable[[], Any]) -> Any:
    """What a function returns in another thread. That it never returns is an error, and stops nothing."""
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


@contextmanager
def heard(*kinds: type[events.Event]) -> Iterator[list[Any]]:
    """The events of the block, or those of these kinds."""
    seen: list[Any] = []
    with events.listen(lambda event: seen.append(event) if isinstance(event, kinds or events.Event) else None):
        yield seen
