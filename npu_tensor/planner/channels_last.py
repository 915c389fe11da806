"""Channels-last graphs: convolutions, and what lies between them, get images whose channels are neighbours in memory.

An image (batch, channels, *places) is then computed as (batch, *places, channels). Ops between convolutions that treat
all places alike are rewritten too, so that only the first operand and the last result are copied into another order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from npu_tensor import ops
from npu_tensor.graph.structure import Item, ItemGraph
from npu_tensor.ops import conv
from npu_tensor.ops.declare import Call, Op
from npu_tensor.spec import Spec

FEW_CHANNELS: Final = 8
"""Number of channels below which a convolution reads whole rows of its kernel, for which padding is stored."""

MANY_PLACES: Final = 1 << 21
"""Number of positions times elements of a kernel from which padding is stored. Chosen, not measured: a table of what
padding hides would be larger than most images."""


Rewritten = tuple[ItemGraph, int, Mapping[int, int]]
"""A graph in topological order, its number of items, and the items that its structure lacks, each with the item that it
serves."""


def with_channels_last(graph: ItemGraph, size: int, products: bool = False, planes: bool = False) -> Rewritten:
    """Rewrite the images of convolutions in a graph of `size` items; other graphs are returned as they are.

    Args:
        graph: The graph.
        size: Number of items.
        products: True to make convolutions of single elements matrix products, which NPUs compute faster.
        planes: True to pad images of few channels in their own order, which the CPU reads as fast.
    """
    if not any(_is_convolution(item) for _, item in graph.nodes.items()):
        return graph, size, {}
    return _Rewriting(graph, size, products, planes).run()


def _is_convolution(item: Item) -> bool:
    return "call" in item and item["call"].op.body.__module__ == conv.__name__


def _is_product(call: Call) -> bool:
    """Return True if a convolution multiplies every element of an image by the same matrix."""
    weight, attributes = call.operands[1], call.attributes
    assert isinstance(weight, Spec)
    is_single = set(weight.shape[2:]) == {1} == set(attributes["stride"]) and attributes["groups"] == 1
    return call.op.kind == "conv" and is_single and not any(map(any, attributes["padding"]))


def _order(ndim: int) -> tuple[int, ...]:
    """Return the dimensions of an image in channels-last order."""
    return (0, *range(2, ndim), 1)


def _moved(values: Sequence[Any]) -> tuple[Any, ...]:
    """Return one value per dimension in channels-last order."""
    return tuple([values[axis] for axis in _order(len(values))])


def _moved_spec(operand: Any, ndim: int) -> Any:
    """Return the spec of an operand that broadcasts to an image in channels-last order."""
    if not isinstance(operand, Spec) or not operand.ndim:
        return operand
    return Spec.of(_moved((1,) * (ndim - operand.ndim) + operand.shape), operand.dtype)


def _place(dim: int, ndim: int) -> int:
    """Return the channels-last place of a dimension."""
    return _order(ndim).index(dim)


def _again(call: Call, operands: Sequence[Any], **changed: Any) -> Call:
    """Return the call of the same op on other operands, with some attributes changed."""
    attributes = {**call.attributes, **changed}
    return call.op.call(tuple(operands), tuple([attributes[each.name] for each in call.op.attributes]))


class _Rewriting:
    """The state of rewriting one graph.

    Attributes:
        last: Channels-last form of items that have one.
        hidden: Items that exist in channels-last form only.
    """

    def __init__(self, graph: ItemGraph, size: int, products: bool, planes: bool) -> None:
        self._items: Mapping[int, Item] = graph.nodes
        self._graph = ItemGraph(twins=graph.twins)
        self._size = size
        self._products, self._planes = products, planes
        self._origins: dict[int, int] = {}
        self.last: dict[int, int] = {}
        self.hidden: set[int] = set()
        self._broadcast: dict[tuple[int, int], int] = {}

    def run(self) -> Rewritten:
        for number, item in self._items.items():
            if "call" not in item:
                self._graph.nodes[number] = {**item}
            elif not self._rewrite(number, item):
                self._add(item["call"], [self._first(each) for each in item["inputs"]], item["keep"], number)
        return self._graph, self._size, self._origins

    def _add(self, call: Call, inputs: Sequence[int], keep: bool = False, number: int | None = None) -> int:
        """Add a node, with a new number unless one is given."""
        if number is None:
            number, self._size = self._size, self._size + 1
        self._graph.nodes[number] = {"spec": call.spec, "call": call, "inputs": tuple(inputs), "keep": keep}
        return number

    def _new(self, call: Call, inputs: Sequence[int], origin: int) -> int:
        number = self._add(call, inputs)
        self._origins[number] = origin
        return number

    def _spec(self, number: int) -> Spec | None:
        spec: Spec | None = self._graph.nodes[number]["spec"]
        return spec

    def _first(self, number: int) -> int:
        """Return an item with its own order of dimensions."""
        if number in self.hidden:
            self.hidden.remove(number)
            item, last = self._items[number], self.last[number]
            dims = (0, len(item["call"].spec.shape) - 1, *range(1, len(item["call"].spec.shape) - 1))
            spec = self._spec(last)
            assert spec is not None
            self._add(ops.permute.op.call((spec,), (dims,)), [last], item["keep"], number)
        return number

    def _last(self, number: int, origin: int) -> int:
        """Return an image in channels-last form."""
        if number not in self.last:
            spec = self._spec(number)
            assert spec is not None
            call = ops.permute.op.call((spec,), (_order(spec.ndim),))
            self.last[number] = self._new(call, [number], origin)
        return self.last[number]

    def _operand(self, number: int, ndim: int, origin: int) -> int:
        """Return an operand that broadcasts to an image as one that broadcasts to its channels-last form."""
        if number in self.last and len(self._items[number]["spec"].shape) == ndim:  # type: ignore[union-attr]
            return self.last[number]
        spec = self._items[number]["spec"] if number in self.hidden else self._spec(number)
        if spec is None or not spec.ndim:
            return self._first(number)
        if spec.ndim == ndim:
            return self._last(number, origin)
        if (number, ndim) not in self._broadcast:
            shape = (1,) * (ndim - spec.ndim) + spec.shape
            whole = self._new(ops.reshape.op.call((spec,), (shape,)), [self._first(number)], origin)
            self._broadcast[number, ndim] = self._last(whole, origin)
        return self._broadcast[number, ndim]

    def _finish(self, number: int, last: int, keep: bool) -> None:
        """Give an item its channels-last form; its own form is added when it is read."""
        self.last[number] = last
        self.hidden.add(number)
        if keep:
            self._first(number)

    def _rewrite(self, number: int, item: Item) -> bool:
        """Add the channels-last form of an op; False if it has none, or if no operand has one."""
        call = item["call"]
        if _is_convolution(item):
            self._add_convolution(number, item)
            return True
        rewrite = _FOLLOWERS.get(call.op.name) or _BY_KIND.get(call.op.kind)
        if rewrite is None or not any(each in self.last for each in item["inputs"]):
            return False
        return rewrite(self, number, item)

    def _add_convolution(self, number: int, item: Item) -> None:
        call, (image, other) = item["call"], item["inputs"]
        is_weight = call.op is ops.conv_weight_gradient.op
        changed: dict[str, Any] = {"channels_last": True}
        if self._stores_padding(call):
            image = self._padded(image, call, number)
            changed["padding"] = ((0, 0),) * len(call.attributes["padding"])
        else:
            image = self._last(image, number)
        operands = [image, self._last(other, number) if is_weight else self._first(other)]
        if self._products and _is_product(call):
            self._finish(number, self._product(number, call, *operands), item["keep"])
            return
        last = _again(call, [self._spec(each) for each in operands], **changed)
        if is_weight:
            self._add(last, operands, item["keep"], number)
        else:
            self._finish(number, self._new(last, operands, number), item["keep"])

    def _stores_padding(self, call: Call) -> bool:
        """Return True if the image of a convolution is padded first."""
        image, weight, padding = *call.operands[:2], call.attributes["padding"]
        assert isinstance(image, Spec)
        assert isinstance(weight, Spec)
        if call.op.kind != "conv" or not any(map(any, padding)):
            return False
        is_large = math.prod(call.spec.shape[2:]) * math.prod(weight.shape[2:]) > MANY_PLACES
        return is_large or (image.shape[1] < FEW_CHANNELS and any(padding[-1]))

    def _padded(self, number: int, call: Call, origin: int) -> int:
        """Return the padded image of a convolution in channels-last form. Planes are padded before they get it."""
        (image, weight, *_), attributes = call.operands, call.attributes
        assert isinstance(image, Spec)
        assert isinstance(weight, Spec)
        is_wide = image.shape[1] <= weight.shape[-1] and attributes["groups"] == 1 == attributes["dilation"][-1]
        around = attributes["padding"]
        if self._planes and is_wide and number not in self.last:
            pad = ops.pad_widths.op.call((image,), (((0, 0), (0, 0), *around), "constant", 0.0))
            return self._last(self._new(pad, [number], origin), origin)
        last = self._last(number, origin)
        spec = Spec.of(_moved(image.shape), image.dtype)
        pad = ops.pad_widths.op.call((spec,), (((0, 0), *around, (0, 0)), "constant", 0.0))
        return self._new(pad, [last], origin)

    def _product(self, number: int, call: Call, image: int, weight: int) -> int:
        """Add the matrix product that computes a convolution, and return its result as an image."""
        *places, channels = self._shape(image)
        outputs = self._shape(weight)[0]
        rows = self._view(ops.reshape.op, image, (math.prod(places), channels), number)
        matrix = self._view(ops.reshape.op, weight, (outputs, channels), number)
        matrix = self._view(ops.permute.op, matrix, (1, 0), number)
        factors = self._graph.nodes[rows]["spec"], self._graph.nodes[matrix]["spec"]
        product = self._new(ops.contract.op.call(factors, (call.attributes["out_dtype"],)), [rows, matrix], number)
        return self._view(ops.reshape.op, product, (*places, outputs), number)

    def _shape(self, number: int) -> tuple[int, ...]:
        """Return the shape of an item that is not a number."""
        spec = self._spec(number)
        assert spec is not None
        return spec.shape

    def _view(self, op: Op, number: int, attribute: tuple[int, ...], origin: int) -> int:
        """Add a view with one attribute."""
        spec = self._spec(number)
        assert spec is not None
        return self._new(op.call((spec,), (attribute,)), [number], origin)

    def _add_channels_last(self, number: int, item: Item) -> bool:
        """Add an op on one image that has an attribute for the order of its dimensions."""
        operands = [self._operand(each, len(item["call"].spec.shape), number) for each in item["inputs"]]
        last = _again(item["call"], [self._spec(each) for each in operands], channels_last=True)
        self._finish(number, self._new(last, operands, number), item["keep"])
        return True

    def _add_backward(self, number: int, item: Item) -> bool:
        """Add the gradient of an op on one image that has an attribute for the order of its dimensions."""
        of = item["call"].attributes["of"]
        (image,) = of.operands
        operands = [self._last(each, number) for each in item["inputs"]]
        forward = _again(of, [Spec.of(_moved(image.shape), image.dtype)], channels_last=True)
        last = _again(item["call"], [self._spec(each) for each in operands], of=forward)
        self._finish(number, self._new(last, operands, number), item["keep"])
        return True

    def _add_map(self, number: int, item: Item) -> bool:
        call, inputs = item["call"], item["inputs"]
        ndim = len(call.spec.shape)
        if not any(each in self.last and self._items[each]["spec"].shape == call.spec.shape for each in inputs):  # type: ignore[union-attr]
            return False
        operands = [self._operand(each, ndim, number) for each in inputs]
        specs = [spec or own for spec, own in zip(map(self._spec, operands), call.operands, strict=True)]
        # Gradient ops have the operands of the op, which are also images, as an attribute.
        changed = {
            name: tuple([_moved_spec(each, ndim) for each in value])
            for name, value in call.attributes.items()
            if isinstance(value, tuple) and any(isinstance(each, Spec) for each in value)
        }
        self._finish(number, self._new(_again(call, specs, **changed), operands, number), item["keep"])
        return True

    def _add_reduction(self, number: int, item: Item) -> bool:
        """Add a reduction over all places, and perhaps more: what is left has one order."""
        call, spec = item["call"], self._items[item["inputs"][0]]["spec"]
        assert spec is not None
        if not call.reduces or "dim" not in call.attributes or set(range(2, spec.ndim)) - set(call.dims):
            return False
        if call.op in (ops.argmax.op, ops.argmin.op) and len(call.dims) > 1:
            return False  # A position counts elements in their order.
        operands = [self._operand(each, spec.ndim, number) for each in item["inputs"]]
        dims = tuple([_place(dim, spec.ndim) for dim in call.dims])
        last = _again(
            call, [self._spec(each) or own for each, own in zip(operands, call.operands, strict=True)], dim=dims
        )
        if call.spec.ndim == spec.ndim:
            self._finish(number, self._new(last, operands, number), item["keep"])
        else:
            self._add(last, operands, item["keep"], number)
        return True

    def _add_concatenation(self, number: int, item: Item) -> bool:
        call, ndim = item["call"], len(item["call"].spec.shape)
        operands = [self._last(each, number) for each in item["inputs"]]
        last = _again(call, [self._spec(each) for each in operands], dim=_place(call.attributes["dim"], ndim))
        self._finish(number, self._new(last, operands, number), item["keep"])
        return True

    def _add_moved(self, number: int, item: Item, attribute: str) -> bool:
        """Add an op on one image with an attribute that has an entry per dimension."""
        call, image = item["call"], self.last[item["inputs"][0]]
        last = _again(call, [self._spec(image)], **{attribute: _moved(call.attributes[attribute])})
        self._finish(number, self._new(last, [image], number), item["keep"])
        return True


_Rewrite = Callable[[_Rewriting, int, Item], bool]


def _has_order(op: Op) -> bool:
    return any(each.name == "channels_last" for each in op.attributes)


_FOLLOWERS: Final[Mapping[str, _Rewrite]] = {
    **{name: _Rewriting._add_channels_last for name, op in ops.OPS.items() if _has_order(op)},
    "resample_backward": _Rewriting._add_backward,
    "max_pool_backward": _Rewriting._add_backward,
    "concat": _Rewriting._add_concatenation,
    "slice": partial(_Rewriting._add_moved, attribute="bounds"),
    "pad_widths": partial(_Rewriting._add_moved, attribute="widths"),
}
"""Rewriters of ops of which an operand has a channels-last form, by the name of the op."""

_BY_KIND: Final[Mapping[str, _Rewrite]] = {"map": _Rewriting._add_map, "row": _Rewriting._add_reduction}
