"""DMAs move what access patterns and dims say: against nested Python loops, element by element."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sim_designs import Ints, each, functions, load, offsets, pattern_offsets, run

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.design import AccessPattern, Builder, Dim, ObjectType
from npu_tensor.runtime.sim import transfers
from npu_tensor.runtime.sim.transfers import object_access, pattern_accesses

Dims = list[tuple[int, int]]


@st.composite
def permutations(draw: st.DrawFn, elements: int, loops: int) -> Dims:
    """A walk that visits each of `elements` neighbours once."""
    sizes, rest = [], elements
    for _ in range(loops - 1):
        sizes.append(draw(st.sampled_from([n for n in range(1, rest + 1) if rest % n == 0])))
        rest //= sizes[-1]
    sizes.append(rest)
    dims = [(size, math.prod(sizes[i + 1 :])) for i, size in enumerate(sizes)]
    return draw(st.permutations(dims))


small = st.integers(1, 4)
steps = st.integers(0, 9)


@given(st.lists(st.tuples(small, steps), min_size=1, max_size=4), st.sampled_from([1, 2, 4, 8]))
def test_dims_name_elements_in_the_order_of_nested_loops(dims: Dims, itemsize: int) -> None:
    memory = np.arange(max(offsets(dims)) + 1, dtype=f"u{itemsize}")
    result = object_access([Dim(*dim) for dim in dims], len(memory), itemsize)
    assert result.view(memory.view(np.uint8)).ravel().tolist() == offsets(dims)
    assert result.nbytes == len(offsets(dims)) * itemsize


def test_no_dims_means_in_order() -> None:
    assert object_access((), 12, 2).contiguous
    assert object_access((), 12, 2).nbytes == 24


@given(
    st.integers(0, 5),
    st.tuples(small, small, small, small),
    st.tuples(steps, steps, steps, steps),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([1, 8, 64, 1 << 20]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_pieces_of_a_transfer_are_the_nested_loops(
    monkeypatch: pytest.MonkeyPatch,
    offset: int,
    sizes: tuple[int, int, int, int],
    strides: tuple[int, int, int, int],
    itemsize: int,
    largest: int,
) -> None:
    monkeypatch.setattr(transfers, "_LARGEST_CHUNK", largest)
    pattern = AccessPattern(offset, sizes, strides)
    places = pattern_offsets(pattern)
    memory = np.arange(max(places) + 1, dtype=f"u{itemsize}")
    pieces = pattern_accesses(pattern, itemsize)
    result = [piece.view(memory.view(np.uint8)).ravel().tolist() for piece in pieces]
    assert list(itertools.chain(*result)) == places
    assert all(piece.nbytes <= largest or len(piece.sizes) == 1 for piece in pieces)
    assert len(pieces) == 1 or len(places) * itemsize > largest


def through(values: Ints, read: Dims, write: Dims) -> Ints:
    """One object, read in the order of `read` and written in that of `write`."""
    result = np.full(len(values), -99, np.int32)
    for source, target in zip(offsets(read), offsets(write), strict=True):
        result[target] = values[source]
    return result


OBJECT = 24
OBJECTS = 3
IN_ORDER: Dims = [(OBJECT, 1)]


@pytest.mark.usefixtures("_unchecked")
@given(
    permutations(OBJECT, 4),
    permutations(OBJECT, 4),
    permutations(OBJECT, 3),
    permutations(OBJECT, 3),
    permutations(OBJECT * OBJECTS, 4),
    st.tuples(steps, steps, steps, steps),
    permutations(OBJECT * OBJECTS, 4),
)
@settings(max_examples=40, deadline=None)
def test_a_path_through_a_memtile_and_a_core(
    into_memtile: Dims, out_of_memtile: Dims, into_core: Dims, out_of_core: Dims, tap: Dims, strides: Any, drain: Dims
) -> None:
    fill = AccessPattern(3, tuple(size for size, _ in tap), strides)  # type: ignore[arg-type]
    scattered = AccessPattern(1, *zip(*((size, 2 * stride) for size, stride in drain), strict=True))
    d = Builder("path", "aie2p", columns=1)
    x = d.host_buffer("x", "int32", max(pattern_offsets(fill)) + 1)
    y = d.host_buffer("y", "int32", 2 * OBJECT * OBJECTS)
    type = ObjectType("int32", (OBJECT,))
    copy = functions(d, type).copy
    shim, memtile, core = Tile(0, 0), Tile(0, 1), Tile(0, 2)
    first = d.fifo("first", type, shim, [memtile], dims_from_stream=[into_memtile])
    second = d.fifo("second", type, memtile, [core], dims_to_stream=out_of_memtile, dims_from_stream=[into_core])
    third = d.fifo("third", type, core, [shim], dims_to_stream=out_of_core)
    d.forward(first, second)

    d.worker(core, each(lambda a, b: copy(a, b, type.nbytes)), [second, third])
    d.fill(first, x, fill)
    d.drain(third, y, scattered)

    values = np.arange(1, x.type.elements + 1, dtype=np.int32)
    _, (_, result) = run(load(d.build()), values)

    stream = values[pattern_offsets(fill)].reshape(OBJECTS, OBJECT)
    expected = np.full(2 * OBJECT * OBJECTS, -1, np.int32)
    sent = []
    for received in stream:
        in_memtile = through(received, IN_ORDER, into_memtile)
        in_core = through(in_memtile, out_of_memtile, into_core)
        sent.append(through(in_core, out_of_core, IN_ORDER))
    for place, value in zip(pattern_offsets(scattered), np.concatenate(sent), strict=True):
        expected[place] = value
    assert result.tolist() == expected.tolist()


@pytest.mark.usefixtures("_unchecked")
@pytest.mark.parametrize("pieces", [[7, 41], [40, 8], [1] * 16 + [32], [48]])
def test_transfers_of_any_length_make_one_stream(pieces: list[int]) -> None:
    """Transfers that are smaller or larger than an object, three objects in all."""
    d = Builder("pieces", "aie2", columns=1)
    x, y = d.host_buffer("x", "int32", 48), d.host_buffer("y", "int32", 48)
    type = ObjectType("int32", (16,))
    copy = functions(d, type).copy
    fx, fy = d.fifo("x0", type, Tile(0, 0), [Tile(0, 2)]), d.fifo("y0", type, Tile(0, 2), [Tile(0, 0)])

    d.worker(Tile(0, 2), each(lambda a, b: copy(a, b, 64)), [fx, fy])
    starts = [0, *itertools.accumulate(pieces)]
    # Drains in other pieces than fills. The queues of the two channels are independent.
    d.drain(fy, y, AccessPattern.linear(5, 0))
    d.drain(fy, y, AccessPattern.linear(43, 5))
    for start, elements in zip(starts, pieces, strict=False):
        d.fill(fx, x, AccessPattern.linear(elements, start))
    values = np.arange(48, dtype=np.int32)
    _, (_, result) = run(load(d.build()), values)
    assert result.tolist() == values.tolist()
