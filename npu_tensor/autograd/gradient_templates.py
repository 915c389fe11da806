"""Templates: gradients of a graph that were recorded once are recorded again without running the rules of its ops.

A training loop calls `backward()` on a graph of the same structure in every step. The rules depend on the structure
alone, so the first call records them for stand-ins without values and keeps the calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from npu_tensor._util.cache_sizes import TEMPLATES
from npu_tensor._util.forks import new_lock
from npu_tensor.graph.history import Reached
from npu_tensor.graph.nodes import PLACEHOLDER, Data, Node
from npu_tensor.graph.templates import Template, template_of
from npu_tensor.tensor import Tensor, handle_on

Gradients = Callable[[Sequence[Tensor], Sequence[Tensor], Sequence[Node], Reached], list[Tensor]]


_templates: dict[Any, Template] = {}
_lock = new_lock()


def recorded_again(
    gradients_of: Gradients,
    output: Node,
    gradient: Node,
    targets: Sequence[Node],
    through: Reached,
    where: tuple[CodeType, int] | None,
) -> list[Node]:
    """Record the gradients of targets with the template of the structure, which is made at the first call.

    `gradients_of` records gradients by the rules of the ops; `through` has the nodes between targets and output. Errors
    of the ops name the line `where`.
    """
    wanted = set(targets)
    key: list[Any] = [output.spec, gradient.spec]
    graph: list[Any] = [gradient]
    numbers: dict[Node, int] = {gradient: 0}
    wiring: list[tuple[int, ...]] = []  # inputs of each node of `through`, as positions in `graph`
    for node, inputs in through.items():
        places = []
        for operand in inputs:
            # Equal numbers may have different types, and nan differs from itself.
            place = numbers.get(operand) if isinstance(operand, Node) else None
            if place is None:
                place = len(graph)
                graph.append(operand)
                if isinstance(operand, Node):
                    numbers[operand] = place
                    key.append(operand.spec)
                else:
                    key.append(repr(operand))
            places.append(place)
        key += (None, node.spec) if node in wanted else (node.call, *places)
        wiring.append(tuple(places))
        numbers[node] = len(graph)
        graph.append(node)
    structure = tuple(key)
    template = _templates.get(structure)
    if template is None:
        template = _new_template(gradients_of, output, targets, through, graph, numbers, wiring)
        with _lock:
            while len(_templates) >= TEMPLATES:
                _templates.pop(next(iter(_templates)))
            _templates[structure] = template
    return template.record(graph, where)


def _new_template(
    gradients_of: Gradients,
    output: Node,
    targets: Sequence[Node],
    through: Reached,
    graph: Sequence[Any],
    numbers: dict[Node, int],
    wiring: Sequence[tuple[int, ...]],
) -> Template:
    """Record gradients for stand-ins of the nodes of a graph, and keep the calls."""
    stand_ins = [Data(each.spec, PLACEHOLDER) if isinstance(each, Node) else each for each in graph]
    reached: Reached = {}
    for node, places in zip(through, wiring, strict=True):
        inputs = tuple([stand_ins[place] for place in places])
        stand_in = Node(node.call, inputs, node.spec, 0, node.where)
        stand_ins[numbers[node]] = stand_in
        reached[stand_in] = inputs
    wanted = [stand_ins[numbers[target]] for target in targets]
    seed = handle_on(stand_ins[0])
    results = [each._node for each in gradients_of([handle_on(stand_ins[numbers[output]])], [seed], wanted, reached)]
    return template_of(stand_ins, results)
