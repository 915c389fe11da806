"""Checks of the stand-in for pyxrt, which must detect misuse that breaks the real module."""

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
    """The stand-in behaves like the real module without an NPU, as measured."""
    with install(Machine([])) as standin:
        assert outcome(standin, measured.expression).startswith(measured.outcome)


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


# --- contexts


def test_a_gone_context_breaks_the_others_of_the_first_generation(first_generation: Machine, tmp_path: Path) -> None:
    device = sys.modules["pyxrt"].device(0)
    first, second = (Loaded(device, add(7, "aie2"), tmp_path) for _ in range(2))
    run = first.run()
    run.start()
    assert states(run) == ["COMPLETED"]
    second.context = second.kernel = None
    with pytest.raises(RuntimeError, match=r"EXEC_CMD IOCTL failed \(err=-2\): No such file or directory"):
        run.start()
