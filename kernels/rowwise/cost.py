"""Predicted cycles and machine code of walks over rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from functools import lru_cache
from typing import Final, NamedTuple

from npu_tensor.dataflow.array import ARRAYS, Arch
from npu_tensor.kernels.codegen.cycles import LONGEST_INTERVAL, LOOP_CYCLES, LoopWork, lanes_cycles, program_bytes, work
from npu_tensor.kernels.codegen.emitter import Choice, choose
from npu_tensor.kernels.rowwise.program import (
    VECTOR_BYTES,
    RowProgram,
    RowWalk,
    rough_values,
    row_values,
    short_loads,
    varying,
    walks,
)
from npu_tensor.ops.analysis import Precision, needed, worth_keeping

COSTLY: Final = 10
"""Threshold in cycles per vector from which a value is kept for a later walk instead of being recomputed."""

CALLED_BYTES: Final = 400
"""Threshold in bytes of machine code from which nt::once shares one function among all its uses in a program."""

CALL_BYTES: Final = 64
"""Bytes of machine code of a call."""

PROMISES: Final = (16, 4)
"""Rounds that the source promises of a loop (NT_AT_LEAST_16, NT_AT_LEAST_4). Peano overlaps no more of them."""

LONG: Final = min(PROMISES)
"""Rounds of a loop from which the compiler may pipeline it."""

MOST_PARTIAL: Final = 4
"""Upper bound on the partial results of a reduction."""

LANES_BYTES: Final = 256
"""Bytes of machine code that combines the lanes of a reduction."""

MASK: Final = 3
"""Moves that exclude the lanes after the end of a row from a reduction: a broadcast, a comparison and a selection."""


class WalkCost(NamedTuple):
    """Cost of a walk in cycles.

    Attributes:
        vector: Cycles of each vector of the row.
        start: Further cycles of a loop over vectors.
        row: Cycles of the row values that are known afterwards.
    """

    vector: int
    start: int
    row: int

    def of(self, lanes: int, elements: int) -> int:
        """Return the cycles for a number of elements, without the values of the row."""
        return self.vector * -(-elements // lanes) + self.start


class RowLoop(NamedTuple):
    """Form of a loop over the vectors of a row.

    Attributes:
        parts: Partial results of each reduction.
        rounds: Promised rounds, of one vector for each partial result; 0 if there may be few.
    """

    parts: int
    rounds: int


def row_loop(elements: int, lanes: int, parts: int) -> RowLoop:
    """Return the form of a loop over a number of elements or more."""
    return RowLoop(parts, next((rounds for rounds in PROMISES if rounds * parts * lanes <= elements), 0))


def _for_vectors(row: RowProgram, walk: RowWalk, stored: Collection[int] = (), by_reciprocal: bool = False) -> Choice:
    """Choose the work of a walk for every vector, except the values in `stored`, which an earlier walk has stored."""
    varies = varying(row)
    known = {*stored, *(number for number, differs in enumerate(varies) if not differs)}
    return _chosen(row, walk.roots, known, walk.reductions, by_reciprocal)


def _for_row(row: RowProgram, walk: RowWalk, by_reciprocal: bool = False) -> Choice:
    """Choose the work that is done once for the row after a walk."""
    number = walks(row).index(walk)
    known = {value for values in row_values(row)[:number] for value in values} | set(walk.reductions)
    return _chosen(row, row_values(row)[number], known, (), by_reciprocal)


def _chosen(
    row: RowProgram, roots: Collection[int], known: set[int], more: tuple[int, ...], by_reciprocal: bool
) -> Choice:
    precision: Precision = "half" if rough_values(row).issuperset(roots) else "full"
    same = [number for number, differs in enumerate(varying(row)) if not differs]
    choice = choose(row.program, known, precision, roots, same, short_loads(row), by_reciprocal)
    return replace(choice, numbers=(*(number for number in choice.numbers if number not in known), *more))


def _work(row: RowProgram, arch: Arch, choice: Choice) -> LoopWork:
    memory = dict(zip(row.program.outputs, (output.dtype for output in row.outputs), strict=True))
    for number, (primitive, _, _, slot) in enumerate(row.program.instructions):
        if primitive == "load":
            memory[number] = row.inputs[slot].dtype
    return work(row.program, arch, row.lanes, choice.precision, choice.numbers, choice.forms, memory)


def _bytes(row: RowProgram, choice: Choice, number: int) -> int:
    """Estimate the bytes of one instruction."""
    chosen = program_bytes(row.program, choice.precision, (number,), choice.forms)
    return chosen - program_bytes(row.program, {}, ())


@lru_cache(maxsize=4096)
def walk_cost(
    row: RowProgram,
    walk: RowWalk,
    arch: Arch,
    loop: RowLoop,
    stored: tuple[int, ...] = (),
    by_reciprocal: bool = False,
    whole: bool = False,
) -> WalkCost:
    """Compute the cost of one walk.

    Args:
        row: Program to compute.
        walk: Pass over the row.
        arch: Generation of the array.
        loop: Form of the loop over the vectors.
        stored: Values that an earlier walk has stored and this one loads.
        by_reciprocal: True if the reciprocal of the length is known.
        whole: True if rows end with a full vector.
    """
    finish = 0
    for number in walk.reductions:
        instruction = row.program.instructions[number]
        dtype = row.program.instructions[instruction.operands[0]].dtype
        dtype = "int32" if dtype == "bool" else dtype
        finish += lanes_cycles(instruction.primitive, dtype, arch)
    each = _work(row, arch, _for_vectors(row, walk, stored, by_reciprocal))
    kept = len(stored) * VECTOR_BYTES
    array = ARRAYS[arch]
    finish += (loop.parts - 1) * each.carried
    each = each._replace(
        load=each.load - (-2 * kept // array.load_bytes),
        move=each.move + MASK * len(walk.reductions) * (not whole),
        carried=-(-each.carried // loop.parts),
    )
    once = _work(row, arch, _for_row(row, walk, by_reciprocal))
    vector = each.overlapped(max(1, loop.rounds * loop.parts))
    return WalkCost(vector, each.straight - vector + LOOP_CYCLES, (once.straight if any(once) else 0) + finish)


@lru_cache(maxsize=4096)
def partial_results(row: RowProgram, walk: RowWalk, shortest: int, whole: bool) -> int:
    """Return how many partial results of a reduction hide the latency between its steps.

    Args:
        row: Program to compute.
        walk: Pass over the row.
        shortest: Least elements of a row. A loop has at least LONG rounds, of one vector for each partial result.
        whole: True if rows end with a full vector.
    """
    each = _work(row, "aie2", _for_vectors(row, walk))
    interval = each._replace(carried=0, move=each.move + MASK * len(walk.reductions) * (not whole)).interval
    result = 1
    while (
        result < MOST_PARTIAL
        and result * interval < each.carried
        and 2 * result * interval <= LONGEST_INTERVAL
        and 2 * result * LONG * row.lanes <= shortest
    ):
        result *= 2
    return result


@lru_cache(maxsize=4096)
def walk_bytes(row: RowProgram, walk: RowWalk) -> int:
    """Estimate the machine code of a walk's loop."""
    return program_bytes(row.program, {}, ()) + vector_bytes(row, walk)


