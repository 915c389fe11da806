"""Weights in ggml's blocks of quantized numbers: decoding, quantization and products.

A block has 32 or 256 consecutive elements of a row: small integers, called codes, and their scales. Reference bodies
read an array of blocks, whose records `npu_tensor.dtypes` declares. The layouts follow ggml-common.h, the meanings
ggml-quants.c (https://github.com/ggml-org/ggml).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from npu_tensor.dtypes import DType, as_dtype, bfloat16, float32, q4_0, q4_1, q5_0, q5_1, q8_0
from npu_tensor.errors import DTypeError, ShapeError
from npu_tensor.ops.declare import Resolution
from npu_tensor.ops.registry import op
from npu_tensor.ops.rules import of_tensors, require_floats
from npu_tensor.spec import Spec

__all__ = ["IQ4_NL_VALUES", "MXFP4_VALUES", "BlockParts", "dequantize", "linear_quantized", "parts", "quantize"]

Array = Any
"""NumPy array."""

IQ4_NL_VALUES: Final = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
MXFP4_VALUES: Final = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)
"""Numbers of the format E2M1, doubled. The scales are halved instead."""


# --- decoding


class BlockParts(NamedTuple):
    """Content of blocks. An element is scale * code + addend.

    Attributes:
        codes: Integers (blocks, elements).
        scales: Float32 (blocks, groups). The groups of a block are equal runs of elements.
        addends: Float32 (blocks, groups), or None for zeros.
    """

    codes: Array
    scales: Array
    addends: Array | None = None


def _wide(numbers: Array) -> Array:
    return numbers.astype(np.float32)


def _per_block(numbers: Array) -> Array:
    return _wide(numbers)[..., None]


def _nibbles(packed: Array, run: int = 16) -> Array:
    """Unpack each run of bytes into its low nibbles followed by its high nibbles."""
    count, nbytes = packed.shape
    runs = packed.reshape(count, nbytes // run, 1, run)
    return np.concatenate([runs & 15, runs >> 4], axis=2).reshape(count, 2 * nbytes)


def _bits(packed: Array) -> Array:
    return np.unpackbits(packed, axis=-1, bitorder="little")


def _signed(codes: Array, zero: int) -> Array:
    return codes.astype(np.int8) - np.int8(zero)


def _five_bits(blocks: Array) -> Array:
    return _nibbles(blocks["qs"]) | _bits(blocks["qh"]) << 4


def _scaled(blocks: Array, codes: Array) -> BlockParts:
    return BlockParts(codes, _per_block(blocks["d"]))


def _scales_and_minima(scales: Array) -> tuple[Array, Array]:
    """Unpack eight 6-bit scales and eight minima.

    Four of each are the low 6 bits of four bytes; the others are nibbles, with the high bits of those bytes on top.
    """
    low, high, mixed = np.split(scales, 3, axis=-1)

    def eight(first: Array, rest: Array) -> Array:
        return np.concatenate([first & 63, rest | first >> 2 & 0x30], axis=-1)

    return eight(low, mixed & 15), eight(high, mixed >> 4)


def _with_minima(blocks: Array, codes: Array) -> BlockParts:
    """Return d * scale and -dmin * minimum in groups of 32."""
    scales, minima = _scales_and_minima(blocks["scales"])
    return BlockParts(codes, _per_block(blocks["d"]) * _wide(scales), -_per_block(blocks["dmin"]) * _wide(minima))


def _q5_k_codes(blocks: Array) -> Array:
    # Bit g of byte i belongs to element i of group g.
    fifth = _bits(blocks["qh"][..., None]).swapaxes(1, 2).reshape(len(blocks), 256)
    return _nibbles(blocks["qs"], 32) | fifth << 4


def _q6_k(blocks: Array) -> BlockParts:
    high = blocks["qh"].reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8)[:, None] & 3
    codes = _signed(_nibbles(blocks["ql"], 64) | high.reshape(len(blocks), 256) << 4, 32)
    return BlockParts(codes, _per_block(blocks["d"]) * _wide(blocks["scales"]))


def _mxfp4(blocks: Array) -> BlockParts:
    exponent = blocks["e"].astype(np.uint32)
    # Half of 2^(e - 127); the two smallest are subnormal.
    bits = np.where(exponent < 2, 0x200000 << np.minimum(exponent, 1), (exponent - 1) << 23).astype(np.uint32)
    return BlockParts(np.array(MXFP4_VALUES, np.int8)[_nibbles(blocks["qs"])], bits.view(np.float32)[..., None])


_PARTS: Final[dict[str, Callable[[Array], BlockParts]]] = {
    "q4_0": lambda blocks: _scaled(blocks, _signed(_nibbles(blocks["qs"]), 8)),
    "q4_1": lambda blocks: BlockParts(_nibbles(blocks["qs"]), _per_block(blocks["d"]), _per_block(blocks["m"])),
    "q5_0": lambda blocks: _scaled(blocks, _signed(_five_bits(blocks), 16)),
    "q5_1": lambda blocks: BlockParts(_five_bits(blocks), _per_block(blocks["d"]), _per_block(blocks["m"])),
    "q8_0": lambda blocks: _scaled(blocks, blocks["qs"]),
    "q4_k": lambda blocks: _with_minima(blocks, _nibbles(blocks["qs"], 32)),
    "q5_k": lambda blocks: _with_minima(blocks, _q5_k_codes(blocks)),
    "q6_k": _q6_k,
    "iq4_nl": lambda blocks: _scaled(blocks, np.array(IQ4_NL_VALUES, np.int8)[_nibbles(blocks["indices"])]),
    "mxfp4": _mxfp4,
}


def parts(blocks: Array, dtype: str) -> BlockParts:
    """Return the content of blocks (blocks,) of a quantized dtype."""
    return _PARTS[dtype](blocks)


# --- quantization: (blocks, 32) of float32 -> (blocks,) records


def _inverse(scales: Array) -> Array:
    return np.divide(1, scales, out=np.zeros_like(scales), where=scales != 0)


def _largest(rows: Array) -> Array:
    """Return the element of largest magnitude in each row."""
    return np.take_along_axis(rows, np.abs(rows).argmax(axis=-1, keepdims=True), axis=-1)


def _packed(dtype: DType, codes: Array, **fields: Array) -> Array:
    blocks = np.zeros(len(codes), dtype.numpy)
    blocks["qs"] = codes if dtype is q8_0 else codes[:, :16] & 15 | codes[:, 16:] << 4
    if "qh" in (dtype.numpy.names or ()):
        blocks["qh"] = np.packbits(codes >> 4, axis=-1, bitorder="little")
    for name, numbers in fields.items():
        blocks[name] = numbers[:, 0]
    return blocks


def _quantize_symmetric(dtype: DType, rows: Array, most: int) -> Array:
    """Quantize around the code (most + 1) / 2, so that the element of largest magnitude has code 0."""
    zero = (most + 1) // 2
    scales = _largest(rows) / np.float32(-zero)
    codes = np.minimum((rows * _inverse(scales) + np.float32(zero + 0.5)).astype(np.int32), most).astype(np.uint8)
    return _packed(dtype, codes, d=scales)


def _quantize_between(dtype: DType, rows: Array, most: int) -> Array:
    """Quantize with the smallest element as code 0."""
    smallest = rows.min(axis=-1, keepdims=True)
    scales = (rows.max(axis=-1, keepdims=True) - smallest) / np.float32(most)
    codes = ((rows - smallest) * _inverse(scales) + np.float32(0.5)).astype(np.int32)
    return _packed(dtype, np.minimum(codes, most).astype(np.uint8), d=scales, m=smallest)


def _rounded_away(numbers: Array) -> Array:
    """Round to the nearest integer, halves away from zero."""
    return np.trunc(numbers + np.copysign(np.float32(0.5), numbers))


def _quantize_8(dtype: DType, rows: Array) -> Array:
    scales = np.abs(rows).max(axis=-1, keepdims=True) / np.float32(127)
    return _packed(dtype, _rounded_away(rows * _inverse(scales)).astype(np.int8), d=scales)


_QUANTIZERS: Final[dict[DType, Callable[[Array], Array]]] = {
    q8_0: lambda rows: _quantize_8(q8_0, rows),
    q4_0: lambda rows: _quantize_symmetric(q4_0, rows, 15),
    q5_0: lambda rows: _quantize_symmetric(q5_0, rows, 31),
    q4_1: lambda rows: _quantize_between(q4_1, rows, 15),
    q5_1: lambda rows: _quantize_between(q5_1, rows, 31),
}


# --- ops


@of_tensors("quantized")
def _dequantize_rule(x: Spec) -> Resolution:
    if not x.dtype.is_quantized:
        raise DTypeError(f"takes a quantized tensor, not one of {x.dtype.name}")
    return Resolution(Spec.of(x.shape, float32), (None,), {})


@op(kind="data", rule=_dequantize_rule, quantized=True)
def dequantize(input, /):
    """Convert a quantized tensor to float32.

    >>> nt.dequantize(nt.quantize(nt.ones(2, 32), "q8_0")).sum()
    """
    *lead, blocks = input.shape
    dtype = as_dtype(input.dtype)
    codes, scales, addends = parts(input.reshape(-1), dtype.name)
    values = scales[..., None] * _wide(codes).reshape(*scales.shape, codes.shape[-1] // scales.shape[-1])
    if addends is not None:
        values += addends[..., None]
    return values.reshape(*lead, blocks * dtype.block)


@of_tensors("floats")
def _quantize_rule(x: Spec, dtype: Any) -> Resolution:
    dtype = as_dtype(dtype)
    if dtype not in _QUANTIZERS:
        names = ", ".join(each.name for each in _QUANTIZERS)
        raise DTypeError(f"makes {names}, not {dtype.name}")
    require_floats(x.dtype)
    return Resolution(Spec.of(x.shape, dtype), ("float32",), {"dtype": dtype})


@op(kind="data", rule=_quantize_rule, quantized=True)
def quantize(input, /, dtype):
    """Convert input to q8_0, q4_0, q4_1, q5_0 or q5_1.

    Each 32 elements of a row share a scale. Rounding is that of ggml.

    >>> nt.quantize(nt.ones(2, 32), "q8_0").dtype
    """
    *lead, features = input.shape
    return _QUANTIZERS[dtype](input.reshape(-1, 32)).reshape(*lead, features // 32)


@of_tensors("float32 or bfloat16, and quantized")
def _linear_rule(x: Spec, weight: Spec, exact: bool) -> Resolution:
    if not weight.dtype.is_quantized or x.dtype not in (float32, bfloat16):
        raise DTypeError(f"takes float32 or bfloat16 and quantized weights, not {x.dtype.name} and {weight.dtype.name}")
    if not x.ndim or weight.ndim != 2:
        raise ShapeError("needs input (..., features) and weight (out features, features)")
    if x.shape[-1] != weight.shape[1]:
        raise ShapeError(f"inner dimensions differ: {x.shape[-1]} and {weight.shape[1]}")
    return Resolution(Spec.of((*x.shape[:-1], weight.shape[0]), x.dtype), ("float32", None), {"exact": exact})


@op(kind="data", rule=_linear_rule, public=False, quantized=True)
def linear_quantized(input, weight, /, exact: bool = False):
    """Return input @ weight.T, (..., out features), in the dtype of input; sums are float32.

    Unless exact, input is first rounded to 8 bits as in ggml, with one scale for each 32 or 256 elements of a row.
    """
    x = input if exact else _rounded(input, as_dtype(weight.dtype).block)
    return x @ dequantize.op.body(weight).T


def _rounded(x: Array, block: int) -> Array:
    """Round rows as ggml's Q8_0 and Q8_1 (blocks of 32) or Q8_K (blocks of 256) do."""
    rows = x.reshape(-1, block)
    scales = np.abs(rows).max(axis=-1, keepdims=True) / np.float32(127)
    stored = scales.astype(np.float16).astype(np.float32) if block == 32 else scales
    return (np.rint(rows * _inverse(scales)) * stored).reshape(x.shape)
