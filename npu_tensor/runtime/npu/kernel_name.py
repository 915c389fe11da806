"""What a kernel is called: the names that GGML's HSA back end gives, for every task.

    add-1024f32-1024f32-1024f32                     output first, then the operands
    mul-67x3x5f32-67x3x5f32-67f32                   a broadcast operand has its own extents
    mul_mat-256x128i16-64x256i16-64x128i16          GGML's operand order: B transposed, then A
    mul+add-1024bf16-1024bf16-1024bf16-number-23dccfe9da6f4f4c

A tensor is written as extents, innermost first and up to the last one above 1, GGML's name of the dtype, and n if it
is not contiguous. Element-wise tasks over contiguous tensors of one shape are named by the number of elements, so one
kernel serves all such shapes. A last part, 16 hexadecimal digits, stands for what extents and dtypes do not say: see
`op_params`. Tensors that lie differently in memory may share a name: strides stand in the descriptors.

What GGML has no word for:

- A fused task has the words of its ops, joined by +, and always the last part.
- An operand that is a Python number is written `number`, and has no descriptor. Its value is no part of a kernel.
- More than four dimensions are joined where all tensors of the task allow it: neighbours that continue each other, or
  along whose outer one an operand is repeated, as GGML repeats. A tensor that still has more, or that is read
  backwards, is described as the elements of memory that it spans, and how it lies becomes part of `op_params`.
"""

from __future__ import annotations

import json
import math
from hashlib import blake2b
from inspect import Parameter
from typing import Any, Final, NamedTuple

from npu_tensor.dtypes import DType
from npu_tensor.ops import OPS
from npu_tensor.ops.declare import Attribute, Call, Layout, Op
from npu_tensor.ops.expression import Program
from npu_tensor.runtime.npu.packing import is_row_major
from npu_tensor.runtime.npu.tensor_desc import DIMENSIONS, TensorDesc
from npu_tensor.spec import Spec
from npu_tensor.task import Task

__all__ = ["described", "kernel_name", "op_params", "tensor_descs", "words"]

LONGEST: Final = 200
"""Characters of a name. A file name may have 255, of which a key and a suffix take some 30."""

MOST_WORDS: Final = 5
"""Ops that are named; the last part of the name covers all."""

NUMBER: Final = "number"


def kernel_name(task: Task) -> str:
    """The canonical name of a task's kernel; fit for a file name."""
    named = words(task)
    if len(named) > MOST_WORDS:
        named = [*named[:3], f"{len(named) - 4}more", named[-1]]
    parts = ["+".join(named), *(NUMBER if tensor is None else tensor.desc.short for tensor in _tensors(task))]
    attributes = op_params(task)
    name = "-".join(parts)
    if len(name) > LONGEST:
        attributes += name.encode()
        while len("-".join(parts)) > LONGEST:
            parts.pop()
    return "-".join([*parts, blake2b(attributes, digest_size=8).hexdigest()] if attributes else parts)


def words(task: Task) -> list[str]:
    """GGML's words for the ops of a task, or ours."""
    return [_WORDS.get(call.op.name, call.op.name) if call.op.kind != "view" else "cont" for call in _named(task)]


def described(task: Task) -> tuple[TensorDesc, ...]:
    """A task's tensors, outputs first, operands in the order of the name."""
    return tuple(tensor.desc for tensor in _tensors(task) if tensor is not None)


def tensor_descs(task: Task) -> tuple[str, ...]:
    """The same as texts."""
    return tuple(map(str, described(task)))


def op_params(task: Task) -> bytes:
    """What a kernel follows from besides the words and the tensors of its name, as JSON; empty if that is nothing.

    Of a single op its attributes: those without a default, and those whose value is another and is not said by the
    extents or the dtype of the result. Of a fused task, and of an op that was declared later, the program, which holds
    all of them.
    """
    calls = _named(task)
    facts: dict[str, Any] = {}
    if len(calls) == 1 and len(task.inputs) == len(calls[0].operands) and calls[0].op.name in _WORDS:
        facts |= _attributes(calls[0], task)
    else:
        facts["ops"] = [call.op.name for call in task.calls]
        programs = [task.program, *(prologue and prologue.program for prologue in task.prologues)]
        facts["programs"] = [program and _written(program) for program in programs]
        # What a fused op reads twice is one operand of the task; attributes are in the program, but for data ops.
        facts |= {} if task.program else _attributes(calls[0], task)
    if task.rows > 1 and any(all(output.layout.strides[-task.rows :]) for output in task.outputs):
        facts["rows"] = task.rows  # the extents of a result with one element per row say how many dimensions these are
    tensors = _tensors(task)
    if any(tensor is not None and not tensor.exact for tensor in tensors):
        facts["layouts"] = [None if tensor is None else tensor.layout[:2] for tensor in tensors]
    return json.dumps(facts, default=str, separators=(",", ":"), sort_keys=True).encode() if facts else b""


