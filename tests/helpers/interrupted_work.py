"""Work on an NPU that an interrupt may end anywhere, and the checks afterwards.

    with ready(npu, engines, wait_for_driver) as work:
        interrupt_everywhere(work, "the second launch fails", in_runtime)

`npu` is a simulated one with a driver that fails on request, or the machine of the stand-in for pyxrt. `engines`
returns the engines of the NPU. `wait_for_driver` lets the driver end abandoned launches.
"""

import gc
import os
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any, Final
from unittest.mock import patch

import numpy as np
from npu_faults import Fault
from npu_values import BF16, normal
from running import Interrupter

import npu_tensor as nt
from npu_tensor.errors import LaunchError
from npu_tensor.planner import selection
from npu_tensor.runtime.npu import npu_engine
from npu_tensor.runtime.npu.contexts import MOST_CONTEXTS
from npu_tensor.runtime.npu.npu_engine import NpuEngine

ALL: Final = os.environ.get("NPU_TENSOR_TEST_ALL") == "1"
PLACES: Final = 100_000 if ALL else 40
"""Interrupted places per kind of work, out of some hundred."""

Engines = Callable[[], Iterable[NpuEngine]]
Watches = Callable[[CodeType], bool]


class Work:
    """Two kernels, each in a context of its own, on operands of which one is new; and a value from before."""

    def __init__(self, npu: Any, engines: Engines, wait_for_driver: Callable[[], None]) -> None:
        self.npu, self.engines, self.wait_for_driver = npu, engines, wait_for_driver
        self.number = 1
        self.start()

    def start(self) -> None:
        """With values that a lost device has not taken along."""
        self.right = normal(16, 32)
        self.order = np.random.default_rng(5).permutation(16).astype(np.int32)
        self.x, self.at = nt.from_numpy(self.right), nt.from_numpy(self.order)
        self.begin()
        for _ in range(3):
            self.run()
        self.check()

    def begin(self) -> None:
        """Ask for a value that is under way when the interrupt comes."""
        for engine in self.engines():
            engine.health.recovered()  # Do not wait for the rest of a device after a fault.
            for program in engine.programs.values():
                program.faults, program.refused = 0, ""
        self.before = self.x.index_select(0, self.at).realize(wait=False)

    def run(self) -> None:
        """Raises AssertionError for a wrong result."""
        self.number = self.number % 3 + 1
        own = np.full((16, 32), self.number, BF16)
        joined = nt.cat([self.x, nt.from_numpy(own)]).realize(wait=False)
        picked = self.x.index_select(0, self.at).realize(wait=False)
        nt.synchronize()
        np.testing.assert_array_equal(picked.numpy(), self.right[self.order])
        np.testing.assert_array_equal(joined.numpy(), np.concatenate([self.right, own]))

    def check(self) -> None:
        """Assert a consistent state after an interrupt."""
        free: list[bool] = []

        def take() -> None:
            free.append(npu_engine.lock.acquire(blocking=False))
            if free[0]:
                npu_engine.lock.release()

        other = threading.Thread(target=take)
        other.start()
        other.join()
        assert free == [True], "the interrupt has left a lock behind"
        np.testing.assert_array_equal(self.before.numpy(), self.right[self.order])
        self.run()

    def used(self) -> int:
        """Return the number of memories in use."""
        self.wait_for_driver()
        gc.collect()
        for engine in self.engines():
            engine.pool.release()
        return int(self.npu.live_memories)


def _unchecked(work: Work) -> None:
    for engine in work.engines():
        for program in engine.programs.values():
            program.checked = False


def _unloaded(work: Work) -> None:
    nt.synchronize()
    for engine in work.engines():
        engine.contexts.close()


def _faulty(work: Work) -> None:
    work.before.numpy()  # The fault is for what comes next.
    work.npu.inject(Fault.ERROR, after=1)


def _refused(work: Work) -> None:
    _unloaded(work)
    work.npu.inject(Fault.CONTEXT, times=2)
    work.npu.inject(Fault.MEMORY)


def _lost(work: Work) -> None:
    work.before.numpy()  # A lost device may lose unread values.
    work.npu.inject(Fault.LOST)


PREPARE: Final[dict[str, Callable[[Work], None]]] = {
    "nothing": lambda work: None,
    "the first run of each kernel": _unchecked,
    "no context is left": _unloaded,
    "the second launch fails": _faulty,
    "the driver makes no context at first, and has no memory": _refused,
    "the device goes away, and is back when it is opened again": _lost,
}
"""Kinds of work that are interrupted."""


@contextmanager
def ready(npu: Any, engines: Engines, wait_for_driver: Callable[[], None]) -> Iterator[Work]:
    """Work that has run. Fails if something is left over at the end."""
    with warnings.catch_warnings(), patch.dict(MOST_CONTEXTS, aie2=2, aie2p=2):
        warnings.filterwarnings("ignore", "(?s).* failed on ", RuntimeWarning)
        work = Work(npu, engines, wait_for_driver)
        had = work.used()
        yield work
        work.start()
        # The latest launches of a kernel are remembered until its next one.
        assert work.used() <= had + 16, "memories leak"
        assert npu.live_contexts <= 2
        work.__dict__.clear()
    selection.reset()
    wait_for_driver()
    gc.collect()
    assert (npu.live_contexts, npu.live_memories) == (0, 0)


def interrupt_everywhere(work: Work, name: str, watches: Watches) -> None:
    """Interrupt the work at places in all watched functions, after the preparation of this name."""
    step = max(1, attempt(work, name, watches, 0) // PLACES)
    number = 1
    while attempt(work, name, watches, number) == number:
        number += step
    assert number > 20 * step, "hardly anything was watched"


def attempt(work: Work, name: str, watches: Watches, number: int) -> int:
    """Interrupt the work at a place, or not at all for 0, and check the state. Return the number of places reached."""
    work.begin()
    PREPARE[name](work)
    where: list[str] = []
    try:
        with Interrupter(watches, number) as places:
            work.run()
    except KeyboardInterrupt as interrupt:
        where = [f"{entry.name}:{entry.lineno}" for entry in traceback.extract_tb(interrupt.__traceback__)]
    except LaunchError:
        if PREPARE[name] is not _lost:
            raise
    work.npu.injected.clear()
    work.npu.plug_in()
    try:
        work.check()
    except BaseException as error:
        raise AssertionError(f"after an interrupt at place {number}, in {where}: {error}") from error
    return places.count
