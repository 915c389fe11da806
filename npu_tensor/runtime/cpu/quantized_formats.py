"""Blocks of quantized weights in LLVM IR: the codes and scales of 32 elements at a time.

`npu_tensor.ops.quantized` defines the meaning of blocks in NumPy; the dtype has the offsets of their fields. Several
rows of weights are read in step: codes are a vector for each row. Scales and minima are a vector with a lane for each
row, so that they are computed for all rows at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from npu_tensor.dtypes import as_dtype
from npu_tensor.ops.quantized import IQ4_NL_VALUES, MXFP4_VALUES
from npu_tensor.runtime.cpu.float_formats import widen_float16
from npu_tensor.runtime.cpu.gemm_micro import byte_offset, load_value
from npu_tensor.runtime.cpu.ir_emitter import Emitter
from npu_tensor.runtime.cpu.values import Value

__all__ = ["GROUP", "CodeGroup", "dot", "groups"]

GROUP: Final = 32
"""Elements whose codes are one vector of bytes."""


class CodeGroup(NamedTuple):
    """Elements are scale * code + minimum.

    Attributes:
        codes: For each row, codes of GROUP elements as bytes.
        signed: True if codes are signed; unsigned codes are below 128.
        scales: Scales of all elements or of each half, with a lane for each row.
        minima: Minima with a lane for each row; None for 0.
    """

    codes: Sequence[Value]
    signed: bool
    scales: tuple[Value, ...]
    minima: Value | None = None


class _Block:
    """A block of a row in memory."""

    def __init__(self, emitter: Emitter, offsets: dict[str, int], pointer: Value) -> None:
        self.emitter, self.offsets, self.pointer = emitter, offsets, pointer

    def load(self, field: str, type_: str, start: int = 0) -> Value:
        """Return a value of any type, which begins `start` bytes after the field does."""
        address = byte_offset(self.emitter, self.pointer, self.offsets[field] + start)
        return load_value(self.emitter, type_, address, align=1)

    def nibbles(self, field: str = "qs") -> Value:
        """Return the low halves of 16 bytes and then the high ones."""
        e, packed = self.emitter, self.load(field, "<16 x i8>")
        twice = e.cast(e.shuffle(packed, [*range(16)] * 2), "<4 x i64>")
        return e.op("and", e.cast(e.op("lshr", twice, e.literals((0, 0, 4, 4), "i64")), f"<{GROUP} x i8>"), 15)

    def five_bits(self) -> Value:
        """Return nibbles, with 16 more where the bit of the element is set."""
        e = self.emitter
        mask = e.cast(self.load("qh", "i32"), f"<{GROUP} x i1>")
        return e.op("or", self.nibbles(), e.select(mask, e.constant(16, f"<{GROUP} x i8>"), 0))


class _Blocks(list[_Block]):
    """The blocks of several rows, and vectors with a lane for each row."""

    def __init__(self, emitter: Emitter, dtype: str, pointers: Sequence[Value]) -> None:
        fields = as_dtype(dtype).numpy.fields
        assert fields is not None
        offsets = {name: int(field[1]) for name, field in fields.items()}
        super().__init__([_Block(emitter, offsets, pointer) for pointer in pointers])
        self.emitter = emitter

    def lanes(self, field: str, type_: str, start: int = 0) -> Value:
        """Return a scalar of each row; see `_Block.load`."""
        e, vector = self.emitter, Value("poison", f"<{len(self)} x {type_}>")
        for row, block in enumerate(self):
            scalar = block.load(field, type_, start)
            vector = e.assign(
                vector.type, f"insertelement {vector.type} {vector.name}, {type_} {scalar.name}, i64 {row}"
            )
        return vector

    def halves(self, field: str) -> Value:
        """Return a float16 of each row as float32."""
        return widen_float16(self.emitter, self.lanes(field, "i16"))

    def pairs(self, field: str) -> tuple[Value, Value]:
        """Return two float16 that follow one another in each row, as float32."""
        e, words, count = self.emitter, self.lanes(field, "i32"), 2 * len(self)
        both = widen_float16(e, e.cast(words, f"<{count} x i16>"))
        return e.shuffle(both, range(0, count, 2)), e.shuffle(both, range(1, count, 2))

    def numbers(self, bytes_: Value, opcode: str = "uitofp") -> Value:
        return self.emitter.convert(opcode, bytes_, "float")


def _q4_0(blocks: _Blocks) -> Iterator[CodeGroup]:
    codes = [blocks.emitter.sub(block.nibbles(), 8) for block in blocks]
    yield CodeGroup(codes, True, (blocks.halves("d"),))


def _q4_1(blocks: _Blocks) -> Iterator[CodeGroup]:
    scales, minima = blocks.pairs("d")
    yield CodeGroup([block.nibbles() for block in blocks], False, (scales,), minima)


def _q5_0(blocks: _Blocks) -> Iterator[CodeGroup]:
    codes = [blocks.emitter.sub(block.five_bits(), 16) for block in blocks]
    yield CodeGroup(codes, True, (blocks.halves("d"),))


def _q5_1(blocks: _Blocks) -> Iterator[CodeGroup]:
    scales, minima = blocks.pairs("d")
    yield CodeGroup([block.five_bits() for block in blocks], False, (scales,), minima)


def _q8_0(blocks: _Blocks) -> Iterator[CodeGroup]:
    yield CodeGroup([block.load("qs", f"<{GROUP} x i8>") for block in blocks], True, (blocks.halves("d"),))


def _low(e: Emitter, packed: Value) -> Value:
    return e.op("and", packed, 15)


def _high(e: Emitter, packed: Value) -> Value:
    return e.op("lshr", packed, 4)


def _six_bits(blocks: _Blocks, number: int, field: int) -> Value:
    """Scale (field 0) or minimum (field 4) of a group of q4_k and q5_k; see `ops.quantized`."""
    e = blocks.emitter

    def bytes_(place: int) -> Value:
        return blocks.lanes("scales", "i8", place)

    if number < 4:
        return e.op("and", bytes_(field + number), 63)
    mixed = bytes_(8 + number - 4)
    low = _high(e, mixed) if field else _low(e, mixed)
    return e.op("or", low, e.op("and", e.op("lshr", bytes_(field + number - 4), 2), 0x30))


def _with_minima(blocks: _Blocks, fifth: bool) -> Iterator[CodeGroup]:
    e = blocks.emitter
    d, dmin = blocks.pairs("d")
    packed: list[Value] = []
    high_bits = [block.load("qh", f"<{GROUP} x i8>") for block in blocks] if fifth else []
    for number in range(8):
        if number % 2 == 0:
            packed = [block.load("qs", f"<{GROUP} x i8>", number // 2 * GROUP) for block in blocks]
        codes = [(_high if number % 2 else _low)(e, each) for each in packed]
        if fifth:
            bits = [e.op("and", e.op("lshr", each, number), 1) for each in high_bits]
            codes = [e.op("or", code, e.op("shl", bit, 4)) for code, bit in zip(codes, bits, strict=True)]
        scales = e.mul(d, blocks.numbers(_six_bits(blocks, number, 0)))
        minima = e.neg(e.mul(dmin, blocks.numbers(_six_bits(blocks, number, 4))))
        yield CodeGroup(codes, False, (scales,), minima)


def _q6_k(blocks: _Blocks) -> Iterator[CodeGroup]:
    e = blocks.emitter
    d = blocks.halves("d")

    def codes(block: _Block, high: Value, half: int, part: int) -> Value:
        packed = block.load("ql", f"<{GROUP} x i8>", half * 64 + part % 2 * GROUP)
        bits = e.op("shl", e.op("and", e.op("lshr", high, 2 * part), 3), 4)
        return e.sub(e.op("or", (_high if part >= 2 else _low)(e, packed), bits), 32)

    for half in range(2):
        high = [block.load("qh", f"<{GROUP} x i8>", half * GROUP) for block in blocks]
        for part in range(4):
            each = [codes(block, bits, half, part) for block, bits in zip(blocks, high, strict=True)]
            bytes_ = (blocks.lanes("scales", "i8", half * 8 + part * 2 + i) for i in range(2))
            yield CodeGroup(each, True, tuple(e.mul(d, blocks.numbers(each, "sitofp")) for each in bytes_))


def _iq4_nl(blocks: _Blocks) -> Iterator[CodeGroup]:
    codes = [_look_up(blocks.emitter, block.nibbles("indices"), IQ4_NL_VALUES) for block in blocks]
    yield CodeGroup(codes, True, (blocks.halves("d"),))


def _mxfp4(blocks: _Blocks) -> Iterator[CodeGroup]:
    e = blocks.emitter
    exponent = e.convert("zext", blocks.lanes("e", "i8"), "i32")
    subnormal = e.op("shl", 0x200000, e.op("and", exponent, 1))
    bits = e.select(e.compare("ult", exponent, 2), subnormal, e.op("shl", e.sub(exponent, 1), 23))
    codes = [_look_up(e, block.nibbles(), MXFP4_VALUES) for block in blocks]
    yield CodeGroup(codes, True, (e.float_of_bits(bits),))


_FORMATS: Final[dict[str, Callable[[_Blocks], Iterator[CodeGroup]]]] = {
    "q4_0": _q4_0,
    "q4_1": _q4_1,
    "q5_0": _q5_0,
    "q5_1": _q5_1,
    "q8_0": _q8_0,
    "q4_k": lambda blocks: _with_minima(blocks, fifth=False),
    "q5_k": lambda blocks: _with_minima(blocks, fifth=True),
    "q6_k": _q6_k,
    "iq4_nl": _iq4_nl,
    "mxfp4": _mxfp4,
}


def groups(emitter: Emitter, dtype: str, pointers: Sequence[Value]) -> Iterator[CodeGroup]:
    """Return the elements of a block of each row, in order."""
    return _FORMATS[dtype](_Blocks(emitter, dtype, pointers))


# --- bytes


def _by_halves(emitter: Emitter, function: Callable[..., Value], *vectors: Value) -> Value:
    """Apply a function to halves of vectors: processors have it for 16 bytes only."""
    parts = [function(*(emitter.shuffle(vector, range(first, first + 16)) for vector in vectors)) for first in (0, 16)]
    return emitter.shuffle(parts[0], range(2 * parts[0].lanes), parts[1])


def _look_up(e: Emitter, indices: Value, table: tuple[int, ...]) -> Value:
    """Look up entries at indices below 16."""
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


def dot(e: Emitter, codes: Value, signed: bool, x: Value) -> Value:
    """Return the products of codes and the signed bytes x, in 8 sums, 4 of each half of the elements."""
    target = e.target
    features = target.features
    if not target.is_x86 or "ssse3" not in features:
        return _by_halves(e, lambda a, b: _dot_16(e, a, b), codes, x)
    if signed:
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
    """Return x where the other is positive, -x where it is negative, 0 where it is 0."""
    if "avx2" in e.target.features:
        return e.intrinsic("llvm.x86.avx2.psign.b", x, signs, overloads=())
    name = "llvm.x86.ssse3.psign.b.128"
    return _by_halves(e, lambda a, b: e.intrinsic(name, a, b, overloads=()), x, signs)


def _dot_16(e: Emitter, a: Value, b: Value) -> Value:
    """Return four sums of products of signed bytes."""
    zero = e.constant(0, "<4 x i32>")
    if e.target.is_aarch64 and "dotprod" in e.target.features:
        name = "llvm.aarch64.neon.sdot"
        return e.intrinsic(name, zero, a, b, overloads=("<4 x i32>", "<16 x i8>"))
    # Bytes of -128 to 127 have products that 16 bits hold.
    products = e.mul(e.convert("sext", a, "i16"), e.convert("sext", b, "i16"))
    wide = e.convert("sext", products, "i32")
    parts = [e.shuffle(wide, range(first, first + 4)) for first in range(0, 16, 4)]
    return e.add(e.add(parts[0], parts[1]), e.add(parts[2], parts[3]))
