"""What a kernel of the CPU device runs, as data: loops over memory and numbers that a run brings.

`step` makes the function that runs a kernel by itself; `loop_table` makes one for kernels that follow each other.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
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
    """The function that runs loops. results: the items that it leaves in the list of values."""
    kept = frozenset(results)
    buffers = {item: number for number, (item, _) in enumerate((*loops.new, *loops.taken))}
    codes: list[tuple[tuple[str, int], ...]] = []
    arguments: list[tuple[Any, Any]] = []
    for loop in loops.loops:
        code: list[tuple[str, int]] = []
        for slot in loop.slots:
            if isinstance(slot, Location):
                own = buffers.get(slot.item, -1)
                code.append(("place" if slot.offset else "start", own))
                arguments.append(slot)
            else:
                code.append(("number", -1) if isinstance(slot, Number) else ("literal", -1))
                arguments.append(slot if isinstance(slot, Number) else (slot, None))
        codes.append(tuple(code))
    make = _step_maker(
        tuple([item in kept for item, _ in loops.new]),
        tuple([item in kept for item, _ in loops.taken]),
        tuple(codes),
        -1 if loops.wrong is None else buffers[loops.wrong],
    )
    new = [(item, owner.allocator.allocation(nbytes)) for item, nbytes in loops.new]
    headers = [loop[:4] for loop in loops.loops]
    run: Step = make(
        owner.pool.launch, owner.allocator.forget_layouts, new, loops.taken, headers, arguments, loops.complain, loops
    )
    return run


@lru_cache(maxsize=256)
def _step_maker(
    new: tuple[bool, ...], taken: tuple[bool, ...], loops: tuple[tuple[tuple[str, int], ...], ...], wrong: int
) -> Callable[..., Step]:
    """What makes the steps of this form, without loops: this is the hot path of small tensors.

    new, taken: which items are left in the list of values. loops: of each slot its form, and the number of its item
    among `new` and `taken`, or -1. wrong: that of the item that tells of a wrong index, or -1.
    """
    slots = iter(range(sum(map(len, loops))))
    text = {
        "start": "{}.address",
        "place": "{}.address + second{n}",
        "number": "second{n}(values[first{n}])",
        "literal": "first{n}",
    }
    allocations = [
        f"{f'values[out{i}] = ' if is_result else ''}buffer{i} = source{i}()" for i, is_result in enumerate(new)
    ]
    for i, is_result in enumerate(taken, len(new)):
        allocations += [
            f"{f'values[out{i}] = ' if is_result else ''}buffer{i} = values[source{i}]",
            f"forget(buffer{i})",
        ]
    launches = []
    for number, loop in enumerate(loops):
        values = [
            text[form].format(f"buffer{own}" if own >= 0 else f"values[first{n}]", n=n)
            for (form, own), n in zip(loop, slots)  # noqa: B905 - the numbers go on with the next loop
        ]
        launches.append(f"launch(kernel{number}, meta{number}, n{number}, grain{number}, {', '.join(values)})")
    if wrong >= 0:
        launches.append(f"if is_set(buffer{wrong}.address).value: complain(values)")
    count = len(new)
    lines = [
        "def make(launch, forget, new, taken, headers, arguments, complain, keep):",
        f"    [{', '.join(f'(out{i}, source{i})' for i in range(count))}] = new",
        f"    [{', '.join(f'(out{i}, source{i})' for i in range(count, count + len(taken)))}] = taken",
        f"    [{', '.join(f'(kernel{i}, meta{i}, n{i}, grain{i})' for i in range(len(loops)))}] = headers",
        f"    [{', '.join(f'(first{n}, second{n})' for n in range(sum(map(len, loops))))}] = arguments",
        "    def run(values, keep=keep):",
        *(f"        {line}" for line in (*allocations, *launches)),
        "    return run",
    ]
    namespace: dict[str, Any] = {"is_set": ctypes.c_int64.from_address}
    exec("\n".join(lines), namespace)
    make: Callable[..., Step] = namespace["make"]
    return make
