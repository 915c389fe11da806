"""Limits of an array's tiles, the same in both generations.

From mlir-aie's target model (AIETargetModel.h) and verifiers (AIEDialect.cpp, AIEXDialect.cpp), confirmed by running
designs through mlir-aie 1.4.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from npu_tensor.dataflow.array import TileKind


class TileLimits(NamedTuple):
    """Limits of one kind of tile. A word has 4 bytes.

    Attributes:
        memory: Bytes of data memory.
        channels: DMA channels in each direction.
        descriptors: Buffer descriptors.
        locks: Semaphores.
        dimensions: Dimensions of the order of an object.
        wrap: Largest size of a dimension, in words for the innermost one.
        stride: Largest stride in words.
        length: Words that one descriptor moves.
    """

    memory: int
    channels: int
    descriptors: int
    locks: int
    dimensions: int
    wrap: int
    stride: int
    length: int


WORD: Final = 4
"""Bytes per word. DMA moves whole words, and counts sizes and strides in them."""

LIMITS: Final[Mapping[TileKind, TileLimits]] = MappingProxyType(
    {
        "shim": TileLimits(0, 2, 16, 16, dimensions=0, wrap=1023, stride=2**20, length=2**32 - 1),
        "memtile": TileLimits(524288, 6, 48, 64, dimensions=4, wrap=1023, stride=2**17, length=2**17 - 1),
        # The field of a core's wrap has 8 bits; 256 would be read as 0.
        "core": TileLimits(65536, 2, 16, 16, dimensions=3, wrap=255, stride=2**13, length=2**14 - 1),
    }
)

SHIM_DESCRIPTORS: Final[Mapping[str, int]] = MappingProxyType({"aie2": 8, "aie2p": 12})
"""Upper bound on the buffer descriptors of a shim tile that transfers in flight use, out of 16.

On Phoenix, sequences with 8 and 12 different ones passed; with 9 and 16 the array hung (xdna-emu). Nothing of that kind
is known of aie2p.
"""

STREAMS_NORTH: Final = 6
STREAMS_SOUTH: Final = 4
"""Streams from the switch of one tile to the one above or below (AIE2TargetModel::getNumDestSwitchboxConnections)."""

LOCK_VALUE: Final = 63
"""Largest value of a lock."""

CORE_RESERVE: Final = 64
"""Bytes of core memory left to the compiler, which keeps a counter of 4 bytes for each fifo end."""

ALIGNMENT: Final = 64
"""Upper bound on the alignment of a buffer, in bytes.

mlir-aie aligns to the width of the memory's bus or, since its pull request 3662 of September 2026, of the widest vector
(AIEAssignBuffers).
"""

PARITY_DESCRIPTORS: Final = 24
"""Descriptors available to the even channels of a memtile; the odd channels have the same number."""

PROGRAM_MEMORY: Final = 16384
"""Bytes of machine code of one core."""

STATIC_SIZE: Final = 512
"""Largest size in elements that mlir-aie accepts in dims_to_stream and dims_from_stream; its message reports 1023."""

ITERATIONS: Final = 64
"""Largest sizes[0] of a shim's access pattern: a field of 6 bits."""

QUEUE_DEPTH: Final = 4
"""Transfers that can wait in the queue of one shim channel."""

HOST_BUFFERS: Final = 16
"""Upper bound on host buffers: the number that mlir-aie tests on NPUs (test/npu-xrt/many_buffers)."""

MEMORY_DTYPES: Final = ("float32", "bfloat16", "float16", "float64", "int8", "uint8", "int16", "int32", "int64")
"""Dtypes that IRON can put into a fifo or a buffer: everything but bool."""

SCALAR_DTYPES: Final = ("int32", "int64", "float32", "bfloat16")
"""Dtypes of numbers that a core can pass to a kernel function."""
