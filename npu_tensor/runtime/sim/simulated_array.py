"""The simulated array: loads designs and runs them on the bytes of device buffers.

    loaded = SimulatedArray(ARRAYS["aie2p"]).load(design)
    counters = loaded.run([x.device, y.device])

Workers and DMAs are coroutines, and data moves exactly as access patterns and dims say. The counters of a run say what
the array would have computed and moved; when is only worked out where a timeline is recorded. Designs of one
configuration can share what is loaded: fifos, core buffers and the position of every worker in its endless loop are
kept from run to run.
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
from npu_tensor.dataflow.check import check
from npu_tensor.dataflow.cost import Counters
from npu_tensor.dataflow.design import Design
from npu_tensor.errors import ArgumentError, BuildError, LaunchError
from npu_tensor.runtime.sim import timeline
from npu_tensor.runtime.sim.clocks import RunClock
from npu_tensor.runtime.sim.host_compiler import Entry, compile_source, functions_by_source
from npu_tensor.runtime.sim.machine import HostSequence, LeftInFifo, Machine
from npu_tensor.runtime.sim.tile_memory import Bytes

__all__ = ["LoadedConfiguration", "LoadedDesign", "OwnThread", "SimulatedArray"]

T = TypeVar("T")
_Calls = SimpleQueue[Callable[[], object] | None]


class OwnThread:
    """Calls functions one after another. The thread ends when nobody refers to this any more."""

    def __init__(self, name: str) -> None:
        _require_running_threads()
        self._calls: _Calls = SimpleQueue()
        threading.Thread(target=_serve, args=(self._calls,), name=name, daemon=True).start()
        weakref.finalize(self, self._calls.put, None)

    def post(self, function: Callable[[], object]) -> None:
        """Call a function, which must not raise, some time. Safe in finalizers: it takes no lock of Python."""
        self._calls.put(function)

    def submit(self, function: Callable[[], T]) -> Future[T]:
        """Call a function some time; the future gets what it returns or raises."""
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
        """Call a function and wait for what it returns or raises."""
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
        except Exception as error:  # As of a thread of its own: this one serves others too.
            thread = threading.current_thread()
            threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, thread)))
        call = None  # What it refers to must not live until the next one comes.
        call = calls.get()


class SimulatedArray:
    """One NPU, or the first `columns` columns of it. It runs one design at a time, whichever thread asks.

    configured: what is in it now, if that is alive. Another configuration begins anew, with all cores, fifos and locks.
    bytes_per_second: between host memory and array, for timelines; by default the array's.
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
        strict: bool = True,
        entries: Mapping[str, Entry] | None = None,
        loaded: LoadedConfiguration | None = None,
    ) -> LoadedDesign:
        """Check a design and put its configuration into the array.

        strict: whether a run that leaves something in the array is an error. entries: its functions by symbol; by
        default they are compiled for this machine. loaded: its configuration, if it is in the array already. Raises
        BuildError with every violation that `check` finds, or with what the compiler says.
        """
        if design.arch != self.array.arch or design.columns > self.columns:
            raise BuildError(
                f"{design.name} is made for {design.columns} columns of {design.arch}, "
                f"this array has {self.columns} of {self.array.arch}"
            )
        violations = check(design)
        if violations:
            raise BuildError(f"{design.name} breaks the limits of the array:\n" + "\n".join(map(str, violations)))
        if loaded is None:
            loaded = LoadedConfiguration(self, design, _entries(design) if entries is None else entries)
        return LoadedDesign(loaded, design, strict)

    def _start_thread(self) -> None:
        # Coroutines can only be resumed in the thread that they were started in.
        self._thread = OwnThread(f"simulated {self.array.device}")
        self._process = os.getpid()

    @property
    def thread(self) -> OwnThread:
        """Where everything in the array runs."""
        if self._process != os.getpid():  # Threads do not survive a fork.
            self._start_thread()
        return self._thread


