"""From the graph of ops to tasks: common subexpressions, folding of views, fusion.

Views are folded into their consumers as strides. Element-wise ops join the kernel that consumes them, or that
produces them in the case of a row-wise op or a matrix product, by joining their expressions. What only an operand of a
matrix product needs becomes its prologue, unless the kernel that produces its inputs can take it. An op joins a kernel
only if all its consumers are in that kernel, so nothing is computed twice and no cycle can arise.

The bounds of a device are rough: whether it has a kernel for a task shows when it is asked. What it refuses is cut
again into kernels as large as it takes them; what it takes no part of stays together for the processor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from npu_tensor.dtypes import DType
from npu_tensor.graph import Capture, digraph, operands
from npu_tensor.ops.declare import Call, Layout
from npu_tensor.ops.expression import PRIMITIVES, Builder, Symbol
from npu_tensor.spec import Spec, contiguous_strides
from npu_tensor.task import Fusion, Input, Output, Prologue, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import networkx as nx

__all__ = ["Cutter", "Tasks", "cut"]

# Bounds of one kernel on any device: compile time grows with the ops, and every operand, number or tensor, is an
# argument of the compiled function.
MAX_OPS = 64
MAX_OPERANDS = 24

Kind = Literal["map", "row", "matmul", "data"]


def share_common(graph: nx.DiGraph) -> dict[int, int]:
    """Merge ops that compute the same from the same operands; returns removed item -> kept item.

    Random ops have their seed as an operand, so equal operands mean equal results.
    """
    kept: dict[Any, int] = {}
    merged: dict[int, int] = {}
    for item in sorted(graph):
        call = graph.nodes[item].get("call")
        if call is None:
            continue
        key = (call, *(merged.get(source, source) for source in operands(graph, item)))
        twin = kept.setdefault(key, item)
        if twin != item:
            merged[item] = twin
    for item, twin in merged.items():
        for _, consumer, slots in list(graph.out_edges(item, data="slots")):
            if consumer not in merged:
                known = graph.edges[twin, consumer]["slots"] if graph.has_edge(twin, consumer) else ()
                graph.add_edge(twin, consumer, slots=(*known, *slots))
        graph.nodes[twin]["keep"] |= graph.nodes[item]["keep"]
        graph.remove_node(item)
    return merged


class Form(NamedTuple):
    """An op on its own: iteration space, reduced dimensions of it, and how each operand lies over it.

    per_row: whether the result is one element per row. operands: item and layout; None for numbers and for the
    operands of matmul and data ops, which keep their own shapes.
    """

    kind: Kind
    shape: tuple[int, ...]
    dims: tuple[int, ...]
    per_row: bool
    operands: tuple[tuple[int, Layout | None], ...]


@dataclass
class Group:
    """Ops that become one kernel.

    shape: iteration space. dims: reduced dimensions of it. members: item -> whether its value is one per row.
    contraction: the matrix product whose epilogue the other members are. prologues: operand number of it -> the items
    that compute this operand.
    """

    kind: Kind
    shape: tuple[int, ...]
    dims: tuple[int, ...]
    members: dict[int, bool]
    contraction: int | None = None
    prologues: dict[int, set[int]] = field(default_factory=dict)

    @property
    def items(self) -> set[int]:
        """All that the kernel computes."""
        return {*self.members, *(item for prologue in self.prologues.values() for item in prologue)}


def _row_shapes(shape: tuple[int, ...], dims: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape without its reduced dimensions, and with them as 1."""
    without = tuple(extent for axis, extent in enumerate(shape) if axis not in dims)
    return without, tuple(1 if axis in dims else extent for axis, extent in enumerate(shape))


def _full_layout(shape: tuple[int, ...]) -> Layout:
    return Layout(shape, contiguous_strides(shape))


def _row_layout(shape: tuple[int, ...], dims: tuple[int, ...]) -> Layout:
    """One element per row, over the whole shape."""
    inner = iter(contiguous_strides(_row_shapes(shape, dims)[0]))
    return Layout(shape, tuple(0 if axis in dims else next(inner) for axis in range(len(shape))))


