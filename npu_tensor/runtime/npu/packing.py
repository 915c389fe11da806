"""Conversion between tensors and the host buffers of a design."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from npu_tensor.dtypes import DType
from npu_tensor.kernels.offer import HostOperand
from npu_tensor.ops.declare import Call
from npu_tensor.runtime.reference import error_of_call
from npu_tensor.spec import contiguous_strides

Array = np.ndarray[Any, Any]


def host_bytes(operand: HostOperand) -> int:
    """Return the bytes of a host buffer."""
    return math.prod(operand.padded) * np.dtype(operand.dtype).itemsize


def form_of(operand: HostOperand, dtype: DType) -> HostOperand | None:
    """Return a key for the contents of a host buffer. Kernels with equal keys can share one copy of a tensor.

    Args:
        operand: Layout of the tensor in the host buffer.
        dtype: Dtype of the tensor's own buffer.

    Returns:
        The key, or None if the host buffer begins with the bytes of the tensor's own buffer and the rest is not read.
    """
    layout, padded = operand.layout, operand.padded
    outer = next((axis for axis, extent in enumerate(padded) if extent > 1), 0) + 1
    whole = padded[outer:] == layout.shape[outer:]
    in_order = is_row_major(layout.shape, layout.strides) and not layout.offset and whole
    # The host does not read beyond the elements of a result; a kernel may need padding beyond those of an operand.
    free = operand.order is None and (operand.output or operand.padding is None or padded == layout.shape)
    return None if operand.dtype == dtype.name and in_order and free else operand._replace(number=None, indexes=None)


def is_row_major(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Return True if the elements are contiguous. Strides along extents of 1 are ignored."""
    dense = contiguous_strides(shape)
    return all(extent == 1 or stride == step for extent, stride, step in zip(shape, strides, dense, strict=True))


def flat(buffer: Any, dtype: DType) -> Array:
    """Return the whole buffer of a tensor as a flat array."""
    array: Array = buffer.as_array((buffer.nbytes // dtype.itemsize,), dtype.numpy)
    return array


def word(value: float, kind: str) -> int:
    """Encode a number in the 32 bits that a core receives. A larger integer wraps, as the arithmetic does."""
    if kind == "bool":
        return int(bool(value))
    if kind == "int32":
        return int(np.array(value, np.int64).astype(np.int32))
    return int(np.array(value, kind).view(np.int32))


def _strided(elements: Array, operand: HostOperand) -> Array:
    layout = operand.layout
    strides = tuple(stride * elements.itemsize for stride in layout.strides)
    return np.lib.stride_tricks.as_strided(elements[layout.offset :], layout.shape, strides)


def check_indexes(operand: HostOperand, elements: Array, call: Call | None) -> None:
    """Raise IndexError for an index out of range, which the array cannot check."""
    if operand.indexes is None:
        return
    assert call is not None
    name, extent = operand.indexes
    indexes = _strided(elements, operand)
    wrong = indexes.max() if indexes.max() >= extent else indexes.min()
    if not 0 <= wrong < extent:
        raise error_of_call(IndexError(f"{name} {wrong} is out of range for extent {extent}"), call)


def _inside(operand: HostOperand, memory: Array) -> tuple[Array, Array]:
    """Return the host buffer in its padded shape, and the part that the tensor fills."""
    dtype = np.dtype(operand.dtype)
    whole = memory[: host_bytes(operand)].view(dtype).reshape(operand.padded)
    return whole, whole[tuple(slice(extent) for extent in operand.layout.shape)]


def pack(operand: HostOperand, elements: Array, memory: Array) -> None:
    """Fill a host buffer (bytes) from the flat buffer of a tensor."""
    if operand.order is not None:
        operand.order.write(elements, memory)
        return
    whole, inside = _inside(operand, memory)
    if inside.shape != whole.shape:
        whole[...] = operand.padding or 0
    with np.errstate(all="ignore"):
        inside[...] = _strided(elements, operand)


def unpack(operand: HostOperand, memory: Array, elements: Array) -> None:
    """Store the elements of a host buffer (bytes) in the flat buffer of a tensor."""
    _, inside = _inside(operand, memory)
    with np.errstate(all="ignore"):
        _strided(elements, operand)[...] = inside
