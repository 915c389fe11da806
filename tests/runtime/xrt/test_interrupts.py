"""Ctrl-C while something runs on an NPU: at every place of the runtime where Python may deliver it, and at random."""

from __future__ import annotations

import gc
import os
import random
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType

import ml_dtypes
import numpy as np
import pytest
from interrupts import interrupts
from machine import Machine
from npu_faults import Fault
from running import Interrupter, needs_compiler

import npu_tensor as nt
from npu_tensor.config import config
from npu_tensor.errors import LaunchError
from npu_tensor.planner import selection
from npu_tensor.runtime.npu import npu_engine
from npu_tensor.runtime.xrt import engines, xrt_submission

pytestmark = [needs_compiler, pytest.mark.usefixtures("less_optimised")]

ALL = os.environ.get("NPU_TENSOR_TEST_ALL") == "1"
PLACES = 100_000 if ALL else 60
"""Of each kind of work; there are some hundred."""

RUNTIME = tuple(str(Path(module.__file__).parent) for module in (engines, npu_engine))


def in_runtime(code: CodeType) -> bool:
    """Not in destructors: what is raised there Python prints and forgets."""
    return code.co_filename.startswith(RUNTIME) and code.co_name != "__del__"


def test_the_interrupter_raises_once_at_each_place(machine: Machine) -> None:
    with nt.default_device("npu"):
        x = nt.from_numpy(np.ones(32, ml_dtypes.bfloat16))
        (x + x).numpy()
        with Interrupter(in_runtime) as places:
            (x + x).numpy()
        assert places.count > 50
        with pytest.raises(KeyboardInterrupt), Interrupter(in_runtime, places.count):
            (x + x).numpy()


