"""How blocks of quantized weights follow each other where an NPU reads them.

A core multiplies 32 rows at once, so their codes with the same place in the block are neighbours, behind the scales of
the 32 blocks. An object of the stream has two such groups of rows, one for each of two cores, and of each the blocks of
64 elements. All objects follow each other in the order in which they are read: one run of memory for each stream.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import ml_dtypes
import numpy as np

from npu_tensor.dtypes import as_dtype

__all__ = ["BLOCK", "CORES", "LANES", "NUMBERS", "OBJECT_BLOCKS", "BlockOrder"]

Array = np.ndarray[Any, Any]

BLOCK: Final = 32
"""Elements of a block."""
LANES: Final = 32
"""Rows that a core multiplies at once."""
CORES: Final = 2
"""That share a stream; each takes its part of an object."""
OBJECT_BLOCKS: Final = 2
"""Of each row in an object. Rows of an odd number of blocks are filled up with zeros."""

NUMBERS: Final[Mapping[str, tuple[Callable[[Array], Array], ...]]] = {
    "q8_0": (lambda blocks: blocks["d"],),
    "q4_0": (lambda blocks: blocks["d"],),
    # The value of code 8. That of code 0 is larger, and what rounding makes of it counts for all elements of a block.
    "q4_1": (lambda blocks: blocks["d"], lambda blocks: np.float32(8) * blocks["d"] + blocks["m"]),
}
"""What a block has beside its codes, as bfloat16, by dtype: the scale, and what is added to all elements."""


class BlockOrder(NamedTuple):
    """Of weights (rows, features) of a quantized dtype in a host buffer."""

    dtype: str
    rows: int
    features: int

    @property
    def units(self) -> int:
        """Rows that share objects, in groups of so many."""
        return -(-self.rows // (CORES * LANES))

    @property
    def objects(self) -> int:
        """Of one unit."""
        return -(-self.features // (OBJECT_BLOCKS * BLOCK))

    @property
    def codes(self) -> int:
        """Bytes of the codes of a block."""
        codes: np.dtype[Any] = as_dtype(self.dtype).numpy["qs"]
        return codes.itemsize

    @property
    def block_bytes(self) -> int:
        """Of one block of each of the rows that a core multiplies at once."""
        return LANES * (2 * len(NUMBERS[self.dtype]) + self.codes)

    @property
    def object_bytes(self) -> int:
        """Of one object."""
        return CORES * OBJECT_BLOCKS * self.block_bytes

    @property
    def nbytes(self) -> int:
        """Of the host buffer."""
        return self.units * self.objects * self.object_bytes

    def write(self, blocks: Array, memory: Array) -> None:
        """Fill the host buffer (bytes) from the blocks of the weights, as they are stored."""
        grid: Array = np.zeros((self.units * CORES * LANES, self.objects * OBJECT_BLOCKS), blocks.dtype)
        in_row = self.features // BLOCK
        grid[: self.rows, :in_row] = blocks[: self.rows * in_row].reshape(self.rows, in_row)
        # Unit, object, core, block; then what the rows have in common, then the rows.
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
