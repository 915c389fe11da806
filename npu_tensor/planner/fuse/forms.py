"""Forms: what each op is on its own, before it is joined to others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from npu_tensor.ops.declare import Call, Layout
from npu_tensor.planner.fuse.layouts import broadcast
from npu_tensor.planner.fuse.views import Views
from npu_tensor.spec import Spec

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["Form", "Forms", "Kind", "operand_register"]

Kind = Literal["map", "row", "matmul", "data"]


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


class Forms:
    """The ops of a graph that compute something, and who reads whom.

    of: the form of each. consumers: of every item, once per operand. kept: items that are needed afterwards.
    """

    def __init__(self, graph: nx.DiGraph) -> None:
        views = self.views = Views(graph)
        self.specs, self.calls, self.copied = views.specs, views.calls, views.copied
        self.of = {
            item: self._form(item) for item, call in self.calls.items() if call.op.kind != "view" or item in self.copied
        }
        self.kept = {item for item in self.of if graph.nodes[item]["keep"]} | set(views.aliases.values())
        self.consumers: dict[int, list[int]] = {item: [] for item in graph}
        for item, form in self.of.items():
            for source, _ in form.operands:
                self.consumers[source].append(item)

    def _form(self, item: int) -> Form:
        call = self.calls[item]
        if item in self.copied:
            return Form("map", call.spec.shape, (), False, (self.copied[item],))
        sources = [self.views.source(source) for source in self.views.inputs[item]]
        kind = call.op.kind
        if kind == "matmul" and 1 in call.spec.shape[-2:]:
            return _matrix_vector(call, sources)
        if kind in ("matmul", "data"):
            return Form(kind, call.spec.shape, (), False, tuple(sources))
        shape, dims = call.spec.shape, call.dims
        if kind == "row":
            assert isinstance(call.operands[0], Spec)
            shape = call.operands[0].shape
        layouts = [None if layout is None else broadcast(layout, shape) for _, layout in sources]
        if kind == "row" and not dims:  # a zero-dimensional tensor is a row of one
            dims, shape = (len(shape),), (*shape, 1)
            layouts = [None if x is None else Layout(shape, (*x.strides, 0), x.offset) for x in layouts]
        pairs = tuple((source, layout) for (source, _), layout in zip(sources, layouts, strict=True))
        return Form("row" if dims else "map", shape, dims, call.reduces, pairs)


def _matrix_vector(call: Call, sources: list[tuple[int, Layout | None]]) -> Form:
    """A product with one row or column: a sum over (..., M, N, K), bound by memory and not by arithmetic."""
    (a, a_layout), (b, b_layout) = sources
    assert a_layout is not None
    assert b_layout is not None
    shape = (*call.spec.shape, a_layout.shape[-1])
    left = broadcast(a_layout, (*call.spec.shape[:-1], shape[-1]))
    right = broadcast(b_layout, (*call.spec.shape[:-2], shape[-1], shape[-2]))
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


def operand_register(call: Call, operand: int) -> str:
    """The type in which the op computes an operand; a Python number becomes that too."""
    register = call.registers[operand]
    assert register is not None
    return register
