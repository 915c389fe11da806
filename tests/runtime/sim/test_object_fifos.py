"""Object fifos on the simulated array: windows, broadcast, links, shared memory, deadlocks, leftover objects."""

from typing import Any

import numpy as np
import pytest
from sim_designs import CORE, MEMTILE, SHIM, TYPE, VALUES, copy_design, each, functions, load, offsets, run

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.check import check
from npu_tensor.dataflow.cost import Channel, count
from npu_tensor.dataflow.design import AccessPattern, Builder, Design, ObjectType, Source, range_
from npu_tensor.errors import BuildError, LaunchError, LaunchTimeout

FAR_CORE = Tile(0, 5)


def window_design(objects: int) -> Design:
    """y[i] = x[i] + x[i + 2], in objects: three are held, one is released at a time."""
    d = Builder("window", "aie2p", columns=1)
    x, y = d.host_buffer("x", "int32", objects * 16), d.host_buffer("y", "int32", (objects - 2) * 16)
    add = functions(d, TYPE).add
    fx, fy = d.fifo("x0", TYPE, SHIM, [CORE], depth=3), d.fifo("y0", TYPE, CORE, [SHIM])

    def body(source: Any, result: Any) -> None:
        for _ in range_(objects - 2):
            first, _second, third = source.acquire(3)
            add(first, third, result.acquire(1), 16)
            source.release(1)
            result.release(1)
        source.release(2)

    d.worker(CORE, body, [fx, fy])
    d.fill(fx, x, AccessPattern.linear(objects * 16))
    d.drain(fy, y, AccessPattern.linear((objects - 2) * 16))
    return d.build()


def test_a_window_slides_over_the_objects() -> None:
    design = window_design(7)
    assert check(design) == []
    loaded = load(design)
    for seed in range(3):
        values = np.random.default_rng(seed).integers(0, 1000, (7, 16), np.int32)
        _, (_, result) = run(loaded, values.ravel())
        assert result.tolist() == (values[:-2] + values[2:]).ravel().tolist()


def test_every_consumer_gets_every_object() -> None:
    d = Builder("broadcast", "aie2", columns=1)
    x, y = d.host_buffer("x", "int32", 64), d.host_buffer("y", "int32", 128)
    copy = functions(d, TYPE).copy
    reverse = [(4, 1), (4, 4)]
    fx = d.fifo("x0", TYPE, SHIM, [CORE, FAR_CORE], dims_from_stream=[(), reverse])

    for number, core in enumerate([CORE, FAR_CORE]):
        fy = d.fifo(f"y{number}", TYPE, core, [SHIM])
        d.worker(core, each(lambda a, b: copy(a, b, TYPE.nbytes)), [fx, fy])
        d.drain(fy, y, AccessPattern.linear(64, 64 * number))
    d.fill(fx, x, AccessPattern.linear(64))
    design = d.build()
    assert check(design) == []
    counters, (_, result) = run(load(design), VALUES[:64])
    assert result[:64].tolist() == VALUES[:64].tolist()
    transposed = VALUES[:64].reshape(4, 4, 4).transpose(0, 2, 1)
    assert result[64:].tolist() == transposed.ravel().tolist()
    assert counters == count(design)


PART_SOURCE = Source(
    "part copies",
    "#include <cstdint>\n#include <cstring>\n"
    + "".join(
        f'extern "C" void nt_copy{i}(const void *a, void *b, std::int32_t n) {{ std::memcpy(b, a, n); }}\n'
        for i in range(3)
    ),
)


