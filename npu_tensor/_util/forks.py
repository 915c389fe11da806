"""Locks that work in forked processes, where only the thread exists that forked.

    lock = new_lock()                   # free in a forked process, unless the thread that forked holds it
    held_at_fork(other)                 # a fork waits until this lock is free

Use `new_lock` for data that is consistent at every moment, and `held_at_fork` if a fork must not cut a block short, as
in LLVM. `cached_property` is the standard library's without a lock.
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

_locks_held_at_fork: Final[list[threading.Lock | threading.RLock]] = []


if TYPE_CHECKING:
    from functools import cached_property
else:

    class cached_property:
        """An attribute that is computed on first use.

        Before Python 3.12, `functools.cached_property` holds one lock for all instances during the computation, and no
        thread releases it in a forked process. Here two threads may compute the value; both get the first one.
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
    """Call a function in every forked process. It is kept forever, so register one per module and not per object."""
    _register(after_in_child=function)


def held_at_fork(lock: threading.Lock | threading.RLock) -> None:
    """Hold a lock during forks, and release it in both processes. The lock is kept forever.

    Locks are acquired in reverse order of registration. Register an inner lock before the outer one.
    """
    _locks_held_at_fork.append(lock)
    _register(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def new_lock() -> threading.RLock:
    """Create a reentrant lock that only the forking thread can hold in a forked process."""
    # An RLock itself: an interrupt in a Python function that `with` calls would leave a wrapped lock locked.
    lock = threading.RLock()
    _locks[id(lock)] = lock
    return lock


def all_locks() -> list[threading.Lock | threading.RLock]:
    """Return the locks of both kinds."""
    # In one step because other threads create locks meanwhile.
    return [*_locks_held_at_fork, *(lock for reference in _locks.valuerefs() if (lock := reference()) is not None)]


def locks_are_free() -> bool:
    """Return True if no other thread holds a lock at this moment. Does not wait."""
    for lock in all_locks():
        if not lock.acquire(blocking=False):
            return False
        lock.release()
    return True


def _renew() -> None:
    for lock in _locks.values():
        if lock.acquire(blocking=False):  # It is free, or this thread holds it.
            lock.release()
        else:
            lock._at_fork_reinit()  # type: ignore[attr-defined]  # The standard library does the same with its locks.


in_child(_renew)
