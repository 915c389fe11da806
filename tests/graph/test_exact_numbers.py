"""Numbers that == takes for one are not mixed up where ops, plans and kernels are kept."""

from __future__ import annotations

import math

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor import events
from npu_tensor.ops import OPS


@pytest.mark.parametrize("number", [0.0, -0.0])
def test_the_sign_of_a_zero_attribute_counts(number: float) -> None:
    for _ in range(2):
        for each in (number, -number):
            padded = nt.pad(nt.ones(1), (1, 0), value=each)
            assert math.copysign(1, padded[0].item()) == math.copysign(1, each)


def test_the_sign_of_a_zero_in_a_kernel_counts() -> None:
    x = nt.tensor([-1.0, 2.0]).realize()
    assert np.signbit(nt.relu(x).numpy()).tolist() == [False, False]
    assert np.signbit(nt.clamp(x, min=-0.0).numpy()).tolist() == [True, False]
    assert np.signbit(nt.clamp(x, min=0.0).numpy()).tolist() == [False, False]


def test_nan_attributes_share_a_call_and_a_plan() -> None:
    before = len(OPS["clamp"].calls)
    made: list[events.PlanBuilt] = []
    with events.listen(lambda event: made.append(event) if isinstance(event, events.PlanBuilt) else None):
        for _ in range(5):
            nt.clamp(nt.ones(3, 7), max=float("nan")).realize()
    assert len(OPS["clamp"].calls) - before <= 1
    assert len(made) <= 2  # of ones and of clamp
