"""Kernels, runs and lists of runs: the classes of pyxrt for them."""

from __future__ import annotations

from typing import Final
from weakref import ref

from npu_contexts import Command, Core, Job
from pybind import bound, int32
from states import ABORT, NEW, ert_cmd_state
from surface_device import bo, hw_context

__all__ = ["ext_kernel", "kernel", "run", "runlist"]

CHAIN: Final = 24
"""Runs of a list that are submitted at once (submit_size in core/common/api/xrt_kernel.cpp)."""


@bound("kernel")
class kernel:
    """What a context can run."""

    __slots__ = ("__weakref__", "_core", "_design")
    _format = "xclbin"

    def __init__(self, hw_context: hw_context, name: str) -> None:
        core = hw_context._core
        core.check()
        if core.image.format != self._format:
            raise RuntimeError("Invalid API called for xrt::kernel creation")
        if name not in core.image.kernels:
            raise RuntimeError(f"No such kernel '{name}': Invalid argument")
        self._core, self._design = core, core.image.kernels[name]

    def group_id(self, arg0: int32) -> int:
        """Where the buffer of an argument must be: the bank in bits 0 to 15, the context's number in 16 to 23."""
        image = self._core.image
        if image.format == "elf":
            return 0
        # The instructions lie in bank 1, buffers in bank 0; numbers have none.
        bank = 1 if arg0 == 1 else 0 if 3 <= arg0 < image.arguments else 0xFFFF
        return self._core.slot << 16 | bank


@bound("ext.kernel")
class ext_kernel(kernel):
    """A kernel of a full ELF."""

    __slots__ = ()
    _format = "elf"

    def __init__(self, hwctx: hw_context, name: str) -> None:
        super().__init__(hwctx, name)


@bound("run")
class run:
    """One execution of a kernel, again and again."""

    __slots__ = ("__weakref__", "_command", "_core", "_in_progress", "_lists")

    def __init__(self, arg0: kernel) -> None:
        self._core: Core = arg0._core
        self._command = Command(self._core.image.arguments, arg0._design)
        self._lists = 0
        self._in_progress = False

    def __del__(self) -> None:
        # XRT core/common/api/xrt_kernel.cpp, run_impl's destructor: only state() and wait() note that a run has ended.
        if getattr(self, "_in_progress", False):
            crash = "a run is dropped that was started and not seen to have ended: the process would abort"
            self._core.machine.crash(crash)

    def start(self) -> None:
        """Submit it."""
        if self._lists:
            raise RuntimeError("Run object belongs to a runlist and cannot be explicitly started: Invalid argument")
        if self._command.pending:
            raise RuntimeError("bad command state, can't launch")
        self._core.submit(Job([self._command], alone=True))
        self._in_progress = True

    def set_arg(self, arg0: int32, arg1: bo | int32) -> None:
        """A buffer object or a number for one argument."""
        command, machine = self._command, self._core.machine
        if not 0 <= arg0 < len(command.arguments):
            raise machine.crash(f"set_arg({arg0}) of a kernel with {len(command.arguments)} arguments")
        if command.pending:
            machine.crash(f"set_arg({arg0}) while the run is under way: which value it gets is not defined")
        command.arguments[arg0] = ref(arg1._memory) if isinstance(arg1, bo) else arg1

    def state(self) -> ert_cmd_state:
        """Of the last start. A run of a runlist has none of its own until the list has failed."""
        if self._command.pending:
            self._core.check()
            self._core.advance(self._command)
        self._in_progress = self._command.pending
        return self._command.state


@bound("runlist")
class runlist:
    """Runs of one context that are submitted together."""

    __slots__ = ("__weakref__", "_core", "_jobs", "_runs", "_status")

    def __init__(self, hwctx: hw_context) -> None:
        self._core: Core = hwctx._core
        self._runs: list[run] = []
        self._jobs: list[Job] = []
        self._status = "idle"

    def __del__(self) -> None:
        for member in getattr(self, "_runs", ()):
            member._lists -= 1

    def add(self, run: run) -> None:
        """Append a run, which cannot be started by itself from now on."""
        if run._core is not self._core:
            raise self._core.machine.crash("a runlist with a run of another context")
        run._lists += 1
        self._runs.append(run)

    def execute(self) -> None:
        """Submit all, 24 at a time. Until the list was waited for, it cannot be executed again."""
        if self._status != "idle":
            raise RuntimeError(
                f"runlist must be idle before submitting for execution, current state: {self._status}: Invalid argument"
            )
        commands = [member._command for member in self._runs]
        if any(command.pending for command in commands):
            raise self._core.machine.crash("a runlist is executed while one of its runs is under way")
        for command in commands:
            command.state = NEW
        self._jobs = []
        self._status = "running"  # also if submitting fails: wait() says what became of it
        for start in range(0, len(commands), CHAIN):
            job = Job(commands[start : start + CHAIN])
            self._core.submit(job)
            self._jobs.append(job)

    def wait(self) -> None:
        """Until all have ended; raises if one failed.

        After a failure the run that failed has its state, those behind it are ABORT, those before it NEW.
        """
        if self._status == "running" and self._jobs:
            self._core.check()
            if not self._core.advance(self._jobs[-1], patient=True):
                raise self._core.machine.crash("wait() for a runlist that never ends: the process would hang")
        self._status = "idle"
        jobs, self._jobs = self._jobs, []
        for number, job in enumerate(jobs):
            if job.failed >= 0:
                first = number * CHAIN + job.failed
                for member in self._runs[first + 1 :]:
                    member._command.state = ABORT
                self._runs[first]._command.state = job.failure
                raise RuntimeError(f"runlist failed execution ({job.failure.name})")
