"""The function that repeats what was captured, written as Python source for each signature."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any, cast

from npu_tensor.errors import NpuTensorError
from npu_tensor.events import listeners
from npu_tensor.graph.nodes import Data, Node
from npu_tensor.jit.trace import Captured, Derived, Result
from npu_tensor.jit.trees import rebuild
from npu_tensor.planner.plan import Plan
from npu_tensor.planner.schedule import launch_error, out_of_memory
from npu_tensor.planner.schedule import realize as realize_nodes
from npu_tensor.tensor import Tensor, views_of

__all__ = ["MISS", "Replay", "compile_replay", "miss"]

FILE_NAME = "<npu_tensor.jit replay>"

Replay = Callable[[tuple[Tensor, ...]], Any]


MISS = object()
"""What a replay returns for tensors of another signature."""


def miss(tensors: tuple[Tensor, ...]) -> Any:
    return MISS


def compile_replay(found: Captured) -> Replay:
    """The function that fills in the values, runs the plan and wraps the results, without loops or look-ups."""
    namespace: dict[str, Any] = {
        "MISS": MISS,
        "Data": Data,
        "Tensor": Tensor,
        "NpuTensorError": NpuTensorError,
        "new": Tensor.__new__,
        "ref": weakref.ref,
        "launch_error": launch_error,
        "out_of_memory": out_of_memory,
        "listeners": listeners,
        "plan": found.plan,
        "timings": None if found.plan is None else found.plan.timings,
        "recorded": found.recorded,
        "realize": realize_nodes,
        "views_of": views_of,
        "build": functools.partial(rebuild, found.result),
    }
    lines = ["def replay(tensors):", *_signature_lines(found, namespace)]
    if found.plan is not None:
        lines += [*_value_lines(found, namespace), *_run_lines(found.plan, namespace)]
    lines += _result_lines(found, namespace)
    exec(compile("\n".join(lines), FILE_NAME, "exec"), namespace)
    return cast(Replay, namespace["replay"])


def _signature_lines(found: Captured, namespace: dict[str, Any]) -> Iterator[str]:
    """Return MISS unless the arguments have the specs that were captured."""
    yield f"    if len(tensors) != {len(found.specs)}: return MISS"
    for number, spec in enumerate(found.specs):
        namespace[f"argument_spec{number}"] = spec
        yield f"    node{number} = tensors[{number}]._node"
        yield f"    if node{number}.spec is not argument_spec{number}: return MISS"


def _value_lines(found: Captured, namespace: dict[str, Any]) -> Iterator[str]:
    """The list of values: constants, and what arguments and tensors from outside hold."""
    names = [f"constant{item}" for item in range(len(found.template))]
    namespace.update(zip(names, found.template, strict=True))
    for item, number in found.arguments:
        names[item] = f"value{item}"
        yield from _computed(names[item], f"node{number}")
    for item, tensor in found.outside:
        names[item] = f"value{item}"
        namespace[f"outside{item}"] = tensor
        # Another thread may let the handle name another node at any time, so it is asked once.
        yield f"    node = outside{item}._node"
        yield from _computed(names[item], "node")
    yield f"    values = [{', '.join(names)}]"


def _computed(value: str, node: str) -> Iterator[str]:
    """The value of a node, which is computed first if it has to be."""
    yield f"    {value} = {node}.value"
    yield f"    if {value} is None:"
    yield f"        realize(({node},))"
    yield f"        {value} = {node}.value"


def _run_lines(made: Plan, namespace: dict[str, Any]) -> list[str]:
    """Plan.run spelled out."""
    lines = ["    try:", "        if listeners or timings.wanted: plan.run(values, True, recorded)", "        else:"]
    for number, (step, last_uses) in enumerate(made.steps):
        namespace[f"step{number}"] = step
        lines.append(f"            step{number}(values)")
        lines += [f"            values[{item}] = None" for item in last_uses]
    lines += [f"            values[{item}] = values[{base}]" for item, base in made.aliases] + ["            pass"]
    for number, device in enumerate(made.asynchronous):
        namespace[f"synchronize{number}"] = device.synchronize
        lines.append(f"            synchronize{number}()")
    return [
        *lines,
        "    except NpuTensorError:",
        "        raise",
        "    except MemoryError as error:",
        "        raise out_of_memory(error, plan, values, recorded) from error",
        "    except Exception as error:",
        "        raise launch_error(error, [op.line for _, op in recorded]) from error",
    ]


def _result_lines(found: Captured, namespace: dict[str, Any]) -> Iterator[str]:
    """Fresh tensors of what was computed, in the structure that the function returned."""
    names = [f"result{position}" for position in range(len(found.results))]
    derived = []
    for position, result in enumerate(found.results):
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
            yield f"    node = Data(spec{position}, {value})"
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
    single = isinstance(found.result, Tensor)
    yield f"    return {names[0] if single else 'build([' + ', '.join(names) + '])'}"
