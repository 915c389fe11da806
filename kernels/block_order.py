"""Order of quantized weight blocks in the host buffer that the NPU reads.

A core multiplies 32 rows at once. Codes at the same position in the block are therefore adjacent, after the scales of
the 32 blocks. An object of the stream holds two such groups of rows, one for each of two cores, with 64 elements of
each row. All objects are stored in the order in which they are read, so that each stream reads one contiguous range of
memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import ml_dtypes
import numpy as np

from npu_tensor.dtypes import as_dtype
from npu_tensor.ops.quantized import parts

Array = np.ndarray[Any, Any]

LANES: Final = 32
"""Rows that a core multiplies at once."""
CORES: Final = 2
"""Cores that share a stream. Each takes its part of every object."""
OBJECT_FEATURES: Final = 64
"""Elements of each row in an object. Rows of other lengths are padded with zeros."""
_UNITS: Final = 4
"""Units that are converted at a time."""


class BlockFormat(NamedTuple):
    """Blocks as a core reads them.

    Attributes:
        bits: Bits of a code: 8, signed, or 4, from which the core subtracts 8.
        block: Elements of a block.
        has_minima: True if a number is added to all elements of a block.
    """

    bits: int
    block: int = 32
    has_minima: bool = False

    def __str__(self) -> str:
        return f"int{self.bits}{'_minima' * self.has_minima}_{self.block}"


FORMATS: Final[Mapping[str, BlockFormat]] = {
    "q8_0": BlockFormat(8),
    "q4_0": BlockFormat(4),
    "q4_1": BlockFormat(4, has_minima=True),
    "q5_0": BlockFormat(8),
    "q5_1": BlockFormat(8, has_minima=True),
    "q4_k": BlockFormat(4, has_minima=True),
    "q5_k": BlockFormat(8, has_minima=True),
    "q6_k": BlockFormat(8, 16),
    "iq4_nl": BlockFormat(8),
    "mxfp4": BlockFormat(8),
}
"""Format in the host buffer by dtype. Scales and addends are rounded to bfloat16, codes are exact."""


class BlockOrder(NamedTuple):
    """Layout of quantized weights of shape (rows, features) in a host buffer."""

    dtype: str
    rows: int
    features: int

    @property
    def format(self) -> BlockFormat:
        """Format of the blocks."""
        return FORMATS[self.dtype]

    @property
    def units(self) -> int:
        """Number of row groups; the rows of a group share objects."""
        return -(-self.rows // (CORES * LANES))

    @property
    def objects(self) -> int:
        """Number of objects per unit."""
        return -(-self.features // OBJECT_FEATURES)

    @property
    def nbytes(self) -> int:
        """Bytes of the host buffer."""
        return self.units * self.objects * object_bytes(self.format)

    def write(self, blocks: Array, memory: Array) -> None:
        """Fill the host buffer (bytes) from the weight blocks in their stored order."""
        block, per_row = self.format.block, self.features // as_dtype(self.dtype).block
        shape = (self.units, self.objects, CORES, OBJECT_FEATURES // block, -1, LANES)
        buffer = memory[: self.nbytes].reshape(shape)
        for first in range(0, self.units, _UNITS):
            to = buffer[first : first + _UNITS]
            rows = min(self.rows - first * CORES * LANES, len(to) * CORES * LANES)
            start = first * CORES * LANES * per_row
            values = self._values(blocks[start : start + rows * per_row])
            grid: Array = np.zeros((len(to) * CORES * LANES, self.objects * to.shape[3], values.shape[-1]), np.uint8)
            grid[:rows, : self.features // block] = values.reshape(rows, -1, values.shape[-1])
            grid = grid.reshape(len(to), CORES, LANES, self.objects, to.shape[3], -1).transpose(0, 3, 1, 4, 5, 2)
            numbers = 2 * (1 + self.format.has_minima)
            to[..., numbers:, :] = grid[..., numbers:, :]
            for byte in range(0, numbers, 2):  # The two bytes of a number stay together.
                pairs = np.ascontiguousarray(np.moveaxis(grid[..., byte : byte + 2, :], -2, -1))
                to[..., byte : byte + 2, :] = pairs.reshape(*pairs.shape[:-2], 2, LANES)

    def _values(self, blocks: Array) -> Array:
        """Return the bytes of blocks in this format: the scale, the addend if there is one, and the codes."""
        bits, block, _ = self.format
        with np.errstate(over="ignore", invalid="ignore"):
            codes, scales, addends = parts(blocks, self.dtype)
            # The value of the middle code. That of code 0 is larger, and its rounding error would affect all elements.
            middle = 0 if addends is None else 8 if bits == 4 else 16
            numbers = [scales] if addends is None else [scales, np.float32(middle) * scales + addends]
            halves = [each.astype(ml_dtypes.bfloat16).reshape(-1, 1).view(np.uint8) for each in numbers]
        shift = (8 if bits == 4 else 0) - middle
        codes = codes.reshape(-1, block).view(np.uint8)
        codes = codes + np.uint8(shift % 256) if shift else codes
        if bits == 4:
            codes = codes[:, : block // 2] | codes[:, block // 2 :] << 4
        return np.concatenate([*halves, codes], axis=1)


def object_bytes(format: BlockFormat) -> int:
    """Return the bytes of an object of the stream."""
    numbers = 2 * (1 + format.has_minima)
    return CORES * LANES * (OBJECT_FEATURES // format.block * numbers + OBJECT_FEATURES * format.bits // 8)
