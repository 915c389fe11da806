"""Workers: the statements of a core's function, compiled to calls that a coroutine repeats endlessly."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.checks.index import walk
from npu_tensor.dataflow.cost import CALL_CYCLES, LOCK_CYCLES
from npu_tensor.dataflow.design import Acquire, Element, FunctionCall, Loop, Release, Statement, Word
from npu_tensor.errors import BuildError, LaunchError
from npu_tensor.runtime.sim.clocks import WorkerClock
from npu_tensor.runtime.sim.host_compiler import Entry
from npu_tensor.runtime.sim.ring import Ring
from npu_tensor.runtime.sim.tile_memory import Bytes

Step = Callable[[], None]
Words = NDArray[np.int32]


class CoreEnd:
    """Worker's end of a fifo. It holds the objects `first` to `first + held - 1`."""

    def __init__(self, ring: Ring, produces: bool) -> None:
        self.ring = ring
        self.produces = produces
        self.first = 0
        self.held = 0
        self._wait = ring.wait_for_room if produces else ring.wait_for_objects
        self._pass_on = ring.produce if produces else ring.consume

    def acquire(self, objects: int) -> None:
        """Hold `objects` objects in total."""
        if self.held < objects:
            self._wait(objects)
            self.held = objects

    def release(self, objects: int) -> None:
        """Release the first objects."""
        self.held -= objects
        self.first += objects
        self._pass_on(objects)


class CoreWorker:
    """Work of one core. cycles: those of the run up to its last release. clock: clock of a timed run."""

    clock: WorkerClock | None = None
    cycles_of: Mapping[str, int]
    """Cycles of one call of each function, in the running design."""

    def __init__(
        self,
        tile: Tile,
        body: Sequence[Statement],
        ends: Mapping[str, CoreEnd],
        memory: Mapping[str, Bytes],
        functions: Mapping[str, Entry],
    ) -> None:
        """Create a worker.

        Args:
            tile: Core tile.
            body: Statements of its function.
            ends: Ends of its fifos by name.
            memory: Core buffers and runtime parameters by name.
            functions: Entries of kernel functions by symbol.

        Raises:
            BuildError: The body never waits for an object.
        """
        if not any(isinstance(statement, Acquire) for statement, _ in walk(body)):
            raise BuildError(f"the loop of {tile} never ends: its body acquires no object")
        self.tile = tile
        self.cycles = 0
        self.ahead = 0
        """Cycles since the last release."""
        self._ends = ends
        self._memory = memory
        self._functions = functions
        # By the number of an acquire: the fifo's end, and the first object held after it.
        self._acquired: dict[int, tuple[CoreEnd, int]] = {}
        self._steps = self._compile(body)

    def run(self) -> None:
        """Run the coroutine of the worker."""
        steps = self._steps
        while True:
            for step in steps:
                step()

    def _compile(self, statements: Sequence[Statement]) -> list[Step]:
        return [self._step(statement) for statement in statements]

    def _step(self, statement: Statement) -> Step:
        match statement:
            case Acquire(fifo, objects, number):
                return self._acquire(self._ends[fifo], objects, number)
            case Release(fifo, objects):
                return self._release(self._ends[fifo], objects)
            case FunctionCall(symbol, arguments):
                return self._call(symbol, arguments)
            case Loop(rounds, body):
                return _loop(self._word(rounds) if isinstance(rounds, Word) else [rounds], self._compile(body))

    def _acquire(self, end: CoreEnd, objects: int, number: int) -> Step:
        acquired = self._acquired

        def acquire() -> None:
            if end.held < objects:
                end.acquire(objects)
            acquired[number] = end, end.first
            self.ahead += LOCK_CYCLES
            if self.clock is not None:
                self.clock.acquire(end.ring, objects, end.produces)

        return acquire

    def _release(self, end: CoreEnd, objects: int) -> Step:
        def release() -> None:
            end.release(objects)
            # Work that is done ahead, for objects that the worker has yet to wait for, belongs to the next run.
            self.cycles += self.ahead + LOCK_CYCLES
            self.ahead = 0
            if self.clock is not None:
                self.clock.release(end.ring, objects, end.produces)

        return release

    def _word(self, word: Word) -> Words:
        """Return a view of the word's memory as a vector of one element."""
        return self._memory[word.memory].view(np.int32)[word.number : word.number + 1]

    def _call(self, symbol: str, arguments: Sequence[Element | str | Word | int | float]) -> Step:
        entry = self._functions[symbol]
        acquired = self._acquired
        values: list[int | float] = [0] * len(arguments)
        elements: list[tuple[int, int, int]] = []
        words: list[tuple[int, Words]] = []
        for place, argument in enumerate(arguments):
            match argument:
                case Element(number, position):
                    elements.append((place, number, position))
                case Word():
                    words.append((place, self._word(argument)))
                case str(name):
                    values[place] = self._memory[name].ctypes.data
                case number:
                    values[place] = number

        def call() -> None:
            for place, number, position in elements:
                end, first = acquired[number]
                index = first + position
                values[place] = end.ring.addresses[index % end.ring.depth]
            for place, word in words:
                values[place] = int(word[0])
            message = entry(*values)
            if message is not None:
                raise LaunchError(f"{symbol} in {self.tile}: {message.decode(errors='replace')}")
            cycles = CALL_CYCLES + self.cycles_of[symbol]
            self.ahead += cycles
            if self.clock is not None:
                self.clock.call(symbol, cycles)

        return call


def _loop(rounds: Words | list[int], body: Sequence[Step]) -> Step:
    """Return a loop whose number of rounds is the only element of `rounds` when it begins."""

    def loop() -> None:
        for _ in range(int(rounds[0])):
            for step in body:
                step()

    return loop
