"""How values come into an NPU's memory, and back to the host."""

from __future__ import annotations

from typing import NamedTuple

from npu_tensor.dtypes import DType
from npu_tensor.kernels.offer import HostOperand
from npu_tensor.runtime.memory import Allocator, Buffer
from npu_tensor.runtime.npu.packing import flat, pack, unpack
from npu_tensor.runtime.xrt.buffers import Block, Lease, Pool, ResidentBuffer

__all__ = ["Operand", "host_form", "leased_copy"]


class Operand(NamedTuple):
    """A buffer of a launch.

    item: of the plan; None for scratch. host: how it holds the tensor, whose elements are `dtype`. nbytes: that the
    design needs. direct: whether it holds the tensor just as the tensor's own buffer does. key: for copies of values.
    result_bytes: of the tensor's own buffer, if it is a result.
    """

    item: int | None
    output: bool
    host: HostOperand
    dtype: DType | None
    nbytes: int
    direct: bool
    key: int
    result_bytes: int


def leased_copy(value: Buffer, operand: Operand, pool: Pool) -> Lease:
    """A host value as a design wants it, made once for each way in which some do. Raises OutOfMemory."""
    assert operand.dtype is not None
    try:
        copies = value.copies
    except AttributeError:
        copies = value.copies = {}
    found: Lease | None = copies.get(operand.key)
    if found is not None and found.block.pool is pool and found.block.nbytes >= operand.nbytes:
        return found
    elements = flat(value, operand.dtype)  # Waits for another device that computes it.
    lease = pool.take(operand.nbytes)
    lease.block.host_dirty = True
    pack(operand.host, elements, lease.block.bytes)
    copies[operand.key] = lease
    return lease


def host_form(resident: ResidentBuffer, allocator: Allocator) -> Block | Buffer:
    """Where the host has a result whose block it may read: there, or in a buffer of the tensor's own."""
    assert resident.lease is not None
    operand: Operand = resident.operand
    if operand.direct:
        return resident.lease.block
    assert operand.dtype is not None
    buffer = allocator.allocate(resident.nbytes)
    unpack(operand.host, resident.lease.block.bytes, flat(buffer, operand.dtype))
    return buffer
