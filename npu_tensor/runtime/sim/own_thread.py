"""A thread that an object has for itself."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

__all__ = ["OwnThread"]

T = TypeVar("T")
_Calls = SimpleQueue[Callable[[], object] | None]


class OwnThread:
    """Calls functions one after another. The thread ends when nobody refers to this any more."""

    def __init__(self, name: str) -> None:
        self._calls: _Calls = SimpleQueue()
        threading.Thread(target=_serve, args=(self._calls,), name=name, daemon=True).start()
        weakref.finalize(self, self._calls.put, None)

    def post(self, function: Callable[[], object]) -> None:
        """Call a function, which must not raise, some time. Safe in finalizers: it takes no lock of Python."""
        self._calls.put(function)

    def call(self, function: Callable[[], T]) -> T:
        """Call a function and wait for what it returns or raises."""
        future: Future[T] = Future()

        def run() -> None:
            try:
                result = function()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self._calls.put(partial(copy_context().run, run))
        return future.result()


def _serve(calls: _Calls) -> None:
    call = calls.get()
    while call is not None:
        call()
        call = None  # What it refers to must not live until the next one comes.
        call = calls.get()
