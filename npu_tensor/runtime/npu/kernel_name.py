"""Kernel names as in GGML's HSA back end, for every task.

    add-1024f32-1024f32-1024f32                     output first, then the operands
    mul-67x3x5f32-67x3x5f32-67f32                   a broadcast operand has its own extents
    mul_mat-256x128i16-64x256i16-64x128i16          GGML's operand order: B transposed, then A
    mul+add-1024bf16-1024bf16-1024bf16-number-23dccfe9da6f4f4c

A tensor is written as extents (innermost first, up to the last one above 1), GGML's name of the dtype, and n if it is
not contiguous. Element-wise tasks over contiguous tensors of one shape are named by the number of elements, so one
kernel serves all such shapes. A final part of 16 hexadecimal digits represents everything else, see `op_params`.
Tensors with different strides may share a name; strides are in the descriptors.

Extensions of GGML's names:

- A fused task has the words of its ops, joined by +, and always the final part.
- A Python number as an operand is written `number` and has no descriptor. Its value is not part of a kernel.
- More than four dimensions are joined if all tensors of the task allow it: neighbours that are contiguous, or along
  whose outer one an operand is repeated, as GGML repeats. A tensor that still has more, or that is read backwards, is
  described as the elements of memory that it spans, and its layout becomes part of `op_params`.
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

LONGEST: Final = 200
"""Maximum characters of a name. A file name may have 255, and a key and a suffix need about 30."""

MOST_WORDS: Final = 5
"""Maximum number of named ops. The final part of the name covers all ops."""

NUMBER: Final = "number"


def kernel_name(task: Task) -> str:
    """Return the canonical name of a task's kernel, valid as a file name."""
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
    """Return GGML's words for the ops of a task, or our own."""
    return [_WORDS.get(call.op.name, call.op.name) if call.op.kind != "view" else "cont" for call in _named(task)]


def described(task: Task) -> tuple[TensorDesc, ...]:
    """Describe a task's tensors: outputs, then operands in the order of the name."""
    return tuple(tensor.desc for tensor in _tensors(task) if tensor is not None)


def tensor_descs(task: Task) -> tuple[str, ...]:
    """Describe a task's tensors as texts."""
    return tuple(map(str, described(task)))


def op_params(task: Task) -> bytes:
    """Return the properties of a kernel that its name does not contain, as JSON; empty if there are none.

    For a single op these are its attributes without a default or with another value, unless extents or dtype of the
    result imply them. For a fused task, or a user-declared op, this is the program.
    """
    calls = _named(task)
    facts: dict[str, Any] = {}
    if len(calls) == 1 and len(task.inputs) == len(calls[0].operands) and calls[0].op.name in _WORDS:
        facts |= _attributes(calls[0], task)
    else:
        facts["ops"] = [call.op.name for call in task.calls]
        programs = [task.program, *(prologue and prologue.program for prologue in task.prologues)]
        facts["programs"] = [_written(program) if program and program.instructions else None for program in programs]
        # An operand that a fused op reads twice is one operand of the task. Data ops have no program.
        facts |= {} if task.program.instructions else _attributes(calls[0], task)
    if task.rows > 1 and any(all(output.layout.strides[-task.rows :]) for output in task.outputs):
        facts["rows"] = task.rows  # the extents of a result with one element per row say how many dimensions these are
    tensors = _tensors(task)
    if any(tensor is not None and not tensor.exact for tensor in tensors):
        facts["layouts"] = [None if tensor is None else tensor.layout[:2] for tensor in tensors]
    return json.dumps(facts, default=str, separators=(",", ":"), sort_keys=True).encode() if facts else b""


# --- words and attributes


def _words() -> dict[str, str]:
    """Map ops to GGML's words. Other ops keep their names, with _ if GGML uses the name for another op."""
    first = {name: op.ggml.lower().partition(", ")[0] for name, op in OPS.items() if op.ggml}
    ggml = {name: word.removeprefix("unary_").removeprefix("glu_") for name, word in first.items()}
    in_use = set(ggml.values())
    return {name: ggml.get(name, f"{name}_" if name in in_use else name) for name in OPS}


_WORDS: Final = _words()


def _named(task: Task) -> tuple[Call, ...]:
    """Return the ops of a task without a narrowing of an integer result, which the dtype of GGML's indices implies."""
    calls = task.calls
    if len(calls) == 2 and calls[1].op.converts:
        source, target = calls[1].operands[0], calls[1].spec.dtype
        assert isinstance(source, Spec)
        if source.dtype.is_integer and target.is_integer and target.itemsize < source.dtype.itemsize:
            return calls[:1]
    return calls


