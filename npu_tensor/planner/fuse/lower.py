"""Lowering: views become strides of the ops that read them, and every other op gets its iteration domain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, cast

from npu_tensor.graph.structure import Item, ItemGraph
from npu_tensor.ops.declare import Call, Layout
from npu_tensor.planner.fuse.strides import broadcast, full_layout, same_positions
from npu_tensor.spec import Spec

Kind = Literal["map", "row", "matmul", "conv", "data"]


class Domain(NamedTuple):
    """Iteration domain of an op.

    Attributes:
        kind: Kind of kernel that computes the op.
        shape: Iteration space.
        dims: Reduced dimensions.
        per_row: True if the result has one element per row.
        operands: Item and layout of each operand over the iteration space; operands of products, convolutions and data
            ops keep their own shapes. The layout of a number is None.
    """

    kind: Kind
    shape: tuple[int, ...]
    dims: tuple[int, ...]
    per_row: bool
    operands: tuple[tuple[int, Layout | None], ...]


class Lowered(Item, total=False):
    """The attributes of a node after lowering."""

    source: tuple[int, Layout]
    """Item whose buffer holds the elements of a view, and their layout, if readers read the view as strides."""
    copy: tuple[int, Layout]
    """Item and layout that are copied into a view with a buffer of its own."""
    domain: Domain
    """Iteration domain of an op that computes something, including views that are copied."""
    readers: list[int]
    """Ops with a domain that read the item, once per operand."""


class Lowering(NamedTuple):
    """A lowered graph.

    Attributes:
        items: Attributes of its nodes, in topological order, which need not be that of their numbers.
        aliases: Kept items that share the buffer of another item, each with that item: merged ops, and views of all
            elements of their base.
        kept: Items with buffers of their own whose values are needed after the run.
    """

    items: Mapping[int, Lowered]
    aliases: tuple[tuple[int, int], ...]
    kept: frozenset[int]


def lower(graph: ItemGraph) -> Lowering:
    """Add the attributes of `Lowered` to the nodes of a graph. Bases of aliases are kept too."""
    items = cast("dict[int, Lowered]", dict(graph.nodes))
    aliases: dict[int, int] = {}
    for number, item in items.items():
        if "call" in item and item["call"].op.kind == "view":
            _fold(items, aliases, number)
    for number, item in items.items():
        item["readers"] = []
        if "call" in item and (item["call"].op.kind != "view" or "copy" in item):
            domain = item["domain"] = _domain(items, item)
            for source, _ in domain.operands:
                items[source]["readers"].append(number)
    bases = {**aliases, **graph.twins}
    kept = {number for number, item in items.items() if item.get("keep") and number not in bases}
    for base in aliases.values():
        items[base]["keep"] = True
    pairs = tuple([(number, _root(number, bases)) for number in bases])
    return Lowering(items, pairs, frozenset(kept | {base for _, base in pairs}))


def _root(number: int, bases: Mapping[int, int]) -> int:
    while number in bases:
        number = bases[number]
    return number


def spec_of(item: Item) -> Spec:
    """Return the shape and dtype of an item that is not a number."""
    spec = item["spec"]
    assert spec is not None
    return spec


def _fold(items: dict[int, Lowered], aliases: dict[int, int], number: int) -> None:
    """Fold a view into its readers, or mark the view or its base to be copied."""
    item = items[number]
    source = _view_source(items, item)
    if source is None:  # a view of a view that has no strides
        viewed_item = items[item["inputs"][0]]
        viewed_item["copy"] = viewed_item.pop("source")
        source = _view_source(items, item)
        assert source is not None
    base, layout = source
    shape = item["call"].spec.shape
    whole = same_positions(layout, full_layout(shape)) and item["call"].spec.size == spec_of(items[base]).size
    if not item["keep"] or whole:
        item["source"] = source
        if item["keep"]:
            aliases[number] = base
    else:
        item["copy"] = source


def _view_source(items: dict[int, Lowered], item: Lowered) -> tuple[int, Layout] | None:
    call = item["call"]
    base, layout = _reading(items, item["inputs"][0])
    assert call.op.layout is not None
    assert layout is not None
    strided = call.op.layout(layout, call.spec.shape, call.attributes)
    return None if strided is None else (base, strided)


def _reading(items: dict[int, Lowered], number: int) -> tuple[int, Layout | None]:
    """Return the item whose buffer holds the elements of an item, and their layout; None for a number."""
    item = items[number]
    if "source" in item:
        return item["source"]
    spec = item["spec"]
    return number, None if spec is None else full_layout(spec.shape)


def viewed(items: Mapping[int, Lowered], layout: Layout, root: int, view: int) -> Layout | None:
    """Return a layout over the elements of `root` as a layout over a view of it; None if that has no strides."""
    calls: list[Call] = []
    while view != root:
        calls.append(items[view]["call"])
        view = items[view]["inputs"][0]
    strided: Layout | None = layout
    for call in reversed(calls):
        assert call.op.layout is not None
        strided = None if strided is None else call.op.layout(strided, call.spec.shape, call.attributes)
    return strided


def _domain(items: dict[int, Lowered], item: Lowered) -> Domain:
    call = item["call"]
    if "copy" in item:
        return Domain("map", call.spec.shape, (), False, (item["copy"],))
    sources = [_reading(items, source) for source in item["inputs"]]
    kind = call.op.kind
    if kind in ("matmul", "conv", "data"):
        return Domain(kind, call.spec.shape, (), False, tuple(sources))
    shape: tuple[int, ...] = call.spec.shape
    dims = call.dims
    if kind == "row":
        assert isinstance(call.operands[0], Spec)
        shape = call.operands[0].shape
    layouts = [None if layout is None else broadcast(layout, shape) for _, layout in sources]
    if kind == "row" and not dims:  # a zero-dimensional tensor is a row of one
        dims, shape = (len(shape),), (*shape, 1)
        layouts = [None if x is None else Layout(shape, (*x.strides, 0), x.offset) for x in layouts]
    pairs = tuple([(source, layout) for (source, _), layout in zip(sources, layouts, strict=True)])
    return Domain("row" if dims else "map", shape, dims, call.reduces, pairs)


def operand_register(call: Call, operand: int) -> str:
    """Return the register type in which the op computes an operand. Python numbers are converted to it too."""
    register = call.registers[operand]
    assert register is not None
    return register