def _broadcast(layout: Layout, shape: tuple[int, ...]) -> Layout:
    """The layout of an operand over the shape that it broadcasts to."""
    lead = (0,) * (len(shape) - len(layout.shape))
    own = (0 if extent == 1 else stride for extent, stride in zip(layout.shape, layout.strides, strict=True))
    return Layout(shape, (*lead, *own), layout.offset)


def _lift(layout: Layout, shape: tuple[int, ...], dims: tuple[int, ...]) -> Layout:
    """The layout of a per-row member's operand, over the whole shape; its own shape may keep reduced dims as 1."""
    if len(layout.shape) == len(shape):
        inner = iter([stride for axis, stride in enumerate(layout.strides) if axis not in dims])
    else:
        inner = iter(layout.strides)
    return Layout(shape, tuple(0 if axis in dims else next(inner) for axis in range(len(shape))), layout.offset)


def _consecutive(dims: tuple[int, ...]) -> bool:
    """Whether reduced dimensions are neighbours, so that a row of a full result is evenly spaced in memory."""
    return dims[-1] - dims[0] == len(dims) - 1


def _same_positions(a: Layout, b: Layout) -> bool:
    """Whether both name the same element at every position; the stride of an extent of 1 does not matter."""
    return (
        a.shape == b.shape
        and a.offset == b.offset
        and all(extent == 1 or s == t for extent, s, t in zip(a.shape, a.strides, b.strides, strict=True))
    )


