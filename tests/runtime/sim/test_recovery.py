"""What goes wrong on a simulated NPU: results stay right, and one warning says what happened, as on a real one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor import events
from npu_tensor.config import config
from npu_tensor.dataflow.cost import Counters
from npu_tensor.errors import LaunchError, LaunchTimeout
from npu_tensor.planner import selection
from npu_tensor.runtime.npu.driver import DriverError
from npu_tensor.runtime.sim import host_compiler
from npu_tensor.runtime.sim.simulated_array import LoadedDesign
from npu_tensor.runtime.sim.simulated_device import SimulatedDevice
from npu_tensor.runtime.sim.simulated_driver import SimulatedDriver, SimulatedSubmission

pytestmark = [
    pytest.mark.skipif(host_compiler.reason() is not None, reason=str(host_compiler.reason())),
    pytest.mark.usefixtures("less_optimised"),
]

Run = Callable[[], Counters]
Fault = Callable[[Run, Sequence[np.ndarray]], Counters]


def time_out(run: Run, buffers: Sequence[np.ndarray]) -> Counters:
    run()
    raise LaunchTimeout("it does not end")


def abort(run: Run, buffers: Sequence[np.ndarray]) -> Counters:
    raise LaunchError("a kernel function wrote outside of its object")


class Away(Exception):
    """What only a real NPU can be."""


def lost(run: Run, buffers: Sequence[np.ndarray]) -> Counters:
    raise Away("the array is away")


def mistake(run: Run, buffers: Sequence[np.ndarray]) -> Counters:
    raise ZeroDivisionError("in the body of a worker")


def garbage(run: Run, buffers: Sequence[np.ndarray]) -> Counters:
    counters = run()
    buffers[-1][:] = 0x41  # The result.
    return counters


hung = threading.Event()


def hang(run: Run, buffers: Sequence[np.ndarray]) -> Counters:
    assert hung.wait(60)
    return run()


CAUSES: dict[Fault, str] = {
    time_out: "it does not end",
    abort: "wrote outside of its object",
    lost: "the array is away",
    mistake: "ZeroDivisionError: in the body of a worker",
    garbage: "differs from the CPU's|not what they give one by one",
}


class Injector:
    """Lets a run of a design fail: number `at` of those that begin from now on, or none."""

    def __init__(self) -> None:
        self.fault: Fault = abort
        self.at = 0
        self.run_here = LoadedDesign.run_here

    def __call__(self, loaded: LoadedDesign, buffers: Sequence[Any], words: Sequence[int]) -> Counters:
        self.at -= 1

        def run() -> Counters:
            return self.run_here(loaded, buffers, words)

        return self.fault(run, buffers) if self.at == 0 else run()


@pytest.fixture
def injector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Injector]:
    made = Injector()
    monkeypatch.setattr(LoadedDesign, "run_here", lambda *arguments: made(*arguments))
    check = SimulatedSubmission.check

    def check_presence(submission: SimulatedSubmission) -> None:
        try:
            check(submission)
        except DriverError as error:
            raise DriverError(str(error), lost=isinstance(error.__cause__, Away)) from error.__cause__

    monkeypatch.setattr(SimulatedSubmission, "check", check_presence)
    selection.reset()
    yield made
    hung.set()
    selection.reset()


def operands() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(3)
    return random.standard_normal((48, 64), np.float32), random.standard_normal((64, 64), np.float32)


def several(x: nt.Tensor, w: nt.Tensor) -> nt.Tensor:
    """Four kernels of three configurations: one launch on the newer array, three on the older one."""
    return ((x @ w) * 0.125).softmax(-1) @ w.relu()


def right(x: nt.Tensor, w: nt.Tensor, result: nt.Tensor) -> None:
    a, b = (np.asarray(each.numpy()).astype(np.float64) for each in (x, w))
    scores = np.exp(a @ b / 8 - (a @ b / 8).max(-1, keepdims=True))
    expected = scores / scores.sum(-1, keepdims=True) @ np.maximum(b, 0)
    np.testing.assert_allclose(np.asarray(result.numpy()).astype(np.float64), expected, atol=0.05)


@pytest.mark.parametrize("uri", ["sim:npu1", "sim:npu2"])
@pytest.mark.parametrize("fault", CAUSES, ids=lambda fault: fault.__name__)
def test_a_fault_inside_a_program(
    injector: Injector, monkeypatch: pytest.MonkeyPatch, uri: str, fault: Fault
) -> None:
    """Of its second kernel. Then the array is as good as before."""
    x, w = (nt.from_numpy(array).to(nt.bfloat16).realize() for array in operands())
    monkeypatch.setattr(SimulatedDevice, "self_checks", fault is garbage)
    with nt.default_device(uri, policy="always"):
        if fault is not garbage:  # Which the check of the first run finds.
            right(x, w, several(x, w).realize())
        injector.fault, injector.at = fault, 2
        seen: list[events.Event] = []
        with pytest.warns(RuntimeWarning, match=f"failed on {uri}: (?s:.*)({CAUSES[fault]})") as warned:
            result = several(x, w).realize()
        right(x, w, result)
        assert len(warned) == 1, [str(each.message) for each in warned]
        (device,) = selection.accelerators(selection.current())
        assert isinstance(device, SimulatedDevice)
        for _ in range(2):
            with events.listen(seen.append):
                right(x, w, several(x, w).realize())
        assert device.engine.health.state == "healthy"
    ran = [event.simulated for event in seen if isinstance(event, events.KernelRan) and event.device == uri]
    assert len(ran) >= 4
    assert all(simulated is not None for simulated in ran[-4:])


@pytest.mark.parametrize("fault", [time_out, lost], ids=lambda fault: fault.__name__)
def test_strict(injector: Injector, fault: Fault) -> None:
    x, w = (nt.from_numpy(array).to(nt.bfloat16).realize() for array in operands())
    with nt.default_device("sim:npu2", policy="always"):
        injector.fault, injector.at = fault, 2
        with config.scope(strict=True), pytest.raises(LaunchError, match=CAUSES[fault]):
            several(x, w).realize()
        right(x, w, several(x, w).realize())


def test_without_memory_the_cpu_computes(injector: Injector, monkeypatch: pytest.MonkeyPatch) -> None:
    x = nt.ones(3000, dtype=nt.bfloat16).realize()

    def none(driver: SimulatedDriver, nbytes: int) -> Any:
        raise DriverError("there is no memory", blameless=True)

    with nt.default_device("sim:npu2", policy="always"):
        with monkeypatch.context() as patch:
            patch.setattr(SimulatedDriver, "allocate", none)
            with pytest.warns(RuntimeWarning, match="no buffer of .* there is no memory"):
                result = (x + x).realize()
        assert result.device == "cpu"
        assert (x + x).realize().device == "sim:npu2"


def test_a_launch_goes_on_while_the_program_does(injector: Injector) -> None:
    x = nt.ones(3000, dtype=nt.bfloat16).realize()
    with nt.default_device("sim:npu2", policy="always"):
        (x + x).realize()
        hung.clear()
        injector.fault, injector.at = hang, 1
        result = (x + x).realize(wait=False)
        (device,) = selection.accelerators(selection.current())
        assert isinstance(device, SimulatedDevice)
        assert device.busy == 1
        hung.set()
        nt.synchronize()
        assert device.busy == 0
        assert result.float().tolist() == [2.0] * 3000
