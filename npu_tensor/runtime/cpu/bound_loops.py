"""What a kernel of the CPU device runs, as data: loops over memory and numbers that a run brings.

`step` makes the function that runs a kernel by itself; `loop_table` makes one for kernels that follow each other.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from npu_tensor.runtime.cpu.engine import Address
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.memory import Buffer
from npu_tensor.task import Step

__all__ = ["BoundLoop", "BoundLoops", "Location", "Number", "Slot", "joined", "step", "value_of", "with_constants"]


class Location(NamedTuple):
    """The address so many bytes behind the beginning of an item's memory."""

    item: int
    offset: int = 0


class Number(NamedTuple):
    """An item that is a number. kind: float, int or bool, as the kernel reads it."""

    item: int
    kind: type


Slot = Location | Number | int | float
"""What a kernel is given; an int or a float is the same in all runs."""


class BoundLoop(NamedTuple):
    """The arguments of `Pool.launch`. meta: an address."""

    kernel: Address
    meta: int
    n: int
    grain: int
    slots: tuple[Slot, ...]


class BoundLoops(NamedTuple):
    """Loops that run one after the other.

    new: items that get memory, and its bytes: results, and items that only these loops know. taken: results, and the
    operands whose memory they take over. keep: what must live as long as the loops. wrong: an item of `new` whose first
    8 bytes are not 0 after the last loop if it has met an index that is out of range. complain: the step that raises
    the error of that.
    """

    loops: tuple[BoundLoop, ...]
    new: tuple[tuple[int, int], ...]
    taken: tuple[tuple[int, int], ...] = ()
    keep: tuple[object, ...] = ()
    wrong: int | None = None
    complain: Step | None = None


def joined(parts: Sequence[BoundLoops]) -> BoundLoops:
    """The loops of all parts, of which only the last may go wrong.

    A result that has itself as donor was allocated by an earlier part.
    """
    return parts[-1]._replace(
        loops=tuple([loop for part in parts for loop in part.loops]),
        new=tuple([each for part in parts for each in part.new]),
        taken=tuple([each for part in parts for each in part.taken if each[0] != each[1]]),
        keep=tuple([each for part in parts for each in part.keep]),
    )


def with_constants(loops: BoundLoops, constants: Mapping[int, Buffer]) -> BoundLoops:
    """Loops in which some items are the same memory in all runs."""

    def slot_of(slot: Slot) -> Slot:
        if isinstance(slot, Location) and slot.item in constants:
            return constants[slot.item].address + slot.offset
        return slot

    bound = tuple([loop._replace(slots=tuple(map(slot_of, loop.slots))) for loop in loops.loops])
    return loops._replace(loops=bound, keep=(*loops.keep, *constants.values()))


def value_of(slot: Slot) -> Callable[[list[Any]], int | float]:
    """What the kernel is given, from the values of a run."""
    if isinstance(slot, Location):
        item, offset = slot
        return lambda values: values[item].address + offset
    if isinstance(slot, Number):
        item, kind = slot
        return lambda values: kind(values[item])
    return lambda values: slot


def step(owner: Processor, loops: BoundLoops, results: Iterable[int]) -> Step:
    """Return the function that runs loops. results: Items that it leaves in the list of values."""
    kept = frozenset(results)
    launch, forget, wrong, complain = owner.pool.launch, owner.allocator.forget_layouts, loops.wrong, loops.complain
    new = [(item, owner.allocator.allocation(nbytes)) for item, nbytes in loops.new]
    temporary = [item for item, _ in (*loops.new, *loops.taken) if item not in kept]
    room = max(temporary, default=-1) + 1  # Items that only these loops know lie beyond the list of values.
    launches = [_arguments(loop) for loop in loops.loops]

    def run(values: list[Any]) -> None:
        size = len(values)
        if size < room:
            values += [None] * (room - size)
        for item, allocate in new:
            values[item] = allocate()
        for item, donor in loops.taken:
            buffer = values[item] = values[donor]
            forget(buffer)
        for fixed, locations, numbers in launches:
            arguments = fixed.copy()
            for place, item, offset in locations:
                arguments[place] = values[item].address + offset
            for place, item, kind in numbers:
                arguments[place] = kind(values[item])
            launch(*arguments)
        if wrong is not None and ctypes.c_int64.from_address(values[wrong].address).value:
            assert complain is not None
            complain(values)
        for item in temporary:
            values[item] = None
        if size < room:
            del values[size:]

    return run


def _arguments(loop: BoundLoop) -> tuple[list[Any], list[tuple[int, int, int]], list[tuple[int, int, type]]]:
    """Return the arguments of `Pool.launch`, and those that a run fills in: addresses and numbers, by place."""
    fixed: list[Any] = [*loop[:4], *loop.slots]
    places = [*enumerate(loop.slots, 4)]
    locations = [(place, slot.item, slot.offset) for place, slot in places if isinstance(slot, Location)]
    numbers = [(place, slot.item, slot.kind) for place, slot in places if isinstance(slot, Number)]
    return fixed, locations, numbers
