"""Protection from Ctrl-C of imports and of calls to LLVM.

    import_whole("networkx")
    import networkx as nx

    @uninterrupted
    def compile(text): ...

An interrupted import discards the module but keeps its submodules, and many packages cannot be imported again beside
these: NumPy loads its compiled part once per process, and networkx finds its functions already registered. llvmlite,
interrupted between two calls, leaves LLVM locked or frees memory twice, which ends the process.
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

P = ParamSpec("P")
R = TypeVar("R")


def uninterrupted(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function finish before Ctrl-C, or another signal whose handler raises, takes effect.

    The function runs in a thread of its own, where Python handles no signals. Starting it takes about 50 us. Warnings
    from there do not point to the user's line.
    """

    @functools.wraps(function)
    def run(*arguments: P.args, **named: P.kwargs) -> R:
        # Another thread would wait forever for an import lock of this one, and does not start at shutdown.
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
        except BaseException as error:  # Signals are handled after the thread has started.
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
    """Import modules completely, even if Ctrl-C comes meanwhile."""
    if any(name not in sys.modules for name in names):
        _import(names)


@uninterrupted
def _import(names: tuple[str, ...]) -> None:
    for name in names:
        importlib.import_module(name)
