"""What was asked: nodes owned by the tensors that refer to them, and their structure as a key and as a networkx graph.

Recording only creates `Node`s. `capture` walks from the wanted ones to data and describes the structure met on the
way; equal structures share one plan, whatever their data.
"""

from __future__ import annotations

import linecache
import os
import sys
import weakref
from collections.abc import Container, Iterable, Sequence
from functools import lru_cache
from itertools import count
from operator import attrgetter
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from npu_tensor._util.interrupts import import_whole
from npu_tensor._util.user_warnings import user_line
from npu_tensor.errors import CaptureError, reworded
from npu_tensor.ops.declare import Call
from npu_tensor.spec import Spec

if TYPE_CHECKING:
    import networkx as nx

__all__ = [
    "PLACEHOLDER",
    "Capture",
    "Data",
    "Node",
    "Watch",
    "capture",
    "current_order",
    "depends_on_placeholder",
    "digraph",
    "located",
    "no_value_yet",
    "operands",
    "outside_change",
    "recorded_for",
    "source_line",
    "source_text",
    "watches",
]

E = TypeVar("E", bound=Exception)


def no_value_yet() -> CaptureError:
    """The error of asking for a value that depends on an argument of a function while it is captured."""
    return CaptureError(
        f"only the structure of the function is captured; there are no values yet{_at(user_line(sys._getframe()))}. "
        "Use npu_tensor.where in place of a branch on a value, and read values outside the function"
    )


def _at(where: tuple[CodeType, int] | None) -> str:
    return f", at {source_line(*where)}: {source_text(*where)}" if where else ""


class _Placeholder:
    """The value of an argument while `jit` captures a function: there is none yet."""

    @property
    def address(self) -> int:
        """There is no memory either; whoever would run a kernel on it gets a CaptureError."""
        raise no_value_yet()

    def __repr__(self) -> str:
        return "PLACEHOLDER"


PLACEHOLDER = _Placeholder()

_next_order = count().__next__


def current_order() -> int:
    """A number between those of the nodes that exist and those to come."""
    return _next_order()


class Node:
    """One recorded value. Immutable but for `value`, which execution fills in and which then replaces `inputs`.

    call: what to compute, None for data. inputs: Nodes and Python numbers. value: the buffer once there is one.
    depth: longest chain of ops still to run; 0 if the value has been computed, whether it was kept or not. order:
    creation number, a topological order. where: code object and instruction offset of the recording line. handle: weak
    reference to the Tensor, if it still lives.
    """

    __slots__ = ("call", "depth", "handle", "inputs", "order", "spec", "value", "where")

    def __init__(
        self,
        call: Call | None,
        inputs: tuple[Any, ...],
        spec: Spec,
        depth: int,
        where: tuple[CodeType, int] | None,
        value: Any = None,
    ) -> None:
        self.call = call
        self.inputs = inputs
        self.spec = spec
        self.depth = depth
        self.where = where
        self.value = value
        self.order = _next_order()
        self.handle: weakref.ref[Any] | None = None

    def __repr__(self) -> str:
        return f"<Node {self.order} {self.call or 'data'} {self.spec}>"

    @property
    def tensor(self) -> Any:
        """The living Tensor that still names this node, or None. Other threads may let go of it at any time."""
        reference = self.handle
        tensor = None if reference is None else reference()
        return tensor if tensor is not None and tensor._node is self else None

    @property
    def line(self) -> str:
        """The recording line as "file.py:12", or "" for data."""
        if self.where is None:
            return ""
        return source_line(*self.where)

    @property
    def source(self) -> str:
        """Text of the recording line, where the file can still be read."""
        if self.where is None:
            return ""
        return source_text(*self.where)


class Data(Node):
    """A node that has its value from the start. What never varies is on the class, which makes it cheap to create."""

    __slots__ = ()
    call = None
    inputs = ()
    depth = 0
    where = None
    order = -1  # older than every op

    def __init__(self, spec: Spec, value: Any) -> None:
        self.spec = spec
        self.value = value
        self.handle = None