class _Fuser:
    """Groups the ops of one graph. The graph is not changed."""

    def __init__(self, graph: nx.DiGraph, fusion: Fusion) -> None:
        self.graph = graph
        self.fusion = fusion
        self.specs: dict[int, Spec] = dict(graph.nodes(data="spec"))
        self.calls: dict[int, Call] = {item: call for item, call in sorted(graph.nodes(data="call")) if call}
        self.inputs = {item: operands(graph, item) for item in self.calls}
        self.sources: dict[int, tuple[int, Layout]] = {}
        self.copied: dict[int, tuple[int, Layout]] = {}
        self.aliases: dict[int, int] = {}
        for item in self.inputs:
            if self.calls[item].op.kind == "view":
                self._follow_view(item)
        self.forms = {
            item: self._form(item) for item in self.inputs if self.calls[item].op.kind != "view" or item in self.copied
        }
        self.kept = {item for item in self.forms if graph.nodes[item]["keep"]} | set(self.aliases.values())
        self.consumers: dict[int, list[int]] = {item: [] for item in graph}
        for item, form in self.forms.items():
            for source, _ in form.operands:
                self.consumers[source].append(item)
        self.made: dict[tuple[int, ...], Task] = {}

    def source(self, item: int) -> tuple[int, Layout | None]:
        """The item whose buffer holds this one's elements, and where they lie; no layout for a number."""
        if item in self.sources:
            return self.sources[item]
        spec = self.specs[item]
        return item, None if spec is None else _full_layout(spec.shape)

    def _follow_view(self, item: int) -> None:
        """Fold a view into whoever reads it, or mark it, or what it views, to be copied."""
        call = self.calls[item]
        viewed = self._viewed(item)
        if viewed is None:
            operand = self.inputs[item][0]
            self.copied[operand] = self.sources.pop(operand)
            viewed = self._viewed(item)
            assert viewed is not None
        base, layout = viewed
        whole = _same_positions(layout, _full_layout(call.spec.shape)) and call.spec.size == self.specs[base].size
        if not self.graph.nodes[item]["keep"] or whole:
            self.sources[item] = viewed
            if self.graph.nodes[item]["keep"]:
                self.aliases[item] = base
        else:
            self.copied[item] = viewed

    def _viewed(self, item: int) -> tuple[int, Layout] | None:
        call = self.calls[item]
        base, layout = self.source(self.inputs[item][0])
        assert call.op.layout is not None
        assert layout is not None
        found = call.op.layout(layout, call.spec.shape, call.attributes)
        return None if found is None else (base, found)

    def _form(self, item: int) -> Form:
        call = self.calls[item]
        if item in self.copied:
            return Form("map", call.spec.shape, (), False, (self.copied[item],))
        sources = [self.source(source) for source in self.inputs[item]]
        kind = call.op.kind
        if kind == "matmul" and 1 in call.spec.shape[-2:]:
            return self._matrix_vector(call, sources)
        if kind in ("matmul", "data"):
            return Form(kind, call.spec.shape, (), False, tuple(sources))
        shape, dims = call.spec.shape, call.dims
        if kind == "row":
            assert isinstance(call.operands[0], Spec)
            shape = call.operands[0].shape
        layouts = [None if layout is None else _broadcast(layout, shape) for _, layout in sources]
        if kind == "row" and not dims:  # a zero-dimensional tensor is a row of one
            dims, shape = (len(shape),), (*shape, 1)
            layouts = [None if x is None else Layout(shape, (*x.strides, 0), x.offset) for x in layouts]
        pairs = tuple((source, layout) for (source, _), layout in zip(sources, layouts, strict=True))
        return Form("row" if dims else "map", shape, dims, call.reduces, pairs)

    def _matrix_vector(self, call: Call, sources: list[tuple[int, Layout | None]]) -> Form:
        """A product with one row or column: a sum over (..., M, N, K), bound by memory and not by arithmetic."""
        (a, a_layout), (b, b_layout) = sources
        assert a_layout is not None
        assert b_layout is not None
        shape = (*call.spec.shape, a_layout.shape[-1])
        left = _broadcast(a_layout, (*call.spec.shape[:-1], shape[-1]))
        right = _broadcast(b_layout, (*call.spec.shape[:-2], shape[-1], shape[-2]))
        (*batch_a, row, inner_a), (*batch_b, inner_b, column) = left.strides, right.strides
        return Form(
            "row",
            shape,
            (len(shape) - 1,),
            True,
            (
                (a, Layout(shape, (*batch_a, row, 0, inner_a), left.offset)),
                (b, Layout(shape, (*batch_b, 0, column, inner_b), right.offset)),
            ),
        )

    # --- grouping, from the results backwards

    def groups(self, may_join: Callable[[int, Group, Group], bool] | None = None) -> list[Group]:
        """All groups in an order in which they can run.

        may_join: asked about an op, the group that could compute it too, and what this group would become.
        """
        found: list[Group] = []
        group_of: dict[int, Group] = {}
        for item in sorted(self.forms, reverse=True):
            consumers = {id(group_of[consumer]): group_of[consumer] for consumer in self.consumers[item]}
            group = next(iter(consumers.values())) if len(consumers) == 1 else None
            if group is not None:
                joined = replace(group, members=dict(group.members), prologues=dict(group.prologues))
                if self._join(item, joined) and (may_join is None or may_join(item, group, joined)):
                    vars(group).update(vars(joined))
                else:
                    group = None
            if group is None:
                group = self.alone(item)
                found.append(group)
            group_of[item] = group
        # Only the last member of a group is read by others, so their order is an order of the groups.
        return sorted(found, key=lambda group: max(group.members))

    def alone(self, item: int) -> Group:
        """A group of one op."""
        form = self.forms[item]
        group = Group(form.kind, form.shape, form.dims, {item: form.per_row})
        group.contraction = item if form.kind == "matmul" else None
        return group

    def _join(self, item: int, group: Group) -> bool:
        """Add an op, all of whose consumers are in `group`, if the kernel of the group can compute it too."""
        form = self.forms[item]
        if item in group.items:
            return True
        if group.kind == "data" or form.kind == "data" or len(group.items) >= MAX_OPS:
            return False
        sources = (self._sources(group) - {item}) | {source for source, _ in form.operands}
        if self._too_many(sources):
            return False
        if set(self.consumers[item]) - (group.members.keys() - {group.contraction}):
            return self._join_prologue(item, group)
        readings = self._readings(item, group)
        full = all(_same_positions(layout, _full_layout(group.shape)) for layout in readings)
        if form.kind == "map" and full and form.shape == group.shape:
            if self._streams(item, group, group.dims) > self.fusion.streams:
                return False
            group.members[item] = False
            return True
        if form.kind == "map" and form.shape != group.shape and group.kind in ("map", "row"):
            dims = group.dims or self._reduction_above(item, group)
            per_row = _row_layout(group.shape, dims)
            aligned = all(_same_positions(layout, per_row) for layout in readings)
            if dims and aligned and form.shape in _row_shapes(group.shape, dims):
                group.kind, group.dims = "row", dims
                group.members[item] = True
                return True
        if form.kind == "matmul" and group.kind == "map" and full and form.shape == group.shape:
            if item in self.kept or not (self.fusion.residuals or self._reads_only_vectors(group, item)):
                return False
            group.kind, group.contraction = "matmul", item
            group.members[item] = False
            return True
        if form.kind == "row" and group.kind != "matmul":
            return self._join_row(item, form, group, readings, full)
        return False

    def _reads_only_vectors(self, group: Group, product: int) -> bool:
        """Whether the operands of a group, but for the product, vary along one of the last two dimensions at most."""
        operands = [operand for member in group.members for operand in self.forms[member].operands]
        for source, layout in operands:
            if source == product or source in group.members or layout is None:
                continue
            varying = [
                axis - len(layout.shape)
                for axis, (extent, stride) in enumerate(zip(layout.shape, layout.strides, strict=True))
                if extent > 1 and stride
            ]
            if len(varying) > 1 or min(varying, default=-1) < -2:
                return False
        return True

    def _join_prologue(self, item: int, group: Group) -> bool:
        """Let an operand of the matrix product, and all element-wise ops that only serve it, be computed by packing."""
        assert group.contraction is not None
        if not self.fusion.prologues:
            return False
        if self.consumers[item] != [group.contraction] or not self._is_prologue(item):
            return False
        items = self._prologue(item)
        if items is None:
            return False
        number = next(n for n, (source, _) in enumerate(self.forms[group.contraction].operands) if source == item)
        joined = replace(group, prologues={**group.prologues, number: items})
        if len(joined.items) > MAX_OPS or self._too_many(self._sources(joined)):
            return False
        if not self._can_be_packed(number, joined):
            return False
        group.prologues = joined.prologues
        return True

    def _is_prologue(self, item: int) -> bool:
        """Whether an op can be part of a prologue: element-wise in float32, where its conditions are allowed."""
        return (
            self.forms[item].kind == "map"
            and item not in self.kept
            and self.specs[item].dtype.register in ("float32", "bool")
        )

    def _prologue(self, root: int) -> set[int] | None:
        """`root` and the ops that only serve it; None if the kernel that makes their input can do them as it stores."""
        whole = _full_layout(self.forms[root].shape)
        inside, stack = {root}, [root]
        while stack:
            for source, layout in self.forms[stack.pop()].operands:
                form = self.forms.get(source)
                if form is None or layout is None or source in inside or not inside.issuperset(self.consumers[source]):
                    continue
                readings = [x for c in self.consumers[source] for y, x in self.forms[c].operands if y == source and x]
                full = all(_same_positions(reading, whole) for reading in readings)
                if form.kind == "row" and (full or form.shape == whole.shape):
                    return None
                if form.kind == "matmul" and full and source not in self.kept:
                    return None
                if full and form.shape == whole.shape and self._is_prologue(source):
                    inside.add(source)
                    stack.append(source)
        return inside

    def _can_be_packed(self, number: int, group: Group) -> bool:
        """Whether vectors along the rows, or along the columns, of an operand can read all that computes it."""
        assert group.contraction is not None
        if _operand_register(self.calls[group.contraction], number) != "float32":
            return False
        root, reading = self.forms[group.contraction].operands[number]
        assert reading is not None
        pairs = list(zip(reading.shape, reading.strides, strict=True))
        read = math.prod(extent for extent, stride in pairs if stride)
        if read > self.specs[root].size or any(extent > 1 and stride == 0 for extent, stride in pairs[-2:]):
            return False  # elements would be computed several times
        items = group.prologues[number]
        layouts = [
            self._viewed_operand(layout, number, group.contraction)
            for item in items
            for source, layout in self.forms[item].operands
            if source not in items and layout is not None
        ]
        return bool(layouts) and any(
            all(x is not None and (x.shape[axis] == 1 or x.strides[axis] in (0, 1)) for x in layouts)
            for axis in (-1, -2)
        )

    def _viewed_operand(self, layout: Layout, number: int, contraction: int) -> Layout | None:
        """What lies over the result that an operand of a matrix product is a view of, over the operand itself."""
        root, _ = self.forms[contraction].operands[number]
        views = [self.inputs[contraction][number]]
        while views[-1] != root:
            views.append(self.inputs[views[-1]][0])
        found: Layout | None = layout
        for call in (self.calls[view] for view in reversed(views[:-1])):
            assert call.op.layout is not None
            found = None if found is None else call.op.layout(found, call.spec.shape, call.attributes)
        return found

    def _reduction_above(self, item: int, group: Group) -> tuple[int, ...]:
        """The dimensions of a reduction over the group's shape that `item` only post-processes; () if there is none.

        Everything on the way up to the reduction must serve this group alone, so that the reduction joins it too.
        """
        inside = {item, *group.members}
        stack = [item]
        while stack:
            for source, _ in self.forms[stack.pop()].operands:
                form = self.forms.get(source)
                if form is None or source in inside or not inside.issuperset(self.consumers[source]):
                    continue
                if form.kind == "row" and form.per_row and form.shape == group.shape:
                    return form.dims if _consecutive(form.dims) else ()
                if form.kind == "map":
                    inside.add(source)
                    stack.append(source)
        return ()

    def _join_row(self, item: int, form: Form, group: Group, readings: list[Layout], full: bool) -> bool:
        if form.shape == group.shape and group.dims in ((), form.dims) and _consecutive(form.dims):
            expected = _row_layout(form.shape, form.dims) if form.per_row else _full_layout(form.shape)
            if self._streams(item, group, form.dims) > self.fusion.streams:
                return False
            if all(_same_positions(layout, expected) for layout in readings):
                group.kind, group.dims = "row", form.dims
                group.members[item] = form.per_row
                return True
        if form.per_row and group.kind == "map" and full and group.shape in _row_shapes(form.shape, form.dims):
            # What was a map over the results becomes work per row.
            group.kind, group.shape, group.dims = "row", form.shape, form.dims
            group.members = dict.fromkeys((*group.members, item), True)
            return True
        return False

    def _readings(self, item: int, group: Group) -> list[Layout]:
        """How the members of a group read `item`, over the group's shape."""
        found = []
        for consumer in set(self.consumers[item]):
            for source, layout in self.operands_over(consumer, group):
                if source == item and layout is not None:
                    found.append(layout)
        return found

    def operands_over(self, item: int, group: Group) -> list[tuple[int, Layout | None]]:
        """The operands of a member over the group's shape."""
        form = self.forms[item]
        lifted = group.members[item] and form.shape != group.shape
        return [
            (source, _lift(layout, group.shape, group.dims) if lifted and layout is not None else layout)
            for source, layout in form.operands
        ]

    def _sources(self, group: Group) -> set[int]:
        return {source for item in group.items for source, _ in self.forms[item].operands} - group.items

    def _streams(self, item: int, group: Group, dims: tuple[int, ...]) -> int:
        """How many operands would differ from row to row if `item`, over the group's shape, joined; 0 without rows."""
        if not dims:
            return 0
        inside = {item, *group.members}
        operands = [operand for member in group.members for operand in self.operands_over(member, group)]
        found = set()
        for source, layout in (*operands, *self.forms[item].operands):
            if source not in inside and layout is not None:
                steps = [
                    stride if extent > 1 else 0 for extent, stride in zip(layout.shape, layout.strides, strict=True)
                ]
                # What is one number for all rows is streamed as well.
                if not any(steps) or any(step for axis, step in enumerate(steps) if axis not in dims):
                    found.add((source, layout))
        return len(found)

    def _too_many(self, operands: set[int]) -> bool:
        tensors = sum(self.specs[item] is not None for item in operands)
        return len(operands) > MAX_OPERANDS or tensors > self.fusion.inputs

    # --- tasks

    def task(self, group: Group) -> Task:
        """The work of a group. Equal sets of items are equal groups, whatever else there is."""
        items = tuple(sorted(group.items))
        found = self.made.get(items)
        if found is None:
            found = self.made[items] = self._task(group, items)
        return found

    def _task(self, group: Group, items: tuple[int, ...]) -> Task:
        """One expression, joined from those of the members."""
        ops = tuple("copy" if item in self.copied else self.calls[item].op.name for item in items)
        calls = tuple(self.calls[item] for item in items)
        if group.kind == "data":
            return self._data_task(group, ops, calls)
        order = [axis for axis in range(len(group.shape)) if axis not in group.dims] + list(group.dims)
        builder = Builder()
        matrices: list[Input] = []
        prologues: list[Prologue | None] = [None, None]
        values: dict[int, Symbol] = {}
        if group.contraction is not None:
            call = self.calls[group.contraction]
            for number in range(2):
                found, prologues[number] = self._factor(group, number)
                matrices += found
            accumulator = builder.load(0, _operand_register(call, 0))
            values[group.contraction] = accumulator.astype(call.spec.dtype.register)

        def permuted(item: int) -> list[tuple[int, Layout | None]]:
            return [(x, layout and _permuted(layout, order)) for x, layout in self.operands_over(item, group)]

        # Slot 0 of an epilogue is the sum of products.
        inputs = self._record(group.members, permuted, builder, values, 0 if group.contraction is None else 1)
        last = max(group.members)
        outputs = []
        for item in sorted(group.members):
            if item in self.kept or item == last:
                spec = self.specs[item]
                over = _row_layout(group.shape, group.dims) if group.members[item] else _full_layout(group.shape)
                outputs.append(Output(item, spec.dtype, _permuted(over, order), spec.nbytes))
        # Storing rounds; a rounding just before it would be done twice.
        stored = [builder.before(values[o.item], f"round_{o.dtype.name}") for o in outputs]
        program = builder.program(stored)
        reduces = any(PRIMITIVES[i.primitive].reduces for i in program.instructions)
        return Task(
            group.kind if reduces or group.kind == "matmul" else "map",
            items,
            ops,
            (*matrices, *inputs),
            tuple(outputs),
            tuple(group.shape[axis] for axis in order),
            len(group.dims) if reduces else 0,
            program,
            self.calls[group.contraction] if group.contraction is not None else None,
            (prologues[0], prologues[1]),
            calls,
        )

    def _record(
        self,
        items: Iterable[int],
        operands_over: Callable[[int], list[tuple[int, Layout | None]]],
        builder: Builder,
        values: dict[int, Symbol],
        first_slot: int,
    ) -> list[Input]:
        """Add the values of items to `values`, which holds those already there; returns what they read."""
        inputs: dict[Input, int] = {}
        for item in sorted(items):
            if item in values:
                continue
            call = self.calls[item]
            symbols: list[Symbol] = []
            computed = [source in values for source, _ in self.forms[item].operands]
            for source, layout in operands_over(item):
                value = values.get(source)
                if value is None:
                    dtype = self.specs[source].dtype if layout is not None else None
                    slot = inputs.setdefault(Input(source, dtype, layout), len(inputs) + first_slot)
                    if dtype is not None:
                        value = builder.load(slot, dtype.register)
                    else:
                        value = builder.scalar(slot, _operand_register(call, len(symbols)))
                symbols.append(value)
            values[item] = symbols[0] if item in self.copied else _apply(call, symbols, computed)
        return list(inputs)

    def _factor(self, group: Group, number: int) -> tuple[list[Input], Prologue | None]:
        """An operand of the matrix product: its inputs, over the batch and its rows and columns, and its prologue."""
        assert group.contraction is not None
        contraction = group.contraction
        source, reading = self.forms[contraction].operands[number]
        assert reading is not None
        matrix = (*self.calls[contraction].spec.shape[:-2], *reading.shape[-2:])
        dtype = self.specs[source].dtype
        items = group.prologues.get(number)
        if items is None:
            return [Input(source, dtype, _broadcast(reading, matrix))], None

        def over(item: int) -> list[tuple[int, Layout | None]]:
            found = []
            for operand, layout in self.forms[item].operands:
                viewed = None if layout is None else self._viewed_operand(layout, number, contraction)
                found.append((operand, None if viewed is None else _broadcast(viewed, matrix)))
            return found

        builder = Builder()
        values: dict[int, Symbol] = {}
        inputs = self._record(items, over, builder, values, 0)
        # Packing rounds; a rounding just before it would be done twice.
        program = builder.program([builder.before(values[source], f"round_{dtype.name}")])
        return inputs, Prologue(program, len(inputs), dtype)

    def _data_task(self, group: Group, ops: tuple[str, ...], calls: tuple[Call, ...]) -> Task:
        (item,) = group.members
        call = self.calls[item]
        inputs = tuple(
            Input(source, None if layout is None else self.specs[source].dtype, layout)
            for source, layout in self.forms[item].operands
        )
        output = Output(item, call.spec.dtype, _full_layout(call.spec.shape), call.spec.nbytes)
        return Task("data", (item,), ops, inputs, (output,), call.spec.shape, call=call, calls=calls)


