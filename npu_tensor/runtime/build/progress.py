"""Progress bar of long builds.

    with building("add-1024bf16-1024bf16-1024bf16"):
        compile()

It appears two seconds after the first build began, on a terminal or in a notebook with ipywidgets.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Final

from npu_tensor._util.forks import new_lock

PATIENCE: Final = 2.0
"""Seconds from the start of a build until the bar appears."""


class _Builds:
    """Running builds of this process, and their progress bar."""

    def __init__(self) -> None:
        self._lock = new_lock()
        self._running: list[str] = []
        self._total = 0
        self._timer: threading.Timer | None = None
        self._bar: Any = None

    def begin(self, name: str) -> None:
        with self._lock:
            self._running.append(name)
            self._total += 1
            if self._timer is None:
                self._timer = threading.Timer(PATIENCE, self._show)
                self._timer.daemon = True
                self._timer.start()
            self._update()

    def end(self, name: str) -> None:
        with self._lock:
            self._running.remove(name)
            self._update()
            if not self._running:
                self._stop()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._bar is not None:
            self._bar.stop()
        self._timer, self._bar, self._total = None, None, 0

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        if _in_notebook() and find_spec("ipywidgets") is None:
            return  # rich needs it there
        console = Console(file=None if _in_notebook() else sys.stderr)
        if not (console.is_terminal or console.is_jupyter):
            return
        columns = (TextColumn("building kernels"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        bar = Progress(*columns, TextColumn("{task.description}"), console=console, transient=True)
        with self._lock:
            if self._running and self._bar is None:
                self._bar = bar
                bar.add_task("", total=self._total)
                bar.start()
                self._update()

    def _update(self) -> None:
        if self._bar is not None and self._running:
            shown = self._running[0] if len(self._running) == 1 else f"{len(self._running)} at once"
            completed = self._total - len(self._running)
            self._bar.update(self._bar.task_ids[0], total=self._total, completed=completed, description=shown)


def _in_notebook() -> bool:
    return "ipykernel" in sys.modules


_builds: Final = _Builds()


@contextmanager
def building(name: str) -> Iterator[None]:
    """Show the block as a build of a kernel."""
    _builds.begin(name)
    try:
        yield
    finally:
        _builds.end(name)
