"""Rules for the resources of a tile: memory, machine code, DMA channels, buffer descriptors, locks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.checks.index import Index, Violation, walk
from npu_tensor.dataflow.checks.limits import (
    ALIGNMENT,
    CORE_RESERVE,
    LIMITS,
    LOCK_VALUE,
    PARITY_DESCRIPTORS,
    PROGRAM_MEMORY,
    STREAMS_NORTH,
    STREAMS_SOUTH,
    WORD,
)
from npu_tensor.dataflow.core_memory import CoreMemory, placed
from npu_tensor.dataflow.design import FunctionCall

START_BYTES: Final = 512
STATEMENT_BYTES: Final = 64
"""Machine code around `main` and of one acquire, release, loop or call, in bytes.

Estimates: only the compiler knows.
"""


def memory(index: Index) -> Iterator[Violation]:
    """Check the memory: stack and buffers of a core in 64 KiB less a reserve, buffers of a memtile in 512 KiB.

    Each is counted with the bytes that may be lost to the alignment of the next one.
    """
    for tile, blocks in _blocks(index).items():
        items = []
        for name, nbytes, number in blocks:
            each = -(-nbytes // ALIGNMENT) * ALIGNMENT
            items.append((f"{name} {number} x {each}", number * each) if number else (name, each))
        limit = LIMITS[tile.kind].memory - (CORE_RESERVE if tile.kind == "core" else 0)
        used = sum(nbytes for _, nbytes in items)
        if used > limit:
            largest = sorted(items, key=lambda item: item[1], reverse=True)[:6]
            listed = ", ".join(f"{label} = {nbytes}" for label, nbytes in largest)
            message = (
                f"{tile} needs {used} bytes ({listed}{', ...' if len(items) > 6 else ''}; each rounded up to a "
                f"multiple of {ALIGNMENT}), and {limit} can be used; use smaller objects or fewer of them."
            )
            yield Violation(f"{tile.kind} memory", str(tile), message)
    yield from _addresses(index)


def _addresses(index: Index) -> Iterator[Violation]:
    """Check the buffers with an address: after the stack, apart from each other, with room for all other buffers."""
    fixed = {buffer.name: buffer for buffer in index.design.core_buffers if buffer.address is not None}
    for tile, (stack, *blocks) in _blocks(index).items():
        if not any(block.name in fixed for block in blocks):
            continue
        memory = []
        for name, nbytes, number in blocks:
            address = fixed[name].address if name in fixed else None
            each = -(-nbytes // ALIGNMENT) * ALIGNMENT
            memory += [CoreMemory(f"{name}{i}" if number else name, each, address) for i in range(number or 1)]
        places = placed(memory, stack.nbytes)
        end, limit = stack.nbytes, LIMITS["core"].memory - CORE_RESERVE
        for name, nbytes, address in sorted(memory, key=lambda buffer: places[buffer.name]):
            if address is not None and (address < end or address % ALIGNMENT):
                message = (
                    f"{name} of {tile} has address {address}, and must have a multiple of {ALIGNMENT} after the stack "
                    f"and other buffers, which end at {end}."
                )
                yield Violation("core memory", str(tile), message)
            end = places[name] + nbytes
        if end > limit:
            message = f"{tile} needs memory up to {end}, and {limit} bytes can be used; move buffers with an address."
            yield Violation("core memory", str(tile), message)


def alignment(index: Index) -> Iterator[Violation]:
    """Check that the stack and the buffers of a core end where a word can begin, or a vector if necessary.

    mlir-aie lays out the stack and then the buffers, the largest first. Up to 1.4.1 each begins at a multiple of 32
    bytes, but vectors of aie2p need 64 (its pull request 3662). A small buffer, such as a counter, may have any number
    of words. So may objects of fifos: the vector width of the functions that read them is unknown here.
    """
    for tile, (stack, *buffers) in _blocks(index).items():
        if tile.kind != "core":
            continue
        buffers.sort(key=lambda block: -block.nbytes)
        for position, block in enumerate((stack, *buffers)):
            if block.number and block.name not in index.shared:
                continue  # `object_sizes` checks the requirements of a DMA.
            following = None if block.number else next(iter(buffers[position:]), None)
            needed = WORD if following is None else _alignment(following.nbytes, index.design.array.vector_bytes)
            if block.nbytes % needed:
                reason = "the memory has whole words"
                if following is not None and needed > WORD:
                    reason = f"{following.name} begins where it ends, and vectors may be loaded from there"
                message = (
                    f"{block.name} of {tile} has {block.nbytes} bytes, and must have a multiple of {needed}: {reason}; "
                    "pad it."
                )
                yield Violation("alignment", str(tile), message)


def _alignment(nbytes: int, widest: int) -> int:
    """Return the alignment in bytes that a block needs for the widest vectors that it can hold."""
    return next((width for width in (widest, 32, 16) if nbytes >= width), WORD)


class _Block(NamedTuple):
    """Memory block of a tile. number: buffers of a fifo, 0 for other blocks."""

    name: str
    nbytes: int
    number: int = 0


def _blocks(index: Index) -> dict[Tile, list[_Block]]:
    """Return the memory blocks by tile, with the stack first."""
    blocks: dict[Tile, list[_Block]] = defaultdict(list)
    for worker in index.design.workers:
        blocks[worker.tile].append(_Block("stack", worker.stack_size))
    for pool in index.pools:
        if pool.buffers:
            blocks[pool.tile].append(_Block(pool.fifo.name, pool.fifo.type.nbytes, pool.buffers))
    for name, item in index.memory.items():
        blocks[item.tile].append(_Block(name, item.type.nbytes))
    return blocks


def program(index: Index) -> Iterator[Violation]:
    """Check the estimated machine code of a core."""
    for worker in index.design.workers:
        called = {statement.function for statement, _ in walk(worker.body) if isinstance(statement, FunctionCall)}
        functions = sum(index.functions[symbol].program_bytes for symbol in called)
        body = START_BYTES + STATEMENT_BYTES * sum(1 for _ in walk(worker.body))
        if functions + body > PROGRAM_MEMORY:
            message = (
                f"{worker.tile} needs about {functions + body} bytes of program memory ({functions} for its functions "
                f"and {body} around them), and has {PROGRAM_MEMORY}; call fewer functions or use range_."
            )
            yield Violation("program memory", str(worker.tile), message)


def channels(index: Index) -> Iterator[Violation]:
    """Check the DMA channels: one for each end of a fifo, but none between neighbouring cores."""
    users: dict[tuple[Tile, str], list[str]] = defaultdict(list)
    for end in index.channels:
        users[end.tile, end.direction].append(end.fifo.name)
    for (tile, direction), names in users.items():
        limit = LIMITS[tile.kind].channels
        if len(names) > limit:
            kind = {"in": "input", "out": "output"}[direction]
            message = f"{tile} needs {len(names)} {kind} DMA channels ({', '.join(names)}), and has {limit}."
            yield Violation("DMA channels", str(tile), message)


def streams(index: Index) -> Iterator[Violation]:
    """Check that all streams between two rows of tiles fit the switches there. A broadcast crosses only once.

    Streams may be routed through other columns, so only all columns together are checked. The compiler may still find
    no routes for a design that passes.
    """
    design = index.design
    routed = [(fifo.producer, fifo.consumers) for fifo in design.fifos if fifo.name not in index.shared]
    for row in range(1, 1 + design.array.core_rows):
        up = sum(producer.row <= row < max(tile.row for tile in tiles) for producer, tiles in routed)
        down = sum(min(tile.row for tile in tiles) <= row < producer.row for producer, tiles in routed)
        for used, each, source, target in ((up, STREAMS_NORTH, row, row + 1), (down, STREAMS_SOUTH, row + 1, row)):
            limit = each * design.columns
            if used > limit:
                where = f"from {Tile(0, source)} to {Tile(0, target)}"
                message = (
                    f"{used} streams lead {where} and between these rows in the other columns, and the switches of "
                    f"{design.columns} columns have {each} each; join objects in the cores or use more columns."
                )
                yield Violation("streams", where, message)


def descriptors(index: Index) -> Iterator[Violation]:
    """Check the descriptors: 16 in a core; 48 in a memtile, half for its even and half for its odd channels."""
    channels: dict[Tile, dict[str, dict[str, int]]] = defaultdict(lambda: {"in": {}, "out": {}})
    for entry in index.descriptors:
        channels[entry.end.tile][entry.end.direction][entry.end.fifo.name] = entry.number
    for tile, sides in channels.items():
        total, limit = sum(sum(side.values()) for side in sides.values()), LIMITS[tile.kind].descriptors
        if total > limit:
            counts = ", ".join(f"{name}: {count}" for side in sides.values() for name, count in side.items())
            hint = "fewer objects (operands, rows of a window)" if tile.kind == "core" else "fifos of less depth"
            message = f"{tile} needs {total} buffer descriptors ({counts}), and has {limit}; use {hint}."
            yield Violation("buffer descriptors", str(tile), message)
        elif tile.kind == "memtile":
            yield from _parity(tile, sides)


def _parity(tile: Tile, sides: Mapping[str, Mapping[str, int]]) -> Iterator[Violation]:
    """Check even and odd channels. The compiler numbers them in the order of the fifos, which IRON sorts by name."""
    for parity, which in enumerate(("even", "odd")):
        needed = sum(side[name] for side in sides.values() for name in sorted(side)[parity::2])
        if needed > PARITY_DESCRIPTORS:
            message = (
                f"{tile} needs {needed} buffer descriptors on its {which} DMA channels, and has {PARITY_DESCRIPTORS} "
                "for them; a split or join of n parts and depth d takes n x d on each side, so lower n or d."
            )
            yield Violation("buffer descriptors", str(tile), message)


def lengths(index: Index) -> Iterator[Violation]:
    """Check the length of buffer descriptors: 131071 words in a memtile and 16383 in a core."""
    for end, _, nbytes in index.descriptors:
        limit = LIMITS[end.tile.kind].length
        if nbytes > limit * WORD:
            message = (
                f"{end.tile} moves objects of fifo {end.fifo.name} in {nbytes // WORD} words at once, "
                f"and a buffer descriptor takes {limit}."
            )
            yield Violation("descriptor length", str(end.tile), message)


def object_sizes(index: Index) -> Iterator[Violation]:
    """Check that objects have whole words, which a DMA requires."""
    for fifo in index.design.fifos:
        if fifo.type.nbytes % WORD and fifo.name not in index.shared:
            message = (
                f"an object of fifo {fifo.name}, {fifo.type}, has {fifo.type.nbytes} bytes, and must have a multiple "
                f"of {WORD}; pad it."
            )
            yield Violation("object size", fifo.name, message)


def locks(index: Index) -> Iterator[Violation]:
    """Check the locks: two for each end of a fifo, each part of a split or join, and each fifo in shared memory.

    They count the free and the filled buffers.
    """
    used: dict[Tile, int] = defaultdict(int)
    for pool in index.pools:
        used[pool.tile] += pool.locks
        if pool.buffers > LOCK_VALUE:
            message = (
                f"fifo {pool.fifo.name} has {pool.buffers} buffers in {pool.tile}, and a lock counts to {LOCK_VALUE}."
            )
            yield Violation("lock value", pool.fifo.name, message)
    for tile, count in used.items():
        limit = LIMITS[tile.kind].locks
        if count > limit:
            message = (
                f"{tile} needs {count} locks, 2 for each fifo end in its memory, and has {limit}; use fewer fifos."
            )
            yield Violation("locks", str(tile), message)
