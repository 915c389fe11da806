"""Structure of the graph below some nodes: a key, by which equal structures share a plan, and a graph of items."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypedDict

from npu_tensor._util.interrupts import import_whole
from npu_tensor.graph.nodes import PLACEHOLDER, Node, wait_until_written
from npu_tensor.ops.declare import Call
from npu_tensor.spec import Spec

if TYPE_CHECKING:
    import networkx as nx


class Structure(NamedTuple):
    """Graph below some nodes. Its items are the leaves, numbered in the order in which they are met, then the nodes.

    Attributes:
        key: Hashable; equal for equal structures. For one op on different operands it is the call.
        leaves: Data nodes and numbers.
        nodes: Nodes to compute in topological order.
        keep: Positions in `nodes` of the values that must exist afterwards.
    """

    key: Any
    leaves: list[Any]
    nodes: list[Node]
    keep: frozenset[int]

    @property
    def numbered(self) -> list[tuple[int, Node]]:
        """Nodes to compute, each with its item number."""
        return [*enumerate(self.nodes, len(self.leaves))]

    @property
    def operands(self) -> list[tuple[int, ...]]:
        """Items that each node reads."""
        leaf, first_node = 0, len(self.leaves)
        if isinstance(self.key, Call):
            return [(*range(first_node),)]
        operands: list[tuple[int, ...]] = []
        items: list[int] = []
        for entry in self.key[1:]:
            if isinstance(entry, Call):
                operands.append(tuple(items))
                items.clear()
            elif isinstance(entry, int):
                items.append(entry if entry >= 0 else first_node + ~entry)
            else:
                items.append(leaf)
                leaf += 1
        return operands

    def values(self) -> list[Any]:
        """Return the values of all items: those of the leaves, and None for the nodes."""
        values = [leaf.value if isinstance(leaf, Node) else leaf for leaf in self.leaves]
        return values + [None] * len(self.nodes)


_by_order = attrgetter("order")


def pending_ops(roots: Iterable[Node], computed: Container[Node] = ()) -> dict[Node, tuple[Any, ...]]:
    """Return all nodes that must be computed for `roots`, in the order of recording, each with its operands.

    Nodes in `computed` count as computed.
    """
    stack = [*roots]
    inputs_of: dict[Node, tuple[Any, ...]] = {}
    while stack:
        node = stack.pop()
        # Another thread may finish the node meanwhile. It sets the value before it drops the inputs, so inputs read
        # before the value are complete if there is no value.
        inputs = node.inputs
        if node.value is None and node not in inputs_of and node not in computed:
            if node.call is None:
                wait_until_written(node)
                continue
            inputs_of[node] = inputs
            for operand in inputs:
                if isinstance(operand, Node) and operand.value is None and operand not in inputs_of:
                    stack.append(operand)
    if len(inputs_of) < 2:
        return inputs_of
    ordered = sorted(inputs_of, key=_by_order)
    return dict(zip(ordered, map(inputs_of.__getitem__, ordered), strict=True))


def is_loss(roots: Sequence[Node]) -> bool:
    """Return True if only one number is wanted, such as a loss that is read before the gradients are computed."""
    return len(roots) == 1 and roots[0].spec.size == 1 and roots[0].spec.dtype.is_floating_point


def structure_of(
    roots: Sequence[Node],
    pending: dict[Node, tuple[Any, ...]] | None = None,
    only_roots: bool = False,
    for_gradients: bool = False,
) -> Structure:
    """Describe everything that must be computed for `roots`.

    The plan keeps the roots, intermediate results that a living tensor names, and nodes computed for the second time,
    because they have several readers. A view is kept through the value that it views, and gets that value if it shows
    all of it.

    Args:
        roots: Nodes whose values are wanted.
        pending: Result of `pending_ops` for the roots, if known.
        only_roots: True to keep nothing but the roots.
        for_gradients: True to keep results that a backward pass would compute again at a high cost.
    """
    inputs_of = pending_ops(roots) if pending is None else pending
    if len(inputs_of) == 1:
        ((node, inputs),) = inputs_of.items()
        if len({*inputs}) == len(inputs):  # The most frequent case does not need the tables below.
            return Structure(node.call, [*inputs], [node], _ONLY)
    # Leaves have an entry where they are met: the spec, or the type of a number. Repeated operands are items: those of
    # leaves count from 0, those of nodes from -1 downwards. The call follows its operands.
    key: list[Any] = []
    items: dict[Any, int] = {}
    leaves: list[Any] = []
    keep = set()
    for position, (node, inputs) in enumerate(inputs_of.items()):
        for operand in inputs:
            item = items.get(operand)  # Python numbers are never in the table.
            if item is not None:
                key.append(item)
            elif isinstance(operand, Node):
                items[operand] = len(leaves)
                leaves.append(operand)
                key.append(operand.spec)
            else:
                leaves.append(operand)
                key.append(type(operand))
        key.append(node.call)
        items[node] = ~position
        tensor = None if node.handle is None else node.handle()
        is_named = tensor is not None and tensor._current is node
        if not only_roots and (is_named or node.depth == 0 or (for_gradients and _is_costly_operand(node))):
            base, is_whole = _viewed(node, inputs_of)
            if base in inputs_of:
                keep.add(~items[base])
            if is_whole:
                keep.add(position)
    keep.update([~items[root] for root in roots if root in inputs_of])
    frozen = frozenset(keep)
    return Structure((frozen, *key), leaves, [*inputs_of], frozen)


_ONLY: Final = frozenset((0,))


def _is_costly_operand(node: Node) -> bool:
    """Return True if gradients pass through a node whose op takes longer than reading its result from memory."""
    assert node.call is not None
    op = node.call.op
    return node.history is not None and (op.kind in ("matmul", "conv") or (op.kind == "data" and op.computes))


def _viewed(node: Node, inputs_of: dict[Node, tuple[Any, ...]]) -> tuple[Node, bool]:
    """Return the base of a pending view, and True if the view has as many bytes and begins at the same place.

    Every other node is its own base.
    """
    is_whole = True
    while node in inputs_of and node.call is not None and node.call.op.kind == "view":
        viewed: Node = inputs_of[node][0]
        is_whole = is_whole and node.call.start == 0 and viewed.spec.nbytes == node.spec.nbytes
        node = viewed
    return node, is_whole


def depends_on_placeholder(node: Node) -> bool:
    """Return True if a value depends on an argument of a function that is being traced."""
    if node.value is not None:
        return node.value is PLACEHOLDER
    operands = (operand for inputs in pending_ops((node,)).values() for operand in inputs)
    return any(isinstance(operand, Node) and operand.value is PLACEHOLDER for operand in operands)


class Item(TypedDict, total=False):
    """Attributes of a node of the planned graph. Fusion adds its own, see `planner.fuse.lower.Lowered`."""

    spec: Spec | None
    """Shape and dtype; None for a Python number, whose type is in the calls of its readers."""
    call: Call
    """Op with its attributes. Leaves have neither this nor the attributes below."""
    inputs: tuple[int, ...]
    keep: bool


@dataclass(slots=True, eq=False)
class ItemGraph:
    """A graph of items. Importing networkx takes longer than planning a model, so planning does without it.

    Attributes:
        nodes: Attributes of the items, in topological order.
        twins: Kept items that were merged, each with the item that represents it.
    """

    nodes: dict[int, Any] = field(default_factory=dict)
    twins: dict[int, int] = field(default_factory=dict)

    @property
    def edges(self) -> list[tuple[int, int]]:
        """Operands and their readers, each pair once."""
        pairs = ((source, item) for item, each in self.nodes.items() for source in each.get("inputs", ()))
        return list(dict.fromkeys(pairs))

    def networkx(self) -> nx.DiGraph:
        """Return the graph as a networkx graph with edges from operands to readers."""
        import_whole("networkx")
        import networkx as nx

        graph = nx.DiGraph(twins=self.twins)
        graph.add_nodes_from(self.nodes.items())
        graph.add_edges_from(self.edges)
        return graph


def item_graph(structure: Structure, merge: bool = False) -> ItemGraph:
    """Return the structure as a graph with one node per item; see `Item`.

    Args:
        structure: The structure.
        merge: True to compute equal ops on equal operands once. Random ops have their seed as an operand, so equal
            operands mean equal results.
    """
    graph = ItemGraph({item: {"spec": getattr(leaf, "spec", None)} for item, leaf in enumerate(structure.leaves)})
    merged: dict[int, int] = {}
    first: dict[Any, int] = {}
    for position, (node, inputs) in enumerate(zip(structure.nodes, structure.operands, strict=True)):
        item, call, keep = len(structure.leaves) + position, node.call, position in structure.keep
        if merge:
            if merged:
                inputs = tuple([merged.get(source, source) for source in inputs])
            twin = first.setdefault((call, inputs), item)
            if twin != item:
                merged[item] = twin
                if keep:
                    graph.twins[item] = twin
                    graph.nodes[twin]["keep"] = True
                continue
        graph.nodes[item] = {"spec": node.spec, "call": call, "inputs": inputs, "keep": keep}
    return graph


def described_graph(structure: Structure) -> nx.DiGraph:
    """Return the structure as a networkx graph for users.

    Node attributes: `spec`, and for ops `call`, `op`, `ggml`, `attributes`, `line` and `keep`. Leaves have op "data",
    or "number" with spec None. The edge attribute `slots` lists the operand positions, so that x + x keeps both.
    """
    graph = item_graph(structure).networkx()
    for item, leaf in enumerate(structure.leaves):
        if isinstance(leaf, Node):
            graph.nodes[item].update(op="data", line=leaf.line)
        else:
            graph.nodes[item].update(op="number", number=type(leaf), line="")
    for (item, node), inputs in zip(structure.numbered, structure.operands, strict=True):
        call = node.call
        assert call is not None
        graph.nodes[item].update(op=call.op.name, ggml=call.op.ggml, attributes=call.attributes, line=node.line)
        for source in inputs:
            graph.edges[source, item]["slots"] = tuple(slot for slot, each in enumerate(inputs) if each == source)
    return graph
