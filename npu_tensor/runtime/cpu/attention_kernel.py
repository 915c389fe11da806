"""The op `attention`: blocks of keys pass by a panel of query rows, with running maximum and sum.

A panel is a few vectors of rows, one per lane, so that maxima, sums and corrections need no sums over lanes. Keys and
values are read where they are, in any layout: an element of a key or value is broadcast and multiplied by the panel's
queries or weights. Only the queries are transposed before, and the results after. Scores stay in a block that fits in
the level-1 cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from npu_tensor._util.forks import cached_property
from npu_tensor.dtypes import float32
from npu_tensor.ops.declare import Layout
from npu_tensor.runtime.cpu.bound_loops import BoundLoop, BoundLoops, Location, Slot, joined
from npu_tensor.runtime.cpu.cpu_cost import LEAST_PIECE, attention_cost
from npu_tensor.runtime.cpu.gemm_micro import UNITS, Operand, emit_products
from npu_tensor.runtime.cpu.ir_emitter import BEGIN, END, META, POINTERS, Emitter
from npu_tensor.runtime.cpu.kernels import CpuKernel, bind_copy, first_byte, last_item
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import Value
from npu_tensor.runtime.cpu.vector_math import FUNCTIONS
from npu_tensor.spec import contiguous_strides
from npu_tensor.task import Cost, Input, Refusal, Task

__all__ = ["KEYS", "NUMBERS", "VECTORS", "AttentionKernel", "AttentionSpec", "attention_kernel", "attention_module"]

KEYS: Final = 96
"""Keys of a block."""

VECTORS: Final = 2
"""Vectors of rows in a panel."""

MOST_FEATURES: Final = 4096
"""Upper bound on the features of a key and a value together: their panels are on the stack."""

NUMBERS: Final = (
    *("rows", "queries", "keys", "features", "value_features", "panels", "groups", "group"),
    *(f"query_{name}" for name in ("batch", "head", "token")),
    *(f"{name}_{axis}" for name in ("key", "value") for axis in ("batch", "head", "token", "feature")),
    *(f"mask_{axis}" for axis in ("batch", "head", "query", "key")),
)
"""Numbers that a kernel reads: extents, query heads per key head, strides in bytes, those of the mask in elements."""


class AttentionSpec(NamedTuple):
    """Structure of a kernel.

    Attributes:
        mask: Dtype of the mask; empty for none.
        shared: True if there is a mask that is the same for all heads and queries.
        is_causal: True if query i attends to keys 0 to i only.
    """

    mask: str
    shared: bool
    is_causal: bool


class _Panel(NamedTuple):
    """Scratch memory of a panel, row-major with one column per row of queries, and what is known of each row.

    Attributes:
        queries: Scaled queries.
        scores: Scores or weights of a block of keys.
        results: Sums of weighted values.
        sources: Addresses of the queries.
        targets: Addresses of the results.
        tokens: Positions of the queries.
        masks: Addresses of the rows of the mask, if they differ.
    """

    queries: Value
    scores: Value
    results: Value
    sources: Value
    targets: Value
    tokens: Value
    masks: Value


class _Writer:
    """Writes the kernel of a structure.

    pointers: result, query, key, value, scale, mask. meta: `NUMBERS`. An item is a panel of rows that share keys.
    """

    def __init__(self, spec: AttentionSpec, target: CpuTarget) -> None:
        self.spec = spec
        self.e = e = Emitter(target)
        self.rows = VECTORS * e.lanes
        # Rows of a tile of products: accumulators, the panel's vectors and a broadcast element fit in registers.
        self.tile = 8 if target.vector_registers == 32 else 6 if target.has_fma else 4
        self.result, self.query, self.key, self.value = (e.load_value("ptr", POINTERS, slot) for slot in range(4))
        self.scale = e.load_number(POINTERS, 4, "float32")
        self.mask = e.load_value("ptr", POINTERS, 5) if spec.mask else None
        self.meta = {name: e.load_value("i64", META, number) for number, name in enumerate(NUMBERS)}

        def scratch(element: str, count: Value | int) -> Value:
            return e.assign("ptr", f"alloca {element}, i64 {e.operand(count, 'i64').name}, align 64")

        def panel(features: Value) -> Value:
            return scratch("float", e.mul(e.add(features, e.lanes), self.rows))

        self.panel = _Panel(
            panel(self.meta["features"]),
            scratch("float", KEYS * self.rows),
            panel(self.meta["value_features"]),
            *(scratch(element, self.rows) for element in ("ptr", "ptr", "i32", "ptr")),
        )

    def module(self) -> str:
        """Return the module."""
        self.e.loop(BEGIN, END, 1, (), lambda item, _: self.write_item(item))
        return self.e.kernel()

    def write_item(self, item: Value) -> None:
        e, meta, panel = self.e, self.meta, self.panel
        number, outer = e.op("urem", item, meta["panels"]), e.op("udiv", item, meta["panels"])
        group, batch = e.op("urem", outer, meta["groups"]), e.op("udiv", outer, meta["groups"])
        last = self.place_rows(batch, group, e.mul(number, self.rows))
        self.by_vectors(meta["features"], self.pack_queries)
        zero = e.constant(0.0, e.vector("float"))
        e.loop(0, meta["value_features"], 1, (), lambda row, _: self.store_row(panel.results, row, [zero] * VECTORS))
        key, value = (
            e.byte_offset(base, e.add(e.mul(batch, meta[f"{name}_batch"]), e.mul(group, meta[f"{name}_head"])))
            for name, base in (("key", self.key), ("value", self.value))
        )
        end = e.smaller(e.add(last, 1), meta["keys"]) if self.spec.is_causal else meta["keys"]
        start = [e.constant(-math.inf, zero.type)] * VECTORS + [zero] * VECTORS

        def add_block(first: Value, count: Value, carried: list[Value]) -> list[Value]:
            self.multiply_keys(e.byte_offset(key, e.mul(first, meta["key_token"])), count)
            largest, sums = carried[:VECTORS], carried[VECTORS:]
            if self.spec.mask and not self.spec.shared:
                self.by_vectors(count, lambda number, lanes: self.mask_rows(first, number, lanes))
            after, corrections, sums = self.weigh(batch, first, count, largest, sums)
            self.add_values(e.byte_offset(value, e.mul(first, meta["value_token"])), count, corrections)
            return [*after, *sums]

        def write_block(first: Value, carried: list[Value]) -> list[Value]:
            count = e.smaller(e.sub(end, first), KEYS)
            if self.spec.mask != "bool" or self.spec.shared:
                return add_block(first, count, carried)
            return e.branch(self.is_seen(first, count), lambda: add_block(first, count, carried), lambda: carried)

        sums = e.loop(0, end, KEYS, start, write_block)[VECTORS:]
        inverse = [e.select(e.compare("oeq", each, 0.0), zero, e.div(1.0, each)) for each in sums]
        self.by_vectors(meta["value_features"], lambda first, lanes: self.unpack_results(first, lanes, inverse))

    def place_rows(self, batch: Value, group: Value, first: Value) -> Value:
        """Store what is known of each row, and return the last position. Rows past the end repeat the last one."""
        e, meta, panel = self.e, self.meta, self.panel
        heads, last_row = e.mul(meta["groups"], meta["group"]), e.sub(meta["rows"], 1)

        def place(lane: Value, last: list[Value]) -> list[Value]:
            row = e.smaller(e.add(first, lane), last_row)
            token = e.op("urem", row, meta["queries"])
            head = e.add(e.mul(group, meta["group"]), e.op("udiv", row, meta["queries"]))
            axes = (("batch", batch), ("head", head), ("token", token))
            source = self.query
            for axis, index in axes:
                source = e.byte_offset(source, e.mul(index, meta[f"query_{axis}"]))
            place = e.add(e.mul(e.add(e.mul(batch, meta["queries"]), token), heads), head)
            target = e.address(self.result, e.mul(place, meta["value_features"]), "float32")
            e.store_value(source, e.address(panel.sources, lane, "int64"))
            e.store_value(target, e.address(panel.targets, lane, "int64"))
            if self.spec.is_causal:
                e.store_value(e.convert("trunc", token, "i32"), e.address(panel.tokens, lane, "int32"))
            if self.mask is not None and not self.spec.shared:
                offset = e.add(e.mul(head, meta["mask_head"]), e.mul(token, meta["mask_query"]))
                mask = e.address(self.mask, e.add(e.mul(batch, meta["mask_batch"]), offset), self.spec.mask)
                e.store_value(mask, e.address(panel.masks, lane, "int64"))
            return [e.larger(last[0], token)]

        return e.loop(0, self.rows, 1, [e.constant(0, "i64")], place)[0]

    def by_vectors(self, features: Value, write: Callable[[Value, Value | None], None]) -> None:
        """Write a loop over vectors of features, the last of which may be masked."""
        e = self.e
        whole = e.sub(features, e.op("urem", features, e.lanes))
        e.loop(0, whole, e.lanes, (), lambda first, _: write(first, None))
        e.loop(whole, features, e.lanes, (), lambda first, _: write(first, e.first_lanes(e.sub(features, first))))

    def pack_queries(self, first: Value, lanes: Value | None) -> None:
        e = self.e
        for part in range(VECTORS):
            sources = [e.load_value("ptr", self.panel.sources, part * e.lanes + lane) for lane in range(e.lanes)]
            rows = [e.load("float32", e.address(source, first, "float32"), lanes) for source in sources]
            for number, column in enumerate(e.transpose(rows)):
                e.store(
                    "float32", e.mul(column, self.scale), self.place(self.panel.queries, e.add(first, number), part)
                )

    def unpack_results(self, first: Value, lanes: Value | None, inverse: Sequence[Value]) -> None:
        e, results = self.e, self.panel.results
        for part in range(VECTORS):
            columns = [e.load("float32", self.place(results, e.add(first, row), part)) for row in range(e.lanes)]
            for lane, row in enumerate(e.transpose([e.mul(column, inverse[part]) for column in columns])):
                target = e.load_value("ptr", self.panel.targets, part * e.lanes + lane)
                e.store("float32", row, e.address(target, first, "float32"), lanes)

    def place(self, matrix: Value, row: Value, part: int) -> Value:
        """Return the address of a vector in scratch memory."""
        return self.e.address(matrix, self.e.add(self.e.mul(row, self.rows), part * self.e.lanes), "float32")

    def load_row(self, matrix: Value, row: Value) -> list[Value]:
        return [self.e.load("float32", self.place(matrix, row, part)) for part in range(VECTORS)]

    def store_row(self, matrix: Value, row: Value, vectors: Sequence[Value]) -> None:
        for part, vector in enumerate(vectors):
            self.e.store("float32", vector, self.place(matrix, row, part))

    def multiply(
        self,
        start: Value,
        step: Value,
        offsets: Sequence[Value],
        panel: Value,
        steps: Value,
        totals: Sequence[Value],
    ) -> list[Value]:
        """Add to `totals` the products of elements at `start` plus each offset with rows of a panel, step by step."""
        e = self.e

        def elements(address: Value) -> Iterator[Value]:
            for offset in offsets:
                yield e.load_scalar("float32", e.byte_offset(address, offset))

        def vectors(address: Value) -> list[Value]:
            return [e.load("float32", e.byte_offset(address, 4 * e.lanes * part)) for part in range(VECTORS)]

        a, b = Operand(len(offsets), start, step, elements), Operand(VECTORS, panel, 4 * self.rows, vectors)
        return emit_products(e, UNITS["float32"], a, b, steps, totals)

    def lines(self, first: Value, count: Value) -> list[Value]:
        """Return the rows of a tile. Those past the end are the last one, which is computed again."""
        e = self.e
        return [e.smaller(e.add(first, number), e.sub(count, 1)) for number in range(self.tile)]

    def multiply_keys(self, keys: Value, count: Value) -> None:
        e, meta, panel = self.e, self.meta, self.panel
        zeros = [e.constant(0.0, e.vector("float"))] * (self.tile * VECTORS)

        def write_tile(first: Value, _: list[Value]) -> None:
            lines = self.lines(first, count)
            offsets = [e.mul(line, meta["key_token"]) for line in lines]
            totals = self.multiply(keys, meta["key_feature"], offsets, panel.queries, meta["features"], zeros)
            for number, line in enumerate(lines):
                self.store_row(panel.scores, line, totals[number * VECTORS : (number + 1) * VECTORS])

        e.loop(0, count, self.tile, (), write_tile)

    def weigh(
        self, batch: Value, first: Value, count: Value, largest: Sequence[Value], sums: Sequence[Value]
    ) -> tuple[list[Value], list[Value], list[Value]]:
        """Make weights of scores. Return the new maxima, the factors of earlier results, and the new sums."""
        e, scores, exp = self.e, self.panel.scores, FUNCTIONS["exp"]

        def compare(number: Value, before: list[Value]) -> list[Value]:
            row = self.load_row(scores, number)
            if self.spec.shared or self.spec.is_causal:
                row = self.masked(row, batch, e.add(first, number))
                self.store_row(scores, number, row)
            return [e.select(e.compare("ogt", new, old), new, old) for new, old in zip(row, before, strict=True)]

        after = e.loop(0, count, 1, largest, compare)
        # Rows without any key so far have weights of 0, not NaN.
        bases = [e.select(e.compare("oeq", each, -math.inf), 0.0, each) for each in after]
        corrections = [exp(e, e.sub(old, base)) for old, base in zip(largest, bases, strict=True)]

        def weigh_row(number: Value, totals: list[Value]) -> list[Value]:
            row = self.load_row(scores, number)
            weights = [exp(e, e.sub(score, base)) for score, base in zip(row, bases, strict=True)]
            self.store_row(scores, number, weights)
            return [e.add(total, weight) for total, weight in zip(totals, weights, strict=True)]

        start = [e.mul(total, correction) for total, correction in zip(sums, corrections, strict=True)]
        return after, corrections, e.loop(0, count, 1, start, weigh_row)

    def masked(self, row: Sequence[Value], batch: Value, key: Value) -> list[Value]:
        """Return the scores of a key with a mask applied that is shared or causal."""
        e, result = self.e, list(row)
        if self.spec.shared:
            assert self.mask is not None
            place = e.add(e.mul(batch, self.meta["mask_batch"]), e.mul(key, self.meta["mask_key"]))
            own = e.load_scalar(self.spec.mask, e.address(self.mask, place, self.spec.mask))
            is_bool = self.spec.mask == "bool"
            result = [e.select(own, score, -math.inf) if is_bool else e.add(score, own) for score in result]
        if self.spec.is_causal:
            number = e.splat(e.convert("trunc", key, "i32"))
            tokens = [e.load_value(e.vector("i32"), self.panel.tokens, part) for part in range(VECTORS)]
            result = [
                e.select(e.compare("sle", number, t), each, -math.inf) for t, each in zip(tokens, result, strict=True)
            ]
        return result

    def is_seen(self, first: Value, count: Value) -> Value:
        """Return a scalar i1: some row of the panel attends to some key of a block."""
        e = self.e

        def look(number: Value, found: list[Value], lanes: Value | None) -> list[Value]:
            for lane in range(self.rows):
                row = e.load_value("ptr", self.panel.masks, lane)
                address = e.address(row, e.add(first, number), "bool")
                found = [e.op("or", found[0], e.load_raw("bool", address, lanes))]
            return found

        whole = e.sub(count, e.op("urem", count, e.lanes))
        found = e.loop(0, whole, e.lanes, [e.constant(0, e.vector("i8"))], lambda n, found: look(n, found, None))
        rest = e.first_lanes(e.sub(count, whole))
        found = e.loop(whole, count, e.lanes, found, lambda n, found: look(n, found, rest))
        return e.any(e.compare("ne", found[0], 0))

    def mask_rows(self, first: Value, number: Value, lanes: Value | None) -> None:
        """Apply a mask, which is transposed, to the scores of as many keys as a vector has lanes."""
        e, dtype, key = self.e, self.spec.mask, self.e.add(first, number)
        for part in range(VECTORS):
            rows = []
            for lane in range(e.lanes):
                row = e.load_value("ptr", self.panel.masks, part * e.lanes + lane)
                own = e.load(dtype, e.address(row, key, dtype), lanes)
                rows.append(e.convert("sext", own, "i32") if dtype == "bool" else own)
            for offset, own in enumerate(e.transpose(rows)):
                place = self.place(self.panel.scores, e.add(number, offset), part)
                score = e.load("float32", place)
                allowed = e.compare("slt", own, 0) if dtype == "bool" else None
                masked = e.add(score, own) if allowed is None else e.select(allowed, score, -math.inf)
                e.store("float32", masked, place)

    def add_values(self, values: Value, count: Value, corrections: Sequence[Value]) -> None:
        e, meta, panel = self.e, self.meta, self.panel

        def write_tile(first: Value, _: list[Value]) -> None:
            lines = self.lines(first, meta["value_features"])
            offsets = [e.mul(line, meta["value_feature"]) for line in lines]
            before = [
                e.mul(total, correction)
                for line in lines
                for total, correction in zip(self.load_row(panel.results, line), corrections, strict=True)
            ]
            totals = self.multiply(values, meta["value_token"], offsets, panel.scores, count, before)
            for number, line in enumerate(lines):
                self.store_row(panel.results, line, totals[number * VECTORS : (number + 1) * VECTORS])

        e.loop(0, meta["value_features"], self.tile, (), write_tile)


def attention_module(spec: AttentionSpec, target: CpuTarget) -> str:
    """Return the module of a kernel; see `_Writer`."""
    return _Writer(spec, target).module()


def attention_kernel(processor: Processor, task: Task) -> AttentionKernel | Refusal:
    """Return the kernel for a task, or the reason why there is none."""
    _, key, value, *_ = map(_layout, task.inputs)
    if key.shape[3] + value.shape[3] > MOST_FEATURES:
        return Refusal(f"compiled for at most {MOST_FEATURES} features of a key and a value")
    return AttentionKernel(processor, task)


class AttentionKernel(CpuKernel):
    """Attention without stored scores."""

    name = "attention"

    @cached_property
    def cost(self) -> Cost:
        return attention_cost(self.task, self.owner.rates, self.owner.threads)

    def _bind(self) -> BoundLoops:
        """Bind the kernel. 16-bit operands are copied to float32 first, and a 16-bit result is a copy."""
        task, owner, spare = self.task, self.owner, last_item(self.task) + 1
        assert task.call is not None
        inputs, output, before = list(task.inputs), task.outputs[0], []
        batch, queries, heads, value_features = task.shape
        _, groups, keys, features = _layout(inputs[1]).shape
        for number, source in enumerate(inputs[:3]):
            if source.dtype is not float32 or (number == 0 and _strides(source)[3] != 1):
                copy, inputs[number] = bind_copy(owner, source, spare + number, float32)
                before.append(copy)
        sums, after = Location(output.item), []
        if output.dtype is not float32:
            sums = Location(spare + 3)
            whole = Input(sums.item, float32, Layout(task.shape, contiguous_strides(task.shape)))
            after.append(bind_copy(owner, whole, output.item, output.dtype)[0])
        mask_strides: tuple[int, ...] = (0, 0, 0, 0)
        if len(inputs) > 3:
            mask_strides = _strides(inputs[3])
            if any(mask_strides[1:3]) and mask_strides[3] != 1:
                copy, inputs[3] = bind_copy(owner, _expanded(inputs[3], keys), spare + 4)
                before.append(copy)
                mask_strides = _strides(inputs[3])
        query, key, value = map(_strides, inputs[:3])
        rows = heads // max(groups, 1) * queries
        panels = -(-rows // (VECTORS * owner.target.lanes))
        extents = (rows, queries, keys, features, value_features, panels, groups, heads // max(groups, 1))
        strides = *(4 * each for each in (*query[:3], *key, *value)), *mask_strides
        meta = np.array([*extents, *strides], np.int64)
        masks = [source.dtype.name for source in inputs[3:] if source.dtype]
        shared = len(inputs) > 3 and not any(mask_strides[1:3])
        spec = AttentionSpec("".join(masks), shared, task.call.attributes["is_causal"])
        places = [Location(source.item, first_byte(source)) for source in inputs]
        slots: tuple[Slot, ...] = (sums, *places[:3], float(task.call.attributes["scale"]), *places[3:])
        work = VECTORS * owner.target.lanes * keys * (features + value_features) // owner.target.lanes
        items = batch * groups * panels if value_features else 0
        kernel = owner.compiled(attention_module, spec)
        loop = BoundLoop(kernel, meta.ctypes.data, items, max(1, LEAST_PIECE // max(work, 1)), slots)
        bound = BoundLoops((loop,) if items else (), ((sums.item, math.prod(task.shape) * 4),), keep=(meta,))
        return joined([*before, bound, *after])


def _layout(source: Input) -> Layout:
    assert source.layout is not None
    return source.layout


def _strides(source: Input) -> tuple[int, ...]:
    """Return the strides in elements, 0 along extents of 1."""
    layout = _layout(source)
    return tuple(0 if extent == 1 else each for extent, each in zip(layout.shape, layout.strides, strict=True))


def _expanded(mask: Input, keys: int) -> Input:
    """Return a mask with all keys."""
    layout = _layout(mask)
    return mask._replace(
        layout=Layout((*layout.shape[:3], keys), (*layout.strides[:3], _strides(mask)[3]), layout.offset)
    )
