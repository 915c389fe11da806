"""Common subexpressions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npu_tensor.graph.nodes import operands

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["share_common"]


def share_common(graph: nx.DiGraph) -> dict[int, int]:
    """Merge ops that compute the same from the same operands; returns removed item -> kept item.

    Random ops have their seed as an operand, so equal operands mean equal results.
    """
    kept: dict[Any, int] = {}
    merged: dict[int, int] = {}
    for item in sorted(graph):
        call = graph.nodes[item].get("call")
        if call is None:
            continue
        key = (call, *(merged.get(source, source) for source in operands(graph, item)))
        twin = kept.setdefault(key, item)
        if twin != item:
            merged[item] = twin
    for item, twin in merged.items():
        for _, consumer, slots in list(graph.out_edges(item, data="slots")):
            if consumer not in merged:
                known = graph.edges[twin, consumer]["slots"] if graph.has_edge(twin, consumer) else ()
                graph.add_edge(twin, consumer, slots=(*known, *slots))
        graph.nodes[twin]["keep"] |= graph.nodes[item]["keep"]
        graph.remove_node(item)
    return merged