# --- words and attributes


def _words() -> dict[str, str]:
    """Op -> GGML's word for it. One that GGML does not have keeps its own name, with _ where GGML means another op."""
    first = {name: op.ggml.lower().partition(", ")[0] for name, op in OPS.items() if op.ggml}
    ggml = {name: word.removeprefix("unary_").removeprefix("glu_") for name, word in first.items()}
    in_use = set(ggml.values())
    return {name: ggml.get(name, f"{name}_" if name in in_use else name) for name in OPS}


_WORDS: Final = _words()


def _named(task: Task) -> tuple[Call, ...]:
    """The ops of a task without a narrowing of one's integer result, as GGML's indices have it: its dtype says that."""
    calls = task.calls
    if len(calls) == 2 and calls[1].op.converts:
        source, target = calls[1].operands[0], calls[1].spec.dtype
        assert isinstance(source, Spec)
        if source.dtype.is_integer and target.is_integer and target.itemsize < source.dtype.itemsize:
            return calls[:1]
    return calls


def _attributes(call: Call, task: Task) -> dict[str, Any]:
    """The attributes of a task's only op, as far as they must be told."""
    if call.op.kind == "view":  # a copy: the strides say which
        return {}
    values = {a.name: call.attributes.get(a.name, a.default) for a in call.op.attributes}
    if call.op.kind == "row":  # the last dimensions of a task are its rows, and the extents of the result say the rest
        values |= {name: said for name, said in _rows(call.op, task).items() if name in values}
    return {a.name: values[a.name] for a in call.op.attributes if _is_told(a, values[a.name], call)}


def _rows(op: Op, task: Task) -> dict[str, Any]:
    defaults = {a.name: a.default for a in op.attributes}
    dim = task.rows if defaults.get("dim") is Parameter.empty else defaults.get("dim")
    return {"dim": dim, "keepdim": defaults.get("keepdim")}


def _is_told(attribute: Attribute, value: Any, call: Call) -> bool:
    if isinstance(value, DType) or value == call.spec.shape:
        return False
    return attribute.default is Parameter.empty or bool(value != attribute.default)


def _written(program: Program) -> list[Any]:
    return [program.instructions, program.outputs]


# --- tensors


class _Tensor(NamedTuple):
    """A tensor of a task, and how it lies."""

    dtype: DType
    layout: Layout

    @property
    def exact(self) -> bool:
        """Whether `desc` says all of the layout."""
        pairs = zip(self.layout.shape, self.layout.strides, strict=True)
        return len(self.layout.shape) <= DIMENSIONS and all(extent == 1 or stride > 0 for extent, stride in pairs)

    @property
    def desc(self) -> TensorDesc:
        shape, strides, _ = self.layout
        if self.exact:
            return TensorDesc.of(shape, self.dtype, strides)
        span = 1 + sum((extent - 1) * abs(stride) for extent, stride in zip(shape, strides, strict=True))
        return TensorDesc.of((span,), self.dtype)


def _tensors(task: Task) -> list[_Tensor | None]:
    """The results, then the operands in GGML's order; None for numbers."""
    operands = [None if dtype is None or layout is None else _Tensor(dtype, layout) for _, dtype, layout in task.inputs]
    if task.kind == "data":  # operands with shapes of their own
        return [*(_Tensor(output.dtype, output.layout) for output in task.outputs), *operands]
    if task.kind == "matmul":
        left, right, others = task.split(operands)
        operands = [*map(_transposed, right), *left, *others]
    elif _is_matrix_vector(task):
        # It lies over (..., M, N, K): A without N is (..., M, K), B without M is (..., N, K).
        operands = [_without(operands[1], -3), _without(operands[0], -2)]
    specs = {item: call.spec for item, call in zip(task.items, task.calls, strict=True)}
    results = [_Tensor(o.dtype, _result(o.layout, task.rows, specs[o.item])) for o in task.outputs]
    return _in_four_dimensions([*results, *operands], task)


