"""Mapping of rows onto the array: whole in the cores, several to an object, or in chunks with several passes.

A row that is cut into chunks passes through its core once for every pass of the program. If there are fewer rows than
cores, several columns share a row: each core has every n-th chunk of it. After a pass that reduces, the host sends the
partial results of all cores to all of them, as in a split-K product.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Final

from npu_tensor.dataflow.array import Arch, Array
from npu_tensor.dataflow.checks.limits import HOST_BUFFERS, ITERATIONS, LIMITS, PROGRAM_MEMORY, WORD
from npu_tensor.dataflow.columns import cores_per_column
from npu_tensor.dataflow.cost import CALL_CYCLES, LOCK_CYCLES
from npu_tensor.dataflow.design import DEFAULT_STACK, ObjectType
from npu_tensor.kernels.offer import HostOperand
from npu_tensor.kernels.rowwise.cost import (
    LONG,
    RowLoop,
    code_bytes,
    costly_value,
    partial_results,
    row_loop,
    vector_bytes,
    walk_cost,
)
from npu_tensor.kernels.rowwise.program import VECTOR_BYTES, RowOperand, RowProgram, RowWalk, walks
from npu_tensor.kernels.rowwise.row_layout import RowLayout
from npu_tensor.kernels.rowwise.source import first_stream, partial_bytes, state_bytes
from npu_tensor.ops.analysis import needed
from npu_tensor.ops.declare import Layout

CORE_BYTES: Final = LIMITS["core"].memory - DEFAULT_STACK - 2048
"""Bytes of a core's memory for buffers; the rest is for the stack, constants of the C++ and the compiler's counters."""

FUNCTION_BYTES: Final = PROGRAM_MEMORY - 4096
"""Bytes of a core's program memory for functions. The rest is for the statements around their calls."""

OBJECT_BYTES: Final = 4096
"""Target size of objects in bytes, into which rows are grouped.

Acquiring and sending an object costs some tens of cycles.
"""

LENGTHS: Final = sorted(factor << power for factor in (64, 96) for power in range(8))
"""Classes of lengths, 64, 96, 128, 192 and so on. Padding lengthens rows by at most a third, or by less than 64."""

OBJECT_ELEMENTS: Final = 64
"""Overhead of acquiring and releasing objects, in elements that a core could process in that time."""

MOST_PIECES: Final = 3
"""Upper bound on transfers for one column's share of an operand that repeats after some rows."""

CHUNK_BYTES: Final = LIMITS["shim"].wrap * WORD
"""Bytes of the longest innermost run of an access pattern that is not linear."""

STRIDE: Final = LIMITS["shim"].stride * WORD
"""Maximum distance of rows in an access pattern, in bytes."""

SHORTER: Final = 4
"""Ratio of the elements in long and in short chunks."""

EXCHANGE_TRANSFERS: Final = 3
"""Upper bound on transfers that bring partial results: a shim queue holds four, and one is for the next pass."""

OBJECT_CYCLES: Final = CALL_CYCLES + 4 * LOCK_CYCLES
"""Cycles for each chunk of a pass: a call, and acquiring and releasing one input and one output object."""

EXCHANGE_CYCLES: Final = 4000
"""Cycles in which the host forwards partial results: some microseconds.

An assumption; there are no published figures.
"""


@dataclass(frozen=True)
class RowTask:
    """Row task to plan: a program over `rows` rows of `length` elements, and the layouts of its tensors.

    name: name of the ops.
    """

    name: str
    row: RowProgram
    layouts: tuple[RowLayout | None, ...]
    outputs: tuple[RowLayout, ...]
    rows: int
    length: int


