"""Loops of a kernel of the CPU device, as data. A run provides memory and numbers.

`step` makes the function that runs one kernel. A `LoopTable` runs consecutive kernels in native code without Python in
between, see `launch.ll`: a run provides the addresses of inputs, of results, and of one scratch buffer for all other
values, which is laid out by liveness.
"""

from __future__ import annotations

import ctypes
import struct
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import chain, count
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
    """

    item: int
    offset: int
    packing: Packs

    @property
    def key(self) -> Hashable:
        """Key that is equal for slots with equal packed forms."""
        return self.item, self.offset, self.packing.key

    def buffer(self, owner: Processor, values: Sequence[Any]) -> Buffer:
        """Return the packed form of the item's value."""
        value = values[self.item]
        packed = owner.packed(self.packing, value, [value.address + self.offset], keep=True)
        assert packed is not None
        return packed


Slot = Location | Number | Packed | int | float
"""Argument of a kernel; an int or a float is the same in all runs."""


class BoundLoop(NamedTuple):
    """Arguments of `Pool.launch`; `meta` is an address."""

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


def packed_items(loops: BoundLoops) -> list[int]:
    """Return the items that loops read in packed form."""
    return [slot.item for loop in loops.loops for slot in loop.slots if isinstance(slot, Packed)]


def value_of(slot: Slot) -> Callable[[list[Any]], int | float]:
    """Return the function that gets an argument of the kernel from the values of a run."""
    if isinstance(slot, Location):
        item, offset = slot
        return lambda values: values[item].address + offset
    if isinstance(slot, Number):
        item, kind = slot
        return lambda values: kind(values[item])
    assert not isinstance(slot, Packed)
    return lambda values: slot


def step(owner: Processor, loops: BoundLoops, results: Iterable[int]) -> Step:
    """Return the function that runs loops.

    Args:
        owner: Processor that runs the loops.
        loops: The loops.
        results: Items that a run leaves in the list of values.
    """
    kept = frozenset(results)
    launch, forget, raise_error = owner.pool.launch, owner.allocator.forget_layouts, loops.raise_error
    temporary = [item for item, _ in (*loops.new, *loops.overwritten) if item not in kept]
    # Items that only these loops use are appended to the list of values, so that negative indices reach them. Their
    # numbers may be those of other values of the plan.
    index = {item: -1 - number for number, item in enumerate(temporary)}
    extension = [None] * len(temporary)
    new = [(index.get(item, item), owner.allocator.allocation(nbytes)) for item, nbytes in loops.new]
    overwritten = [(index.get(item, item), index.get(donor, donor)) for item, donor in loops.overwritten]
    numbers_of: defaultdict[Hashable, int] = defaultdict(count().__next__)  # of packed forms
    launches = [
        (fixed, locations, numbers, [(place, numbers_of[slot.key], slot) for place, slot in packed])
        for fixed, locations, numbers, packed in (_arguments(loop, index) for loop in loops.loops)
    ]
    wrong = None if loops.wrong is None else index.get(loops.wrong, loops.wrong)

    def run(values: list[Any], keep: Any = loops.keep) -> None:  # The default keeps the memory of `meta` alive.
        if extension:
            values += extension
        for item, allocate in new:
            values[item] = allocate()
        for item, donor in overwritten:
            buffer = values[item] = values[donor]
            forget(buffer)
        buffers: dict[int, Buffer] = {}
        for fixed, locations, numbers, packed in launches:
            arguments = fixed.copy()
            for place, number, slot in packed:
                if number not in buffers:
                    buffers[number] = slot.buffer(owner, values)
                arguments[place] = buffers[number].address
            for place, item, offset in locations:
                arguments[place] = values[item].address + offset
            for place, item, kind in numbers:
                arguments[place] = kind(values[item])
            launch(*arguments)
        if wrong is not None and ctypes.c_int64.from_address(values[wrong].address).value:
            assert raise_error is not None
            raise_error(values)
        if extension:
            del values[-len(extension) :]

    return run


def _arguments(
    loop: BoundLoop, index: Mapping[int, int]
) -> tuple[list[Any], list[tuple[int, int, int]], list[tuple[int, int, type]], list[tuple[int, Packed]]]:
    """Return the arguments of `Pool.launch`, and the positions of those that a run fills in.

    Args:
        loop: The loop.
        index: Indices of items that are not at their number in the list of values.
    """
    fixed: list[Any] = [*loop[:4], *loop.slots]
    places = [*enumerate(loop.slots, 4)]
    locations = [
        (place, index.get(slot.item, slot.item), slot.offset) for place, slot in places if isinstance(slot, Location)
    ]
    numbers = [(place, slot.item, slot.kind) for place, slot in places if isinstance(slot, Number)]
    packed = [(place, slot) for place, slot in places if isinstance(slot, Packed)]
    return fixed, locations, numbers, packed


_ZERO, _SCRATCH, _FIRST = 0, 1, 2
"""Numbers of bases: constants of all runs, the scratch buffer, and the first of all others."""


class BoundKernel(NamedTuple):
    """Loops of a kernel and the items of its results."""

    loops: BoundLoops
    results: Sequence[int]


Memory = int | tuple[int, int]
"""Name of a block of memory: the item that it was allocated for, or (kernel, item) if the item exists inside one kernel
only. An item that takes over a block has the block's name."""


