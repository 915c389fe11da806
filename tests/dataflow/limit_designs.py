"""Small designs with a knob for everything that the array limits."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from npu_tensor.dataflow import AccessPattern, Builder, Design, ObjectType, Source, Tile, range_
from npu_tensor.dataflow.design import (
    Acquire,
    CoreBuffer,
    Finish,
    FunctionCall,
    HostBuffer,
    LastWords,
    Loop,
    ObjectFifo,
    Release,
    RuntimeParameter,
    Transfer,
    Word,
)

SHIM, MEMTILE, CORE, ABOVE = Tile(0, 0), Tile(0, 1), Tile(0, 2), Tile(0, 3)
SOURCE = Source("work", "")

Dims = Sequence[tuple[int, int]]


def reach(pattern: AccessPattern) -> int:
    """Elements of the smallest buffer that a pattern stays inside."""
    return pattern.offset + 1 + sum((n - 1) * s for n, s in zip(pattern.sizes, pattern.strides, strict=True))


def copy(
    pattern: AccessPattern | None = None,
    dtype: str = "int32",
    tile: int = 256,
    *,
    drained: AccessPattern | None = None,
    host: int | None = None,
    depth: int = 2,
    hold: int = 1,
    rounds: int | None = None,
    stack: int = 1024,
    spare: int = 0,
    initial: bytes | None = None,
    dims_to_stream: Dims = (),
    dims_from_stream: Dims = (),
    program_bytes: int = 1024,
    scalar: tuple[str, Any] | None = None,
    arch: str = "aie2p",
) -> Design:
    """One core takes objects of `tile` elements from x and puts as many into y. hold: objects of x held at once.

    spare: bytes of a core buffer. The dims are those of the core's own ends: to stream of y, from stream of x.
    """
    pattern = pattern or AccessPattern.linear(4 * tile)
    elements = pattern.elements
    d = Builder("copy", arch, columns=1)
    x = d.host_buffer("x", dtype, host or reach(pattern))
    y = d.host_buffer("y", dtype, reach(drained) if drained else elements)
    type = ObjectType(dtype, (tile,))
    fx = d.fifo("fx", type, SHIM, [CORE], depth, dims_from_stream=[dims_from_stream])
    fy = d.fifo("fy", type, CORE, [SHIM], depth, dims_to_stream=dims_to_stream)
    arguments: list[ObjectType | str] = [type, type]
    values: tuple[Any, ...] = ()
    if scalar:
        arguments.append(scalar[0])
        values = (scalar[1],)
    work = d.function("work", arguments, SOURCE, program_bytes=program_bytes)
    if spare:
        d.core_buffer("spare", CORE, ObjectType("int8", (spare,)), initial)

    def body(source: Any, result: Any) -> None:
        count = rounds if rounds is not None else elements // tile
        for _ in range_(count // hold):
            taken = source.acquire(hold)
            for element in taken if hold > 1 else (taken,):
                work(element, result.acquire(1), *values)
                result.release(1)
            source.release(hold)

    d.worker(CORE, body, [fx, fy], stack)
    d.fill(fx, x, pattern)
    d.drain(fy, y, drained or AccessPattern.linear(elements))
    return d.build()


def fan(inputs: int, outputs: int, fills: Sequence[int] = (), drains: Sequence[int] = (), columns: int = 3) -> Design:
    """One core with several fifos to and from shim tiles, two of a kind in each column.

    fills and drains: into how many transfers each of them is cut; all are in one group.
    """
    d = Builder("fan", "aie2p", columns)
    type = ObjectType("int32", (16,))
    total = 60 * 16
    work = d.function("work", [type] * (inputs + outputs), SOURCE)
    host, result = d.host_buffer("x", "int32", total), d.host_buffer("y", "int32", total * outputs)
    ins = [d.fifo(f"in{i}", type, Tile(i // 2, 0), [CORE]) for i in range(inputs)]
    outs = [d.fifo(f"out{i}", type, CORE, [Tile(i // 2, 0)]) for i in range(outputs)]
    d.worker(CORE, once(work), [*ins, *outs])
    for fifo, count in zip(ins, fills or [1] * inputs, strict=True):
        for part in range(count):
            d.fill(fifo, host, AccessPattern.linear(total // count, part * (total // count)))
    for i, (fifo, count) in enumerate(zip(outs, drains or [1] * outputs, strict=True)):
        for part in range(count):
            d.drain(fifo, result, AccessPattern.linear(total // count, i * total + part * (total // count)))
    return d.build()


def cores(tiles: Sequence[Tile], columns: int) -> Design:
    """Workers that each have their own fifos to and from the shim tile of their column."""
    d = Builder("cores", "aie2p", columns)
    type = ObjectType("int32", (16,))
    host = d.host_buffer("x", "int32", 16)
    result = d.host_buffer("y", "int32", 16 * len(tiles))
    work = d.function("work", [type, type], SOURCE)
    drains = []
    for n, tile in enumerate(tiles):
        shim = Tile(tile.column, 0)
        fill = d.fifo(f"in{n}", type, shim, [tile])
        drains.append(d.fifo(f"out{n}", type, tile, [shim]))
        d.worker(tile, once(work), [fill, drains[-1]])
        d.fill(fill, host, AccessPattern.linear(16))
    for i, fifo in enumerate(drains):
        d.drain(fifo, result, AccessPattern.linear(16, 16 * i))
    return d.build()


def idle(*fifos: str) -> Design:
    """Return a design with a core in each of two columns, and no transfers of these fifos of the second."""
    design = cores([Tile(0, 2), Tile(1, 2)], 2)
    steps = [step for step in design.sequence if isinstance(step, Finish) or step.fifo not in fifos]
    return replace(design, sequence=tuple(steps))


def once(work: Callable[..., None]) -> Callable[..., None]:
    """Return the body of a core that calls `work` with one object of each fifo."""

    def body(*ends: Any) -> None:
        work(*(end.acquire(1) for end in ends))
        for end in ends:
            end.release(1)

    return body


def forwarded(
    large: int,
    small: int,
    depth: int = 2,
    count: int = 1,
    dtype: str = "int32",
    dims_to_stream: Dims = (),
    dims_from_stream: Dims = (),
) -> Design:
    """`count` fifos with objects of `large` elements, which one memtile forwards as objects of `small` to a core each.

    The dims are those of the memtile's ends.
    """
    d = Builder("forwarded", "aie2p", columns=8)
    total = math.lcm(large, small)
    host, result = d.host_buffer("x", dtype, total), d.host_buffer("y", dtype, count * total)
    type = ObjectType(dtype, (small,))
    work = d.function("work", [type, type], SOURCE)
    drains = []
    for n in range(count):
        tile = Tile(n, 2)
        source = d.fifo(
            f"large{n}",
            ObjectType(dtype, (large,)),
            Tile(n, 0),
            [MEMTILE],
            depth,
            dims_from_stream=[dims_from_stream],
        )
        result_fifo = d.fifo(f"small{n}", type, MEMTILE, [tile], dims_to_stream=dims_to_stream)
        d.forward(source, result_fifo)
        drains.append(d.fifo(f"out{n}", type, tile, [Tile(n, 0)]))
        d.worker(tile, once(work), [result_fifo, drains[-1]])
        d.fill(source, host, AccessPattern.linear(total))
    for n, fifo in enumerate(drains):
        d.drain(fifo, result, AccessPattern.linear(total, n * total))
    return d.build()


def split_join(parts: int, depth: int = 2, join: bool = True, whole: int | None = None) -> Design:
    """Design whose memtile cuts objects into one part per core, and joins the results in the same or the next memtile.

    Args:
        parts: Number of parts of an object.
        depth: Depth of the fifos.
        join: True if split and join are in one memtile.
        whole: Elements of the split object, if they are not the right number.
    """
    part = 64
    d = Builder("split_join", "aie2p", columns=2)
    elements = whole or part * parts
    host = d.host_buffer("x", "int32", elements)
    result = d.host_buffer("y", "int32", part * parts)
    type = ObjectType("int32", (part,))
    work = d.function("work", [type, type], SOURCE)
    tiles = [Tile(n // 4, 2 + n % 4) for n in range(parts)]
    parent = d.fifo("parent", ObjectType("int32", (elements,)), SHIM, [MEMTILE], depth)
    children = [d.fifo(f"child{n}", type, MEMTILE, [tile], depth) for n, tile in enumerate(tiles)]
    d.split(parent, children)
    outs: list[ObjectFifo] = []
    if join:
        joined = d.fifo("joined", ObjectType("int32", (part * parts,)), MEMTILE, [SHIM], depth)
        outs = [d.fifo(f"result{n}", type, tile, [MEMTILE], depth) for n, tile in enumerate(tiles)]
        d.join(outs, joined)
    else:
        outs = [d.fifo(f"result{n}", type, tile, [Tile(4 + n // 2, 0)]) for n, tile in enumerate(tiles)]
        d.columns = 8
    for fifo, child, tile in zip(outs, children, tiles, strict=True):
        d.worker(tile, once(work), [child, fifo])
    d.fill(parent, host, AccessPattern.linear(elements))
    if join:
        d.drain(joined, result, AccessPattern.linear(part * parts))
    else:
        for n, fifo in enumerate(outs):
            d.drain(fifo, result, AccessPattern.linear(part, n * part))
    return d.build()


def crossing(up: int, down: int, columns: int = 1) -> Design:
    """`up` fifos from a memtile and its shim tile to the 4 cores of a column, and `down` from these to either."""
    d = Builder("crossing", "aie2p", columns)
    type, split = ObjectType("int32", (16,)), min(up, 6 if down <= 2 else 5)
    host, result = d.host_buffer("x", "int32", 16 * up), d.host_buffer("y", "int32", 16 * down)
    tiles = [Tile(0, 2 + n % 4) for n in range(8)]
    parent = d.fifo("parent", ObjectType("int32", (16 * split,)), SHIM, [MEMTILE], 1)
    ins = [d.fifo(f"in{n}", type, MEMTILE if n < split else SHIM, [tiles[n]], 1) for n in range(up)]
    d.split(parent, ins[:split])
    outs = [d.fifo(f"out{n}", type, tiles[n], [SHIM if down <= 2 else MEMTILE], 1) for n in range(down)]
    for n, tile in enumerate(tiles[:4]):
        ends = [*ins[n::4], *outs[n::4]]
        d.worker(tile, once(d.function(f"work{len(ends)}", [type] * len(ends), SOURCE)), ends)
    d.fill(parent, host, AccessPattern.linear(16 * split))
    for n in range(split, up):
        d.fill(ins[n], host, AccessPattern.linear(16, 16 * n))
    drained = outs
    if down > 2:
        drained = [d.fifo("joined", ObjectType("int32", (16 * down,)), MEMTILE, [SHIM], 1)]
        d.join(outs, drained[0])
    for n, fifo in enumerate(drained):
        d.drain(fifo, result, AccessPattern.linear(fifo.type.elements, n * fifo.type.elements))
    return d.build()


def neighbours(shared: int, tile: int = 16, first: Tile = CORE, second: Tile = ABOVE, depth: int = 2) -> Design:
    """Two cores with `shared` fifos from the first to the second, two inputs and one output."""
    d = Builder("neighbours", "aie2p", columns=2)
    type = ObjectType("int32", (tile,))
    host, result = d.host_buffer("x", "int32", tile), d.host_buffer("y", "int32", tile)
    give = d.function("give", [type] * (2 + shared), SOURCE)
    take = d.function("take", [type] * (1 + shared), SOURCE)
    ins = [d.fifo(f"in{n}", type, SHIM, [first]) for n in range(2)]
    between = [d.fifo(f"between{n}", type, first, [second], depth) for n in range(shared)]
    out = d.fifo("out", type, second, [SHIM])
    d.worker(first, once(give), [*ins, *between])
    d.worker(second, once(take), [*between, out])
    for fifo in ins:
        d.fill(fifo, host, AccessPattern.linear(tile))
    d.drain(out, result, AccessPattern.linear(tile))
    return d.build()


# --- the same with something changed


def pattern(sizes: tuple[int, int, int, int], strides: tuple[int, int, int, int], offset: int = 0) -> AccessPattern:
    return AccessPattern(offset, sizes, strides)


def with_worker(design: Design, **changes: Any) -> Design:
    """With other attributes of its only worker."""
    worker = replace(design.workers[0], **changes)
    return replace(design, workers=(worker, *design.workers[1:]))


def with_fifo(design: Design, position: int, **changes: Any) -> Design:
    fifo = replace(design.fifos[position], **changes)
    return replace(design, fifos=(*design.fifos[:position], fifo, *design.fifos[position + 1 :]))


def with_offsets(design: Design, *offsets: int) -> Design:
    """With other offsets of its first link."""
    return replace(design, links=(replace(design.links[0], offsets=offsets), *design.links[1:]))


def with_function(design: Design, **changes: Any) -> Design:
    return replace(design, functions=(replace(design.functions[0], **changes),))


def with_transfers(design: Design, **changes: Any) -> Design:
    """With other attributes of all transfers."""
    sequence = tuple(step._replace(**changes) if isinstance(step, Transfer) else step for step in design.sequence)
    return replace(design, sequence=sequence)


def without_finish(design: Design) -> Design:
    return replace(design, sequence=tuple(step for step in design.sequence if not isinstance(step, Finish)))


def in_groups(design: Design, size: int) -> Design:
    """The fills and drains of `copy`, in groups of `size` of each that are finished one after another."""
    fills = [step for step in design.sequence if isinstance(step, Transfer) and step.fifo == "fx"]
    drains = [step for step in design.sequence if isinstance(step, Transfer) and step.fifo == "fy"]
    sequence: list[Transfer | Finish] = []
    for group in range(len(fills) // size):
        part = slice(group * size, (group + 1) * size)
        sequence += [step._replace(group=group) for step in (*fills[part], *drains[part])]
        sequence.append(Finish(group))
    return replace(design, sequence=tuple(sequence))


def cut(transfers: int) -> Design:
    """`copy` with each transfer cut into as many, all in one group."""
    design = copy(AccessPattern.linear(transfers * 256), rounds=1)
    parts = [
        Transfer(fifo, buffer, AccessPattern.linear(256, 256 * part), 0, fifo == "fy")
        for fifo, buffer in (("fx", "x"), ("fy", "y"))
        for part in range(transfers)
    ]
    return replace(design, sequence=(*parts, Finish(0)))


def with_host_buffers(count: int) -> Design:
    design = copy()
    spare = tuple(HostBuffer(f"spare{n}", ObjectType("int32", (16,))) for n in range(count - 2))
    return replace(design, host_buffers=(*design.host_buffers, *spare))


def parameter_read(early: bool) -> Design:
    """Return a design whose body reads a runtime parameter before or after it acquires the data of the run."""
    design = copy()
    words = ObjectType("int32", (4,))
    take, acquire, call = Acquire("fx", 1, 0), Acquire("fy", 1, 1), FunctionCall("read", ("words",))
    last = (Release("fx", 1), Release("fy", 1))
    body = (acquire, call, take, *last) if early else (take, acquire, call, *last)
    design = with_worker(design, body=body)
    read = replace(design.functions[0], symbol="read", arguments=(words,))
    return replace(design, functions=(read,), parameters=(RuntimeParameter("words", CORE, 4),))


def computed(values: tuple[int, ...] | None, dtype: str = "int32") -> Design:
    """Return a design with a loop whose rounds are an element of a core buffer that a function has computed."""
    design = parameter_read(early=False)
    take, acquire, call, *last = design.workers[0].body
    design = with_worker(design, body=(take, acquire, call, Loop(Word("rounds", 1), (call,)), *last))
    stated = (LastWords("words", (1, 2, 3, 4)), *[LastWords("rounds", values)] * (values is not None))
    return replace(design, core_buffers=(CoreBuffer("rounds", CORE, ObjectType(dtype, (2,))),), values=stated)


def with_values(**values: tuple[int, ...]) -> Design:
    """The sequence writes the last words of runtime parameters."""
    return replace(parameter_read(early=False), values=tuple(itertools.starmap(LastWords, values.items())))


def strided(position: int, stride: int) -> Design:
    """Two rows of 16 int32 that lie `stride` apart in one of the outer dimensions."""
    sizes, strides = [1, 1, 1, 16], [0, 0, 0, 1]
    sizes[position], strides[position] = 2, stride
    return copy(AccessPattern(0, (sizes[0], sizes[1], sizes[2], 16), (strides[0], strides[1], strides[2], 1)), tile=16)


def two_sources() -> Design:
    design = copy()
    first = design.functions[0]
    other = replace(first, symbol="other", source=replace(first.source, name="other"))
    loop = design.workers[0].body[0]
    assert isinstance(loop, Loop)
    call = next(statement for statement in loop.body if isinstance(statement, FunctionCall))
    body = (Loop(loop.rounds, (*loop.body[:2], call, call._replace(function="other"), *loop.body[3:])),)
    return replace(with_worker(design, body=body), functions=(first, other))
