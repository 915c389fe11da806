"""Host memory of tensors: an allocator that caches freed blocks, and buffers.

Touching fresh memory costs more than most kernels (64 MiB: 25 ms with 4 KiB pages, 5 ms with 2 MiB pages), so
blocks are reused instead of being given back to the operating system, and large ones ask for huge pages.

Small blocks (up to 1 MiB) come in fixed sizes. Each size has a list of free blocks, filled by cutting runs
from slabs of 2 MiB. Large blocks are mappings of their own, rounded up to 2 MiB.

Allocating and freeing a small block is one atomic `pop` or `append` on a list; everything else needs a lock.

Ctrl-C raises KeyboardInterrupt between any two Python instructions, also in a `__del__`. So a C function returns
blocks, and the state is consistent after each step under the lock. An interrupt can still lose one small block.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import sys
import threading
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from npu_tensor._util import units
from npu_tensor._util.forks import held_at_fork
from npu_tensor._util.interrupts import uninterrupted
from npu_tensor.errors import ArgumentError

ALIGNMENT = 64
"""Address alignment of every block in bytes: a cache line, and the widest vector register."""

_HUGE_PAGE = 2 << 20
_SLAB = _HUGE_PAGE
_LARGEST_SMALL = 1 << 20
# Cut this much at once for sizes that are smaller: a page or a few, so that rarely used sizes stay cheap.
_RUN = 16 << 10

_PRIVATE: dict[str, int] = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
_MADV_HUGEPAGE: int | None = getattr(mmap, "MADV_HUGEPAGE", None)


def _small_sizes() -> list[int]:
    """Return multiples of 64 bytes up to 512, then eight steps to each power of two: at most 1/8 is unused."""
    sizes = list(range(ALIGNMENT, 512 + 1, ALIGNMENT))
    while (base := sizes[-1]) < _LARGEST_SMALL:
        sizes += range(base + base // 8, 2 * base + 1, base // 8)
    return sizes


_SMALL_SIZES = _small_sizes()


class _Mapping:
    """Anonymous private memory whose first byte is aligned to a huge page."""

    __slots__ = ("_map", "address", "size")

    def __init__(self, size: int) -> None:
        # Map more than needed, because the address cannot be chosen; untouched pages cost nothing.
        self._map = mmap.mmap(-1, size + _HUGE_PAGE, **_PRIVATE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        self.address = -(-start // _HUGE_PAGE) * _HUGE_PAGE
        self.size = size
        if _MADV_HUGEPAGE is not None:
            with suppress(OSError):  # A kernel without huge pages.
                self._map.madvise(_MADV_HUGEPAGE, self.address - start, size)

    def close(self) -> None:
        self._map.close()


class _Block(partial[None]):
    """A small block. A call without arguments returns it to its free list."""

    __slots__ = ("address",)

    address: int


class _FreeList(list[_Block]):
    """Free blocks of one size. Holds the mappings, so that they outlive the buffers in them."""

    __slots__ = ("mappings", "size")

    def __init__(self, size: int, mappings: dict[int, _Mapping]) -> None:
        super().__init__()
        self.size = size
        self.mappings = mappings

    def new(self, address: int) -> _Block:
        """Return the block at an address, which is not in the list yet."""
        block = _Block(self.append)
        block.__setstate__((self.append, (block,), {}, None))  # type: ignore[attr-defined]  # that of partial
        block.address = address
        return block


class Buffer:
    """A block of host memory, which returns to its allocator with the last reference to the buffer.

    NumPy arrays made by `as_array` share the memory and keep the buffer alive. Contents start undefined.

    Attributes:
        address: Address of the first byte.
        nbytes: Usable bytes.
        home: Device that reaches the memory best; None for this machine's processor.
        copies: Copies of the contents on devices, by keys of the devices. The attribute is set by the first device that
            reads the buffer, which is never written again.
    """

    __slots__ = ("__del__", "__weakref__", "_memory", "address", "copies", "nbytes")

    address: int
    nbytes: int
    home: Any = None
    copies: dict[int, Any]
    # The slot holds a C function that returns the block. An ordinary `__del__` would swallow a KeyboardInterrupt that
    # arrives while it runs, and lose the block (tests/runtime/test_memory.py interrupts allocations).
    __del__: Callable[[], object]
    _memory: Any  # object that owns the memory: an array, a buffer or a `_Collector`

    # `Allocator.allocation` does the same without the call.
    def __init__(self, address: int, nbytes: int) -> None:
        self.address = address
        self.nbytes = nbytes

    @classmethod
    def from_array(cls, array: npt.NDArray[Any]) -> Buffer:
        """Wrap the memory of a C-contiguous array, at any alignment, without a copy. Keeps the array alive.

        Raises ArgumentError when the array is not C-contiguous or holds Python objects.
        """
        if not array.flags.c_contiguous:
            raise ArgumentError("only a C-contiguous array can be used without a copy")
        if array.dtype.hasobject:
            raise ArgumentError("an array of Python objects cannot be used as memory")
        # NumPy describes fields for 0.1 ms in the interface, which is otherwise the fastest way to the address.
        address = array.ctypes.data if array.dtype.names else array.__array_interface__["data"][0]
        buffer = cls(address, array.nbytes)
        buffer._memory = array
        return buffer

    def as_array(self, shape: tuple[int, ...], dtype: npt.DTypeLike, *, writeable: bool = True) -> npt.NDArray[Any]:
        """Return an array on the first bytes of the buffer, in C order, of any dtype of fixed size.

        Args:
            shape: Shape of the array.
            dtype: NumPy dtype, also one of ml_dtypes.
            writeable: False for an array that can never be made writeable; always so if the buffer's own array is.

        Raises:
            ArgumentError: The array does not fit into the buffer.
        """
        dtype = np.dtype(dtype)
        needed = math.prod(shape) * dtype.itemsize
        if needed > self.nbytes or min(shape, default=0) < 0:
            raise ArgumentError(f"shape {shape} of {dtype} needs {needed} bytes, the buffer has {self.nbytes}")
        memory = getattr(self, "_memory", None)
        fixed = not writeable or (isinstance(memory, np.ndarray) and not memory.flags.writeable)
        source = _Source()
        source.buffer = self
        source.__array_interface__ = {"version": 3, "shape": shape, "typestr": dtype.str, "data": (self.address, fixed)}
        array = np.asarray(source)
        return array if array.dtype == dtype else array.view(dtype)  # Records and types of ml_dtypes have no letter.

    @property
    def is_overwritable(self) -> bool:
        """True if only the buffer refers to its memory: no array, no other buffer, no device."""
        memory = getattr(self, "_memory", None)
        if type(self) is not Buffer or hasattr(self, "copies"):
            return False
        if isinstance(memory, np.ndarray):  # References: of the buffer, of this function, of the call.
            return memory.flags.owndata and memory.flags.writeable and sys.getrefcount(memory) <= 3
        return memory is None or isinstance(memory, _Collector)

    def copy(self) -> Buffer:
        """Return a buffer of the same bytes."""
        return Buffer.from_array(np.array(self.as_array((self.nbytes,), np.uint8)))

    def part(self, start: int, nbytes: int) -> Buffer:
        """Return a part of the memory as a buffer, without a copy. The part keeps this buffer alive."""
        # Parts of parts keep the whole alive but not each other: a program may make parts of parts in a loop.
        memory = getattr(self, "_memory", None)
        part = Buffer(self.address + start, nbytes)
        part._memory = memory if isinstance(memory, (Buffer, np.ndarray)) else self
        return part

    def __repr__(self) -> str:
        return f"Buffer(address={self.address:#x}, nbytes={self.nbytes})"


class _Source:
    """Memory of a buffer that NumPy makes an array of. The array keeps both alive."""

    __slots__ = ("__array_interface__", "buffer")

    __array_interface__: dict[str, Any]
    buffer: Buffer


@dataclass(frozen=True)
class MemoryStatistics:
    """Bytes, counted in whole blocks.

    Attributes:
        in_use: Bytes held by buffers.
        cached: Free bytes kept for reuse, including parts of slabs that are not cut yet.
        packed: Bytes of `in_use` that are copies of values in the layout of a kernel; see `Allocator.layouts`.
        peak: Upper bound on the largest `in_use` so far. Small blocks count from the first cut until their slab is
            released.
    """

    in_use: int
    cached: int
    packed: int
    peak: int


# Lock of all allocators; a process has one. A fork in the middle of a block would leave wrong counts in the child. The
# lock is not reentrant: a large buffer that a garbage collection frees inside the lock waits in _returned.
_lock = threading.Lock()
held_at_fork(_lock)


class Allocator:
    """Allocates buffers and caches their blocks.

    Attributes:
        pool_bytes: Upper bound on the bytes of free large blocks. The oldest ones beyond it are unmapped. Slabs are
            unmapped by `release` only.
        layouts: By value and key of a kernel, copies in the layout that the kernel reads, such as packed weights; None
            for a copy that was made once and not kept. They live as long as the value, or until `release`.
        layout_bytes: Upper bound on the bytes of `layouts`.
    """

    def __init__(self, pool_bytes: int = 1 << 30, layout_bytes: int = 1 << 30) -> None:
        self.pool_bytes = pool_bytes
        self.layout_bytes = layout_bytes
        self._lock = _lock
        self._slabs: dict[int, _Mapping] = {}
        self._slab_next = 0  # begin of the uncut rest of the newest slab; all others are cut to the end
        self._slab_end = 0
        self._cut_bytes = 0
        self._free_lists = [_FreeList(size, self._slabs) for size in _SMALL_SIZES]
        # By size in units of 64 bytes.
        self._small: list[_FreeList] = []
        for free in self._free_lists:
            self._small += [free] * (free.size // ALIGNMENT + 1 - len(self._small))

        self._large: dict[int, _Mapping] = {}  # in use or free
        self._idle: dict[int, int] = {}  # free ones, address -> size, oldest first
        self._large_bytes = 0
        self._returned: deque[int] = deque()
        self._peak = 0
        self.layouts: WeakKeyDictionary[Buffer, dict[Hashable, Buffer | None]] = WeakKeyDictionary()

    def forget_layouts(self, value: Buffer) -> None:
        """Drop the layouts of a buffer whose contents are about to change."""
        if self.layouts:
            self.layouts.pop(value, None)

    def keeps(self, layout: Buffer) -> bool:
        """Return True if `layouts` has room for one more."""
        return self._layout_bytes() + layout.nbytes <= self.layout_bytes

    def _layout_bytes(self) -> int:
        return sum(copy.nbytes for copies in list(self.layouts.values()) for copy in list(copies.values()) if copy)

    def allocate(self, nbytes: int) -> Buffer:
        """Return a buffer of `nbytes` usable bytes, aligned to 64; contents undefined. 0 is allowed.

        Raises:
            ArgumentError: The size is negative.
            MemoryError: The system has no memory left, even after all cached blocks were released.
        """
        if nbytes > _LARGEST_SMALL:
            return self._large_buffer(nbytes)
        return self.allocation(nbytes)()

    def allocation(self, nbytes: int) -> Callable[[], Buffer]:
        """Return a function that allocates like `allocate(nbytes)`, in two thirds of the time for small buffers.

        Raises ArgumentError for a negative size. The function may raise MemoryError.
        """
        if not 0 <= nbytes <= _LARGEST_SMALL:
            if nbytes < 0:
                raise ArgumentError(f"a buffer cannot have {nbytes} bytes")
            return partial(self.allocate, nbytes)
        free = self._small[(nbytes + 63) >> 6]
        take, cut, new = free.pop, self._cut, object.__new__

        def allocate() -> Buffer:
            # A call of __init__ takes 40 ns, the stores 10.
            buffer = new(Buffer)
            try:
                block = buffer.__del__ = take()
            except IndexError:
                block = buffer.__del__ = cut(free)
            buffer.address = block.address
            buffer.nbytes = nbytes
            return buffer

        return allocate

    def release(self) -> int:
        """Unmap `layouts` and all free memory: large blocks, and slabs without a block in use. Return its bytes."""
        self.layouts.clear()
        with self._lock:
            return self._release()

    def statistics(self) -> MemoryStatistics:
        """Return the bytes in use and the free bytes that are kept."""
        with self._lock:
            self._collect()
            free = sum(len(blocks) * blocks.size for blocks in self._free_lists)
            return MemoryStatistics(
                in_use=self._cut_bytes - free + self._large_bytes - self._idle_bytes(),
                cached=free + self._slab_end - self._slab_next + self._idle_bytes(),
                packed=self._layout_bytes(),
                peak=self._peak,
            )

    # Small blocks. _cut takes the lock itself; the other two are called inside it.

    def _cut(self, free: _FreeList) -> _Block:
        """Fill an empty free list from a slab and take one block."""
        with self._lock:
            with suppress(IndexError):
                return free.pop()  # Another thread filled the list or returned a block.
            size = free.size
            if self._slab_end - self._slab_next < size:
                self._new_slab()
            available = min(max(_RUN, size), self._slab_end - self._slab_next) // size * size
            blocks = [*map(free.new, range(self._slab_next + available - size, self._slab_next - 1, -size))]
            self._slab_next += available
            self._cut_bytes += available
            free.extend(blocks)
            self._note_peak()
            return free.pop()

    def _new_slab(self) -> None:
        """Cut the rest of the newest slab into the largest blocks that fit, and start another slab."""
        slab = self._map(_SLAB)
        while rest := self._slab_end - self._slab_next:
            free = self._free_lists[bisect_right(_SMALL_SIZES, rest) - 1]
            block = free.new(self._slab_next)
            self._slab_next += free.size
            self._cut_bytes += free.size
            free.append(block)
        self._slabs[slab.address] = slab
        self._slab_next, self._slab_end = slab.address, slab.address + slab.size

    @uninterrupted
    def _release_slabs(self) -> int:
        # Other threads take blocks without the lock, so remove all free blocks from their reach first.
        removed: list[tuple[_FreeList, list[_Block]]] = []
        free_bytes: defaultdict[int, int] = defaultdict(int)
        for free in self._free_lists:
            blocks: list[_Block] = []
            with suppress(IndexError):
                while True:
                    blocks.append(free.pop())
            removed.append((free, blocks))
            for block in blocks:
                free_bytes[block.address & -_SLAB] += free.size
        empty = set()
        for address, slab in self._slabs.items():
            newest = address + slab.size == self._slab_end
            if free_bytes[address] == (self._slab_next - address if newest else slab.size):
                empty.add(address)
                if newest:
                    self._slab_next = self._slab_end = 0
        for free, blocks in removed:
            free.extend(block for block in reversed(blocks) if block.address & -_SLAB not in empty)
        for address in empty:
            self._cut_bytes -= free_bytes[address]
            self._slabs.pop(address).close()
        return len(empty) * _SLAB

    # Large blocks.

    def _large_buffer(self, nbytes: int) -> Buffer:
        size = -(-nbytes // _HUGE_PAGE) * _HUGE_PAGE
        with self._lock:
            self._collect()
            address = next((address for address, idle in reversed(self._idle.items()) if idle == size), 0)
            if not address:
                mapping = self._map(size)
                address = mapping.address
                self._large[address] = mapping
                self._large_bytes += size
                self._idle[address] = size
            buffer = Buffer(address, nbytes)
            buffer._memory = _Collector(self)
            buffer.__del__ = partial(self._returned.append, address)
            del self._idle[address]
            self._note_peak()
            return buffer

    def _collect(self) -> None:
        """Add returned large blocks to the free ones, and unmap the oldest beyond the limit."""
        while self._returned:
            address = self._returned[0]
            self._idle[address] = self._large[address].size
            self._returned.popleft()
        surplus = self._idle_bytes() - self.pool_bytes
        while surplus > 0:
            surplus -= self._unmap_oldest()

    def _unmap_oldest(self) -> int:
        address = next(iter(self._idle))
        mapping = self._large[address]
        size = mapping.size
        del self._idle[address], self._large[address]
        self._large_bytes -= size
        mapping.close()
        return size

    def _idle_bytes(self) -> int:
        return sum(self._idle.values())

    # Both kinds.

    def _map(self, size: int) -> _Mapping:
        try:
            return _Mapping(size)
        except (OSError, OverflowError, ValueError):
            self._release()
        try:
            return _Mapping(size)
        except (OSError, OverflowError, ValueError) as error:
            in_use = self._cut_bytes + self._large_bytes
            raise MemoryError(f"cannot allocate {units.size(size)}, and {units.size(in_use)} are in use") from error

    def _release(self) -> int:
        self._collect()
        released = self._release_slabs()
        while self._idle:
            released += self._unmap_oldest()
        return released

    def _note_peak(self) -> None:
        self._peak = max(self._peak, self._cut_bytes + self._large_bytes - self._idle_bytes())


class _Collector:
    """Member of a large buffer that unmaps memory beyond the limit when the buffer has returned its block."""

    __slots__ = ("allocator",)

    def __init__(self, allocator: Allocator) -> None:
        self.allocator = allocator

    def __del__(self) -> None:
        if not self.allocator._lock.locked():  # A garbage collection inside the lock would deadlock.
            with self.allocator._lock:
                self.allocator._collect()
