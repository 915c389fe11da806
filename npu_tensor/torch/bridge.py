"""Tensors of PyTorch as tensors of ours and back, without a copy where the memory is contiguous."""

from __future__ import annotations

import sys
from typing import Final

import numpy as np
import torch

from npu_tensor.dtypes import DTYPES, DType, bfloat16
from npu_tensor.errors import DTypeError
from npu_tensor.graph.nodes import ONE_OWNER
from npu_tensor.runtime.memory import ALIGNMENT, Buffer
from npu_tensor.spec import Spec
from npu_tensor.tensor import Tensor, named

DTYPE_OF: Final[dict[torch.dtype, DType]] = {getattr(torch, dtype.name): dtype for dtype in DTYPES}
"""Dtypes that both have."""


def spec_of(tensor: torch.Tensor, shape: tuple[int, ...] | None = None) -> Spec:
    """Return dtype and shape of a tensor, or dtype and `shape`. Raise DTypeError if it has no counterpart."""
    dtype = DTYPE_OF.get(tensor.dtype)
    if dtype is None or tensor.layout is not torch.strided or tensor.device.type != "cpu":
        raise DTypeError(f"a tensor of {tensor.dtype}, {tensor.layout} on {tensor.device} has no counterpart")
    return Spec.of(tuple(tensor.shape) if shape is None else shape, dtype)


def buffer_of(tensor: torch.Tensor) -> Buffer:
    """Return the memory of a tensor, which must not change while it is used; a copy if it is not contiguous."""
    tensor = tensor.detach().contiguous().resolve_neg()
    if not tensor.numel():  # PyTorch gives no address.
        return Buffer.from_array(np.zeros(ALIGNMENT, np.uint8))
    buffer = Buffer(tensor.data_ptr(), tensor.nbytes)
    buffer._memory = tensor  # Keeps it alive.
    return buffer


def from_pytorch(tensor: torch.Tensor) -> Tensor:
    """Return a tensor on the same memory."""
    return named(spec_of(tensor), buffer_of(tensor))


def to_pytorch(tensor: Tensor) -> torch.Tensor:
    """Return the value of a tensor on memory that only PyTorch uses from now on if nothing else refers to `tensor`."""
    tensor.numpy()
    spec, value = tensor._node.spec, tensor._node.value
    is_shared = sys.getrefcount(value) > ONE_OWNER or not value.is_overwritable
    dtype = np.dtype(np.int16) if spec.dtype is bfloat16 else spec.dtype.numpy
    array = value.as_array(spec.shape, dtype)
    result = torch.from_numpy(array.copy() if is_shared else array)
    return result.view(torch.bfloat16) if spec.dtype is bfloat16 else result
