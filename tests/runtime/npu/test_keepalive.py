"""When an idle NPU is touched, so that its power gate stays open."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

from npu_tensor.runtime.npu import keepalive
from npu_tensor.runtime.npu.keepalive import KeepAlive


class Touched:
    """A device that notes when it is touched, by a clock that `wait` moves."""

    def __init__(self, launches: dict[float, float], fails: bool = False) -> None:
        self.now = 100.0
        self.latest = 100.0
        self.launches = launches
        self.fails = fails
        self.touches: list[float] = []

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        self.latest = self.launches.get(self.now, self.latest)
        return self.now >= 130

    def touch(self) -> None:
        self.touches.append(self.now)
        if self.fails:
            raise RuntimeError("the device is gone")
        self.latest = self.now


def kept_awake(touched: Touched, seconds: float, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    clock = mock.Mock(monotonic=lambda: touched.now)
    monkeypatch.setattr(keepalive, "time", clock)
    keeper = KeepAlive(touched.touch, lambda: touched.latest, seconds, touched.wait)
    keeper._thread.join()
    keeper.stop()
    return touched.touches


def test_keepalive_touches_an_idle_device_for_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the power gate closes after 8 s, and not for touching it."""
    touches = kept_awake(Touched({}), 12, monkeypatch)
    assert touches
    assert touches[-1] < 112
    pauses = np.diff([100, *touches])
    assert pauses.max() < 8
    assert pauses.min() >= 2


def test_keepalive_counts_from_the_last_launch_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    touches = kept_awake(Touched({110.0: 109.5}), 12, monkeypatch)
    assert 112 < touches[-1] < 121.5
    assert 110.0 not in touches  # It was used half a second before.


def test_keepalive_ends_when_the_device_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(kept_awake(Touched({}, fails=True), 12, monkeypatch)) == 1