def _attributes(call: Call, task: Task) -> dict[str, Any]:
    """Return the attributes of a task's only op that the name does not imply."""
    if call.op.kind == "view":  # A copy: the strides determine it.
        return {}
    values = {a.name: call.attributes.get(a.name, a.default) for a in call.op.attributes}
    if call.op.kind == "row":  # Rows are the last dimensions, and the extents of the result imply the rest.
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
    """A tensor of a task with its layout."""

    dtype: DType
    layout: Layout

    @property
    def exact(self) -> bool:
        """True if `desc` determines the layout."""
        pairs = zip(self.layout.shape, self.layout.strides, strict=True)
        return len(self.layout.shape) <= DIMENSIONS and all(extent == 1 or stride > 0 for extent, stride in pairs)

    @property
    def desc(self) -> TensorDesc:
        if self.exact:
            return TensorDesc.of(self.layout.shape, self.dtype, self.layout.strides)
        first, last = self.layout.bounds
        return TensorDesc.of((last - first + 1,), self.dtype)


def _tensors(task: Task) -> list[_Tensor | None]:
    """Return the results, then the operands in GGML's order; None for numbers."""
    operands = [
        None if source.dtype is None or source.layout is None else _Tensor(source.dtype, source.layout)
        for source in task.inputs
    ]
    if task.kind == "data":  # Operands have their own shapes.
        return [*(_Tensor(output.dtype, output.layout) for output in task.outputs), *operands]
    if task.kind == "matmul":
        left, right, others = task.split(operands)
        operands = [*map(_transposed, right), *left, *others]
    specs = {item: call.spec for item, call in zip(task.items, task.calls, strict=True)}
    results = [_Tensor(o.dtype, _result(o.layout, task.rows, specs[o.item])) for o in task.outputs]
    return _in_four_dimensions([*results, *operands], task)


def _own(layout: Layout) -> Layout:
    """Set the extent to 1 along repeated dimensions."""
    shape = tuple(extent if stride else 1 for extent, stride in zip(layout.shape, layout.strides, strict=True))
    return layout._replace(shape=shape)


def _result(layout: Layout, rows: int, spec: Spec) -> Layout:
    """Remove the dimensions of the rows from a result with one element per row, unless they are kept."""
    if not rows or any(layout.strides[-rows:]) or len(layout.shape) == spec.ndim:
        return layout
    return Layout(layout.shape[:-rows], layout.strides[:-rows], layout.offset)


def _transposed(tensor: _Tensor | None) -> _Tensor | None:
    if tensor is None:
        return None
    (*batch, rows, columns), (*steps, down, right), offset = tensor.layout
    return tensor._replace(layout=Layout((*batch, columns, rows), (*steps, right, down), offset))


def _in_four_dimensions(tensors: list[_Tensor | None], task: Task) -> list[_Tensor | None]:
    """Give tensors their own extents and at most four dimensions, see the module."""
    layouts = [_own(tensor.layout) for tensor in tensors if tensor is not None]
    shape = task.shape
    if task.kind == "map" and all(layout.shape == shape and is_row_major(shape, layout.strides) for layout in layouts):
        layouts = [Layout((math.prod(task.shape),), (1,)) for _ in layouts]
    product = task.kind == "matmul"
    # Rows and the dimensions of matrices are not joined.
    outer = list(task.shape[: len(task.shape) - task.rows - (2 if product else 0)])
    while max(len(layout.shape) for layout in layouts) > DIMENSIONS:
        # Dimensions of extent 1 are joined last, so that names keep the extents that a user sees.
        axes = sorted(range(1, len(outer)), key=lambda axis: (1 in outer[axis - 1 : axis + 1], -axis))
        axis = next((a for a in axes if all(_joins(layout, a, outer, product) for layout in layouts)), None)
        if axis is None:
            break
        layouts = [_joined(layout, axis) for layout in layouts]
        outer[axis - 1 : axis + 1] = [outer[axis - 1] * outer[axis]]
    remaining = iter(layouts)
    return [None if tensor is None else tensor._replace(layout=next(remaining)) for tensor in tensors]


def _joins(layout: Layout, axis: int, extents: list[int], product: bool) -> bool:
    """Return True if a dimension continues the previous one, or GGML repeats that way over the task's extents.

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
