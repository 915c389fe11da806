"""The function that repeats what was captured, written as Python source for each signature."""

from __future__ import annotations

import functools
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

from npu_tensor.dtypes import float32
from npu_tensor.errors import CaptureError
from npu_tensor.graph.history import leaf_node, leaf_of, leaves
from npu_tensor.graph.nodes import Data, Node
from npu_tensor.jit.trace import Derived, Result, Trace
from npu_tensor.jit.trees import rebuild
from npu_tensor.planner.plan import run_lines
from npu_tensor.planner.run import realize as realize_nodes
from npu_tensor.spec import Spec
from npu_tensor.tensor import Tensor, named, rename, views_of

__all__ = ["MISS", "Replay", "compile_replay", "miss"]

FILE_NAME = "<npu_tensor.jit replay>"

Replay = Callable[[tuple[Tensor, ...]], Any]


MISS = object()
"""What a replay returns for tensors of another signature."""


def miss(tensors: tuple[Tensor, ...]) -> Any:
    return MISS


def compile_replay(trace: Trace) -> Replay:
    """The function that fills in the values, runs the plan and wraps the results, without loops or look-ups."""
    namespace: dict[str, Any] = {
        "MISS": MISS,
        "Data": Data,
        "Tensor": Tensor,
        "new": Tensor.__new__,
        "new_data": Data.__new__,
        "ref": weakref.ref,
        "recorded": trace.recorded,
        "realize": realize_nodes,
        "views_of": views_of,
        "build": functools.partial(rebuild, trace.result),
    }
    lines = ["def replay(tensors):", *_signature_lines(trace, namespace)]
    for number, update in enumerate(trace.updates):
        if update.from_none:
            namespace.update({f"leaf{number}": update.target, "unexpected": _unexpected_gradient})
            lines.append(f"    if leaf{number}.gradient is not None: raise unexpected()")
    if trace.plan is not None:
        lines += _value_lines(trace, namespace)
        lines += [f"    {line}" for line in run_lines(trace.plan, "recorded", "True", namespace)]
    lines += _update_lines(trace, namespace)
    lines += _result_lines(trace, namespace)
    exec(compile("\n".join(lines), FILE_NAME, "exec"), namespace)
    return cast(Replay, namespace["replay"])


def _signature_lines(trace: Trace, namespace: dict[str, Any]) -> Iterator[str]:
    """Return MISS unless the arguments have the specs that were captured."""
    yield f"    if len(tensors) != {len(trace.specs)}: return MISS"
    for number, spec in enumerate(trace.specs):
        namespace[f"argument_spec{number}"] = spec
        yield f"    node{number} = tensors[{number}]._node"
        yield f"    if node{number}.spec is not argument_spec{number}: return MISS"


def _value_lines(trace: Trace, namespace: dict[str, Any]) -> Iterator[str]:
    """The list of values: constants, and what arguments and tensors from outside hold."""
    names = [f"constant{item}" for item in range(len(trace.template))]
    namespace.update(zip(names, trace.template, strict=True))
    for item, number in trace.arguments:
        names[item] = f"value{item}"
        yield from _computed(names[item], f"node{number}")
    replaced = dict(trace.replaced)
    for item, tensor in trace.outside:
        names[item] = f"value{item}"
        if item in replaced:
            namespace["overwritable"] = overwritable
            yield f"    value{item} = overwritable({_handle(tensor, f'outside{item}', namespace)})"
            continue
        # Another thread may let the handle name another node at any time, so it is asked once.
        yield f"    node = {_handle(tensor, f'outside{item}', namespace)}._node"
        yield from _computed(names[item], "node")
    yield f"    values = [{', '.join(names)}]"


def overwritable(tensor: Tensor) -> Any:
    """The value of a tensor that is to be written over; the tensor names a copy of it if anything else may read it."""
    node = tensor._node
    if node.value is None:
        realize_nodes((node,))
    value = node.value
    is_alone = sys.getrefcount(node) <= _ALONE and sys.getrefcount(value) <= _ALONE
    if not is_alone or not value.is_overwritable:
        value = value.copy()
        leaf, copied = leaf_of(node), Data(node.spec, value)
        tensor._name(copied if leaf is None else leaf_node(copied, leaf))
    return value


def _references_of_one_owner() -> int:
    """What `sys.getrefcount` says of an object in a local variable with one other owner, which depends on Python."""
    owner = Data(Spec.of((), float32), [])
    value = owner.value
    return sys.getrefcount(value)


_ALONE: Final = _references_of_one_owner()


def _handle(tensor: Tensor, name: str, namespace: dict[str, Any]) -> str:
    """An expression for a tensor from outside. The `grad` of a leaf may be another one at each call."""
    leaf = next((leaf for leaf in leaves() if leaf.gradient is tensor), None)
    namespace[name] = tensor if leaf is None else leaf
    return name if leaf is None else f"{name}.gradient"


def _unexpected_gradient() -> CaptureError:
    return CaptureError(
        "a leaf had no gradient when the function was captured, and has one now; call zero_grad() in the function, "
        "before backward()"
    )


def _update_lines(trace: Trace, namespace: dict[str, Any]) -> Iterator[str]:
    """Change what is outside as the function did."""
    for number, (target, item, spec, _) in enumerate(trace.updates):
        name = f"updated{number}"
        if isinstance(target, Tensor):
            target_name = _handle(target, name, namespace)
        else:
            target_name = f"{name}.gradient"
            namespace[name] = target
        if item is None:
            yield f"    {target_name} = None"
            continue
        namespace[f"updated_spec{number}"], namespace["named"] = spec, named
        value = f"updated_spec{number}, values[{item}]"
        if isinstance(target, Tensor):
            yield f"    rename({target_name}, {value})"
            namespace["rename"] = rename
        else:
            yield f"    {target_name} = named({value})"


def _computed(value: str, node: str) -> Iterator[str]:
    """The value of a node, which is computed first if it has to be."""
    yield f"    {value} = {node}.value"
    yield f"    if {value} is None:"
    yield f"        realize(({node},))"
    yield f"        {value} = {node}.value"


def _result_lines(trace: Trace, namespace: dict[str, Any]) -> Iterator[str]:
    """Fresh tensors of what was computed, in the structure that the function returned."""
    names = [f"result{position}" for position in range(len(trace.results))]
    derived = []
    for position, result in enumerate(trace.results):
        name = names[position]
        if isinstance(result, Derived):
            derived.append((position, result))
        elif isinstance(result, Result):
            names[position] = names[result.position]
        elif isinstance(result, int):
            names[position] = f"tensors[{result}]"
        elif isinstance(result, Tensor):
            namespace[name] = result
        else:
            if isinstance(result, Node):
                value = f"given{position}"
                namespace[f"spec{position}"], namespace[value] = result.spec, result.value
            else:
                item, namespace[f"spec{position}"] = result
                value = f"values[{item}]"
            yield f"    {name} = new(Tensor)"
            yield "    node = new_data(Data)"
            yield f"    node.spec = spec{position}"
            yield f"    node.value = {value}"
            yield f"    {name}._alias = None"
            yield f"    {name}._node = node"
            yield f"    node.handle = ref({name})"
    for position, result in derived:
        source, namespace[f"views{position}"] = result
        viewed = f"outside_result{position}"
        if isinstance(source, Tensor):
            namespace[viewed] = source
        else:
            viewed = f"tensors[{source}]" if isinstance(source, int) else names[source.position]
        yield f"    result{position} = views_of({viewed}, views{position})"
    single = isinstance(trace.result, Tensor)
    yield f"    return {names[0] if single else 'build([' + ', '.join(names) + '])'}"