def _permuted(layout: Layout, order: list[int]) -> Layout:
    return Layout(
        tuple(layout.shape[axis] for axis in order), tuple(layout.strides[axis] for axis in order), layout.offset
    )


def _operand_register(call: Call, operand: int) -> str:
    """The type in which the op computes an operand; a Python number becomes that too."""
    register = call.registers[operand]
    assert register is not None
    return register


def _apply(call: Call, symbols: list[Symbol], computed: list[bool]) -> Symbol:
    """The op's body on symbols: operands converted to the op's registers, the result to its dtype's.

    computed: which operands have never been in memory, and so are not rounded to their dtype yet.
    """
    if call.op.kind == "matmul":  # with one row or column: see _matrix_vector
        register = _operand_register(call, 0)
        left, right = (symbol.astype(register) for symbol in symbols)
        products = left.builder.emit("mul", (left, right))
        return products.builder.emit("row_sum", (products,)).astype(call.spec.dtype.register)
    rounded = call.op.converts
    operands = []
    for number, (symbol, operand) in enumerate(zip(symbols, call.operands, strict=True)):
        if rounded and isinstance(operand, Spec) and computed[number]:
            symbol = _round_to(symbol, operand.dtype)
        operands.append(symbol.astype(_operand_register(call, number)))
    parameters = {a.name for a in call.op.attributes}
    attributes = {name: value for name, value in call.attributes.items() if name in parameters}
    result: Symbol = call.op.body(*operands, **attributes).astype(call.spec.dtype.register)
    return _round_to(result, call.spec.dtype) if rounded else result


