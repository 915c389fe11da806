"""Where values inside of a launch lie."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from npu_tensor.kernels.offer import HostOperand
from npu_tensor.ops.declare import Layout
from npu_tensor.runtime.npu.launch_plan import Argument, _laid_out, _Value


def value(nbytes: int, first: int, length: int) -> Any:
    host = HostOperand(0, True, Layout((nbytes,), (1,)), (nbytes,), "uint8")
    return _Value(Argument(0, True, host, None, nbytes), first, first + length)


@dataclass
class Part:
    """Bytes of the scratch buffer, while a value is alive."""

    start: int
    stop: int
    first: int
    last: int


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 64), st.integers(0, 12), st.integers(0, 6)), max_size=14))
def test_values_that_live_at_once_share_no_bytes(drawn: list[tuple[int, int, int]]) -> None:
    values = [value(4096 * pages, first, length) for pages, first, length in drawn]
    offsets, size = _laid_out(values)
    parts = [Part(offsets[id(v)], offsets[id(v)] + v.argument.nbytes, v.first, v.last) for v in values]
    for one, other in combinations(parts, 2):
        alive = one.first <= other.last and other.first <= one.last
        assert not (alive and one.start < other.stop and other.start < one.stop)
    assert size == max((part.stop for part in parts), default=0)
    at_once = [sum(p.stop - p.start for p in parts if p.first <= time <= p.last) for time in range(20)]
    assert max(at_once) <= size <= sum(part.stop - part.start for part in parts)
