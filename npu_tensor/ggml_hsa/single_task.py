"""Cuts of graphs without data: all kernels of a graph, or a kernel function as one task.

task, offer = capture_task(lambda a, b: a + b, [TensorDesc.parse("(1024,1,1,1)/bf16")] * 2, target)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

from npu_tensor.errors import ArgumentError, CaptureError
from npu_tensor.graph.nodes import PLACEHOLDER, Data, Node
from npu_tensor.graph.structure import Structure, item_graph, structure_of
from npu_tensor.kernels import families
from npu_tensor.kernels.offer import FUSION, Offer, Target
from npu_tensor.ops.declare import Layout, Op, Operand, Resolution
from npu_tensor.planner.device_choice import accelerator_cuts
from npu_tensor.planner.fuse.lower import lower
from npu_tensor.runtime.npu.kernel_name import kernel_name, op_params, tensor_descs
from npu_tensor.runtime.npu.tensor_desc import TensorDesc
from npu_tensor.runtime.store.requests import Request
from npu_tensor.spec import Spec
from npu_tensor.task import Accelerator, Fusion, Refusal, Task
from npu_tensor.tensor import Tensor, record, wrap


def capture_task(
    function: Callable[..., Any],
    inputs: Sequence[TensorDesc],
    target: Target,
    output: TensorDesc | None = None,
    params: Mapping[str, Any] | None = None,
) -> tuple[Task, Offer | Refusal]:
    """Return the task of a function of tensors on an NPU, and the answer of the kernel families to it.

    The function is called once, with tensors without values, which have four dimensions in NumPy's order; the kernel
    stores all results of a tuple. `output` describes the last result, and is passed on if the function has a parameter
    `output`.

    Raises ArgumentError if the function fails, is not one kernel, does not read all inputs, or has another result.
    """
    operands = [placeholder(desc) for desc in inputs]
    nodes = [operand._node for operand in operands]  # the function may give the tensors other nodes, as += does
    keywords = dict(params or {})
    if output is not None and "output" in inspect.signature(function).parameters:
        keywords["output"] = output
    try:
        result = function(*operands, **keywords)
    except CaptureError:
        raise ArgumentError(
            "the function reads the value of a tensor; a kernel is made of recorded ops alone, such as npu_tensor.where"
        ) from None
    except Exception as error:
        raise ArgumentError(f"{type(error).__name__}: {error}") from error
    results = result if isinstance(result, tuple) and result else (result,)
    for one in results:
        if not isinstance(one, Tensor):
            raise ArgumentError(f"the function must return a Tensor, not {type(one).__name__}")
    _check_result(results[-1], output)
    return single_task([one._node for one in results], nodes, target)


def single_task(results: Sequence[Node], operands: Sequence[Node], target: Target) -> tuple[Task, Offer | Refusal]:
    """Return the task that computes nodes from operands, and the answer of the kernel families to it.

    Raises ArgumentError unless it is exactly one task.
    """
    leaves = [leaf for leaf in structure_of(results).leaves if isinstance(leaf, Node)]
    # The buffer of a placeholder: itself, or the one that it views.
    roots = [operand if operand.call is None else operand.inputs[0] for operand in operands]
    foreign = next((leaf for leaf in leaves if leaf not in roots), None)
    if foreign is not None:
        raise ArgumentError(f"the function reads a tensor {foreign.spec} that is not an operand")
    for number, root in enumerate(roots):
        if root not in leaves:
            raise ArgumentError(f"operand {number}, counted from 0, is not used")
    answers = cuts(structure_of(results), target)[0]
    if not answers:
        raise ArgumentError("the function computes nothing: its result lies in memory as its operand does")
    if len(answers) > 1:
        names = ", ".join(task.name for task, _ in answers)
        raise ArgumentError(f"one entry is one kernel, and this takes {len(answers)}: {names}")
    return answers[0]


@dataclass(frozen=True)
class _AbsentDevice:
    """An array that is not there, as far as the planner asks it when it cuts a graph."""

    target: Target
    fusion: Fusion = FUSION

    def claim(self, task: Task) -> Offer | Refusal:
        return families.claim(task, self.target)


def cuts(structure: Structure, target: Target) -> list[list[tuple[Task, Offer | Refusal]]]:
    """Return the cuts that the planner may choose for an array: tasks with the answers of the kernel families."""
    device = cast(Accelerator, _AbsentDevice(target))
    found = accelerator_cuts(lower(item_graph(structure, merge=True)), (device,))
    return [
        [(task, cast("Offer | Refusal", answer)) for task, (answer,) in zip(partition.tasks, answers, strict=True)]
        for partition, answers in found
    ]


def request_for(task: Task, offer: Offer) -> Request:
    """Return the request for a kernel, with its design."""
    return Request(kernel_name(task), offer.design(), tensor_descs(task), op_params(task))


def _check_result(result: Tensor, output: TensorDesc | None) -> None:
    if output is None:
        return
    if 0 in result.shape or result.ndim > len(output.ne):
        raise ArgumentError(f"the result has shape {list(result.shape)}, which has no descriptor")
    computed = TensorDesc.of(result.shape, result.dtype)
    if computed == output:
        return
    message = f"the function computes {computed}, not {output}"
    if computed.dtype is output.dtype and _used(computed) == _used(output)[::-1] != _used(output):
        message += "; these look like row-major (NumPy) shapes: GGML's first extent is the innermost"
    raise ArgumentError(message)


def _used(desc: TensorDesc) -> list[int]:
    """Return the extents up to the last one above 1."""
    return list(desc.ne[: max((axis + 1 for axis, extent in enumerate(desc.ne) if extent > 1), default=0)])


# --- placeholders


def placeholder(desc: TensorDesc) -> Tensor:
    """Return a tensor without a value; if not contiguous, it is a view of a buffer of `desc.span` elements."""
    if desc.is_contiguous:
        return wrap(Data(Spec.of(desc.shape, desc.dtype), PLACEHOLDER))
    base = wrap(Data(Spec.of((desc.span,), desc.dtype), PLACEHOLDER))
    return record(_STRIDED, (base,), (desc.shape, desc.strides))


def _strided_rule(operands: tuple[Operand, ...], attributes: dict[str, Any]) -> Resolution:
    (base,) = operands
    assert isinstance(base, Spec)
    return Resolution(Spec.of(attributes["shape"], base.dtype), (None,), attributes)


def _strided_layout(layout: Layout, shape: tuple[int, ...], attributes: dict[str, Any]) -> Layout:
    assert layout.strides == (1,)
    return Layout(shape, attributes["strides"], layout.offset)


def strided(input: Any, /, shape: Any, strides: Any) -> Any:
    """Return a view of a vector with any strides."""
    return np.lib.stride_tricks.as_strided(input, shape, [stride * input.itemsize for stride in strides])


# Not in the registry: only descriptors have such views.
_STRIDED: Final = Op(strided, kind="view", rule=_strided_rule, layout=_strided_layout, public=False)