class Watch:
    """What a function does while `jit` captures it, so that a change of a handle from outside is refused.

    before: order number at the start. made: data nodes that the function created. changes: the lines, as code object
    and offset, that tried to change a handle from outside.
    """

    __slots__ = ("_outside", "before", "changes", "made")

    def __init__(self) -> None:
        self.before = current_order()
        self.made: set[Node] = set()
        self.changes: list[tuple[CodeType, int] | None] = []
        self._outside: set[Node] = set()

    def is_outside(self, node: Node) -> bool:
        """Whether the node existed before the function was called, or derives the value of a handle that did."""
        return (node.order < self.before and node not in self.made) or node in self._outside

    def outside_since(self, order: int, node: Node) -> None:
        """Count a node, and what it is made of that was recorded since `order`, as older than the function."""
        stack = [node]
        while stack:
            node = stack.pop()
            if node.order > order and node not in self._outside:
                self._outside.add(node)
                stack += [operand for operand in node.inputs if isinstance(operand, Node)]

    def refuse(self, where: tuple[CodeType, int] | None) -> CaptureError:
        """The error of changing a handle from outside. The capture fails also if the function catches it."""
        self.changes.append(where)
        return outside_change(where)


def outside_change(where: tuple[CodeType, int] | None) -> CaptureError:
    """The error of a captured function that changes a handle from outside on a line."""
    return CaptureError(
        f"jit cannot replay a change of a tensor outside the function, or of an argument{_at(where)}. "
        "Return the new value instead"
    )


watches: dict[int, Watch] = {}
"""By thread identifier, the function that is being captured there. Empty nearly always, which is cheap to test."""


def source_line(code: CodeType, offset: int) -> str:
    """Where an instruction stands, as "file.py:12", or "In[3]:12" in a cell of a notebook."""
    return f"{_file_name(code.co_filename)}:{_line_number(code, offset)}"


def _file_name(path: str) -> str:
    """The last part of a path. The file of a cell has a number for a name, and IPython knows which cell it is."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    cell = shell.compile.format_code_name(path) if shell is not None else None
    return cell[1] if cell else os.path.basename(path)


def source_text(code: CodeType, offset: int) -> str:
    """The text of an instruction's line, where the file can still be read."""
    return linecache.getline(code.co_filename, _line_number(code, offset)).strip()


def located(error: E, text: str, where: tuple[CodeType, int] | str | None) -> E:
    """The same error with another text that ends in the recording line; an error that has it keeps it."""
    line = source_line(*where) if isinstance(where, tuple) else where
    if not line:
        return reworded(error, text)
    said = reworded(error, f"{text} (recorded at {line})")
    said.recorded_at = line  # type: ignore[attr-defined]  # also of TypeError and the like
    return said


@lru_cache(maxsize=4096)  # A loop records the ops of its lines again and again.
def _line_number(code: CodeType, offset: int) -> int:
    for start, end, line in code.co_lines():
        if start <= offset < end and line is not None:
            return line
    return code.co_firstlineno


class Capture(NamedTuple):
    """The structure below some nodes.

    signature: hashable; equal for equal structures. nodes: to be computed, in topological order, each with its item
    number. leaves: data nodes and numbers in the order in which the signature meets them, each with its item number.
    keep: items whose value must exist afterwards. inputs_of: the operands of each node at the time of the capture.
    """

    signature: tuple[Any, ...]
    nodes: list[tuple[int, Node]]
    leaves: list[tuple[int, Any]]
    keep: frozenset[int]
    inputs_of: dict[Node, tuple[Any, ...]]


_by_order = attrgetter("order")


def recorded_for(roots: Iterable[Node], given: Container[Node] = ()) -> dict[Node, tuple[Any, ...]]:
    """Everything that must be computed for `roots`, in the order of recording, with the operands of each.

    given: nodes that count as computed.
    """
    stack = [*roots]
    inputs_of: dict[Node, tuple[Any, ...]] = {}
    while stack:
        node = stack.pop()
        # Another thread may finish the node meanwhile. It sets the value before it drops the inputs, so inputs that
        # are read before the value are whole if there is no value.
        inputs = node.inputs
        if node.value is None and node not in inputs_of and node not in given:
            inputs_of[node] = inputs
            for operand in inputs:
                if isinstance(operand, Node) and operand.value is None and operand not in inputs_of:
                    stack.append(operand)
    return {node: inputs_of[node] for node in sorted(inputs_of, key=_by_order)}


