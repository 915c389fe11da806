"""Recurrences and their gradients: all steps of a layer in one call of native code.

A step multiplies the states of the previous step with the packed weights, and applies the function of the cell to the
sums of each unit while they are in the first cache. A gradient runs the steps from the last to the first: it multiplies
the gradients of the gates of the following step. Two functions share the work. `kernel` has tiles of the batch as items
and runs all steps of them. For each step it calls `units`, whose items are groups of hidden units, through the thread
pool. So threads divide either the batch, and need no barrier, or the units of each step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npu_tensor._util.forks import cached_property
from npu_tensor.dtypes import float32
from npu_tensor.runtime.cpu import vector_math
from npu_tensor.runtime.cpu.bound_loops import Location, step
from npu_tensor.runtime.cpu.cpu_cost import PACKED_PIECE, recurrence_cost
from npu_tensor.runtime.cpu.division import Division, even_grain
from npu_tensor.runtime.cpu.gemm import LaunchedLoop, Packing
from npu_tensor.runtime.cpu.gemm_micro import UNITS
from npu_tensor.runtime.cpu.gemm_pack import PackSpec, pack_module, panel_bytes
from npu_tensor.runtime.cpu.ir_emitter import BEGIN, END, META, POINTERS, Emitter
from npu_tensor.runtime.cpu.kernels import CpuKernel, first_byte
from npu_tensor.runtime.cpu.loop_parts import LoopParts, place_of
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import Value
from npu_tensor.task import Cost, Refusal, Step, Task

GATES: Final = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}
"""Products of a unit with the states, by cell."""

_FIELDS: Final = "steps batch units first direction blocks groups grain panel_bytes parallel_for"
_META: Final = tuple(_FIELDS.split())
"""Numbers of the meta array. `first` is the step that is computed first, and `direction` leads to the next."""
_SLOTS: Final = 6
"""Addresses, followed by the number of the step and the range of the batch in the slots of `units`."""

_MOST_BLOCKS: Final = 8
"""Upper bound on vectors of units in a tile, whose panels the processor prefetches as separate streams."""


class RecurrenceSpec(NamedTuple):
    """Parameters of a kernel.

    Attributes:
        cell: Key of GATES.
        backward: True for the gradient.
        gates: True if a recurrence stores its gates.
        rows: Rows of the batch in a tile.
        blocks: Vectors of units in a tile.
        ragged: True if the last vector of units is not full.
    """

    cell: str
    backward: bool
    gates: bool
    rows: int
    blocks: int
    ragged: bool


def recurrence_meta(
    shape: tuple[int, int, int],
    reverse: bool,
    spec: RecurrenceSpec,
    lanes: int,
    *,
    panel_bytes: int,
    parallel_for: int,
    grain: int,
) -> NDArray[np.int64]:
    """Return the meta array of a kernel.

    Args:
        shape: Steps, batch and hidden units.
        reverse: True if the recurrence runs from the last step to the first.
        spec: Parameters of the kernel.
        lanes: Lanes of a vector.
        panel_bytes: Distance of packed panels.
        parallel_for: Address of the function of the pool.
        grain: Groups of units that a thread claims at a time.
    """
    (steps, batch, units), backwards = shape, reverse != spec.backward
    blocks = -(-units // lanes)
    numbers = {
        "steps": steps,
        "batch": batch,
        "units": units,
        "first": steps - 1 if backwards else 0,
        "direction": -1 if backwards else 1,
        "blocks": blocks,
        "groups": -(-blocks // spec.blocks),
        "grain": grain,
        "panel_bytes": panel_bytes,
        "parallel_for": parallel_for,
    }
    return np.array([numbers[name] for name in _META], np.int64)


class _Writer:
    """Writes `units`."""

    def __init__(self, spec: RecurrenceSpec, target: CpuTarget) -> None:
        self.spec, self.gates = spec, GATES[spec.cell]
        self.emitter = e = Emitter(target)
        self.streams = 1 if spec.backward else self.gates  # per vector of units
        count = spec.rows * spec.blocks * self.streams * e.lanes
        self.scratch = e.assign("ptr", f"alloca [{count} x float], align 64")
        self.meta = e.named_numbers(_META)
        self.slots = e.addresses(_SLOTS)
        number, self.row_begin, self.row_end = (e.load_value("i64", POINTERS, _SLOTS + i) for i in range(3))
        self.is_first = e.compare("eq", number, 0)
        self.is_last = e.compare("eq", number, e.sub(self.meta["steps"], 1))
        self.size = e.mul(self.meta["batch"], self.meta["units"])
        self.plane_size = e.mul(self.size, self.meta["steps"])
        self.step = e.add(self.meta["first"], e.mul(number, self.meta["direction"]))
        self.before, self.after = (
            getattr(e, name)(self.step, self.meta["direction"]) for name in ("sub", "add")
        )  # steps

    def plane(self, pointer: Value, number: int, step: Value, width: int = 1) -> Value:
        """Return the address of a step in a plane, whose rows are `width` times as wide as the hidden state."""
        e = self.emitter
        elements = e.mul(e.add(e.mul(self.plane_size, number), e.mul(step, self.size)), width)
        return e.address(pointer, elements, "float32")

    def text(self) -> str:
        """Return the function."""
        e, spec, meta = self.emitter, self.spec, self.meta
        result = self.slots[0]
        if spec.backward:
            plane = 1 if spec.cell == "gru" else 0
            previous = self.plane(result, plane, self.before, self.gates)
            width = e.mul(meta["units"], self.gates)
            depth = e.select(self.is_first, 0, width)
            cell = self.backward()
        else:
            previous = e.select(self.is_first, self.slots[4], self.plane(result, 0, self.before))
            width = depth = meta["units"]
            cell = self.forward()

        def compute_group(group: Value, _: list[Value]) -> None:
            first = e.mul(group, spec.blocks)
            blocks = e.up_to(first, spec.blocks, meta["blocks"])
            panels = [
                e.byte_offset(self.slots[1], e.mul(e.add(block, e.mul(meta["blocks"], gate)), meta["panel_bytes"]))
                for block in blocks
                for gate in range(self.streams)
            ]
            block_count = e.smaller(e.sub(meta["blocks"], first), spec.blocks)

            def compute_rows(row: Value, _: list[Value]) -> None:
                rows = e.up_to(row, spec.rows, self.row_end)
                states = [e.address(previous, e.mul(each, width), "float32") for each in rows]
                zero = e.constant(0.0, e.vector("float"))
                sums = e.loop(0, depth, 1, [zero] * (spec.rows * len(panels)), multiply(states))
                for number, total in enumerate(sums):
                    e.store("float32", total, self.sum_address(e.constant(number, "i64")))
                row_count = e.smaller(e.sub(self.row_end, row), spec.rows)
                e.loop(0, row_count, 1, (), lambda i, _: e.loop(0, block_count, 1, (), apply(row, i)))

            def multiply(states: Sequence[Value]) -> Callable[[Value, list[Value]], list[Value]]:
                def add(k: Value, sums: list[Value]) -> list[Value]:
                    def factor(state: Value) -> Value:
                        return e.load_scalar("float32", e.address(state, k, "float32"))

                    def weights(panel: Value) -> Value:
                        return e.load("float32", e.address(panel, e.mul(k, e.lanes), "float32"))

                    sums, count = list(sums), len(panels)
                    # The smaller side stays in registers.
                    if len(states) < count:
                        factors = [factor(state) for state in states]
                        pairs = [
                            (row, p, w, f) for p, w in enumerate(map(weights, panels)) for row, f in enumerate(factors)
                        ]
                    else:
                        every = [weights(panel) for panel in panels]
                        pairs = [
                            (row, p, w, f) for row, f in enumerate(map(factor, states)) for p, w in enumerate(every)
                        ]
                    for row, panel, weight, value in pairs:
                        sums[row * count + panel] = e.fma(weight, value, sums[row * count + panel])
                    return sums

                return add

            def apply(row: Value, i: Value) -> Callable[[Value, list[Value]], None]:
                def compute(block: Value, _: list[Value]) -> None:
                    number = e.mul(e.add(e.mul(i, spec.blocks), block), self.streams)
                    sums = [e.load("float32", self.sum_address(e.add(number, gate))) for gate in range(self.streams)]
                    unit = e.mul(e.add(first, block), e.lanes)
                    mask = e.first_lanes(e.sub(meta["units"], unit)) if spec.ragged else None
                    cell(_Place(self, e.add(row, i), unit, mask), sums)

                return compute

            e.loop(self.row_begin, self.row_end, spec.rows, (), compute_rows)

        e.loop(BEGIN, END, 1, (), compute_group)
        return e.function("@units(ptr noalias %pointers, ptr noalias %meta, i64 %begin, i64 %end)")

    def sum_address(self, number: Value) -> Value:
        e = self.emitter
        return e.address(self.scratch, e.mul(number, e.lanes), "float32")

    def sigmoid(self, x: Value) -> Value:
        e = self.emitter
        return e.div(e.constant(1.0, x.type), e.add(vector_math.FUNCTIONS["exp"](e, e.neg(x)), 1.0))

    def tanh(self, x: Value) -> Value:
        return vector_math.FUNCTIONS["tanh"](self.emitter, x)

    def forward(self) -> Callable[[_Place, Sequence[Value]], None]:
        """Return the writer of the states of a vector of units, from its sums."""
        e, spec = self.emitter, self.spec
        result, _, products, bias, first, first_cell = self.slots
        inputs = self.plane(products, 0, self.step, self.gates)
        planes = [self.plane(result, number, self.step) for number in range(6)]
        hidden = e.select(self.is_first, first, self.plane(result, 0, self.before))
        cells = e.select(self.is_first, first_cell, self.plane(result, 1, self.before))

        def write(place: _Place, sums: Sequence[Value]) -> None:
            total = [e.add(each, place.gate(bias, gate, of_row=False)) for gate, each in enumerate(sums)]
            given = [place.gate(inputs, gate) for gate in range(self.gates)]
            kept: list[Value] = []
            if spec.cell == "lstm":
                enter, forget, content, leave = (e.add(a, b) for a, b in zip(total, given, strict=True))
                enter, forget, leave = map(self.sigmoid, (enter, forget, leave))
                content = self.tanh(content)
                cell = e.fma(forget, place.load(cells), e.mul(enter, content))
                values = [e.mul(leave, self.tanh(cell)), cell]
                kept = [enter, forget, content, leave]
            elif spec.cell == "gru":
                reset, keep = (self.sigmoid(e.add(a, b)) for a, b in zip(total[:2], given[:2], strict=True))
                new = self.tanh(e.fma(reset, total[2], given[2]))
                values = [e.fma(keep, e.sub(place.load(hidden), new), new)]
                kept = [reset, keep, new, total[2]]
            else:
                whole = e.add(total[0], given[0])
                values = [self.tanh(whole) if spec.cell == "tanh" else e.at_least(whole, 0.0)]
            for plane, value in zip(planes, values + kept if spec.gates else values, strict=False):
                place.store(plane, value)

        return write

    def backward(self) -> Callable[[_Place, Sequence[Value]], None]:
        """Return the writer of the gradients of the gates of a vector of units, from its sums."""
        e, spec = self.emitter, self.spec
        result, _, gradient, values, first, _ = self.slots
        given = [self.plane(gradient, number, self.step) for number in range(2)]
        planes = [self.plane(values, number, self.step) for number in range(6)]
        carried = 1 if spec.cell == "lstm" else 0
        states = e.select(self.is_last, first, self.plane(values, carried, self.after))
        parts = 2 if spec.cell == "gru" else 1
        carry = e.address(result, e.mul(self.plane_size, parts * self.gates), "float32")
        changes = [self.plane(result, number, self.step, self.gates) for number in range(parts)]

        def one_minus(x: Value, y: Value) -> Value:
            return e.sub(e.constant(1.0, x.type), e.mul(x, y))

        def write(place: _Place, sums: Sequence[Value]) -> None:
            of_hidden = e.add(sums[0], place.load(given[0]))
            before = place.load(states) if spec.cell in ("lstm", "gru") else of_hidden
            through = e.select(self.is_first, 0.0, place.load(carry)) if spec.cell in ("lstm", "gru") else of_hidden
            if spec.cell == "lstm":
                cell, enter, forget, content, leave = (place.load(plane) for plane in planes[1:])
                bounded = self.tanh(cell)
                through = e.add(through, place.load(given[1]))
                of_cell = e.fma(e.mul(of_hidden, leave), one_minus(bounded, bounded), through)
                of_gates = [
                    e.mul(e.mul(of_cell, content), e.mul(enter, one_minus_of(enter))),
                    e.mul(e.mul(of_cell, before), e.mul(forget, one_minus_of(forget))),
                    e.mul(e.mul(of_cell, enter), one_minus(content, content)),
                    e.mul(e.mul(of_hidden, bounded), e.mul(leave, one_minus_of(leave))),
                ]
                place.store(carry, e.mul(of_cell, forget))
            elif spec.cell == "gru":
                reset, keep, new, content = (place.load(plane) for plane in planes[1:5])
                of_hidden = e.add(of_hidden, through)
                of_new = e.mul(e.mul(of_hidden, one_minus_of(keep)), one_minus(new, new))
                of_keep = e.mul(e.mul(of_hidden, e.sub(before, new)), e.mul(keep, one_minus_of(keep)))
                of_reset = e.mul(e.mul(of_new, content), e.mul(reset, one_minus_of(reset)))
                of_gates = [of_reset, of_keep, of_new]
                place.store(carry, e.mul(of_hidden, keep))
                for gate, value in enumerate((of_reset, of_keep, e.mul(of_new, reset))):
                    place.store_gate(changes[1], gate, value)
            else:
                after = place.load(planes[0])
                if spec.cell == "tanh":
                    of_gates = [e.mul(of_hidden, one_minus(after, after))]
                else:
                    of_gates = [e.select(e.compare("ole", after, 0.0), 0.0, of_hidden)]
            for gate, value in enumerate(of_gates):
                place.store_gate(changes[0], gate, value)

        def one_minus_of(x: Value) -> Value:
            return e.sub(e.constant(1.0, x.type), x)

        return write


class _Place:
    """A vector of units in a row of the batch."""

    def __init__(self, writer: _Writer, row: Value, unit: Value, mask: Value | None) -> None:
        self.writer, self.unit, self.mask = writer, unit, mask
        e, units = writer.emitter, writer.meta["units"]
        self.start = e.mul(row, units)
        self.offset = e.add(self.start, unit)

    def load(self, step: Value) -> Value:
        """Return its elements of a step (batch, hidden)."""
        e = self.writer.emitter
        return e.load("float32", e.address(step, self.offset, "float32"), self.mask)

    def store(self, step: Value, value: Value) -> None:
        e = self.writer.emitter
        e.store("float32", value, e.address(step, self.offset, "float32"), self.mask)

    def _gate_address(self, step: Value, gate: int, of_row: bool) -> Value:
        e = self.writer.emitter
        offset = e.add(self.unit, e.mul(self.writer.meta["units"], gate))
        if of_row:
            offset = e.add(offset, e.mul(self.start, self.writer.gates))
        return e.address(step, offset, "float32")

    def gate(self, step: Value, gate: int, of_row: bool = True) -> Value:
        """Return its elements of a gate of a step (batch, gates * hidden), or of a vector (gates * hidden)."""
        return self.writer.emitter.load("float32", self._gate_address(step, gate, of_row), self.mask)

    def store_gate(self, step: Value, gate: int, value: Value) -> None:
        self.writer.emitter.store("float32", value, self._gate_address(step, gate, True), self.mask)


def recurrence_module(spec: RecurrenceSpec, target: CpuTarget) -> str:
    """Return the module of a kernel whose items are tiles of the batch.

    pointers  recurrence: [result, packed weights, products, bias, hidden, cell]; gradient: [result, packed weights,
              gradient, planes of the recurrence, cell or hidden, the same]
    meta      `recurrence_meta`
    """
    writer, e = _Writer(spec, target), Emitter(target)
    slots = e.assign("ptr", f"alloca [{_SLOTS + 3} x i64], align 8")
    meta = e.named_numbers(_META)

    def store(slot: int, value: Value) -> None:
        e.store_value(value, e.byte_offset(slots, 8 * slot), align=8)

    for slot in range(_SLOTS):
        store(slot, e.load_value("i64", POINTERS, slot))
    store(_SLOTS + 1, e.mul(BEGIN, spec.rows))
    store(_SLOTS + 2, e.smaller(e.mul(END, spec.rows), meta["batch"]))
    pool = e.assign("ptr", f"inttoptr i64 {meta['parallel_for'].name} to ptr")

    def run_step(number: Value, _: list[Value]) -> None:
        store(_SLOTS, number)
        arguments = f"ptr @units, ptr {slots.name}, ptr {META.name}, i64 {meta['groups'].name}"
        e.statement(f"call void {pool.name}({arguments}, i64 {meta['grain'].name})")

    e.loop(0, meta["steps"], 1, (), run_step)
    kernel = e.function("@kernel(ptr noalias %pointers, ptr noalias %meta, i64 %begin, i64 %end)")
    return writer.emitter.module(writer.text(), kernel)


class StepDivision(NamedTuple):
    """Tile of a step and division of the work.

    Attributes:
        rows: Rows of a tile.
        blocks: Vectors of units of a tile.
        by_batch: True if threads divide the batch.
        grain: Groups of units that a thread claims at a time.
    """

    rows: int
    blocks: int
    by_batch: bool
    grain: int


_SHARED_WEIGHT_BYTES: Final = 384 << 10
"""Weights up to this size stay in the second cache of each core, so that threads divide the batch."""

_LEAST_STEP_MACS: Final = 64 << 10
"""Products of a step that pay for a fork and a join of about 1 us."""


_LARGEST_SHARE: Final = 1.15
"""Share of a thread, by the mean, beyond which smaller groups of units are tried."""


def _whole(count: int, most: int) -> int:
    """Return the rows of tiles such that all are full, if they are not much smaller than `most`."""
    most = max(1, min(count, most))
    return next((size for size in range(most, most // 2, -1) if count % size == 0), most)


def division(batch: int, units: int, streams: int, depth: int, threads: int, target: CpuTarget) -> StepDivision:
    """Divide the work of a step: `streams` products of each unit with `depth` states."""
    accumulators = 24 if target.vector_registers == 32 else 12
    blocks = -(-units // target.lanes)
    by_batch = batch >= 2 * threads and streams * units * depth * 4 <= _SHARED_WEIGHT_BYTES
    rows = _whole(-(-batch // threads) if by_batch else batch, accumulators // max(streams, 2))
    by_units = not by_batch and threads > 1 and batch * streams * units * depth >= _LEAST_STEP_MACS
    most = -(-blocks // threads) if by_units else blocks
    group = max(1, min(_MOST_BLOCKS, accumulators // (streams * rows), most))
    if not by_units:
        return StepDivision(rows, group, by_batch, -(-blocks // group))

    def grain_of(group: int) -> int:
        groups = -(-blocks // group)
        return even_grain(groups, -(-groups // (2 * threads)), threads)

    def is_equal(group: int) -> bool:
        return Division(-(-blocks // group), grain_of(group)).largest_share(threads) <= _LARGEST_SHARE

    group = next(filter(is_equal, range(group, 0, -1)), group)
    return StepDivision(rows, group, by_batch, grain_of(group))


def recurrence_kernel(processor: Processor, task: Task) -> RecurrenceKernel | Refusal:
    """Return the kernel for a task of a recurrence or of its gradient, or the reason why there is none."""
    if any(source.dtype is None or source.dtype.register != "float32" for source in task.inputs):
        return Refusal("compiled for float32, bfloat16 and float16 only")
    if not all(math.prod(source.layout.shape) for source in task.inputs if source.layout):
        return Refusal("there is nothing to compute")
    return RecurrenceKernel(processor, task)


class RecurrenceKernel(CpuKernel):
    """A recurrence or its gradient."""

    name = "recurrence"

    def __init__(self, processor: Processor, task: Task) -> None:
        super().__init__(processor, task)
        attributes = task.attributes
        self.backward = task.ops[0].endswith("_backward")
        self.cell: str = attributes.get("nonlinearity", task.ops[0].removesuffix("_backward"))
        self.products, self.weight = task.tensors[2 if self.backward else 0], task.tensors[3 if self.backward else 1]
        steps, batch, rows = self.products.layout.shape
        self.shape = steps, batch, rows // GATES[self.cell]

    @cached_property
    def cost(self) -> Cost:
        return recurrence_cost(self.task, self.shape, GATES[self.cell], self.owner.rates, self.owner.threads)

    def _bind(self) -> Step:
        """Bind the steps. Operands that are not float32 in row-major order are copied first; so is such a result."""
        task, owner, (_, batch, units), parts = self.task, self.owner, self.shape, LoopParts(self.owner, self.task)
        target, threads, gates = owner.target, owner.pool.threads, GATES[self.cell]
        (output,), spare = task.outputs, parts.new_item()
        streams, depth = (1, units * gates) if self.backward else (gates, units)
        divided = division(batch, units, streams, depth, threads, target)
        spec = RecurrenceSpec(
            self.cell,
            self.backward,
            task.attributes.get("gates", False),
            divided.rows,
            divided.blocks,
            units % target.lanes > 0,
        )
        packing = self._packing(depth)
        meta = recurrence_meta(
            self.shape,
            task.attributes["reverse"],
            spec,
            target.lanes,
            panel_bytes=packing.panel_bytes,
            parallel_for=owner.pool.parallel_for_address,
            grain=divided.grain,
        )
        read = [task.tensors[number] for number in ((0, 1, -1, -1) if self.backward else (0, 2, 3, -1))]
        slots = [place_of(parts.row_major(source, float32)) for source in read]
        tiles = -(-batch // divided.rows)
        grain = -(-tiles // (threads if divided.by_batch else 1))
        arguments = parts.result(output, float32), Location(spare), *slots
        parts.loop(recurrence_module, spec, meta, tiles, grain, arguments)
        loops = parts.joined()
        run_loops = step(owner, loops, [item for item, _ in loops.new])
        weight, offset = self.weight.item, first_byte(self.weight)
        items = [source.item for source in task.inputs]

        def run(values: list[Any]) -> None:
            own: Any = {item: values[item] for item in items}
            own[spare] = owner.packed(packing, values[weight], values[weight].address + offset)
            run_loops(own)
            values[output.item] = own[output.item]

        return run

    def _packing(self, depth: int) -> Packing:
        """Return the packing of the weights: a panel of vectors for each block of units, and for each gate."""
        owner, units, weight = self.owner, self.shape[2], self.weight
        (of_row, of_column), size, target = weight.layout.strides, weight.dtype.itemsize, owner.target
        line, k = (of_column, of_row) if self.backward else (of_row, of_column)
        matrices = 1 if self.backward else GATES[self.cell]
        layout = "along_k" if k == 1 and depth > 1 else "across_lines" if line == 1 or units == 1 else "strided"
        spec = PackSpec(weight.dtype.name, UNITS["float32"], layout, target.lanes)
        panels, nbytes = -(-units // target.lanes), panel_bytes(spec, depth, target)
        offsets = [gate * units * of_row * size for gate in range(matrices)]
        meta = np.array([depth, depth, units, panels, line * size, k * size, nbytes, *offsets], np.int64)
        kernel = owner.compiled(pack_module, spec)
        loop = LaunchedLoop(kernel, meta.ctypes.data, panels * matrices, max(1, PACKED_PIECE // nbytes))
        self._pack_meta = meta  # keeps the memory alive
        return Packing((spec, meta.tobytes()), loop, np.arange(matrices), panels, nbytes)
