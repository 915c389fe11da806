"""Graphs of `torch.fx`, whose nodes are ATen operators, as imported graphs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch
from torch import fx

from npu_tensor.errors import ArgumentError
from npu_tensor.interop.aten import IGNORED
from npu_tensor.interop.imported_graph import ImportedNode, map_leaves, model_line
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


def imported_node(node: fx.Node, reference: Callable[[fx.Node], Any]) -> ImportedNode:
    """Convert a call of an operator. Nodes among its arguments become references, and dtypes those of ours."""

    def converted(leaf: Any) -> Any:
        if isinstance(leaf, torch.dtype):
            if leaf not in DTYPE_OF:
                raise ArgumentError(f"{leaf} has no counterpart")
            return DTYPE_OF[leaf]
        return reference(leaf) if isinstance(leaf, fx.Node) else leaf

    keywords = {name: value for name, value in node.kwargs.items() if name not in IGNORED}
    return ImportedNode(
        operator=operator_name(node.target),
        operands=map_leaves(node.args, converted),
        keywords=map_leaves(keywords, converted),
        results=node.name,
        place=place_of_node(node),
    )