@dataclass(frozen=True)
class RowwisePlan:
    """Common part of both kinds of plans.

    Attributes:
        task: Task that is planned.
        columns: Columns used.
        cores: Cores per column.
        rounds: Objects, or rows in chunks, for each core.
        pitch: Elements from one row to the next in the host buffers.
        carrier: Input whose stream brings the resident inputs first.
    """

    task: RowTask
    columns: int
    cores: int
    rounds: int
    pitch: int
    carrier: int

    @property
    def row(self) -> RowProgram:
        """Program over one row."""
        return self.task.row

    @property
    @abstractmethod
    def padded_rows(self) -> int:
        """Rows of the outputs' host buffers."""

    @abstractmethod
    def object_type(self, operand: RowOperand, output: bool) -> ObjectType:
        """Return the object that a core acquires of a stream at a time."""

    @abstractmethod
    def result_block(self, operand: RowOperand) -> tuple[int, ...]:
        """Return the block per row in the host buffer of an output with one element per row."""

    @abstractmethod
    def host_rows(self, slot: int) -> int:
        """Return the rows of an input's host buffer; they are repeated if there are fewer than all."""

    @property
    def resident_copies(self) -> int:
        """Number of copies of a resident input in its host buffer."""
        return 1

    @property
    def arguments(self) -> int:
        """Number of host buffers."""
        return len(self.row.inputs) - len(self.row.numbers) + len(self.row.outputs)

    @property
    def carrier_type(self) -> ObjectType:
        """Objects that bring resident inputs."""
        return self.object_type(self.row.inputs[self.carrier], output=False)

    def resident_objects(self, slot: int) -> int:
        """Count the objects of the carrier that bring a resident input."""
        return -(-self.pitch * self.row.inputs[slot].itemsize // self.carrier_type.nbytes)

    def resident_type(self, slot: int) -> ObjectType:
        """Return the type of the core buffer of a resident input, sized to its objects."""
        operand = self.row.inputs[slot]
        nbytes = self.resident_objects(slot) * self.carrier_type.nbytes
        return ObjectType(operand.dtype, (nbytes // operand.itemsize,))

    def input_type(self, slot: int) -> ObjectType:
        """Return the type from which the functions of a core read an input."""
        operand = self.row.inputs[slot]
        return self.resident_type(slot) if operand.access == "same" else self.object_type(operand, output=False)

    @property
    def ends(self) -> list[ObjectType]:
        """Objects of all streams at a core."""
        inputs = [self.object_type(self.row.inputs[slot], output=False) for slot in self.row.streams]
        return inputs + [self.object_type(operand, output=True) for operand in self.row.outputs]

    @property
    def resident_bytes(self) -> int:
        """Estimated bytes of machine code that loads resident inputs."""
        return sum(256 + 192 * self.resident_objects(slot) for slot in self.row.kept)

    def operands(self) -> tuple[HostOperand, ...]:
        """Describe how the tensors fill the host buffers: inputs that are tensors, then outputs."""
        operands = []
        for slot, (operand, layout) in enumerate(zip(self.row.inputs, self.task.layouts, strict=True)):
            if layout is None:
                continue
            if operand.access == "row":
                operands.append(layout.host_numbers(slot, False, operand.dtype, self.padded_rows, (operand.vector,)))
            elif operand.access == "same":
                elements = self.resident_type(slot).elements
                resident = layout.host(slot, False, operand.dtype, self.resident_copies, elements)
                # Data after a row that is not padded itself is not read.
                operands.append(resident._replace(padding=None) if self.pitch == self.task.length else resident)
            else:
                operands.append(layout.host(slot, False, operand.dtype, self.host_rows(slot), self.pitch))
        for number, (operand, layout) in enumerate(zip(self.row.outputs, self.task.outputs, strict=True)):
            if operand.access == "row":
                block = self.result_block(operand)
                operands.append(layout.host_numbers(number, True, operand.dtype, self.padded_rows, block))
            else:
                operands.append(layout.host(number, True, operand.dtype, self.padded_rows, self.pitch))
        return tuple(operands)


@dataclass(frozen=True)
class WholeRows(RowwisePlan):
    """Rows that fit into a core's memory. The pitch represents a class of lengths, see `length_class`.

    Attributes:
        batch: Rows in an object.
        depth: Objects of a stream in a core at a time.
        values: Instructions whose values a core keeps for later passes over a row.
    """

    batch: int = 1
    depth: int = 2
    values: tuple[int, ...] = ()

    @property
    def form(self) -> WholeRows:
        """Plan with the longest rows, and the fewest, that has the same configuration."""
        length = self.task.length
        if self.pitch in LENGTHS:
            length = self.pitch - (length % self.row.lanes > 0)
        return replace(self, task=RowTask(self.task.name, self.row, (), (), 1, length), rounds=1)

    @property
    def counts(self) -> tuple[str, ...]:
        """Counts that a sequence writes to the cores: elements of a row, and objects of rows after resident inputs."""
        return ("length", "rounds") if self.row.kept else ("length",)

    @property
    def shortest(self) -> int:
        """Length of the shortest rows that the binary serves."""
        if self.pitch not in LENGTHS:
            return self.task.length
        return 1 + max((each for each in LENGTHS if each < self.pitch), default=0)

    @property
    def padded_rows(self) -> int:
        return self.columns * self.share

    @property
    def share(self) -> int:
        """Rows of each column."""
        return self.rounds * self.cores * self.batch

    @property
    def result_bytes(self) -> int:
        """Bytes between the elements of an output with one per row; an object has at least VECTOR_BYTES."""
        return max(WORD, VECTOR_BYTES // self.batch)

    def object_type(self, operand: RowOperand, output: bool) -> ObjectType:
        return ObjectType(operand.dtype, (self.batch * self.row_elements(operand, output),))

    def row_elements(self, operand: RowOperand, output: bool) -> int:
        """Return the elements of a host buffer for each row."""
        if operand.access == "row":
            return self.result_bytes // operand.itemsize if output else operand.vector
        return self.pitch

    def result_block(self, operand: RowOperand) -> tuple[int, ...]:
        return (self.row_elements(operand, output=True),)

    def host_rows(self, slot: int) -> int:
        """Return the period of the rows if every column's share of them takes few transfers, else all rows."""
        layout, total = self.task.layouts[slot], self.padded_rows
        if layout is None or self.row.inputs[slot].access != "full" or layout.period == self.task.rows:
            return total
        if self.share > MOST_PIECES * ITERATIONS * layout.period:
            return total
        most = max(len(pieces(column * self.share, self.share, layout.period)) for column in range(self.columns))
        return layout.period if most <= MOST_PIECES else total

    @property
    def value_type(self) -> ObjectType:
        """Buffer that a core keeps between passes: a float for each element of a row."""
        return ObjectType("float32", (self.pitch,))

    @property
    def fits(self) -> bool:
        """True if the plan fits into a core and a memtile."""
        ends = [_aligned(type.nbytes) for type in self.ends]
        resident = sum(_aligned(self.resident_type(slot).nbytes) for slot in self.row.kept)
        resident += len(self.values) * self.value_type.nbytes
        return (
            self.program_bytes <= FUNCTION_BYTES
            and self.depth * sum(ends) + resident <= CORE_BYTES
            and (self.cores == 1 or 2 * self.cores * sum(ends) <= LIMITS["memtile"].memory)
        )

    @property
    def program_bytes(self) -> int:
        """Estimated bytes of machine code of all passes over a row."""
        copies = sum(
            loop.parts * vector_bytes(self.row, walk)
            for loop, walk in zip(self.loops, walks(self.row), strict=True)
            if loop.parts > 1
        )
        return 512 + self.resident_bytes + code_bytes(self.row) + copies

    @property
    def loops(self) -> tuple[RowLoop, ...]:
        """Form of the loop of each pass."""
        parts = (partial_results(self.row, walk, self.shortest, self.ends_full) for walk in walks(self.row))
        return tuple(row_loop(self.shortest, self.row.lanes, part) for part in parts)

    @property
    def ends_full(self) -> bool:
        """True if a row ends with a full vector."""
        return self.task.length % self.row.lanes == 0

    def cycles(self, arch: Arch) -> int:
        """Predict the cycles for one row."""
        known: tuple[int, ...] = ()
        total = 0
        for walk, loop in zip(walks(self.row), self.loops, strict=True):
            cost = walk_cost(self.row, walk, arch, loop, known, self.row.is_rounded, self.ends_full)
            total += cost.of(self.row.lanes, self.task.length) + cost.row
            # The cost of storing is not charged to the first pass that computes them.
            known = tuple(set(self.values).intersection((*known, *needed(self.row.program, walk.roots))))
        return total

    @property
    def cost(self) -> int:
        """Elements that pass through a core, plus the overhead of changing objects."""
        return self.rounds * (self.batch * self.pitch + OBJECT_ELEMENTS)

    def reason(self) -> str:
        """Describe the plan for `explain`: rows and cores."""
        count = "a row" if self.batch == 1 else f"{self.batch} rows"
        return f"{count} of {self.task.length} at a time in each of {self.columns * self.cores} cores"


@dataclass(frozen=True)
class ChunkedRows(RowwisePlan):
    """Rows that pass through their cores in chunks, once for every pass of the program.

    A binary serves any number of chunks, and therefore rows of any length.

    Attributes:
        group: Columns that share a row; 0 if every core has rows of its own.
        chunk: Elements that a core receives at a time.
        chunks: Chunks of a row for each core.
    """

    group: int
    chunk: int
    chunks: int

    @property
    def loop(self) -> RowLoop:
        """Form of the loops over the vectors of a chunk."""
        return row_loop(self.chunk, self.row.lanes, 1)

    @property
    def form(self) -> ChunkedRows:
        """Plan with the shortest rows, and the fewest, that has the same configuration."""
        chunks = self.resident_chunks if self.row.kept else 1
        pitch = self.members * chunks * self.chunk
        task = RowTask(self.task.name, self.row, (), (), 1, pitch - (self.task.length < self.pitch))
        return replace(self, task=task, rounds=1, pitch=pitch, chunks=chunks)

    @property
    def counts(self) -> tuple[str, ...]:
        """Counts that a sequence writes to the cores.

        These are the elements of a row, the chunks after the first of each pass, the start of a core that shares a row,
        and the rows after resident inputs.
        """
        return ("length", "more", *["begin"] * bool(self.group), *["rounds"] * bool(self.row.kept))

    @property
    def resident_chunks(self) -> int:
        """Capacity of the buffers of resident inputs, in chunks: few sizes serve all lengths."""
        return 1 << (self.chunks - 1).bit_length()

    def resident_objects(self, slot: int) -> int:
        nbytes = self.resident_chunks * self.chunk * self.row.inputs[slot].itemsize
        return -(-nbytes // self.carrier_type.nbytes)

    @property
    def walks(self) -> tuple[RowWalk, ...]:
        """Passes over a row."""
        return walks(self.row)

    @property
    def per_row(self) -> list[int]:
        """Streams that have one element per row."""
        return [slot for slot in self.row.streams if self.row.inputs[slot].access == "row"]

    @property
    def stored(self) -> list[int]:
        """Outputs that have one element per row."""
        return [number for number, output in enumerate(self.row.outputs) if output.access == "row"]

    @property
    def arguments(self) -> int:
        return super().arguments + bool(self.exchanges)

    @property
    def share(self) -> int:
        """Elements of a row that pass through one column (of a group) or core."""
        return self.chunk * self.chunks * (self.cores if self.group else 1)

    @property
    def batch(self) -> int:
        """Rows that are processed at a time."""
        return self.columns // self.group if self.group else self.columns * self.cores

    @property
    def padded_rows(self) -> int:
        return self.rounds * self.batch

    @property
    def members(self) -> int:
        """Cores that share a row."""
        return max(1, self.group * self.cores)

    @property
    def resident_copies(self) -> int:
        return self.cores

    @property
    def exchanges(self) -> list[int]:
        """Passes after which the cores of a group exchange partial results."""
        return [number for number, walk in enumerate(self.walks) if walk.reductions] if self.group else []

    @property
    def exchange_objects(self) -> list[tuple[int, int]]:
        """For each exchange, the states in one object of the carrier and the number of such objects."""
        fit = [self.carrier_type.nbytes // partial_bytes(self.row, self.walks[number]) for number in self.exchanges]
        return [(states, -(-self.members // states)) for states in fit]

    @property
    def result_bytes(self) -> int:
        """Bytes of the object with a core's outputs of one element per row, or its partial results of a pass."""
        return max([VECTOR_BYTES, *(partial_bytes(self.row, self.walks[number]) for number in self.exchanges)])

    def object_type(self, operand: RowOperand, output: bool) -> ObjectType:
        if operand.access == "row":
            return ObjectType(operand.dtype, (self.result_bytes // operand.itemsize if output else operand.vector,))
        return ObjectType(operand.dtype, (self.chunk,))

    def result_block(self, operand: RowOperand) -> tuple[int, ...]:
        return (self.members, self.object_type(operand, output=True).elements)

    @property
    def result_type(self) -> ObjectType:
        """Objects of the first output, which take partial results to the host."""
        return self.object_type(self.row.outputs[0], output=True)

    @property
    def scratch(self) -> int:
        """Bytes of the host buffer for exchanges.

        It has an object of the first output for each core and exchange, plus the range that the last transfer reads
        beyond.
        """
        cores = len(self.exchanges) * self.columns * self.cores
        beyond = max((states * objects for states, objects in self.exchange_objects), default=0)
        return (cores + beyond) * self.result_type.nbytes

    def host_rows(self, slot: int) -> int:
        """Return the period of an input's rows. The rows of a column's cores are adjacent in the host buffer."""
        layout, rows = self.task.layouts[slot], self.task.rows
        assert layout is not None
        repeated = layout.period
        if not self.group:
            repeated = self.cores if layout.rows.repeats else repeated if repeated % self.cores == 0 else rows
        return repeated if repeated < rows else self.padded_rows

    @property
    def fits(self) -> bool:
        """True if the plan fits into the memories and the host can address it."""
        row, task = self.row, self.task
        ends = sum(2 * type.nbytes for type in self.ends)
        resident = sum(self.resident_type(slot).nbytes for slot in row.kept)
        operands = [*zip(row.inputs, task.layouts, strict=True), *zip(row.outputs, task.outputs, strict=True)]
        full = [(operand, layout) for operand, layout in operands if operand.access in ("full", "same") and layout]
        return (
            len(row.streams) <= 2
            and self.arguments <= HOST_BUFFERS
            and ends + resident + state_bytes(row) <= CORE_BYTES
            and all(self.pitch % layout.inner == 0 for _, layout in full)
            and (self.group > 0 or self.chunks <= LIMITS["shim"].wrap)  # a shared row is transferred as one line
            and (self.group > 0 or all(self.pitch * operand.itemsize <= STRIDE for operand, _ in full))
            and self.program_bytes <= FUNCTION_BYTES
            and all(objects <= EXCHANGE_TRANSFERS for _, objects in self.exchange_objects)
            and all(partial_bytes(row, self.walks[number]) <= self.result_type.nbytes for number in self.exchanges)
        )

    @property
    def program_bytes(self) -> int:
        """Estimated bytes of machine code of all functions."""
        return 512 * len(self.walks) + 1024 + self.resident_bytes + code_bytes(self.row)

    def cycles(self, arch: Arch) -> int:
        """Predict the cycles of a core, including changes of objects and waits for exchanges."""
        total = len(self.exchanges) * EXCHANGE_CYCLES
        for walk in self.walks:
            cost = walk_cost(self.row, walk, arch, self.loop)
            total += self.chunks * (cost.of(self.row.lanes, self.chunk) + OBJECT_CYCLES) + cost.row
        return self.rounds * total

    def reason(self) -> str:
        """Describe the plan for `explain`: cores, chunks and passes."""
        cores = f"shared by {self.members} cores" if self.group else f"for each of {self.columns * self.cores} cores"
        times = f", {len(self.walks)} times" if len(self.walks) > 1 else ""
        return f"a row of {self.task.length} {cores}, {self.chunk} elements at a time{times}"

    def operands(self) -> tuple[HostOperand, ...]:
        if not self.exchanges:
            return super().operands()
        dtype = self.row.outputs[0].dtype
        elements = self.scratch // self.row.outputs[0].itemsize
        return (*super().operands(), HostOperand(None, False, Layout((elements,), (1,)), (elements,), dtype))


def _aligned(nbytes: int) -> int:
    return -(-nbytes // VECTOR_BYTES) * VECTOR_BYTES


def plan_rows(task: RowTask, pitch: int, array: Array, columns: int) -> list[WholeRows | ChunkedRows]:
    """Return the plans for at most `columns` columns, the better one first.

    Rows that fit into a core are not cut, because that takes several passes. pitch: elements between such rows.
    """
    return [plan for plan in (_whole(task, pitch, array, columns), _chunked(task, array, columns)) if plan is not None]


def _whole(task: RowTask, pitch: int, array: Array, columns: int) -> WholeRows | None:
    """Return a plan with whole rows in the cores, or None if they are too long.

    A binary is made for a class of lengths, and for one row or for as many rows as an object holds at a time.
    """
    inner = math.lcm(*(layout.inner for layout in (*task.layouts, *task.outputs) if layout))
    pitches = [each for each in (length_class(pitch), pitch) if each % inner == 0]
    return next((plan for each in pitches if (plan := _whole_of(task, each, array, columns))), None)


def _whole_of(task: RowTask, pitch: int, array: Array, columns: int) -> WholeRows | None:
    row = task.row
    cores = cores_per_column(array, len(row.streams), len(row.outputs))
    plan = WholeRows(task, columns, cores, 1, pitch, -1)
    bytes_of = {slot: plan.object_type(row.inputs[slot], output=False).nbytes for slot in row.streams}
    plan = replace(plan, carrier=max(bytes_of, key=lambda slot: bytes_of[slot]))
    widest = max([*bytes_of.values(), *(pitch * output.itemsize for output in row.outputs if output.access == "full")])
    share = -(-task.rows // (columns * cores))
    most, value = _power_of_two(OBJECT_BYTES // widest), costly_value(row)
    forms = [(batch, 2, value) for batch in (most, most // 2, most // 4) if batch > 1]
    forms += [(1, 2, value), (1, 2, ()), (1, 1, value), (1, 1, ())]
    plans = [
        replace(plan, batch=batch, rounds=-(-share // batch), depth=depth, values=values)
        for batch, depth, values in forms
    ]
    fitting = [plan for plan in plans if plan.fits]
    # The largest batch that fits, or single rows if that would be padding.
    single = [plan for plan in fitting if plan.batch == 1][:1]
    return min([*fitting[:1], *single], key=lambda plan: plan.cost, default=None)


def length_class(length: int) -> int:
    """Return the smallest of `LENGTHS` that is at least `length`, or the length itself beyond them."""
    return next((each for each in LENGTHS if each >= length), length)


def _power_of_two(value: int) -> int:
    """Return the largest power of two that is at most `value`."""
    return 1 << max(value, 1).bit_length() - 1


def pieces(first: int, count: int, period: int) -> list[tuple[int, int, int]]:
    """Split rows `first` to `first + count` modulo `period` into runs (first, count, repetitions)."""
    runs: list[tuple[int, int, int]] = []
    while count:
        start = first % period
        run = min(count, period - start)
        times = min(count // period, ITERATIONS) if start == 0 and count >= period else 1
        runs.append((start, run, times))
        first += run * times
        count -= run * times
    return runs


def _chunked(task: RowTask, array: Array, columns: int) -> ChunkedRows | None:
    """Return the cheapest plan with rows in chunks, or None."""
    row, rows = task.row, task.rows
    if all(operand.access != "full" for operand in row.inputs):
        return None
    inputs = tuple(o._replace(access="full") if o.access == "same" else o for o in row.inputs)
    streamed = replace(task, row=row._replace(inputs=inputs))
    plans = []
    for form in dict.fromkeys((task, streamed)):
        cores = cores_per_column(array, len(form.row.streams), len(row.outputs))
        own = 1 if rows <= columns else cores
        plans += _cuts(form, min(columns, _power_of_two(2 * -(-rows // own) - 1)), own, 0)
    group = max(1, columns // rows)
    plans += _cuts(streamed, columns // group * group, cores, group)
    return min((plan for plan in plans if plan.fits), key=lambda plan: plan.cycles(array.arch), default=None)


def _cuts(task: RowTask, columns: int, cores: int, group: int) -> list[ChunkedRows]:
    """Return plans with long chunks and with short ones, which leave less padding at the end of a row."""
    row = task.row
    carrier = first_stream(row)
    sizes = [operand.itemsize for operand in (*row.inputs, *row.outputs) if operand.access in ("full", "same")]
    state = max(partial_bytes(row, walk) for walk in walks(row)) if group else VECTOR_BYTES
    least = max(LONG * row.lanes, VECTOR_BYTES // min(sizes), state // row.inputs[carrier].itemsize)
    longest = max(least, _power_of_two(CHUNK_BYTES // max(sizes)))
    members = max(1, group * cores)
    rounds = -(-task.rows // (columns // group if group else columns * cores))
    plans = []
    for chunk in dict.fromkeys((longest, max(least, longest // SHORTER))):
        chunks = -(-task.length // (members * chunk))
        pitch = members * chunks * chunk
        plans.append(ChunkedRows(task, columns, cores, rounds, pitch, carrier, group, chunk, chunks))
    return plans
