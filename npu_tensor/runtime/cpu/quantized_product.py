"""Products of float32 rows with quantized weights, whose blocks are read where they are.

Two kernels: the first rounds each row of the input to bytes with scales, as ggml does, and the second multiplies these
with the codes of the weights as integers. In the exact form there is only the second, on the codes as float32. A tile
has some rows of weights, whose codes are unpacked once for as many tokens as the tile has.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from npu_tensor._util.cache_sizes import MODULES
from npu_tensor.dtypes import DType, as_dtype
from npu_tensor.runtime.cpu.float_formats import round_float16
from npu_tensor.runtime.cpu.gemm_micro import broadcast, byte_offset, load_value
from npu_tensor.runtime.cpu.ir_emitter import Emitter
from npu_tensor.runtime.cpu.quantized_formats import GROUP, CodeGroup, dot, groups
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import Value

__all__ = [
    "MOST_TOKENS",
    "QuantizedSpec",
    "RoundedRow",
    "dequantize_module",
    "product_meta",
    "product_module",
    "round_module",
]

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
        """Rows of weights of a tile."""
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
        pointers, numbers = Value("%pointers", "ptr"), Value("%meta", "ptr")
        self.meta = {name: load_value(self.emitter, "i64", numbers, i) for i, name in enumerate(meta)}
        self.slots = [load_value(self.emitter, "ptr", pointers, slot) for slot in range(slots)]

    def at(self, base: Value, line: Value, stride: str) -> Value:
        return byte_offset(self.emitter, base, self.emitter.mul(line, self.meta[stride]))

    def store(self, value: Value, address: Value) -> None:
        self.emitter.statement(f"store {value.type} {value.name}, ptr {address.name}, align 1")

    def floats(self, address: Value, lanes: int) -> Value:
        type_ = "float" if lanes == 1 else f"<{lanes} x float>"
        return load_value(self.emitter, type_, address, align=4)

    def module(self, name: str) -> str:
        signature = f"@{name}(ptr noalias %pointers, ptr noalias %meta, i64 %begin, i64 %end)"
        return self.emitter.module(self.emitter.function(signature))


@lru_cache(maxsize=MODULES)
def round_module(name: str, block: int, target: CpuTarget) -> str:
    """Return the module of `void name(ptr pointers, ptr meta, i64 begin, i64 end)`, which rounds rows to bytes.

    pointers  [rounded rows, float32 rows]
    meta      `product_meta`

    A block with NaN or infinity has a scale of NaN.

    Args:
        name: Name of the function.
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
            start = byte_offset(e, source, e.mul(index, block * 4))
            parts = [writer.floats(byte_offset(e, start, i * GROUP * 4), GROUP) for i in range(count)]
            largest = e.abs(parts[0])
            for part in parts[1:]:
                larger = e.abs(part)
                largest = e.select(e.compare("ogt", larger, largest), larger, largest)
            name, overloads = "llvm.vector.reduce.fmax", (largest.type,)
            amax = e.intrinsic(name, largest, result="float", overloads=overloads, flags="nnan")
            scale = e.div(amax, 127.0)
            inverse = e.select(e.compare("oeq", amax, 0.0), 0.0, e.div(e.constant(1.0, "float"), scale))
            stored = round_float16(e, scale) if block == GROUP else scale
            # 0, or NaN if an element is no finite number.
            for part in parts:
                stored = e.add(stored, e.sum_lanes(e.mul(part, 0.0)))
            for i, part in enumerate(parts):
                group = e.add(e.mul(index, count), i)
                scaled = e.mul(part, broadcast(e, inverse, GROUP))
                codes = e.convert("fptosi", e.rint(scaled), "i32")
                writer.store(e.convert("trunc", codes, "i8"), byte_offset(e, target_row, e.mul(group, GROUP)))
                four = e.mul(group, 4)
                writer.store(stored, byte_offset(e, byte_offset(e, target_row, meta["scales"]), four))
                number = e.convert("sitofp", e.sum_lanes(codes), "float")
                writer.store(e.mul(number, stored), byte_offset(e, byte_offset(e, target_row, meta["sums"]), four))

        e.loop(0, meta["blocks"], 1, (), round_block)

    e.loop(Value("%begin", "i64"), Value("%end", "i64"), 1, (), round_row)
    return writer.module(name)