def capture(roots: Sequence[Node], recorded: dict[Node, tuple[Any, ...]] | None = None) -> Capture:
    """Describe everything that must be computed for `roots`.

    Items (leaves and nodes) are numbered as they are met. `keep` holds the items whose value must exist afterwards:
    the roots, every intermediate result that a living Tensor names, and what is computed for the second time, since
    there is more than one who needs it. A view is kept through what it views.
    recorded: what `recorded_for` says of the roots, where that is known.
    """
    inputs_of = recorded_for(roots) if recorded is None else recorded
    signature: list[Any] = []
    numbers: dict[Node, int] = {}
    nodes: list[tuple[int, Node]] = []
    leaves: list[tuple[int, Any]] = []
    keep = set()
    next_item = 0
    for node in inputs_of:
        references = []
        for operand in inputs_of[node]:
            if not isinstance(operand, Node):
                signature.append(type(operand))
                leaves.append((next_item, operand))
                references.append(next_item)
                next_item += 1
                continue
            item = numbers.get(operand)
            if item is None:
                signature.append(operand.spec)
                leaves.append((next_item, operand))
                item = numbers[operand] = next_item
                next_item += 1
            references.append(item)
        call = node.call
        assert call is not None
        signature.append(call)
        signature.extend(references)
        nodes.append((next_item, node))
        numbers[node] = next_item
        if node.depth == 0 or node.tensor is not None:
            kept = next_item
            while node in inputs_of and node.call is not None and node.call.op.kind == "view":
                node = inputs_of[node][0]
                kept = numbers[node]
            if node in inputs_of:
                keep.add(kept)
        next_item += 1
    keep.update(numbers[root] for root in roots if root in inputs_of)
    frozen = frozenset(keep)
    return Capture((frozen, *signature), nodes, leaves, frozen, inputs_of)


def depends_on_placeholder(node: Node) -> bool:
    """Whether there is no value yet because an argument of a function that is being captured has none."""
    if node.value is not None:
        return node.value is PLACEHOLDER
    operands = (operand for inputs in recorded_for((node,)).values() for operand in inputs)
    return any(isinstance(operand, Node) and operand.value is PLACEHOLDER for operand in operands)


def digraph(found: Capture) -> nx.DiGraph:
    """The captured structure as a networkx graph with one node per item.

    Node attributes: `spec`, and for ops `call`, `op`, `ggml`, `attributes`, `line` and `keep`. Leaves have op "data",
    or "number" with spec None. The edge attribute `slots` lists the operand positions, so that x + x keeps both.
    """
    import_whole("networkx")
    import networkx as nx

    graph = nx.DiGraph()
    numbers: dict[Node, int] = {}
    for item, leaf in found.leaves:
        if isinstance(leaf, Node):
            numbers[leaf] = item
            graph.add_node(item, op="data", spec=leaf.spec, line=leaf.line)
        else:
            graph.add_node(item, op="number", spec=None, number=type(leaf), line="")
    number_items = iter([item for item, leaf in found.leaves if not isinstance(leaf, Node)])
    for item, node in found.nodes:
        numbers[node] = item
        call = node.call
        assert call is not None
        graph.add_node(
            item,
            op=call.op.name,
            ggml=call.op.ggml,
            attributes=call.attributes,
            spec=node.spec,
            line=node.line,
            call=call,
            keep=item in found.keep,
        )
        for slot, operand in enumerate(found.inputs_of[node]):
            source = numbers[operand] if isinstance(operand, Node) else next(number_items)
            slots = graph.edges[source, item]["slots"] if graph.has_edge(source, item) else ()
            graph.add_edge(source, item, slots=(*slots, slot))
    return graph


def operands(graph: nx.DiGraph, item: int) -> Sequence[int]:
    """The items that feed `item`, in operand order."""
    found = {slot: source for source, edge in graph.pred[item].items() for slot in edge["slots"]}
    return [found[slot] for slot in sorted(found)]
