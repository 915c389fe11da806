"""Loops of a kernel of the CPU device, as data. A run provides memory and numbers.

`step` makes the function that runs one kernel; `loop_table` makes one for consecutive kernels.
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


Slot = Location | Number | int | float
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


def with_constants(loops: BoundLoops, constants: Mapping[int, Buffer]) -> BoundLoops:
    """Return loops in which some items are the same memory in all runs."""

    def slot_of(slot: Slot) -> Slot:
        if isinstance(slot, Location) and slot.item in constants:
            return constants[slot.item].address + slot.offset
        return slot

    bound = tuple([loop._replace(slots=tuple(map(slot_of, loop.slots))) for loop in loops.loops])
    return loops._replace(loops=bound, keep=(*loops.keep, *constants.values()))


def value_of(slot: Slot) -> Callable[[list[Any]], int | float]:
    """Return the function that gets an argument of the kernel from the values of a run."""
    if isinstance(slot, Location):
        item, offset = slot
        return lambda values: values[item].address + offset
    if isinstance(slot, Number):
        item, kind = slot
        return lambda values: kind(values[item])
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
    launches = [_arguments(loop, index) for loop in loops.loops]
    wrong = None if loops.wrong is None else index.get(loops.wrong, loops.wrong)

    def run(values: list[Any], keep: Any = loops.keep) -> None:  # The default keeps the memory of `meta` alive.
        if extension:
            values += extension
        for item, allocate in new:
            values[item] = allocate()
        for item, donor in overwritten:
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
            assert raise_error is not None
            raise_error(values)
        if extension:
            del values[-len(extension) :]

    return run


def _arguments(
    loop: BoundLoop, index: Mapping[int, int]
) -> tuple[list[Any], list[tuple[int, int, int]], list[tuple[int, int, type]]]:
    """Return the arguments of `Pool.launch`, and the positions of addresses and numbers that a run fills in.

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
    return fixed, locations, numbers