class Work:
    """Two kernels, each in a context of its own, on operands of which one is new; and a value from before."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        generator = np.random.default_rng(0)
        self.given = generator.integers(-3, 4, (16, 32)).astype(np.float32)
        self.weight = np.eye(32, 16, dtype=np.float32)
        self.right = (self.given @ self.weight).max(-1)
        self.x, self.w = (nt.from_numpy(array.astype(ml_dtypes.bfloat16)) for array in (self.given, self.weight))
        self.number = 1
        self.before = self.x

    def begin(self) -> None:
        """Ask for a value that is under way when the interrupt comes."""
        for found in engines._engines.values():
            found.health.recovered()  # Nobody waits here until a device has had its rest after a fault.
            for program in found.programs.values():
                program.faults, program.refused = 0, ""
        self.before = (self.x + 1).realize(wait=False)

    def run(self) -> None:
        """Raises AssertionError for a wrong result."""
        self.number = self.number % 3 + 1
        new = nt.from_numpy(np.full((16, 32), self.number, ml_dtypes.bfloat16))
        doubled = nt.maximum(self.x, new).realize(wait=False)
        top = (self.x @ self.w).amax(-1).realize(wait=False)
        nt.synchronize()
        np.testing.assert_array_equal(top.numpy(), self.right)
        np.testing.assert_array_equal(doubled.numpy(), np.maximum(self.given, self.number))

    def check(self) -> None:
        """Whether all is well after an interrupt."""
        free: list[bool] = []

        def take() -> None:
            free.append(npu_engine.lock.acquire(blocking=False))
            if free[0]:
                npu_engine.lock.release()

        other = threading.Thread(target=take)
        other.start()
        other.join()
        assert free == [True], "the interrupt has left a lock behind"
        np.testing.assert_array_equal(self.before.numpy(), self.given + 1)
        self.run()
        assert not self.machine.crashes


Fixture = Callable[[Machine], None]


def nothing(machine: Machine) -> None:
    """All kernels are known and loaded."""


def unchecked(machine: Machine) -> None:
    """The first run of each kernel."""
    for found in engines._engines.values():
        for program in found.programs.values():
            program.checked = False


def unloaded(machine: Machine) -> None:
    """No context is left."""
    nt.synchronize()
    for found in engines._engines.values():
        found.contexts.close()


def faulty(machine: Machine) -> None:
    """The second launch fails."""
    machine.injected.clear()
    machine.inject(Fault.ERROR, after=1)


def refused(machine: Machine) -> None:
    """The driver makes no context at first, and has no memory."""
    unloaded(machine)
    machine.injected.clear()
    machine.inject(Fault.CONTEXT, times=2)
    machine.inject(Fault.MEMORY, times=1)


def lost(machine: Machine) -> None:
    """The device goes away, with all that has not been read, and is back when it is opened again."""
    machine.injected.clear()
    machine.inject(Fault.LOST, after=2)


def used(machine: Machine) -> int:
    """Buffer objects that somebody still holds, apart from those of launches that nobody can know the end of."""
    for _ in range(3):  # A run that serves as a fence is started by one call and seen to end by a later one.
        xrt_submission.release()
    gc.collect()
    for found in engines._engines.values():
        found.pool.release()
    return machine.live_bos


@contextmanager
def ready(machine: Machine) -> Iterator[Work]:
    """Work that has run once. Fails if something is left over at the end."""
    with nt.default_device("npu"), warnings.catch_warnings(), config.scope(max_contexts=2):
        warnings.filterwarnings("ignore", "(?s).* failed on npu", RuntimeWarning)
        work = Work(machine)
        work.begin()
        for _ in range(3):
            work.run()
        work.check()
        had = used(machine)
        yield work
        machine.injected.clear()
        work.__init__(machine)  # type: ignore[misc]  # As long as a value of a lost device lives, so does its pool.
        work.begin()
        for _ in range(3):
            work.run()
        work.check()
        # The latest launches of a kernel are remembered until its next one.
        assert used(machine) <= had + 16, "buffers leak"
        assert machine.live_contexts <= 2
        work.__dict__.clear()
    selection.reset()
    used(machine)
    assert (machine.live_contexts, machine.live_bos) == (0, 0)


@pytest.mark.parametrize("prepare", [nothing, unchecked, unloaded, faulty, refused, lost])
def test_an_interrupt_at_any_place_leaves_everything_usable(machine: Machine, prepare: Fixture) -> None:
    with ready(machine) as work:
        count = attempt(work, prepare, 0)
        assert count > 200
        step = 1 if ALL else count // PLACES
        number = 1
        while attempt(work, prepare, number) == number:
            number += step
        assert number > count // 3


def attempt(work: Work, prepare: Fixture, number: int) -> int:
    """Interrupt the work at a place, and check what is left. Returns how many places were reached."""
    machine = work.machine
    work.begin()
    if prepare in (faulty, lost):
        work.before.numpy()  # These faults are for what comes next; what is unread when a device goes away is lost.
    prepare(machine)
    where: list[str] = []
    try:
        with Interrupter(in_runtime, number) as places:
            work.run()
    except KeyboardInterrupt as interrupt:
        where = [f"{entry.name}:{entry.lineno}" for entry in traceback.extract_tb(interrupt.__traceback__)]
    except LaunchError:
        if prepare is not lost:
            raise
    machine.injected.clear()
    machine.plug_in()
    try:
        work.check()
    except BaseException as error:
        raise AssertionError(f"after an interrupt at place {number}, in {where}: {error}") from error
    return places.count


@pytest.fixture
def _forgotten_in_destructors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python prints and forgets what is raised in a destructor; pytest keeps it, with all that its frames refer to.

    An interrupt may come there, or between __new__ and __init__, which leaves an object whose destructor fails.
    """
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)


@pytest.mark.usefixtures("_forgotten_in_destructors")
def test_interrupts_at_random_moments(machine: Machine) -> None:
    dice = random.Random(0)
    raised = 0
    with ready(machine) as work:
        while raised < (200 if ALL else 20):
            work.begin()
            try:
                with interrupts(after=dice.uniform(50e-6, 5e-3)):
                    for _ in range(50):
                        work.run()
            except KeyboardInterrupt:
                raised += 1
            work.check()
