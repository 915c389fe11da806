"""Rows that pass through the cores in parts, once for every walk.

Either each core has rows of its own, or a team of cores shares one: then each has every so manieth part of it, and
after a walk that reduces, the host sends what all of them found to all of them.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from npu_tensor.dataflow.checks.limits import HOST_BUFFERS, LIMITS, WORD
from npu_tensor.dataflow.design import ObjectType
from npu_tensor.kernels.offer import HostOperand
from npu_tensor.kernels.rowwise.columns import CORE_BYTES, FUNCTION_BYTES, cores_per_column
from npu_tensor.kernels.rowwise.cost import code_bytes
from npu_tensor.kernels.rowwise.layout import RowLayout
from npu_tensor.kernels.rowwise.program import VECTOR_BYTES, Operand, RowProgram, Walk, walks
from npu_tensor.kernels.rowwise.source import carrier_slot, state_bytes, totals_bytes
from npu_tensor.ops.declare import Layout

__all__ = ["PartsPlan", "plan_parts"]

PART_BYTES: Final = LIMITS["shim"].wrap * WORD
"""The longest innermost run of an access pattern that is not linear."""

STRIDE: Final = LIMITS["shim"].stride * WORD
"""Bytes from row to row that an access pattern can step over."""

TAKEN: Final = 3
"""Transfers that bring what a team found: a queue of a shim channel has room for four, one is for the next walk."""

EXCHANGE: Final = 4096
"""Elements that a core could take while the host passes on what a team found: some microseconds."""


class PartsPlan(NamedTuple):
    """How rows are cut. part: elements that a core gets at a time. parts: of a row for each core.

    team: columns that share a row, 0 if every core has rows of its own. rounds: rows of each core or team.
    """

    row: RowProgram
    layouts: tuple[RowLayout | None, ...]
    outputs: tuple[RowLayout, ...]
    rows: int
    length: int
    columns: int
    cores: int
    team: int
    part: int
    parts: int
    rounds: int

    @property
    def walks(self) -> tuple[Walk, ...]:
        """The walks over a row."""
        return walks(self.row)

    @property
    def share(self) -> int:
        """Elements of a row that pass through one column (of a team) or core."""
        return self.part * self.parts * (self.cores if self.team else 1)

    @property
    def pitch(self) -> int:
        """Elements of a padded row."""
        return self.share * max(self.team, 1)

    @property
    def together(self) -> int:
        """Rows that are worked on at a time."""
        return self.columns // self.team if self.team else self.columns * self.cores

    @property
    def members(self) -> int:
        """Cores that work on one row."""
        return self.team * self.cores if self.team else 1

    @property
    def exchanges(self) -> list[int]:
        """The walks after which a team puts together what its cores found."""
        return [number for number, walk in enumerate(self.walks) if walk.reductions] if self.team else []

    @property
    def result_bytes(self) -> int:
        """Bytes of the object that has a core's outputs with one element per row, or what it found in a walk."""
        return max([VECTOR_BYTES, *(totals_bytes(self.row, self.walks[number]) for number in self.exchanges)])

    def object_type(self, operand: Operand, output: bool) -> ObjectType:
        """What a core gets or gives at a time."""
        if operand.access == "row":
            elements = self.result_bytes // operand.itemsize if output else operand.vector
            return ObjectType(operand.dtype, (elements,))
        return ObjectType(operand.dtype, (self.part,))

    @property
    def carrier(self) -> ObjectType:
        """The objects that bring whatever else a core needs."""
        return self.object_type(self.row.inputs[carrier_slot(self.row)], output=False)

    def brought(self, slot: int) -> int:
        """How many of them bring an input that stays."""
        return -(-self.pitch * self.row.inputs[slot].itemsize // self.carrier.nbytes)

    def kept_type(self, slot: int) -> ObjectType:
        """What a core keeps of an input."""
        operand = self.row.inputs[slot]
        return ObjectType(operand.dtype, (self.brought(slot) * self.carrier.nbytes // operand.itemsize,))

    @property
    def ends(self) -> list[ObjectType]:
        """The objects of all streams at a core."""
        inputs = [self.object_type(self.row.inputs[slot], output=False) for slot in self.row.streams]
        return inputs + [self.object_type(operand, output=True) for operand in self.row.outputs]

    @property
    def found(self) -> list[tuple[int, int]]:
        """Of each exchange: how many states are in one object of the carrier, and how many such objects there are."""
        fit = [self.carrier.nbytes // totals_bytes(self.row, self.walks[number]) for number in self.exchanges]
        return [(states, -(-self.members // states)) for states in fit]

    @property
    def scratch(self) -> int:
        """Bytes of the host buffer for exchanges: an object of the first output for each core and exchange, and as
        much more as the last transfer reads beyond.
        """
        cores = len(self.exchanges) * self.columns * self.cores
        beyond = max((states * objects for states, objects in self.found), default=0)
        return (cores + beyond) * self.ends[len(self.row.streams)].nbytes

    def host_rows(self, slot: int) -> int:
        """Rows of the host buffer of an input; they are repeated if they are fewer than all."""
        layout = self.layouts[slot]
        assert layout is not None
        repeated = layout.period
        if not self.team:  # The rows of a column's cores are neighbours in the host buffer.
            repeated = self.cores if layout.rows.repeats else repeated if repeated % self.cores == 0 else self.rows
        return repeated if repeated < self.rows else self.rounds * self.together

    @property
    def fits(self) -> bool:
        """Whether there is memory for it and the host can walk through it."""
        ends = sum(2 * type.nbytes for type in self.ends)
        kept = sum(self.kept_type(slot).nbytes for slot in self.row.kept)
        operands = [*zip(self.row.inputs, self.layouts, strict=True), *zip(self.row.outputs, self.outputs, strict=True)]
        full = [(operand, layout) for operand, layout in operands if operand.access in ("full", "same") and layout]
        buffers = len(operands) - len(self.row.numbers) + bool(self.exchanges)
        result = self.ends[len(self.row.streams)].nbytes
        return (
            len(self.row.streams) <= 2
            and buffers <= HOST_BUFFERS
            and ends + kept + state_bytes(self.row) <= CORE_BYTES
            and all(self.pitch % layout.inner == 0 for _, layout in full)
            and (self.team > 0 or all(self.pitch * operand.itemsize <= STRIDE for operand, _ in full))
            and self.program_bytes <= FUNCTION_BYTES
            and all(objects <= TAKEN for _, objects in self.found)
            and all(totals_bytes(self.row, self.walks[number]) <= result for number in self.exchanges)
        )

    @property
    def program_bytes(self) -> int:
        """An estimate of the machine code of all functions."""
        around = 512 * len(self.walks) + 1024 + sum(256 + 192 * self.brought(slot) for slot in self.row.kept)
        return around + code_bytes(self.row)

    @property
    def cost(self) -> int:
        """Elements that pass through a core, with those that it could have taken while it waits for the others."""
        return self.rounds * (self.part * self.parts * len(self.walks) + len(self.exchanges) * EXCHANGE)

    def reason(self) -> str:
        """How it works, in words."""
        who = f"shared by {self.members} cores" if self.team else f"for each of {self.columns * self.cores} cores"
        times = f", {len(self.walks)} times" if len(self.walks) > 1 else ""
        return f"a row of {self.length} {who}, {self.part} elements at a time{times}"

    def operands(self) -> tuple[HostOperand, ...]:
        """How the tensors fill the host buffers: inputs that are tensors, outputs, scratch of a team."""
        total = self.rounds * self.together
        made = []
        for slot, (operand, layout) in enumerate(zip(self.row.inputs, self.layouts, strict=True)):
            if layout is None:
                continue
            if operand.access == "row":
                made.append(layout.host_numbers(slot, False, operand.dtype, total, (operand.vector,)))
            elif operand.access == "same":
                made.append(layout.host(slot, False, operand.dtype, self.cores, self.kept_type(slot).elements))
            else:
                made.append(layout.host(slot, False, operand.dtype, self.host_rows(slot), self.pitch))
        for number, (operand, layout) in enumerate(zip(self.row.outputs, self.outputs, strict=True)):
            if operand.access == "row":
                shape = (self.members, self.object_type(operand, output=True).elements)
                made.append(layout.host_numbers(number, True, operand.dtype, total, shape))
            else:
                made.append(layout.host(number, True, operand.dtype, total, self.pitch))
        if self.exchanges:
            first = self.row.outputs[0]
            elements = self.scratch // first.itemsize
            made.append(HostOperand(None, False, Layout((elements,), (1,)), (elements,), first.dtype))
        return tuple(made)


def plan_parts(
    row: RowProgram,
    layouts: tuple[RowLayout | None, ...],
    outputs: tuple[RowLayout, ...],
    rows: int,
    length: int,
    columns: int,
) -> PartsPlan | None:
    """The cheapest plan for at most `columns` columns, or None."""
    if all(operand.access != "full" for operand in row.inputs):
        return None
    streamed = row._replace(inputs=tuple(o._replace(access="full") if o.access == "same" else o for o in row.inputs))
    found = []
    for form in dict.fromkeys((row, streamed)):
        cores = cores_per_column(len(form.streams), len(row.outputs))
        own = min(cores, -(-rows // columns))
        found.append(_plan(form, layouts, outputs, rows, length, min(columns, -(-rows // own)), own, 0))
    team = max(1, columns // rows)
    found.append(_plan(streamed, layouts, outputs, rows, length, team * min(rows, columns // team), cores, team))
    return min((plan for plan in found if plan is not None and plan.fits), key=lambda plan: plan.cost, default=None)


def _plan(
    row: RowProgram,
    layouts: tuple[RowLayout | None, ...],
    outputs: tuple[RowLayout, ...],
    rows: int,
    length: int,
    columns: int,
    cores: int,
    team: int,
) -> PartsPlan | None:
    sizes = [operand.itemsize for operand in (*row.inputs, *row.outputs) if operand.access in ("full", "same")]
    carrier = row.inputs[carrier_slot(row)].itemsize
    state = max(totals_bytes(row, walk) for walk in walks(row)) if team else VECTOR_BYTES
    multiple = max(row.lanes, VECTOR_BYTES // min(sizes), state // carrier)
    longest = PART_BYTES // max(sizes) // multiple * multiple
    members = max(team, 1) * cores if team else 1
    parts = -(-length // (members * longest))
    part = -(-length // (members * parts * multiple)) * multiple
    together = columns // team if team else columns * cores
    return PartsPlan(row, layouts, outputs, rows, length, columns, cores, team, part, parts, -(-rows // together))
