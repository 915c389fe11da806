"""Kernels that follow each other, run by native code without Python in between.

A table describes their loops; see `launch.ll`. A run gives it the addresses of the values from outside, of those that
leave, and of one buffer in which all others lie, by liveness.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from npu_tensor.runtime.cpu.bound_loops import BoundLoops, Location, Number, Slot
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.memory import ALIGNMENT, Buffer
from npu_tensor.runtime.scratch import Lifetime, laid_out
from npu_tensor.task import Step

__all__ = ["BoundKernel", "table_step"]

_ZERO, _SCRATCH = 0, 1
"""Bases of what is the same in all runs, and of the values that do not leave."""


class BoundKernel(NamedTuple):
    """What a kernel runs, and the items of its results."""

    loops: BoundLoops
    results: Sequence[int]


def table_step(owner: Processor, kernels: Sequence[BoundKernel], dead: Iterable[int]) -> Step:
    """The function that runs the kernels. dead: items that nobody reads after the last of them."""
    return _Table(owner, kernels, frozenset(dead)).run


class _Table:
    """The loops of some kernels.

    Memory has a name: the item that it was made for, or of which it was taken over; with the number of a kernel if only
    this kernel knows it.
    """

    def __init__(self, owner: Processor, kernels: Sequence[BoundKernel], dead: frozenset[int]) -> None:
        self._kernels = kernels
        self._call, self._forget = owner.pool.run_loops, owner.allocator.forget_layouts
        self._memory: dict[Hashable, Hashable] = {}
        self._sizes = sizes = dict[Hashable, int]()
        overwritten: dict[Hashable, None] = {}  # memory from outside
        for number, (loops, _) in enumerate(kernels):
            for item, nbytes in loops.new:
                name = self._name(number, item)
                self._memory[name] = name
                sizes[name] = nbytes
            for item, donor in loops.taken:
                self._memory[item] = memory = self._memory.get(donor, donor)
                if memory not in sizes:
                    overwritten[memory] = None
        self._overwritten = tuple(item for item in overwritten if isinstance(item, int))
        leaving = [(item, self._memory[item]) for _, results in kernels for item in results if item not in dead]
        own = [*dict.fromkeys(memory for _, memory in leaving if memory in sizes)]
        self._allocations = [owner.allocator.allocation(sizes[memory]) for memory in own]
        self._leaving = [(item, own.index(memory)) for item, memory in leaving if memory in sizes]
        self._passed = [(item, memory) for item, memory in leaving if isinstance(memory, int) and memory not in sizes]
        self._offsets, nbytes = self._lay_out({name: size for name, size in sizes.items() if name not in own})
        self._scratch = owner.allocator.allocation(nbytes)
        # By what a base is: its number among the arguments of the call.
        self._bases: dict[Hashable, int] = {("own", memory): 2 + n for n, memory in enumerate(own)}
        self._given: list[tuple[int, type | None]] = []  # items whose address or number is a base
        self._ends: list[int] = []  # by kernel, loops until it has run
        records = [self._records(number) for number in range(len(kernels))]
        self._table = np.array([*chain.from_iterable(records)], np.int64)
        self._arguments = self._table.ctypes.data, self._ends[-1], 0

    def _name(self, kernel: int, item: int) -> Hashable:
        return item if item in self._kernels[kernel].results else (kernel, item)

    def _memory_of(self, kernel: int, item: int) -> Hashable:
        """The name of the memory of an item that a kernel reads or writes."""
        return self._memory.get((kernel, item), self._memory.get(item, item))

    def _lay_out(self, sizes: dict[Hashable, int]) -> tuple[dict[Hashable, int], int]:
        """Where memory of these names and sizes lies in the scratch buffer, and the bytes of that."""
        used: dict[Hashable, tuple[int, int]] = {}
        for number, (loops, results) in enumerate(self._kernels):
            items = [slot.item for loop in loops.loops for slot in loop.slots if isinstance(slot, Location)]
            for item in (*items, *results, *(item for item, _ in loops.new)):
                memory = self._memory_of(number, item)
                used[memory] = used.get(memory, (number, number))[0], number
        lifetimes = [Lifetime(-(-size // ALIGNMENT) * ALIGNMENT, *used[name]) for name, size in sizes.items()]
        offsets, nbytes = laid_out(lifetimes)
        return dict(zip(sizes, offsets, strict=True)), nbytes

    def _records(self, kernel: int) -> list[int]:
        """The entries of the loops of a kernel."""
        loops = self._kernels[kernel].loops
        self._ends.append((self._ends[-1] if self._ends else 0) + len(loops.loops))
        records: list[int] = []
        for loop in loops.loops:
            is_last = loop is loops.loops[-1]
            wrong = self._place(kernel, Location(loops.wrong)) if is_last and loops.wrong is not None else (_ZERO, 0)
            pairs = (self._place(kernel, slot) for slot in loop.slots)
            records += [*loop[:4], len(loop.slots), *wrong, *chain.from_iterable(pairs)]
        return records

    def _place(self, kernel: int, slot: Slot) -> tuple[int, int]:
        """The number of a base, and what is added to it."""
        if isinstance(slot, Location):
            memory = self._memory_of(kernel, slot.item)
            if memory in self._offsets:
                return _SCRATCH, self._offsets[memory] + slot.offset
            own = self._bases.get(("own", memory))
            assert isinstance(memory, int)
            return self._base(memory, None) if own is None else own, slot.offset
        if isinstance(slot, Number):
            return self._base(*slot), 0
        (bits,) = struct.unpack("q", struct.pack("d" if isinstance(slot, float) else "q", slot))
        return _ZERO, bits

    def _base(self, item: int, kind: type | None) -> int:
        """Of the address of an item from outside, or of a number."""
        if (item, kind) not in self._bases:
            self._bases[item, kind] = 2 + len(self._allocations) + len(self._given)
            self._given.append((item, kind))
        return self._bases[item, kind]

    def run(self, values: list[Any]) -> None:
        """The step."""
        scratch, own = self._scratch(), [allocate() for allocate in self._allocations]
        for item in self._overwritten:
            self._forget(values[item])
        given = [values[item].address if kind is None else kind(values[item]) for item, kind in self._given]
        done = self._call(*self._arguments, scratch.address, *[buffer.address for buffer in own], *given)
        if done < self._ends[-1]:
            self._complain(done, values, scratch, own)
        for item, number in self._leaving:
            values[item] = own[number]
        for item, memory in self._passed:
            values[item] = values[memory]

    def _complain(self, done: int, values: Sequence[Any], scratch: Buffer, own: Sequence[Buffer]) -> None:
        """Raise the error of the kernel whose loop has met a wrong index. done: loops before it."""
        kernel = bisect_right(self._ends, done)
        loops = self._kernels[kernel].loops
        assert loops.complain is not None
        operands = list(values)
        read = [slot.item for slot in loops.loops[-1].slots if isinstance(slot, Location)]
        for item in (*read, *(donor for _, donor in loops.taken)):
            memory = self._memory.get(item)
            if memory in self._sizes:
                number = self._bases.get(("own", memory))
                address = scratch.address + self._offsets[memory] if number is None else own[number - 2].address
                operands[item] = Buffer(address, self._sizes[memory])
        loops.complain(operands)
