"""Memory shared by host and NPU: blocks of a pool, and values that live in them.

The NPU does not take part in the cache coherence of the processor. Writes of one side become visible to the other one
by a sync, and each block records which syncs are due:

    block.host_dirty        The host caches may hold lines that memory does not have. Sync before the NPU reads the
                            block, and also before the NPU writes it: otherwise these lines overwrite its result.
    block.device_dirty      The host caches may hold lines that are older than memory. Sync before the host reads.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from npu_tensor.dtypes import DType
from npu_tensor.kernels.offer import HostOperand
from npu_tensor.ops.declare import Call
from npu_tensor.runtime.memory import Allocator, Buffer
from npu_tensor.runtime.npu.driver import DriverError, Memory
from npu_tensor.runtime.npu.packing import flat, pack, unpack

PAGE: Final = 4096
"""Allocation granularity of the driver, in bytes."""


class OutOfMemory(DriverError):
    """Error for a buffer that the driver cannot allocate, even after all free blocks were released."""


class SharedBlock:
    """A driver buffer with its cache state. A block that is not `reusable` does not go back to its pool."""

    __slots__ = ("address", "bytes", "device_dirty", "host_dirty", "memory", "nbytes", "pool", "reusable")

    def __init__(self, memory: Memory, nbytes: int, pool: BlockPool) -> None:
        self.memory = memory
        self.nbytes = nbytes
        self.pool = pool
        self.reusable = True
        self.bytes = memory.bytes
        self.address = memory.address
        # The operating system clears new pages through the processor's caches.
        self.host_dirty = True
        self.device_dirty = False

    def to_device(self) -> None:
        """Make host writes visible to the NPU. Raises DriverError."""
        self.memory.to_device()
        self.host_dirty = False

    def from_device(self) -> None:
        """Make NPU writes visible to the host. Raises DriverError."""
        self.memory.from_device()
        self.device_dirty = False


class Lease:
    """The right to use a block. The block returns to its pool when the lease is deleted."""

    __slots__ = ("block",)

    def __init__(self, block: SharedBlock) -> None:
        self.block = block

    def __del__(self) -> None:
        self.block.pool.put_back(self.block)


class BlockPool:
    """Pool of blocks, which keeps returned blocks for reuse, by size.

    Args:
        create: Function that allocates a number of bytes, or raises DriverError.
        limit: Upper bound on the bytes of free blocks.
    """

    def __init__(self, create: Callable[[int], Memory], limit: int) -> None:
        self._create = create
        self._limit = limit
        self._free: defaultdict[int, list[SharedBlock]] = defaultdict(list)
        self._retired = False
        self.nbytes = 0
        """Bytes of all blocks that were allocated and not released."""

    def take(self, nbytes: int) -> Lease:
        """Lease a block of at least `nbytes`. Raises OutOfMemory."""
        size = _block_size(nbytes)
        try:
            return Lease(self._free[size].pop())
        except IndexError:
            return Lease(self._allocate(size))

    def put_back(self, block: SharedBlock) -> None:
        """Keep the block of an ended lease for reuse."""
        if block.reusable and not self._retired:
            self._free[block.nbytes].append(block)

    def release(self) -> int:
        """Return the free blocks to the driver. Returns their bytes."""
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
        """Release the free blocks, and from now on each block whose lease ends.

        Copies of weights may hold leases of a closed device for a long time.
        """
        self._retired = True
        self.release()

    def discard(self, lease: Lease) -> None:
        """Exclude a block from reuse because the NPU may still write it."""
        if lease.block.reusable:
            self.nbytes -= lease.block.nbytes
            lease.block.reusable = False

    def _allocate(self, size: int) -> SharedBlock:
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
        return SharedBlock(memory, size, self)


@cache
def _block_size(nbytes: int) -> int:
    """Round up to pages, in eight steps per power of two: beyond 8 pages at most 1/8 is unused."""
    pages = max(1, -(-nbytes // PAGE))
    step = max(1, 1 << (pages.bit_length() - 4)) if pages > 8 else 1
    return -(-pages // step) * step * PAGE


@dataclass(frozen=True, slots=True)
class Argument:
    """A buffer of a launch.

    Attributes:
        item: Item of the plan; None for scratch memory.
        nbytes: Bytes that the designs need, with padding.
        result_bytes: Bytes of the tensor's own buffer, for a result.
        call: Op that reads it first, for messages.
        key: Key of copies of a value in this form.
    """

    item: int | None
    output: bool
    host: HostOperand
    dtype: DType | None
    nbytes: int
    form: HostOperand | None = None
    result_bytes: int = 0
    call: Call | None = None
    key: int = 0

    @property
    def direct(self) -> bool:
        """True if the host buffer has the same contents as the tensor's own buffer."""
        return self.form is None and self.item is not None


class ResidentBuffer(Buffer):
    """A result of an NPU. Reading `address` waits for the result and syncs it for the host.

    Attributes:
        home: NpuDevice that holds the value; None if the CPU has computed it.
        launch: Launch that computes it until that has ended, or the error that replaces the value.
        argument: Layout of the tensor in the block.
        host: Host memory with the value, once it has been read.
    """

    __slots__ = ("argument", "home", "host", "launch", "lease")

    host: SharedBlock | Buffer | None
    launch: Any
    lease: Lease | None
    argument: Argument

    def __init__(self, home: Any, lease: Lease, argument: Argument) -> None:
        self.home = home
        self.nbytes = argument.result_bytes
        self.lease = lease
        self.argument = argument
        self.host = None
        self.launch = None

    @property
    def pending(self) -> bool:
        """True if its launch may be in flight."""
        return self.launch is not None

    @property
    def address(self) -> int:  # type: ignore[override]
        """Host address of the first byte."""
        host = self.host
        if host is None:
            home = self.home
            host = self.host if home is None else home.engine.host_copy(self)
            assert host is not None
        return host.address


def leased_copy(value: Buffer, argument: Argument, pool: BlockPool) -> Lease:
    """Copy a host value into the form that a design reads. The copy is kept with the value. Raises OutOfMemory."""
    assert argument.dtype is not None
    try:
        copies = value.copies
    except AttributeError:
        copies = value.copies = {}
    copy: Lease | None = copies.get(argument.key)
    if copy is not None and copy.block.pool is pool and copy.block.nbytes >= argument.nbytes:
        return copy
    elements = flat(value, argument.dtype)  # Waits for another device that computes it.
    lease = pool.take(argument.nbytes)
    lease.block.host_dirty = True
    pack(argument.host, elements, lease.block.bytes)
    copies[argument.key] = lease
    return lease


def host_form(resident: ResidentBuffer, allocator: Allocator) -> SharedBlock | Buffer:
    """Return host memory with a synced result: its block, or a new buffer if the block has another form."""
    assert resident.lease is not None
    argument = resident.argument
    if argument.direct:
        return resident.lease.block
    assert argument.dtype is not None
    buffer = allocator.allocate(resident.nbytes)
    unpack(argument.host, resident.lease.block.bytes, flat(buffer, argument.dtype))
    return buffer
