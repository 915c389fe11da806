"""Views: whoever reads one reads what it views, at other positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from npu_tensor.graph.nodes import operands
from npu_tensor.ops.declare import Call, Layout
from npu_tensor.planner.fuse.layouts import full_layout, same_positions
from npu_tensor.spec import Spec

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["Views"]


class Views:
    """The ops of a graph and where each finds its operands. The graph is not changed.

    specs: of all items, None for numbers. calls: of the ops. inputs: their operands, as they were recorded. copied:
    views that have memory of their own, and what they are copied from. aliases: views that share the memory of an item.
    """

    def __init__(self, graph: nx.DiGraph) -> None:
        self.specs: dict[int, Spec] = dict(graph.nodes(data="spec"))
        self.calls: dict[int, Call] = {item: call for item, call in sorted(graph.nodes(data="call")) if call}
        self.inputs = {item: operands(graph, item) for item in self.calls}
        self.copied: dict[int, tuple[int, Layout]] = {}
        self.aliases: dict[int, int] = {}
        self._sources: dict[int, tuple[int, Layout]] = {}
        for item, call in self.calls.items():
            if call.op.kind == "view":
                self._follow(item, graph.nodes[item]["keep"])

    def source(self, item: int) -> tuple[int, Layout | None]:
        """The item whose buffer holds this one's elements, and where they lie; no layout for a number."""
        if item in self._sources:
            return self._sources[item]
        spec = self.specs[item]
        return item, None if spec is None else full_layout(spec.shape)

    def viewed(self, layout: Layout, root: int, view: int) -> Layout | None:
        """What lies over `root`, over a view of it; None if that has no strides."""
        views = [view]
        while views[-1] != root:
            views.append(self.inputs[views[-1]][0])
        found: Layout | None = layout
        for call in (self.calls[each] for each in reversed(views[:-1])):
            assert call.op.layout is not None
            found = None if found is None else call.op.layout(found, call.spec.shape, call.attributes)
        return found

    def _follow(self, item: int, keep: bool) -> None:
        """Fold a view into whoever reads it, or mark it, or what it views, to be copied."""
        call = self.calls[item]
        found = self._base(item)
        if found is None:
            operand = self.inputs[item][0]
            self.copied[operand] = self._sources.pop(operand)
            found = self._base(item)
            assert found is not None
        base, layout = found
        whole = same_positions(layout, full_layout(call.spec.shape)) and call.spec.size == self.specs[base].size
        if not keep or whole:
            self._sources[item] = found
            if keep:
                self.aliases[item] = base
        else:
            self.copied[item] = found

    def _base(self, item: int) -> tuple[int, Layout] | None:
        call = self.calls[item]
        base, layout = self.source(self.inputs[item][0])
        assert call.op.layout is not None
        assert layout is not None
        found = call.op.layout(layout, call.spec.shape, call.attributes)
        return None if found is None else (base, found)
