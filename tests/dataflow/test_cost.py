"""Counters and predicted times against numbers computed by hand, and against counters of the simulated array."""

import json
from pathlib import Path
from typing import Any, Final

import pytest
from limit_designs import SOURCE, once

from npu_tensor.dataflow import array
from npu_tensor.dataflow.array import ARRAYS, Tile
from npu_tensor.dataflow.cost import (
    CALL_CYCLES,
    LOCK_CYCLES,
    RUN_BYTES,
    Channel,
    Counters,
    count,
    host_bytes,
    predict,
)
from npu_tensor.dataflow.design import AccessPattern, Builder, Design, ObjectFifo, ObjectType, range_

X: Final = Channel(Tile(0, 0), "x", "out")


def pipeline() -> Design:
    """4096 words in objects of 256 through two neighbouring cores; the first releases in a loop of 4."""
    d = Builder("pipeline", "aie2", columns=1)
    x, y = d.host_buffer("x", "int32", 4096), d.host_buffer("y", "int32", 4096)
    kind = ObjectType("int32", (256,))
    shim, first, second = Tile(0, 0), Tile(0, 2), Tile(0, 3)
    a, b = d.fifo("a", kind, shim, [first]), d.fifo("b", kind, first, [second])
    c = d.fifo("c", kind, second, [shim])
    work = once(d.function("work", [kind, kind], SOURCE, cycles=100))

    def body(*ends: Any) -> None:
        for _ in range_(4):
            work(*ends)

    d.worker(first, body, [a, b])
    d.worker(second, work, [b, c])
    d.fill(a, x, AccessPattern.linear(2048))
    d.fill(a, x, AccessPattern(2048, (1, 1, 32, 64), (0, 0, 64, 1)))
    d.drain(c, y, AccessPattern.linear(4096))
    return d.build()


def broadcast_and_join() -> Design:
    """Objects of 512 words are forwarded as 128 to four cores, whose results of 128 are joined to 512."""
    d = Builder("broadcast", "aie2p", columns=2)
    x, y = d.host_buffer("x", "int32", 2048), d.host_buffer("y", "int32", 8192)
    small, large = ObjectType("int32", (128,)), ObjectType("int32", (512,))
    cores = [Tile(0, row) for row in range(2, 6)]
    source = d.fifo("source", large, Tile(0, 0), [Tile(0, 1)])
    shared = d.fifo("shared", small, Tile(0, 1), cores)
    d.forward(source, shared)
    parts = [d.fifo(f"part{i}", small, core, [Tile(1, 1)]) for i, core in enumerate(cores)]
    result = d.fifo("result", large, Tile(1, 1), [Tile(1, 0)])
    d.join(parts, result)
    work = d.function("work", [small, small], SOURCE, cycles=50)
    for core, part in zip(cores, parts, strict=True):
        d.worker(core, once(work), [shared, part])
    d.fill(source, x, AccessPattern.linear(2048))
    d.drain(result, y, AccessPattern(0, (16, 4, 1, 128), (128, 2048, 0, 1)))
    return d.build()


def test_counters_of_a_pipeline() -> None:
    result = count(pipeline())
    per_object = 100 + CALL_CYCLES + 4 * LOCK_CYCLES
    shim, first, second = Tile(0, 0), Tile(0, 2), Tile(0, 3)
    assert result.cycles == {first: 16 * per_object, second: 16 * per_object}
    # The cores are neighbours: what passes between them uses no channel.
    assert result.stream_bytes == {
        Channel(shim, "a", "out"): 16384,
        Channel(first, "a", "in"): 16384,
        Channel(second, "c", "out"): 16384,
        Channel(shim, "c", "in"): 16384,
    }
    assert result.ddr_bytes == 2 * 16384
    assert result.tasks == {Channel(shim, "a", "out"): 2, Channel(shim, "c", "in"): 1}
    assert (result.transfers, result.waits, result.parameter_words) == (3, 1, 0)


def test_counters_through_memtiles() -> None:
    result = count(broadcast_and_join())
    assert result.cycles == {Tile(0, row): 16 * (50 + CALL_CYCLES + 4 * LOCK_CYCLES) for row in range(2, 6)}
    assert result.stream_bytes[Channel(Tile(0, 1), "shared", "out")] == 8192
    assert all(result.stream_bytes[Channel(Tile(0, row), "shared", "in")] == 8192 for row in range(2, 6))
    assert result.stream_bytes[Channel(Tile(1, 1), "part3", "in")] == 8192
    assert result.stream_bytes[Channel(Tile(1, 0), "result", "in")] == 32768
    assert len(result.stream_bytes) == 2 + 5 + 8 + 2
    assert result.ddr_bytes == 8192 + 32768 + 63 * RUN_BYTES  # the result goes out row by row


