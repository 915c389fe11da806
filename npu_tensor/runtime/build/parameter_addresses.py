"""Addresses of runtime parameters in the memory of their tiles.

    addresses(design, words)    # from the instruction stream of the compiler
    predicted(design)           # prediction for mlir-aie 1.4.1; needs no compiler

A binary contains the addresses of its parameters, so runs use the first function. The second follows the compiler's
allocation and applies to a program that is compiled later, by that version.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.checks.index import Index, walk
from npu_tensor.dataflow.checks.limits import WORD
from npu_tensor.dataflow.core_memory import CoreMemory, placed
from npu_tensor.dataflow.design import Design, FunctionCall, Loop, Word, Worker
from npu_tensor.errors import BuildError
from npu_tensor.runtime.build.instructions import HEADER, WRITE, WRITE_VALUE, WRITE_WORDS
from npu_tensor.runtime.build.iron_program import parameter_words

STABLE: Final = 16
"""Largest number of buffers in a core whose order stays where their sizes are equal.

mlir-aie sorts them with std::sort, which in libstdc++ is an insertion sort up to this number.
"""

IN_TILE: Final = 0xFFFFF
"""Bits of an address that do not identify the tile."""


def addresses(design: Design, words: NDArray[np.uint32]) -> dict[str, int]:
    """Return the address of each runtime parameter, from the compiler's instruction stream.

    Raises BuildError if the stream does not begin with the writes of their words, in order.
    """
    result = {}
    place = HEADER
    for parameter, values in zip(design.parameters, parameter_words(design), strict=True):
        for number, value in enumerate(values):
            write = words[place : place + WRITE_WORDS].tolist()
            if len(write) < WRITE_WORDS or (write[0], write[WRITE_VALUE]) != (WRITE, value):
                raise BuildError(f"the instructions do not begin with the words of parameter {parameter.name}")
            if not number:
                result[parameter.name] = write[2] & IN_TILE
            place += WRITE_WORDS
    return result


def predicted(design: Design) -> dict[str, int]:
    """Predict the address of each runtime parameter that a worker uses, as placed by mlir-aie.

    Raises BuildError if the order of buffers as large as a parameter is not known, because a core has more than STABLE.
    """
    index = Index(design)
    result: dict[str, int] = {}
    for worker in design.workers:
        parameters = [parameter for parameter in design.parameters if parameter.tile == worker.tile]
        if parameters:
            blocks = _blocks(index, worker)
            _require_order(worker.tile, blocks, [parameter.name for parameter in parameters])
            places = placed(blocks, worker.stack_size)
            result |= {p.name: places[p.name] for p in parameters if p.name in places}
    return result


def _require_order(tile: Tile, blocks: Sequence[CoreMemory], parameters: Sequence[str]) -> None:
    """Raise BuildError if the compiler's sort may exchange a parameter with a buffer of the same size."""
    if len(blocks) <= STABLE:
        return
    sizes = Counter(block.nbytes for block in blocks)
    for name, nbytes, _ in blocks:
        if name in parameters and sizes[nbytes] > 1:
            raise BuildError(f"{tile}: which of {sizes[nbytes]} buffers of {nbytes} bytes comes first is not known")


def _blocks(index: Index, worker: Worker) -> list[CoreMemory]:
    """Return the contents of a core's memory except for the stack, in the order of the compiler's module."""
    pools = [pool for pool in index.pools if pool.tile == worker.tile and pool.buffers]
    blocks = [CoreMemory(f"{p.fifo.name}_{number}", p.fifo.type.nbytes) for p in pools for number in range(p.buffers)]
    used: dict[str, None] = {}
    for statement, _ in walk(worker.body):
        if isinstance(statement, FunctionCall):
            names = [a.memory if isinstance(a, Word) else a for a in statement.arguments]
            used |= dict.fromkeys(name for name in names if isinstance(name, str))
        elif isinstance(statement, Loop) and isinstance(statement.rounds, Word):
            used[statement.rounds.memory] = None
    addresses = {buffer.name: buffer.address for buffer in index.design.core_buffers}
    memory = [CoreMemory(name, index.memory[name].type.nbytes, addresses.get(name)) for name in used]
    # Progress of each fifo's end, for cores that choose their buffers at run time.
    counters = CoreMemory("the counters of fifos", WORD * len(worker.fifos))
    return [*blocks, *memory, counters]
