"""How rows are laid over the array: whole in the cores, several to an object, or chunk by chunk in several passes.

A row that is cut into chunks passes through its core once for every pass of the program. If there are fewer rows than
cores, several columns share a row: each core has every n-th chunk of it, and after a pass that reduces, the host sends
the partial results of all cores to all of them (as in a split-K product).
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
from npu_tensor.kernels.rowwise.cost import code_bytes, costly_value, walk_cost
from npu_tensor.kernels.rowwise.program import VECTOR_BYTES, RowOperand, RowProgram, RowWalk, walks
from npu_tensor.kernels.rowwise.row_layout import RowLayout
from npu_tensor.kernels.rowwise.source import LONG, first_stream, partial_bytes, state_bytes
from npu_tensor.ops.declare import Layout

__all__ = ["FUNCTION_BYTES", "ChunkedRows", "RowTask", "RowwisePlan", "WholeRows", "pieces", "plan_rows"]

CORE_BYTES: Final = LIMITS["core"].memory - DEFAULT_STACK - 2048
"""Bytes of a core's memory for buffers; the rest is for the stack, constants of the C++ and the compiler's counters."""

FUNCTION_BYTES: Final = PROGRAM_MEMORY - 4096
"""Bytes of a core's program memory for functions. What is left over is for the statements around their calls."""

OBJECT_BYTES: Final = 4096
"""Rows are put together to objects of this size: acquiring and sending one costs some tens of cycles."""

LENGTHS: Final = sorted(factor << power for factor in (64, 96) for power in range(8))
"""Classes of lengths, 64, 96, 128, 192 and so on: rows become longer by a third at most, or by less than 64."""

OBJECT_ELEMENTS: Final = 64
"""Elements that a core could process while it acquires and releases objects."""

MOST_PIECES: Final = 3
"""Transfers for one column's share of an operand that repeats after some rows."""

CHUNK_BYTES: Final = LIMITS["shim"].wrap * WORD
"""The longest innermost run of an access pattern that is not linear."""

STRIDE: Final = LIMITS["shim"].stride * WORD
"""Bytes from row to row that an access pattern can step over."""

SHORTER: Final = 4
"""Long chunks have so many times the elements of short ones."""

EXCHANGE_TRANSFERS: Final = 3
"""Transfers that bring partial results: a queue of a shim channel has room for four, one is for the next pass."""

OBJECT_CYCLES: Final = CALL_CYCLES + 4 * LOCK_CYCLES
"""For each chunk of a pass: a call, and one object of an input and of an output that are acquired and released."""

EXCHANGE_CYCLES: Final = 4000
"""In which the host passes on partial results: some microseconds. An assumption, as nobody has published it."""


@dataclass(frozen=True)
class RowTask:
    """What is to be planned: a program over `rows` rows of `length` elements, and how its tensors lie in memory.

    name: of the ops.
    """

    name: str
    row: RowProgram
    layouts: tuple[RowLayout | None, ...]
    outputs: tuple[RowLayout, ...]
    rows: int
    length: int


