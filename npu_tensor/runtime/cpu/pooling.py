"""Pools, resized images and their gradients: sums and maxima over taps of place dimensions, see `ops.pooling`.

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
from npu_tensor.ops.declare import Layout
from npu_tensor.ops.layouts import reshaped
from npu_tensor.ops.pooling import Taps, places_of, taps_of
from npu_tensor.runtime.cpu.bound_loops import BoundLoop, BoundLoops, Location, joined
from npu_tensor.runtime.cpu.cpu_cost import LEAST_PIECE, taps_cost
from npu_tensor.runtime.cpu.ir_emitter import BEGIN, END, META, POINTERS, Emitter
from npu_tensor.runtime.cpu.kernels import CpuKernel, bind_copy, first_byte, last_item
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
from npu_tensor.runtime.cpu.write_strided import is_contiguous
from npu_tensor.spec import Spec, contiguous_strides
from npu_tensor.task import Cost, Input, Refusal, Task

__all__ = ["pool_kernel", "positions_kernel"]

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
    """

    dtype: str
    largest: bool
    outer: int
    row: int | None
    weighted: bool
    divided: bool


def _lowest(dtype: str) -> float:
    if dtype.startswith("float"):
        return -math.inf
    return 0 if not is_signed(dtype) else int(np.iinfo(dtype).min)


