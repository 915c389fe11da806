"""What the stand-in for pyxrt notices: a test double that forgives would make the tests of the XRT device worthless."""

from __future__ import annotations

import re
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from interrupts import interrupts
from machine import Crash, Machine, install
from npu_faults import Fault
from npu_memory import FREED
from pybind_signatures import ALL
from signatures import MEASURED, Measured, outcome
from xrt_designs import ELEMENTS, Files, Loaded

STANDIN = Path(__file__).parent / "standin"

STARTED: Final = [0, 1, 2, 3]
OUTPUT: Final = [-5, -5, -5, -5]
"""The start of both buffers of a `Loaded`."""
ADDED: Final = [7, 8, 9, 10]
"""That of the second one after `add(7)` has run."""


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


def states(runs: list[Any]) -> list[str]:
    """Without the prefix that they all have."""
    return [run.state().name.removeprefix("ERT_CMD_STATE_") for run in runs]


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


# --- memory


def test_a_forgotten_sync_to_the_device(loaded: Loaded) -> None:
    loaded.write(loaded.x, 100, sync=False)
    loaded.launch()
    assert loaded.read(loaded.y) == ADDED


def test_a_forgotten_sync_from_the_device(loaded: Loaded) -> None:
    loaded.launch()
    assert loaded.head(loaded.y) == OUTPUT


def test_dirty_lines_end_up_on_the_result(machine: Machine, loaded: Loaded) -> None:
    loaded.host(loaded.y)[:2] = 1  # one line of 64 bytes
    loaded.launch()
    loaded.y.sync(loaded.from_device)
    expected = np.arange(ELEMENTS) + 7
    expected[:16] = [1, 1, *[-5] * 14]
    assert (loaded.host(loaded.y) == expected).all()
    assert machine.complaints == ["launch 0 wrote a buffer that had dirty lines in the cache"]


def test_a_late_sync_to_the_device_overwrites_the_result(loaded: Loaded) -> None:
    loaded.launch()
    loaded.y.sync(loaded.to_device)
    assert loaded.read(loaded.y) == OUTPUT


def test_a_view_does_not_keep_the_buffer(machine: Machine, loaded: Loaded) -> None:
    view = loaded.host(loaded.x)
    assert [int(value) for value in view[:4]] == STARTED
    del loaded.x
    assert (view.view(np.uint8) == FREED).all()
    assert machine.live_memories == 2


def test_groups_name_bank_and_context(machine: Machine, pyxrt: Any, loaded: Loaded) -> None:
    second = Loaded(pyxrt, loaded.device, loaded.files)
    assert [loaded.kernel.group_id(number) for number in (0, 1, 2, 3, 18, 19)] == [
        0x1FFFF,
        0x10001,
        0x1FFFF,
        0x10000,
        0x10000,
        0x1FFFF,
    ]
    assert second.kernel.group_id(3) == 0x20000
    loaded.launch(x=second.x)
    assert machine.complaints == ["a buffer object of context 2 is used in another one"]


# --- launches


def test_computes_when_the_launch_ends(loaded: Loaded) -> None:
    """A host that changes an input too early, or reads a result too early, gets wrong data."""
    run = loaded.run()
    run.start()
    assert loaded.read(loaded.y) == OUTPUT
    loaded.write(loaded.x, 100)
    run.wait()
    assert loaded.read(loaded.y) == [107] * 4


def test_contexts_run_in_order_but_not_with_each_other(machine: Machine, loaded: Loaded, affine_files: Files) -> None:
    other = Loaded(loaded.pyxrt, loaded.device, affine_files, (10, 0))
    first = loaded.run()
    second = other.run(x=loaded.y)
    third = loaded.run(x=loaded.y, y=loaded.x)
    first.start()
    second.start()
    third.start()
    second.wait()  # It did not wait for the first.
    assert other.read(other.y) == [-50] * 4
    third.wait()  # It did.
    assert loaded.read(loaded.x) == [14, 15, 16, 17]
    assert states([first]) == ["COMPLETED"]
    machine.complaints.clear()


