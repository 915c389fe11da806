"""Offsets of values in a scratch buffer that is reused."""

from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from npu_tensor.runtime.scratch import Lifetime, laid_out

LIFETIMES = st.lists(
    st.builds(
        lambda pages, first, length: Lifetime(4096 * pages, first, first + length),
        st.integers(1, 64),
        st.integers(0, 12),
        st.integers(0, 6),
    ),
    max_size=14,
)


@settings(max_examples=200, deadline=None)
@given(LIFETIMES)
def test_values_that_live_at_once_share_no_bytes(lifetimes: list[Lifetime]) -> None:
    offsets, size = laid_out(lifetimes)
    parts = [*zip(offsets, lifetimes, strict=True)]
    for (start, one), (other_start, other) in combinations(parts, 2):
        alive = one.first <= other.last and other.first <= one.last
        assert not (alive and start < other_start + other.nbytes and other_start < start + one.nbytes)
    assert size == max((start + each.nbytes for start, each in parts), default=0)
    at_once = [sum(each.nbytes for each in lifetimes if each.first <= time <= each.last) for time in range(20)]
    assert max(at_once) <= size <= sum(each.nbytes for each in lifetimes)
