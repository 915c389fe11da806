"""Loops of a kernel of the CPU device, as data. A run provides memory and numbers.

A `LoopTable` runs them, also those of consecutive kernels, in native code without Python in between, see `launch.ll`: a
run provides the addresses of inputs, of results, and of one scratch buffer for all other values, which is laid out by
liveness.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import accumulate, chain, count
from typing import Any, NamedTuple

import numpy as np

from npu_tensor.runtime.cpu.engine import Address
from npu_tensor.runtime.cpu.gemm import Packs
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.memory import ALIGNMENT, Buffer
from npu_tensor.runtime.scratch import Lifetime, laid_out
from npu_tensor.task import Step


class Location(NamedTuple):
    """Address in an item's memory, as an offset in bytes from its beginning."""

    item: int
    offset: int = 0


class Number(NamedTuple):
    """A number that a run provides.

    Attributes:
        item: Its item.
        kind: Type that the kernel reads: float, int or bool.
    """

    item: int
    kind: type


class Packed(NamedTuple):
    """Address of an item that was packed for a product, see `Processor.packed`.

    Attributes:
        item: Its item, which must exist before the loops run.
        offset: Bytes before the first element.
        packing: Packing of the item.
        persistent: True if the packed form is kept from the first use on, False from the second one on.
    """

    item: int
    offset: int
    packing: Packs
    persistent: bool = True

    @property
    def key(self) -> Hashable:
        """Key that is equal for slots with equal packed forms."""
        return self.item, self.offset, self.packing.key

    def buffer(self, owner: Processor, values: Sequence[Any]) -> Buffer:
        """Return the packed form of the item's value."""
        value = values[self.item]
        return owner.packed(self.packing, value, value.address + self.offset, self.persistent)


Slot = Location | Number | Packed | int | float
"""Argument of a kernel; an int or a float is the same in all runs."""


class BoundLoop(NamedTuple):
    """Leading arguments of `Pool.launch`, of which `meta` is an address, and its slots."""

    kernel: Address
    meta: int
    n: int
    grain: int
    slots: tuple[Slot, ...]


class BoundLoops(NamedTuple):
    """Loops that run one after another.

    Attributes:
        new: Items that get memory, with the bytes: results, and items that only these loops use.
        overwritten: Results, each with the operand whose memory it takes over.
        keep: Objects that must live as long as the loops.
        wrong: Item of `new` whose first 8 bytes are not 0 after the last loop if an index was out of range.
        raise_error: Step that raises the error of such an index.
    """

    loops: tuple[BoundLoop, ...]
    new: tuple[tuple[int, int], ...]
    overwritten: tuple[tuple[int, int], ...] = ()
    keep: tuple[object, ...] = ()
    wrong: int | None = None
    raise_error: Step | None = None


def joined(parts: Sequence[BoundLoops]) -> BoundLoops:
    """Return the loops of all parts, of which only the last may go wrong.

    A result that has itself as donor was allocated by an earlier part.
    """
    return parts[-1]._replace(
        loops=tuple([loop for part in parts for loop in part.loops]),
        new=tuple([each for part in parts for each in part.new]),
        overwritten=tuple([each for part in parts for each in part.overwritten if each[0] != each[1]]),
        keep=tuple([each for part in parts for each in part.keep]),
    )


def renumbered(loops: BoundLoops, items: Mapping[int, int]) -> BoundLoops:
    """Return loops that use other items in place of those in `items`. Items that only these loops use are new."""
    own = defaultdict(count(max(items.values(), default=0) + 1).__next__, items)

    def slot_of(slot: Slot) -> Slot:
        if isinstance(slot, Location):
            return Location(own[slot.item], slot.offset)
        return slot._replace(item=own[slot.item]) if isinstance(slot, (Number, Packed)) else slot

    return loops._replace(
        loops=tuple(
            [
                BoundLoop(each.kernel, each.meta, each.n, each.grain, (*map(slot_of, each.slots),))
                for each in loops.loops
            ]
        ),
        new=tuple([(own[item], nbytes) for item, nbytes in loops.new]),
        overwritten=tuple([(own[item], own[donor]) for item, donor in loops.overwritten]),
        wrong=None if loops.wrong is None else own[loops.wrong],
    )


