"""Prologues: ops that only an operand of a matrix product needs, computed while that operand is packed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from npu_tensor.ops.declare import Layout
from npu_tensor.planner.fuse.lower import Lowered, operand_register, spec_of, viewed
from npu_tensor.planner.fuse.strides import broadcast, full_layout, same_positions

VECTOR_STRIDES: Final = (1, 2)
"""Strides of rows of A and columns of B whose elements are packed as a vector."""

LEAST_RUN: Final = 8
"""Minimum number of neighbours along K that are packed as a vector if rows of A or columns of B are not."""


def prologue_of(graph: Mapping[int, Lowered], item: int, contraction: int) -> tuple[int, set[int]] | None:
    """Return the number of the operand that an op computes, and all element-wise ops that only serve that operand.

    Return None if packing cannot compute it, or if the kernel that produces the inputs of these ops should.
    """
    readers = graph[item]["readers"]
    if readers != [contraction] and ("copy" not in graph[item] or readers.count(contraction) != 1):
        return None
    number = next(n for n, (source, _) in enumerate(graph[contraction]["domain"].operands) if source == item)
    if "copy" in graph[item]:
        only_products = all(graph[reader]["domain"].kind == "matmul" for reader in readers)
        if graph[item]["keep"] or not only_products or uncopied(graph, contraction, number) is None:
            return None
        return number, {item}
    items = _items(graph, item) if _is_allowed(graph, item) else None
    if items is None or not _can_be_packed(graph, contraction, number, items):
        return None
    return number, items


def _is_allowed(graph: Mapping[int, Lowered], item: int) -> bool:
    """Return True if an op can be part of a prologue: element-wise in float32 or bool."""
    return (
        graph[item]["domain"].kind == "map"
        and not graph[item]["keep"]
        and spec_of(graph[item]).dtype.register in ("float32", "bool")
    )


def _items(graph: Mapping[int, Lowered], root: int) -> set[int] | None:
    """Return `root` and the ops that only serve it; None if the kernel that makes their input can compute them."""
    whole = full_layout(graph[root]["domain"].shape)
    inside, stack = {root}, [root]
    while stack:
        for source, layout in graph[stack.pop()]["domain"].operands:
            domain, consumers = graph[source].get("domain"), graph[source]["readers"]
            if domain is None or layout is None or source in inside or not inside.issuperset(consumers):
                continue
            operands = [operand for consumer in consumers for operand in graph[consumer]["domain"].operands]
            full = all(same_positions(reading, whole) for item, reading in operands if item == source and reading)
            if domain.kind == "row" and (full or domain.shape == whole.shape):
                return None
            if domain.kind == "matmul" and full and not graph[source]["keep"]:
                return None
            if full and domain.shape == whole.shape and _is_allowed(graph, source):
                inside.add(source)
                stack.append(source)
    return inside


def _can_be_packed(graph: Mapping[int, Lowered], contraction: int, number: int, items: set[int]) -> bool:
    """Return True if vectors along the rows, or along the columns, of an operand can read all inputs of its ops."""
    if operand_register(graph[contraction]["call"], number) != "float32":
        return False
    root, reading = graph[contraction]["domain"].operands[number]
    assert reading is not None
    pairs = list(zip(reading.shape, reading.strides, strict=True))
    read = math.prod(extent for extent, stride in pairs if stride)
    if read > spec_of(graph[root]).size or any(extent > 1 and stride == 0 for extent, stride in pairs[-2:]):
        return False  # Elements would be computed several times.
    view = graph[contraction]["inputs"][number]
    layouts = [
        viewed(graph, layout, root, view)
        for item in items
        for source, layout in graph[item]["domain"].operands
        if source not in items and layout is not None
    ]
    return bool(layouts) and any(
        all(x is not None and (x.shape[axis] == 1 or x.strides[axis] in (0, 1)) for x in layouts) for axis in (-1, -2)
    )


def uncopied(graph: Mapping[int, Lowered], contraction: int, number: int) -> Layout | None:
    """Return the layout of an operand that is a copy in the source of the copy.

    The layout is over the batch, the rows and the columns of the operand. Each of these may be several dimensions, as
    in the windows of a convolution. Return None if the operand is only a part of the copy, or if packing could not
    read the source by vectors.
    """
    source, reading = graph[contraction]["domain"].operands[number]
    assert reading is not None
    batch, (_, layout) = graph[contraction]["call"].spec.shape[:-2], graph[source]["copy"]
    reading = broadcast(reading, (*batch, *reading.shape[-2:]))
    if reading.offset or 0 in reading.shape:
        return None
    steps = full_layout(layout.shape).strides
    dims = [dim for dim in zip(steps, layout.shape, layout.strides, strict=True) if dim[1] != 1]
    pairs: list[tuple[int, int]] = []
    by_vectors = False
    for axis, (extent, step) in enumerate(zip(reading.shape, reading.strides, strict=True), -len(batch)):
        if extent == 1 or not step:
            pairs.append((extent, 0))
            continue
        run = [dim for dim in dims if step <= dim[0] < step * extent]
        if not run or run[-1][0] != step or math.prod(size for _, size, _ in run) != extent:
            return None
        _, length, stride = run[-1]
        if axis == number:
            by_vectors = by_vectors or stride in VECTOR_STRIDES
        elif axis == 1 - number and spec_of(graph[source]).dtype.itemsize >= 4:  # Smaller ones may be packed in pairs.
            by_vectors = by_vectors or (stride == 1 and length >= LEAST_RUN)
        pairs += [(size, stride) for _, size, stride in run]
    if not by_vectors:
        return None
    shape, strides = zip(*pairs, strict=True)
    return Layout(shape, strides, layout.offset)