def _is_matrix_vector(task: Task) -> bool:
    """Whether it is the product of a matrix and a vector, alone: a sum over rows."""
    return task.kind == "row" and len(task.calls) == 1 and task.calls[0].op.kind == "matmul" and len(task.inputs) == 2


def _own(layout: Layout) -> Layout:
    """With extent 1 where it is repeated along the task's shape."""
    shape = tuple(extent if stride else 1 for extent, stride in zip(layout.shape, layout.strides, strict=True))
    return layout._replace(shape=shape)


def _result(layout: Layout, rows: int, spec: Spec) -> Layout:
    """Where a result is one element per row: without the rows' dimensions, unless they are kept with extent 1."""
    if not rows or any(layout.strides[-rows:]) or len(layout.shape) == spec.ndim:
        return layout
    return Layout(layout.shape[:-rows], layout.strides[:-rows], layout.offset)


def _transposed(tensor: _Tensor | None) -> _Tensor | None:
    if tensor is None:
        return None
    (*batch, rows, columns), (*steps, down, right), offset = tensor.layout
    return tensor._replace(layout=Layout((*batch, columns, rows), (*steps, right, down), offset))


def _without(tensor: _Tensor | None, axis: int) -> _Tensor | None:
    if tensor is None:
        return None
    shape, strides = list(tensor.layout.shape), list(tensor.layout.strides)
    del shape[axis], strides[axis]
    return tensor._replace(layout=Layout(tuple(shape), tuple(strides), tensor.layout.offset))


def _in_four_dimensions(tensors: list[_Tensor | None], task: Task) -> list[_Tensor | None]:
    """The tensors of a task, with their own extents and with dimensions joined; see the module's text."""
    layouts = [_own(tensor.layout) for tensor in tensors if tensor is not None]
    shape = task.shape
    if task.kind == "map" and all(layout.shape == shape and is_row_major(shape, layout.strides) for layout in layouts):
        layouts = [Layout((math.prod(task.shape),), (1,)) for _ in layouts]
    product = task.kind == "matmul" or _is_matrix_vector(task)
    # Rows, and the dimensions of matrices, stay.
    outer = list(task.shape[: len(task.shape) - task.rows - (2 if product else 0)])
    while max(len(layout.shape) for layout in layouts) > DIMENSIONS:
        # Dimensions of extent 1 last: names keep the extents that a user sees.
        axes = sorted(range(1, len(outer)), key=lambda axis: (1 in outer[axis - 1 : axis + 1], -axis))
        axis = next((a for a in axes if all(_joins(layout, a, outer, product) for layout in layouts)), None)
        if axis is None:
            break
        layouts = [_joined(layout, axis) for layout in layouts]
        outer[axis - 1 : axis + 1] = [outer[axis - 1] * outer[axis]]
    remaining = iter(layouts)
    return [None if tensor is None else tensor._replace(layout=next(remaining)) for tensor in tensors]


def _joins(layout: Layout, axis: int, extents: list[int], product: bool) -> bool:
    """Whether a dimension continues the one before it, or GGML repeats so; `extents` are those of the whole task.

    GGML repeats a tensor as a whole, but in a matrix product each matrix serves several consecutive ones.
    """
    outer, inner = layout.shape[axis - 1 : axis + 1]
    whole_outer, whole_inner = extents[axis - 1 : axis + 1]
    if 1 in (whole_outer, whole_inner) or outer == inner == 1 or (inner if product else outer) == 1:
        return True
    continues = layout.strides[axis - 1] == layout.strides[axis] * inner
    return continues and inner == whole_inner and (outer == whole_outer or not product)


def _joined(layout: Layout, axis: int) -> Layout:
    shape, strides = list(layout.shape), list(layout.strides)
    step = strides[axis] if shape[axis] > 1 else strides[axis - 1]
    shape[axis - 1 : axis + 1] = [shape[axis - 1] * shape[axis]]
    strides[axis - 1 : axis + 1] = [step]
    return Layout(tuple(shape), tuple(strides), layout.offset)