@dataclass(frozen=True)
class RowwisePlan:
    """What both ways have in common.

    cores: per column. rounds: objects, or rows in chunks, for each core. pitch: elements from one row to the next in
    the host buffers. carrier: the input whose stream brings the resident inputs first.
    """

    task: RowTask
    columns: int
    cores: int
    rounds: int
    pitch: int
    carrier: int

    @property
    def row(self) -> RowProgram:
        """The program over one row."""
        return self.task.row

    @property
    @abstractmethod
    def padded_rows(self) -> int:
        """Rows of the outputs' host buffers."""

    @abstractmethod
    def object_type(self, operand: RowOperand, output: bool) -> ObjectType:
        """What a core acquires of a stream at a time."""

    @abstractmethod
    def result_block(self, operand: RowOperand) -> tuple[int, ...]:
        """What the host buffer of an output with one element per row has for each row."""

    @abstractmethod
    def host_rows(self, slot: int) -> int:
        """Rows of the host buffer of an input; they are repeated if they are fewer than all."""

    @property
    def resident_copies(self) -> int:
        """How often a resident input is in its host buffer."""
        return 1

    @property
    def arguments(self) -> int:
        """Host buffers."""
        return len(self.row.inputs) - len(self.row.numbers) + len(self.row.outputs)

    @property
    def carrier_type(self) -> ObjectType:
        """The objects that bring resident inputs."""
        return self.object_type(self.row.inputs[self.carrier], output=False)

    def resident_objects(self, slot: int) -> int:
        """How many objects of the carrier bring a resident input."""
        return -(-self.pitch * self.row.inputs[slot].itemsize // self.carrier_type.nbytes)

    def resident_type(self, slot: int) -> ObjectType:
        """The core buffer of a resident input: as much as those objects bring."""
        operand = self.row.inputs[slot]
        nbytes = self.resident_objects(slot) * self.carrier_type.nbytes
        return ObjectType(operand.dtype, (nbytes // operand.itemsize,))

    def input_type(self, slot: int) -> ObjectType:
        """What the functions of a core read an input from."""
        operand = self.row.inputs[slot]
        return self.resident_type(slot) if operand.access == "same" else self.object_type(operand, output=False)

    @property
    def ends(self) -> list[ObjectType]:
        """The objects of all streams at a core."""
        inputs = [self.object_type(self.row.inputs[slot], output=False) for slot in self.row.streams]
        return inputs + [self.object_type(operand, output=True) for operand in self.row.outputs]

    @property
    def resident_bytes(self) -> int:
        """Machine code that loads resident inputs, estimated."""
        return sum(256 + 192 * self.resident_objects(slot) for slot in self.row.kept)

    def operands(self) -> tuple[HostOperand, ...]:
        """How the tensors fill the host buffers: inputs that are tensors, then outputs."""
        operands = []
        for slot, (operand, layout) in enumerate(zip(self.row.inputs, self.task.layouts, strict=True)):
            if layout is None:
                continue
            if operand.access == "row":
                operands.append(layout.host_numbers(slot, False, operand.dtype, self.padded_rows, (operand.vector,)))
            elif operand.access == "same":
                elements = self.resident_type(slot).elements
                resident = layout.host(slot, False, operand.dtype, self.resident_copies, elements)
                # What is brought behind a row that is not padded itself is not read.
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
    """Rows that fit into a core's memory. The pitch stands for a class of lengths, see `length_class`.

    batch: rows in an object. depth: objects of a stream in a core at a time. values: instructions whose values a core
    keeps for later passes over a row.
    """

    batch: int = 1
    depth: int = 2
    values: tuple[int, ...] = ()

    @property
    def form(self) -> WholeRows:
        """The plan of the longest rows, as few as can be, that have its configuration."""
        length = self.task.length
        if self.pitch in LENGTHS:
            length = self.pitch - (length % self.row.lanes > 0)
        return replace(self, task=RowTask(self.task.name, self.row, (), (), 1, length), rounds=1)

    @property
    def counts(self) -> tuple[str, ...]:
        """What a sequence writes to the cores: elements of a row, and objects of rows behind resident inputs."""
        return ("length", "rounds") if self.row.kept else ("length",)

    @property
    def shortest(self) -> int:
        """The length of the shortest rows that the binary serves."""
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
        """Bytes from one element of an output with one per row to the next; an object has VECTOR_BYTES at least."""
        return max(WORD, VECTOR_BYTES // self.batch)

    def object_type(self, operand: RowOperand, output: bool) -> ObjectType:
        return ObjectType(operand.dtype, (self.batch * self.row_elements(operand, output),))

    def row_elements(self, operand: RowOperand, output: bool) -> int:
        """Elements of a host buffer for each row."""
        if operand.access == "row":
            return self.result_bytes // operand.itemsize if output else operand.vector
        return self.pitch

    def result_block(self, operand: RowOperand) -> tuple[int, ...]:
        return (self.row_elements(operand, output=True),)

    def host_rows(self, slot: int) -> int:
        """The period of the rows, if every column's share of them is few transfers; else all rows."""
        layout, total = self.task.layouts[slot], self.padded_rows
        if layout is None or self.row.inputs[slot].access != "full" or layout.period == self.task.rows:
            return total
        if self.share > MOST_PIECES * ITERATIONS * layout.period:
            return total
        most = max(len(pieces(column * self.share, self.share, layout.period)) for column in range(self.columns))
        return layout.period if most <= MOST_PIECES else total

    @property
    def value_type(self) -> ObjectType:
        """What a core keeps between passes: a float for each element of a row."""
        return ObjectType("float32", (self.pitch,))

    @property
    def fits(self) -> bool:
        """Whether a core and a memtile have room for it."""
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
        """An estimate of the machine code of all passes over a row."""
        return 512 + self.resident_bytes + code_bytes(self.row)

    def cycles(self, arch: Arch) -> int:
        """Predicted for one row."""
        known: tuple[int, ...] = ()
        total = 0
        for walk in walks(self.row):
            cost = walk_cost(self.row, walk, arch, known)
            total += cost.of(self.row.lanes, self.task.length) + cost.row
            known = self.values  # The first pass that has them is not charged for storing them.
        return total

    @property
    def cost(self) -> int:
        """Elements that pass through a core, with those that it could have processed while it changed objects."""
        return self.rounds * (self.batch * self.pitch + OBJECT_ELEMENTS)

    def reason(self) -> str:
        """For `explain`: rows and cores."""
        count = "a row" if self.batch == 1 else f"{self.batch} rows"
        return f"{count} of {self.task.length} at a time in each of {self.columns * self.cores} cores"


@dataclass(frozen=True)
class ChunkedRows(RowwisePlan):
    """Rows that pass through their cores in chunks, once for every pass of the program.

    group: columns that share a row, 0 if every core has rows of its own. chunk: elements that a core gets at a time.
    chunks: of a row for each core. A binary serves any number of them, and so rows of any length.
    """

    group: int
    chunk: int
    chunks: int

    @property
    def form(self) -> ChunkedRows:
        """The plan of the shortest rows, as few as can be, that have its configuration."""
        chunks = self.resident_chunks if self.row.kept else 1
        pitch = self.members * chunks * self.chunk
        task = RowTask(self.task.name, self.row, (), (), 1, pitch - (self.task.length < self.pitch))
        return replace(self, task=task, rounds=1, pitch=pitch, chunks=chunks)

    @property
    def counts(self) -> tuple[str, ...]:
        """What a sequence writes to the cores: elements of a row, chunks behind the first of each pass, where a core
        that shares a row begins, and rows behind resident inputs.
        """
        return ("length", "more", *["begin"] * bool(self.group), *["rounds"] * bool(self.row.kept))

    @property
    def resident_chunks(self) -> int:
        """Chunks that the buffers of resident inputs have room for: few sizes serve all lengths."""
        return 1 << (self.chunks - 1).bit_length()

    def resident_objects(self, slot: int) -> int:
        nbytes = self.resident_chunks * self.chunk * self.row.inputs[slot].itemsize
        return -(-nbytes // self.carrier_type.nbytes)

    @property
    def walks(self) -> tuple[RowWalk, ...]:
        """The passes over a row."""
        return walks(self.row)

    @property
    def per_row(self) -> list[int]:
        """The streams that have one element per row."""
        return [slot for slot in self.row.streams if self.row.inputs[slot].access == "row"]

    @property
    def stored(self) -> list[int]:
        """The outputs that have one element per row."""
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
        """Rows that are worked on at a time."""
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
        """The passes after which the cores of a group exchange partial results."""
        return [number for number, walk in enumerate(self.walks) if walk.reductions] if self.group else []

    @property
    def exchange_objects(self) -> list[tuple[int, int]]:
        """Of each exchange: how many states are in one object of the carrier, and how many such objects there are."""
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
        """The objects of the first output, which take partial results to the host."""
        return self.object_type(self.row.outputs[0], output=True)

    @property
    def scratch(self) -> int:
        """Bytes of the host buffer for exchanges: an object of the first output for each core and exchange, and as
        much more as the last transfer reads beyond.
        """
        cores = len(self.exchanges) * self.columns * self.cores
        beyond = max((states * objects for states, objects in self.exchange_objects), default=0)
        return (cores + beyond) * self.result_type.nbytes

    def host_rows(self, slot: int) -> int:
        """The period of an input's rows; the rows of a column's cores are neighbours in the host buffer."""
        layout, rows = self.task.layouts[slot], self.task.rows
        assert layout is not None
        repeated = layout.period
        if not self.group:
            repeated = self.cores if layout.rows.repeats else repeated if repeated % self.cores == 0 else rows
        return repeated if repeated < rows else self.padded_rows

    @property
    def fits(self) -> bool:
        """Whether there is memory for it and the host can address it."""
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
        """An estimate of the machine code of all functions."""
        return 512 * len(self.walks) + 1024 + self.resident_bytes + code_bytes(self.row)

    def cycles(self, arch: Arch) -> int:
        """Predicted for a core, with those in which it changes objects and waits for exchanges."""
        total = len(self.exchanges) * EXCHANGE_CYCLES
        for walk in self.walks:
            cost = walk_cost(self.row, walk, arch)
            total += self.chunks * (cost.of(self.row.lanes, self.chunk) + OBJECT_CYCLES) + cost.row
        return self.rounds * total

    def reason(self) -> str:
        """For `explain`: cores, chunks and passes."""
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
    """The plans that there are for at most `columns` columns, the better one first.

    Rows that fit into a core are not cut: that takes several passes. pitch: of rows that a core has as a whole.
    """
    return [plan for plan in (_whole(task, pitch, array, columns), _chunked(task, array, columns)) if plan is not None]


def _whole(task: RowTask, pitch: int, array: Array, columns: int) -> WholeRows | None:
    """A plan that has rows as a whole in the cores, or None if they are too long.

    A binary is made for a class of lengths, and for one row or as many as an object holds at a time.
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
    # The largest batch that fits, or single rows where that would be padding.
    single = [plan for plan in fitting if plan.batch == 1][:1]
    return min([*fitting[:1], *single], key=lambda plan: plan.cost, default=None)


def length_class(length: int) -> int:
    """The least of `LENGTHS` that is not below, or the length itself beyond them."""
    return next((each for each in LENGTHS if each >= length), length)


def _power_of_two(value: int) -> int:
    """The largest one not above."""
    return 1 << max(value, 1).bit_length() - 1


def pieces(first: int, count: int, period: int) -> list[tuple[int, int, int]]:
    """Rows `first` to `first + count` modulo `period`: runs of rows as first, count, how often."""
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
    """The cheapest plan with rows in chunks, or None."""
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
    """With long chunks and with short ones, so that little of a row's end is padding."""
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
