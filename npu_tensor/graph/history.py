"""The inputs of nodes that are computed, for who needs the graph afterwards: gradients."""

from __future__ import annotations

from typing import Any, Final

from npu_tensor.graph.nodes import Node

__all__ = ["histories"]

histories: Final[list[dict[Node, tuple[Any, ...]]]] = []
"""Each gets the inputs of every node that is computed. Empty nearly always, which is cheap to test."""
