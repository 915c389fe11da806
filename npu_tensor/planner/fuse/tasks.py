"""From groups to tasks: the expressions of all members become one program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from npu_tensor.dtypes import DType
from npu_tensor.ops.declare import Call, Layout
from npu_tensor.ops.expression import ProgramBuilder, Symbol, as_parameter
from npu_tensor.ops.primitives import PRIMITIVES
from npu_tensor.planner.fuse.groups import Group
from npu_tensor.planner.fuse.lower import Lowered, operand_register, spec_of, viewed
from npu_tensor.planner.fuse.prologues import uncopied
from npu_tensor.planner.fuse.strides import broadcast, full_layout, permuted, row_layout
from npu_tensor.spec import Spec
from npu_tensor.task import Input, NumberInput, Output, Prologue, Task, TensorInput


class TaskMaker:
    """Makes the tasks of one graph, each once."""

    def __init__(self, items: Mapping[int, Lowered]) -> None:
        self.items = items
        self._places = {number: place for place, number in enumerate(items)}
        self._tasks: dict[tuple[int, ...], Task] = {}
        self._equal: dict[Any, tuple[Task, list[int]]] = {}

    def task(self, group: Group) -> Task:
        """Return the task of a group. Groups of one graph with equal items are equal."""
        items = self._in_order(group.items)
        task = self._tasks.get(items)
        if task is None:
            task = self._tasks[items] = self._task(group, items) if group.prologues else self._shared(group, items)
        return task

    def _in_order(self, items: Iterable[int]) -> tuple[int, ...]:
        """Return items in topological order."""
        return tuple(sorted(items, key=self._places.__getitem__))

    def _shared(self, group: Group, items: tuple[int, ...]) -> Task:
        """Return the task of a group; equal groups, such as those of equal layers, share one program."""
        numbers = {item: number for number, item in enumerate(items)}
        members: list[Any] = []
        for item in items:
            lowered = self.items[item]
            members += lowered["call"], "copy" in lowered, lowered["keep"], group.members[item]
            for source, layout in lowered["domain"].operands:
                members += numbers.setdefault(source, len(numbers)), layout
        key = (group.kind, group.shape, group.dims, group.contraction is None, *members)
        first = self._equal.get(key)
        if first is None:
            task = self._task(group, items)
            self._equal[key] = task, [*numbers]
            return task
        task, others = first
        own = dict(zip(others, numbers, strict=True))
        return task._replace(
            items=items,
            inputs=tuple([operand._replace(item=own[operand.item]) for operand in task.inputs]),
            outputs=tuple([Output(own[each.item], each.dtype, each.layout, each.nbytes) for each in task.outputs]),
        )

    def _task(self, group: Group, items: tuple[int, ...]) -> Task:
        """Join the expressions of the members to one program."""
        ops = tuple("copy" if "copy" in self.items[item] else self.items[item]["call"].op.name for item in items)
        calls = tuple(self.items[item]["call"] for item in items)
        if group.kind == "data":
            return self._data_task(group, ops, calls)
        order = (*[axis for axis in range(len(group.shape)) if axis not in group.dims], *group.dims)
        builder = ProgramBuilder()
        matrices: list[Input] = []
        prologues: list[Prologue | None] = [None, None]
        values: dict[int, Symbol] = {}
        if group.contraction is not None:
            call = self.items[group.contraction]["call"]
            for number in range(2):
                found, prologues[number] = self._factor(group, number)
                matrices += found
            accumulator = builder.load(0, operand_register(call, 0))
            values[group.contraction] = accumulator.astype(call.spec.dtype.register)

        def rows_last(item: int) -> list[tuple[int, Layout | None]]:
            operands = group.operands_over(item, self.items[item]["domain"])
            return [(source, layout and permuted(layout, order)) for source, layout in operands]

        # Slot 0 of an epilogue is the sum of products.
        inputs = self._record(group.members, rows_last, builder, values, 0 if group.contraction is None else 1)
        outputs = []
        members = self._in_order(group.members)
        for item in members:
            if self.items[item]["keep"] or item == members[-1]:
                spec = spec_of(self.items[item])
                over = row_layout(group.shape, group.dims) if group.members[item] else full_layout(group.shape)
                outputs.append(Output(item, spec.dtype, permuted(over, order), spec.nbytes))
        # Storing rounds, so a rounding just before it is redundant.
        stored = [builder.before(values[o.item], f"round_{o.dtype.name}") for o in outputs]
        program = builder.program(stored)
        reduces = any(PRIMITIVES[i.primitive].reduces for i in program.instructions)
        return Task(
            kind=group.kind if reduces or group.contraction is not None else "map",
            items=items,
            ops=ops,
            inputs=(*matrices, *inputs),
            outputs=tuple(outputs),
            shape=tuple([group.shape[axis] for axis in order]),
            rows=len(group.dims) if reduces else 0,
            program=program,
            call=self.items[group.contraction]["call"] if group.contraction is not None else None,
            prologues=(prologues[0], prologues[1]),
            calls=calls,
        )

    def _record(
        self,
        items: Iterable[int],
        operands_over: Callable[[int], list[tuple[int, Layout | None]]],
        builder: ProgramBuilder,
        values: dict[int, Symbol],
        first_slot: int,
    ) -> list[Input]:
        """Add the values of items to `values` and return the inputs that they read."""
        inputs: dict[Input, int] = {}
        for item in self._in_order(items):
            if item in values:
                continue
            call = self.items[item]["call"]
            symbols: list[Symbol] = []
            computed = [source in values for source, _ in self.items[item]["domain"].operands]
            for source, layout in operands_over(item):
                value = values.get(source)
                if value is None:
                    operand = self._input(source, layout)
                    slot = inputs.setdefault(operand, len(inputs) + first_slot)
                    if operand.dtype is not None:
                        value = builder.load(slot, operand.dtype.register)
                    else:
                        value = builder.scalar(slot, operand_register(call, len(symbols)))
                symbols.append(value)
            values[item] = symbols[0] if "copy" in self.items[item] else _apply(call, symbols, computed)
        return list(inputs)

    def _factor(self, group: Group, number: int) -> tuple[list[Input], Prologue | None]:
        """Return the inputs of an operand of the matrix product, over batch, rows and columns, and its prologue.

        The operand is read from the source of the copy if it is a copy.
        """
        assert group.contraction is not None
        contraction = group.contraction
        source, reading = self.items[contraction]["domain"].operands[number]
        assert reading is not None
        dtype = spec_of(self.items[source]).dtype
        if group.kind == "conv":
            return [TensorInput(source, dtype, reading)], None
        matrix = (*self.items[contraction]["call"].spec.shape[:-2], *reading.shape[-2:])
        view = self.items[contraction]["inputs"][number]
        items = group.prologues.get(number)
        if items is None:
            return [TensorInput(source, dtype, broadcast(reading, matrix))], None
        if "copy" in self.items[source]:
            layout = uncopied(self.items, contraction, number)
            assert layout is not None
            return [TensorInput(self.items[source]["copy"][0], dtype, layout)], None

        def over(item: int) -> list[tuple[int, Layout | None]]:
            inputs = []
            for operand, layout in self.items[item]["domain"].operands:
                strided = None if layout is None else viewed(self.items, layout, source, view)
                inputs.append((operand, None if strided is None else broadcast(strided, matrix)))
            return inputs

        builder = ProgramBuilder()
        values: dict[int, Symbol] = {}
        inputs = self._record(items, over, builder, values, 0)
        # Packing rounds, so a rounding just before it is redundant.
        program = builder.program([builder.before(values[source], f"round_{dtype.name}")])
        return inputs, Prologue(program, len(inputs), dtype)

    def _input(self, item: int, layout: Layout | None) -> Input:
        return NumberInput(item) if layout is None else TensorInput(item, spec_of(self.items[item]).dtype, layout)

    def _data_task(self, group: Group, ops: tuple[str, ...], calls: tuple[Call, ...]) -> Task:
        (item,) = group.members
        call = self.items[item]["call"]
        inputs = tuple(self._input(source, layout) for source, layout in self.items[item]["domain"].operands)
        output = Output(item, call.spec.dtype, full_layout(call.spec.shape), call.spec.nbytes)
        return Task("data", (item,), ops, inputs, (output,), call.spec.shape, call=call, calls=calls)


def _apply(call: Call, symbols: list[Symbol], computed: list[bool]) -> Symbol:
    """Apply the op's body to symbols. Operands are converted to the op's registers, the result to that of its dtype.

    Operands that are `computed` were never in memory and so are not rounded to their dtype yet.
    """
    rounded = call.op.converts
    operands = []
    for number, (symbol, operand) in enumerate(zip(symbols, call.operands, strict=True)):
        if rounded and isinstance(operand, Spec) and computed[number]:
            symbol = _round_to(symbol, operand.dtype)
        operands.append(symbol.astype(operand_register(call, number)))
    parameters = {a.name for a in call.op.attributes}
    attributes = {name: as_parameter(value) for name, value in call.attributes.items() if name in parameters}
    result: Symbol = call.op.body(*operands, **attributes).astype(call.spec.dtype.register)
    return _round_to(result, call.spec.dtype) if rounded else result


def _round_to(value: Symbol, dtype: DType) -> Symbol:
    """Round a value to a dtype although it stays in a register."""
    if dtype.register == dtype.name:
        return value
    return value.builder.emit(f"round_{dtype.name}", (value,))
