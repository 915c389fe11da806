"""Structures that come again: each is known by a function, written as Python source, which needs no key.

A loop, or a model that is called again, records one structure many times. To walk it and to make its key takes 0.8 us
per op; the function compares the calls one after the other, in a quarter of that, and collects the values on its way.
For relu(x * y), of whose results only the last is kept, it does this:

    def repeat(n3, wait):
        inputs = n3.inputs
        if n3.call is not call3 or n3.value is not None or is_named(n3) is not True: return False
        n2, = inputs
        inputs = n2.inputs
        if n2.call is not call2 or n2.value is not None or is_named(n2) is not False: return False
        n0, n1, = inputs
        v0 = n0.value; v1 = n1.value
        if v0 is None or v1 is None: return False
        values = [v0, v1, None, None]
        run(values, ((2, n2), (3, n3)), wait)
        n3.value = values[3]; n3.inputs = ()
        n2.depth = n3.depth = 0
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
    calls = {f"call{item}": node.call for item, node in structure.nodes}
    namespace: dict[str, Any] = {"PLACEHOLDER": PLACEHOLDER, **calls}
    leaves = {item for item, _ in structure.leaves}
    values = ", ".join(f"v{item}" if item in leaves else "None" for item in range(plan.size))
    ops = "".join(f"({item}, n{item}), " for item, _ in structure.nodes)
    lines = [
        *_matching(structure, by_place),
        f"values = [{values}]",
        *run_lines(plan, f"({ops})", "wait", namespace),
        *_results(structure),
        "return True",
    ]
    source = f"def repeat(n{structure.nodes[-1][0]}, wait):\n    " + "\n    ".join(lines)
    exec(compile(source, "<npu_tensor.planner.repeats>", "exec"), namespace)
    repeat: Repeat = namespace["repeat"]
    return repeat


def _matching(structure: Structure, by_place: bool) -> Iterator[str]:
    """Return False unless the node has the structure. Names all nodes and the values of all leaves.

    The call of a node says what its operands are: specs, or types of numbers. Another thread may finish a node
    meanwhile; it sets the value before it drops the inputs, so these are read first.
    """
    leaves = dict(structure.leaves)
    bound = {structure.nodes[-1][0]}
    described = [*zip(structure.nodes, structure.operands, structure.named, strict=True)]
    for (item, _), operands, named in reversed(described):
        yield f"inputs = n{item}.inputs"
        yield f"if n{item}.call is not call{item} or n{item}.value is not None: return False"
        # As `Node.tensor`, in a third of its time.
        tensor = f"(handle := n{item}.handle) is not None and (t := handle()) is not None and t._node is n{item}"
        yield f"if {f'n{item}.depth and not ({tensor})' if named else f'not n{item}.depth or ({tensor})'}: return False"
        if not operands:
            continue
        names = []
        checks = []
        for slot, operand in enumerate(operands):
            first = operand not in bound
            names.append(f"n{operand}" if first else f"again{slot}")
            bound.add(operand)
            if not first:
                checks.append(f"if again{slot} is not n{operand}: return False")
            elif isinstance(leaves.get(operand), Node):
                checks.append(f"v{operand} = n{operand}.value")
                elsewhere = f" or v{operand}.home is not None" if by_place else ""
                checks.append(f"if v{operand} is None or v{operand} is PLACEHOLDER{elsewhere}: return False")
            elif operand in leaves:
                checks.append(f"v{operand} = n{operand}")
        yield f"{', '.join(names)}, = inputs"
        yield from checks


def _results(structure: Structure) -> Iterator[str]:
    """Enter what was computed into the nodes."""
    for item, _ in structure.nodes:
        if item in structure.keep:
            yield f"if (value := values[{item}]) is not None: n{item}.value = value; n{item}.inputs = ()"
        yield f"n{item}.depth = 0"