def split_join_design() -> Design:
    """Objects of 48 go to three cores as 16, 8 and 24 elements and are put together in the order of the cores."""
    d = Builder("split and join", "aie2p", columns=1)
    x, y = d.host_buffer("x", "int32", 96), d.host_buffer("y", "int32", 96)
    whole = ObjectType("int32", (48,))
    fx, fy = d.fifo("x0", whole, SHIM, [MEMTILE]), d.fifo("y0", whole, MEMTILE, [SHIM])
    parts, results = [], []
    for number, (elements, to_stream, from_stream) in enumerate(
        [(16, [(4, 1), (4, 4)], [(2, 8), (8, 1)]), (8, [(2, 1), (4, 2)], [(4, 1), (2, 4)]), (24, [(3, 8), (8, 1)], [])]
    ):
        type = ObjectType("int32", (elements,))
        core = Tile(0, 2 + number)
        part = d.fifo(f"part{number}", type, MEMTILE, [core], dims_to_stream=to_stream)
        result = d.fifo(f"result{number}", type, core, [MEMTILE], dims_from_stream=[from_stream] if from_stream else ())
        copy = d.function(f"nt_copy{number}", [type, type, "int32"], PART_SOURCE)

        d.worker(core, each(lambda a, b, copy=copy, nbytes=type.nbytes: copy(a, b, nbytes)), [part, result])
        parts.append(part)
        results.append(result)
    d.split(fx, parts)
    d.join(results, fy)
    d.fill(fx, x, AccessPattern.linear(96))
    d.drain(fy, y, AccessPattern.linear(96))
    return d.build()


def test_split_and_join() -> None:
    design = split_join_design()
    assert check(design) == []
    counters, (_, result) = run(load(design), VALUES[:96])
    expected = []
    for memory in VALUES[:96].reshape(2, 48):
        first, second = np.empty(16, np.int32), np.empty(8, np.int32)
        first[offsets([(2, 8), (8, 1)])] = memory[:16][offsets([(4, 1), (4, 4)])]
        second[offsets([(4, 1), (2, 4)])] = memory[16:24][offsets([(2, 1), (4, 2)])]
        expected += [*first, *second, *memory[24:]]
    assert result.tolist() == expected
    assert counters == count(design)


def test_the_dims_of_a_joined_object_are_those_of_each_part() -> None:
    dims = [(2, 1), (8, 2)]
    d = Builder("join", "aie2", columns=1)
    x, y = d.host_buffer("x", "int32", 64), d.host_buffer("y", "int32", 64)
    whole = ObjectType("int32", (32,))
    fx = d.fifo("x0", whole, SHIM, [MEMTILE])
    fy = d.fifo("y0", whole, MEMTILE, [SHIM], dims_to_stream=dims)
    copy = functions(d, TYPE).copy
    parts, results = [], []

    for number in range(2):
        core = Tile(0, 2 + number)
        parts.append(d.fifo(f"part{number}", TYPE, MEMTILE, [core]))
        results.append(d.fifo(f"result{number}", TYPE, core, [MEMTILE]))
        d.worker(core, each(lambda a, b: copy(a, b, TYPE.nbytes)), [parts[-1], results[-1]])
    d.split(fx, parts)
    d.join(results, fy)
    d.fill(fx, x, AccessPattern.linear(64))
    d.drain(fy, y, AccessPattern.linear(64))
    design = d.build()
    assert check(design) == []
    _, (_, result) = run(load(design), VALUES[:64])
    order = offsets(dims)
    assert result.tolist() == [value for part in VALUES[:64].reshape(4, 16) for value in part[order].tolist()]