@lru_cache(maxsize=4096)
def vector_bytes(row: RowProgram, walk: RowWalk) -> int:
    """Estimate the machine code of a walk for one vector."""
    choice = _for_vectors(row, walk)
    return sum(_bytes(row, choice, number) for number in choice.numbers)


@lru_cache(maxsize=1024)
def row_bytes(row: RowProgram) -> int:
    """Estimate the machine code of the work done once for each row, after all walks."""
    total = 0
    called = set()
    for walk in walks(row):
        choice = _for_row(row, walk)
        for number in choice.numbers:
            exactness = choice.precision.get(number, "full")
            nbytes = _bytes(row, choice, number)
            function = row.program.instructions[number].primitive, exactness
            if nbytes > CALLED_BYTES and function in called:
                nbytes = CALL_BYTES
            called.add(function)
            total += nbytes
    return total + LANES_BYTES * sum(len(walk.reductions) for walk in walks(row))


def code_bytes(row: RowProgram) -> int:
    """Estimate the machine code of the whole computation, without the statements around it."""
    return row_bytes(row) + sum(walk_bytes(row, walk) for walk in walks(row))


@lru_cache(maxsize=1024)
def costly_value(row: RowProgram) -> tuple[int, ...]:
    """Return the float value that is most expensive to recompute in a later walk, if above COSTLY: one or none."""
    rough = rough_values(row)
    most, costliest = 0, tuple[int, ...]()
    computed: set[int] = set()
    for walk in walks(row):
        chosen = _for_vectors(row, walk)
        values = [number for number in chosen.numbers if number not in walk.reductions]
        cost = {}
        for number in values:
            again = [n for n in needed(row.program, [number]) if n in values]
            cost[number] = _work(row, "aie2", replace(chosen, numbers=tuple(again))).interval
        costly = {number for number in values if cost[number] >= COSTLY}
        for number in worth_keeping(row.program, walk.roots, computed & costly):
            if cost[number] > most:
                most, costliest = cost[number], (number,)
        # A value computed roughly, for this walk only, does not serve a later one.
        computed.update(number for number in values if number in rough or not rough.issuperset(walk.roots))
    return costliest
