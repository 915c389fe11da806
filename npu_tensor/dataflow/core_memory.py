"""Placement of buffers in a core's memory, as mlir-aie's allocator does it (AIEAssignBuffers.cpp)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from npu_tensor.dataflow.checks.limits import LIMITS

BANKS: Final = 4
"""Banks of a core's memory, equally large. Two accesses of a cycle to one bank take a cycle more."""

BANK_BYTES: Final = LIMITS["core"].memory // BANKS

LEAST_ALIGNMENT: Final = 32
"""Alignment of buffers in bytes: the width of a core's loads and stores, on both arrays.

mlir-aie after 1.4.1 uses the widest vector, which has 64 on aie2p (its pull request 3662).
"""


class CoreMemory(NamedTuple):
    """Buffer in a core's memory. address: its place if the design determines it."""

    name: str
    nbytes: int
    address: int | None = None


def placed(buffers: Sequence[CoreMemory], stack: int) -> dict[str, int]:
    """Return the address of each buffer in a core's memory, after `stack` bytes.

    The bank-aware allocation processes the buffers of a core, the largest first, and puts each at the end of the next
    bank that has room for it. If a buffer fits into no bank, or if one has an address, all are placed consecutively.
    """
    largest_first = sorted((each for each in buffers if each.address is None), key=lambda buffer: -buffer.nbytes)
    fixed = {each.name: each.address for each in buffers if each.address is not None}
    if not fixed and (in_banks := _in_banks(largest_first, stack)):
        return in_banks
    ends = sorted((fixed[each.name], fixed[each.name] + each.nbytes) for each in buffers if each.name in fixed)
    free = stack
    for name, nbytes, _ in largest_first:
        free = _aligned(free)
        while ends and free + nbytes > ends[0][0]:
            free = _aligned(ends.pop(0)[1])
        fixed[name] = free
        free += nbytes
    return fixed


def _in_banks(buffers: Sequence[CoreMemory], stack: int) -> dict[str, int] | None:
    """Place buffers in the banks in turn; return None if a buffer fits into none."""
    free = [stack, *(bank * BANK_BYTES for bank in range(1, BANKS))]
    result: dict[str, int] = {}
    turn = 0
    for name, nbytes, _ in buffers:
        for place in (*range(turn, BANKS), *range(turn)):
            start = _aligned(free[place])
            if start + nbytes <= (place + 1) * BANK_BYTES:
                free[place], result[name], turn = start + nbytes, start, (place + 1) % BANKS
                break
        else:
            return None
    return result


def _aligned(address: int) -> int:
    return -(-address // LEAST_ALIGNMENT) * LEAST_ALIGNMENT
