"""Kernels, runs and lists of runs: the classes of pyxrt for them."""

from __future__ import annotations

from typing import Any, Final
from weakref import ref

from machine import current
from npu_contexts import Command, Core, Job
from pybind_signatures import Signatures, bound, index
from states import ABORT, NEW
from surface_device import bo, hw_context

__all__ = ["ext_kernel", "kernel", "run", "runlist"]

CHAIN: Final = 24
"""Runs of a list that are submitted at once (submit_size in core/common/api/xrt_kernel.cpp)."""


@bound("kernel")
class kernel:
    """What a context can run."""

    __slots__ = ("__weakref__", "_core", "_design")
    _INIT = Signatures("kernel.__init__", "hw_context: pyxrt.hw_context, name: str -> None")
    _GROUP = Signatures("kernel.group_id", "arg0: int32 -> int")

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        _, values = self._INIT.match(arguments, keywords)
        self._take(values[0], values[1], "xclbin")

    def _take(self, context: hw_context, name: str, format: str) -> None:
        core = context._check("kernel")
        core.check()
        if core.image.format != format:
            raise RuntimeError("Invalid API called for xrt::kernel creation")
        if name not in core.image.kernels:
            raise RuntimeError(f"No such kernel '{name}': Invalid argument")
        self._core, self._design = core, core.image.kernels[name]

    def group_id(self, *arguments: Any) -> int:
        """Where the buffer of an argument must be: the bank in bits 0 to 15, the context's number in 16 to 23."""
        _, (number,) = self._GROUP.match(arguments, {})
        image = self._core.image
        if image.format == "elf":
            return 0
        # The instructions lie in bank 1, buffers in bank 0; numbers have none.
        bank = 1 if number == 1 else 0 if 3 <= number < image.arguments else 0xFFFF
        return self._core.slot << 16 | bank


@bound("run")
class run:
    """One execution of a kernel, again and again."""

    __slots__ = ("__weakref__", "_arguments", "_command", "_core", "_in_progress", "_lists", "_machine")
    _INIT = Signatures("run.__init__", "-> None", "arg0: pyxrt.kernel -> None")
    _SET_ARG = Signatures("run.set_arg", "arg0: int32, arg1: pyxrt.bo -> None", "arg0: int32, arg1: int32 -> None")

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        overload, values = self._INIT.match(arguments, keywords)
        self._core: Core | None = None
        self._machine = current()
        self._command = Command(0)
        if overload:
            self._core = values[0]._core
            self._machine = self._core.machine
            self._command = Command(self._core.image.arguments, values[0]._design)
        self._arguments = self._command.arguments
        self._lists = 0
        self._in_progress = False

    def __del__(self) -> None:
        # XRT core/common/api/xrt_kernel.cpp, run_impl's destructor: only state() and wait() note that a run has ended.
        if getattr(self, "_in_progress", False):
            self._machine.crash("a run is dropped that was started and not seen to have ended: the process would abort")

    def start(self) -> None:
        """Submit it."""
        core, command = self._core, self._command
        if core is None:
            raise self._machine.crash("start of an empty run")
        if self._lists:
            raise RuntimeError("Run object belongs to a runlist and cannot be explicitly started: Invalid argument")
        if command.pending:
            raise RuntimeError("bad command state, can't launch")
        core.submit(command)
        self._in_progress = True

    def set_arg(self, number: Any, value: Any, /) -> None:
        """A buffer object or a number for one argument."""
        machine = self._machine
        given = ref(value._memory) if isinstance(value, bo) else index(value, -(1 << 31), (1 << 31) - 1)
        place = number if type(number) is int else index(number, -(1 << 31), (1 << 31) - 1)
        if place is None or given is None:
            raise self._SET_ARG.error((self, number, value))
        if self._core is None:
            raise machine.crash("set_arg of an empty run")
        if not 0 <= place < len(self._arguments):
            raise machine.crash(f"set_arg({place}) of a kernel with {len(self._arguments)} arguments")
        if self._command.pending:
            machine.crash(f"set_arg({place}) while the run is under way: which value it gets is not defined")
        self._arguments[place] = given

    def state(self) -> Any:
        """Of the last start. A run of a runlist has none of its own until the list has failed."""
        command = self._command
        if command.pending:
            core: Any = self._core
            core.check()
            core.advance(command)
        elif self._core is None:
            raise self._machine.crash("state of an empty run")
        self._in_progress = command.pending
        return command.state

    def wait(self) -> Any:
        """Until it has ended."""
        core, command = self._core, self._command
        if core is None:
            raise self._machine.crash("wait of an empty run")
        if command.pending:
            core.check()
            if not core.advance(command, patient=True):
                raise self._machine.crash("wait() for a run that never ends: the process would hang")
        self._in_progress = False
        return command.state