class _Code:
    """Writes the kernel whose items are the rows of the result.

    pointers  [result, input]
    meta      for each outer dimension its results and the addresses of its tables: the first tap of each result, the
              offsets of taps in bytes, factors and divisors; bytes between planes of the input; results in a row; for a
              row of places the number of pieces and the address of a table of these, the taps, the elements of a tap
              in the following tables, the distance of taps or the address of their positions in the scratch buffer,
              and the addresses of factors and divisors
    """

    def __init__(self, form: _Form, target: CpuTarget) -> None:
        self.e = e = Emitter(target)
        self.form, self.lanes, self.size = form, target.lanes, ELEMENT_SIZE[form.dtype]
        self.register = register_dtype(form.dtype)
        self.element = element = REGISTER_ELEMENT[self.register]
        self.bytes, self.vector = BITS[element] // 8, f"<{target.lanes} x {element}>"
        lowest = _lowest(self.register) if form.largest else -0.0 if element in FLOATS else 0
        self.nothing = e.constant(lowest, self.vector)  # Combined with x, it gives x.
        self._numbers = count()
        self.result, self.source = (e.load_value("ptr", POINTERS, slot) for slot in range(2))
        tables = "ptr", "ptr", *("ptr" for _ in range(form.weighted + form.divided))
        self.dims = [[self._meta(type_) for type_ in ("i64", *tables)] for _ in range(form.outer)]
        self.plane, self.results = self._meta(), self._meta()

    def _meta(self, type_: str = "i64") -> Value:
        return self.e.load_value(type_, META, next(self._numbers))

    def _entry(self, array: Value, index: Value, type_: str) -> Value:
        """Load from a table of elements of a vector's or scalar's type, at an element."""
        nbytes = BITS[Value("", type_).element] // 8
        return self.e.load_value(type_, self.e.byte_offset(array, self.e.mul(index, nbytes)), align=nbytes)

    def _combine(self, left: Value, right: Value) -> Value:
        e = self.e
        if not self.form.largest:
            return e.add(left, right)
        if self.element not in FLOATS:
            return e.select(e.compare("sgt" if is_signed(self.register) else "ugt", left, right), left, right)
        better = e.select(e.compare("ogt", left, right), left, right)  # The right one if either is NaN.
        return e.select(e.compare("uno", left, left), left, better)

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

        def over(
            dim: int, address: Value, factor: Value | None, so_far: list[Value], mask: Value | None
        ) -> list[Value]:
            if dim == form.outer:
                places = [e.byte_offset(address, self.lanes * self.size * n) for n in range(len(so_far))]
                values = [e.load(form.dtype, place, mask) for place in places]
                if factor is not None:
                    values = [e.mul(value, e.splat(factor)) for value in values]
                return [self._combine(*pair) for pair in zip(so_far, values, strict=True)] if dim else values
            offsets, *weights = self.dims[dim][2 : 3 + form.weighted]

            def tap(index: Value, carried: list[Value]) -> list[Value]:
                scale = self._entry(weights[0], index, self.element) if weights else None
                if scale is not None and factor is not None:
                    scale = e.mul(factor, scale)
                here = e.byte_offset(address, self._entry(offsets, index, "i64"))
                return over(dim + 1, here, scale, carried, mask)

            return e.loop(*limits[dim], 1, so_far, tap)

        return lambda at, vectors, mask: over(
            0, e.byte_offset(base, e.mul(at, self.size)), None, [self.nothing] * vectors, mask
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
            address = e.byte_offset(self.result, e.mul(e.add(row, at), self.size))

            def whole() -> None:
                e.store(self.form.dtype, quotient, address)

            if mask is None:
                whole()
            else:
                is_inside = e.compare("sge", e.sub(remaining, at), self.lanes)
                e.branch(is_inside, whole, lambda: e.store(self.form.dtype, quotient, address, mask))

        return store

    def row_of_channels(self, item: Value, _: list[Value]) -> None:
        combined, store = self._combine_rows(item), self._store_row(item)

        def finish(at: Value, vectors: int, mask: Value | None) -> None:
            for n, value in enumerate(combined(at, vectors, mask)):
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
        buffer = (SCRATCH + _SLACK) * self.bytes
        buffers = e.assign("ptr", f"alloca i8, i64 {_ROWS * buffer}, align 64")
        for number in range(_ROWS):
            e.store_value(self.nothing, e.byte_offset(buffers, number * buffer))

        def rows(start: Value, _: list[Value]) -> None:
            end = e.smaller(e.add(start, _ROWS), END)
            e.loop(0, pieces, 1, (), lambda piece, _: in_piece(piece, start, end))

        def in_piece(piece: Value, start: Value, end: Value) -> None:
            first, stop, origin, low, high, reach = (
                self._entry(piece_table, e.add(e.mul(piece, 6), n), "i64") for n in range(6)
            )

            def scratch(item: Value) -> Value:
                return e.byte_offset(buffers, e.mul(e.sub(item, start), buffer))

            def at(own: Value, place: Value) -> Value:
                return e.byte_offset(own, e.mul(e.add(place, lanes), self.bytes))

            def collect(item: Value, _: list[Value]) -> None:
                own, combined = scratch(item), self._combine_rows(item)

                def fill(begin: ValueOrNumber, stop: Value) -> None:
                    e.loop(begin, stop, lanes, (), lambda n, _: e.store_value(self.nothing, at(own, n)))

                def keep(place: Value, vectors: int, mask: Value | None) -> None:
                    for n, value in enumerate(combined(place, vectors, mask)):
                        e.store_value(value, at(own, e.add(e.sub(place, origin), n * lanes)))

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
                        [self.nothing] * vectors,
                        lambda number, so_far: add_tap(own, places, number, so_far),
                    )
                    for each, total in zip(places, totals, strict=True):
                        store(total, each, mask, self._entry(divisors[0], each, self.vector) if divisors else None)

                self._each_vector(first, stop, in_row)

            def add_tap(own: Value, places: list[Value], number: Value, so_far: list[Value]) -> list[Value]:
                values = []
                for place in places:
                    entry = e.add(e.mul(number, pitch), place)
                    if form.row:
                        steps = e.mul(e.sub(place, first), form.row)
                        address = at(own, e.add(steps, e.mul(number, gap)))
                        value, *more = (e.load_value(self.vector, address, n, self.bytes) for n in range(form.row))
                        if more:
                            value = e.shuffle(value, range(0, 2 * lanes, 2), more[0])
                    else:
                        index = self._entry(gap, entry, f"<{lanes} x i32>")
                        value = e.gather(self.register, own, e.convert("sext", index, "i64"))
                    if factors:
                        value = e.mul(value, self._entry(factors[0], entry, self.vector))
                    values.append(value)
                return [self._combine(*pair) for pair in zip(so_far, values, strict=True)]

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
    if not _channels_last(task):
        taps = taps_of(task.call)[-1]
        pieces = _pieces(taps, spec.shape[-1])
        if pieces is None:
            return Refusal(f"compiled for results of at most {SCRATCH} elements of a row only")
    return PoolKernel(processor, task)