def _round_to(value: Symbol, dtype: DType) -> Symbol:
    """An explicit conversion rounds also where the value stays in a register."""
    if dtype.register == dtype.name:
        return value
    return value.builder.emit(f"round_{dtype.name}", (value,))


class _Refit:
    """Which ops join a kernel if a device is asked first.

    A kernel grows as long as the device takes it. What the device has no kernel for grows as its bounds allow, by ops
    that it has none for either. A kernel that only copies or converts is not worth cutting such a task.
    """

    def __init__(self, fuser: _Fuser, takes: Callable[[Task], bool], groups: Sequence[Group]) -> None:
        """groups: made by the device's bounds alone."""
        self.fuser = fuser
        self.takes = takes
        self.taken = {tuple(sorted(group.items)): takes(fuser.task(group)) for group in groups}
        self.group_of = {item: items for items, taken in self.taken.items() if taken for item in items}
        self.alone: dict[Any, tuple[bool, bool]] = {}

    @property
    def needed(self) -> bool:
        """Whether the device refuses a kernel of several ops, and not all of these ops."""
        refused = [items for items, taken in self.taken.items() if len(items) > 1 and not taken]
        return any(self._alone(item)[0] for items in refused for item in items)

    def may_join(self, item: int, group: Group, joined: Group) -> bool:
        """Whether `group` should become `joined` by an op."""
        if item in self.group_of and self.group_of[item] == self.group_of.get(max(group.members)):
            return True  # on the way to a kernel that is known to be taken
        if self._is_taken(group):
            if self._is_taken(joined):
                return True
            if _computes(self.fuser.task(group)):
                return False
        if all(self._alone(item)):
            return False
        self.taken[tuple(sorted(joined.items))] = False
        return True

    def _is_taken(self, group: Group) -> bool:
        items = tuple(sorted(group.items))
        if items not in self.taken:
            self.taken[items] = self.takes(self.fuser.task(group))
        return self.taken[items]

    def _alone(self, item: int) -> tuple[bool, bool]:
        """Whether the device takes an op alone, and whether that computes anything.

        Equal ops, as the layers of a model have, are asked about once.
        """
        fuser = self.fuser
        layouts = tuple(layout for _, layout in fuser.forms[item].operands)
        key = fuser.calls[item], layouts, item in fuser.copied
        if key not in self.alone:
            group = fuser.alone(item)
            self.alone[key] = self._is_taken(group), _computes(fuser.task(group))
        return self.alone[key]