Signatures("run.start", "-> None")
Signatures("run.state", "-> pyxrt.ert_cmd_state")
Signatures("run.wait", "-> pyxrt.ert_cmd_state")


@bound("runlist")
class runlist:
    """Runs of one context that are submitted together."""

    __slots__ = ("__weakref__", "_core", "_jobs", "_runs", "_status")
    _INIT = Signatures("runlist.__init__", "-> None", "hwctx: pyxrt.hw_context -> None")
    _ADD = Signatures("runlist.add", "run: pyxrt.run -> None")
    _WAIT = Signatures("runlist.wait", "-> None", "timeout: std::chrono::milliseconds -> std::cv_status")

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        overload, values = self._INIT.match(arguments, keywords)
        self._core: Core | None = values[0]._check("runlist") if overload else None
        self._runs: list[run] = []
        self._jobs: list[Job] = []
        self._status = "idle"

    def __del__(self) -> None:
        for member in getattr(self, "_runs", ()):
            member._lists -= 1

    def add(self, *arguments: Any, **keywords: Any) -> None:
        """Append a run, which cannot be started by itself from now on."""
        _, (member,) = self._ADD.match(arguments, keywords)
        core = self._core
        if core is None:
            raise RuntimeError("cannot add run object to uninitialized runlist: Invalid argument")
        if member._core is not core:
            raise core.machine.crash("a runlist with a run of another context")
        if self._status != "idle":
            raise RuntimeError(
                f"runlist must be idle before adding run objects, current state: {self._status}: Invalid argument"
            )
        member._lists += 1
        self._runs.append(member)

    def execute(self) -> None:
        """Submit all, 24 at a time. Until the list was waited for, it cannot be executed again."""
        core = self._core
        if core is None:
            raise current().crash("execute of an empty runlist")
        if self._status != "idle":
            raise RuntimeError(
                f"runlist must be idle before submitting for execution, current state: {self._status}: Invalid argument"
            )
        if not self._runs:
            return
        commands = [member._command for member in self._runs]
        if any(command.pending for command in commands):
            raise core.machine.crash("a runlist is executed while one of its runs is under way")
        for command in commands:
            command.state = NEW
        self._jobs = []
        self._status = "running"  # also if submitting fails: wait() says what became of it
        for start in range(0, len(commands), CHAIN):
            job = Job(commands[start : start + CHAIN], core.machine.polls)
            core.submit(job)
            self._jobs.append(job)

    def wait(self, *arguments: Any, **keywords: Any) -> None:
        """Until all have ended; raises if one failed. The one with a timeout cannot be called.

        After a failure the run that failed has its state, those behind it are ABORT, those before it NEW.
        """
        self._WAIT.match(arguments, keywords)
        core = self._core
        if core is None:
            raise current().crash("wait of an empty runlist")
        if self._status != "running":
            return
        if self._jobs:
            core.check()
            if not core.advance(self._jobs[-1], patient=True):
                raise core.machine.crash("wait() for a runlist that never ends: the process would hang")
        self._status = "idle"
        for number, job in enumerate(self._jobs):
            if job.failed >= 0:
                first = number * CHAIN + job.failed
                for member in self._runs[first + 1 :]:
                    member._command.state = ABORT
                self._runs[first]._command.state = job.failure
                raise RuntimeError(f"runlist failed execution ({job.failure.name})")


Signatures("runlist.execute", "-> None")


@bound("ext.kernel")
class ext_kernel(kernel):
    """A kernel of a full ELF."""

    __slots__ = ()
    _EXT = Signatures("ext.kernel.__init__", "hwctx: pyxrt.hw_context, name: str -> None")

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        _, values = self._EXT.match(arguments, keywords)
        self._take(values[0], values[-1], "elf")
