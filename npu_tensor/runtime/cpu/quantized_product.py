"""Products of float32 rows with quantized weights, whose blocks are read where they are.

Two kernels: the first rounds each row of the input to bytes with scales, as ggml does, and the second multiplies these
with the codes of the weights as integers. In the exact form there is only the second, on the codes as float32. A tile
has some rows of weights, whose codes are unpacked once for as many tokens as the tile has.

`npu_tensor.ops.quantized` defines the meaning of blocks in NumPy; the dtype has the offsets of their fields. Codes and
scales are read 32 elements at a time. Several rows of weights are read in step: codes are a vector for each row. Scales
and minima are a vector with a lane for each row, so that they are computed for all rows at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npu_tensor._util.forks import cached_property
from npu_tensor.dtypes import DType, as_dtype, float32
from npu_tensor.ops.quantized import IQ4_NL_VALUES, MXFP4_VALUES
from npu_tensor.runtime.cpu.bound_loops import BoundLoops, Location
from npu_tensor.runtime.cpu.cpu_cost import quantized_cost, quantized_piece
from npu_tensor.runtime.cpu.float_formats import round_float16, widen_float16
from npu_tensor.runtime.cpu.ir_emitter import Emitter
from npu_tensor.runtime.cpu.kernels import CopyingKernel, CpuKernel
from npu_tensor.runtime.cpu.loop_parts import LoopParts, place_of
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import Value
from npu_tensor.task import Cost, Task

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
        address = self.emitter.byte_offset(self.pointer, self.offsets[field] + start)
        return self.emitter.load_value(type_, address, align=1)

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
        e, vector = self.emitter, Value("poison", f"<{len(self)} x {type_}>")
        for row, block in enumerate(self):
            scalar = block.load(field, type_, start)
            vector = e.assign(
                vector.type, f"insertelement {vector.type} {vector.name}, {type_} {scalar.name}, i64 {row}"
            )
        return vector

    def halves(self, field: str) -> Value:
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


MOST_TOKENS: Final = 4
"""Upper bound on the tokens of a tile."""

_META: Final = ("blocks", "rows", "tokens", "weight_row_bytes", "float_row_bytes", "input_row_bytes", "scales", "sums")
"""Fields that both kernels read; see `product_meta`."""

_AHEAD: Final = 4096
"""Prefetch distance in bytes. The rows of a tile are short streams, which processors recognize too late. They are
consecutive in memory, so the prefetches are one long stream."""

_LINE: Final = 64
"""Size of a cache line in bytes."""

_SUMS: Final = 8
"""Lanes of an accumulator."""


class QuantizedSpec(NamedTuple):
    """Parameters of the code of a product.

    Attributes:
        tokens: Tokens of a tile.
    """

    dtype: str
    exact: bool
    tokens: int

    @property
    def rows(self) -> int:
        return 4 if self.tokens == 1 else 2


class RoundedRow(NamedTuple):
    """Offsets of the scales and sums of a row that is rounded to bytes, and its size, in bytes.

    Scales and sums are float32, one for each group.
    """

    scales: int
    sums: int
    nbytes: int

    @classmethod
    def of(cls, features: int) -> RoundedRow:
        floats = features // GROUP * 4
        return cls(features, features + floats, features + 2 * floats)


def product_meta(dtype: DType, exact: bool, rows: int, features: int, tokens: int) -> NDArray[np.int64]:
    """Return the sizes of a product of (tokens, features) and weights (rows, features)."""
    rounded = RoundedRow.of(features)
    input_row_bytes = features * 4 if exact else rounded.nbytes
    sizes = (features // dtype.block, rows, tokens, dtype.nbytes(features), features * 4, input_row_bytes)
    return np.array([*sizes, rounded.scales, rounded.sums], np.int64)


class _Writer:
    """A kernel that handles some items."""

    def __init__(self, target: CpuTarget, slots: int, meta: Sequence[str] = _META) -> None:
        self.emitter = Emitter(target)
        self.meta = self.emitter.named_numbers(meta)
        self.slots = self.emitter.addresses(slots)

    def at(self, base: Value, line: Value, stride: str) -> Value:
        return self.emitter.byte_offset(base, self.emitter.mul(line, self.meta[stride]))

    def floats(self, address: Value, lanes: int) -> Value:
        type_ = "float" if lanes == 1 else f"<{lanes} x float>"
        return self.emitter.load_value(type_, address, align=4)


def round_module(block: int, target: CpuTarget) -> str:
    """Return the module of a kernel that rounds rows to bytes.

    pointers  [rounded rows, float32 rows]
    meta      `product_meta`

    A block with NaN or infinity has a scale of NaN.

    Args:
        block: Number of elements that share a scale, 32 or 256.
        target: The processor.
    """
    writer = _Writer(target, 2)
    e, meta = writer.emitter, writer.meta
    to, of = writer.slots
    count = block // GROUP

    def round_row(row: Value, _: list[Value]) -> None:
        source, target_row = writer.at(of, row, "float_row_bytes"), writer.at(to, row, "input_row_bytes")

        def round_block(index: Value, _: list[Value]) -> None:
            start = e.byte_offset(source, e.mul(index, block * 4))
            parts = [writer.floats(e.byte_offset(start, i * GROUP * 4), GROUP) for i in range(count)]
            largest = e.abs(parts[0])
            for part in parts[1:]:
                larger = e.abs(part)
                largest = e.select(e.compare("ogt", larger, largest), larger, largest)
            name, overloads = "llvm.vector.reduce.fmax", (largest.type,)
            amax = e.intrinsic(name, largest, result="float", overloads=overloads, flags="nnan")
            scale = e.div(amax, 127.0)
            inverse = e.select(e.compare("oeq", amax, 0.0), 0.0, e.div(e.constant(1.0, "float"), scale))
            stored = round_float16(e, scale) if block == GROUP else scale
            # 0, or NaN if an element is not finite.
            for part in parts:
                stored = e.add(stored, e.sum_lanes(e.mul(part, 0.0)))
            for i, part in enumerate(parts):
                group = e.add(e.mul(index, count), i)
                scaled = e.mul(part, e.broadcast(inverse, GROUP))
                codes = e.convert("fptosi", e.rint(scaled), "i32")
                e.store_value(e.convert("trunc", codes, "i8"), e.byte_offset(target_row, e.mul(group, GROUP)))
                four = e.mul(group, 4)
                e.store_value(stored, e.byte_offset(e.byte_offset(target_row, meta["scales"]), four))
                number = e.convert("sitofp", e.sum_lanes(codes), "float")
                e.store_value(e.mul(number, stored), e.byte_offset(e.byte_offset(target_row, meta["sums"]), four))

        e.loop(0, meta["blocks"], 1, (), round_block)

    return e.kernel_of_items(round_row)


def product_module(spec: QuantizedSpec, target: CpuTarget) -> str:
    """Return the module of a kernel that computes result columns.

    An item is the columns of the rows of a tile. pointers: [result, weights, input]; the input as float32 rows if
    exact, else as rounded ones. meta: `product_meta`.
    """
    writer = _Writer(target, 3)
    e, meta = writer.emitter, writer.meta
    result, weights, x = writer.slots
    dtype = as_dtype(spec.dtype)
    count = dtype.block // GROUP
    add = _add_exact if spec.exact else _add_rounded

    def compute_item(item: Value, _: list[Value]) -> None:
        rows = e.up_to(e.mul(item, spec.rows), spec.rows, meta["rows"])
        starts = [writer.at(weights, row, "weight_row_bytes") for row in rows]

        def compute_tokens(token: Value, _: list[Value]) -> None:
            tokens = e.up_to(token, spec.tokens, meta["tokens"])
            inputs = [writer.at(x, each, "input_row_bytes") for each in tokens]

            def add_block(index: Value, sums: list[Value]) -> list[Value]:
                blocks = [e.byte_offset(start, e.mul(index, dtype.itemsize)) for start in starts]
                if spec.tokens == 1:
                    read = dtype.itemsize * spec.rows
                    ahead = e.byte_offset(starts[0], e.add(e.mul(index, read), _AHEAD))
                    for line in range(0, read, _LINE):
                        e.prefetch(e.byte_offset(ahead, line))
                for i, group in enumerate(groups(e, spec.dtype, blocks)):
                    sums = add(writer, group, inputs, e.add(e.mul(index, count), i), sums)
                return sums

            zero, zeros = (e.constant(0.0, f"<{lanes} x float>") for lanes in (_SUMS, spec.rows))
            start = [zero] * (spec.rows * spec.tokens) + [zeros] * spec.tokens
            sums = e.loop(0, meta["blocks"], 1, start, add_block)
            for t, each in enumerate(tokens):
                column = sums[len(sums) - spec.tokens + t]
                for r, row in enumerate(rows):
                    place = e.add(e.mul(each, meta["rows"]), row)
                    number = e.add(e.sum_lanes(sums[r * spec.tokens + t]), e.extract(column, r))
                    e.store_value(number, e.address(result, place, "float32"))

        e.loop(0, meta["tokens"], spec.tokens, (), compute_tokens)

    return e.kernel_of_items(compute_item)


def _add_rounded(
    writer: _Writer, group: CodeGroup, inputs: Sequence[Value], number: Value, sums: list[Value]
) -> list[Value]:
    """Add products of a group to `sums` and return them.

    There are sums of each row with each input, in 8 lanes; then sums of the minima with each input, in a lane per row.
    """
    e, meta, rows = writer.emitter, writer.meta, len(group.codes)
    sums, four = list(sums), e.mul(number, 4)
    for t, start in enumerate(inputs):
        codes = e.load_value(f"<{GROUP} x i8>", e.byte_offset(start, e.mul(number, GROUP)), align=1)

        def spread(name: str, start: Value = start) -> Value:
            scalar = writer.floats(e.byte_offset(e.byte_offset(start, meta[name]), four), 1)
            return e.broadcast(scalar, rows)

        x_scale = spread("scales")
        scales = [e.mul(each, x_scale) for each in group.scales]
        for r, row in enumerate(group.codes):
            place = r * len(inputs) + t
            products = e.convert("sitofp", dot(e, row, group.signed, codes), "float")
            sums[place] = e.fma(products, _lane(e, scales, r), sums[place])
        if group.minima is not None:
            place = rows * len(inputs) + t
            sums[place] = e.fma(group.minima, spread("sums"), sums[place])
    return sums


def _lane(e: Emitter, scales: Sequence[Value], row: int) -> Value:
    """Return the scales of a row for the sums of `dot`."""
    second = scales[0].lanes + row if len(scales) > 1 else row
    return e.shuffle(scales[0], [row] * 4 + [second] * 4, scales[-1])


def _add_exact(
    writer: _Writer, group: CodeGroup, inputs: Sequence[Value], number: Value, sums: list[Value]
) -> list[Value]:
    e = writer.emitter
    sums, start = list(sums), e.mul(number, GROUP * 4)
    for part in range(GROUP // _SUMS):
        xs = [writer.floats(e.byte_offset(e.byte_offset(x, start), part * _SUMS * 4), _SUMS) for x in inputs]
        for r in range(len(group.codes)):
            weights = _numbers(e, group, r, part)
            for t, x in enumerate(xs):
                place = r * len(inputs) + t
                sums[place] = e.fma(weights, x, sums[place])
    return sums


def _numbers(e: Emitter, group: CodeGroup, row: int, part: int) -> Value:
    """Return the eight elements of a group from number 8 * part on, as float32."""
    codes = e.convert("sext", e.shuffle(group.codes[row], range(part * _SUMS, (part + 1) * _SUMS)), "i32")
    scales = group.scales[part * len(group.scales) * _SUMS // GROUP]
    numbers = e.mul(e.convert("sitofp", codes, "float"), e.shuffle(scales, [row] * _SUMS))
    return numbers if group.minima is None else e.add(numbers, e.shuffle(group.minima, [row] * _SUMS))


def dequantize_module(dtype: str, target: CpuTarget) -> str:
    """Return the module of a kernel that makes float32 of blocks.

    pointers: [result, blocks]. meta is not read.
    """
    writer = _Writer(target, 2, meta=())
    e = writer.emitter
    result, blocks = writer.slots

    def write_block(index: Value, _: list[Value]) -> None:
        block = e.byte_offset(blocks, e.mul(index, as_dtype(dtype).itemsize))
        start = e.byte_offset(result, e.mul(index, as_dtype(dtype).block * 4))
        for i, group in enumerate(groups(e, dtype, [block])):
            for part in range(GROUP // _SUMS):
                e.store_value(_numbers(e, group, 0, part), e.byte_offset(start, (i * GROUP + part * _SUMS) * 4))

    return e.kernel_of_items(write_block)


class QuantizedKernel(CpuKernel):
    """The op `linear_quantized`."""

    name = "quantized"

    def __init__(self, processor: Processor, task: Task) -> None:
        super().__init__(processor, task)
        dtype, call = task.tensors[1].dtype, task.call
        assert dtype is not None
        assert call is not None
        self.dtype = dtype
        self.exact: bool = call.attributes["exact"]
        how = "exact: by float32 numbers" if self.exact else "input rounded to 8 bits as in ggml"
        self.reason = f"compiled for {dtype.name}, {how}"

    @cached_property
    def cost(self) -> Cost:
        return quantized_cost(self.task, self.owner.rates, self.owner.threads)

    def _bind(self) -> BoundLoops:
        """Bind the product. An input that jumps in memory or is bfloat16 is copied first; an inexact product rounds it.

        A bfloat16 result is a copy of the float32 sums.
        """
        task, dtype, parts = self.task, self.dtype, LoopParts(self.owner, self.task)
        (source, weights), (output,) = task.tensors, task.outputs
        read = place_of(parts.row_major(source, float32))
        (rows, features), tokens = weights.layout.shape, math.prod(task.shape[:-1])
        spec = QuantizedSpec(dtype.name, self.exact, min(tokens, MOST_TOKENS))
        meta = product_meta(dtype, self.exact, rows, features, tokens)
        if not self.exact:
            rounded = parts.scratch(tokens * RoundedRow.of(features).nbytes)
            parts.loop(round_module, dtype.block, meta, tokens, quantized_piece(features * 4, 1), (rounded, read))
            read = rounded
        piece, slots = quantized_piece(dtype.nbytes(features) * spec.rows, tokens), (Location(weights.item), read)
        result = parts.result(output, float32)
        parts.loop(product_module, spec, meta, -(-rows // spec.rows), piece, (result, *slots))
        return parts.joined()


class DequantizeKernel(CopyingKernel):
    """The op `dequantize`."""

    name = "quantized"

    def _bind(self) -> BoundLoops:
        (source,), (output,), parts = self.task.tensors, self.task.outputs, LoopParts(self.owner, self.task)
        dtype = source.dtype
        blocks, slots = math.prod(self.task.shape) // dtype.block, (parts.result(output), Location(source.item))
        parts.loop(dequantize_module, dtype.name, [], blocks, quantized_piece(dtype.itemsize, 1), slots)
        return parts.joined()
