"""Blocks of quantized weights in LLVM IR: the codes and scales of 32 elements at a time.

What the blocks mean is said, in NumPy, in `npu_tensor.ops.quantized`; where their fields are, by the dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from npu_tensor.dtypes import as_dtype
from npu_tensor.ops.quantized import IQ4_NL_VALUES, MXFP4_VALUES
from npu_tensor.runtime.cpu.float_formats import widen_float16
from npu_tensor.runtime.cpu.gemm_micro import broadcast, byte_offset, load_value
from npu_tensor.runtime.cpu.ir_emitter import Emitter
from npu_tensor.runtime.cpu.values import Value

__all__ = ["GROUP", "CodeGroup", "both_halves", "dot", "groups"]

GROUP: Final = 32
"""Elements whose codes are one vector of bytes."""


class CodeGroup(NamedTuple):
    """Elements are scale * code + minimum.

    codes: of GROUP elements, as bytes. signed: whether they are; others are below 128. scales: one, or one for each
    half of the elements. minimum: None stands for 0.
    """

    codes: Value
    signed: bool
    scales: tuple[Value, ...]
    minimum: Value | None = None


class _Block:
    """A block in memory."""

    def __init__(self, emitter: Emitter, dtype: str, pointer: Value) -> None:
        self.emitter = emitter
        self.pointer = pointer
        fields = as_dtype(dtype).numpy.fields
        assert fields is not None
        self.offsets = {name: int(field[1]) for name, field in fields.items()}

    def load(self, field: str, type_: str, start: int = 0) -> Value:
        """A value of any type, which begins `start` bytes after the field does."""
        address = byte_offset(self.emitter, self.pointer, self.offsets[field] + start)
        return load_value(self.emitter, type_, address, align=1)

    def half(self, field: str) -> Value:
        """A float16 as float32."""
        return widen_float16(self.emitter, self.load(field, "i16"))

    def pair(self, field: str) -> tuple[Value, Value]:
        """Two float16 that follow one another as float32."""
        both = widen_float16(self.emitter, self.load(field, "<2 x i16>"))
        return self.emitter.extract(both, 0), self.emitter.extract(both, 1)

    def low(self, packed: Value) -> Value:
        return self.emitter.op("and", packed, 15)

    def high(self, packed: Value) -> Value:
        return self.emitter.op("lshr", packed, 4)

    def nibbles(self, field: str = "qs") -> Value:
        """The low halves of 16 bytes and then the high ones."""
        packed = self.load(field, "<16 x i8>")
        return self.emitter.shuffle(self.low(packed), range(GROUP), self.high(packed))

    def fifth_bits(self) -> Value:
        """16 where the bit of the element is set."""
        mask = self.emitter.cast(self.load("qh", "i32"), f"<{GROUP} x i1>")
        sixteen = self.emitter.constant(16, f"<{GROUP} x i8>")
        return self.emitter.select(mask, sixteen, 0)

    def number(self, byte: Value, opcode: str = "uitofp") -> Value:
        return self.emitter.convert(opcode, byte, "float")


def _q4_0(block: _Block) -> Iterator[CodeGroup]:
    yield CodeGroup(block.emitter.sub(block.nibbles(), 8), True, (block.half("d"),))


def _q4_1(block: _Block) -> Iterator[CodeGroup]:
    scale, minimum = block.pair("d")
    yield CodeGroup(block.nibbles(), False, (scale,), minimum)


def _q5_0(block: _Block) -> Iterator[CodeGroup]:
    codes = block.emitter.op("or", block.nibbles(), block.fifth_bits())
    yield CodeGroup(block.emitter.sub(codes, 16), True, (block.half("d"),))


def _q5_1(block: _Block) -> Iterator[CodeGroup]:
    scale, minimum = block.pair("d")
    yield CodeGroup(block.emitter.op("or", block.nibbles(), block.fifth_bits()), False, (scale,), minimum)


def _q8_0(block: _Block) -> Iterator[CodeGroup]:
    yield CodeGroup(block.load("qs", f"<{GROUP} x i8>"), True, (block.half("d"),))


def _six_bits(block: _Block, number: int, field: int) -> Value:
    """Scale (field 0) or minimum (field 4) of a group of q4_k and q5_k; see `ops.quantized`."""
    e = block.emitter

    def byte(place: int) -> Value:
        return block.load("scales", "i8", place)

    if number < 4:
        return e.op("and", byte(field + number), 63)
    mixed = byte(8 + number - 4)
    low = block.high(mixed) if field else block.low(mixed)
    return e.op("or", low, e.op("and", e.op("lshr", byte(field + number - 4), 2), 0x30))


def _with_minima(block: _Block, fifth: bool) -> Iterator[CodeGroup]:
    e = block.emitter
    d, dmin = block.pair("d")
    packed = high_bits = None
    if fifth:
        high_bits = block.load("qh", f"<{GROUP} x i8>")
    for number in range(8):
        if number % 2 == 0:
            packed = block.load("qs", f"<{GROUP} x i8>", number // 2 * GROUP)
        assert packed is not None
        codes = block.high(packed) if number % 2 else block.low(packed)
        if high_bits is not None:
            bit = e.op("and", e.op("lshr", high_bits, number), 1)
            codes = e.op("or", codes, e.op("shl", bit, 4))
        scale = e.mul(d, block.number(_six_bits(block, number, 0)))
        minimum = e.neg(e.mul(dmin, block.number(_six_bits(block, number, 4))))
        yield CodeGroup(codes, False, (scale,), minimum)


def _q6_k(block: _Block) -> Iterator[CodeGroup]:
    e = block.emitter
    d = block.half("d")
    for half in range(2):
        high = block.load("qh", f"<{GROUP} x i8>", half * GROUP)
        for part in range(4):
            packed = block.load("ql", f"<{GROUP} x i8>", half * 64 + part % 2 * GROUP)
            low = block.high(packed) if part >= 2 else block.low(packed)
            bits = e.op("shl", e.op("and", e.op("lshr", high, 2 * part), 3), 4)
            scales = (block.load("scales", "i8", half * 8 + part * 2 + i) for i in range(2))
            yield CodeGroup(
                e.sub(e.op("or", low, bits), 32), True, tuple(e.mul(d, block.number(s, "sitofp")) for s in scales)
            )


def _iq4_nl(block: _Block) -> Iterator[CodeGroup]:
    yield CodeGroup(_look_up(block.emitter, block.nibbles("indices"), IQ4_NL_VALUES), True, (block.half("d"),))


def _mxfp4(block: _Block) -> Iterator[CodeGroup]:
    e = block.emitter
    exponent = e.convert("zext", block.load("e", "i8"), "i32")
    subnormal = e.op("shl", 0x200000, e.op("and", exponent, 1))
    bits = e.select(e.compare("ult", exponent, 2), subnormal, e.op("shl", e.sub(exponent, 1), 23))
    yield CodeGroup(_look_up(e, block.nibbles(), MXFP4_VALUES), True, (e.float_of_bits(bits),))


_FORMATS: Final[dict[str, Callable[[_Block], Iterator[CodeGroup]]]] = {
    "q4_0": _q4_0,
    "q4_1": _q4_1,
    "q5_0": _q5_0,
    "q5_1": _q5_1,
    "q8_0": _q8_0,
    "q4_k": lambda block: _with_minima(block, fifth=False),
    "q5_k": lambda block: _with_minima(block, fifth=True),
    "q6_k": _q6_k,
    "iq4_nl": _iq4_nl,
    "mxfp4": _mxfp4,
}


def groups(emitter: Emitter, dtype: str, pointer: Value) -> Iterator[CodeGroup]:
    """The elements of a block, in order."""
    return _FORMATS[dtype](_Block(emitter, dtype, pointer))


# --- bytes


def _by_halves(emitter: Emitter, function: Callable[..., Value], *vectors: Value) -> Value:
    """Of functions that processors have for 16 bytes only."""
    parts = [
        function(*(emitter.shuffle(vector, range(first, first + 16)) for vector in vectors)) for first in (0, 16)
    ]
    return emitter.shuffle(parts[0], range(2 * parts[0].lanes), parts[1])


def _look_up(e: Emitter, indices: Value, table: tuple[int, ...]) -> Value:
    """The entries at indices below 16."""
    features = e.target.features
    if "avx2" in features:
        return e.intrinsic("llvm.x86.avx2.pshuf.b", e.literals(table * 2, "i8"), indices, overloads=())
    entries = e.literals(table, "i8")
    if "ssse3" in features:
        name = "llvm.x86.ssse3.pshuf.b.128"
        return _by_halves(e, lambda part: e.intrinsic(name, entries, part, overloads=()), indices)
    if e.target.is_aarch64:
        name = "llvm.aarch64.neon.tbl1"
        return _by_halves(e, lambda part: e.intrinsic(name, entries, part), indices)
    result = e.constant(table[0], indices.type)
    for index, number in enumerate(table[1:], 1):
        result = e.select(e.compare("eq", indices, index), e.constant(number, indices.type), result)
    return result


def dot(e: Emitter, group: CodeGroup, x: Value) -> Value:
    """The products of the codes and the signed bytes x, in 8 sums, of which 4 belong to each half of the elements."""
    target, codes = e.target, group.codes
    features = target.features
    if not target.is_x86 or "ssse3" not in features:
        return _by_halves(e, lambda a, b: _dot_16(e, a, b), codes, x)
    if group.signed:
        # The instructions take unsigned bytes on the left: the sign of the code moves to x.
        x, codes = _signs_moved(e, x, codes), e.intrinsic("llvm.abs", codes, Value("false", "i1"))
    zero = e.constant(0, "<8 x i32>")
    if target.has_vnni or "avxvnni" in features:
        units = [e.cast(each, "<8 x i32>") for each in (codes, x)]
        return e.intrinsic("llvm.x86.avx512.vpdpbusd.256", zero, *units, overloads=())
    if "avx2" in features:
        pairs = e.intrinsic("llvm.x86.avx2.pmadd.ub.sw", codes, x, result="<16 x i16>", overloads=())
        ones = e.constant(1, pairs.type)
        return e.intrinsic("llvm.x86.avx2.pmadd.wd", pairs, ones, result="<8 x i32>", overloads=())

    def of_half(a: Value, b: Value) -> Value:
        pairs = e.intrinsic("llvm.x86.ssse3.pmadd.ub.sw.128", a, b, result="<8 x i16>", overloads=())
        ones = e.constant(1, pairs.type)
        return e.intrinsic("llvm.x86.sse2.pmadd.wd", pairs, ones, result="<4 x i32>", overloads=())

    return _by_halves(e, of_half, codes, x)


def _signs_moved(e: Emitter, x: Value, signs: Value) -> Value:
    """x where the other is positive, -x where it is negative, 0 where it is 0."""
    if "avx2" in e.target.features:
        return e.intrinsic("llvm.x86.avx2.psign.b", x, signs, overloads=())
    name = "llvm.x86.ssse3.psign.b.128"
    return _by_halves(e, lambda a, b: e.intrinsic(name, a, b, overloads=()), x, signs)


def _dot_16(e: Emitter, a: Value, b: Value) -> Value:
    """Four sums of products of signed bytes."""
    zero = e.constant(0, "<4 x i32>")
    if e.target.is_aarch64 and "dotprod" in e.target.features:
        name = "llvm.aarch64.neon.sdot"
        return e.intrinsic(name, zero, a, b, overloads=("<4 x i32>", "<16 x i8>"))
    # Bytes of -128 to 127 have products that 16 bits hold.
    products = e.mul(e.convert("sext", a, "i16"), e.convert("sext", b, "i16"))
    wide = e.convert("sext", products, "i32")
    parts = [e.shuffle(wide, range(first, first + 4)) for first in range(0, 16, 4)]
    return e.add(e.add(parts[0], parts[1]), e.add(parts[2], parts[3]))


def both_halves(e: Emitter, scales: tuple[Value, ...]) -> Value:
    """The scales of a group for the sums of `dot`."""
    if len(scales) == 1:
        return broadcast(e, scales[0], 8)
    vectors = [broadcast(e, scale, 4) for scale in scales]
    return e.shuffle(vectors[0], range(8), vectors[1])
