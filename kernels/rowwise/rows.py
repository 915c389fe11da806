"""Rows that fit into a core's memory: several of them in each object, all walks over them there."""

from __future__ import annotations

from typing import Final, NamedTuple

from npu_tensor.dataflow.array import Arch
from npu_tensor.dataflow.checks.limits import ITERATIONS, LIMITS, WORD
from npu_tensor.dataflow.design import ObjectType
from npu_tensor.kernels.offer import HostOperand
from npu_tensor.kernels.rowwise.columns import CORE_BYTES, FUNCTION_BYTES, cores_per_column
from npu_tensor.kernels.rowwise.cost import code_bytes, costly_value, walk_cost
from npu_tensor.kernels.rowwise.layout import RowLayout
from npu_tensor.kernels.rowwise.program import VECTOR_BYTES, Operand, RowProgram, walks

__all__ = ["RowsPlan", "pieces", "plan_rows"]

OBJECT_BYTES: Final = 4096
"""Rows are put together to objects of this size: acquiring and sending one costs some tens of cycles."""

MOST_PIECES: Final = 3
"""Transfers for one column's share of an operand that repeats after some rows."""


class RowsPlan(NamedTuple):
    """How rows are distributed. rows: of the task. pitch: elements of a padded row. together: rows in an object.

    rounds: objects for each core. depth: objects of a stream in a core at a time. host_rows: rows of the host buffer
    of an input, by slot, which are repeated if they are fewer. values: instructions whose values a core keeps for later
    walks over a row.
    """

    row: RowProgram
    layouts: tuple[RowLayout | None, ...]
    outputs: tuple[RowLayout, ...]
    rows: int
    length: int
    pitch: int
    columns: int
    cores: int
    together: int
    rounds: int
    depth: int
    host_rows: tuple[int, ...]
    values: tuple[int, ...]

    @property
    def carrier(self) -> int:
        """The stream that brings what stays: the one with the largest objects."""
        return max(self.row.streams, key=lambda slot: self.row_bytes(self.row.inputs[slot], output=False))

    @property
    def share(self) -> int:
        """Rows of each column."""
        return self.rounds * self.cores * self.together

    @property
    def slot(self) -> int:
        """Bytes of an output with one element per row. Objects of it are not below VECTOR_BYTES."""
        return max(WORD, VECTOR_BYTES // self.together)

    def row_elements(self, operand: Operand, output: bool) -> int:
        """Elements of a host buffer for each row."""
        if operand.access == "row":
            return self.slot // operand.itemsize if output else operand.vector
        return self.pitch

    def row_bytes(self, operand: Operand, output: bool) -> int:
        """Bytes of a host buffer for each row."""
        return self.row_elements(operand, output) * operand.itemsize

    def object_type(self, operand: Operand, output: bool) -> ObjectType:
        """What a core gets or gives at a time."""
        return ObjectType(operand.dtype, (self.together * self.row_elements(operand, output),))

    def brought(self, slot: int) -> int:
        """How many objects of the carrier bring an input that stays."""
        carrier = self.object_type(self.row.inputs[self.carrier], output=False).nbytes
        return -(-self.pitch * self.row.inputs[slot].itemsize // carrier)

    def kept_type(self, slot: int) -> ObjectType:
        """What a core keeps of an input: as much as those objects bring."""
        brought = self.brought(slot) * self.object_type(self.row.inputs[self.carrier], output=False).nbytes
        return ObjectType(self.row.inputs[slot].dtype, (brought // self.row.inputs[slot].itemsize,))

    @property
    def value_type(self) -> ObjectType:
        """What a core keeps between walks: a float for each element of a row."""
        return ObjectType("float32", (self.pitch,))

    @property
    def ends(self) -> list[ObjectType]:
        """The objects of all streams at a core."""
        inputs = [self.object_type(self.row.inputs[slot], output=False) for slot in self.row.streams]
        return inputs + [self.object_type(operand, output=True) for operand in self.row.outputs]

    @property
    def fits(self) -> bool:
        """Whether a core and a memtile have room for it."""
        ends = [_aligned(type.nbytes) for type in self.ends]
        kept = sum(_aligned(self.kept_type(slot).nbytes) for slot in self.row.kept)
        kept += len(self.values) * self.value_type.nbytes
        return (
            self.program_bytes <= FUNCTION_BYTES
            and self.depth * sum(ends) + kept <= CORE_BYTES
            and (self.cores == 1 or 2 * self.cores * sum(ends) <= LIMITS["memtile"].memory)
        )

    @property
    def program_bytes(self) -> int:
        """An estimate of the machine code of all walks over a row."""
        around = 512 + sum(256 + 192 * self.brought(slot) for slot in self.row.kept)
        return around + code_bytes(self.row)

    def cycles(self, arch: Arch) -> int:
        """Predicted for one row."""
        found: tuple[int, ...] = ()
        total = 0
        for walk in walks(self.row):
            cost = walk_cost(self.row, walk, arch, found)
            total += cost.of(self.row.lanes, self.length) + cost.row
            found = self.values  # The first walk that has them is not charged for storing them.
        return total

    @property
    def cost(self) -> int:
        """Elements that pass through a core."""
        return self.rounds * self.together * self.pitch

    def reason(self) -> str:
        """How it works, in words."""
        count = "a row" if self.together == 1 else f"{self.together} rows"
        return f"{count} of {self.length} at a time in each of {self.columns * self.cores} cores"

    def operands(self) -> tuple[HostOperand, ...]:
        """How the tensors fill the host buffers: inputs that are tensors, then outputs."""
        total = self.columns * self.share
        made = []
        for slot, operand in enumerate(self.row.inputs):
            layout = self.layouts[slot]
            if layout is None:
                continue
            if operand.access == "row":
                made.append(layout.host_numbers(slot, False, operand.dtype, total, (operand.vector,)))
            elif operand.access == "same":
                made.append(layout.host(slot, False, operand.dtype, 1, self.kept_type(slot).elements))
            else:
                made.append(layout.host(slot, False, operand.dtype, self.host_rows[slot], self.pitch))
        for number, (operand, layout) in enumerate(zip(self.row.outputs, self.outputs, strict=True)):
            if operand.access == "row":
                shape = (self.row_elements(operand, output=True),)
                made.append(layout.host_numbers(number, True, operand.dtype, total, shape))
            else:
                made.append(layout.host(number, True, operand.dtype, total, self.pitch))
        return tuple(made)


def _aligned(nbytes: int) -> int:
    return -(-nbytes // VECTOR_BYTES) * VECTOR_BYTES


def plan_rows(
    row: RowProgram,
    layouts: tuple[RowLayout | None, ...],
    outputs: tuple[RowLayout, ...],
    rows: int,
    length: int,
    pitch: int,
    columns: int,
) -> RowsPlan | None:
    """A plan for at most `columns` columns, or None if a row is too long."""
    # Columns come first: each has streams of its own.
    cores = min(cores_per_column(len(row.streams), len(row.outputs)), -(-rows // columns))
    columns = min(columns, -(-rows // cores))
    plan = RowsPlan(row, layouts, outputs, rows, length, pitch, columns, cores, 1, 1, 2, (), ())
    widest = max(plan.row_bytes(row.inputs[slot], output=False) for slot in row.streams)
    widest = max([widest, *(pitch * operand.itemsize for operand in row.outputs if operand.access == "full")])
    share = -(-rows // (columns * cores))
    together = min(_power_of_two(OBJECT_BYTES // widest), _power_of_two(share))
    while True:
        made = plan._replace(together=together, rounds=-(-share // together))
        forms = [(2, costly_value(row)), (2, ()), (1, costly_value(row)), (1, ())]
        for depth, values in forms if together == 1 else forms[:1]:
            made = made._replace(depth=depth, values=values)
            if made.fits:
                return made._replace(host_rows=tuple(_host_rows(made, slot) for slot in range(len(layouts))))
        if together == 1:
            return None
        together //= 2


def _power_of_two(value: int) -> int:
    """The largest one not above."""
    return 1 << max(value, 1).bit_length() - 1


def _host_rows(plan: RowsPlan, slot: int) -> int:
    """The period of an input's rows, if every column's share of them is few transfers; else the host repeats them."""
    layout, total = plan.layouts[slot], plan.columns * plan.share
    if layout is None or plan.row.inputs[slot].access != "full" or layout.period == plan.rows:
        return total
    if plan.share > MOST_PIECES * ITERATIONS * layout.period:
        return total
    most = max(len(pieces(column * plan.share, plan.share, layout.period)) for column in range(plan.columns))
    return layout.period if most <= MOST_PIECES else total


def pieces(first: int, count: int, period: int) -> list[tuple[int, int, int]]:
    """Rows `first` to `first + count` modulo `period`: runs of rows as first, count, how often."""
    made: list[tuple[int, int, int]] = []
    while count:
        start = first % period
        run = min(count, period - start)
        times = min(count // period, ITERATIONS) if start == 0 and count >= period else 1
        made.append((start, run, times))
        first += run * times
        count -= run * times
    return made
