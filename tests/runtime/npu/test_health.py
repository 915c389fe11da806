"""When an NPU is trusted, probed and left alone."""

from __future__ import annotations

from itertools import pairwise

import pytest
from fake_clock import Clock

from npu_tensor.runtime.npu import faults
from npu_tensor.runtime.npu.faults import FIRST_REST, LONGEST_REST, Health


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(faults, "time", made)
    return made


def rest(tested: Health, clock: Clock) -> float:
    """How long it rests from now on, to a part in a hundred."""
    start, step = clock.now, 1e-3
    while tested.state == "resting":
        clock.now += step
        step = max(step, (clock.now - start) / 100)
    return clock.now - start


def test_it_is_healthy_until_something_happens(clock: Clock) -> None:
    tested = Health()
    assert (tested.state, tested.trusted, tested.cause) == ("healthy", True, "")


def test_the_first_fault_is_followed_by_a_probe_at_once(clock: Clock) -> None:
    tested = Health()
    tested.failed("state ERROR")
    assert (tested.state, tested.trusted, tested.cause) == ("suspect", False, "state ERROR")
    tested.recovered()
    assert (tested.state, tested.trusted) == ("healthy", True)


def test_probes_that_fail_are_further_and_further_apart(clock: Clock) -> None:
    tested = Health()
    tested.failed("first")
    rests = []
    for number in range(12):
        tested.failed(f"probe {number}")
        assert tested.cause == f"probe {number}"
        rests.append(rest(tested, clock))
        assert (tested.state, tested.trusted) == ("suspect", False)
    assert rests[0] == pytest.approx(FIRST_REST, rel=0.05)
    growing = [later / earlier for earlier, later in pairwise(rests)]
    longest = next(number for number, length in enumerate(rests) if length > 0.9 * LONGEST_REST)
    assert all(factor > 2 for factor in growing[: longest - 1])
    assert rests[longest:] == pytest.approx([LONGEST_REST] * len(rests[longest:]), rel=0.05)


def test_a_right_result_forgets_all_faults(clock: Clock) -> None:
    tested = Health()
    for _ in range(6):
        tested.failed("again")
    tested.recovered()
    tested.failed("later")
    assert tested.state == "suspect"
    tested.failed("and again")
    assert rest(tested, clock) == pytest.approx(FIRST_REST, rel=0.05)


def test_any_number_of_faults(clock: Clock) -> None:
    tested = Health()
    for _ in range(2000):
        tested.failed("again")
    assert rest(tested, clock) == pytest.approx(LONGEST_REST, rel=0.05)
