"""Blocks of bfp16, as aie2p multiplies them: eight numbers share an exponent and have mantissas of 8 bits."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import ml_dtypes
import numpy as np

from npu_tensor.ops.declare import Layout

Array = np.ndarray[Any, Any]

BLOCK: Final = 8
BLOCK_BYTES: Final = 9
"""Numbers of a block, and its bytes: the exponent and the mantissas."""


class PackedOrder(NamedTuple):
    """Order of B in the host buffer: [batch][panels][K/k][n/columns/8][k/8][columns][8][9 bytes].

    Attributes:
        layout: Layout of B over (*batch, K, N).
        depth: Extent of K in the host buffer. Further rows are zeros.
        starts: First column of each panel of n columns.
        n: Columns of B in a core's tile.
        k: Rows of B in a core's tile.
        columns: Columns of a register block, in blocks.
    """

    layout: Layout
    depth: int
    starts: tuple[int, ...]
    n: int
    k: int
    columns: int

    @property
    def panel_nbytes(self) -> int:
        """Bytes of a panel."""
        return self.n * self.depth // BLOCK * BLOCK_BYTES

    def write(self, elements: Array, memory: Array) -> None:
        """Fill the host buffer (bytes) from the flat buffer of B."""
        strides = tuple(stride * elements.itemsize for stride in self.layout.strides)
        matrices = np.lib.stride_tricks.as_strided(elements[self.layout.offset :], self.layout.shape, strides)
        depth, width = matrices.shape[-2:]
        shape = (self.n // BLOCK // self.columns, self.columns, BLOCK, self.depth // self.k, self.k // BLOCK)
        panels = iter(memory[: memory.size // self.panel_nbytes * self.panel_nbytes].reshape(-1, self.panel_nbytes))
        for matrix in matrices.reshape(-1, depth, width):
            for start in self.starts:
                part: Array = np.zeros((self.n, self.depth), ml_dtypes.bfloat16)
                end = max(start, min(start + self.n, width))
                with np.errstate(all="ignore"):
                    part[: end - start, :depth] = matrix[:, start:end].T
                blocks = block_floats(part).reshape(*shape, BLOCK_BYTES).transpose(3, 0, 4, 1, 2, 5)
                next(panels).reshape(blocks.shape)[...] = blocks


def block_floats(values: Array) -> Array:
    """Return the bytes of bfloat16 numbers (rows, columns) as blocks (rows, columns / 8, 9).

    Mantissas are rounded to nearest, ties to even, as in a core. If one becomes 128, the exponent of its block is one
    more. Blocks with infinity or NaN have the exponent 255, the largest one, and mantissas up to 127.
    """
    bits = values.view(np.uint16).reshape(len(values), -1, BLOCK)
    magnitudes = top = bits & 0x7FFF
    while top.shape[-1] > 1:
        half = top.shape[-1] // 2
        top = np.maximum(top[..., :half], top[..., half:])
    exponents = top >> 7
    mantissas = _mantissas(bits, magnitudes, exponents)
    above = (mantissas > 127).any(-1)
    if above.any():
        exponents[above] += exponents[above] < 255
        mantissas[above] = np.minimum(_mantissas(bits[above], magnitudes[above], exponents[above]), 127)
    result: Array = np.empty((*bits.shape[:-1], BLOCK_BYTES), np.uint8)
    result[..., :1] = exponents
    result[..., 1:].view(np.int8)[...] = mantissas
    return result


def _mantissas(bits: Array, magnitudes: Array, exponents: Array) -> Array:
    """Return numbers times 2^(133 - exponent) of their blocks, rounded to nearest, ties to even.

    The exponents of the bits are changed, so that infinity is a number too. Those that would fall below 1 become 0, as
    subnormal numbers do in a core.
    """
    least = np.maximum(exponents, 133) - 132 << 7
    scaled = bits + (133 - exponents << 7)
    scaled *= magnitudes >= least
    result: Array = np.rint((scaled.astype(np.uint32) << 16).view(np.float32))
    return result