def _entries(design: Design) -> dict[str, Entry]:
    """Its functions, compiled for this machine."""
    entries: dict[str, Entry] = {}
    for source, functions in functions_by_source(design).items():
        compiled = compile_source(source, design.array.arch, functions)
        entries |= {function.symbol: compiled.entry(function) for function in functions}
    return entries


class LoadedConfiguration:
    """A configuration for an array, and its state while it is in there. design: one that has it."""

    def __init__(self, array: SimulatedArray, design: Design, entries: Mapping[str, Entry]) -> None:
        self.array = array
        self._design = design
        self._entries = entries
        self._machine: Machine | None = None
        array.thread.call(self.machine)

    def machine(self) -> Machine:
        """Its state, new if it was not in the array, after `reset` and in a forked process.

        In the array's thread, as all that follows.
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
        """Let the next run begin as the first one did."""
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
    """A design whose configuration is in the array, ready to run.

    leftovers: what the last run left in fifos and transfers. timeline: of the last run, or of
    an earlier one that took the same course, if somebody records them.
    """

    def __init__(self, configuration: LoadedConfiguration, design: Design, strict: bool) -> None:
        self.configuration = configuration
        self.design = design
        self.strict = strict
        self.leftovers: tuple[LeftInFifo, ...] = ()
        self.timeline: timeline.Timeline | None = None
        self._sequence = HostSequence(design)

    def run(self, buffers: Sequence[Bytes], words: Sequence[int] = ()) -> Counters:
        """Run the design once.

        buffers: bytes in device memory, one per host buffer, in order. words: int32, for every runtime parameter.
        Raises ArgumentError if these do not fit, LaunchTimeout if the run does not end, LaunchError if a kernel
        function fails, writes beyond its objects, or (strict) if something is left in the array. After an error the
        array starts anew, as after a reset.
        """
        return self.configuration.array.thread.call(lambda: self.run_here(buffers, words))

    def run_here(self, buffers: Sequence[Bytes], words: Sequence[int]) -> Counters:
        """The same in the array's thread."""
        self._check_arguments(buffers, words)
        array, machine = self.configuration.array, self.configuration.machine()
        clock = None
        if timeline.wanted(self.design):
            clock = RunClock(self.design.array, machine.rings, array.bytes_per_second)
        self.timeline = None
        try:
            counters = machine.run(self._sequence, buffers, words, clock)
            self.leftovers = machine.leftovers()
            if self.leftovers and self.strict:
                left = "; ".join(map(str, self.leftovers))
                raise LaunchError(f"{self.design.name} leaves data in the array: {left}")
        except BaseException:
            self.configuration.reset()
            raise
        if clock is not None:
            self.timeline = clock.timeline(self.design.name)
            timeline.keep(self.design, self.timeline)
        else:
            self.timeline = timeline.earlier(self.design)
        return counters

    def _check_arguments(self, buffers: Sequence[Bytes], words: Sequence[int]) -> None:
        expected = self.design.host_buffers
        if len(buffers) != len(expected):
            raise ArgumentError(f"{self.design.name} takes {len(expected)} buffers, but {len(buffers)} were given")
        for memory, buffer in zip(buffers, expected, strict=True):
            if memory.dtype != "uint8" or memory.ndim != 1 or not memory.flags.c_contiguous:
                raise ArgumentError(f"buffer {buffer.name} must be a contiguous vector of bytes")
            if memory.nbytes < buffer.type.nbytes:
                raise ArgumentError(f"buffer {buffer.name} needs {buffer.type.nbytes} bytes and has {memory.nbytes}")
        if len(words) != self._sequence.run_words:
            raise ArgumentError(
                f"{self.design.name} takes {self._sequence.run_words} words, but {len(words)} were given"
            )
        for word in words:
            if not -(1 << 31) <= word < 1 << 32:
                raise ArgumentError(f"{self.design.name}: {word} is not a 32-bit word")


def _close(thread: OwnThread, machine: Machine, process: int) -> None:
    if process == os.getpid():  # The coroutines of a parent process belong to a thread that is not in this one.
        thread.post(machine.close)