def test_runtime_parameters_that_are_not_set(machine: Machine, pyxrt: Any, affine_files: Files) -> None:
    loaded = Loaded(pyxrt, pyxrt.device(0), affine_files, (3,))
    loaded.launch()
    noted(machine, "a runtime parameter was not set")


def test_instructions_that_were_not_synced(pyxrt: Any, loaded: Loaded) -> None:
    fresh = pyxrt.bo(loaded.device, loaded.size, pyxrt.bo.cacheable, loaded.kernel.group_id(1))
    np.frombuffer(fresh.map(), np.uint32)[:] = loaded.files.words
    run = loaded.run()
    run.set_arg(1, fresh)
    run.start()
    assert run.wait().name == "ERT_CMD_STATE_ERROR"


def test_instructions_of_another_kernel(machine: Machine, loaded: Loaded, affine_files: Files) -> None:
    """They write a parameter where this one has none."""
    other = Loaded(loaded.pyxrt, loaded.device, affine_files, (10, 0))
    run = loaded.run()
    run.set_arg(1, other.instructions)
    run.set_arg(2, other.size)
    run.start()
    assert run.wait().name == "ERT_CMD_STATE_ERROR"
    assert "these are not its instructions" in machine.complaints[0]


@pytest.mark.parametrize("wrong", ["no token", "tokens of two columns"])
def test_waiting_for_tokens_that_do_not_come(machine: Machine, loaded: Loaded, wrong: str) -> None:
    words = loaded.host(loaded.instructions).view(np.uint32)
    if wrong == "no token":
        pushes = np.flatnonzero(words == 24) - 1
        words[pushes] &= 0x7FFFFFFF
    else:
        words[-1] += 1 << 16
    loaded.instructions.sync(loaded.to_device)
    run = loaded.run()
    run.start()
    assert run.wait().name == "ERT_CMD_STATE_ERROR"
    assert "these are not its instructions" in machine.complaints[0]


def test_what_would_crash_at_start(machine: Machine, pyxrt: Any, loaded: Loaded) -> None:
    small = pyxrt.bo(loaded.device, 4 * ELEMENTS - 4, pyxrt.bo.host_only, 0)
    with crash(machine, "has 4092 bytes and needs 4096"):
        loaded.run(y=small).start()
    run = loaded.run()
    run.set_arg(2, loaded.size - 4)
    with crash(machine, "words of instructions"):
        run.start()
    run = loaded.run()
    run.set_arg(1, 0)
    with crash(machine, "without instructions"):
        run.start()
    with crash(machine, "set_arg(19) of a kernel with 19 arguments"):
        loaded.run().set_arg(19, loaded.x)


def test_a_run_does_not_keep_its_buffers(machine: Machine, pyxrt: Any, loaded: Loaded) -> None:
    gone = pyxrt.bo(loaded.device, 4 * ELEMENTS, pyxrt.bo.host_only, 0)
    run = loaded.run(y=gone)
    del gone
    with crash(machine, "was freed"):
        run.start()


def test_a_buffer_that_is_freed_under_way(machine: Machine, pyxrt: Any, loaded: Loaded) -> None:
    gone = pyxrt.bo(loaded.device, 4 * ELEMENTS, pyxrt.bo.host_only, 0)
    run = loaded.run(y=gone)
    run.start()
    del gone
    run.wait()
    assert "a buffer object was freed before launch 0 had ended" in machine.complaints


def test_arguments_that_change_under_way(machine: Machine, loaded: Loaded) -> None:
    run = loaded.run()
    run.start()
    run.set_arg(4, loaded.x)
    noted(machine, "while the run is under way")
    run.wait()


@pytest.mark.parametrize("polls", [0, 1])
def test_a_run_that_is_dropped_under_way(machine: Machine, loaded: Loaded, polls: int) -> None:
    machine.polls = 2
    run = loaded.run()
    run.start()
    for _ in range(polls):
        run.state()
    del run
    noted(machine, "the process would abort")


