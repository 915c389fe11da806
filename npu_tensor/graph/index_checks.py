"""Checks of index values while an op is recorded, so that the error is raised on the user's line.

A kernel checks them again when it runs, because most computed indices have no values yet when they are recorded.
"""

from __future__ import annotations

from types import CodeType
from typing import Any, Final

import numpy as np

from npu_tensor.errors import DimensionError
from npu_tensor.graph.nodes import Node, located
from npu_tensor.graph.tracing import current_watch
from npu_tensor.ops.declare import Call, describe
from npu_tensor.runtime.memory import Buffer
from npu_tensor.runtime.reference import evaluate_call

MOST_STEPS: Final = 4
"""Upper bound on a chain of pending ops evaluated for a check. Conversions, views and ignored labels need up to 4."""

MOST_ELEMENTS: Final = 1 << 16
"""Upper bound on elements of an index tensor that is computed only for a check. Chosen, not measured."""


def check_indices(call: Call, inputs: tuple[Any, ...], where: tuple[CodeType, int] | None) -> None:
    """Raise DimensionError if an index whose values are known is out of range. Launches and waits for nothing."""
    assert call.op.indices is not None
    for position, lowest, extent in call.op.indices(call):
        index = known_value(inputs[position])
        if index is None or not index.size:
            continue
        low, high = int(index.min()), int(index.max())
        if low < lowest or high >= extent:
            name, wrong = call.attributes.get("name", "index"), high if high >= extent else low
            reason = f"{name} {wrong} is out of range for extent {extent}"
            function = call.attributes.get("caller") or f"{call.op.name}({describe(call.operands)})"
            raise located(DimensionError(), f"{function}: {reason}", where, reason)


def known_value(node: Node, steps: int = MOST_STEPS) -> np.ndarray[Any, Any] | None:
    """Return a value in host memory, or bools and integers computed from it in a few steps; else None.

    Return None also while a function is captured, because its inputs may have other values in later calls.
    """
    if current_watch() is not None:
        return None
    spec = node.spec
    if node.value is not None:
        return node.value.as_array(spec.shape, spec.dtype.numpy) if type(node.value) is Buffer else None
    call = node.call
    if call is None or call.op.kind not in ("view", "map") or not steps:
        return None
    if call.op.kind == "map" and (spec.size > MOST_ELEMENTS or spec.dtype.is_floating_point):
        return None
    operands = [known_value(each, steps - 1) if isinstance(each, Node) else each for each in node.inputs]
    if any(each is None for each in operands):
        return None
    try:
        return evaluate_call(call, operands)
    except ZeroDivisionError:
        return None
