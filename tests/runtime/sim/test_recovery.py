"""Errors of a design on a simulated NPU are faults of its launch: results stay right, and a warning names the cause."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from npu_values import joined, reordered
from running import needs_compiler

import npu_tensor as nt
from npu_tensor.errors import LaunchError, LaunchTimeout
from npu_tensor.planner import selection
from npu_tensor.runtime.sim.simulated_array import LoadedDesign
from npu_tensor.runtime.sim.simulated_device import SimulatedDevice

pytestmark = [needs_compiler, pytest.mark.usefixtures("less_optimised")]

FAULTS = (
    LaunchTimeout("it does not end"),
    LaunchError("a kernel function wrote outside of its object"),
    ZeroDivisionError("in the body of a worker"),
)


@pytest.fixture
def before_run(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[int], object]], None]:
    """Let a function, called with its number, come before every run of a design from now on."""

    def begin(function: Callable[[int], object]) -> None:
        runs: list[LoadedDesign] = []

        def run_here(loaded: LoadedDesign, buffers: Sequence[Any], words: Sequence[int]) -> Any:
            runs.append(loaded)
            function(len(runs))
            return original(loaded, buffers, words)

        monkeypatch.setattr(LoadedDesign, "run_here", run_here)

    original = LoadedDesign.run_here
    return begin


@pytest.mark.parametrize("uri", ["sim:npu1", "sim:npu2"])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: type(fault).__name__)
def test_a_fault_inside_a_program(before_run: Any, uri: str, fault: Exception) -> None:
    """The second kernel of a program fails. Afterwards the array works as before."""

    def fail(number: int) -> None:
        if number == 2:
            raise fault

    def right() -> None:
        value, expected = reordered(3)
        np.testing.assert_array_equal(value.numpy(), expected)

    with nt.default_device(uri, policy="always"):
        right()
        before_run(fail)
        with pytest.warns(RuntimeWarning, match=f"failed on {uri}: (?s:.*){fault}") as warned:
            right()
        assert len(warned) == 1, [str(each.message) for each in warned]
        for _ in range(2):
            right()
        (device,) = selection.accelerators(selection.current())
        assert isinstance(device, SimulatedDevice)
        assert device.engine.health.failures == 0
        assert reordered(3)[0].realize().device == uri


def test_a_launch_goes_on_while_the_program_does(before_run: Any) -> None:
    goes_on = threading.Event()
    with nt.default_device("sim:npu2", policy="always"):
        joined(0)[0].realize()
        before_run(lambda number: goes_on.wait(60))
        result, expected = joined(0, 1)
        result.realize(wait=False)
        (device,) = selection.accelerators(selection.current())
        assert isinstance(device, SimulatedDevice)
        assert device.busy == 1
        goes_on.set()
        nt.synchronize()
        assert device.busy == 0
        np.testing.assert_array_equal(result.numpy(), expected)