def _channels_last(task: Task) -> bool:
    assert task.call is not None
    attributes = task.call.attributes
    return bool((attributes["of"].attributes if "of" in attributes else attributes)["channels_last"])


class PoolKernel(CpuKernel):
    """Rows of a pool, or of a resized image."""

    name = "pool"

    @cached_property
    def _work(self) -> int:
        """Number of elements that are combined."""
        assert self.task.call is not None
        work, elements = 0, math.prod(self.task.call.operands[0].shape)  # type: ignore[union-attr]
        for taps in taps_of(self.task.call):
            elements = elements // max(1, int(taps.index.max()) + 1) * taps.index.size
            work, elements = work + elements, elements // taps.index.shape[1]
        return work

    @cached_property
    def cost(self) -> Cost:
        return taps_cost(self.task, self._work, self.owner.rates, self.owner.threads)

    def _bind(self) -> BoundLoops:
        task, owner = self.task, self.owner
        (source,), (output,) = task.inputs, task.outputs
        assert task.call is not None
        spec, channels_last = task.call.operands[0], _channels_last(task)
        assert isinstance(spec, Spec)
        taps, extents = taps_of(task.call), places_of(spec, channels_last)
        before, source, layout = _with_rows(self, source, channels_last, extents)
        register = output.dtype.register
        weighted = any(each.weight is not None for each in taps)
        divided = any(each.divisor is not None for each in taps)
        outer = taps if channels_last else taps[:-1]
        itemsize, meta, keep, items = output.dtype.itemsize, list[int](), list[Array](), layout.shape[0]

        def add(array: Array, dtype: Any) -> None:
            keep.append(np.ascontiguousarray(array, dtype))
            meta.append(keep[-1].ctypes.data)

        for each, stride in zip(outer, layout.strides[1:], strict=False):
            inside = each.index >= 0
            meta.append(len(inside))
            items *= len(inside)
            add(np.cumsum([0, *inside.sum(1)]), np.int64)
            add(each.index[inside] * (stride * itemsize), np.int64)
            if weighted:
                add(np.ones(inside.sum()) if each.weight is None else each.weight[inside], register)
            if divided:
                add(np.ones(len(inside)) if each.divisor is None else each.divisor, register)
        meta += [layout.strides[0] * itemsize, output.layout.shape[-1]]
        row = None
        if not channels_last:
            row = self._add_row(taps[-1], extents[-1], meta, add, register, weighted, divided)
        form = _Form(output.dtype.name, task.call.attributes.get("mode") == "max", len(outer), row, weighted, divided)
        array = np.array(meta, np.int64)
        slots = Location(output.item), Location(source.item, first_byte(source))
        grain = max(1, -(-LEAST_PIECE * items // self._work))
        kernel = owner.compiled(_module, form)
        loop = BoundLoop(kernel, array.ctypes.data, items, grain, slots)
        return joined([*before, BoundLoops((loop,), ((output.item, output.nbytes),), (), (array, *keep))])

    def _add_row(
        self,
        taps: Taps,
        extent: int,
        meta: list[int],
        add: Callable[[Array, Any], None],
        register: str,
        weighted: bool,
        divided: bool,
    ) -> int:
        """Append what the kernel reads about the taps of a row. Return the access to them."""
        pieces, (results, most), lanes = _pieces(taps, extent), taps.index.shape, self.owner.target.lanes
        assert pieces is not None
        row = taps.regular[1] if taps.regular is not None and taps.regular[1] < 3 else 0
        pitch = results + 2 * lanes  # Masked vectors read beyond the end.

        def padded(values: Array | None, value: float) -> Array:
            array = np.full((most, pitch), value, np.float64)
            array[:, :results] = value if values is None else values.T
            return array

        meta.append(len(pieces))
        add(pieces, np.int64)
        meta += [most, pitch]
        if row:
            assert taps.regular is not None
            meta.append(taps.regular[2])
        else:
            origins = np.repeat(pieces[:, 2], pieces[:, 1] - pieces[:, 0])[:, None]
            add(padded(np.where(taps.index < 0, 0, taps.index - origins + lanes), 0), np.int32)
        if weighted:
            weight = taps.weight if taps.weight is not None else np.where(taps.index < 0, 0, 1)
            add(padded(weight, 0), register)
        if divided:
            add(np.concatenate([np.ones(results) if taps.divisor is None else taps.divisor, np.ones(pitch)]), register)
        return row


def _with_rows(
    kernel: CpuKernel, source: Input, channels_last: bool, extents: Sequence[int]
) -> tuple[list[BoundLoops], Input, Layout]:
    """Return an operand as planes of rows without gaps, with the copy that may be needed and the layout of planes."""

    def planes(layout: Layout | None) -> Layout | None:
        assert layout is not None
        shape = layout.shape
        own = layout if channels_last else reshaped(layout, (shape[0] * shape[1], *extents))
        return own if own is not None and (own.strides[-1] == 1 or own.shape[-1] == 1) else None

    layout = planes(source.layout)
    if layout is not None:
        return [], source, layout
    copy, source = bind_copy(kernel.owner, source, last_item(kernel.task) + 1)
    layout = planes(source.layout)
    assert layout is not None
    return [copy], source, layout


# --- the largest element of each window


def _positions_module(spec: tuple[str, str, int], target: CpuTarget) -> str:
    """Return the module of a kernel that finds the largest element of each window, plane by plane.

    It stores their positions, or adds the gradients of windows to zeros at these positions.

    pointers  [result, input, gradient]
    meta      elements of a plane, planes side by side, results of a plane; for each place dimension its results and the
              addresses of its tables: the first tap of each result, and the offsets of taps in the plane

    Args:
        spec: Dtypes of the input and of the gradient, which is "" for positions, and the number of place dimensions.
        target: The processor.
    """
    e, (dtype, gradient_dtype, outer) = Emitter(target), spec
    element, gradient_element = REGISTER_ELEMENT[dtype], REGISTER_ELEMENT.get(gradient_dtype, "i64")
    result, source = (e.load_value("ptr", POINTERS, slot) for slot in range(2))
    gradient = e.load_value("ptr", POINTERS, 2) if gradient_dtype else None
    plane, group, results = (e.load_value("i64", META, n) for n in range(3))
    dims = [
        (e.load_value("i64", META, n), e.load_value("ptr", META, n + 1), e.load_value("ptr", META, n + 2))
        for n in range(3, 3 + 3 * outer, 3)
    ]
    signed, floats = "s" if is_signed(dtype) else "u", element in FLOATS

    def at(array: Value, index: Value, bits: int) -> Value:
        return e.byte_offset(array, e.mul(index, bits // 8))

    def one_plane(item: Value, _: list[Value]) -> None:
        outside, within = e.op("udiv", item, group), e.op("urem", item, group)

        def in_plane(array: Value, extent: Value, index: Value, type_: str) -> Value:
            number = e.add(e.mul(e.add(e.mul(outside, extent), index), group), within)
            return at(array, number, BITS[type_])

        if gradient is not None:
            zero = e.constant(0.0, gradient_element)
            e.loop(0, plane, 1, (), lambda n, _: e.store_value(zero, in_plane(result, plane, n, gradient_element)))

        def window(dim: int, number: Value, limits: list[tuple[Value, Value]]) -> None:
            if dim < outer:
                extent, first, _ = dims[dim]

                def place(index: Value, _: list[Value]) -> None:
                    low, high = (e.load_value("i64", at(first, index, 64), n) for n in range(2))
                    window(dim + 1, e.add(e.mul(number, extent), index), [*limits, (low, high)])

                e.loop(0, extent, 1, (), place)
                return
            start = e.constant(0, "i64")
            for (low, _), (_, _, offsets) in zip(limits, dims, strict=True):
                start = e.add(start, e.load_value("i64", at(offsets, low, 64)))

            def over(dim: int, position: Value, so_far: list[Value]) -> list[Value]:
                if dim < outer:
                    offsets = dims[dim][2]
                    return e.loop(
                        *limits[dim],
                        1,
                        so_far,
                        lambda n, c: over(dim + 1, e.add(position, e.load_value("i64", at(offsets, n, 64))), c),
                    )
                value = e.load_value(element, in_plane(source, plane, position, element), align=1)
                largest, chosen = so_far
                better = e.compare("ugt" if floats else signed + "gt", value, largest)  # Or either is NaN.
                if floats:
                    better = e.op(
                        "and", better, e.op("or", e.compare("uno", value, value), e.compare("ord", largest, largest))
                    )
                return [e.select(better, value, largest), e.select(better, position, chosen)]

            lowest = e.constant(_lowest(dtype), element)
            _, chosen = over(0, e.constant(0, "i64"), [lowest, start])
            if gradient is None:
                e.store_value(chosen, in_plane(result, results, number, "i64"))
                return
            added = e.load_value(gradient_element, in_plane(gradient, results, number, gradient_element), align=1)
            address = in_plane(result, plane, chosen, gradient_element)
            e.store_value(e.add(e.load_value(gradient_element, address, align=1), added), address)

        window(0, e.constant(0, "i64"), [])

    e.loop(BEGIN, END, 1, (), one_plane)
    return e.kernel()


def positions_kernel(processor: Processor, task: Task) -> PositionsKernel | Refusal:
    """Return the kernel of positions of maxima, or of the gradient of a maximum pool, or the reason against it."""
    assert task.call is not None
    dtypes = [source.dtype for source in task.inputs]
    if dtypes[0] is None or dtypes[0].register != dtypes[0].name or dtypes[-1] not in (float32, float64, dtypes[0]):
        return Refusal("not compiled for 16-bit floats")
    if not all(math.prod(source.layout.shape) for source in task.inputs if source.layout):
        return Refusal("there is nothing to compute")
    if any((each.index < 0).all(1).any() for each in taps_of(task.call.attributes["of"])):
        return Refusal("not compiled for windows without elements")
    return PositionsKernel(processor, task)


class PositionsKernel(CpuKernel):
    """Positions of the largest elements of windows, one by one."""

    name = "largest of windows"

    @cached_property
    def _work(self) -> int:
        """Number of elements that are compared."""
        assert self.task.call is not None
        of = self.task.call.attributes["of"]
        return int(of.spec.size * math.prod(taps.index.shape[1] for taps in taps_of(of)))

    @cached_property
    def cost(self) -> Cost:
        return taps_cost(self.task, self._work * self.owner.target.lanes, self.owner.rates, self.owner.threads)

    def _bind(self) -> BoundLoops:
        task, owner = self.task, self.owner
        assert task.call is not None
        of, (output,) = task.call.attributes["of"], task.outputs
        channels_last, spec = of.attributes["channels_last"], of.operands[0]
        taps, extents = taps_of(of), places_of(spec, channels_last)
        item = last_item(task) + 1
        before, sources = list[BoundLoops](), list[Input]()
        for source in task.inputs:
            assert source.layout is not None
            if not is_contiguous(source.layout):
                copy, source = bind_copy(owner, source, item + len(before))
                before.append(copy)
            sources.append(source)
        meta = [
            math.prod(extents),
            spec.shape[-1] if channels_last else 1,
            math.prod(each.index.shape[0] for each in taps),
        ]
        keep = list[Array]()
        for each, stride in zip(taps, contiguous_strides(extents), strict=True):
            inside = each.index >= 0
            keep += [np.cumsum([0, *inside.sum(1)]).astype(np.int64), (each.index[inside] * stride).astype(np.int64)]
            meta += [len(inside), *(array.ctypes.data for array in keep[-2:])]
        assert sources[0].dtype is not None
        gradient = output.dtype.name if len(sources) > 1 else ""
        kernel = owner.compiled(_positions_module, (sources[0].dtype.name, gradient, len(taps)))
        slots = [Location(output.item), *(Location(each.item, first_byte(each)) for each in sources)]
        array, planes = np.array(meta, np.int64), spec.shape[0] * spec.shape[-1 if channels_last else 1]
        grain = max(1, -(-LEAST_PIECE * planes // (self._work * owner.target.lanes)))
        loop = BoundLoop(kernel, array.ctypes.data, planes, grain, tuple(slots))
        return joined([*before, BoundLoops((loop,), ((output.item, output.nbytes),), (), (array, *keep))])
