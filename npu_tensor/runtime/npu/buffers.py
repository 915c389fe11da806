"""Memory that host and NPU share: blocks of a pool, and values that live in them.

The NPU does not take part in the cache coherence of the processor. What one side has written, the other sees after a
sync; a block knows what either side has written since:

    block.host_dirty        the host's caches may hold lines that memory does not have: sync before the NPU reads the
                            block, and also before it writes it, or these lines end up on top of its result
    block.device_dirty      the host's caches may hold lines that are older than memory: sync before the host reads
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple

from npu_tensor.dtypes import DType
from npu_tensor.kernels.offer import HostOperand
from npu_tensor.ops.declare import Call
from npu_tensor.runtime.memory import Allocator, Buffer
from npu_tensor.runtime.npu.driver import DriverError, Memory
from npu_tensor.runtime.npu.packing import flat, pack, unpack

__all__ = [
    "BlockPool",
    "LaunchOperand",
    "Lease",
    "OutOfMemory",
    "ResidentBuffer",
    "SharedBlock",
    "host_form",
    "leased_copy",
]

PAGE: Final = 4096
"""Bytes; the driver hands out whole pages."""


class OutOfMemory(DriverError):
    """The driver has no memory for a buffer, also after everything that was kept for reuse was given back."""


class SharedBlock:
    """Memory of a driver, and who has written it. free: where the block goes when its lease ends. pool: its maker."""

    __slots__ = ("address", "bytes", "device_dirty", "free", "host_dirty", "memory", "nbytes", "pool")

    def __init__(self, memory: Memory, nbytes: int, free: list[SharedBlock], pool: BlockPool) -> None:
        self.memory = memory
        self.nbytes = nbytes
        self.free = free
        self.pool = pool
        self.bytes = memory.bytes
        self.address = memory.address
        # The kernel clears new pages through the processor's caches.
        self.host_dirty = True
        self.device_dirty = False

    def to_device(self) -> None:
        """Let the NPU see what the host has written. Raises DriverError."""
        self.memory.to_device()
        self.host_dirty = False

    def from_device(self) -> None:
        """Let the host see what the NPU has written. Raises DriverError."""
        self.memory.from_device()
        self.device_dirty = False


class Lease:
    """The right to use a block, for as long as the lease lives."""

    __slots__ = ("block",)

    def __init__(self, block: SharedBlock) -> None:
        self.block = block

    def __del__(self) -> None:
        self.block.free.append(self.block)


class _Free(list[SharedBlock]):
    """Blocks of one size that nobody uses."""


class BlockPool:
    """Hands out blocks and keeps those that come back, by size.

    create: makes memory of so many bytes; raises DriverError if it cannot. limit: bytes of free blocks that are kept.
    """

    def __init__(self, create: Callable[[int], Memory], limit: int) -> None:
        self._create = create
        self._limit = limit
        self._free: defaultdict[int, _Free] = defaultdict(_Free)
        self.nbytes = 0
        """Bytes of all blocks that were made and not given back."""

    def take(self, nbytes: int) -> Lease:
        """A block of at least `nbytes`. Raises OutOfMemory."""
        size = _block_size(nbytes)
        free = self._free[size]
        try:
            return Lease(free.pop())
        except IndexError:
            return Lease(self._new(size, free))

    def release(self) -> int:
        """Give the free blocks back to the driver; returns their bytes."""
        released = 0
        for size, free in list(self._free.items()):
            while free:
                try:
                    free.pop()
                except IndexError:  # Another thread took the last one.
                    break
                released += size
        self.nbytes -= released
        return released

    def retire(self) -> None:
        """Keep nothing from now on: what comes back is of a device that was let go.

        What is still leased holds the pool, perhaps for long: copies of weights until the next device needs them.
        """
        self.release()
        for free in list(self._free.values()):
            free.__class__ = _Discarded

    def discard(self, lease: Lease) -> None:
        """Let a block go back to the driver and not to the pool: the NPU may still write it."""
        if lease.block.free is not _discarded:
            self.nbytes -= lease.block.nbytes
            lease.block.free = _discarded

    def _new(self, size: int, free: _Free) -> SharedBlock:
        if sum(size * len(blocks) for size, blocks in list(self._free.items())) > self._limit:
            self.release()
        try:
            memory = self._create(size)
        except DriverError:
            self.release()
            try:
                memory = self._create(size)
            except DriverError as error:
                text = f"no buffer of {size} bytes, {self.nbytes} are in use: {error}"
                raise OutOfMemory(text, lost=error.lost, blameless=error.blameless) from None
        self.nbytes += size
        return SharedBlock(memory, size, free, self)


class _Discarded(_Free):
    """Keeps nothing."""

    def append(self, block: SharedBlock, /) -> None:
        pass


_discarded: Final = _Discarded()


@cache
def _block_size(nbytes: int) -> int:
    """Whole pages, in eight steps to each power of two: at most 1/8 is unused beyond 8 pages."""
    pages = max(1, -(-nbytes // PAGE))
    step = max(1, 1 << (pages.bit_length() - 4)) if pages > 8 else 1
    return -(-pages // step) * step * PAGE


class LaunchOperand(NamedTuple):
    """A buffer of a launch.

    item: of the plan; None for scratch.
    host: how it holds the tensor, whose elements are `dtype`.
    nbytes: that the design needs.
    direct: whether it holds the tensor just as the tensor's own buffer does.
    key: for copies of values.
    result_bytes: of the tensor's own buffer, if it is a result.
    call: the op that reads it, for messages.
    """

    item: int | None
    output: bool
    host: HostOperand
    dtype: DType | None
    nbytes: int
    direct: bool
    key: int
    result_bytes: int
    call: Call | None


class ResidentBuffer(Buffer):
    """A result of an NPU. Reading `address` waits until it is there and lets the host see it.

    home: the NpuDevice, whose engine says where the host can read it; None if the CPU has computed it.
    lease: its block, or None.
    launch: what computes it, until that has ended.
    operand: how the block holds the tensor.
    """

    __slots__ = ("home", "host", "launch", "lease", "operand")

    host: SharedBlock | Buffer | None
    launch: Any
    lease: Lease | None
    operand: LaunchOperand

    def __init__(self, home: Any, lease: Lease, operand: LaunchOperand) -> None:
        self.home = home
        self.nbytes = operand.result_bytes
        self.lease = lease
        self.operand = operand
        self.host = None
        self.launch = None

    @property
    def pending(self) -> bool:
        """Whether its launch may be under way."""
        return self.launch is not None

    @property
    def address(self) -> int:  # type: ignore[override]
        """Of the first byte, for the host."""
        host = self.host
        if host is None:
            home = self.home
            host = self.host if home is None else home.engine.host_copy(self)
            assert host is not None
        return host.address


def leased_copy(value: Buffer, operand: LaunchOperand, pool: BlockPool) -> Lease:
    """A host value as a design wants it, made once for each way in which some do. Raises OutOfMemory."""
    assert operand.dtype is not None
    try:
        copies = value.copies
    except AttributeError:
        copies = value.copies = {}
    copy: Lease | None = copies.get(operand.key)
    if copy is not None and copy.block.pool is pool and copy.block.nbytes >= operand.nbytes:
        return copy
    elements = flat(value, operand.dtype)  # Waits for another device that computes it.
    lease = pool.take(operand.nbytes)
    lease.block.host_dirty = True
    pack(operand.host, elements, lease.block.bytes)
    copies[operand.key] = lease
    return lease


def host_form(resident: ResidentBuffer, allocator: Allocator) -> SharedBlock | Buffer:
    """Where the host has a result whose block it may read: there, or in a buffer of the tensor's own."""
    assert resident.lease is not None
    operand = resident.operand
    if operand.direct:
        return resident.lease.block
    assert operand.dtype is not None
    buffer = allocator.allocate(resident.nbytes)
    unpack(operand.host, resident.lease.block.bytes, flat(buffer, operand.dtype))
    return buffer
