"""Contexts and faults of the stand-in for pyxrt."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from machine import Fault, Machine, Npu, install
from standin_checks import ADDED, crash, noted, states
from xrt_designs import Files, Loaded

STANDIN = Path(__file__).parent / "standin"


@pytest.mark.parametrize(("number", "text"), [(28, "No space left on device"), (22, "Invalid argument")])
def test_one_context_too_many(files: Files, number: int, text: str) -> None:
    machine = Machine([Npu(context_limit=2, refusal=number), Npu(bdf="0000:c7:00.1")])
    with install(machine) as pyxrt:
        device = pyxrt.device(0)
        loaded = [Loaded(pyxrt, device, files) for _ in range(2)]
        with pytest.raises(RuntimeError, match=rf"CREATE_HWCTX IOCTL failed \(err=-{number}\): {text}"):
            Loaded(pyxrt, device, files)
        Loaded(pyxrt, pyxrt.device(1), files)
        assert machine.live_contexts == 2
        loaded.pop()
        Loaded(pyxrt, device, files)
        assert machine.contexts_made == 4


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


def test_buffers_outlive_contexts(pyxrt: Any, loaded: Loaded) -> None:
    loaded.kernel = loaded.context = None
    other = Loaded(pyxrt, loaded.device, loaded.files)
    run = other.run(x=loaded.x)
    run.start()
    run.wait()
    assert other.read(other.y) == ADDED


def test_a_gone_context_breaks_the_others_of_the_first_generation(
    first_generation: Machine, older_files: Files
) -> None:
    pyxrt: Any = sys.modules["pyxrt"]
    device = pyxrt.device(0)
    first, second = (Loaded(pyxrt, device, older_files) for _ in range(2))
    run = first.run()
    run.start()
    run.wait()
    assert first.read(first.y) == ADDED
    second.context = second.kernel = None
    with pytest.raises(RuntimeError, match=r"EXEC_CMD IOCTL failed \(err=-2\): No such file or directory"):
        run.start()
    anew = Loaded(pyxrt, device, older_files)
    run = anew.run()
    run.start()
    run.wait()
    assert anew.read(anew.y) == ADDED


def test_a_context_needs_an_image_that_is_registered(pyxrt: Any, files: Files) -> None:
    device, image = pyxrt.device(0), pyxrt.xclbin(str(files.paths[".xclbin"]))
    with pytest.raises(RuntimeError, match="No such xclbin"):
        pyxrt.hw_context(device, image.get_uuid())
    device.register_xclbin(image)
    (described,) = image.get_kernels()
    assert (described.get_name(), described.get_num_args()) == ("MLIR_AIE", 19)
    with pytest.raises(RuntimeError, match="No such kernel 'other'"):
        pyxrt.kernel(pyxrt.hw_context(device, image.get_uuid()), "other")


def test_processes_share_the_limit(tmp_path: Path, files: Files) -> None:
    contexts = tmp_path / "contexts"
    contexts.mkdir()
    program = f"""
import sys
sys.path.insert(0, {str(STANDIN)!r})
from pathlib import Path
from machine import Machine, Npu, install
with install(Machine([Npu(context_limit=2, contexts=Path({str(contexts)!r}))])) as pyxrt:
    device = pyxrt.device(0)
    context = pyxrt.hw_context(device, device.register_xclbin(pyxrt.xclbin({str(files.paths[".xclbin"])!r})))
    print("made", flush=True)
    sys.stdin.read()
"""
    npu = Npu(context_limit=2, contexts=contexts)
    with install(Machine([npu])) as pyxrt:
        device = pyxrt.device(0)
        loads = partial(pyxrt.hw_context, device, device.register_xclbin(pyxrt.xclbin(str(files.paths[".xclbin"]))))
        with subprocess.Popen(
            [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "made\n"
            context = loads()
            with pytest.raises(RuntimeError, match="err=-28"):
                loads()
            other.kill()
        second = loads()
        assert len(list(contexts.iterdir())) == 2
        del context, second
        assert not list(contexts.iterdir())


# --- what goes wrong


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


def test_a_hang(machine: Machine, pyxrt: Any, loaded: Loaded) -> None:
    run, behind = loaded.run(), loaded.run()
    machine.inject(Fault.HANG)
    run.start()
    behind.start()
    assert states([run, behind, run]) == ["SUBMITTED"] * 3
    with crash(machine, "the process would hang"):
        behind.wait()
    other = Loaded(pyxrt, loaded.device, loaded.files)
    again = other.run()
    again.start()
    assert states([again]) == ["COMPLETED"]
    loaded.context = loaded.kernel = None
    del run, behind
    assert all("the process would abort" in misuse for misuse in machine.crashes)
    machine.crashes.clear()
    assert machine.live_contexts == 1


def test_a_hang_in_a_list(machine: Machine, pyxrt: Any, loaded: Loaded) -> None:
    listed, last = pyxrt.runlist(loaded.context), loaded.run()
    listed.add(loaded.run())
    machine.inject(Fault.HANG)
    listed.execute()
    last.start()
    assert states([last]) == ["SUBMITTED"]
    with crash(machine, "the process would hang"):
        listed.wait()
    del last
    noted(machine, "the process would abort")


@pytest.mark.parametrize("reset", [True, False])
def test_a_lost_device(machine: Machine, pyxrt: Any, loaded: Loaded, reset: bool) -> None:
    machine.inject(Fault.LOST)
    machine.driver_sync = True
    run = loaded.run()
    path = str(loaded.files.paths[".xclbin"])
    calls: list[Callable[[], Any]] = [
        run.start,
        partial(loaded.x.sync, loaded.to_device),
        partial(pyxrt.bo, loaded.device, 64, pyxrt.bo.host_only, 0),
        partial(loaded.device.register_xclbin, pyxrt.xclbin(path)),
        partial(pyxrt.kernel, loaded.context, "MLIR_AIE"),
        partial(loaded.device.get_info, pyxrt.xrt_info_device.name),
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match=r"\(err=-19\): No such device"):
            call()
    assert pyxrt.enumerate_devices() == 0
    with pytest.raises(RuntimeError, match="No such device with index '0'"):
        pyxrt.device(0)
    machine.plug_in(reset=reset)
    for call in calls:
        if reset:
            with pytest.raises(RuntimeError, match="err=-19"):
                call()
        else:
            call()
    anew = Loaded(pyxrt, pyxrt.device(0), loaded.files)
    again = anew.run()
    again.start()
    assert states([again]) == ["COMPLETED"]
    assert anew.read(anew.y) == ADDED
    if not reset:
        run.wait()


def test_a_device_that_is_lost_while_something_runs(machine: Machine, loaded: Loaded) -> None:
    run = loaded.run()
    run.start()
    machine.unplug()
    for call in (run.state, run.wait):
        with pytest.raises(RuntimeError, match="err=-19"):
            call()
    machine.plug_in(reset=False)
    run.state()


@pytest.mark.parametrize(("kind", "state"), [("zeros", "COMPLETED"), ("error", "ERROR"), ("timeout", "TIMEOUT")])
def test_a_kernel_for_the_other_array(machine: Machine, pyxrt: Any, older_files: Files, kind: Any, state: str) -> None:
    machine.wrong_arch = kind
    loaded = Loaded(pyxrt, pyxrt.device(0), older_files)
    run = loaded.run()
    run.start()
    assert states([run]) == [state]
    assert (loaded.read(loaded.y) == [0] * 4) == (kind == "zeros")
