"""bfloat16 and float16: lanes of these formats, as i16, from and to float32, by instructions or by integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from npu_tensor.runtime.cpu.values import Value

if TYPE_CHECKING:
    from npu_tensor.runtime.cpu.ir_emitter import Emitter


def round_bfloat16(e: Emitter, x: Value) -> Value:
    """Round float32 lanes to bfloat16 precision, half to even.

    Subnormals are kept, NaN becomes quiet.
    """
    return e.float_of_bits(e.op("and", _rounded_bfloat16_bits(e, x), -65536))


def round_float16(e: Emitter, x: Value) -> Value:
    """Round float32 lanes to float16 precision, half to even."""
    return widen_float16(e, narrow_float16(e, x))


def _rounded_bfloat16_bits(e: Emitter, x: Value) -> Value:
    """Return bits whose upper half is `x` in bfloat16; the lower half is undefined."""
    bits = e.bits(x)
    last_kept = e.op("and", e.op("lshr", bits, 16), 1)
    rounded = e.add(e.add(bits, last_kept), 0x7FFF)
    return e.select(e.compare("uno", x, x), e.op("or", bits, 0x00400000), rounded)


def widen_bfloat16(e: Emitter, raw: Value) -> Value:
    return e.float_of_bits(e.op("shl", e.convert("zext", raw, "i32"), 16))


def narrow_bfloat16(e: Emitter, vectors: Sequence[Value]) -> list[Value]:
    """Round each vector half to even. Several at once need fewer branches than one by one."""

    def by_integers() -> list[Value]:
        return [e.convert("trunc", e.op("lshr", _rounded_bfloat16_bits(e, x), 16), "i16") for x in vectors]

    if not e.target.has_bfloat16:
        return by_integers()

    # The instruction flushes subnormals to zero: vectors that have one (rare) take the other branch.
    def by_instruction() -> list[Value]:
        return [e.convert("bitcast", e.convert("fptrunc", x, "bfloat"), "i16") for x in vectors]

    subnormal_class = Value("32", "i32")
    masks = [
        e.intrinsic("llvm.x86.avx512.fpclass.ps.512", x, subnormal_class, result=e.vector("i1"), overloads=())
        for x in vectors
    ]
    subnormal = masks[0]
    for mask in masks[1:]:
        subnormal = e.op("or", subnormal, mask)
    return e.branch(e.any(subnormal), by_integers, by_instruction)


def narrow_float16(e: Emitter, x: Value) -> Value:
    """Round half to even."""
    if e.target.has_float16:
        return e.convert("bitcast", e.convert("fptrunc", x, "half"), "i16")
    bits = e.bits(x)
    sign = e.op("and", e.op("lshr", bits, 16), 0x8000)
    magnitude = e.op("and", bits, 0x7FFFFFFF)
    # Normal numbers: move the exponent bias from 127 to 15 and round half to even at bit 13.
    last_kept = e.op("and", e.op("lshr", magnitude, 13), 1)
    rebiased = e.add(e.add(magnitude, 0xFFF - (112 << 23)), last_kept)
    result = e.op("lshr", rebiased, 13)
    # From 65520 on, halfway to the first number too large: infinity.
    result = e.select(e.compare("uge", magnitude, 0x477FF000), 0x7C00, result)
    # Below 2^-14: adding 0.5 rounds to a multiple of 2^-24, float16's smallest number, and leaves it in
    # the low bits of the sum.
    shifted = e.sub(e.bits(e.add(e.float_of_bits(magnitude), 0.5)), 0x3F000000)
    result = e.select(e.compare("ult", magnitude, 0x38800000), shifted, result)
    quiet = e.op("or", e.op("lshr", e.op("and", magnitude, 0x7FFFFF), 13), 0x7E00)
    result = e.select(e.compare("ugt", magnitude, 0x7F800000), quiet, result)
    return e.convert("trunc", e.op("or", result, sign), "i16")


def widen_float16(e: Emitter, raw: Value) -> Value:
    if e.target.has_float16:
        return e.convert("fpext", e.convert("bitcast", raw, "half"), "float")
    wide = e.convert("zext", raw, "i32")
    sign = e.op("shl", e.op("and", wide, 0x8000), 16)
    magnitude = e.op("shl", e.op("and", wide, 0x7FFF), 13)
    normal = e.add(magnitude, 112 << 23)
    not_finite = e.add(magnitude, 224 << 23)
    quiet = e.op("or", not_finite, 0x00400000)
    # Subnormals: append the bits to the implied one of 2^-14 and subtract that again.
    subnormal = e.bits(e.sub(e.float_of_bits(e.add(magnitude, 113 << 23)), 2.0**-14))
    result = e.select(e.compare("ult", magnitude, 1 << 23), subnormal, normal)
    result = e.select(e.compare("uge", magnitude, 0x7C00 << 13), not_finite, result)
    result = e.select(e.compare("ugt", magnitude, 0x7C00 << 13), quiet, result)
    return e.float_of_bits(e.op("or", result, sign))
