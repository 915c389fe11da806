"""Locks, and what else must be put right in a forked process, which has only the thread that forked.

    lock = new_lock()                   # nobody holds it in a forked process, unless the thread that forked does
    held_at_fork(other)                 # a fork waits for whoever holds it

The first is for data that is whole at every moment. Where a block must not be cut short, as in LLVM, the lock is held
while the process forks. `locks_are_free` asks both kinds. `cached_property` is the standard library's without a lock of
its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

__all__ = ["all_locks", "cached_property", "held_at_fork", "in_child", "locks_are_free", "new_lock"]

_register: Final[Callable[..., None]] = getattr(os, "register_at_fork", lambda **hooks: None)

_locks: Final[WeakValueDictionary[int, threading.RLock]] = WeakValueDictionary()

_locks_of_builds: Final[WeakValueDictionary[int, threading.RLock]] = WeakValueDictionary()

_locks_held_at_fork: Final[list[threading.Lock | threading.RLock]] = []


if TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property:
        """An attribute that is computed when it is first read.

        Before Python 3.12 that of `functools` holds a lock meanwhile, one for all instances, and nobody can release it
        in a forked process. Here two threads may compute the value; both get the one that was ready first.
        """

        def __init__(self, function: Callable[[object], object]) -> None:
            self._function = function
            self.__doc__ = function.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: object, owner: type | None = None) -> object:
            if instance is None:
                return self
            return instance.__dict__.setdefault(self._name, self._function(instance))


def in_child(function: Callable[[], object]) -> None:
    """Call a function in every process that is forked. It is kept for ever: not one for each of many objects."""
    _register(after_in_child=function)


def held_at_fork(lock: threading.Lock | threading.RLock) -> None:
    """Let the thread that forks hold a lock meanwhile, and release it in both processes. The lock is kept for ever.

    Of several locks the one that was given last is taken first, so a lock that is taken inside of another one must be
    given before it.
    """
    _locks_held_at_fork.append(lock)
    _register(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def new_lock(*, of_builds: bool = False) -> threading.RLock:
    """A reentrant lock that a thread which does not exist in a forked process does not hold there.

    of_builds: whether it is held while other programs compile, so that `locks_are_free` does not ask it.
    """
    # An RLock itself and not a class that has one: an interrupt in a Python function that `with` calls would leave it
    # locked.
    lock = threading.RLock()
    (_locks_of_builds if of_builds else _locks)[id(lock)] = lock
    return lock


def all_locks() -> list[threading.Lock | threading.RLock]:
    """The locks of both kinds, but for those of builds."""
    # In one step, as other threads make locks meanwhile.
    return [*_locks_held_at_fork, *(lock for reference in _locks.valuerefs() if (lock := reference()) is not None)]


def locks_are_free() -> bool:
    """Whether no thread holds a lock at this moment. It takes none, so that it neither waits nor is in the way."""
    # RLock.locked is new in Python 3.14; its text says the same in all versions.
    return not any(repr(lock).startswith("<locked") for lock in all_locks())


def _renew() -> None:
    for lock in (*_locks.values(), *_locks_of_builds.values()):
        if lock.acquire(blocking=False):  # Free, or held by this thread.
            lock.release()
        else:
            lock._at_fork_reinit()  # type: ignore[attr-defined]  # As Python's own modules do with theirs.


in_child(_renew)
