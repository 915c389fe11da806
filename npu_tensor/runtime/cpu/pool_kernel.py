"""Pools, resized images and their gradients: sums and maxima over taps of place dimensions, see `ops.places`.

The innermost dimension is the row: the channels of a tensor with channels last, else the last place. A kernel combines
rows first, by whole vectors. If the row is a place, it goes through a scratch buffer, whose elements are combined next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import count, pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from npu_tensor._util.forks import cached_property
from npu_tensor.dtypes import bool_, float32, float64
from npu_tensor.ops.declare import Call, Layout
from npu_tensor.ops.layouts import reshaped
from npu_tensor.ops.places import Taps, places_of, taps_of
from npu_tensor.runtime.cpu.bound_loops import BoundLoops, Location
from npu_tensor.runtime.cpu.cpu_cost import LEAST_PIECE, taps_cost
from npu_tensor.runtime.cpu.division import even_grain
from npu_tensor.runtime.cpu.ir_emitter import BEGIN, END, META, Emitter
from npu_tensor.runtime.cpu.kernels import CpuKernel
from npu_tensor.runtime.cpu.loop_parts import LoopParts, place_of
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import (
    BITS,
    ELEMENT_SIZE,
    FLOATS,
    REGISTER_ELEMENT,
    Value,
    ValueOrNumber,
    is_signed,
    register_dtype,
)
from npu_tensor.spec import Spec, contiguous_strides
from npu_tensor.task import Cost, Refusal, Task

Array = np.ndarray[Any, Any]

SCRATCH: Final = 1024
"""Upper bound on the elements of a row that are combined at a time."""

_SLACK: Final = 6 * 16
"""Further elements of the scratch buffer: one vector before the row, and reads and writes after it."""

_ROWS: Final = 4
"""Rows with a scratch buffer each."""

_UNROLLED: Final = 2
"""Vectors of a row that are combined at a time."""


class _Form(NamedTuple):
    """Structure of a kernel.

    Attributes:
        dtype: Dtype of elements in memory.
        largest: True for maxima, False for sums.
        outer: Number of place dimensions outside of the row.
        row: Access to the taps along the row: steps of 1 or 2 between results, 0 for a table of positions; None if
            the row is the channels.
        weighted: True if elements have factors.
        divided: True if sums have divisors.
        positions: True if the result has the positions of maxima in their planes.
    """

    dtype: str
    largest: bool
    outer: int
    row: int | None
    weighted: bool
    divided: bool
    positions: bool


def _lowest(dtype: str) -> float:
    if dtype.startswith("float"):
        return -math.inf
    return 0 if not is_signed(dtype) else int(np.iinfo(dtype).min)


class _Code:
    """Writes the kernel whose items are the rows of the result.

    pointers  [result, input]
    meta      for each outer dimension its results and the addresses of its tables: the first tap of each result, the
              offsets of taps in bytes, factors or positions, and divisors; bytes between planes of the input; results
              in a row; for a row of places the number of pieces and the address of a table of these, the taps, the
              elements of a tap in the following tables, the distance of taps or the address of their positions in the
              scratch buffer, and the addresses of factors and divisors
    """

    def __init__(self, form: _Form, target: CpuTarget) -> None:
        self.e = e = Emitter(target)
        self.form, self.lanes, self.size = form, target.lanes, ELEMENT_SIZE[form.dtype]
        self.register = register_dtype(form.dtype)
        self.element = element = REGISTER_ELEMENT[self.register]
        self.bytes, self.vector = BITS[element] // 8, f"<{target.lanes} x {element}>"
        lowest = _lowest(self.register) if form.largest else -0.0 if element in FLOATS else 0
        # Combined with any elements, these give the elements.
        self.nothing = [e.constant(lowest, self.vector)]
        self.vectors = [(self.register, self.vector, self.bytes)]
        if form.positions:
            self.nothing.append(e.constant((1 << 31) - 1, f"<{target.lanes} x i32>"))
            self.vectors.append(("int32", f"<{target.lanes} x i32>", 4))
        self.stored = "int64" if form.positions else form.dtype
        self._numbers = count()
        self.result, self.source = e.addresses(2)
        tables = "ptr", "ptr", *("ptr" for _ in range(form.weighted + form.positions + form.divided))
        self.dims = [[self._meta(type_) for type_ in ("i64", *tables)] for _ in range(form.outer)]
        self.plane, self.results = self._meta(), self._meta()
        self._zero = e.constant(0, f"<{target.lanes} x i32>")

    def _meta(self, type_: str = "i64") -> Value:
        return self.e.load_value(type_, META, next(self._numbers))

    def _entry(self, array: Value, index: Value, type_: str) -> Value:
        """Load from a table of elements of a vector's or scalar's type, at an element."""
        nbytes = BITS[Value("", type_).element] // 8
        return self.e.load_value(type_, self.e.byte_offset(array, self.e.mul(index, nbytes)), align=nbytes)

    def _combine(self, left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
        """Combine vectors of elements, which the vectors of their positions follow if these are wanted."""
        e, (a, *places), (b, *others) = self.e, left, right
        floats = self.element in FLOATS
        if not self.form.largest:
            return [e.add(a, b)]
        greater = e.compare("ogt" if floats else "sgt" if is_signed(self.register) else "ugt", a, b)
        if not places:
            larger = e.select(greater, a, b)  # The right one if either is NaN.
            return [e.select(e.compare("uno", a, a), a, larger) if floats else larger]
        # The first of equal elements, and the last NaN, as in PyTorch.
        is_earlier = e.compare("slt", places[0], others[0])
        better = e.op("or", greater, e.op("and", e.compare("oeq" if floats else "eq", a, b), is_earlier))
        if floats:
            missing, is_later = e.compare("uno", a, a), e.compare("sgt", places[0], others[0])
            better = e.select(e.compare("ord", b, b), e.op("or", better, missing), e.op("and", missing, is_later))
        return [e.select(better, a, b), e.select(better, places[0], others[0])]

    def _combine_all(self, left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
        """Combine several vectors, each with its positions."""
        step = len(self.nothing)
        pairs = [(left[n : n + step], right[n : n + step]) for n in range(0, len(left), step)]
        return [value for pair in pairs for value in self._combine(*pair)]

    def _each_vector(self, first: ValueOrNumber, end: Value, body: Callable[[Value, int, Value | None], None]) -> None:
        """Run `body(start, vectors, mask)` on a range, whose last vector overlaps. Few elements have a mask."""
        e, lanes = self.e, self.lanes
        length = e.sub(end, first)

        def whole() -> None:
            blocks, last = e.sub(end, e.op("srem", length, _UNROLLED * lanes)), e.sub(end, lanes)
            e.loop(first, blocks, _UNROLLED * lanes, (), lambda at, _: body(at, _UNROLLED, None))
            e.loop(blocks, end, lanes, (), lambda at, _: body(e.smaller(at, last), 1, None))

        def few() -> None:
            e.loop(first, end, lanes, (), lambda at, _: body(at, 1, e.first_lanes(length)))

        e.branch(e.compare("sge", length, lanes), whole, few)

    def _combine_rows(self, item: Value) -> Callable[[Value, int, Value | None], list[Value]]:
        """Return the function that combines the taps of the outer dimensions for vectors of a row of the result."""
        e, form, rest, limits = self.e, self.form, item, list[tuple[Value, Value]]()
        for results, first, *_ in reversed(self.dims):
            place, rest = e.op("urem", rest, results), e.op("udiv", rest, results)
            limits.insert(0, (self._entry(first, place, "i64"), self._entry(first, e.add(place, 1), "i64")))
        base = e.byte_offset(self.source, e.mul(rest, self.plane))

        def over(dim: int, address: Value, extra: Value | None, so_far: list[Value], mask: Value | None) -> list[Value]:
            """Combine the taps of dimensions from `dim` on. `extra` is the factor or the position of outer taps."""
            if dim == form.outer:
                places = [
                    e.byte_offset(address, self.lanes * self.size * n) for n in range(len(so_far) // len(self.nothing))
                ]
                values = [e.load(form.dtype, place, mask) for place in places]
                if form.positions:
                    position = e.splat(e.convert("trunc", extra, "i32")) if extra else self._zero
                    values = [each for value in values for each in (value, position)]
                elif extra is not None:
                    values = [e.mul(value, e.splat(extra)) for value in values]
                return self._combine_all(values, so_far) if dim else values
            offsets, *extras = self.dims[dim][2 : 3 + form.weighted + form.positions]

            def tap(index: Value, carried: list[Value]) -> list[Value]:
                own = self._entry(extras[0], index, "i64" if form.positions else self.element) if extras else None
                if own is not None and extra is not None:
                    own = e.add(extra, own) if form.positions else e.mul(extra, own)
                here = e.byte_offset(address, self._entry(offsets, index, "i64"))
                return over(dim + 1, here, own, carried, mask)

            return e.loop(*limits[dim], 1, so_far, tap)

        return lambda at, vectors, mask: over(
            0, e.byte_offset(base, e.mul(at, self.size)), None, self.nothing * vectors, mask
        )

    def _store_row(self, item: Value) -> Callable[[Value, Value, Value | None, Value | None], None]:
        """Return the function that divides and stores a vector of a row.

        A vector is stored whole if the elements beyond the row are overwritten later, because masked stores are slow.
        """
        e, rest, divisor = self.e, item, None
        for results, *_, divisors in reversed(self.dims) if self.form.divided else ():
            own = self._entry(divisors, e.op("urem", rest, results), self.element)
            divisor, rest = own if divisor is None else e.mul(divisor, own), e.op("udiv", rest, results)
        row, remaining = e.mul(item, self.results), e.mul(e.sub(END, item), self.results)

        def store(value: Value, at: Value, mask: Value | None, own: Value | None) -> None:
            if divisor is not None:
                own = e.splat(divisor) if own is None else e.mul(own, e.splat(divisor))
            quotient = value if own is None else e.div(value, own)
            if self.form.positions:
                quotient = e.convert("sext", value, "i64")
            address = e.byte_offset(self.result, e.mul(e.add(row, at), ELEMENT_SIZE[self.stored]))

            def whole() -> None:
                e.store(self.stored, quotient, address)

            if mask is None:
                whole()
            else:
                is_inside = e.compare("sge", e.sub(remaining, at), self.lanes)
                e.branch(is_inside, whole, lambda: e.store(self.stored, quotient, address, mask))

        return store

    def row_of_channels(self, item: Value, _: list[Value]) -> None:
        combined, store = self._combine_rows(item), self._store_row(item)

        def finish(at: Value, vectors: int, mask: Value | None) -> None:
            step = len(self.nothing)
            for n, value in enumerate(combined(at, vectors, mask)[step - 1 :: step]):
                store(value, self.e.add(at, n * self.lanes), mask, None)

        self._each_vector(0, self.results, finish)

    def rows_of_places(self) -> Callable[[Value, list[Value]], None]:
        """Return the loop body for `_ROWS` rows.

        Each pass goes over all of them, so that elements in a scratch buffer are read some time after they are written.
        """
        e, form, lanes = self.e, self.form, self.lanes
        pieces, piece_table, taps, pitch = self._meta(), self._meta("ptr"), self._meta(), self._meta()
        gap = self._meta("i64" if form.row else "ptr")
        factors, divisors = ([self._meta("ptr")] if wanted else [] for wanted in (form.weighted, form.divided))
        sizes = [(SCRATCH + _SLACK) * nbytes for _, _, nbytes in self.vectors]
        buffers = [e.assign("ptr", f"alloca i8, i64 {_ROWS * size}, align 64") for size in sizes]
        for number in range(_ROWS):
            for buffer, size, nothing in zip(buffers, sizes, self.nothing, strict=True):
                e.store_value(nothing, e.byte_offset(buffer, number * size))

        def rows(start: Value, _: list[Value]) -> None:
            end = e.smaller(e.add(start, _ROWS), END)
            e.loop(0, pieces, 1, (), lambda piece, _: in_piece(piece, start, end))

        def in_piece(piece: Value, start: Value, end: Value) -> None:
            first, stop, origin, low, high, reach = (
                self._entry(piece_table, e.add(e.mul(piece, 6), n), "i64") for n in range(6)
            )

            def scratch(item: Value) -> list[Value]:
                """Return the buffers of a row."""
                number = e.sub(item, start)
                return [e.byte_offset(buffer, e.mul(number, size)) for buffer, size in zip(buffers, sizes, strict=True)]

            def store_at(own: list[Value], place: Value, values: Sequence[Value]) -> None:
                for buffer, value, (_, _, nbytes) in zip(own, values, self.vectors, strict=True):
                    e.store_value(value, e.byte_offset(buffer, e.mul(e.add(place, lanes), nbytes)))

            def collect(item: Value, _: list[Value]) -> None:
                own, combined = scratch(item), self._combine_rows(item)

                def fill(begin: ValueOrNumber, stop: Value) -> None:
                    e.loop(begin, stop, lanes, (), lambda n, _: store_at(own, n, self.nothing))

                def keep(place: Value, vectors: int, mask: Value | None) -> None:
                    values = combined(place, vectors, mask)
                    for n in range(vectors):
                        cell, here = values[n * len(own) : (n + 1) * len(own)], e.add(place, n * lanes)
                        if form.positions:
                            columns = e.add(e.lane_numbers("i32"), e.splat(e.convert("trunc", here, "i32")))
                            cell[1] = e.add(cell[1], columns)
                        store_at(own, e.sub(here, origin), cell)

                fill(0, e.sub(low, origin))
                self._each_vector(low, high, keep)
                fill(e.sub(high, origin), e.sub(reach, origin))

            def finish(item: Value, _: list[Value]) -> None:
                own, store = scratch(item), self._store_row(item)

                def in_row(place: Value, vectors: int, mask: Value | None) -> None:
                    places = [e.add(place, n * lanes) for n in range(vectors)]
                    totals = e.loop(
                        0,
                        taps,
                        1,
                        self.nothing * vectors,
                        lambda number, so_far: add_tap(own, places, number, so_far),
                    )
                    for each, total in zip(places, totals[len(own) - 1 :: len(own)], strict=True):
                        store(total, each, mask, self._entry(divisors[0], each, self.vector) if divisors else None)

                self._each_vector(first, stop, in_row)

            def add_tap(own: list[Value], places: list[Value], number: Value, so_far: list[Value]) -> list[Value]:
                values = []
                for place in places:
                    entry = e.add(e.mul(number, pitch), place)
                    steps = e.add(e.mul(e.sub(place, first), form.row or 1), lanes)
                    for buffer, (dtype, type_, nbytes) in zip(own, self.vectors, strict=True):
                        if form.row:
                            address = e.byte_offset(buffer, e.mul(e.add(steps, e.mul(number, gap)), nbytes))
                            value, *more = (e.load_value(type_, address, n, nbytes) for n in range(form.row))
                            if more:
                                value = e.shuffle(value, range(0, 2 * lanes, 2), more[0])
                        else:
                            index = self._entry(gap, entry, f"<{lanes} x i32>")
                            value = e.gather(dtype, buffer, e.convert("sext", index, "i64"))
                        values.append(value)
                    if factors:
                        values[-1] = e.mul(values[-1], self._entry(factors[0], entry, self.vector))
                return self._combine_all(values, so_far)

            e.loop(start, end, 1, (), collect)
            e.loop(start, end, 1, (), finish)

        return rows


def _module(form: _Form, target: CpuTarget) -> str:
    code = _Code(form, target)
    if form.row is None:
        code.e.loop(BEGIN, END, 1, (), code.row_of_channels)
    else:
        code.e.loop(BEGIN, END, _ROWS, (), code.rows_of_places())
    return code.e.kernel()


def _pieces(taps: Taps, extent: int) -> Array | None:
    """Cut a row into pieces (first result, end, origin, first element, end, reach); None if a window is too long.

    The origin and the reach are positions that the taps of the piece do not exceed; they may lie in the padding.
    """
    inside = np.where(taps.index < 0, extent, taps.index).min(1), taps.index.max(1)
    if taps.regular is None:
        low, high = np.minimum.accumulate(inside[0][::-1])[::-1], np.maximum.accumulate(inside[1]) + 1
    else:
        start, step, gap = taps.regular
        low = start + np.arange(len(taps.index)) * step
        high = low + (taps.index.shape[1] - 1) * gap + 1
    if (high - low).max() > SCRATCH:
        return None
    cuts = [0]
    while cuts[-1] < len(low):
        cuts.append(int(np.searchsorted(high, low[cuts[-1]] + SCRATCH, "right")))
    rows = [
        (first, end, low[first], np.clip(low[first], 0, extent), np.clip(high[end - 1], 0, extent), high[end - 1])
        for first, end in pairwise(cuts)
    ]
    return np.array(rows, np.int64)


def pool_kernel(processor: Processor, task: Task) -> PoolKernel | Refusal:
    """Return the kernel of a pool, a resized image, or a gradient of these, or the reason why there is none."""
    assert task.call is not None
    spec = task.call.operands[0]
    assert isinstance(spec, Spec)
    if spec.dtype is bool_:
        return Refusal("not compiled for bool")
    if not spec.size or not math.prod(task.shape):
        return Refusal("there is nothing to compute")
    return _refusal_of_row(task, taps_of(task.call), spec) or PoolKernel(processor, task)


def _refusal_of_row(task: Task, taps: Sequence[Taps], spec: Spec) -> Refusal | None:
    """Return the reason if a window along a row of places does not fit the scratch buffer."""
    if _channels_last(task) or _pieces(taps[-1], spec.shape[-1]) is not None:
        return None
    return Refusal(f"compiled for results of at most {SCRATCH} elements of a row only")


def _channels_last(task: Task) -> bool:
    attributes = task.attributes
    return bool((attributes["of"].attributes if "of" in attributes else attributes)["channels_last"])


class PoolKernel(CpuKernel):
    """Rows of a pool, or of a resized image."""

    name = "pool"

    @property
    def call(self) -> Call:
        """The call whose taps are combined."""
        assert self.task.call is not None
        return self.task.call

    @cached_property
    def work(self) -> int:
        """Number of elements that are combined."""
        (spec, *_), work, every_taps = self.call.operands, 0, taps_of(self.call)
        assert isinstance(spec, Spec)
        elements = spec.size
        for taps in every_taps:
            elements = -(-elements // max(1, int(taps.index.max()) + 1)) * taps.index.size
            work, elements = work + elements, elements // taps.index.shape[1]
        return max(work, 1)

    @cached_property
    def cost(self) -> Cost:
        return taps_cost(self.task, self.work, self.owner.rates, self.owner.threads)

    def _bind(self) -> BoundLoops:
        parts = LoopParts(self.owner, self.task)
        self._bind_rows(parts, parts.result(self.task.outputs[0]), self.call.attributes.get("mode") == "max")
        return parts.joined()

    def _bind_rows(self, parts: LoopParts, place: Location, is_largest: bool, positions: bool = False) -> None:
        """Bind the loop over the rows of the result: maxima or sums, or the positions of maxima."""
        owner, channels_last, every_taps = self.owner, _channels_last(self.task), taps_of(self.call)
        source = self.task.tensors[0]
        layout = _planes(source.layout, channels_last)
        if layout is None:
            source = parts.copy(source)
            layout = _planes(source.layout, channels_last)
            assert layout is not None
        extents, (dtype, register) = layout.shape[1 : 1 + len(every_taps)], (source.dtype, source.dtype.register)
        weighted = any(taps.weight is not None for taps in every_taps)
        divided = any(taps.divisor is not None for taps in every_taps)
        outer, lanes = every_taps if channels_last else every_taps[:-1], owner.target.lanes
        meta, keep, items = list[int](), list[Array](), layout.shape[0]

        def add(array: Array, dtype: Any) -> None:
            keep.append(np.ascontiguousarray(array, dtype))
            meta.append(keep[-1].ctypes.data)

        for taps, stride, position in zip(outer, layout.strides[1:], contiguous_strides(extents), strict=False):
            inside = taps.index >= 0
            meta.append(len(inside))
            items *= len(inside)
            add(np.cumsum([0, *inside.sum(1)]), np.int64)
            add(taps.index[inside] * (stride * dtype.itemsize), np.int64)
            if weighted:
                add(np.ones(inside.sum()) if taps.weight is None else taps.weight[inside], register)
            if positions:
                add(taps.index[inside] * position, np.int64)
            if divided:
                add(np.ones(len(inside)) if taps.divisor is None else taps.divisor, register)
        meta += [layout.strides[0] * dtype.itemsize, self.call.spec.shape[-1]]
        row = None
        if not channels_last:
            taps = every_taps[-1]
            pieces, (results, most) = _pieces(taps, extents[-1]), taps.index.shape
            assert pieces is not None
            row = taps.regular[1] if taps.regular is not None and taps.regular[1] < 3 else 0
            pitch = results + 2 * lanes  # Masked vectors read beyond the end.

            def padded(values: Array) -> Array:
                array = np.zeros((most, pitch))
                array[:, :results] = values.T
                return array

            meta.append(len(pieces))
            add(pieces, np.int64)
            meta += [most, pitch]
            if row:
                assert taps.regular is not None
                meta.append(taps.regular[2])
            else:
                origins = np.repeat(pieces[:, 2], pieces[:, 1] - pieces[:, 0])[:, None]
                add(padded(np.where(taps.index < 0, 0, taps.index - origins + lanes)), np.int32)
            if weighted:
                add(padded(np.where(taps.index < 0, 0, 1) if taps.weight is None else taps.weight), register)
            if divided:
                one = np.ones(results) if taps.divisor is None else taps.divisor
                add(np.concatenate([one, np.ones(pitch)]), register)
        form = _Form(dtype.name, is_largest, len(outer), row, weighted, divided, positions)
        grain = even_grain(items, max(1, -(-LEAST_PIECE * items // self.work)), owner.pool.threads)
        parts.loop(_module, form, meta, items, grain, (place, place_of(source)), keep)


def _planes(layout: Layout, channels_last: bool) -> Layout | None:
    """Return a layout (planes, *places, channels) or (planes, *places), whose rows have no gaps; None for others."""
    shape = layout.shape
    own = layout if channels_last else reshaped(layout, (shape[0] * shape[1], *shape[2:]))
    return own if own is not None and (own.strides[-1] == 1 or own.shape[-1] == 1) else None


# --- the largest element of each window


CHANNELS: Final = 16
"""Neighbouring channels whose gradients one item adds: those of a cache line."""


def _scatter_module(spec: tuple[str, bool], target: CpuTarget) -> str:
    """Return the module of a kernel that adds gradients to zeros at positions, which are unique per plane.

    pointers  [result, gradient, positions]
    meta      elements of a plane, results of a plane, channels side by side, groups of these

    Args:
        spec: Dtype of the gradient; True if channels are last.
        target: The processor.
    """
    e, (dtype, channels_last) = Emitter(target), spec
    element, size = REGISTER_ELEMENT[dtype], ELEMENT_SIZE[dtype]
    result, gradient, positions = e.addresses(3)
    plane, results, channels, groups = e.numbers(4)

    def group(item: Value, _: list[Value]) -> None:
        image = e.op("udiv", item, groups) if channels_last else item
        first = e.mul(e.op("urem", item, groups), CHANNELS) if channels_last else e.constant(0, "i64")
        end = e.smaller(e.add(first, CHANNELS), channels) if channels_last else channels

        def at(array: Value, extent: Value, index: Value, channel: Value, nbytes: int) -> Value:
            number = e.add(e.mul(image, extent), index)
            if channels_last:
                number = e.add(e.mul(number, channels), channel)
            return e.byte_offset(array, e.mul(number, nbytes))

        def each(extent: Value, body: Callable[[Value, Value], None]) -> None:
            def in_place(index: Value, _: list[Value]) -> None:
                e.loop(first, end, 1, (), lambda channel, _: body(index, channel))

            e.loop(0, extent, 1, (), in_place)

        def add(index: Value, channel: Value) -> None:
            position = e.load_value("i64", at(positions, results, index, channel, 8))
            added = e.load_value(element, at(gradient, results, index, channel, size), align=1)
            place = at(result, plane, position, channel, size)
            e.store_value(e.add(e.load_value(element, place, align=1), added), place)

        zero = e.constant(0.0, element)
        each(plane, lambda index, channel: e.store_value(zero, at(result, plane, index, channel, size)))
        each(results, add)

    return e.kernel_of_items(group)


def positions_kernel(processor: Processor, task: Task) -> PositionsKernel | Refusal:
    """Return the kernel of positions of maxima, or of the gradient of a maximum pool, or the reason against it."""
    dtypes = [source.dtype for source in task.inputs]
    if dtypes[0] is None or dtypes[0].register != dtypes[0].name or dtypes[-1] not in (float32, float64, dtypes[0]):
        return Refusal("not compiled for 16-bit floats")
    if not all(math.prod(source.layout.shape) for source in task.inputs if source.layout):
        return Refusal("there is nothing to compute")
    of = task.attributes["of"]
    if any((each.index < 0).all(1).any() for each in taps_of(of)):
        return Refusal("not compiled for windows without elements")
    if math.prod(places_of(of.operands[0], of.attributes["channels_last"])) >= 1 << 31:
        return Refusal("compiled for fewer than 2^31 elements of a channel")
    return _refusal_of_row(task, taps_of(of), of.operands[0]) or PositionsKernel(processor, task)


class PositionsKernel(PoolKernel):
    """Positions of the largest elements of windows, or gradients that are added there."""

    name = "largest of windows"

    @property
    def call(self) -> Call:
        """The pool of maxima."""
        of: Call = self.task.attributes["of"]
        return of

    @cached_property
    def cost(self) -> Cost:
        scattered = math.prod(self.task.shape) * self.owner.target.lanes if len(self.task.inputs) > 1 else 0
        return taps_cost(self.task, self.work + scattered, self.owner.rates, self.owner.threads)

    def _bind(self) -> BoundLoops:
        task, of, (output,), parts = self.task, self.call, self.task.outputs, LoopParts(self.owner, self.task)
        result, (_, *gradients), (image, *_) = parts.result(output), task.tensors, of.operands
        assert isinstance(image, Spec)
        found = parts.scratch(of.spec.size * 8) if gradients else result
        self._bind_rows(parts, found, is_largest=True, positions=True)
        if not gradients:
            return parts.joined()
        gradient = parts.row_major(gradients[0])
        channels_last, (batch, *rest) = of.attributes["channels_last"], image.shape
        channels = rest[-1] if channels_last else 1
        groups = -(-channels // CHANNELS)
        items = (batch if channels_last else batch * rest[0]) * groups
        extents, counts = (places_of(each, channels_last) for each in (image, of.spec))
        numbers = [math.prod(extents), math.prod(counts), channels, groups]
        grain = max(1, -(-LEAST_PIECE * items // math.prod(task.shape)))
        spec, slots = (output.dtype.name, channels_last), (result, place_of(gradient), found)
        parts.loop(_scatter_module, spec, numbers, items, grain, slots)
        return parts.joined()