class LoopTable:
    """Loops of consecutive kernels.

    Args:
        unread: Items that are not read after the last kernel.
    """

    def __init__(self, owner: Processor, kernels: Sequence[BoundKernel], unread: frozenset[int]) -> None:
        self._kernels = kernels
        self._call, self._forget = owner.pool.run_loops, owner.allocator.forget_layouts
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
        blocks = [*dict.fromkeys(memory for _, memory in kept if memory in self._sizes)]
        self._own = {memory: number for number, memory in enumerate(blocks)}  # blocks that outlive the call
        self._allocations = [owner.allocator.allocation(self._sizes[memory]) for memory in blocks]
        self._results = [(item, self._own[memory]) for item, memory in kept if memory in self._own]
        self._renamed = [(item, memory) for item, memory in kept if isinstance(memory, int) and memory in changed]
        slots = [slot for loops, _ in kernels for loop in loops.loops for slot in loop.slots]
        self._owner, self._packed = owner, {slot.key: slot for slot in slots if isinstance(slot, Packed)}
        self._offsets, nbytes = self._lay_out()
        self._scratch = owner.allocator.allocation(nbytes)
        # Items whose address or number is a base, and its number.
        self._outside: dict[tuple[int, type | None], int] = {}
        self._ends: list[int] = []  # by kernel, loops until it has run
        records = [self._records(number) for number in range(len(kernels))]
        self._table = np.array([*chain.from_iterable(records)], np.int64)
        self._arguments = self._table.ctypes.data, self._ends[-1], 0

    def _memory_of(self, kernel: int, item: int) -> Memory:
        return self._memory.get((kernel, item), self._memory.get(item, item))

    def _lay_out(self) -> tuple[dict[Memory, int], int]:
        """Return the offsets of blocks in the scratch buffer, and its bytes."""
        used: dict[Memory, tuple[int, int]] = {}
        for number, (loops, results) in enumerate(self._kernels):
            items = [slot.item for loop in loops.loops for slot in loop.slots if isinstance(slot, Location)]
            for item in (*items, *results, *(item for item, _ in loops.new)):
                memory = self._memory_of(number, item)
                used[memory] = used.get(memory, (number, number))[0], number
        inside = [memory for memory in self._sizes if memory not in self._own]
        sizes = [-(-self._sizes[memory] // ALIGNMENT) * ALIGNMENT for memory in inside]
        offsets, nbytes = laid_out([Lifetime(size, *used[each]) for size, each in zip(sizes, inside, strict=True)])
        return dict(zip(inside, offsets, strict=True)), nbytes

    def _records(self, kernel: int) -> list[int]:
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
        """Return the number of a base, and the offset from it."""
        if isinstance(slot, Location):
            memory = self._memory_of(kernel, slot.item)
            if memory in self._offsets:
                return _SCRATCH, self._offsets[memory] + slot.offset
            if memory in self._own:
                return _FIRST + self._own[memory], slot.offset
            assert isinstance(memory, int)
            return self._base(memory, None), slot.offset
        if isinstance(slot, Number):
            return self._base(*slot), 0
        if isinstance(slot, Packed):
            return _FIRST + len(self._own) + [*self._packed].index(slot.key), 0
        (bits,) = struct.unpack("q", struct.pack("d" if isinstance(slot, float) else "q", slot))
        return _ZERO, bits

    def _base(self, item: int, kind: type | None) -> int:
        """Return the base for the address of an item from outside, or for a number."""
        return self._outside.setdefault((item, kind), _FIRST + len(self._own) + len(self._packed) + len(self._outside))

    def run(self, values: list[Any]) -> None:
        scratch, own = self._scratch(), [allocate() for allocate in self._allocations]
        own += [slot.buffer(self._owner, values) for slot in self._packed.values()]
        for item in self._changed:
            self._forget(values[item])
        outside = [values[item].address if kind is None else kind(values[item]) for item, kind in self._outside]
        loops_run = self._call(*self._arguments, scratch.address, *[buffer.address for buffer in own], *outside)
        if loops_run < self._ends[-1]:
            self._complain(bisect_right(self._ends, loops_run), values, scratch, own)
        for item, number in self._results:
            values[item] = own[number]
        for item, source in self._renamed:
            values[item] = values[source]

    def _complain(self, kernel: int, values: Sequence[Any], scratch: Buffer, own: Sequence[Buffer]) -> None:
        """Raise the error of a kernel that has met a wrong index."""
        loops = self._kernels[kernel].loops
        assert loops.raise_error is not None
        operands = list(values)
        for item, memory in self._memory.items():
            if isinstance(item, int):
                operands[item] = self._buffer(memory, values, scratch, own)
        loops.raise_error(operands)
        raise AssertionError("NumPy takes an index that a kernel refuses")

    def _buffer(self, memory: Memory, values: Sequence[Any], scratch: Buffer, own: Sequence[Buffer]) -> Buffer:
        if isinstance(memory, int) and memory not in self._sizes:
            block: Buffer = values[memory]
            return block
        number = self._own.get(memory)
        address = scratch.address + self._offsets[memory] if number is None else own[number].address
        return Buffer(address, self._sizes[memory])
