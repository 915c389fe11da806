"""A fork-join thread pool in machine code: LLVM IR text, compiled by `Engine`; no C compiler is involved.

A kernel is a native function `void kernel(ptr slots, ptr meta, i64 begin, i64 end)` that handles the items
begin <= i < end of a loop over n items. It may be called for any sub-range, by several threads at once.

How a loop runs
    The caller publishes the job, opens it, and works on it like every worker: a thread claims the next
    `grain` items by an atomic addition until none are left. Then the caller closes the job and waits for the
    workers that are *inside* it. It never waits for a worker that has not entered yet, so a worker that the
    operating system keeps off the CPU delays nobody; this is what keeps the pool fast on a busy machine,
    where pools with fixed shares and barriers fall to the pace of the scheduler.
    Idle workers watch for a new job for about 200 us and then sleep in a futex.

Where workers run
    Linux likes to wake a thread on the CPU of the one that wakes it, and there a worker waits until the
    caller, whom it should help, has done everything alone. So before a worker is woken, and when it is
    started, the caller's CPU is taken from its affinity mask; once awake the worker has its old mask back.
    When the last worker inside loses its CPU to another process, in the middle of its piece, the caller
    moves it to the CPU on which it waits. The mask that a worker has, from its start or from whoever pinned
    it, is never exceeded. Where the system refuses any of this, the scheduler decides.

Who may call
    Any thread, at any time. One job runs in parallel at a time; a call that finds the pool busy (another
    Python thread, or a kernel that starts a loop itself) runs its loop alone, in its own thread.
    After fork() the child has no workers and starts its own when it needs them.
    Workers are started at the first parallel loop, with all asynchronous signals blocked, so that Ctrl-C
    reaches the Python main thread, and they do not delay the end of the process.

Elsewhere than on Linux on x86-64 or AArch64 there is no futex; all loops then run in the calling thread.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Final

from npu_tensor._util.affinity import available_cores
from npu_tensor._util.forks import in_child
from npu_tensor.errors import ArgumentError
from npu_tensor.runtime.cpu.engine import Engine
from npu_tensor.runtime.cpu.launch import launcher_ir, make_builtin, python_symbols, symbol_addresses
from npu_tensor.runtime.cpu.templates import filled

__all__ = ["Pool"]

# How often an idle worker looks for a new job before it sleeps: about 200 us on Zen 4, longer than a few
# lines of Python between two kernels and shorter than a scheduler slice. Waking takes 50 to 100 us.
_WORKER_SPINS = 8000
# How often the caller looks again for the last worker before it sleeps. A worker on a core of its own is done
# by then; one that was put off its core gets the caller's.
_CALLER_SPINS = 1000
# How long the caller sleeps before it concludes that the last worker waits for a CPU: longer than most pieces,
# much shorter than the 3 to 4 ms that a scheduler gives to a competitor.
_PULL_AFTER_NANOSECONDS = 100_000

# glibc takes a thread's default stack from `ulimit -s`, musl gives 128 KiB; row kernels need 256 KiB.
# Only touched pages cost memory.
_STACK_BYTES = 8 << 20

# More than any one machine has cores; keeps a slip of the pen from starting a million threads.
_MAX_THREADS = 4096

_FUTEX_SYSCALL = {"x86_64": 202, "aarch64": 98}
_FUTEX_WAIT_PRIVATE = 128
_FUTEX_WAKE_PRIVATE = 129
_PTHREAD_CREATE_DETACHED = 1

# The states of a worker's placement. Only the worker leaves _AWAKE, _PLACED and _PULLED. The caller turns
# _ASLEEP or _WORKING into _MOVING, which is like a lock, and that into _PLACED (kept off the caller's CPU),
# _PULLED (bound to it) or back.
_AWAKE, _ASLEEP, _WORKING, _MOVING, _PLACED, _PULLED = range(6)

# Each costs the caller about 1 us; where there are more cores than that, idle ones are easy to find.
_PLACED_WORKERS = 16
# Room for 1024 CPUs, like glibc's cpu_set_t.
_MASK_BYTES = 128
_SIG_SETMASK = 2

# A faulting kernel should still reach faulthandler, so these stay unblocked: SIGILL, SIGBUS, SIGFPE, SIGSEGV.
_SYNCHRONOUS_SIGNALS = (4, 7, 8, 11)

_SPIN_HINT = {
    "x86_64": ("declare void @llvm.x86.sse2.pause()", "call void @llvm.x86.sse2.pause()"),
    "aarch64": ("declare void @llvm.aarch64.hint(i32)", "call void @llvm.aarch64.hint(i32 1)"),
}

_POOL_FUNCTIONS = ("parallel_for", "set_threads", "reset_after_fork", "started_workers")


def _pool_ir(architecture: str) -> str:
    """The pool for Linux.

    %state has bit 31 (OPEN) while a job accepts workers, and below it the number of workers inside. A worker
    enters by adding one while OPEN is set, in a single compare-and-exchange; it reads the job only inside.
    The caller starts a new job only when nobody is inside, so the job's fields need no lock.

    Two pairs of variables follow the same pattern against lost wake-ups, which needs sequentially consistent
    order: the one who sleeps announces it (%sleepers, %caller_sleeps) and then looks again at the variable it
    waits for (%generation, %state); the one who changes that variable looks at the announcement afterwards.
    """
    declare_hint, hint = _SPIN_HINT[architecture]
    blocked = -1
    for signal in _SYNCHRONOUS_SIGNALS:
        blocked &= ~(1 << (signal - 1))
    return filled(
        "pool.ll",
        declare_hint=declare_hint,
        hint=hint,
        futex_syscall=_FUTEX_SYSCALL[architecture],
        futex_wait=_FUTEX_WAIT_PRIVATE,
        futex_wake=_FUTEX_WAKE_PRIVATE,
        open=-(1 << 31),
        all_but_open=(1 << 31) - 1,
        worker_spins=_WORKER_SPINS,
        caller_spins=_CALLER_SPINS,
        pull_after_nanoseconds=_PULL_AFTER_NANOSECONDS,
        awake=_AWAKE,
        asleep=_ASLEEP,
        working=_WORKING,
        moving=_MOVING,
        placed=_PLACED,
        pulled=_PULLED,
        placed_workers=_PLACED_WORKERS,
        placements=_PLACED_WORKERS + 1,
        mask_bytes=_MASK_BYTES,
        mask_words=_MASK_BYTES // 8,
        detached=_PTHREAD_CREATE_DETACHED,
        stack_bytes=_STACK_BYTES,
        sig_setmask=_SIG_SETMASK,
        blocked_signals=blocked,
    )


_SYSTEM_SYMBOLS = (
    "syscall",
    "pthread_create",
    "pthread_attr_init",
    "pthread_attr_destroy",
    "pthread_attr_setdetachstate",
    "pthread_attr_setstacksize",
    "pthread_sigmask",
    "pthread_getaffinity_np",
    "pthread_setaffinity_np",
    "sched_setaffinity",
    "sched_getcpu",
)


_resets: Final[dict[int, Callable[[], None]]] = {}
"""By address, what tells a pool that its threads are not in a forked process: machine code is there for ever."""


def _reset_all() -> None:
    for reset in _resets.values():
        reset()


in_child(_reset_all)


class Pool:
    """The thread pool and its launcher.

    launch  `launch(kernel_address, meta_address, n, grain, *slots)` runs a kernel over n items, in parallel
            in pieces of `grain` items when n > grain. Slots (at most 64) are ints, stored as int64, or
            floats, stored as float64; the kernel gets a pointer to them, and `meta_address` as it is. Returns
            None. Lets other Python threads run while n > grain, so the caller must keep the memory behind the
            slots alive. Raises TypeError (number or types of arguments), OverflowError (an int of more than
            64 bits), ValueError (no kernel, n < 0, grain < 1). The addresses themselves are trusted.
    parallel_for_address  address of `void parallel_for(ptr kernel, ptr slots, ptr meta, i64 n, i64 grain)`,
            for native callers; needs n >= 1 and grain >= 1.

    engine   compiles the pool. Pools of one engine are the same pool.
    threads  see `set_threads`.
    """

    def __init__(self, engine: Engine, threads: int = 0) -> None:
        architecture = engine.triple.partition("-")[0]
        self.parallel = sys.platform == "linux" and architecture in _FUTEX_SYSCALL
        symbols = python_symbols()
        if self.parallel:
            symbols |= symbol_addresses(ctypes.CDLL(None), _SYSTEM_SYMBOLS)
        pool = _pool_ir(architecture) if self.parallel else filled("sequential_pool.ll")
        functions = engine.compile(f"\n{pool}\n{launcher_ir()}", *_POOL_FUNCTIONS, "launch", symbols=symbols)
        self.parallel_for_address = functions["parallel_for"]
        self.launch = make_builtin("launch", functions["launch"], "launch(kernel, meta, n, grain, *slots)")
        self._set_threads = ctypes.CFUNCTYPE(None, ctypes.c_int32)(functions["set_threads"])
        self._started_workers = ctypes.CFUNCTYPE(ctypes.c_int32)(functions["started_workers"])
        self._parallel_for = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
        )(functions["parallel_for"])
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
        """Use this many threads, including the caller, from the next loop on; 0: all cores of the process."""
        if not 0 <= threads <= _MAX_THREADS:
            raise ArgumentError(f"the number of threads must be 0 to {_MAX_THREADS}, got {threads}")
        self._threads = (threads or available_cores()) if self.parallel else 1
        self._set_threads(self._threads)

    def parallel_for(self, kernel: int, slots: int, meta: int, n: int, grain: int) -> None:
        """Run a kernel with an array of slots made by the caller. All but n and grain are addresses."""
        if not kernel or n < 0 or grain < 1:
            raise ArgumentError(f"bad loop: kernel {kernel:#x}, n {n}, grain {grain}")
        if n:
            self._parallel_for(kernel, slots, meta, n, grain)
