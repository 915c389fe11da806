"""Several simulated NPUs as one device."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from running import heard, needs_compiler

import npu_tensor as nt
from npu_tensor import events
from npu_tensor.runtime.devices.backends import open_device
from npu_tensor.runtime.devices.device_uri import parse_uri
from npu_tensor.runtime.devices.host import allocator, host_step
from npu_tensor.runtime.devices.logical import LogicalDevice
from npu_tensor.runtime.sim.simulated_array import LoadedDesign
from npu_tensor.runtime.sim.simulated_device import SimulatedDevice

pytestmark = pytest.mark.usefixtures("less_optimised")

SECONDS = 60
"""Until a test that hangs fails; nothing here takes as long."""


def bfloat16(*shape: int, seed: int = 0) -> nt.Tensor:
    values = np.random.default_rng(seed).integers(-9, 9, shape).astype(np.float32)
    return nt.from_numpy(values).to(nt.bfloat16).realize()


def simulated_on(work: Callable[[], object]) -> list[str]:
    """The members that ran the launches of some work, in order."""
    with heard(events.KernelRan) as ran:
        work()
    return [event.simulated.device for event in ran if event.simulated is not None]


@pytest.mark.parametrize(
    ("uri", "members"),
    [
        ("sim:npu2x2", ["sim:npu2x2#0", "sim:npu2x2#1"]),
        ("sim:npu1x3?cols=2", [f"sim:npu1x3?cols=2#{number}" for number in range(3)]),
    ],
)
def test_a_uri_may_mean_several(uri: str, members: list[str]) -> None:
    device = open_device(parse_uri(uri), allocator(), host_step)
    assert isinstance(device, LogicalDevice)
    assert (device.uri, [member.uri for member in device.members]) == (uri, members)
    one = open_device(parse_uri(uri.replace("x2", "x1").replace("x3", "x1")), allocator(), host_step)
    assert isinstance(one, SimulatedDevice)
    assert one.target == device.target


@pytest.mark.parametrize(
    "uri", ["sim:npu2x0", "sim:npu2x17", "sim:npu3x2", "sim:npu2x", "sim:npu2x2#0", "sim:npu1x2?cols=8"]
)
def test_bad_uris_change_nothing(uri: str) -> None:
    with pytest.raises(nt.DeviceError, match="sim:npu"):
        nt.set_default_device(uri)
    assert nt.get_default_device() == "cpu"


@needs_compiler
def test_explain_names_the_logical_device_and_events_the_member() -> None:
    x = bfloat16(64)
    with nt.default_device("sim:npu2x2"), heard(events.KernelRan, events.Fallback) as ran:
        assert nt.explain(x + x)[-1].device == "sim:npu2x2"
        on = simulated_on(lambda: [(x + x).realize() for _ in range(4)])
    assert sorted(set(on)) == ["sim:npu2x2#0", "sim:npu2x2#1"]
    assert on[:2] == on[2:]  # by turns
    assert {(type(event), event.device) for event in ran} == {(events.KernelRan, "sim:npu2x2")}


@needs_compiler
def test_two_threads_use_two_members_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch ends only when the other is under way as well; one array runs one launch at a time."""
    x, y = bfloat16(64), bfloat16(64, seed=1)
    run, together = LoadedDesign.run_here, threading.Barrier(2)

    def meet(loaded: LoadedDesign, *arguments: Any) -> Any:
        together.wait(SECONDS)
        return run(loaded, *arguments)

    with nt.default_device("sim:npu2x2"):
        nt.explain(x + x)
        monkeypatch.setattr(LoadedDesign, "run_here", meet)
        results = [x + x, y + y]
        with ThreadPoolExecutor(2) as threads:
            on = simulated_on(lambda: list(threads.map(nt.Tensor.realize, results)))
    assert sorted(on) == ["sim:npu2x2#0", "sim:npu2x2#1"]
    for result, operand in zip(results, (x, y), strict=True):
        np.testing.assert_array_equal(result.float().numpy(), operand.float().numpy() * 2)


@needs_compiler
def test_several_give_what_one_gives() -> None:
    x, weights = bfloat16(24, 64), bfloat16(40, 64, seed=1)

    def compute() -> list[np.ndarray]:
        hidden = nt.linear(x, weights)
        results = [hidden.softmax(dim=-1), hidden.tanh(), x.sum(dim=-1), x * 2 + 1]
        return [result.float().numpy() for result in results]

    actual = []
    for uri in ("sim:npu1", "sim:npu1x3"):
        with nt.default_device(uri):
            actual.append(compute())
            on = simulated_on(compute)
    assert len(set(on)) == 3
    for one, several in zip(*actual, strict=True):
        np.testing.assert_array_equal(one, several)


@needs_compiler
def test_kernels_are_compiled_once_for_all_members() -> None:
    x = bfloat16(17, 48)
    with nt.default_device("sim:npu2x2?cols=3"), heard(events.BuildStarted) as builds:
        members = simulated_on(lambda: [(x * 3).realize() for _ in range(4)])
    assert len(builds) == 1
    assert len(set(members)) == 2


@needs_compiler
def test_what_is_recorded_is_what_one_device_records(tmp_path: Any) -> None:
    x = bfloat16(32)
    written: list[str] = []
    for uri in ("sim:npu2", "sim:npu2x2"):
        path = tmp_path / f"{len(written)}.json"
        with nt.default_device(uri), nt.record_kernels(path):
            (x + x).realize()
        written.append(path.read_text("utf-8"))
    assert '"add' in written[0]
    assert written[0] == written[1]
