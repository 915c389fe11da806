"""Structures that come again: each is known by a function, written as Python source, which needs no key.

A loop, or a model that is called again, records one structure many times. To walk it and to make its key takes 0.8 us
per op; the function compares the calls one after the other, in a quarter of that, and collects the values on its way.
For relu(x * y), of whose results only the last is kept, it does this, but that `is_named` is written out:

    def repeat(n3, wait):
        try:
            n2, = n3.inputs
            if n3.call is not call3 or n3.value is not None or not is_named(n3): return False
            n0, n1, = n2.inputs
            if n2.call is not call2 or n2.value is not None or is_named(n2): return False
        except ValueError: return False
        values = [n0.value, n1.value, None, None]
        if None in values[:2]: return False
        nodes = n2, n3
        run(values, [*zip(items, nodes)], wait)
        n3.value = values[3]; n3.inputs = ()
        for node in nodes: node.depth = 0
        return True
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from npu_tensor.graph.nodes import PLACEHOLDER, Node
from npu_tensor.graph.structure import Structure
from npu_tensor.planner.plan import Plan, run_lines

__all__ = ["Repeat", "compile_repeat"]

Repeat = Callable[[Node, bool], bool]
"""Runs a plan for a node and all that it needs, if that has a certain structure, else returns False. It takes whether
to wait, see `Plan.run`."""


def compile_repeat(structure: Structure, plan: Plan, by_place: bool) -> Repeat:
    """The function for the structure of one result. by_place: the plan is for values that no device holds.

    Operands that are distinct in the structure may be one: that has another key, but the plan serves it too.
    """
    items = [item for item, _ in structure.nodes]
    namespace: dict[str, Any] = {f"call{item}": node.call for item, node in structure.nodes}
    namespace.update(PLACEHOLDER=PLACEHOLDER, items=items)
    data = [item for item, leaf in structure.leaves if isinstance(leaf, Node)]
    values = ["None"] * plan.size
    for item, leaf in structure.leaves:
        values[item] = f"n{item}.value" if isinstance(leaf, Node) else f"n{item}"
    wrong = "value is None or value is PLACEHOLDER" + (" or value.home is not None" if by_place else "")
    lines = [
        "try:",
        *(f"    {line}" for line in _matching(structure)),
        "except ValueError: return False",
        f"values = [{', '.join(values)}]",
        f"for item in {data}:",
        "    value = values[item]",
        f"    if {wrong}: return False",
        f"nodes = {''.join(f'n{item}, ' for item in items)}",
        *run_lines(plan, "[*zip(items, nodes)]", "wait", namespace),
        *(f"n{item}.value = values[{item}]; n{item}.inputs = ()" for item in items if item in structure.keep),
        "for node in nodes: node.depth = 0",
        "return True",
    ]
    source = f"def repeat(n{items[-1]}, wait):\n    " + "\n    ".join(lines)
    exec(compile(source, "<npu_tensor.planner.repeats>", "exec"), namespace)
    repeat: Repeat = namespace["repeat"]
    return repeat


def _matching(structure: Structure) -> Iterator[str]:
    """Return False unless the node has the structure. Names all nodes, leaves and numbers.

    The call of a node says what its operands are: specs, or types of numbers. Another thread may finish a node
    meanwhile; it sets the value before it drops the inputs, so these are read first. None are too few: a ValueError.
    """
    bound = {structure.nodes[-1][0]}
    described = [*zip(structure.nodes, structure.operands, structure.named, strict=True)]
    for (item, _), operands, named in reversed(described):
        node = f"n{item}"
        names, again = [], []
        for slot, operand in enumerate(operands):
            if operand in bound:
                again.append(f"if again{slot} is not n{operand}: return False")
            names.append(f"again{slot}, " if operand in bound else f"n{operand}, ")
            bound.add(operand)
        if operands:
            yield f"{''.join(names)}= {node}.inputs"
        # As `Node.tensor`, in a third of its time.
        names_it = f"(tensor := handle()) is not None and tensor._node is {node}"
        tensor = f"(handle := {node}.handle) is not None and {names_it}"
        other = f"{node}.depth and not ({tensor})" if named else f"not {node}.depth or {tensor}"
        yield f"if {node}.call is not call{item} or {node}.value is not None or {other}: return False"
        yield from again
