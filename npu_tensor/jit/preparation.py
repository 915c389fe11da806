"""Selection of the values that a captured function computes once, and not in each call.

Candidates depend only on constants and on tensors from outside that the function does not write. A candidate that needs
no kernel of its own is left to its readers: a strided view, a number that fills a tensor, and a copy of a weight that
products pack.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from npu_tensor import ops
from npu_tensor.graph.nodes import Node
from npu_tensor.graph.structure import pending_ops
from npu_tensor.ops.declare import Call, Layout
from npu_tensor.spec import contiguous_strides

SMALL_BYTES: Final = 1 << 20
"""Upper bound on results that are prepared in any case, in bytes. Chosen, not measured: caches hold such results."""

LARGER_BYTES: Final = 64 << 20
"""Upper bound on the bytes of all results of a capture that are neither small nor at most as large as the tensors that
they are computed from. Chosen, not measured: it bounds the memory of a model that widens its weights in each call."""


def prepared_nodes(roots: Sequence[Node], varying: Collection[Any]) -> list[Node]:
    """Return the nodes to prepare, in the order of recording.

    A result is never prepared itself, nor is the value that it views: the caller may overwrite it. `varying` leaves may
    have another value in each call: arguments, written tensors and seeds.
    """
    pending = pending_ops(roots)
    sources = _sources(pending, varying)
    if not sources:
        return []
    needed, results, readers = {*roots}, _with_bases(roots, pending), _readers(pending)
    prepared: list[Node] = []
    remaining = LARGER_BYTES
    for node, inputs in reversed(pending.items()):
        if node not in needed and node in sources:
            continue
        if node in sources and node not in results and not _is_free(node, pending, readers):
            nbytes = node.spec.nbytes
            if nbytes <= max(SMALL_BYTES, sum(leaf.spec.nbytes for leaf in sources[node])):
                prepared.append(node)
                continue
            if nbytes <= remaining:
                remaining -= nbytes
                prepared.append(node)
                continue
        needed.update(each for each in inputs if isinstance(each, Node))
    return prepared[::-1]


def _sources(pending: Mapping[Node, tuple[Any, ...]], varying: Collection[Any]) -> dict[Node, frozenset[Node]]:
    """Return the nodes that do not depend on a varying leaf, each with the data that it is computed from."""
    sources: dict[Node, frozenset[Node]] = {}
    for node, inputs in pending.items():
        below: set[Node] = set()
        for operand in inputs:
            if operand in varying or (operand in pending and operand not in sources):
                break
            if isinstance(operand, Node):
                below |= sources.get(operand, {operand})
        else:
            sources[node] = frozenset(below)
    return sources


def _with_bases(roots: Sequence[Node], pending: Mapping[Node, tuple[Any, ...]]) -> set[Node]:
    """Return the results and the nodes that they view."""
    results: set[Node] = set()
    for node in roots:
        while node in pending and node not in results:
            results.add(node)
            if node.call is not None and node.call.op.kind == "view":
                node = pending[node][0]
    return results


def _readers(pending: Mapping[Node, tuple[Any, ...]]) -> dict[Node, list[Node]]:
    """Return the readers of each node that is read."""
    readers: dict[Node, list[Node]] = {}
    for node, inputs in pending.items():
        for operand in inputs:
            if isinstance(operand, Node):
                readers.setdefault(operand, []).append(node)
    return readers


def _is_free(node: Node, pending: Mapping[Node, tuple[Any, ...]], readers_of: Mapping[Node, Sequence[Node]]) -> bool:
    """Return True if the readers of a node compute it at no cost, or keep it in a layout of their own."""
    assert node.call is not None
    if node.call.op.kind != "view":
        return node.call.op is ops.fill.op
    if _is_strided(node, pending):
        return True
    readers = readers_of.get(node, ())
    return node.spec.nbytes > SMALL_BYTES and all(each.call and each.call.op.kind == "matmul" for each in readers)


def _is_strided(view: Node, pending: Mapping[Node, tuple[Any, ...]]) -> bool:
    """Return True if strides describe a view in the buffer that it views. Other views have to be copied."""
    calls: list[Call] = []
    node = view
    while node in pending and node.call is not None and node.call.op.kind == "view":
        calls.append(node.call)
        node = pending[node][0]
    if all(call.op is ops.reshape.op for call in calls):
        return True
    whole = Layout(node.spec.shape, contiguous_strides(node.spec.shape))
    layout: Layout | None = whole
    for call in reversed(calls):
        assert call.op.layout is not None
        layout = call.op.layout(layout or whole, call.spec.shape, call.attributes)
        whole = Layout(call.spec.shape, contiguous_strides(call.spec.shape))
    return layout is not None
