"""Recorded ops as JSON, for kernels that no single function gives, such as fused ones.

    [{"op": "mul", "operands": [{"input": 0}, {"number": "float"}]},
     {"op": "relu", "operands": [{"op": 0}]}]

An operand is an input, numbered as in `input_tensors`, the result of an earlier op, or a Python number, of which only
the type is known. `attributes` holds those of the op, with dtypes as {"dtype": "bf16"}. The kernel stores the results
of the last op and of those with "keep": true. Shapes are those of the recording: an input is reshaped first, since its
descriptor has four extents.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from typing import TYPE_CHECKING, Any, Final

from npu_tensor.dtypes import DType, as_dtype
from npu_tensor.errors import ArgumentError, message_of
from npu_tensor.ggml_hsa import function_files as kernel_source
from npu_tensor.ggml_hsa.single_task import capture_task, placeholder, single_task
from npu_tensor.graph.nodes import Node
from npu_tensor.graph.structure import ItemGraph
from npu_tensor.kernels.offer import Float32, Offer, Target
from npu_tensor.ops import OPS
from npu_tensor.ops.declare import Call
from npu_tensor.runtime.npu.kernel_name import described, kernel_name, op_params, tensor_descs, words
from npu_tensor.runtime.npu.tensor_desc import DIMENSIONS, TensorDesc
from npu_tensor.spec import Spec
from npu_tensor.task import Refusal, Task
from npu_tensor.tensor import Tensor, record, wrap

if TYPE_CHECKING:
    import networkx as nx

DEFAULT_FLOAT32: Final[Float32] = "emulate"
"""Default of an entry: it asks for an NPU kernel, while programs leave float32 to the CPU."""

OPS_SOURCE: Final = "ops"
"""`kernel_source` of an entry with ops in place of a function."""

_NUMBERS: Final[Mapping[str, type]] = {"float": float, "int": int, "bool": bool}


# --- from a graph


def describe(graph: nx.DiGraph | ItemGraph, task: Task) -> tuple[tuple[TensorDesc, ...], list[dict[str, Any]]]:
    """Return the operands of a task in a planned graph, and its ops, from which `replay` makes the same task.

    Raises ArgumentError for a tensor without a descriptor: one without elements, or too large.
    """
    sources = sorted({operand.item for operand in task.inputs if operand.layout is not None})
    tensors: list[TensorDesc] = []
    ops: list[dict[str, Any]] = []
    references: dict[int, dict[str, Any]] = {}

    def add(op: str, operands: list[dict[str, Any]], attributes: Mapping[str, Any]) -> dict[str, Any]:
        description: dict[str, Any] = {"op": op, "operands": operands}
        if attributes:
            description["attributes"] = {name: _encoded(value) for name, value in attributes.items()}
        ops.append(description)
        return {"op": len(ops) - 1}

    for item in sources:
        spec: Spec = graph.nodes[item]["spec"]
        shape = spec.shape if spec.ndim <= DIMENSIONS else (spec.size,)
        references[item] = {"input": len(tensors)}
        tensors.append(TensorDesc.of(shape, spec.dtype))
        if spec.ndim != DIMENSIONS:
            references[item] = add("reshape", [references[item]], {"shape": spec.shape})
    stored = {output.item for output in task.outputs}
    for item in _needed(graph, stored, set(sources)):
        call: Call = graph.nodes[item]["call"]
        operands = [
            references[source] if isinstance(operand, Spec) else {"number": operand.__name__}
            for source, operand in zip(graph.nodes[item]["inputs"], call.operands, strict=True)
        ]
        references[item] = add(call.op.name, operands, _attributes(call))
        if item in stored and item != max(stored):
            ops[-1]["keep"] = True
    return tuple(tensors), ops


def _needed(graph: nx.DiGraph | ItemGraph, results: set[int], sources: set[int]) -> list[int]:
    """Return the ops that lead from sources to results, in the order of recording."""
    needed: set[int] = set()
    stack = list(results)
    while stack:
        item = stack.pop()
        if item not in needed and item not in sources and "call" in graph.nodes[item]:
            needed.add(item)
            stack += graph.nodes[item]["inputs"]
    return sorted(needed)


def _attributes(call: Call) -> dict[str, Any]:
    """Return the declared attributes of a call as the op accepts them."""
    values = {}
    for attribute in call.op.attributes:
        value = call.attributes.get(attribute.name, attribute.default)
        single = attribute.annotation == "int" and attribute.kind is not Parameter.VAR_POSITIONAL
        if single and isinstance(value, tuple):  # the rule of row ops turns a dimension into a tuple
            (value,) = value
        values[attribute.name] = value
    return values


def _encoded(value: Any) -> Any:
    if isinstance(value, DType):
        return {"dtype": value.short}
    if isinstance(value, (tuple, list)):
        return [_encoded(part) for part in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ArgumentError(f"an attribute of {type(value).__name__} cannot be written as JSON")


# --- back


def replay(
    ops: Sequence[Mapping[str, Any]], inputs: Sequence[TensorDesc], output: TensorDesc, target: Target
) -> tuple[Task, Offer | Refusal]:
    """Return the task of recorded ops, and the answer of the kernel families to it.

    Raises ArgumentError if an op is wrong, which the message names, or if it is not exactly one task.
    """
    sources = [placeholder(desc)._node for desc in inputs]
    results: list[Node] = []
    for number, recorded in enumerate(ops):
        try:
            # Nodes, not tensors: the kernel would store every result with a tensor.
            results.append(_replayed(recorded, sources, results)._node)
        except Exception as error:
            raise ArgumentError(f"ops/{number}: {message_of(error)}") from None
    computed = results[-1].spec
    if 0 in computed.shape or _described(computed) != output:
        raise ArgumentError(f"the last op computes {computed}, not {output}")
    stored = [node for node, recorded in zip(results, ops, strict=True) if recorded.get("keep") or node is results[-1]]
    return single_task(stored, sources, target)


def _replayed(recorded: Mapping[str, Any], inputs: Sequence[Node], results: Sequence[Node]) -> Tensor:
    op = OPS.get(recorded["op"])
    if op is None:
        raise ArgumentError(f"there is no op {recorded['op']!r}")
    operands = [_operand(reference, inputs, results) for reference in recorded["operands"]]
    if not op.variadic and len(operands) != len(op.operands):
        raise ArgumentError(f"{op.name} has {len(op.operands)} operands, not {len(operands)}")
    attributes = dict(recorded.get("attributes", {}))
    values = []
    for attribute in op.attributes:
        value = _decoded(attributes.pop(attribute.name)) if attribute.name in attributes else attribute.default
        if value is Parameter.empty:
            raise ArgumentError(f"{op.name} needs the attribute {attribute.name}")
        values.append(value)
    if attributes:
        raise ArgumentError(f"{op.name} has no attribute {', '.join(attributes)}")
    return record(op, operands, tuple(values))


def _operand(reference: Mapping[str, Any], inputs: Sequence[Node], results: Sequence[Node]) -> Any:
    ((kind, value),) = reference.items()
    if kind == "number":
        return _NUMBERS[value](1)
    known = {"input": inputs, "op": results}[kind]
    if not (type(value) is int and 0 <= value < len(known)):
        raise ArgumentError(f"there is no {kind} {value!r} before it")
    return wrap(known[value])


def _decoded(value: Any) -> Any:
    if isinstance(value, dict):
        return as_dtype(value["dtype"])
    if isinstance(value, list):
        return tuple(map(_decoded, value))
    return value


def _described(spec: Spec) -> TensorDesc:
    return TensorDesc.of(spec.shape if spec.ndim <= DIMENSIONS else (spec.size,), spec.dtype)


# --- entries


def entry_for(graph: nx.DiGraph | ItemGraph, task: Task, target: Target) -> dict[str, Any]:
    """Return the configuration entry for a task in a planned graph.

    It names a function of the package if that gives the same kernel, else it has the ops. Raises ArgumentError for a
    task with a tensor without a descriptor.
    """
    tensors, ops = describe(graph, task)
    result = _described(graph.nodes[max(output.item for output in task.outputs)]["spec"])
    plain = _plain(task, target)
    entry: dict[str, Any] = {
        "kernel_name": "+".join(task.ops),
        "kernel_source": OPS_SOURCE,
        "arch": target.array.arch,
        "input_tensors": [str(desc) for desc in tensors],
        "output_tensor": str(result),
        "exported_name": kernel_name(task),
    }
    entry |= plain if plain is not None else {"ops": ops}
    if target.columns != target.array.columns:
        entry["cols"] = target.columns
    if target.float32 != DEFAULT_FLOAT32:
        entry["float32"] = target.float32
    if target.bfloat16 != "exact":
        entry["bfloat16"] = target.bfloat16
    if target.functions != "exact":
        entry["functions"] = target.functions
    return entry


def _plain(task: Task, target: Target) -> dict[str, Any] | None:
    """Return the fields that name a function of the package which gives the same kernel, or None."""
    output, *inputs = described(task)
    numbers = any(operand.layout is None for operand in task.inputs)
    if len(task.outputs) > 1 or numbers or not all(desc.is_contiguous for desc in (output, *inputs)):
        return None
    for name in filter(None, map(kernel_source.for_op, words(task))):
        path = kernel_source.packaged()[name]
        function = kernel_source.function(path, name)
        params = _params(function, task.calls[0])
        try:
            same, _ = capture_task(function, inputs, target, output, params)
        except ArgumentError:
            continue
        if all(name_of(same) == name_of(task) for name_of in (kernel_name, tensor_descs, op_params)):
            fields: dict[str, Any] = {"kernel_name": name, "kernel_source": path.name, "output_tensor": str(output)}
            fields["input_tensors"] = [str(desc) for desc in inputs]
            return fields | ({"op_params": params} if params else {})
    return None


def _params(function: Callable[..., Any], call: Call) -> dict[str, Any]:
    """Return the attributes of a call that are keywords of the function and differ from its defaults."""
    parameters = inspect.signature(function).parameters
    return {
        name: value
        for name, value in call.attributes.items()
        if name in parameters and isinstance(value, (bool, int, float, str)) and value != parameters[name].default
    }