def with_constants(loops: BoundLoops, constants: Mapping[int, Buffer]) -> BoundLoops:
    """Return loops in which some items are the same memory in all runs."""

    def slot_of(slot: Slot) -> Slot:
        if isinstance(slot, Location) and slot.item in constants:
            return constants[slot.item].address + slot.offset
        return slot

    bound = tuple([loop._replace(slots=tuple(map(slot_of, loop.slots))) for loop in loops.loops])
    return loops._replace(loops=bound, keep=(*loops.keep, *constants.values()))


def step(owner: Processor, loops: BoundLoops, results: Iterable[int]) -> Step:
    """Return the function that runs loops and leaves some items in the list of values."""
    return LoopTable(owner, [BoundKernel(loops, tuple(results))]).step()


class BoundKernel(NamedTuple):
    """Loops of a kernel and the items of its results."""

    loops: BoundLoops
    results: Sequence[int]


Memory = int | tuple[int, int]
"""Name of a block of memory: the item that it was allocated for, or (kernel, item) if the item exists inside one kernel
only. An item that takes over a block has the block's name."""


class LoopTable:
    """Loops of consecutive kernels, bound to be run by one native call.

    The call gets a list of bases, from which the arguments of loops are offsets: 0 for constants, the memory that
    outlives the call, the scratch buffer if there is one, packed operands, the addresses and numbers of other items.

    Args:
        owner: Processor that runs the loops.
        kernels: The loops.
        unread: Items that are not read after the last kernel.
    """

    def __init__(self, owner: Processor, kernels: Sequence[BoundKernel], unread: frozenset[int] = frozenset()) -> None:
        self._kernels = kernels
        self._owner = owner
        self._memory: dict[Memory, Memory] = {}
        self._sizes: dict[Memory, int] = {}
        changed: dict[int, None] = {}
        for number, (loops, results) in enumerate(kernels):
            for item, nbytes in loops.new:
                name = item if item in results else (number, item)
                self._memory[name] = name
                self._sizes[name] = nbytes
            for item, donor in loops.overwritten:
                self._memory[item] = memory = self._memory.get(donor, donor)
                if isinstance(memory, int) and memory not in self._sizes:
                    changed[memory] = None
        self._changed = tuple(changed)  # items from outside that are written to
        kept = [(item, self._memory[item]) for _, results in kernels for item in results if item not in unread]
        own = dict.fromkeys(memory for _, memory in kept if memory in self._sizes)  # blocks that outlive the call
        scratch, nbytes = self._lay_out([memory for memory in self._sizes if memory not in own])
        sizes = [*map(self._sizes.__getitem__, own), *([nbytes] if nbytes else [])]
        self._allocations = [owner.allocator.allocation(size) for size in sizes]
        # Number among the allocations, and offset.
        self._places = {memory: (number, 0) for number, memory in enumerate(own)}
        self._places |= {memory: (len(own), offset) for memory, offset in scratch.items()}
        self._results = [(item, self._places[memory][0]) for item, memory in kept if memory in own]
        self._renamed = [(item, memory) for item, memory in kept if isinstance(memory, int) and memory in changed]
        slots = [slot for loops, _ in kernels for loop in loops.loops for slot in loop.slots]
        self._packed = {slot.key: slot for slot in slots if isinstance(slot, Packed)}
        # Items whose address or number is a base, and its number.
        self._outside: dict[tuple[int, type | None], int] = {}
        self._ends = [*accumulate(len(loops.loops) for loops, _ in kernels)]  # by kernel, loops until it has run
        records = [self._records(number) for number in range(len(kernels))]
        self._table = np.array([*chain.from_iterable(records)], np.int64)
        # A single small loop is not worth letting another Python thread in.
        releases = len(kernels) > 1 or any(loop.n > loop.grain for loop in kernels[0].loops.loops)
        self._arguments = self._table.ctypes.data, self._ends[-1], int(releases), 0

    def _memory_of(self, kernel: int, item: int) -> Memory:
        return self._memory.get((kernel, item), self._memory.get(item, item))

    def _lay_out(self, blocks: Sequence[Memory]) -> tuple[dict[Memory, int], int]:
        """Return the offsets of blocks in the scratch buffer, and its bytes."""
        used: dict[Memory, tuple[int, int]] = {}
        for number, (loops, results) in enumerate(self._kernels):
            items = [slot.item for loop in loops.loops for slot in loop.slots if isinstance(slot, Location)]
            for item in (*items, *results, *(item for item, _ in loops.new)):
                memory = self._memory_of(number, item)
                used[memory] = used.get(memory, (number, number))[0], number
        sizes = [-(-self._sizes[memory] // ALIGNMENT) * ALIGNMENT for memory in blocks]
        offsets, nbytes = laid_out([Lifetime(size, *used[each]) for size, each in zip(sizes, blocks, strict=True)])
        return dict(zip(blocks, offsets, strict=True)), nbytes

    def _records(self, kernel: int) -> list[int]:
        loops = self._kernels[kernel].loops
        records: list[int] = []
        for loop in loops.loops:
            is_last = loop is loops.loops[-1]
            wrong = self._argument(kernel, Location(loops.wrong)) if is_last and loops.wrong is not None else (0, 0)
            pairs = (self._argument(kernel, slot) for slot in loop.slots)
            records += [*loop[:4], len(loop.slots), *wrong, *chain.from_iterable(pairs)]
        return records

    def _argument(self, kernel: int, slot: Slot) -> tuple[int, int]:
        """Return the number of a base, and the offset from it."""
        if isinstance(slot, Location):
            memory = self._memory_of(kernel, slot.item)
            if memory in self._places:
                number, offset = self._places[memory]
                return 1 + number, offset + slot.offset
            assert isinstance(memory, int)
            return self._base(memory, None), slot.offset
        if isinstance(slot, Number):
            return self._base(*slot), 0
        if isinstance(slot, Packed):
            return 1 + len(self._allocations) + [*self._packed].index(slot.key), 0
        (bits,) = struct.unpack("q", struct.pack("d" if isinstance(slot, float) else "q", slot))
        return 0, bits

    def _base(self, item: int, kind: type | None) -> int:
        """Return the base for the address of an item from outside, or for a number."""
        first = 1 + len(self._allocations) + len(self._packed)
        return self._outside.setdefault((item, kind), first + len(self._outside))

    def step(self) -> Step:
        """Return the function that runs the loops."""
        owner, call, arguments, loops = self._owner, self._owner.pool.run_loops, self._arguments, self._ends[-1]
        allocations, packed, outside = self._allocations, [*self._packed.values()], [*self._outside]
        changed, results, renamed = self._changed, self._results, self._renamed

        def run(values: list[Any]) -> None:
            own, bases = [], [*arguments]
            for allocate in allocations:
                buffer = allocate()
                own.append(buffer)
                bases.append(buffer.address)
            for slot in packed:
                buffer = slot.buffer(owner, values)
                own.append(buffer)  # It lives until the loops have run.
                bases.append(buffer.address)
            for item in changed:
                owner.allocator.forget_layouts(values[item])
            for item, kind in outside:
                bases.append(values[item].address if kind is None else kind(values[item]))
            loops_run = call(*bases)
            if loops_run < loops:
                self._complain(bisect_right(self._ends, loops_run), values, own)
            for item, number in results:
                values[item] = own[number]
            for item, source in renamed:
                values[item] = values[source]

        return run

    def _complain(self, kernel: int, values: Sequence[Any], own: Sequence[Buffer]) -> None:
        """Raise the error of a kernel that has met a wrong index."""
        loops = self._kernels[kernel].loops
        assert loops.raise_error is not None
        operands = list(values)
        for item, memory in self._memory.items():
            if isinstance(item, int):
                operands[item] = self._buffer(memory, values, own)
        loops.raise_error(operands)
        raise AssertionError("NumPy takes an index that a kernel refuses")

    def _buffer(self, memory: Memory, values: Sequence[Any], own: Sequence[Buffer]) -> Buffer:
        if memory in self._places:
            number, offset = self._places[memory]
            return Buffer(own[number].address + offset, self._sizes[memory])
        assert isinstance(memory, int)
        block: Buffer = values[memory]
        return block
