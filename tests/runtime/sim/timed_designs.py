"""Small designs whose course can be worked out by hand, run without any kernel code."""

from typing import Any

import numpy as np
from sim_designs import each

from npu_tensor.dataflow.array import ARRAYS, Tile
from npu_tensor.dataflow.design import AccessPattern, Builder, Design, ObjectType, Source
from npu_tensor.runtime.sim.simulated_array import LoadedDesign, SimulatedArray
from npu_tensor.runtime.sim.tile_memory import DeviceBuffer
from npu_tensor.runtime.sim.timeline import Timeline, recorded

SHIM, MEMTILE, CORE, OTHER = Tile(0, 0), Tile(0, 1), Tile(0, 2), Tile(0, 3)
CYCLES = 7
"""Cycles of the body of `nt_work`; a call takes 20 more."""


def worked(d: Builder, type: ObjectType) -> Any:
    return d.function("nt_work", [type, type], Source("work", ""), cycles=CYCLES)


def one_core(
    objects: int,
    elements: int,
    *,
    depth: int = 2,
    in_turn: bool = False,
) -> Design:
    """Return a design that sends `objects` objects of int32 through one core.

    Args:
        objects: Number of objects.
        depth: Depth of the fifo to the core.
        in_turn: True if the host sends an object only after the previous one has come back.
    """
    d = Builder("one core", "aie2p", columns=1)
    type = ObjectType("int32", (elements,))
    x, y = d.host_buffer("x", "int32", objects * elements), d.host_buffer("y", "int32", objects * elements)
    fx = d.fifo("x0", type, SHIM, [CORE], depth=depth)
    fy = d.fifo("y0", type, CORE, [SHIM])
    work = worked(d, type)

    d.worker(CORE, each(work), [fx, fy])
    if in_turn:
        for number in range(objects):
            group = d.group()
            d.fill(fx, x, AccessPattern.linear(elements, number * elements), group)
            d.drain(fy, y, AccessPattern.linear(elements, number * elements), group)
            d.finish(group)
    else:
        d.fill(fx, x, AccessPattern.linear(objects * elements))
        d.drain(fy, y, AccessPattern.linear(objects * elements))
    return d.build()


def split() -> Design:
    """Return a design whose memtile splits an object of 128 words between two cores and joins their results."""
    d = Builder("split", "aie2p", columns=1)
    whole, half = ObjectType("int32", (128,)), ObjectType("int32", (64,))
    x, y = d.host_buffer("x", "int32", 128), d.host_buffer("y", "int32", 128)
    fx, fy = d.fifo("x0", whole, SHIM, [MEMTILE]), d.fifo("y0", whole, MEMTILE, [SHIM])
    cores = (CORE, OTHER)
    parts = [d.fifo(f"a{number}", half, MEMTILE, [core]) for number, core in enumerate(cores)]
    results = [d.fifo(f"b{number}", half, core, [MEMTILE]) for number, core in enumerate(cores)]
    d.split(fx, parts)
    d.join(results, fy)
    work = worked(d, half)

    body = each(work)
    for core, part, result in zip(cores, parts, results, strict=True):
        d.worker(core, body, [part, result])
    d.fill(fx, x, AccessPattern.linear(128))
    d.drain(fy, y, AccessPattern.linear(128))
    return d.build()


def all_columns(arch: str, objects: int, *, runs_of: int = 256) -> Design:
    """Every column reads and writes the host memory through two cores: more than it can give.

    runs_of: neighbouring words of host memory; between them as many are left out.
    """
    columns = ARRAYS[arch].columns
    d = Builder("all columns", arch, columns=columns)
    type = ObjectType("int32", (256,))
    total = objects * 256
    work = worked(d, type)

    body = each(work)
    x, y = (d.host_buffer(name, "int32", 4 * columns * total) for name in "xy")
    for column in range(columns):
        for row in (2, 3):
            offset = (2 * column + row - 2) * 2 * total
            pattern = AccessPattern(offset, (1, 1, total // runs_of, runs_of), (0, 0, 2 * runs_of, 1))
            fx = d.fifo(f"x{column}_{row}", type, Tile(column, 0), [Tile(column, row)])
            fy = d.fifo(f"y{column}_{row}", type, Tile(column, row), [Tile(column, 0)])
            d.worker(Tile(column, row), body, [fx, fy])
            d.fill(fx, x, pattern)
            d.drain(fy, y, pattern)
    return d.build()


def loaded(design: Design) -> LoadedDesign:
    """In an array of its own; the kernel function does nothing."""
    return SimulatedArray(ARRAYS[design.arch]).load(design, entries={"nt_work": lambda *arguments: None})


def run(design: LoadedDesign) -> None:
    buffers = [DeviceBuffer(buffer.type.nbytes) for buffer in design.design.host_buffers]
    design.run([np.asarray(buffer.device) for buffer in buffers])


def timeline(design: Design) -> Timeline:
    """Return the timeline of the first run."""
    with recorded() as result:
        run(loaded(design))
    (only,) = result
    return only
