"""Where runtime parameters lie in the memory of their tiles.

    addresses(design, words)    # read from the instruction stream that the compiler has made
    predicted(design)           # without a compiler: where mlir-aie 1.3.4 and 1.4.1 will put them

A binary says where its parameters are, so what runs takes the first. The second follows the compiler's allocation and
holds for a program that is compiled later, by one of these versions.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npu_tensor.dataflow.checks.index import Index, walk
from npu_tensor.dataflow.checks.limits import LIMITS, WORD
from npu_tensor.dataflow.design import Design, FunctionCall, Worker
from npu_tensor.errors import BuildError
from npu_tensor.runtime.build.iron_program import marker

__all__ = ["addresses", "predicted"]

BANKS: Final = 4
"""Of a core's memory, equally large."""

IN_TILE: Final = 0xFFFFF
"""The bits of an address that do not name the tile."""


def addresses(design: Design, words: NDArray[np.uint32]) -> dict[str, int]:
    """Of each runtime parameter, from an instruction stream that has markers in place of their values.

    Raises BuildError if the marker of a parameter's first word is not the value of exactly one write.
    """
    result = {}
    for number, parameter in enumerate(design.parameters):
        places = np.flatnonzero(words == marker(number, 0))
        if len(places) != 1 or places[0] < 4:
            raise BuildError(f"the instructions do not write the runtime parameter {parameter.name} once")
        result[parameter.name] = int(words[places[0] - 2]) & IN_TILE
    return result


class _Block(NamedTuple):
    name: str
    nbytes: int


def predicted(design: Design) -> dict[str, int]:
    """Of each runtime parameter that a worker uses, as mlir-aie will place it.

    Its bank-aware allocation goes through the buffers of a core, the largest first, and puts each at the end of the
    next bank that has room for it; the stack comes before all. Raises BuildError where that is not all that decides: a
    buffer that fits into no bank, or one of the compiler's own that is as large as a parameter.
    """
    index = Index(design)
    result: dict[str, int] = {}
    for worker in design.workers:
        parameters = [parameter for parameter in design.parameters if parameter.tile == worker.tile]
        if parameters:
            places = _places(index, worker)
            result |= {p.name: places[p.name] for p in parameters if p.name in places}
    return result


def _places(index: Index, worker: Worker) -> dict[str, int]:
    """By name of what a core's memory holds."""
    bank = LIMITS["core"].memory // BANKS
    alignment = index.design.array.vector_bytes
    free = [worker.stack_size, bank, 2 * bank, 3 * bank]
    result: dict[str, int] = {}
    turn = 0
    for name, nbytes in sorted(_blocks(index, worker), key=lambda block: -block.nbytes):
        for place in (*range(turn, BANKS), *range(turn)):
            start = -(-free[place] // alignment) * alignment
            if start + nbytes <= (place + 1) * bank:
                free[place], result[name], turn = start + nbytes, start, (place + 1) % BANKS
                break
        else:
            raise BuildError(f"{worker.tile}: {name} has {nbytes} bytes and fits into no bank of the memory")
    return result


def _blocks(index: Index, worker: Worker) -> list[_Block]:
    """What a core's memory holds besides the stack, in the order of the compiler's module."""
    pools = [pool for pool in index.pools if pool.tile == worker.tile and pool.buffers]
    blocks = [_Block(pool.fifo.name, pool.fifo.type.nbytes) for pool in pools for _ in range(pool.buffers)]
    # How far each end of a fifo is, for cores that choose their buffers while they run.
    counters = _Block("the counters of fifos", WORD * len(worker.fifos))
    calls = [statement for statement, _ in walk(worker.body) if isinstance(statement, FunctionCall)]
    used = dict.fromkeys(name for call in calls for name in call.arguments if isinstance(name, str))
    memory = [index.memory[name] for name in used]
    if any(item.type.nbytes == counters.nbytes for item in memory):
        raise BuildError(f"{worker.tile}: which of two buffers of {counters.nbytes} bytes comes first is not known")
    return [*blocks, counters, *(_Block(item.name, item.type.nbytes) for item in memory)]
