"""Samples of images at coordinates, and their gradients: a vector of samples at a time, see `ops.samples`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from npu_tensor._util.forks import cached_property
from npu_tensor.ops.declare import Call
from npu_tensor.runtime.cpu.bound_loops import BoundLoops
from npu_tensor.runtime.cpu.cpu_cost import LEAST_PIECE, taps_cost
from npu_tensor.runtime.cpu.ir_emitter import BEGIN, END, POINTERS, Emitter
from npu_tensor.runtime.cpu.kernels import CpuKernel
from npu_tensor.runtime.cpu.loop_parts import LoopParts, place_of
from npu_tensor.runtime.cpu.processor import Processor
from npu_tensor.runtime.cpu.target import CpuTarget
from npu_tensor.runtime.cpu.values import ELEMENT_SIZE, REGISTER_ELEMENT, Value
from npu_tensor.spec import Spec
from npu_tensor.task import Cost, Refusal, Task


class _Form(NamedTuple):
    """Structure of a kernel.

    Attributes:
        op: Name of the op.
        dtype: Dtype of all tensors.
        mode: Mode of the samples.
        padding_mode: Values outside.
        align_corners: True if -1 and 1 are the centres of the outermost elements.
        places: Number of place dimensions.
        few: True if there are fewer samples than lanes.
    """

    op: str
    dtype: str
    mode: str
    padding_mode: str
    align_corners: bool
    places: int
    few: bool


class _Axis(NamedTuple):
    """Lower and upper neighbours of a vector of samples along a place, and the derivative of its position."""

    positions: tuple[Value, Value]
    inside: tuple[Value, Value]
    weight: tuple[Value, Value]
    slope: Value


class _Code:
    """Writes a kernel whose items are vectors of samples, or planes for the gradient of the input.

    pointers  [result, input, grid, gradient], without those that the op does not take
    meta      channels, elements of a plane, samples, vectors of samples, extents of the places
    """

    def __init__(self, form: _Form, target: CpuTarget) -> None:
        self.e = e = Emitter(target)
        self.form, self.element, self.size = form, REGISTER_ELEMENT[form.dtype], ELEMENT_SIZE[form.dtype]
        names = "result", *OPERANDS[form.op]
        self.pointers = {name: e.load_value("ptr", POINTERS, slot) for slot, name in enumerate(names)}
        numbers = e.numbers(4 + form.places)
        self.channels, self.plane, self.samples, self.vectors, *self.extents = numbers

    def _at(self, name: str, number: Value) -> Value:
        return self.e.byte_offset(self.pointers[name], self.e.mul(number, self.size))

    def _start(self, number: Value) -> tuple[Value, Value]:
        """Return the first sample of a vector, and its lanes that are in no vector before. The last one overlaps."""
        e, lanes = self.e, self.e.lanes
        first = e.mul(number, lanes)
        if self.form.few:
            return first, e.first_lanes(self.samples)
        start = e.smaller(first, e.sub(self.samples, lanes))
        return start, e.compare("sge", e.lane_numbers(), e.splat(e.sub(first, start)))

    def _coordinates(self, first: Value) -> list[Value]:
        """Load the coordinates of a vector of samples, from the last place to the first."""
        e, lanes, places = self.e, self.e.lanes, self.form.places
        address = self._at("grid", e.mul(first, places))
        if places == 2 and not self.form.few:
            vectors = [e.load_value(e.vector(self.element), address, n, self.size) for n in range(2)]
            return [e.shuffle(vectors[0], range(n, 2 * lanes, 2), vectors[1]) for n in range(2)]
        last = e.splat(e.convert("trunc", e.sub(self.samples, 1), "i32"))
        numbers = e.lane_numbers("i32")
        if self.form.few:
            numbers = e.smaller(numbers, last)
        return [e.gather(self.form.dtype, address, e.add(e.mul(numbers, places), n)) for n in range(places)]

    def _axis(self, coordinate: Value, extent: Value) -> _Axis:
        e, form = self.e, self.form
        number = e.splat(e.convert("sitofp", extent, self.element))
        last = e.sub(number, 1.0)
        scale = e.mul(last if form.align_corners else number, 0.5)
        place = e.mul(e.add(coordinate, 1.0), scale)
        slope = scale
        if not form.align_corners:
            place = e.sub(place, 0.5)
        if form.padding_mode == "reflection":
            low, span = (0.0, last) if form.align_corners else (-0.5, number)
            slope = e.select(e.compare("olt", place, low), e.neg(slope), slope)
            distance = e.abs(e.sub(place, low))
            turns = e.floor(e.div(distance, span))
            rest = e.sub(distance, e.mul(turns, span))
            half = e.mul(turns, 0.5)
            is_odd = e.compare("one", e.floor(half), half)
            place = e.add(e.select(is_odd, e.sub(span, rest), rest), low)
            slope = e.select(is_odd, e.neg(slope), slope)
        if form.padding_mode != "zeros":
            inside = e.op("and", e.compare("ogt", place, 0.0), e.compare("olt", place, last))
            slope = e.select(inside, slope, 0.0)
            place = e.select(e.compare("ogt", place, 0.0), place, 0.0)  # Also if it is NaN.
            place = e.select(e.compare("olt", place, last), place, last)
        lower = e.rint(place) if form.mode == "nearest" else e.floor(place)
        distance = e.sub(place, lower)
        # Positions that are far outside or NaN do not fit into an integer.
        bounded = e.select(e.compare("ogt", lower, -2.0), lower, -2.0)
        bounded = e.select(e.compare("olt", bounded, number), bounded, number)
        below = e.convert("fptosi", bounded, "i32")
        above = e.add(below, 1)
        count = e.splat(e.convert("trunc", extent, "i32"))
        inside_of = [e.compare("ult", index, count) for index in (below, above)]
        return _Axis((below, above), (inside_of[0], inside_of[1]), (e.sub(1.0, distance), distance), slope)

    def _axes(self, first: Value) -> list[_Axis]:
        return [
            self._axis(coordinate, extent)
            for coordinate, extent in zip(reversed(self._coordinates(first)), self.extents, strict=True)
        ]

    def _corners(self, axes: Sequence[_Axis]) -> list[tuple[tuple[int, ...], Value, Value]]:
        """Return each neighbour as steps per place, position in the plane (0 if outside) and mask."""
        e, corners = self.e, []
        steps = (0, 1) if self.form.mode == "bilinear" else (0,)
        for corner in itertools.product(steps, repeat=len(axes)):
            index, inside = axes[0].positions[corner[0]], axes[0].inside[corner[0]]
            for axis, step, extent in zip(axes[1:], corner[1:], self.extents[1:], strict=True):
                pitch = e.splat(e.convert("trunc", extent, "i32"))
                index = e.add(e.mul(index, pitch), axis.positions[step])
                inside = e.op("and", inside, axis.inside[step])
            corners.append((corner, e.select(inside, index, 0), inside))
        return corners

    def _weight(self, axes: Sequence[_Axis], corner: Sequence[int], without: int | None = None) -> Value:
        """Return the product of the weights of a neighbour, but for one axis."""
        e, one = self.e, self.e.constant(1.0, self.e.vector(self.element))
        if self.form.mode == "nearest":
            return one
        factors = [axis.weight[step] for n, (axis, step) in enumerate(zip(axes, corner, strict=True)) if n != without]
        product = factors[0] if factors else one
        for factor in factors[1:]:
            product = e.mul(product, factor)
        return product

    def _vector_of(self, item: Value) -> tuple[Value, Value, Value]:
        """Return the image of a vector of samples, its first sample, and its lanes with new samples."""
        start, fresh = self._start(self.e.op("urem", item, self.vectors))
        return self.e.op("udiv", item, self.vectors), start, fresh

    def sample(self, item: Value, _: list[Value]) -> None:
        e, (image, start, fresh) = self.e, self._vector_of(item)
        axes = self._axes(e.add(e.mul(image, self.samples), start))
        corners = [(index, inside, self._weight(axes, corner)) for corner, index, inside in self._corners(axes)]
        zero = e.constant(0.0, e.vector(self.element))

        def channel(number: Value, _: list[Value]) -> None:
            own = e.add(e.mul(image, self.channels), number)
            plane, total = self._at("input", e.mul(own, self.plane)), None
            for index, inside, weight in corners:
                value = e.select(inside, e.mul(e.gather(self.form.dtype, plane, index), weight), zero)
                total = value if total is None else e.add(total, value)
            assert total is not None
            address = self._at("result", e.add(e.mul(own, self.samples), start))
            e.store(self.form.dtype, total, address, fresh if self.form.few else None)

        e.loop(0, self.channels, 1, (), channel)

    def gradient_of_input(self, plane: Value, _: list[Value]) -> None:
        """Add the gradients of samples to the elements of a plane, one by one."""
        e = self.e
        image = e.op("udiv", plane, self.channels)
        zero, first = e.constant(0.0, self.element), e.mul(plane, self.plane)
        e.loop(first, e.add(first, self.plane), 1, (), lambda n, _: e.store_value(zero, self._at("result", n)))
        own = self._at("result", first)

        def vector(number: Value, _: list[Value]) -> None:
            start, fresh = self._start(number)
            axes = self._axes(e.add(e.mul(image, self.samples), start))
            address = self._at("gradient", e.add(e.mul(plane, self.samples), start))
            gradient = e.load(self.form.dtype, address, fresh if self.form.few else None)
            for corner, index, inside in self._corners(axes):
                is_new = e.op("and", inside, fresh)
                added = e.select(is_new, e.mul(gradient, self._weight(axes, corner)), 0.0)
                for lane in range(e.lanes):
                    place = e.address(own, e.extract(index, lane), self.form.dtype)
                    sum_ = e.add(e.load_value(self.element, place, align=1), e.extract(added, lane))
                    e.store_value(sum_, place)

        e.loop(0, self.vectors, 1, (), vector)

    def gradient_of_grid(self, item: Value, _: list[Value]) -> None:
        e, (image, start, fresh) = self.e, self._vector_of(item)
        first = e.add(e.mul(image, self.samples), start)
        axes = self._axes(first)
        corners = self._corners(axes)
        zero = e.constant(0.0, e.vector(self.element))

        def channel(number: Value, so_far: list[Value]) -> list[Value]:
            own = e.add(e.mul(image, self.channels), number)
            plane = self._at("input", e.mul(own, self.plane))
            address = self._at("gradient", e.add(e.mul(own, self.samples), start))
            gradient = e.load(self.form.dtype, address, fresh if self.form.few else None)
            values = [e.mul(e.gather(self.form.dtype, plane, index), gradient) for _, index, _ in corners]
            return [e.add(*pair) for pair in zip(so_far, values, strict=True)]

        sums = e.loop(0, self.channels, 1, [zero] * len(corners), channel)
        order = e.mul(e.lane_numbers("i32"), self.form.places)
        address = self._at("result", e.mul(first, self.form.places))
        for number, axis in enumerate(reversed(axes)):
            total: Value = zero
            own = len(axes) - 1 - number
            for (corner, *_rest, inside), summed in zip(corners, sums, strict=True):
                part = e.mul(e.mul(summed, self._weight(axes, corner, own)), axis.slope)
                total = (e.add if corner[own] else e.sub)(total, e.select(inside, part, zero))
            mask = fresh if self.form.few else None
            e.scatter_raw(self.form.dtype, total, address, e.add(order, number), mask)


OPERANDS: Final = {
    "samples_at": ("input", "grid"),
    "samples_at_backward_0": ("grid", "gradient"),
    "samples_at_backward_1": ("input", "grid", "gradient"),
}
"""Operands by op."""


def _module(form: _Form, target: CpuTarget) -> str:
    code = _Code(form, target)
    bodies = {
        "samples_at": code.sample,
        "samples_at_backward_0": code.gradient_of_input,
        "samples_at_backward_1": code.gradient_of_grid,
    }
    code.e.loop(BEGIN, END, 1, (), bodies[form.op])
    return code.e.kernel()


def _forward(task: Task) -> Call:
    """Return the call of the samples of a task, or of its gradient."""
    call = task.call
    assert call is not None
    return call.attributes.get("of", call)  # type: ignore[no-any-return]


def samples_kernel(processor: Processor, task: Task) -> SamplesKernel | Refusal:
    """Return the kernel of samples, or of a gradient, or the reason why there is none."""
    call = _forward(task)
    x, grid = call.operands
    assert isinstance(x, Spec)
    assert isinstance(grid, Spec)
    if not all(spec.size for spec in (x, grid)):
        return Refusal("there is nothing to sample")
    if math.prod(x.shape[2:]) >= 1 << 30:
        return Refusal("compiled for fewer than 2^30 elements of a channel")
    if any(each.dtype.register != each.dtype.name or each.dtype is not x.dtype for each in (x, grid)):
        return Refusal("compiled for float32 and float64 only")
    return SamplesKernel(processor, task)


class SamplesKernel(CpuKernel):
    """Samples of images at coordinates."""

    name = "samples"

    @cached_property
    def _work(self) -> int:
        """Number of elements that are combined; reading one by one costs as much as a vector."""
        call = _forward(self.task)
        corners = 1 if call.attributes["mode"] == "nearest" else 1 << (len(call.spec.shape) - 2)
        return call.spec.size * corners * self.owner.target.lanes // 2

    @cached_property
    def cost(self) -> Cost:
        return taps_cost(self.task, self._work, self.owner.rates, self.owner.threads)

    def _bind(self) -> BoundLoops:
        task, call, parts = self.task, _forward(self.task), LoopParts(self.owner, self.task)
        (batch, channels, *extents), (output,) = call.operands[0].shape, task.outputs  # type: ignore[union-attr]
        samples, lanes, name = math.prod(call.spec.shape[2:]), self.owner.target.lanes, task.ops[0]
        vectors = -(-samples // lanes)
        sources = [parts.row_major(source) for source in task.tensors]
        form = _Form(name, output.dtype.name, **call.attributes, places=len(extents), few=samples < lanes)
        numbers = [channels, math.prod(extents), samples, vectors, *extents]
        items = batch * (channels if name == "samples_at_backward_0" else vectors)
        grain, slots = max(1, -(-LEAST_PIECE * items // self._work)), (parts.result(output), *map(place_of, sources))
        parts.loop(_module, form, numbers, items, grain, slots)
        return parts.joined()