def forward_design(before: int, after: int, dims_on_input: bool | None = None) -> Design:
    d = Builder("forward", "aie2", columns=1)
    x, y = d.host_buffer("x", "int32", 64), d.host_buffer("y", "int32", 64)
    into = [[(4, 1), (max(before, after) // 4, 4)]] if dims_on_input is True else ()
    out = [(4, 1), (max(before, after) // 4, 4)] if dims_on_input is False else ()
    fx = d.fifo("x0", ObjectType("int32", (before,)), SHIM, [MEMTILE], dims_from_stream=into)
    fy = d.fifo("y0", ObjectType("int32", (after,)), MEMTILE, [SHIM], dims_to_stream=out)
    d.forward(fx, fy)
    d.fill(fx, x, AccessPattern.linear(64))
    d.drain(fy, y, AccessPattern(0, (1, 1, 4, 16), (0, 0, 16, 1)))
    return d.build()


@pytest.mark.parametrize(("before", "after"), [(32, 16), (16, 32)])
def test_a_forward_may_change_the_size_of_objects(before: int, after: int) -> None:
    design = forward_design(before, after)
    assert check(design) == []
    counters, (_, result) = run(load(design), VALUES[:64])
    assert result.tolist() == VALUES[:64].tolist()
    assert counters == count(design)


@pytest.mark.parametrize("on_input", [True, False])
def test_a_forward_applies_dims_to_the_objects_that_the_memtile_holds(on_input: bool) -> None:
    # mlir-aie gives both descriptors of a forward the length of the larger object, and the dims walk through that.
    design = forward_design(32, 16, on_input)
    assert check(design) == []
    _, (_, result) = run(load(design), VALUES[:64])
    order = offsets([(4, 1), (8, 4)])
    expected = np.empty((2, 32), np.int32)
    if on_input:
        expected[:, order] = VALUES[:64].reshape(2, 32)
    else:
        expected = VALUES[:64].reshape(2, 32)[:, order]
    assert result.tolist() == expected.ravel().tolist()


def chain_design(consumer: Tile, dims: bool = False) -> Design:
    """x + x on one core, doubled on another."""
    d = Builder("chain", "aie2p", columns=2)
    x, y = d.host_buffer("x", "int32", 64), d.host_buffer("y", "int32", 64)
    add = functions(d, TYPE).add
    fx = d.fifo("x0", TYPE, SHIM, [CORE])
    between = d.fifo("between", TYPE, CORE, [consumer], dims_to_stream=[(4, 1), (4, 4)] if dims else ())
    fy = d.fifo("y0", TYPE, consumer, [SHIM])

    double = each(lambda a, b: add(a, a, b, 16))
    d.worker(CORE, double, [fx, between])
    d.worker(consumer, double, [between, fy])
    d.fill(fx, x, AccessPattern.linear(64))
    d.drain(fy, y, AccessPattern.linear(64))
    return d.build()


@pytest.mark.parametrize(
    ("consumer", "travels"), [(Tile(0, 3), False), (Tile(1, 2), False), (Tile(0, 4), True), (Tile(1, 3), True)]
)
def test_neighbours_share_memory(consumer: Tile, travels: bool) -> None:
    design = chain_design(consumer)
    counters, (_, result) = run(load(design), VALUES[:64])
    assert result.tolist() == (4 * VALUES[:64]).tolist()
    assert ("between" in {channel.fifo for channel in counters.stream_bytes}) is travels
    assert counters == count(design)


def test_neighbours_use_a_dma_that_changes_the_order() -> None:
    design = chain_design(Tile(0, 3), dims=True)
    counters, (_, result) = run(load(design), VALUES[:64])
    assert result.tolist() == (4 * VALUES[:64].reshape(4, 4, 4).transpose(0, 2, 1)).ravel().tolist()
    assert counters.stream_bytes[Channel(CORE, "between", "out")] == 256
    assert counters == count(design)


@pytest.mark.usefixtures("_unchecked")
def test_a_worker_that_waits_for_nothing_is_refused() -> None:
    d = Builder("endless", "aie2", columns=1)
    copy = functions(d, TYPE).copy
    buffer = d.core_buffer("buffer", CORE, TYPE)
    d.worker(CORE, lambda memory: copy(memory, memory, 64), [buffer])
    with pytest.raises(BuildError, match=r"the loop of core \(0,2\) never ends"):
        load(d.build())


def reconvergent_design(at_once: int) -> Design:
    """The second core needs a sum of four objects from the first before it takes any of the same four itself."""
    d = Builder("reconvergent", "aie2", columns=1)
    x, y = d.host_buffer("x", "int32", 64), d.host_buffer("y", "int32", 64)
    names = functions(d, TYPE)
    fx = d.fifo("x0", TYPE, SHIM, [CORE, FAR_CORE], depth=4)
    total = d.fifo("total", TYPE, CORE, [FAR_CORE], depth=1)
    fy = d.fifo("y0", TYPE, FAR_CORE, [SHIM])

    def first(source: Any, target: Any) -> None:
        sum_so_far = target.acquire(1)
        for _ in range_(4):
            names.copy(source.acquire(1), sum_so_far, TYPE.nbytes)
            source.release(1)
        target.release(1)

    def second(source: Any, last: Any, target: Any) -> None:
        added = last.acquire(1)
        for _ in range_(4 // at_once):
            elements = source.acquire(at_once)
            for element in [elements] if at_once == 1 else elements:
                names.add(element, added, target.acquire(1), 16)
                target.release(1)
            source.release(at_once)
        last.release(1)

    d.worker(CORE, first, [fx, total])
    d.worker(FAR_CORE, second, [fx, total, fy])
    d.fill(fx, x, AccessPattern.linear(64))
    d.drain(fy, y, AccessPattern.linear(64))
    return d.build()


def test_buffers_of_a_core_follow_from_what_it_acquires_not_from_the_depth() -> None:
    """Both declare depth 4. The compiler gives the second core one buffer more than it acquires at once: two, or five.

    With two buffers the broadcast stops before the first core has its four objects.
    """
    assert check(reconvergent_design(4)) == []
    _, (_, result) = run(load(reconvergent_design(4)), VALUES[:64])
    assert result.tolist() == (VALUES[:64].reshape(4, 16) + VALUES[48:64]).ravel().tolist()
    with pytest.raises(LaunchTimeout) as caught:
        run(load(reconvergent_design(1)), VALUES[:64])
    assert str(caught.value).splitlines() == [
        "reconvergent does not end:",
        "host waits for fifo y0 in shim (0,0): 0 of 256 bytes moved",
        "fifo x0: consumer waits, 0 of 2 objects held in core (0,2)",
        "fifo x0: producer waits, 2 of 2 objects held in core (0,5)",
        "fifo total: consumer waits, 0 of 1 objects held in core (0,5)",
        "fifo y0: consumer waits, 0 of 2 objects held in core (0,5)",
    ]


@pytest.mark.usefixtures("_unchecked")
def test_a_deadlock_names_who_waits() -> None:
    loaded = load(copy_design(8, drained=32, wait_fill=True))
    with pytest.raises(LaunchTimeout) as caught:
        run(loaded, VALUES[:128])
    assert str(caught.value).splitlines() == [
        "one core does not end:",
        "host waits for fifo x0 in shim (0,0): 384 of 512 bytes moved",
        "fifo x0: producer waits, 2 of 2 objects held in core (0,2)",
        "fifo y0: producer waits, 2 of 2 objects held in core (0,2)",
        "fifo y0: producer waits, no transfer drains it in shim (0,0)",
    ]
    with pytest.raises(LaunchTimeout, match="fifo x0: consumer waits, 0 of 2 objects held in"):
        run(load(copy_design(8, filled=32)), VALUES[:128])


@pytest.mark.usefixtures("_unchecked")
def test_a_start_beyond_the_queue_blocks() -> None:
    """The drain comes after six fills of a fifo whose objects are consumed only by the drain."""
    d = Builder("queue", "aie2", columns=1)
    x, y = d.host_buffer("x", "int32", 16), d.host_buffer("y", "int32", 160)
    copy = functions(d, TYPE).copy
    fx, fy = d.fifo("x0", TYPE, SHIM, [CORE]), d.fifo("y0", TYPE, CORE, [SHIM])

    d.worker(CORE, each(lambda a, b: copy(a, b, TYPE.nbytes)), [fx, fy])
    for _ in range(10):
        d.fill(fx, x, AccessPattern.linear(16))
    d.drain(fy, y, AccessPattern.linear(160))
    with pytest.raises(LaunchTimeout, match=r"host: the queue of fifo x0 in shim \(0,0\) is full"):
        run(load(d.build()), VALUES[:16])


@pytest.mark.usefixtures("_unchecked")
def test_leftovers_are_an_error() -> None:
    """One object and a half are drained of three: one and a half stay in the output fifo."""
    with pytest.raises(LaunchError, match=r"one core leaves data in the array: fifo y0 in core \(0,2\)"):
        run(load(copy_design(3, drained=24)), VALUES[:48])
