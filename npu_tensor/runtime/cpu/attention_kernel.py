"""The op `attention` and its gradient: blocks of keys pass by a panel of query rows.

A panel is a few vectors of rows, one per lane, so that maxima, sums and corrections need no sums over lanes. Keys and
values are read where they are, in any layout: an element of a key or value is broadcast and multiplied by the panel's
queries or weights. Only the queries are transposed before, and the results after. Scores of `attention` stay in a block
that fits in the level-1 cache, with running maximum and sum; those of its gradient are computed again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from npu_tensor._util.forks import cached_property
from npu_tensor.dtypes import float32
from npu_tensor.ops.declare import Layout
from npu_tensor.runtime.cpu.bound_loops import BoundLoops, Location, Slot
from npu_tensor.runtime.cpu.cpu_cost import LEAST_PIECE, attention_cost
from npu_tensor.runtime.cpu.gemm_micro import UNITS, Operand, emit_products
from npu_tensor.runtime.cpu.ir_emitter import POINTERS, Emitter
from npu_tensor.runtime.cpu.kernels import CpuKernel
from npu_tensor.runtime.cpu.loop_parts import LoopParts, place_of
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import Value
from npu_tensor.runtime.cpu.vector_math import FUNCTIONS
from npu_tensor.task import Cost, Refusal, Task, TensorInput

KEYS: Final = 96
"""Keys of a block."""

VECTORS: Final = 2
"""Vectors of rows in a panel."""

MOST_FEATURES: Final = 4096
"""Upper bound on the features of a key and a value together: their panels are on the stack."""

LEAST_READS: Final = 16
"""Panels from which keys and values whose rows are apart are copied first. A Zen 3 then gains 6 to 14 % with 32 panels
and loses 18 % with 8, as rows of several heads are in few sets of the level-1 cache."""

LINE: Final = 16
"""Elements of a cache line. Rows of copies are an odd number of lines apart, so that they are in different sets."""

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


class _PanelWriter:
    """Writes the parts that the kernels of attention and of its gradient share.

    pointers: result, query, key, value, scale, and the mask at `mask_slot`. meta: `NUMBERS`.

    Scratch memory has the scaled queries, row-major with one column per row of the panel, and of each row the addresses
    of its query and its result, the position of its query, and the address of its row of the mask.
    """

    def __init__(self, spec: AttentionSpec, target: CpuTarget, mask_slot: int) -> None:
        self.spec = spec
        self.e = e = Emitter(target)
        self.rows = VECTORS * e.lanes
        # Rows of a tile of products: accumulators, the panel's vectors and a broadcast element fit in registers.
        self.tile = 8 if target.vector_registers == 32 else 6 if target.has_fma else 4
        self.result, self.query, self.key, self.value = e.addresses(4)
        self.scale = e.load_number(POINTERS, 4, "float32")
        self.mask = e.load_value("ptr", POINTERS, mask_slot) if spec.mask else None
        self.meta = e.named_numbers(NUMBERS)

        self.queries = self.transposed_panel(self.meta["features"])
        self.sources, self.targets, self.tokens, self.masks = (
            self.scratch(element, self.rows) for element in ("ptr", "ptr", "i32", "ptr")
        )

    def scratch(self, element: str, count: Value | int) -> Value:
        """Reserve memory on the stack."""
        e = self.e
        return e.assign("ptr", f"alloca {element}, i64 {e.operand(count, 'i64').name}, align 64")

    def transposed_panel(self, features: Value) -> Value:
        """Reserve a panel with a row for each feature."""
        return self.scratch("float", self.e.mul(self.e.add(features, self.e.lanes), self.rows))

    def place_of(self, name: str, batch: Value, group: Value) -> Value:
        """Return the address of the keys or values of a head."""
        e, meta, base = self.e, self.meta, self.key if name == "key" else self.value
        return e.byte_offset(base, e.add(e.mul(batch, meta[f"{name}_batch"]), e.mul(group, meta[f"{name}_head"])))

    def module(self) -> str:
        """Return the module."""
        return self.e.kernel_of_items(lambda item, _: self.write_item(item))

    def write_item(self, item: Value) -> None:
        """Write the body of the kernel."""
        raise NotImplementedError

    def place_row(self, lane: Value, place: Value) -> None:
        """Store what is known of a row, from its place in (batch, queries, heads)."""
        raise NotImplementedError

    def place_rows(self, batch: Value, group: Value, first: Value) -> Value:
        """Store what is known of each row, and return the last position. Rows past the end repeat the last one."""
        e, meta = self.e, self.meta
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
            e.store_value(source, e.address(self.sources, lane, "int64"))
            self.place_row(lane, place)
            if self.spec.is_causal:
                e.store_value(e.convert("trunc", token, "i32"), e.address(self.tokens, lane, "int32"))
            if self.mask is not None and not self.spec.shared:
                offset = e.add(e.mul(head, meta["mask_head"]), e.mul(token, meta["mask_query"]))
                mask = e.address(self.mask, e.add(e.mul(batch, meta["mask_batch"]), offset), self.spec.mask)
                e.store_value(mask, e.address(self.masks, lane, "int64"))
            return [e.larger(last[0], token)]

        return e.loop(0, self.rows, 1, [e.constant(0, "i64")], place)[0]

    def by_vectors(self, features: Value, write: Callable[[Value, Value | None], None]) -> None:
        """Write a loop over vectors of features, the last of which may be masked."""
        e = self.e
        whole = e.sub(features, e.op("urem", features, e.lanes))
        e.loop(0, whole, e.lanes, (), lambda first, _: write(first, None))
        e.loop(whole, features, e.lanes, (), lambda first, _: write(first, e.first_lanes(e.sub(features, first))))

    def load_rows(self, sources: Value, part: int, first: Value, lanes: Value | None) -> list[Value]:
        """Load a vector of features from each row of a part of the panel."""
        e = self.e
        rows = [e.load_value("ptr", sources, part * e.lanes + lane) for lane in range(e.lanes)]
        return [e.load("float32", e.address(row, first, "float32"), lanes) for row in rows]

    def unpack(self, panel: Value, first: Value, lanes: Value | None, factors: Sequence[Value]) -> None:
        """Write a vector of features of each row to the results, times a factor for each row."""
        e = self.e
        for part, factor in enumerate(factors):
            columns = [e.load("float32", self.place(panel, e.add(first, row), part)) for row in range(e.lanes)]
            for lane, row in enumerate(e.transpose([e.mul(column, factor) for column in columns])):
                target = e.load_value("ptr", self.targets, part * e.lanes + lane)
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
        step: Value | int,
        offsets: Sequence[Value],
        panel: Value,
        steps: Value | int,
        totals: Sequence[Value],
        pitch: Value | int | None = None,
    ) -> list[Value]:
        """Add to `totals` the products of elements at `start` plus each offset with rows of a panel, step by step.

        Rows are `pitch` bytes apart, by default those of the panel's rows of queries.
        """
        e = self.e

        def elements(address: Value) -> Iterator[Value]:
            for offset in offsets:
                yield e.load_scalar("float32", e.byte_offset(address, offset))

        def vectors(address: Value) -> list[Value]:
            return [e.load("float32", e.byte_offset(address, 4 * e.lanes * part)) for part in range(VECTORS)]

        a = Operand(len(offsets), start, step, elements)
        b = Operand(VECTORS, panel, 4 * self.rows if pitch is None else pitch, vectors)
        return emit_products(e, UNITS["float32"], a, b, steps, totals)

    def multiply_keys(self, name: str, keys: Value, count: Value, panel: Value, features: Value, scores: Value) -> None:
        """Write the products of keys or values with the rows of a panel."""
        e, meta = self.e, self.meta
        zeros = [e.constant(0.0, e.vector("float"))] * (self.tile * VECTORS)

        def write_tile(first: Value, _: list[Value]) -> None:
            lines = e.up_to(first, self.tile, count)
            offsets = [e.mul(line, meta[f"{name}_token"]) for line in lines]
            totals = self.multiply(keys, meta[f"{name}_feature"], offsets, panel, features, zeros)
            for number, line in enumerate(lines):
                self.store_row(scores, line, totals[number * VECTORS : (number + 1) * VECTORS])

        e.loop(0, count, self.tile, (), write_tile)

    def mask_block(
        self, batch: Value, first: Value, count: Value, scores: Value, largest: Sequence[Value]
    ) -> list[Value]:
        """Mask the scores of a block of keys, and return the maxima of these and of `largest`."""
        e = self.e
        if self.spec.mask and not self.spec.shared:
            self.by_vectors(count, lambda number, lanes: self.mask_rows(first, number, lanes, scores))

        def compare(number: Value, before: list[Value]) -> list[Value]:
            row = self.load_row(scores, number)
            if self.spec.shared or self.spec.is_causal:
                row = self.masked(row, batch, e.add(first, number))
                self.store_row(scores, number, row)
            return [e.select(e.compare("ogt", new, old), new, old) for new, old in zip(row, before, strict=True)]

        return e.loop(0, count, 1, largest, compare)

    def bases(self, largest: Sequence[Value]) -> list[Value]:
        """Return what is subtracted from scores. Rows without any key so far have weights of 0, not NaN."""
        return [self.e.select(self.e.compare("oeq", each, -math.inf), 0.0, each) for each in largest]

    def weigh(self, count: Value, scores: Value, bases: Sequence[Value], sums: Sequence[Value]) -> list[Value]:
        """Make weights of scores, and return their sums, added to `sums`."""
        e, exp = self.e, FUNCTIONS["exp"]

        def weigh_row(number: Value, totals: list[Value]) -> list[Value]:
            row = self.load_row(scores, number)
            weights = [exp(e, e.sub(score, base)) for score, base in zip(row, bases, strict=True)]
            self.store_row(scores, number, weights)
            return [e.add(total, weight) for total, weight in zip(totals, weights, strict=True)]

        return e.loop(0, count, 1, sums, weigh_row)

    def inverse(self, sums: Sequence[Value]) -> list[Value]:
        """Return 1 / sums, but 0 for rows without keys."""
        e = self.e
        return [e.select(e.compare("oeq", each, 0.0), 0.0, e.div(1.0, each)) for each in sums]

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
            tokens = [e.load_value(e.vector("i32"), self.tokens, part) for part in range(VECTORS)]
            result = [
                e.select(e.compare("sle", number, t), each, -math.inf) for t, each in zip(tokens, result, strict=True)
            ]
        return result

    def mask_rows(self, first: Value, number: Value, lanes: Value | None, scores: Value) -> None:
        """Apply a mask, which is transposed, to the scores of as many keys as a vector has lanes."""
        e, dtype, key = self.e, self.spec.mask, self.e.add(first, number)
        for part in range(VECTORS):
            rows = []
            for lane in range(e.lanes):
                row = e.load_value("ptr", self.masks, part * e.lanes + lane)
                own = e.load(dtype, e.address(row, key, dtype), lanes)
                rows.append(e.convert("sext", own, "i32") if dtype == "bool" else own)
            for offset, own in enumerate(e.transpose(rows)):
                place = self.place(scores, e.add(number, offset), part)
                score = e.load("float32", place)
                allowed = e.compare("slt", own, 0) if dtype == "bool" else None
                masked = e.add(score, own) if allowed is None else e.select(allowed, score, -math.inf)
                e.store("float32", masked, place)

    def add_values(
        self,
        name: str,
        values: Value,
        count: Value,
        weights: Value,
        results: Value,
        features: Value,
        corrections: Sequence[Value] = (),
    ) -> None:
        """Add weighted keys or values to the results, which are multiplied by the corrections before."""
        e, meta = self.e, self.meta

        def write_tile(first: Value, _: list[Value]) -> None:
            lines = e.up_to(first, self.tile, features)
            offsets = [e.mul(line, meta[f"{name}_feature"]) for line in lines]
            before = []
            for line in lines:
                row = self.load_row(results, line)
                before += [e.mul(*each) for each in zip(row, corrections, strict=True)] if corrections else row
            totals = self.multiply(values, meta[f"{name}_token"], offsets, weights, count, before)
            for number, line in enumerate(lines):
                self.store_row(results, line, totals[number * VECTORS : (number + 1) * VECTORS])

        e.loop(0, features, self.tile, (), write_tile)

    def clear(self, panel: Value, features: Value) -> None:
        zeros = [self.e.constant(0.0, self.e.vector("float"))] * VECTORS
        self.e.loop(0, features, 1, (), lambda row, _: self.store_row(panel, row, zeros))


class _Writer(_PanelWriter):
    """Writes the kernel of `attention`. An item is a panel of rows that share keys."""

    def __init__(self, spec: AttentionSpec, target: CpuTarget) -> None:
        super().__init__(spec, target, mask_slot=5)
        self.scores = self.scratch("float", KEYS * self.rows)
        self.results = self.transposed_panel(self.meta["value_features"])

    def write_item(self, item: Value) -> None:
        e, meta, scores = self.e, self.meta, self.scores
        number, outer = e.op("urem", item, meta["panels"]), e.op("udiv", item, meta["panels"])
        group, batch = e.op("urem", outer, meta["groups"]), e.op("udiv", outer, meta["groups"])
        last = self.place_rows(batch, group, e.mul(number, self.rows))
        self.by_vectors(meta["features"], self.pack_queries)
        self.clear(self.results, meta["value_features"])
        key, value = self.place_of("key", batch, group), self.place_of("value", batch, group)
        end = e.smaller(e.add(last, 1), meta["keys"]) if self.spec.is_causal else meta["keys"]
        zero = e.constant(0.0, e.vector("float"))
        start = [e.constant(-math.inf, zero.type)] * VECTORS + [zero] * VECTORS

        def add_block(first: Value, count: Value, carried: list[Value]) -> list[Value]:
            keys = e.byte_offset(key, e.mul(first, meta["key_token"]))
            self.multiply_keys("key", keys, count, self.queries, meta["features"], scores)
            largest, sums = carried[:VECTORS], carried[VECTORS:]
            after = self.mask_block(batch, first, count, scores, largest)
            bases, exp = self.bases(after), FUNCTIONS["exp"]
            corrections = [exp(e, e.sub(old, base)) for old, base in zip(largest, bases, strict=True)]
            kept = [e.mul(total, correction) for total, correction in zip(sums, corrections, strict=True)]
            sums = self.weigh(count, scores, bases, kept)
            values = e.byte_offset(value, e.mul(first, meta["value_token"]))
            self.add_values("value", values, count, scores, self.results, meta["value_features"], corrections)
            return [*after, *sums]

        def write_block(first: Value, carried: list[Value]) -> list[Value]:
            count = e.smaller(e.sub(end, first), KEYS)
            if self.spec.mask != "bool" or self.spec.shared:
                return add_block(first, count, carried)
            return e.branch(self.is_seen(first, count), lambda: add_block(first, count, carried), lambda: carried)

        inverse = self.inverse(e.loop(0, end, KEYS, start, write_block)[VECTORS:])
        self.by_vectors(meta["value_features"], lambda first, lanes: self.unpack(self.results, first, lanes, inverse))

    def place_row(self, lane: Value, place: Value) -> None:
        e = self.e
        target = e.address(self.result, e.mul(place, self.meta["value_features"]), "float32")
        e.store_value(target, e.address(self.targets, lane, "int64"))

    def pack_queries(self, first: Value, lanes: Value | None) -> None:
        e = self.e
        for part in range(VECTORS):
            rows = self.load_rows(self.sources, part, first, lanes)
            for number, column in enumerate(e.transpose(rows)):
                place = self.place(self.queries, e.add(first, number), part)
                e.store("float32", e.mul(column, self.scale), place)

    def is_seen(self, first: Value, count: Value) -> Value:
        """Return a scalar i1: some row of the panel attends to some key of a block."""
        e = self.e

        def look(number: Value, found: list[Value], lanes: Value | None) -> list[Value]:
            for lane in range(self.rows):
                row = e.load_value("ptr", self.masks, lane)
                address = e.address(row, e.add(first, number), "bool")
                found = [e.op("or", found[0], e.load_raw("bool", address, lanes))]
            return found

        whole = e.sub(count, e.op("urem", count, e.lanes))
        found = e.loop(0, whole, e.lanes, [e.constant(0, e.vector("i8"))], lambda n, found: look(n, found, None))
        rest = e.first_lanes(e.sub(count, whole))
        found = e.loop(whole, count, e.lanes, found, lambda n, found: look(n, found, rest))
        return e.any(e.compare("ne", found[0], 0))


class _GradientWriter(_PanelWriter):
    """Writes the kernel of `attention_backward`.

    pointers: gradient of the query, query, key, value, scale, gradient of the result, deltas, gradients
    of key and value, weights, mask. An item is a head of keys: the scores of a panel of rows with all keys are computed
    once and stored, then blocks of keys add to all three gradients.
    """

    def __init__(self, spec: AttentionSpec, target: CpuTarget) -> None:
        super().__init__(spec, target, mask_slot=10)
        e, meta = self.e, self.meta
        self.gradient, self.deltas, *self.changes, self.weights = e.addresses(5, first=5)
        self.of_scores = self.scratch("float", KEYS * self.rows)
        self.of_queries = self.transposed_panel(meta["features"])
        self.of_results = self.transposed_panel(meta["value_features"])
        self.gradients = self.scratch("ptr", self.rows)
        self.shifts = self.scratch("float", self.rows)
        # Rows of a tile have whole vectors.
        width = VECTORS * e.lanes
        self.pitches = [
            e.mul(e.op("udiv", e.add(meta[name], width - 1), width), width) for name in ("features", "value_features")
        ]
        self.query_rows, self.gradient_rows = (
            self.scratch("float", e.mul(e.add(pitch, e.lanes), self.rows)) for pitch in self.pitches
        )

    def write_item(self, item: Value) -> None:
        e, meta = self.e, self.meta
        group, batch = e.op("urem", item, meta["groups"]), e.op("udiv", item, meta["groups"])
        # Masks are applied to whole vectors of keys.
        keys = e.add(meta["keys"], e.lanes)
        weights = e.address(self.weights, e.mul(e.mul(item, keys), self.rows), "float32")
        key, value = self.place_of("key", batch, group), self.place_of("value", batch, group)
        place = e.add(e.mul(e.mul(batch, meta["keys"]), meta["groups"]), group)
        changes = [
            e.address(base, e.mul(place, meta[name]), "float32")
            for base, name in zip(self.changes, ("features", "value_features"), strict=True)
        ]
        zero = e.constant(0.0, e.vector("float"))
        for base, name in zip(changes, ("features", "value_features"), strict=True):

            def clear(key: Value, _: list[Value], base: Value = base, name: str = name) -> None:
                row = self.changed_row(base, key, name)
                self.by_vectors(
                    meta[name],
                    lambda first, lanes: e.store("float32", zero, e.address(row, first, "float32"), lanes),
                )

            e.loop(0, meta["keys"], 1, (), clear)
        e.loop(
            0,
            meta["panels"],
            1,
            (),
            lambda number, _: self.write_panel(batch, group, number, key, value, weights, changes),
        )

    def write_panel(
        self,
        batch: Value,
        group: Value,
        number: Value,
        key: Value,
        value: Value,
        weights: Value,
        changes: Sequence[Value],
    ) -> None:
        e, meta = self.e, self.meta
        features, value_features = meta["features"], meta["value_features"]
        first_row = e.mul(number, self.rows)
        last = self.place_rows(batch, group, first_row)
        rows = e.sub(meta["rows"], first_row)
        self.by_vectors(
            features,
            lambda first, lanes: self.pack(
                self.sources, first, lanes, rows, self.queries, self.query_rows, self.pitches[0], self.scale
            ),
        )
        self.by_vectors(
            value_features,
            lambda first, lanes: self.pack(
                self.gradients, first, lanes, rows, self.of_results, self.gradient_rows, self.pitches[1]
            ),
        )
        self.clear(self.of_queries, features)
        end = e.smaller(e.add(last, 1), meta["keys"]) if self.spec.is_causal else meta["keys"]
        zero = e.constant(0.0, e.vector("float"))

        def at(base: Value, first: Value) -> Value:
            return e.address(base, e.mul(first, self.rows), "float32")

        def score(first: Value, largest: list[Value]) -> list[Value]:
            count = e.smaller(e.sub(end, first), KEYS)
            keys = e.byte_offset(key, e.mul(first, meta["key_token"]))
            self.multiply_keys("key", keys, count, self.queries, features, at(weights, first))
            return self.mask_block(batch, first, count, at(weights, first), largest)

        largest = e.loop(0, end, KEYS, [e.constant(-math.inf, zero.type)] * VECTORS, score)
        inverse = self.inverse(self.weigh(end, weights, self.bases(largest), [zero] * VECTORS))
        shifts = [e.load_value(zero.type, self.shifts, part, align=4) for part in range(VECTORS)]

        def write_block(first: Value, _: list[Value]) -> None:
            count = e.smaller(e.sub(end, first), KEYS)
            own = at(weights, first)
            values = e.byte_offset(value, e.mul(first, meta["value_token"]))
            self.multiply_keys("value", values, count, self.of_results, value_features, self.of_scores)

            def differentiate(number: Value, _: list[Value]) -> None:
                row = [e.mul(*each) for each in zip(self.load_row(own, number), inverse, strict=True)]
                change = zip(self.load_row(self.of_scores, number), shifts, row, strict=True)
                self.store_row(own, number, row)
                self.store_row(self.of_scores, number, [e.mul(e.sub(a, shift), weight) for a, shift, weight in change])

            e.loop(0, count, 1, (), differentiate)
            keys = e.byte_offset(key, e.mul(first, meta["key_token"]))
            self.add_values("key", keys, count, self.of_scores, self.of_queries, features)
            self.add_rows(changes[0], "features", first, count, self.of_scores, self.query_rows, self.pitches[0])
            self.add_rows(changes[1], "value_features", first, count, own, self.gradient_rows, self.pitches[1])

        e.loop(0, end, KEYS, (), write_block)
        factors = [self.scale] * VECTORS
        self.by_vectors(features, lambda first, lanes: self.unpack(self.of_queries, first, lanes, factors))

    def place_row(self, lane: Value, place: Value) -> None:
        e, meta = self.e, self.meta
        target = e.address(self.result, e.mul(place, meta["features"]), "float32")
        e.store_value(target, e.address(self.targets, lane, "int64"))
        gradient = e.address(self.gradient, e.mul(place, meta["value_features"]), "float32")
        e.store_value(gradient, e.address(self.gradients, lane, "int64"))
        shift = e.load_value("float", e.address(self.deltas, place, "float32"), align=4)
        e.store_value(shift, e.address(self.shifts, lane, "float32"), align=4)

    def pack(
        self,
        sources: Value,
        first: Value,
        lanes: Value | None,
        rows: Value,
        panel: Value,
        copy: Value,
        pitch: Value,
        scale: Value | None = None,
    ) -> None:
        """Pack a vector of features of each row: transposed, and in a copy where rows past the end are 0.

        Those rows repeat the last one and must not add to the gradients of keys and values.
        """
        e = self.e
        zero = e.constant(0.0, e.vector("float"))
        for part in range(VECTORS):
            vectors = self.load_rows(sources, part, first, lanes)
            if scale is not None:
                vectors = [e.mul(each, scale) for each in vectors]
            for lane, vector in enumerate(vectors):
                row = part * e.lanes + lane
                own = e.select(e.compare("sgt", rows, row), vector, zero)
                e.store("float32", own, e.address(copy, e.add(e.mul(pitch, row), first), "float32"))
            for number, column in enumerate(e.transpose(vectors)):
                e.store("float32", column, self.place(panel, e.add(first, number), part))

    def changed_row(self, changes: Value, key: Value, name: str) -> Value:
        """Return the address of the gradient of a key or value in (keys, heads, features)."""
        e, meta = self.e, self.meta
        return e.address(changes, e.mul(e.mul(key, meta["groups"]), meta[name]), "float32")

    def add_rows(
        self, changes: Value, name: str, first: Value, count: Value, weights: Value, copy: Value, pitch: Value
    ) -> None:
        """Add weighted rows of the panel to the gradients of a block of keys or values."""
        e, features = self.e, self.meta[name]

        def write_columns(column: Value, masks: Sequence[Value | None]) -> None:
            def write_tile(number: Value, _: list[Value]) -> None:
                lines = e.up_to(number, self.tile, count)
                targets = [
                    e.address(row, e.add(column, part * e.lanes), "float32")
                    for row in (self.changed_row(changes, e.add(first, line), name) for line in lines)
                    for part in range(VECTORS)
                ]
                pairs = [*zip(targets, [*masks] * self.tile, strict=True)]
                before = [e.load("float32", target, mask) for target, mask in pairs]
                offsets = [e.mul(line, 4 * self.rows) for line in lines]
                panel = e.address(copy, column, "float32")
                totals = self.multiply(weights, 4, offsets, panel, self.rows, before, e.mul(pitch, 4))
                for total, (target, mask) in zip(totals, pairs, strict=True):
                    e.store("float32", total, target, mask)

            e.loop(0, count, self.tile, (), write_tile)

        width = VECTORS * e.lanes
        whole = e.sub(features, e.op("urem", features, width))
        e.loop(0, whole, width, (), lambda column, _: write_columns(column, [None] * VECTORS))
        rest = e.sub(features, whole)
        masks = [e.first_lanes(e.sub(rest, part * e.lanes)) for part in range(VECTORS)]
        e.loop(whole, features, width, (), lambda column, _: write_columns(column, masks))


def attention_module(spec: AttentionSpec, target: CpuTarget) -> str:
    """Return the module of the kernel of `attention`; see `_Writer`."""
    return _Writer(spec, target).module()


def gradient_module(spec: AttentionSpec, target: CpuTarget) -> str:
    """Return the module of the kernel of `attention_backward`; see `_GradientWriter`."""
    return _GradientWriter(spec, target).module()


def attention_kernel(processor: Processor, task: Task) -> AttentionKernel | Refusal:
    """Return the kernel for a task, or the reason why there is none."""
    is_backward = task.ops[0] == "attention_backward"
    _, key, value, *_ = task.tensors[2 * is_backward :]
    if key.layout.shape[3] + value.layout.shape[3] > MOST_FEATURES:
        return Refusal(f"compiled for at most {MOST_FEATURES} features of a key and a value")
    if task.attributes.get("softcap"):
        return Refusal("compiled without a soft cap")
    return (GradientKernel if is_backward else AttentionKernel)(processor, task)


def _prepared(
    parts: LoopParts, task: Task, inputs: list[TensorInput]
) -> tuple[AttentionSpec, list[int], list[Location], dict[str, int]]:
    """Prepare query, key, value and mask. Copy 16-bit operands to float32, and those whose rows are not contiguous.

    Returns:
        Structure of the kernel, `NUMBERS`, the addresses of the operands, and the first of the numbers by name.
    """
    lanes = parts.owner.target.lanes
    (_, heads, queries, features), (_, groups, keys, _) = (each.layout.shape for each in inputs[:2])
    group = heads // max(groups, 1)
    panels = -(-group * queries // (VECTORS * lanes))
    for number, source in enumerate(inputs[:3]):
        shape, strides = source.layout.shape, _strides(source)
        is_apart = panels >= LEAST_READS and strides[2] != shape[3]
        if source.dtype is not float32 or (is_apart if number else strides[3] != 1):
            inputs[number] = parts.copy(source, float32, (-(-shape[3] // LINE) | 1) * LINE)
    mask_strides: tuple[int, ...] = (0, 0, 0, 0)
    if len(inputs) > 3:
        mask_strides = _strides(inputs[3])
        if any(mask_strides[1:3]) and mask_strides[3] != 1:
            inputs[3] = parts.copy(_expanded(inputs[3], keys))
            mask_strides = _strides(inputs[3])
    extents = {
        "rows": group * queries,
        "queries": queries,
        "keys": keys,
        "features": features,
        "value_features": inputs[2].layout.shape[3],
        "panels": panels,
        "groups": groups,
        "group": group,
    }
    query, key, value = map(_strides, inputs[:3])
    strides = *(4 * each for each in (*query[:3], *key, *value)), *mask_strides
    shared = len(inputs) > 3 and not any(mask_strides[1:3])
    mask = inputs[3].dtype.name if len(inputs) > 3 else ""
    spec = AttentionSpec(mask, shared, task.attributes["is_causal"])
    return spec, [*extents.values(), *strides], [*map(place_of, inputs)], extents


class AttentionKernel(CpuKernel):
    """Attention without stored scores."""

    name = "attention"

    @cached_property
    def cost(self) -> Cost:
        return attention_cost(self.task, self.owner.rates, self.owner.threads)

    def _bind(self) -> BoundLoops:
        task, parts = self.task, LoopParts(self.owner, self.task)
        inputs = list(task.tensors)
        batch, scale = inputs[0].layout.shape[0], float(task.attributes["scale"])
        spec, numbers, places, extents = _prepared(parts, task, inputs)
        slots: tuple[Slot, ...] = (parts.result(task.outputs[0], float32), *places[:3], scale, *places[3:])
        work = VECTORS * extents["keys"] * (extents["features"] + extents["value_features"])
        items = batch * extents["groups"] * extents["panels"] if extents["value_features"] else 0
        parts.loop(attention_module, spec, numbers, items, max(1, LEAST_PIECE // max(work, 1)), slots)
        return parts.joined()


class GradientKernel(AttentionKernel):
    """Gradients of attention. Scratch memory holds the weights of one panel for each head of keys."""

    def _bind(self) -> BoundLoops:
        task, (output,), parts = self.task, self.task.outputs, LoopParts(self.owner, self.task)
        given = [place_of(parts.row_major(source, float32)) for source in task.tensors[:2]]
        inputs = list(task.tensors[2:])
        batch, lanes = inputs[0].layout.shape[0], self.owner.target.lanes
        spec, numbers, places, extents = _prepared(parts, task, inputs)
        items = batch * extents["groups"]
        of_query = 4 * items * extents["rows"] * extents["features"]
        of_key = 4 * items * extents["keys"] * extents["features"]
        result = parts.result(output)
        slots: tuple[Slot, ...] = (
            result,
            *places[:3],
            float(task.attributes["scale"]),
            *given,
            result._replace(offset=of_query),
            result._replace(offset=of_query + of_key),
            parts.scratch(items * (extents["keys"] + lanes) * VECTORS * lanes * 4),
            *places[3:],
        )
        parts.loop(gradient_module, spec, numbers, items, 1, slots)
        return parts.joined()


def _strides(source: TensorInput) -> tuple[int, ...]:
    """Return the strides in elements, 0 along extents of 1."""
    layout = source.layout
    return tuple(0 if extent == 1 else each for extent, each in zip(layout.shape, layout.strides, strict=True))


def _expanded(mask: TensorInput, keys: int) -> TensorInput:
    """Return a mask with all keys."""
    layout = mask.layout
    return mask._replace(
        layout=Layout((*layout.shape[:3], keys), (*layout.strides[:3], _strides(mask)[3]), layout.offset)
    )