def test_waiting_for_what_never_ends(machine: Machine, pyxrt: Any, loaded: Loaded) -> None:
    run, listed = loaded.run(), pyxrt.runlist(loaded.context)
    listed.add(loaded.run())
    machine.inject(Fault.HANG)
    run.start()
    listed.execute()
    for waiting in (run, listed):
        with crash(machine, "never ends: the process would hang"):
            waiting.wait()
    loaded.context._core.queue[0].fault = None
    for waiting in (run, listed):
        waiting.wait()


def test_a_list_that_is_executed_while_it_runs(machine: Machine, pyxrt: Any, loaded: Loaded) -> None:
    listed, run = pyxrt.runlist(loaded.context), loaded.run()
    listed.add(run)
    listed.execute()
    with pytest.raises(RuntimeError, match="must be idle before submitting for execution, current state: running"):
        listed.execute()
    other = pyxrt.runlist(loaded.context)
    other.add(run)
    with crash(machine, "while one of its runs is under way"):
        other.execute()
    listed.wait()
    assert loaded.read(loaded.y) == ADDED


def test_a_list_of_another_context_crashes(machine: Machine, pyxrt: Any, loaded: Loaded) -> None:
    other = Loaded(pyxrt, loaded.device, loaded.files)
    with crash(machine, "a run of another context"):
        pyxrt.runlist(loaded.context).add(other.run())


@pytest.mark.parametrize("fault", [Fault.ERROR, Fault.TIMEOUT])
def test_a_list_that_fails(machine: Machine, pyxrt: Any, loaded: Loaded, fault: Fault) -> None:
    runs = [loaded.run() for _ in range(4)]
    listed, last = pyxrt.runlist(loaded.context), loaded.run()
    for run in runs:
        listed.add(run)
    machine.inject(fault, after=1)
    listed.execute()
    last.start()
    # After an error the context goes on, after a timeout it is loaded anew.
    assert states([last]) == ["COMPLETED" if fault is Fault.ERROR else "ABORT"]
    assert states(runs) == ["NEW", "NEW" if fault is Fault.ERROR else "TIMEOUT", "NEW", "NEW"]
    with pytest.raises(RuntimeError, match=rf"runlist failed execution \(ERT_CMD_STATE_{fault.name}\)"):
        listed.wait()
    assert states(runs) == ["NEW", fault.name, "ABORT", "ABORT"]
    listed.wait()
    loaded.write(loaded.y, -5)
    listed.execute()
    listed.wait()
    assert loaded.read(loaded.y) == ADDED


# --- contexts


def test_what_keeps_a_context(machine: Machine, pyxrt: Any, loaded: Loaded) -> None:
    run, listed = loaded.run(), pyxrt.runlist(loaded.context)
    loaded.context = None
    for _ in range(3):
        assert machine.live_contexts == 1
        if loaded.kernel is not None:
            loaded.kernel = None
        elif run is not None:
            run = None
        else:
            listed = None
    assert listed is None
    assert machine.live_contexts == 0


def test_a_gone_context_breaks_the_others_of_the_first_generation(
    first_generation: Machine, older_files: Files
) -> None:
    pyxrt: Any = sys.modules["pyxrt"]
    device = pyxrt.device(0)
    first, second = (Loaded(pyxrt, device, older_files) for _ in range(2))
    run = first.launch()
    assert first.read(first.y) == ADDED
    second.context = second.kernel = None
    with pytest.raises(RuntimeError, match=r"EXEC_CMD IOCTL failed \(err=-2\): No such file or directory"):
        run.start()
    anew = Loaded(pyxrt, device, older_files)
    anew.launch()
    assert anew.read(anew.y) == ADDED


def test_a_timeout_aborts_what_is_queued_behind_it(machine: Machine, pyxrt: Any, loaded: Loaded) -> None:
    first, second, listed = loaded.run(), loaded.run(), pyxrt.runlist(loaded.context)
    listed.add(loaded.run())
    machine.inject(Fault.TIMEOUT)
    first.start()
    second.start()
    listed.execute()
    assert states([first, second]) == ["TIMEOUT", "ABORT"]
    with pytest.raises(RuntimeError, match="ERT_CMD_STATE_ABORT"):
        listed.wait()
    second.start()
    assert states([second]) == ["COMPLETED"]
