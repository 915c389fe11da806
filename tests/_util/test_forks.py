"""Locks in forked processes, which have only the thread that forked."""

import os
import re
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
import pytest
from running import in_child

import npu_tensor as nt
from npu_tensor._util.forks import locks_are_free, new_lock
from npu_tensor.planner import selection
from npu_tensor.runtime import memory
from npu_tensor.runtime.cpu import engine as compiler
from npu_tensor.runtime.npu import npu_engine

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork"),
    pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning"),
]
SECONDS = 60
PACKAGE = Path(nt.__file__).parent


def run_in_child(use: Callable[[], object]) -> None:
    """Call a function in a forked process."""

    def call() -> None:
        use()

    in_child(call)


def test_a_lock_of_another_thread_is_free_in_the_child() -> None:
    lock = new_lock()
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock, npu_engine.lock, selection.lock:
            held.set()
            done.wait(SECONDS)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert held.wait(SECONDS)
        assert not locks_are_free()

        def use() -> None:
            assert locks_are_free()
            assert (nt.ones(3) * 2 + 1).tolist() == [3, 3, 3]

        run_in_child(use)
    finally:
        done.set()
        thread.join()
    assert locks_are_free()


@pytest.mark.parametrize("lock", [compiler._lock, memory._lock], ids=["compiler", "memory"])
def test_a_fork_waits_for_a_lock_that_is_held_at_forks(lock: AbstractContextManager[bool]) -> None:
    held = threading.Event()
    done: list[str] = []

    def hold() -> None:
        with lock:
            held.set()
            time.sleep(0.1)
            done.append("all of it")

    def use() -> None:
        assert done == ["all of it"]
        big = nt.ones(1 << 20)
        assert (big.cos() * 3).sum().item() == pytest.approx(3 * np.cos(1.0) * (1 << 20), rel=1e-4)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(SECONDS)
    run_in_child(use)
    thread.join()
    use()


OWN = {
    "graph.aliasing": "held at a fork",
    "_util.forks": "creates the other locks",
    "runtime.store.background": "Builds.start_anew creates a new one in a child",
    "runtime.cpu.engine": "held at a fork",
    "runtime.memory": "held at a fork",
}
"""Modules with objects of `threading` that a thread may hold at a fork, and the reason why they are safe."""


def test_all_locks_are_made_for_forks() -> None:
    primitives = "Barrier|BoundedSemaphore|Condition|Event|Lock|RLock|Semaphore"
    created = re.compile(rf"(?:threading\.|(?<![\w.]))(?:{primitives})\(\)|functools.*cached_property\b")
    sources = {".".join(path.relative_to(PACKAGE).with_suffix("").parts): path for path in PACKAGE.rglob("*.py")}
    found = {module for module, path in sources.items() if created.search(path.read_text("utf-8"))}
    assert found == set(OWN)
