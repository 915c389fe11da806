"""A fork-join thread pool in machine code: LLVM IR made from pool.c, compiled by `Engine`; users need no C compiler.

A kernel is a native function `void kernel(ptr slots, ptr meta, i64 begin, i64 end)` that handles the items
begin <= i < end of a loop over n items. It may be called for any sub-range, by several threads at once.

How a loop runs
    The caller publishes the job, opens it, and works on it like every worker: a thread claims the next `grain` items
    by an atomic addition until none are left. Then the caller closes the job and waits for the workers that are
    *inside* it, never for one that has not entered yet, so a worker that the operating system keeps off the CPU delays
    no caller. Idle workers watch for a new job for about 200 us and then sleep in a futex.

Where workers run
    Linux often wakes a thread on the CPU of the caller, where it waits until the caller has done all work. So before a
    worker is started or woken, the caller's CPU is removed from its affinity mask; the mask is restored once it is
    awake. When the last worker inside loses its CPU to another process, the caller moves it
    to the CPU on which it waits. No mask is ever exceeded; where the system refuses, the scheduler decides.
    Measured against PLACED_WORKERS 0, on two busy cores, with 0.8 ms of element-wise work for two threads of which one
    sleeps: the median of a loop falls from 0.70 to 0.49 ms, the 90th percentile from 1.11 to 0.67; of loops that follow
    one another, the median from 0.54 to 0.40 ms.

Who may call
    Any thread, at any time. One job runs in parallel at a time; a call that finds the pool busy (another Python thread,
    or a kernel that starts a loop itself) runs its loop alone, in its own thread. After fork() the child starts
    workers of its own. Workers start at the first parallel loop, with all asynchronous signals blocked, so that Ctrl-C
    reaches the Python main thread, and they do not delay the end of the process.

Elsewhere than on Linux on x86-64 or AArch64 there is no futex; all loops then run in the calling thread.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable
from pathlib import Path
from string import Template
from typing import Any, Final

from npu_tensor._util.affinity import default_threads
from npu_tensor._util.forks import in_child
from npu_tensor.errors import ArgumentError
from npu_tensor.runtime.cpu.engine import Engine

MAX_SLOTS = 64
"""Upper bound on the slots of a launch."""


def launcher_ir() -> str:
    """Return the IR of the builtins `launch` and `run_loops`, called as METH_FASTCALL.

    Calling a kernel this way takes about 100 ns, a quarter of a call through ctypes. The text uses functions of the C
    API only, no struct of a particular CPython version.
    """
    # The object header ends with the type pointer in every build of CPython, with and without the GIL.
    type_offset = object.__basicsize__ - ctypes.sizeof(ctypes.c_void_p)
    template = Template(Path(__file__).with_name("launch.ll").read_text("utf-8"))
    return template.substitute(type_offset=type_offset, most_arguments=4 + MAX_SLOTS, most_slots=MAX_SLOTS)


def external_symbols(ir_text: str) -> tuple[str, ...]:
    """Return the functions and variables that a module uses and does not define."""
    return tuple(re.findall(r"^(?:declare [^@]*)?@(?!llvm\.)(\w+)(?:\(| = external)", ir_text, re.MULTILINE))


def symbol_addresses(library: ctypes.CDLL, names: tuple[str, ...]) -> dict[str, int]:
    return {name: ctypes.addressof(ctypes.c_char.in_dll(library, name)) for name in names}


class _MethodDefinition(ctypes.Structure):
    """PyMethodDef of the C API."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


_METH_FASTCALL = 0x80

# A builtin points to its definition, so definitions live as long as the process.
_definitions: list[_MethodDefinition] = []


def _builtin(name: str, address: int, documentation: str) -> Callable[..., Any]:
    """Return a Python callable for the address of a METH_FASTCALL function."""
    definition = _MethodDefinition(name.encode(), address, _METH_FASTCALL, documentation.encode())
    _definitions.append(definition)
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
    create = prototype(("PyCFunction_NewEx", ctypes.pythonapi))
    builtin: Callable[..., Any] = create(ctypes.addressof(definition), None, None)
    return builtin


# More than any machine has cores; a typing error must not start a million threads.
_MAX_THREADS = 4096

ARCHITECTURES = ("x86_64", "aarch64")

_POOL_FUNCTIONS = ("parallel_for", "set_threads", "reset_after_fork", "started_workers")

_resets: Final[dict[int, Callable[[], None]]] = {}
"""Functions that reset a pool in a forked process, which has none of its threads. The keys keep the code in memory."""


def _reset_all() -> None:
    for reset in _resets.values():
        reset()


in_child(_reset_all)


class Pool:
    """The thread pool and its launcher.

    launch  `launch(kernel_address, meta_address, n, grain, *slots)` runs a kernel over n items, in parallel in pieces
            of `grain` items when n > grain; then other Python threads may run meanwhile. Slots (at most 64) are ints,
            stored as int64, or floats, stored as float64. Raises TypeError, OverflowError, ValueError (no kernel,
            n < 0, grain < 1). Addresses are trusted.
    run_loops  `run_loops(table_address, count, releases, *bases)` runs loops that a table describes, without Python in
            between; see `launch.ll`. Returns how many have run. Everything is trusted.
    parallel_for_address  of `void parallel_for(ptr kernel, ptr slots, ptr meta, i64 n, i64 grain)`, for native callers
    """

    def __init__(self, engine: Engine, threads: int = 0) -> None:
        architecture = engine.triple.partition("-")[0]
        self.parallel = sys.platform == "linux" and architecture in ARCHITECTURES
        file = f"pool.{architecture}.ll" if self.parallel else "sequential_pool.ll"
        pool, launcher = Path(__file__).with_name(file).read_text("utf-8"), launcher_ir()
        symbols = symbol_addresses(ctypes.pythonapi, external_symbols(launcher))
        if self.parallel:
            symbols |= symbol_addresses(ctypes.CDLL(None), external_symbols(pool))
        names = *_POOL_FUNCTIONS, "launch", "run_loops"
        functions = engine.compile(f"{pool}\n{launcher}", *names, symbols=symbols)
        self.parallel_for_address = functions["parallel_for"]
        self.launch = _builtin("launch", functions["launch"], "launch(kernel, meta, n, grain, *slots)")
        self.run_loops = _builtin("run_loops", functions["run_loops"], "run_loops(table, count, releases, *bases)")
        self._set_threads = ctypes.CFUNCTYPE(None, ctypes.c_int32)(functions["set_threads"])
        self._started_workers = ctypes.CFUNCTYPE(ctypes.c_int32)(functions["started_workers"])
        self.set_threads(threads)
        address = functions["reset_after_fork"]
        _resets[address] = ctypes.CFUNCTYPE(None)(address)

    @property
    def threads(self) -> int:
        """The number of threads that work on a loop, including the caller."""
        return self._threads

    @property
    def started_workers(self) -> int:
        """The number of threads that the pool has started in this process."""
        return int(self._started_workers())

    def set_threads(self, threads: int) -> None:
        """Use this many threads, including the caller, from the next loop on; 0: `default_threads`."""
        if not 0 <= threads <= _MAX_THREADS:
            raise ArgumentError(f"the number of threads must be 0 to {_MAX_THREADS}, got {threads}")
        self._threads = (threads or default_threads()) if self.parallel else 1
        self._set_threads(self._threads)