@pytest.mark.parametrize(
    ("pattern", "itemsize", "expected"),
    [
        (AccessPattern.linear(7), 4, 28),
        (AccessPattern.linear(1 << 20), 2, 2 << 20),
        (AccessPattern(5, (1, 1, 8, 128), (0, 0, 128, 1)), 2, 2048),  # one run
        (AccessPattern(0, (1, 1, 8, 128), (0, 0, 256, 1)), 2, 8 * 256 + 7 * RUN_BYTES),
        (AccessPattern(0, (1, 1, 8, 56), (0, 0, 256, 1)), 2, 8 * 112 + 7 * RUN_BYTES),
        (AccessPattern(0, (3, 1, 1, 512), (0, 0, 0, 1)), 4, 3 * 2048 + 2 * RUN_BYTES),  # the same again
        (AccessPattern(0, (1, 1, 1, 10), (0, 0, 0, 64)), 4, 40 + 9 * RUN_BYTES),  # a column
    ],
)
def test_runs_cost_more_of_the_host_memory(pattern: AccessPattern, itemsize: int, expected: int) -> None:
    assert host_bytes(pattern, itemsize) == expected


@pytest.mark.parametrize(("nbytes", "published"), [(16, 10), (128, 38.8), (1024, 51.7)])
def test_the_published_effect_of_short_runs(nbytes: int, published: float) -> None:
    """amd/IRON's page of flm.GEMM: GB/s with B in runs of 16 bytes, of its stock kernel, of the shipped overlay."""
    n = nbytes // 2
    pattern = AccessPattern(0, (1, 1, 960, n), (0, 0, 4032, 1))
    rate = 960 * nbytes / host_bytes(pattern, 2) * ARRAYS["aie2p"].ddr_bytes_per_second
    assert rate == pytest.approx(published * 1e9, rel=0.12)


@pytest.mark.parametrize(
    ("counters", "limit", "seconds"),
    [
        (Counters({Tile(0, 2): 3_000_000, Tile(0, 3): 1}, {}, 15_000, {}, 0, 0), "compute", 3e-3),
        (Counters({}, {X: 8_000_000}, 8_000_000, {}, 0, 0), "stream", 2e-3),
        (Counters({}, {X: 1_000_000}, 48_000_000, {}, 0, 0), "ddr", 2e-3),
        # The first transfer is queued in 3,050 cycles, each other one in 520. A channel starts in 1,330 and 325.
        (Counters({}, {X: 40_000}, 40_000, {X: 101}, 0, 0), "control", 52e-6 + 3.05e-6),
        (Counters({}, {X: 4_000_000}, 40_000, {X: 11}, 0, 0), "stream", 1e-3 + 4.58e-6 + 3.05e-6),
        (Counters({Tile(0, 2): 30_000}, {}, 0, {X: 1}, 2, 100), "compute", 30e-6 + 3.05e-6 + 16e-6 + 6.6e-6),
    ],
)
def test_the_slowest_resource_limits(counters: Counters, limit: str, seconds: float) -> None:
    """aie2: 1 GHz, 4 bytes per cycle and channel, 24 GB/s of host memory."""
    result = predict(counters, ARRAYS["aie2"])
    assert result.limit == limit
    assert result.seconds == pytest.approx(seconds)


def test_waits_with_nothing_else_in_flight() -> None:
    d = Builder("groups", "aie2p", columns=1)
    x, y = d.host_buffer("x", "int32", 32), d.host_buffer("y", "int32", 32)
    kind = ObjectType("int32", (8,))
    a, b = d.fifo("a", kind, Tile(0, 0), [Tile(0, 2)]), d.fifo("b", kind, Tile(0, 2), [Tile(0, 0)])
    d.worker(Tile(0, 2), once(d.function("work", [kind, kind], SOURCE)), [a, b])
    groups = [d.group() for _ in range(4)]
    for number, group in enumerate(groups):
        d.fill(a, x, AccessPattern.linear(8, 8 * number), group)
        d.drain(b, y, AccessPattern.linear(8, 8 * number), group)
        if number == 0:
            d.finish(group)  # alone
        elif number > 1:
            d.finish(groups[number - 1])  # while the next group is in flight
    d.finish(groups[3])
    assert count(d.build()).waits == 2


def test_values_of_the_table_are_inside_their_ranges() -> None:
    content = json.loads(Path(array.__file__).with_name("rates.json").read_text("utf-8"))
    for section, figures in content.items():
        for name, figure in figures.items():
            assert {"value", "source"} <= figure.keys() <= {"value", "low", "high", "source"}, name
            assert figure.get("low", figure["value"]) <= figure["value"] <= figure.get("high", figure["value"]), name
            assert len(figure["source"]) > 20, (section, name)
    assert content["npu1"].keys() == content["npu2"].keys()


def fifo(consumer: Tile, **arguments: Any) -> ObjectFifo:
    return ObjectFifo("f", ObjectType("int32", (8,)), Tile(1, 3), (consumer,), **arguments)


def test_only_neighbouring_cores_share_memory() -> None:
    assert all(fifo(tile).shared_memory for tile in (Tile(0, 3), Tile(2, 3), Tile(1, 2), Tile(1, 4)))
    assert not any(fifo(tile).shared_memory for tile in (Tile(2, 4), Tile(1, 5), Tile(3, 3), Tile(1, 1)))
    assert not fifo(Tile(1, 4), dims_to_stream=((8, 1),)).shared_memory
