"""The stand-in for pyxrt itself: a test double that forgives would make the tests of the XRT device worthless."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from interrupts import interrupts
from machine import Machine, Npu, install
from pybind_signatures import ALL
from signatures import MEASURED, Measured, outcome
from standin_checks import ADDED, OUTPUT, crash, states
from xrt_designs import ELEMENTS, Files, Loaded

STANDIN = Path(__file__).parent / "standin"


@pytest.mark.parametrize("measured", MEASURED, ids=lambda measured: measured.expression)
def test_measured(measured: Measured) -> None:
    """It does what the real module was measured to do without an NPU."""
    with install(Machine([])) as standin:
        assert outcome(standin, measured.expression).startswith(measured.outcome)


@pytest.mark.parametrize("name", sorted(ALL))
def test_wrong_arguments_are_type_errors(loaded: Loaded, name: str) -> None:
    pyxrt = loaded.pyxrt
    image = pyxrt.xclbin(str(loaded.files.paths[".xclbin"]))
    objects = {
        "uuid": image.get_uuid(),
        "xclbin": image,
        "xclbin.xclbinkernel": image.get_kernels()[0],
        "device": loaded.device,
        "hw_context": loaded.context,
        "kernel": loaded.kernel,
        "run": loaded.run(),
        "runlist": pyxrt.runlist(loaded.context),
        "bo": loaded.x,
    }
    owner, _, function = name.rpartition(".")
    if function == "__init__":
        called: Callable[..., Any] = eval(f"x.{owner}", {"x": pyxrt})
    else:
        called = getattr(objects.get(owner, pyxrt), function)
    wrong = object()
    lengths = {len(overload.parameters) for overload in ALL[name].overloads}
    for length in {*lengths, max(lengths) + 1} - {0}:
        with pytest.raises(TypeError):
            called(*[wrong] * length)
        with pytest.raises(TypeError):
            called(*[None] * length)
    with pytest.raises(TypeError):
        called(no_such_keyword=wrong)


def test_it_is_importable_only_while_it_is_installed() -> None:
    before = sys.modules.get("pyxrt")
    with install(Machine()) as standin:
        assert sys.modules["pyxrt"] is standin
    assert sys.modules.get("pyxrt") is before
    assert str(STANDIN) not in sys.path


def test_enumerates_and_opens_by_index() -> None:
    with install(Machine([Npu("RyzenAI-npu4", "0000:c6:00.1"), Npu("NPU Phoenix", "0000:c4:00.1")])) as pyxrt:
        assert pyxrt.enumerate_devices() == 2
        name = pyxrt.xrt_info_device.name
        assert [pyxrt.device(number).get_info(name) for number in range(2)] == ["RyzenAI-npu4", "NPU Phoenix"]
        with pytest.raises(RuntimeError, match="No such device with index '2'"):
            pyxrt.device(2)


def test_empty_handles_crash(machine: Machine, pyxrt: Any) -> None:
    for expression in (
        "device().get_info(x.xrt_info_device.name)",
        "device().register_xclbin(x.xclbin())",
        "hw_context(x.device(), x.uuid('0'))",
        "kernel(x.hw_context(), 'MLIR_AIE')",
        "bo(x.device(), 64, x.bo.host_only, 0)",
        "run().start()",
        "run().state()",
        "run().wait()",
        "run().set_arg(0, 1)",
        "runlist(x.hw_context())",
        "runlist().execute()",
        "runlist().wait()",
    ):
        with crash(machine, "empty"):
            eval(f"x.{expression}", {"x": pyxrt})


# --- what is counted


def test_counters(machine: Machine, loaded: Loaded) -> None:
    assert (machine.contexts_made, machine.live_contexts, machine.live_bos) == (1, 1, 3)
    assert (machine.to_device, machine.from_device, machine.launches) == (3, 0, 0)
    run = loaded.run()
    assert machine.set_args == 5
    for _ in range(3):
        run.start()
        run.state()
    loaded.read(loaded.y)
    assert (machine.launches, machine.submissions, machine.state_polls) == (3, 3, 3)
    assert (machine.to_device, machine.from_device) == (3, 1)
    assert machine.live_bytes == 8 * ELEMENTS + loaded.size


def test_empty_kernels(machine: Machine, pyxrt: Any, loaded: Loaded) -> None:
    machine.compute = False
    run, listed = loaded.run(), pyxrt.runlist(loaded.context)
    listed.add(loaded.run())
    run.start()
    listed.execute()
    listed.wait()
    assert states([run]) == ["COMPLETED"]
    assert loaded.read(loaded.y) == OUTPUT
    machine.compute = True
    assert loaded.read(loaded.y) == OUTPUT
    assert (machine.launches, machine.from_device) == (2, 2)


def test_interrupts_come_between_calls(machine: Machine, loaded: Loaded) -> None:
    """As with a module in C++: a run is either started or it is not."""
    machine.compute = False
    run = loaded.run()
    interrupted = 0
    for number in range(100):
        try:
            with interrupts(after=0.0002 + number * 1e-6):
                for _ in range(100_000):  # seconds: Python drops an interrupt that comes while it cleans up
                    run.start()
                    run.state()
        except KeyboardInterrupt as error:
            interrupted += 1
            places = {Path(frame.filename).parent for frame in traceback.extract_tb(error.__traceback__)[:-1]}
            assert STANDIN not in places
        run.state()
    assert interrupted > 90


# --- full ELFs


def test_a_full_elf(pyxrt: Any, elf_files: Files) -> None:
    paths = elf_files.paths
    assert list(paths) == [".elf"]
    device, image = pyxrt.device(0), pyxrt.elf(str(paths[".elf"]))
    context = pyxrt.hw_context(device, image)
    with pytest.raises(RuntimeError, match="No such kernel"):
        pyxrt.ext.kernel(context, "MLIR_AIE")
    kernel = pyxrt.ext.kernel(context, "main:sequence")
    x, y = (pyxrt.bo(device, 4 * ELEMENTS, pyxrt.bo.host_only, 0) for _ in range(2))
    for bo, values in ((x, np.arange(ELEMENTS)), (y, -5)):
        np.frombuffer(bo.map(), np.int32)[:] = values
        bo.sync(pyxrt.xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE)
    run = pyxrt.run(kernel)
    run.set_arg(0, x)
    run.set_arg(1, y)
    run.start()
    assert states([run]) == ["COMPLETED"]
    y.sync(pyxrt.xclBOSyncDirection.XCL_BO_SYNC_BO_FROM_DEVICE)
    assert np.frombuffer(y.map(), np.int32)[:4].tolist() == ADDED
    with pytest.raises(RuntimeError, match="Invalid xclbin"):
        pyxrt.xclbin(str(paths[".elf"]))


def test_a_machine_for_other_processes() -> None:
    program = "import pyxrt; print([pyxrt.device(n).get_info(pyxrt.xrt_info_device.name) for n in (0, 1)])"
    said = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(STANDIN), "STANDIN_NPUS": "RyzenAI-npu4,RyzenAI-npu1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(said.stdout.replace("'", '"')) == ["RyzenAI-npu4", "RyzenAI-npu1"]
