"""Launches on the stand-in for pyxrt: what runs, when, and what would crash."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from machine import Fault, Machine
from standin_checks import ADDED, OUTPUT, STARTED, crash, noted, states
from xrt_designs import ELEMENTS, Files, Loaded


def test_runs_the_kernel_of_the_xclbin(machine: Machine, loaded: Loaded) -> None:
    run = loaded.run()
    run.start()
    assert run.state() == loaded.pyxrt.ert_cmd_state.ERT_CMD_STATE_COMPLETED
    assert loaded.read(loaded.y) == ADDED
    assert (loaded.host(loaded.y) == np.arange(ELEMENTS) + 7).all()
    assert not machine.warnings
    assert not machine.failures


def test_states_of_a_run(machine: Machine, loaded: Loaded) -> None:
    machine.polls = 2
    run = loaded.run()
    assert run.state().name == "ERT_CMD_STATE_NEW"
    run.start()
    assert [run.state().name.removeprefix("ERT_CMD_STATE_") for _ in range(4)] == [
        "SUBMITTED",
        "SUBMITTED",
        "COMPLETED",
        "COMPLETED",
    ]


def test_a_run_is_started_again_only_after_it_was_seen_to_end(loaded: Loaded) -> None:
    run = loaded.run()
    run.start()
    with pytest.raises(RuntimeError, match="bad command state, can't launch"):
        run.start()
    run.wait()
    run.start()
    run.wait()


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
    machine.warnings.clear()


def test_a_run_ends_without_those_behind_it(loaded: Loaded) -> None:
    first, second = loaded.run(), loaded.run(loaded.y, loaded.x)
    first.start()
    second.start()
    assert states([first]) == ["COMPLETED"]
    assert loaded.read(loaded.x) == STARTED
    assert states([second]) == ["COMPLETED"]
    assert loaded.read(loaded.x) == [14, 15, 16, 17]


def test_runtime_parameters_come_from_the_instructions(pyxrt: Any, affine_files: Files) -> None:
    loaded = Loaded(pyxrt, pyxrt.device(0), affine_files, (3, -2))
    run = loaded.run()
    run.start()
    run.wait()
    assert loaded.read(loaded.y) == [-2, 1, 4, 7]


def test_runtime_parameters_that_are_not_set(machine: Machine, pyxrt: Any, affine_files: Files) -> None:
    loaded = Loaded(pyxrt, pyxrt.device(0), affine_files, (3,))
    run = loaded.run()
    run.start()
    run.wait()
    noted(machine, "a runtime parameter was not set")


def test_instructions_of_another_kernel(machine: Machine, loaded: Loaded, affine_files: Files) -> None:
    words = affine_files.words
    other = loaded.pyxrt.bo(loaded.device, words.nbytes, loaded.pyxrt.bo.cacheable, loaded.kernel.group_id(1))
    np.frombuffer(other.map(), np.uint32)[:] = words
    other.sync(loaded.to_device)
    run = loaded.run()
    run.set_arg(1, other)
    run.set_arg(2, words.nbytes)
    run.start()
    assert run.wait().name == "ERT_CMD_STATE_ERROR"
    assert machine.failures == ["add_7: these are not its instructions"]


def test_instructions_that_were_not_synced(pyxrt: Any, loaded: Loaded) -> None:
    fresh = pyxrt.bo(loaded.device, loaded.size, pyxrt.bo.cacheable, loaded.kernel.group_id(1))
    np.frombuffer(fresh.map(), np.uint32)[:] = loaded.files.words
    run = loaded.run()
    run.set_arg(1, fresh)
    run.start()
    assert run.wait().name == "ERT_CMD_STATE_ERROR"


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
    assert "a buffer object was freed before launch 0 had ended" in machine.warnings


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


# --- runlists


def test_a_run_in_a_list_cannot_be_started(pyxrt: Any, loaded: Loaded) -> None:
    run, listed = loaded.run(), pyxrt.runlist(loaded.context)
    listed.add(run)
    with pytest.raises(RuntimeError, match="belongs to a runlist and cannot be explicitly started"):
        run.start()
    del listed
    run.start()
    run.wait()


def test_a_list_runs_in_order(machine: Machine, pyxrt: Any, loaded: Loaded) -> None:
    runs = [loaded.run(), loaded.run(loaded.y, loaded.x)] * 2
    listed = pyxrt.runlist(loaded.context)
    for run in dict.fromkeys(runs):
        listed.add(run)
    listed.execute()
    for call in (listed.execute, partial(listed.add, runs[0])):
        with pytest.raises(RuntimeError, match=r"runlist must be idle .* current state: running"):
            call()
    # The driver keeps no state for each run of a list.
    assert runs[0].state().name == "ERT_CMD_STATE_NEW"
    listed.wait()
    assert [run.state().name for run in runs[:2]] == ["ERT_CMD_STATE_NEW"] * 2
    assert loaded.read(loaded.x) == [14, 15, 16, 17]
    listed.execute()
    listed.wait()
    assert loaded.read(loaded.x) == [28, 29, 30, 31]
    assert (machine.launches, machine.submissions) == (4, 2)


def test_polling_a_later_run_lets_the_list_end(pyxrt: Any, loaded: Loaded) -> None:
    listed, last = pyxrt.runlist(loaded.context), loaded.run(loaded.y, loaded.x)
    listed.add(loaded.run())
    listed.execute()
    last.start()
    assert last.state().name == "ERT_CMD_STATE_COMPLETED"
    assert loaded.read(loaded.x) == [14, 15, 16, 17]
    listed.wait()


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


def test_a_long_list_is_submitted_in_chunks(machine: Machine, pyxrt: Any, loaded: Loaded) -> None:
    """What failed in one does not stop the next."""
    listed = pyxrt.runlist(loaded.context)
    runs = [loaded.run() for _ in range(25)]
    for run in runs:
        listed.add(run)
    machine.inject(Fault.ERROR, after=3)
    listed.execute()
    assert machine.submissions == 2
    with pytest.raises(RuntimeError, match="ERT_CMD_STATE_ERROR"):
        listed.wait()
    assert states(runs) == [*["NEW"] * 3, "ERROR", *["ABORT"] * 21]
    assert loaded.read(loaded.y) == ADDED  # by the last run


def test_a_list_that_is_refused(machine: Machine, pyxrt: Any, loaded: Loaded) -> None:
    listed = pyxrt.runlist(loaded.context)
    listed.add(loaded.run())
    machine.inject(Fault.START)
    with pytest.raises(RuntimeError, match="err=-5"):
        listed.execute()
    with pytest.raises(RuntimeError, match="current state: running"):
        listed.execute()
    listed.wait()
    listed.execute()
    listed.wait()
    assert loaded.read(loaded.y) == ADDED
