"""Preconditions of the limits: names, references, types, places and ends."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator
from typing import Any, Final

from npu_tensor.dataflow.array import ARRAYS, Tile
from npu_tensor.dataflow.checks.index import Index, Violation, dtype_name, walk
from npu_tensor.dataflow.checks.limits import HOST_BUFFERS, MEMORY_DTYPES, SCALAR_DTYPES
from npu_tensor.dataflow.design import Acquire, Element, FunctionCall, Loop, ObjectType, Release, Statement, Word

IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RESERVED: Final = re.compile(r"sequence|main|core_\d+_\d+")
"""Reserved symbols of mlir-aie (AIECoreToStandard).

They name the instruction stream, a core's program and the function around its body.
"""

GENERATED: Final = re.compile(r"((_\d+)?_cons)?_((buff|prod_lock|cons_lock)_\d+|shim_alloc)")
"""Suffixes that mlir-aie adds to a fifo's name for its buffers, locks and shim channel.

See AIEObjectFifoStatefulTransform.
"""


def array(index: Index) -> Iterator[Violation]:
    """Check that the generation exists."""
    arch = index.design.arch
    if arch not in ARRAYS:
        known = ", ".join(ARRAYS)
        yield Violation("arch", index.design.name, f"there is no arch {arch!r}; choose one of {known}.")


def columns(index: Index) -> Iterator[Violation]:
    """Check that the array has enough columns."""
    design = index.design
    if not 1 <= design.columns <= design.array.columns:
        message = (
            f"{design.name} uses {design.columns} columns, and {design.array.device} has 1 to {design.array.columns}."
        )
        yield Violation("columns", design.name, message)


def symbols(index: Index) -> Iterator[Violation]:
    """Check that names of fifos, memory and functions are valid in C and linker scripts and unused by the compiler."""
    design = index.design
    fifos = [fifo.name for fifo in design.fifos]
    for name in dict.fromkeys((*fifos, *index.memory, *index.functions)):
        if not IDENTIFIER.fullmatch(name):
            what, limit = "is not a name in C", "letters, digits and _"
        elif RESERVED.fullmatch(name):
            what, limit = "is a name that mlir-aie uses", "another name"
        elif owner := next((f for f in fifos if name.startswith(f) and GENERATED.fullmatch(name[len(f) :])), None):
            what, limit = f"is a name that mlir-aie makes for fifo {owner}", "another name"
        else:
            continue
        yield Violation("symbol", name, f"{name!r} {what}; use {limit}.")


def names(index: Index) -> Iterator[Violation]:
    """Check that names are unique.

    Fifos, memory and functions share one table of symbols; host buffers and sources have their own. mlir-aie adds a
    symbol for each consumer that a DMA serves.
    """
    design = index.design
    symbols = [fifo.name for fifo in design.fifos] + [buffer.name for buffer in design.core_buffers]
    symbols += [parameter.name for parameter in design.parameters] + [item.symbol for item in design.functions]
    for fifo in design.fifos:
        if len(fifo.consumers) > 1:
            symbols += [f"{fifo.name}_{number}_cons" for number in range(len(fifo.consumers))]
        elif fifo.name not in index.shared:
            symbols.append(f"{fifo.name}_cons")
    tables = {
        "names": symbols,
        "host buffers": [buffer.name for buffer in design.host_buffers],
        "sources": [source.name for source in {function.source for function in design.functions}],
    }
    for table, entries in tables.items():
        for name, count in Counter(entries).items():
            if count > 1 or not name:
                yield Violation("unique names", name, f"{count} {table} of the design are {name!r}; they must differ.")
    if len(design.host_buffers) > HOST_BUFFERS:
        message = f"{design.name} has {len(design.host_buffers)} host buffers, and a kernel takes {HOST_BUFFERS}."
        yield Violation("host buffers", design.name, message)


def types(index: Index) -> Iterator[Violation]:
    """Check that a compiler can place all element types in memory, and that shapes have positive sizes."""
    design = index.design
    declared = [(f"fifo {fifo.name}", fifo.type) for fifo in design.fifos]
    declared += [(f"host buffer {buffer.name}", buffer.type) for buffer in design.host_buffers]
    declared += [(f"{item.tile} buffer {name}", item.type) for name, item in index.memory.items()]
    for function in design.functions:
        for position, argument in enumerate(function.arguments):
            where = f"argument {position} of {function.symbol}"
            if isinstance(argument, ObjectType):
                declared.append((where, argument))
            elif dtype_name(argument) not in SCALAR_DTYPES:
                yield _bad_dtype(where, argument, SCALAR_DTYPES, "number")
    for where, type in declared:
        if dtype_name(type.dtype) not in MEMORY_DTYPES:
            yield _bad_dtype(where, type.dtype, MEMORY_DTYPES, "fifo or a buffer")
        if not type.shape or min(type.shape) < 1:
            yield Violation("size", where, f"{where} is {type}; it needs dimensions, and sizes of 1 or more.")


def _bad_dtype(where: str, dtype: str, allowed: tuple[str, ...], use: str) -> Violation:
    choice = ", ".join(allowed)
    hint = " Store it as uint8." if dtype == "bool" else ""
    return Violation("dtype", where, f"{where} is {dtype}; a {use} can be {choice}.{hint}")


def counts(index: Index) -> Iterator[Violation]:
    """Check that depths, stacks, iterations, acquires and releases are positive, and that dims match the consumers."""

    def positive(where: str, what: str, value: int) -> Iterator[Violation]:
        if value < 1:
            yield Violation("size", where, f"{where}: {what} is {value}, and must be 1 or more.")

    for fifo in index.design.fifos:
        yield from positive(f"fifo {fifo.name}", "the depth", fifo.depth)
        entries = len(fifo.dims_from_stream)
        if entries not in (0, len(fifo.consumers)):
            message = f"fifo {fifo.name} has {entries} entries in dims_from_stream for {len(fifo.consumers)} consumers."
            yield Violation("dims", fifo.name, message)
    run_words, values = index.design.run_words, dict(index.design.values)
    for parameter in index.design.parameters:
        written = len(values.get(parameter.name, ()))
        if written != parameter.words - run_words:
            message = (
                f"the sequence writes {written} of the {parameter.words} words of parameter {parameter.name}; it must"
                f" write all but the first {run_words}, which every run gives to all parameters."
            )
            yield Violation("runtime parameter", parameter.name, message)
    for buffer in index.design.core_buffers:
        if buffer.name in values and len(values[buffer.name]) != buffer.type.elements:
            message = (
                f"the sequence expects {len(values[buffer.name])} words in {buffer.name}, which has"
                f" {buffer.type.elements}; state all."
            )
            yield Violation("core buffer", buffer.name, message)
    counts = {
        statement.rounds
        for worker in index.design.workers
        for statement, _ in walk(worker.body)
        if isinstance(statement, Loop)
    }
    for word, value in index.words.items():
        least, what = (0, "count of 31 bits") if word in counts else (-(1 << 31), "word of 32 bits")
        if not least <= value < 1 << 31:
            message = f"{word.memory} gets {value} from the sequence, which is not a {what}."
            yield Violation("runtime parameter", word.memory, message)
    for worker in index.design.workers:
        where = str(worker.tile)
        yield from positive(where, "the stack", worker.stack_size)
        for statement, _ in walk(worker.body):
            if isinstance(statement, Loop) and isinstance(statement.rounds, int) and statement.rounds < 2:
                # mlir-aie's issue 1547: its passes may fail on a nested loop of one round.
                message = (
                    f"{where} has a loop of {statement.rounds} rounds; leave the loop out, it must have 2 or more."
                )
                yield Violation("loop", where, message)
            elif isinstance(statement, Acquire):
                yield from positive(where, f"an acquire of {statement.fifo}", statement.objects)
            elif isinstance(statement, Release):
                yield from positive(where, f"a release of {statement.fifo}", statement.objects)


def places(index: Index) -> Iterator[Violation]:
    """Check that every tile exists, is of the right kind, and has at most one worker."""
    design = index.design
    rows = 2 + design.array.core_rows
    placed = [(f"fifo {fifo.name}", tile, "") for fifo in design.fifos for tile in (fifo.producer, *fifo.consumers)]
    placed += [(f"the link of {', '.join(link.inputs)}", link.tile, "memtile") for link in design.links]
    placed += [("a worker", worker.tile, "core") for worker in design.workers]
    placed += [(f"buffer {name}", item.tile, "core") for name, item in index.memory.items()]
    for what, tile, kind in dict.fromkeys(placed):
        if not (0 <= tile.column < design.columns and 0 <= tile.row < rows):
            message = (
                f"{what} is at {tile}, and the design has columns 0 to {design.columns - 1} and rows 0 to {rows - 1}."
            )
            yield Violation("tile", str(tile), message)
        elif kind and tile.kind != kind:
            yield Violation("tile", str(tile), f"{what} is at {tile}, and needs a {kind}.")
    for tile, count in Counter(worker.tile for worker in design.workers).items():
        if count > 1:
            yield Violation("one worker per core", str(tile), f"{tile} has {count} workers, and can run 1.")
    for name, item in index.memory.items():
        if item.tile not in index.workers:
            yield Violation(
                "unused", name, f"buffer {name} is in the memory of {item.tile}, which has no worker to use it."
            )


def references(index: Index) -> Iterator[Violation]:
    """Check that all names in statements, links and transfers are declared."""

    def known(where: str, kind: str, name: Any, table: Container[Any]) -> Iterator[Violation]:
        if name not in table:
            yield Violation("unknown name", where, f"{where} uses the {kind} {name!r}, which is unknown.")

    for link in index.design.links:
        for name in (*link.inputs, *link.outputs):
            yield from known(f"a link of {link.tile}", "fifo", name, index.fifos)
    for transfer in index.transfers:
        yield from known("a transfer", "fifo", transfer.fifo, index.fifos)
        yield from known("a transfer", "host buffer", transfer.buffer, index.host_buffers)
    words = {name: item.type.elements for name, item in index.memory.items() if dtype_name(item.type.dtype) == "int32"}
    for name, _ in index.design.values:
        yield from known("the sequence", "runtime parameter", name, words)
    for worker in index.design.workers:
        where = str(worker.tile)
        numbers: set[int] = set()
        sizes = {name: size for name, size in words.items() if index.memory[name].tile == worker.tile}
        for name in worker.fifos:
            yield from known(where, "fifo", name, index.fifos)
        for statement, _ in walk(worker.body):
            if isinstance(statement, (Acquire, Release)):
                yield from known(where, "end of its worker", statement.fifo, worker.fifos)
            if isinstance(statement, Acquire):
                if statement.number in numbers:
                    message = f"{where} has two acquires of number {statement.number}; they must differ."
                    yield Violation("unique names", where, message)
                numbers.add(statement.number)
            elif isinstance(statement, FunctionCall):
                yield from known(where, "function", statement.function, index.functions)
                for argument in statement.arguments:
                    if isinstance(argument, str):
                        yield from known(where, "buffer", argument, index.memory)
                    elif isinstance(argument, Word):
                        own = 0 <= argument.number < sizes.get(argument.memory, 0)
                        yield from known(where, "word of its parameters", argument, [argument] * own)
            elif isinstance(statement, Loop) and isinstance(statement.rounds, Word):
                stated = index.words if statement.rounds.memory in sizes else ()
                yield from known(where, "word that the sequence writes", statement.rounds, stated)
        for number in _unseen(worker.body, frozenset()):
            yield from known(where, "acquire", number, ())


def _unseen(body: tuple[Statement, ...], seen: frozenset[int]) -> Iterator[int]:
    """Yield the acquires used by calls that come later or in another loop: MLIR's values do not leave a loop."""
    for statement in body:
        if isinstance(statement, Acquire):
            seen |= {statement.number}
        elif isinstance(statement, Loop):
            yield from _unseen(statement.body, seen)
        elif isinstance(statement, FunctionCall):
            for argument in statement.arguments:
                if isinstance(argument, Element) and argument.acquire not in seen:
                    yield argument.acquire


