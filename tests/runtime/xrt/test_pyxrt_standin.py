"""What the stand-in for pyxrt notices: a test double that forgives would make the tests of the XRT device worthless.

Its faults, and that memory is used while a run needs it, are shown in tests/runtime/npu/test_faulty_npu.py.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest
from backend import StandinBackend
from machine import Crash, Machine, install
from npu_faults import Fault
from pybind import texts
from running import needs_compiler
from signatures import MEASURED, Measured, outcome
from xrt_designs import ELEMENTS, add, affine

from npu_tensor.dataflow.design import Design
from npu_tensor.runtime.build.instructions import instructions
from npu_tensor.runtime.build.iron_program import marker
from npu_tensor.runtime.store.requests import Request

pytestmark = [needs_compiler, pytest.mark.usefixtures("less_optimised")]

OUTPUT: Final = [-5, -5, -5, -5]
"""The start of the second buffer of a `Loaded`."""
ADDED: Final = [7, 8, 9, 10]
"""The same after `add(7)` has run."""


class Loaded:
    """A context with a kernel, its instructions and two buffers, all synced; x holds 0, 1, 2, ... and y holds -5.

    parameters: words to put into the instructions.
    """

    def __init__(self, device: Any, design: Design, directory: Path, parameters: tuple[int, ...] = ()) -> None:
        self.pyxrt, self.device = sys.modules["pyxrt"], device
        files = StandinBackend().build(Request(design.name, design), directory)
        self.image = self.pyxrt.xclbin(str(files[".xclbin"]))
        device.register_xclbin(self.image)
        self.context = self.pyxrt.hw_context(device, self.image.get_uuid())
        self.kernel = self.pyxrt.kernel(self.context, "MLIR_AIE")
        words = instructions(design, json.loads(files["_parameters.json"].read_text("utf-8")))
        for number, value in enumerate(np.array(parameters, np.int32).view(np.uint32)):
            words[words == marker(0, number)] = value
        self.instructions = self.buffer(words.nbytes, 1)
        self.write(self.instructions, words.view(np.int32))
        self.size = words.nbytes
        self.x, self.y = self.buffer(), self.buffer()
        self.write(self.x, np.arange(ELEMENTS))
        self.write(self.y, -5)

    def buffer(self, nbytes: int = 4 * ELEMENTS, argument: int = 3) -> Any:
        return self.pyxrt.bo(self.device, nbytes, self.pyxrt.bo.flags.host_only, self.kernel.group_id(argument))

    def write(self, bo: Any, values: npt.ArrayLike) -> None:
        np.frombuffer(bo.map(), np.int32)[:] = values
        bo.sync(self.pyxrt.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE)

    def read(self, bo: Any) -> list[int]:
        """The start of what the device has."""
        bo.sync(self.pyxrt.xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE)
        return [int(value) for value in np.frombuffer(bo.map(), np.int32)[:4]]

    def run(self, **others: Any) -> Any:
        """A run with all arguments set: its own, or `others` by their names."""
        run = self.pyxrt.run(self.kernel)
        own = {"opcode": 3, "instructions": self.instructions, "size": self.size, "x": self.x, "y": self.y}
        for number, argument in enumerate((own | others).values()):
            run.set_arg(number, argument)
        return run

    def runlist(self, *runs: Any) -> Any:
        runlist = self.pyxrt.runlist(self.context)
        for run in runs:
            runlist.add(run)
        return runlist


@pytest.fixture
def opened(machine: Machine) -> Any:
    return sys.modules["pyxrt"].device(0)


@pytest.fixture
def loaded(opened: Any, tmp_path: Path) -> Loaded:
    """A kernel that adds 7."""
    return Loaded(opened, add(7), tmp_path)


@pytest.fixture
def other(opened: Any, tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """A kernel that multiplies by 10, in another context."""
    return Loaded(opened, affine(), tmp_path_factory.mktemp("affine"), (10, 0))


@contextmanager
def crash(machine: Machine, about: str) -> Iterator[None]:
    """Expect a misuse to be noticed, and let the test go on."""
    with pytest.raises(Crash, match=re.escape(about)):
        yield
    noted(machine, about)


def noted(machine: Machine, about: str) -> None:
    """Expect that one misuse was noted, and forget it."""
    assert about in machine.crashes.pop(), machine.crashes
    assert not machine.crashes


def states(*runs: Any) -> list[str]:
    """Without the prefix that they all have."""
    return [run.state().name.removeprefix("ERT_CMD_STATE_") for run in runs]


@pytest.mark.parametrize("measured", MEASURED, ids=lambda measured: measured.expression)
def test_measured(measured: Measured) -> None:
    """It does what the real module was measured to do without an NPU."""
    with install(Machine([])) as standin:
        assert outcome(standin, measured.expression).startswith(measured.outcome)


def test_wrong_arguments_are_type_errors(loaded: Loaded) -> None:
    (kernel,) = loaded.image.get_kernels()
    objects = (loaded.image, kernel, loaded.device, loaded.kernel, loaded.run(), loaded.runlist(), loaded.x)
    for name, overloads in texts().items():
        owner, _, function = name.rpartition(".")
        called = eval(f"x.{owner}" if owner else "x", {"x": loaded.pyxrt})
        if function != "__init__":
            called = getattr(next((each for each in objects if type(each) is called), called), function)
        count = overloads[0].count(": ") - bool(owner)
        for wrong in (object(), None, 1.5):
            for length in {count, count + 1} - {0}:
                with pytest.raises(TypeError):
                    called(*[wrong] * length)


def test_groups_name_bank_and_context(machine: Machine, loaded: Loaded, other: Loaded) -> None:
    groups = [loaded.kernel.group_id(number) for number in (0, 1, 2, 3, 18, 19)]
    assert groups == [0x1FFFF, 0x10001, 0x1FFFF, 0x10000, 0x10000, 0x1FFFF]
    assert other.kernel.group_id(3) == 0x20000
    run = loaded.run(x=other.x)
    run.start()
    assert machine.complaints == ["a buffer object of context 2 is used in another one"]
    run.state()


# --- launches


def test_computes_when_the_launch_ends(loaded: Loaded) -> None:
    """A host that changes an input too early, or reads a result too early, gets wrong data."""
    run = loaded.run()
    run.start()
    assert loaded.read(loaded.y) == OUTPUT
    loaded.write(loaded.x, 100)
    assert states(run) == ["COMPLETED"]
    assert loaded.read(loaded.y) == [107] * 4


def test_contexts_run_in_order_but_not_with_each_other(machine: Machine, loaded: Loaded, other: Loaded) -> None:
    first, second, third = loaded.run(), other.run(x=loaded.y), loaded.run(x=loaded.y, y=loaded.x)
    for run in (first, second, third):
        run.start()
    assert states(second) == ["COMPLETED"]  # It did not wait for the first.
    assert other.read(other.y) == [-50] * 4
    assert states(third) == ["COMPLETED"]  # It did.
    assert loaded.read(loaded.x) == [14, 15, 16, 17]
    assert states(first) == ["COMPLETED"]


def test_runtime_parameters_that_are_not_set(machine: Machine, opened: Any, tmp_path: Path) -> None:
    loaded = Loaded(opened, affine(), tmp_path, (3,))
    run = loaded.run()
    run.start()
    noted(machine, "a runtime parameter was not set")
    run.state()


@pytest.mark.parametrize("wrong", ["not synced", "of another kernel", "no token", "tokens of two columns"])
def test_instructions_that_the_controller_stops_at(machine: Machine, loaded: Loaded, other: Loaded, wrong: str) -> None:
    instructions = other.instructions if wrong == "of another kernel" else loaded.buffer(loaded.size, 1)
    if instructions is not other.instructions:
        words = np.frombuffer(loaded.instructions.map(), np.uint32).copy()
        if wrong == "no token":
            words[np.flatnonzero(words == 24) - 1] &= 0x7FFFFFFF
        elif wrong == "tokens of two columns":
            words[-1] += 1 << 16
        np.frombuffer(instructions.map(), np.uint32)[:] = words
        if wrong != "not synced":
            instructions.sync(loaded.pyxrt.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE)
    run = loaded.run(instructions=instructions)
    run.start()
    assert states(run) == ["ERROR"]
    assert "these are not its instructions" in machine.complaints[0]


def test_what_would_crash_at_start(machine: Machine, loaded: Loaded) -> None:
    for others, about in (
        ({"y": loaded.buffer(4 * ELEMENTS - 4)}, "has 4092 bytes and needs 4096"),
        ({"size": loaded.size - 4}, "words of instructions"),
        ({"instructions": 0}, "without instructions"),
    ):
        with crash(machine, about):
            loaded.run(**others).start()
    with crash(machine, "set_arg(19) of a kernel with 19 arguments"):
        loaded.run().set_arg(19, loaded.x)
    run = loaded.run(y=loaded.buffer())  # It does not keep that.
    with crash(machine, "was freed"):
        run.start()


def test_what_changes_under_way(machine: Machine, loaded: Loaded) -> None:
    gone = loaded.buffer()
    run = loaded.run(y=gone)
    run.start()
    run.set_arg(4, gone)
    noted(machine, "while the run is under way")
    del gone
    run.state()
    assert "a buffer object was freed before launch 0 had ended" in machine.complaints


@pytest.mark.parametrize("polls", [0, 1])
def test_a_run_that_is_dropped_under_way(machine: Machine, loaded: Loaded, polls: int) -> None:
    machine.polls = 2
    run = loaded.run()
    run.start()
    for _ in range(polls):
        run.state()
    del run
    noted(machine, "the process would abort")


# --- lists of runs


def test_a_list_is_under_way_until_it_was_waited_for(machine: Machine, loaded: Loaded, other: Loaded) -> None:
    run = loaded.run()
    listed = loaded.runlist(run)
    listed.execute()
    with pytest.raises(RuntimeError, match="must be idle before submitting for execution, current state: running"):
        listed.execute()
    with pytest.raises(RuntimeError, match="belongs to a runlist and cannot be explicitly started"):
        run.start()
    with crash(machine, "while one of its runs is under way"):
        loaded.runlist(run).execute()
    with crash(machine, "a run of another context"):
        loaded.runlist(other.run())
    listed.wait()
    assert loaded.read(loaded.y) == ADDED


def test_waiting_for_what_never_ends(machine: Machine, loaded: Loaded) -> None:
    listed = loaded.runlist(loaded.run())
    machine.inject(Fault.HANG)
    listed.execute()
    with crash(machine, "never ends: the process would hang"):
        listed.wait()


@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.TIMEOUT])
def test_a_list_that_fails(machine: Machine, loaded: Loaded, fault: Fault) -> None:
    runs = [loaded.run() for _ in range(4)]
    listed, last = loaded.runlist(*runs), loaded.run()
    machine.inject(fault, after=1)
    listed.execute()
    last.start()
    # After an error the context goes on, after a timeout it is loaded anew.
    assert states(last) == ["COMPLETED" if fault is Fault.ERROR else "ABORT"]
    assert states(*runs) == ["NEW", "NEW" if fault is Fault.ERROR else "TIMEOUT", "NEW", "NEW"]
    with pytest.raises(RuntimeError, match=rf"runlist failed execution \(ERT_CMD_STATE_{fault.name}\)"):
        listed.wait()
    assert states(*runs) == ["NEW", fault.name, "ABORT", "ABORT"]
    loaded.write(loaded.y, -5)
    listed.execute()
    listed.wait()
    assert loaded.read(loaded.y) == ADDED


# --- contexts


def test_what_keeps_a_context(machine: Machine, loaded: Loaded) -> None:
    kept = [loaded.context, loaded.kernel, loaded.run(), loaded.runlist()]
    loaded.context = loaded.kernel = None
    while kept:
        assert machine.live_contexts == 1
        kept.pop()
    assert machine.live_contexts == 0


def test_a_gone_context_breaks_the_others_of_the_first_generation(first_generation: Machine, tmp_path: Path) -> None:
    device = sys.modules["pyxrt"].device(0)
    first, second = (Loaded(device, add(7, "aie2"), tmp_path) for _ in range(2))
    run = first.run()
    run.start()
    assert states(run) == ["COMPLETED"]
    second.context = second.kernel = None
    with pytest.raises(RuntimeError, match=r"EXEC_CMD IOCTL failed \(err=-2\): No such file or directory"):
        run.start()


def test_a_timeout_aborts_what_is_queued_behind_it(machine: Machine, loaded: Loaded) -> None:
    first, second, listed = loaded.run(), loaded.run(), loaded.runlist(loaded.run())
    machine.inject(Fault.TIMEOUT)
    first.start()
    second.start()
    listed.execute()
    assert states(first, second) == ["TIMEOUT", "ABORT"]
    with pytest.raises(RuntimeError, match="ERT_CMD_STATE_ABORT"):
        listed.wait()
    second.start()
    assert states(second) == ["COMPLETED"]
