"""PyTorch's `backward` to the leaves of a graph, recorded by templates.

A training loop calls it on a graph of the same structure in every step. The rules of the ops depend on the structure
alone, so the first call records their gradients for stand-ins without values and keeps the calls.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence
from types import CodeType
from typing import Any

from npu_tensor import ops
from npu_tensor._util.cache_sizes import TEMPLATES
from npu_tensor._util.forks import new_lock
from npu_tensor._util.user_warnings import user_line
from npu_tensor.autograd.transforms import gradients_of, require_like
from npu_tensor.config import config
from npu_tensor.errors import GradientError
from npu_tensor.graph.history import FREED, GradMode, Leaf, Reached, leaf_of, reached, retained
from npu_tensor.graph.nodes import PLACEHOLDER, Data, Node
from npu_tensor.graph.templates import Template, template_of
from npu_tensor.graph.tracing import current_watch, watches
from npu_tensor.tensor import Tensor, handle_on, recorded_result

_templates: dict[Any, Template] = {}
_lock = new_lock()


def backward(output: Tensor, gradient: Tensor | None = None, retain_graph: bool = False) -> None:
    """Add gradients to the leaves of a tensor; see `Tensor.backward`."""
    node = output._node
    if node.history is None:
        raise GradientError(f"{node.spec} does not require a gradient: nothing it was computed from does")
    if gradient is None:
        if node.spec.size != 1:
            raise GradientError(f"backward of {node.spec}, which is not a single element, needs the argument gradient")
        gradient = ops.fill(1, output.shape, output.dtype)
    require_like("backward", output, gradient)
    through = reached([node])
    kept = {each._current: each._leaf for ref in retained.valuerefs() if (each := ref()) is not None}
    targets = [each for each in through if leaf_of(each) is not None or each in kept]
    with GradMode(False):
        if watches or config.eager:  # An op must record the tensors that it reads, or run at once.
            gradients = gradients_of([output], [gradient], targets, through)
        else:
            where = user_line(sys._getframe(1))
            nodes = _recorded_again(node, gradient._node, targets, through, where)
            gradients = [recorded_result(each) for each in nodes]
        for target, computed in zip(targets, gradients, strict=True):
            leaf = leaf_of(target)
            if leaf is None:
                _add(kept[target], computed)
            elif not leaf.is_frozen:
                _add(leaf, computed)
                if not watches:  # The loss of a captured function has no value.
                    leaf.loss = weakref.ref(output)
    if not retain_graph:
        for each in through:
            if leaf_of(each) is None:
                each.history = FREED


def _add(leaf: Leaf, gradient: Tensor) -> None:
    if leaf.gradient is not None:
        leaf.gradient._assign(leaf.gradient + gradient)
        return
    if (watch := current_watch()) is not None and not watch.has_made_leaf(leaf):
        watch.gradients.setdefault(leaf, (None, True))
    leaf.gradient = gradient


def _recorded_again(
    output: Node,
    gradient: Node,
    targets: Sequence[Node],
    through: Reached,
    where: tuple[CodeType, int] | None,
) -> list[Node]:
    """Record the gradients of targets with the template of the structure, which is made at the first call.

    `through` has the nodes between targets and output. Errors of the ops name the line `where`.
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
        key += (None, node.call if inputs else node.spec, *places) if node in wanted else (node.call, *places)
        wiring.append(tuple(places))
        numbers[node] = len(graph)
        graph.append(node)
    structure = tuple(key)
    template = _templates.get(structure)
    if template is None:
        template = _new_template(output, targets, through, graph, numbers, wiring)
        with _lock:
            while len(_templates) >= TEMPLATES:
                _templates.pop(next(iter(_templates)))
            _templates[structure] = template
    return template.record(graph, where)


def _new_template(
    output: Node,
    targets: Sequence[Node],
    through: Reached,
    graph: Sequence[Any],
    numbers: dict[Node, int],
    wiring: Sequence[tuple[int, ...]],
) -> Template:
    """Record gradients for stand-ins of the nodes of a graph, and keep the calls."""
    stand_ins = [Data(each.spec, PLACEHOLDER) if isinstance(each, Node) else each for each in graph]
    connected: Reached = {}
    for node, places in zip(through, wiring, strict=True):
        inputs = tuple([stand_ins[place] for place in places])
        stand_in = Node(node.call, inputs, node.spec, 0, node.where)
        stand_ins[numbers[node]] = stand_in
        connected[stand_in] = inputs
    wanted = [stand_ins[numbers[target]] for target in targets]
    seed = handle_on(stand_ins[0])
    results = [each._node for each in gradients_of([handle_on(stand_ins[numbers[output]])], [seed], wanted, connected)]
    return template_of(stand_ins, results)
