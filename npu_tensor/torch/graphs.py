"""Graphs of `torch.fx`, whose nodes are ATen operators, as imported graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import torch
from torch import fx

from npu_tensor.errors import ArgumentError
from npu_tensor.interop.aten import IGNORED
from npu_tensor.interop.imported_graph import ImportedNode, model_line
from npu_tensor.torch.bridge import DTYPE_OF

_PYTORCH: Final = str(Path(torch.__file__).parent)


def operator_name(target: Any) -> str:
    """Return the name of an operator, such as "aten.add.Tensor" or "_operator.getitem"."""
    if isinstance(target, torch._ops.OpOverload):
        return str(target)
    return f"{getattr(target, '__module__', '')}.{getattr(target, '__name__', target)}"


def place_of_node(node: fx.Node) -> str:
    """Return the innermost line of the model that recorded a node, outside PyTorch; the node's name if none did."""
    return model_line(node.meta.get("stack_trace") or "", _PYTORCH) or node.name


def imported_value(value: Any, reference: Callable[[fx.Node], Any]) -> Any:
    """Convert an argument of a node. Nodes become references, and dtypes those of ours."""
    if isinstance(value, fx.Node):
        return reference(value)
    if isinstance(value, (tuple, list)):
        kind = tuple if isinstance(value, tuple) else list  # FX has lists of its own.
        return kind(imported_value(part, reference) for part in value)
    if isinstance(value, Mapping):
        return {key: imported_value(part, reference) for key, part in value.items()}
    if isinstance(value, torch.dtype):
        if value not in DTYPE_OF:
            raise ArgumentError(f"{value} has no counterpart")
        return DTYPE_OF[value]
    return value


def imported_node(node: fx.Node, reference: Callable[[fx.Node], Any]) -> ImportedNode:
    """Convert a call of an operator."""
    operands = imported_value(node.args, reference)
    keywords = {name: value for name, value in node.kwargs.items() if name not in IGNORED}
    return ImportedNode(
        operator=operator_name(node.target),
        operands=tuple(operands),
        keywords=imported_value(keywords, reference),
        results=node.name,
        place=place_of_node(node),
    )
