"""What Ctrl-C must not leave half done: imports in the middle of a computation, and the work of LLVM.

    import_whole("networkx")
    import networkx as nx

    @uninterrupted
    def compile(text): ...

What an interrupt ends while it is imported Python forgets, but not the modules that it had imported by then, and many
packages cannot be imported a second time beside these: NumPy's compiled part is loaded once per process, networkx finds
its functions registered already and its submodules without their parent, and so does asyncio, which filelock imports.
llvmlite, interrupted between two steps, leaves LLVM locked or frees memory twice, which ends the process.
"""

from __future__ import annotations

import _imp
import _thread
import contextvars
import functools
import importlib
import sys
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["import_whole", "uninterrupted"]

P = ParamSpec("P")
R = TypeVar("R")


def uninterrupted(function: Callable[P, R]) -> Callable[P, R]:
    """The function, run to its end even if Ctrl-C, or any other signal whose handler raises, comes meanwhile.

    Such an exception is raised when the function has ended. It runs in a thread of its own, where Python handles no
    signals; starting that takes some 50 us. Its warnings would not find the user's line.
    """

    @functools.wraps(function)
    def run(*arguments: P.args, **named: P.kwargs) -> R:
        # Another thread would wait forever for an import lock that this one holds, and would never run once the
        # interpreter is shutting down.
        in_main = threading.current_thread() is threading.main_thread()
        if not in_main or _imp.lock_held() or sys.is_finalizing():
            return function(*arguments, **named)
        results: list[R] = []
        errors: list[BaseException] = []
        ended = _thread.allocate_lock()
        ended.acquire()

        def call() -> None:
            try:
                results.append(function(*arguments, **named))
            except BaseException as error:
                errors.append(error)
            finally:
                ended.release()

        interrupt: BaseException | None = None
        try:
            _thread.start_new_thread(contextvars.copy_context().run, (call,))
        except RuntimeError:  # There can be no more threads.
            return function(*arguments, **named)
        except BaseException as error:  # Signals are looked for when the thread has been started.
            interrupt = error
        while not (results or errors):
            try:
                ended.acquire()
            except BaseException as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt
        if errors:
            raise errors[0]
        return results[0]

    return run


def import_whole(*names: str) -> None:
    """Import modules completely even if Ctrl-C comes meanwhile. Raises what an import raises."""
    if any(name not in sys.modules for name in names):
        _import(names)


@uninterrupted
def _import(names: tuple[str, ...]) -> None:
    for name in names:
        importlib.import_module(name)