@lru_cache(maxsize=MODULES)
def product_module(name: str, spec: QuantizedSpec, target: CpuTarget) -> str:
    """Return the module of `void name(ptr pointers, ptr meta, i64 begin, i64 end)`, which computes result columns.

    An item is the columns of the rows of a tile. pointers: [result, weights, input]; the input as float32 rows if
    exact, else as rounded ones. meta: `product_meta`.
    """
    writer = _Writer(target, 3)
    e, meta = writer.emitter, writer.meta
    result, weights, x = writer.slots
    dtype = as_dtype(spec.dtype)
    count = dtype.block // GROUP
    add = _add_exact if spec.exact else _add_rounded

    def lines(first: Value, number: int, end: str) -> list[Value]:
        """Return the lines; those past the end are the last one, which is computed again."""
        last = e.sub(meta[end], 1)
        return [e.smaller(e.add(first, i), last) for i in range(number)]

    def compute_item(item: Value, _: list[Value]) -> None:
        rows = lines(e.mul(item, spec.rows), spec.rows, "rows")
        starts = [writer.at(weights, row, "weight_row_bytes") for row in rows]

        def compute_tokens(token: Value, _: list[Value]) -> None:
            tokens = lines(token, spec.tokens, "tokens")
            inputs = [writer.at(x, each, "input_row_bytes") for each in tokens]

            def add_block(index: Value, sums: list[Value]) -> list[Value]:
                blocks = [byte_offset(e, start, e.mul(index, dtype.itemsize)) for start in starts]
                if spec.tokens == 1:
                    read = dtype.itemsize * spec.rows
                    ahead = byte_offset(e, starts[0], e.add(e.mul(index, read), _AHEAD))
                    for line in range(0, read, _LINE):
                        e.prefetch(byte_offset(e, ahead, line))
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
                    writer.store(number, e.address(result, place, "float32"))

        e.loop(0, meta["tokens"], spec.tokens, (), compute_tokens)

    e.loop(Value("%begin", "i64"), Value("%end", "i64"), 1, (), compute_item)
    return writer.module(name)


def _add_rounded(
    writer: _Writer, group: CodeGroup, inputs: Sequence[Value], number: Value, sums: list[Value]
) -> list[Value]:
    """Add products of a group to `sums` and return them.

    There are sums of each row with each input, in 8 lanes; then sums of the minima with each input, in a lane per row.
    """
    e, meta, rows = writer.emitter, writer.meta, len(group.codes)
    sums, four = list(sums), e.mul(number, 4)
    for t, start in enumerate(inputs):
        codes = load_value(e, f"<{GROUP} x i8>", byte_offset(e, start, e.mul(number, GROUP)), align=1)

        def spread(name: str, start: Value = start) -> Value:
            scalar = writer.floats(byte_offset(e, byte_offset(e, start, meta[name]), four), 1)
            return broadcast(e, scalar, rows)

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
        xs = [writer.floats(byte_offset(e, byte_offset(e, x, start), part * _SUMS * 4), _SUMS) for x in inputs]
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


@lru_cache(maxsize=MODULES)
def dequantize_module(name: str, dtype: str, target: CpuTarget) -> str:
    """Return the module of `void name(ptr pointers, ptr meta, i64 begin, i64 end)`, which makes float32 of blocks.

    pointers: [result, blocks]. meta is not read.
    """
    writer = _Writer(target, 2, meta=())
    e = writer.emitter
    result, blocks = writer.slots

    def write_block(index: Value, _: list[Value]) -> None:
        block = byte_offset(e, blocks, e.mul(index, as_dtype(dtype).itemsize))
        start = byte_offset(e, result, e.mul(index, as_dtype(dtype).block * 4))
        for i, group in enumerate(groups(e, dtype, [block])):
            for part in range(GROUP // _SUMS):
                writer.store(_numbers(e, group, 0, part), byte_offset(e, start, (i * GROUP + part * _SUMS) * 4))

    e.loop(Value("%begin", "i64"), Value("%end", "i64"), 1, (), write_block)
    return writer.module(name)
