"""Order of quantized weight blocks in the host buffer that the NPU reads.

A core multiplies 32 rows at once. Codes at the same position in the block are therefore adjacent, after the scales of
the 32 blocks. An object of the stream holds two such groups of rows, one for each of two cores, with two blocks (64
elements) of each row. All objects are stored in the order in which they are read, so that each stream reads one
contiguous range of memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import ml_dtypes
import numpy as np

from npu_tensor.dtypes import as_dtype

Array = np.ndarray[Any, Any]

BLOCK: Final = 32
"""Elements per block."""
LANES: Final = 32
"""Rows that a core multiplies at once."""
CORES: Final = 2
"""Cores that share a stream. Each takes its part of every object."""
OBJECT_BLOCKS: Final = 2
"""Blocks of each row in an object. Rows with an odd number of blocks are padded with zeros."""

NUMBERS: Final[Mapping[str, tuple[Callable[[Array], Array], ...]]] = {
    "q8_0": (lambda blocks: blocks["d"],),
    "q4_0": (lambda blocks: blocks["d"],),
    # The value of code 8. The value of code 0 is larger, and its rounding error would affect all elements of a block.
    "q4_1": (lambda blocks: blocks["d"], lambda blocks: np.float32(8) * blocks["d"] + blocks["m"]),
}
"""Numbers stored as bfloat16 for each block in addition to its codes, by dtype: the scale and the addend, if any."""


class BlockOrder(NamedTuple):
    """Layout of quantized weights of shape (rows, features) in a host buffer."""

    dtype: str
    rows: int
    features: int

    @property
    def units(self) -> int:
        """Number of row groups; the rows of a group share objects."""
        return -(-self.rows // (CORES * LANES))

    @property
    def objects(self) -> int:
        """Number of objects per unit."""
        return -(-self.features // (OBJECT_BLOCKS * BLOCK))

    @property
    def codes(self) -> int:
        """Bytes of the codes of a block."""
        codes: np.dtype[Any] = as_dtype(self.dtype).numpy["qs"]
        return codes.itemsize

    @property
    def block_bytes(self) -> int:
        """Bytes of one block from each row that a core multiplies at once."""
        return LANES * (2 * len(NUMBERS[self.dtype]) + self.codes)

    @property
    def object_bytes(self) -> int:
        """Bytes per object."""
        return CORES * OBJECT_BLOCKS * self.block_bytes

    @property
    def nbytes(self) -> int:
        """Bytes of the host buffer."""
        return self.units * self.objects * self.object_bytes

    def write(self, blocks: Array, memory: Array) -> None:
        """Fill the host buffer (bytes) from the weight blocks in their stored order."""
        grid: Array = np.zeros((self.units * CORES * LANES, self.objects * OBJECT_BLOCKS), blocks.dtype)
        in_row = self.features // BLOCK
        grid[: self.rows, :in_row] = blocks[: self.rows * in_row].reshape(self.rows, in_row)
        # Unit, object, core, block; then the values of a block; then the rows.
        shape = (self.units, CORES, LANES, self.objects, OBJECT_BLOCKS)
        to = memory[: self.nbytes].reshape(self.units, self.objects, CORES, OBJECT_BLOCKS, -1, LANES)
        numbers = NUMBERS[self.dtype]
        for place, number in enumerate(numbers):
            with np.errstate(over="ignore", invalid="ignore"):
                halves = number(grid).astype(ml_dtypes.bfloat16).reshape(shape).transpose(0, 3, 1, 4, 2)
            halves = np.ascontiguousarray(halves).view(np.uint8).reshape(*halves.shape[:-1], 2, LANES)
            to[..., 2 * place : 2 * place + 2, :] = halves
        codes = grid["qs"].view(np.uint8).reshape(*shape, self.codes)
        to[..., 2 * len(numbers) :, :] = codes.transpose(0, 3, 1, 4, 5, 2)
