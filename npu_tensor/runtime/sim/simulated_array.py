"""Simulated array: loads designs and runs them on the bytes of device buffers.

    loaded = SimulatedArray(ARRAYS["aie2p"]).load(design)
    counters = loaded.run([x.device, y.device])

Workers and DMAs are coroutines, and data moves exactly as access patterns and dims define. The counters of a run give
the array's computation and data movement; times are only computed if a timeline is recorded. Designs of one
configuration can share a loaded configuration: fifos, core buffers and the position of every worker in its endless loop
are kept from run to run.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import TypeVar

from npu_tensor.dataflow.array import Array
from npu_tensor.dataflow.check import require_valid
from npu_tensor.dataflow.cost import Counters
from npu_tensor.dataflow.design import Design
from npu_tensor.errors import ArgumentError, BuildError
from npu_tensor.runtime.sim import timeline
from npu_tensor.runtime.sim.clocks import RunClock
from npu_tensor.runtime.sim.host_compiler import Entry, compile_source, functions_by_source
from npu_tensor.runtime.sim.machine import HostSequence, Machine
from npu_tensor.runtime.sim.tile_memory import Bytes

T = TypeVar("T")
_Calls = SimpleQueue[Callable[[], object] | None]


class OwnThread:
    """Thread that calls functions one after another. It ends when this object is no longer referenced."""

    def __init__(self, name: str) -> None:
        _require_running_threads()
        self._calls: _Calls = SimpleQueue()
        threading.Thread(target=_serve, args=(self._calls,), name=name, daemon=True).start()
        weakref.finalize(self, self._calls.put, None)

    def post(self, function: Callable[[], object]) -> None:
        """Queue a function, which must not raise. Safe in finalizers: it takes no lock of Python."""
        self._calls.put(function)

    def submit(self, function: Callable[[], T]) -> Future[T]:
        """Queue a function; the future gets its result or exception."""
        _require_running_threads()
        future: Future[T] = Future()

        def run() -> None:
            try:
                result = function()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self._calls.put(partial(copy_context().run, run))
        return future

    def call(self, function: Callable[[], T]) -> T:
        """Call a function in the thread and return its result or raise its exception."""
        return self.submit(function).result()


def _require_running_threads() -> None:
    """Raise BuildError if the interpreter is shutting down: a thread never runs then, and its caller would wait."""
    if sys.is_finalizing():
        raise BuildError("a simulated array does not run while the interpreter is shutting down")


def _serve(calls: _Calls) -> None:
    call = calls.get()
    while call is not None:
        try:
            call()
        except Exception as error:  # Reported as by a separate thread: this thread also serves other callers.
            thread = threading.current_thread()
            threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, thread)))
        call = None  # Its references must not live until the next call arrives.
        call = calls.get()


class SimulatedArray:
    """One NPU, or the first `columns` columns of it. It runs one design at a time, for any calling thread.

    Attributes:
        array: Array to simulate.
        columns: Columns in use.
        configured: Weak reference to the current configuration. Another configuration starts anew, with all cores,
            fifos and locks.
        bytes_per_second: Bandwidth between host memory and array for timelines; by default the array's.
    """

    def __init__(self, array: Array, columns: int | None = None, bytes_per_second: float | None = None) -> None:
        self.array = array
        self.columns = array.columns if columns is None else columns
        self.bytes_per_second = array.ddr_bytes_per_second if bytes_per_second is None else bytes_per_second
        self.configured: weakref.ref[LoadedConfiguration] | None = None
        if not 1 <= self.columns <= array.columns:
            raise ArgumentError(f"{array.device} has {array.columns} columns, not {columns}")
        self._start_thread()

    def load(
        self,
        design: Design,
        entries: Mapping[str, Entry] | None = None,
        loaded: LoadedConfiguration | None = None,
    ) -> LoadedDesign:
        """Check a design and load its configuration into the array.

        Args:
            design: Design to load.
            entries: Functions of the design by symbol; by default they are compiled for this machine.
            loaded: Configuration of the design, if it is already in the array.

        Raises:
            BuildError: `check` finds violations (all are listed), or compilation fails.
        """
        if design.arch != self.array.arch or design.columns > self.columns:
            raise BuildError(
                f"{design.name} is made for {design.columns} columns of {design.arch}, "
                f"this array has {self.columns} of {self.array.arch}"
            )
        require_valid(design)
        if loaded is None:
            loaded = LoadedConfiguration(self, design, _entries(design) if entries is None else entries)
        return LoadedDesign(loaded, design)

    def _start_thread(self) -> None:
        # Coroutines can only be resumed in the thread that started them.
        self._thread = OwnThread(f"simulated {self.array.device}")
        self._process = os.getpid()

    @property
    def thread(self) -> OwnThread:
        """Thread in which everything in the array runs."""
        if self._process != os.getpid():  # Threads do not survive a fork.
            self._start_thread()
        return self._thread


def _entries(design: Design) -> dict[str, Entry]:
    """Compile the functions of a design for this machine."""
    entries: dict[str, Entry] = {}
    for source, functions in functions_by_source(design).items():
        compiled = compile_source(source, design.array.arch, functions)
        entries |= {function.symbol: compiled.entry(function) for function in functions}
    return entries


class LoadedConfiguration:
    """Configuration for an array, and its state while it is loaded. design: any design of that configuration."""

    def __init__(self, array: SimulatedArray, design: Design, entries: Mapping[str, Entry]) -> None:
        self.array = array
        self._design = design
        self._entries = entries
        self._machine: Machine | None = None
        array.thread.call(self.machine)

    def machine(self) -> Machine:
        """Return its state, which is new if it was not in the array, after `reset` and in a forked process.

        Must be called in the array's thread, like all methods below.
        """
        array = self.array
        previous = None if array.configured is None else array.configured()
        if previous is not None and previous is not self:
            previous.reset()
        array.configured = weakref.ref(self)
        if self._machine is None or self._process != os.getpid():
            self._machine = self._start()
        return self._machine

    def reset(self) -> None:
        """Reset the state, so that the next run begins like the first one."""
        machine, self._machine = self._machine, None
        if machine is not None and self._process == os.getpid():
            self._end.detach()
            machine.close()

    def _start(self) -> Machine:
        machine = Machine(self._design, self._entries)
        self._process = os.getpid()
        self._end = weakref.finalize(self, _close, self.array.thread, machine, self._process)
        self._end.atexit = False
        return machine


class LoadedDesign:
    """Design whose configuration is in the array, ready to run.

    Attributes:
        configuration: Loaded configuration.
        design: Design to run.
        timeline: Timeline of the last run, or of an earlier one with the same course, if timelines are recorded.
    """

    def __init__(self, configuration: LoadedConfiguration, design: Design) -> None:
        self.configuration = configuration
        self.design = design
        self.timeline: timeline.Timeline | None = None
        self._sequence = HostSequence(design)

    def run(self, buffers: Sequence[Bytes], words: Sequence[int] = ()) -> Counters:
        """Run the design once.

        After an error the array starts anew, as after a reset.

        Args:
            buffers: Bytes in device memory, one array per host buffer, in order.
            words: Values of type int32 for every runtime parameter.

        Raises:
            LaunchTimeout: The run does not end.
            LaunchError: A kernel function fails or writes beyond its objects, or data is left in the array.
        """
        return self.configuration.array.thread.call(lambda: self.run_here(buffers, words))

    def run_here(self, buffers: Sequence[Bytes], words: Sequence[int]) -> Counters:
        """Run the design once, in the array's thread."""
        array, machine = self.configuration.array, self.configuration.machine()
        clock = None
        if timeline.wanted(self.design):
            clock = RunClock(self.design.array, machine.rings, array.bytes_per_second, self._sequence.parameter_words)
        self.timeline = None
        try:
            counters = machine.run(self._sequence, buffers, words, clock)
        except BaseException:
            self.configuration.reset()
            raise
        if clock is not None:
            self.timeline = clock.timeline(self.design.name)
            timeline.keep(self.design, self.timeline)
        else:
            self.timeline = timeline.earlier(self.design)
        return counters


def _close(thread: OwnThread, machine: Machine, process: int) -> None:
    if process == os.getpid():  # The coroutines of a parent process belong to a thread that does not exist here.
        thread.post(machine.close)
