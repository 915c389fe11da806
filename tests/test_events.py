"""Logged events, and the planner's fallback when a device refuses an op."""

import dataclasses
import warnings
from collections.abc import Iterator

import pytest
from running import heard

import npu_tensor as nt
from npu_tensor import events
from npu_tensor.config import config
from npu_tensor.planner import selection
from npu_tensor.planner.plan import Plan


@pytest.fixture(autouse=True)
def _no_plans() -> Iterator[None]:
    """Drop all plans, so that they are made again."""
    selection.reset()
    yield
    selection.reset()


def test_a_plan_built_comes_with_the_plan() -> None:
    with heard(events.PlanBuilt) as seen:
        (nt.ones(5) + 1).realize()
    (built,) = seen
    assert isinstance(built.plan, Plan)
    assert [placed.task.ops[-1] for placed in built.plan.placed] == ["add"]
    assert "plan=" not in repr(built)
    assert built == dataclasses.replace(built, plan=None)


# --- fallback: by default, a simulated NPU leaves float32 to the CPU


def test_fallback_is_silent_if_allowed() -> None:
    with nt.default_device("sim:npu2"), config.scope(fallback="allow"), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (nt.ones(5) + 1).tolist() == [2] * 5


def test_fallback_warns_once_per_op_and_reason() -> None:
    with nt.default_device("sim:npu2"), config.scope(fallback="warn"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for size in (5, 6, 7):  # three plans
                (nt.from_numpy(nt.ones(size).numpy()) + 1).realize()
            (nt.from_numpy(nt.ones(5).numpy()) * 2).realize()
        about = [str(warning.message).partition(":")[0] for warning in caught if "fill" not in str(warning.message)]
        assert {warning.category for warning in caught} == {RuntimeWarning}
        assert about == ["add runs on the CPU and not on sim", "mul runs on the CPU and not on sim"]


def test_fallback_can_be_forbidden() -> None:
    x = nt.from_numpy(nt.ones(5).numpy())
    with nt.default_device("sim:npu2"):
        y = x + 1
        message = r"^add does not run on sim:npu2: .*float32.* config\.fallback .*=allow"
        with config.scope(fallback="error"), pytest.raises(nt.DeviceError, match=message):
            y.realize()
        assert y.tolist() == [2] * 5
        # The op differs from the user's call, but the line is that of the call.
        with config.scope(fallback="error"), pytest.raises(nt.DeviceError, match=r"^argsort does") as caught:
            nt.sort(x).values.realize()
        assert str(caught.value).endswith(f" (recorded at {caught.value.recorded_at})")
        assert caught.value.recorded_at.startswith("test_events.py:")