def _computes(task: Task) -> bool:
    return task.program is None or any(step.primitive != "load" for step in task.program.instructions)


class Tasks(NamedTuple):
    """A captured graph cut into kernels.

    tasks: in an order in which they can run. aliases: items that share the buffer of another one, and that one. kept:
    items with buffers of their own whose values are needed afterwards.
    """

    tasks: list[Task]
    aliases: tuple[tuple[int, int], ...]
    kept: set[int]


class Cutter:
    """Cuts a captured graph into tasks. graph: what was captured, with every common subexpression once."""

    def __init__(self, found: Capture) -> None:
        self.graph = digraph(found)
        self._keep = found.keep
        self._merged = share_common(self.graph)

    def cut(self, fusion: Fusion) -> Tasks:
        """Tasks within the bounds of a device."""
        return next(self.cuts(fusion, lambda task: True))

    def cuts(self, fusion: Fusion, takes: Callable[[Task], bool]) -> Iterator[Tasks]:
        """Tasks within the bounds of a device, and then others if it refuses some of these that it takes parts of.

        takes: whether the device has a kernel for a task. The last cut is that with most on the device.
        """
        fuser = _Fuser(self.graph, fusion)
        groups = fuser.groups()
        yield self._tasks(fuser, groups)
        refit = _Refit(fuser, takes, groups)
        if refit.needed:
            yield self._tasks(fuser, fuser.groups(refit.may_join))

    def _tasks(self, fuser: _Fuser, groups: Iterable[Group]) -> Tasks:
        # Twins share a buffer, and so do views that cover the whole of what they view.
        twins = {item: twin for item, twin in self._merged.items() if item in self._keep}
        bases = {**fuser.aliases, **twins}
        aliases = tuple((item, _root(item, bases)) for item in bases)
        kept = {base for _, base in aliases} | {item for item in self._keep if item not in bases}
        return Tasks([fuser.task(group) for group in groups], aliases, kept)


def _root(item: int, bases: Mapping[int, int]) -> int:
    while item in bases:
        item = bases[item]
    return item


def cut(found: Capture, fusion: Fusion) -> Tasks:
    """Cut a captured graph into tasks within the bounds of a device."""
    return Cutter(found).cut(fusion)
