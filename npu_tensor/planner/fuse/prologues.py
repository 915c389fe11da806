"""Prologues: what only an operand of a matrix product needs is computed while that operand is packed."""

from __future__ import annotations

import math

from npu_tensor.planner.fuse.forms import Forms, operand_register
from npu_tensor.planner.fuse.layouts import full_layout, same_positions

__all__ = ["prologue_of"]


def prologue_of(forms: Forms, item: int, contraction: int) -> tuple[int, set[int]] | None:
    """Which operand of a matrix product an op computes, and all element-wise ops that only serve that operand.

    None if it cannot be computed by packing, or better by what produces the inputs of these ops.
    """
    if forms.consumers[item] != [contraction] or not _is_allowed(forms, item):
        return None
    items = _items(forms, item)
    number = next(n for n, (source, _) in enumerate(forms.of[contraction].operands) if source == item)
    if items is None or not _can_be_packed(forms, contraction, number, items):
        return None
    return number, items


def _is_allowed(forms: Forms, item: int) -> bool:
    """Whether an op can be part of a prologue: element-wise in float32, where its conditions are allowed."""
    return (
        forms.of[item].kind == "map"
        and item not in forms.kept
        and forms.specs[item].dtype.register in ("float32", "bool")
    )


def _items(forms: Forms, root: int) -> set[int] | None:
    """`root` and the ops that only serve it; None if the kernel that makes their input can do them as it stores."""
    whole = full_layout(forms.of[root].shape)
    inside, stack = {root}, [root]
    while stack:
        for source, layout in forms.of[stack.pop()].operands:
            form, consumers = forms.of.get(source), forms.consumers[source]
            if form is None or layout is None or source in inside or not inside.issuperset(consumers):
                continue
            readings = [x for consumer in consumers for y, x in forms.of[consumer].operands if y == source and x]
            full = all(same_positions(reading, whole) for reading in readings)
            if form.kind == "row" and (full or form.shape == whole.shape):
                return None
            if form.kind == "matmul" and full and source not in forms.kept:
                return None
            if full and form.shape == whole.shape and _is_allowed(forms, source):
                inside.add(source)
                stack.append(source)
    return inside


def _can_be_packed(forms: Forms, contraction: int, number: int, items: set[int]) -> bool:
    """Whether vectors along the rows, or along the columns, of an operand can read all that computes it."""
    if operand_register(forms.calls[contraction], number) != "float32":
        return False
    root, reading = forms.of[contraction].operands[number]
    assert reading is not None
    pairs = list(zip(reading.shape, reading.strides, strict=True))
    read = math.prod(extent for extent, stride in pairs if stride)
    if read > forms.specs[root].size or any(extent > 1 and stride == 0 for extent, stride in pairs[-2:]):
        return False  # elements would be computed several times
    view = forms.views.inputs[contraction][number]
    layouts = [
        forms.views.viewed(layout, root, view)
        for item in items
        for source, layout in forms.of[item].operands
        if source not in items and layout is not None
    ]
    return bool(layouts) and any(
        all(x is not None and (x.shape[axis] == 1 or x.strides[axis] in (0, 1)) for x in layouts)
        for axis in (-1, -2)
    )