def consumers(index: Index) -> Iterator[Violation]:
    """Check that each fifo has consumers at different tiles, and at most one end in host memory."""
    for fifo in index.design.fifos:
        ends = [fifo.producer, *fifo.consumers]
        if len(ends) < 2:
            yield Violation("unused end", fifo.name, f"fifo {fifo.name} has no consumer.")
        for tile, count in Counter(ends).items():
            if count > 1:
                message = (
                    f"fifo {fifo.name} has {count} ends at {tile}, and a tile can have 1; use a core buffer instead."
                )
                yield Violation("fifo ends", fifo.name, message)
        hosts = sum(tile.kind == "shim" for tile in ends)
        if hosts > 1:
            message = f"fifo {fifo.name} has {hosts} ends in shim tiles, and a transfer can only mean one of them."
            yield Violation("fifo ends", fifo.name, message)


def ends(index: Index) -> Iterator[Violation]:
    """Check that each end is used by a link or a worker, and that these and transfers use existing ends.

    The host may leave channels idle; see `balance`.
    """
    ends = {(end.fifo.name, end.tile) for end in index.ends}
    workers: Counter[tuple[str, Tile]] = Counter()
    for worker in index.design.workers:
        for name in worker.fifos:
            workers[name, worker.tile] += 1
            if (name, worker.tile) not in ends:
                yield Violation(
                    "fifo ends", str(worker.tile), f"{worker.tile} uses fifo {name}, which has no end there."
                )
    for (name, tile), count in workers.items():
        if count > 1:
            yield Violation("fifo ends", str(tile), f"{tile} gets its end of fifo {name} {count} times, not once.")
    moved = {transfer.fifo for transfer in index.transfers}
    for end in index.ends:
        name, tile = end.fifo.name, end.tile
        used = {"shim": True, "memtile": (name, tile) in index.link_at, "core": workers[name, tile] > 0}
        if not used[tile.kind]:
            what = {"memtile": "link", "core": "worker"}[tile.kind]
            role = "produces for" if end.direction == "out" else "consumes from"
            yield Violation(
                "unused end", name, f"no {what} at {tile} {role} fifo {name}; both ends of a fifo must be used."
            )
    for name in moved:
        if name not in index.design.shim_ends:
            yield Violation("fifo ends", name, f"a transfer uses fifo {name}, which has no end in a shim tile.")
