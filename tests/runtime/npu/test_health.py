"""Trust in an NPU after faults, and the power state of an idle one."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from fake_clock import Clock
from npu_tensor.runtime.npu.keepalive import KeepAlive

from npu_tensor.runtime.npu import faults, keepalive
from npu_tensor.runtime.npu.faults import REST_SECONDS, Health


def test_a_probe_follows_the_first_fault_and_a_rest_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(faults, "time", clock)
    health = Health()
    assert (health.state, health.trusted, health.cause) == ("healthy", True, "")
    health.failed("state ERROR")
    assert (health.state, health.trusted, health.cause) == ("suspect", False, "state ERROR")
    for _ in range(3):
        health.failed("again")
        assert (health.state, health.cause) == ("resting", "again")
        clock.now += 1.01 * REST_SECONDS
        assert (health.state, health.trusted) == ("suspect", False)
    health.recovered()
    assert (health.state, health.trusted) == ("healthy", True)
    health.failed("later")
    assert health.state == "suspect"


@pytest.fixture
def kept_awake(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Count the touches of a device within a second, with a period of 10 ms."""
    monkeypatch.setattr(keepalive, "PERIOD_SECONDS", 0.01)

    def touches(seconds: float, error: Exception | None = None) -> int:
        touched: list[float] = []
        begin = time.monotonic()

        def touch() -> None:
            touched.append(time.monotonic() - begin)
            if error is not None:
                raise error

        keeper = KeepAlive(touch, lambda: begin, seconds)
        deadline = begin + 1
        while time.monotonic() < deadline and keeper.alive and len(touched) < 3:
            time.sleep(0.01)
        assert keeper.alive == (error is None)
        keeper.stop()
        assert not keeper.alive
        return len(touched)

    return touches


def test_keepalive_touches_the_device_until_some_time_after_the_last_launch(kept_awake: Callable[..., int]) -> None:
    assert kept_awake(60) >= 3
    assert kept_awake(0) == 0


def test_keepalive_ends_when_the_device_fails(kept_awake: Callable[..., int]) -> None:
    assert kept_awake(60, RuntimeError("the device is gone")) == 1
