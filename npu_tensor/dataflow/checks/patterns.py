"""Rules for the DMAs' access: patterns of transfers, dims_to_stream and dims_from_stream."""

from __future__ import annotations

import math
from collections.abc import Iterator

from npu_tensor.dataflow.checks.index import FifoEnd, Index, Violation
from npu_tensor.dataflow.checks.limits import ITERATIONS, LIMITS, STATIC_SIZE, WORD
from npu_tensor.dataflow.design import AccessPattern, HostBuffer, ObjectType, ShimEnd


def access_patterns(index: Index) -> Iterator[Violation]:
    """Check the access patterns of all transfers. Equal ones of a fifo are checked once."""
    for name, buffer, pattern in dict.fromkeys(
        (transfer.fifo, transfer.buffer, transfer.pattern) for transfer in index.transfers
    ):
        yield from _AccessPattern(name, index.design.shim_ends[name], index.host_buffers[buffer], pattern).violations()


class _AccessPattern:
    """Access of a transfer to a host buffer."""

    def __init__(self, fifo: str, end: ShimEnd, buffer: HostBuffer, pattern: AccessPattern) -> None:
        self.fifo = fifo
        self.end = end
        self.buffer = buffer
        self.offset, self.sizes, self.strides = pattern
        self.itemsize = buffer.type.itemsize

    def violation(self, what: str, text: str) -> Violation:
        kind = "fill" if self.end.direction == "out" else "drain"
        walk = f"sizes {list(self.sizes)}, strides {list(self.strides)}, offset {self.offset} of {self.buffer.name}"
        message = f"{self.end.tile}: the {kind} of fifo {self.fifo} with {walk}: {text}"
        return Violation(f"access {what}", self.buffer.name, message)

    def violations(self) -> Iterator[Violation]:
        """Yield everything that the shim's DMA does not support."""
        sizes, strides = self.sizes, self.strides
        if len(sizes) != 4 or len(strides) != 4:
            yield self.violation("dimensions", f"{len(sizes)} sizes and {len(strides)} strides, not 4 each.")
        elif min(sizes) < 1:
            yield self.violation("size", f"the size {min(sizes)} is below 1.")
        else:
            yield from self._bounds()
            yield from self._sizes()
            yield from self._strides()
            yield from self._alignment()

    def _bounds(self) -> Iterator[Violation]:
        end = self.buffer.type.elements - 1
        reach = [(size - 1) * stride for size, stride in zip(self.sizes, self.strides, strict=True)]
        first = self.offset + sum(step for step in reach if step < 0)
        last = self.offset + sum(step for step in reach if step > 0)
        for element in (first, last):
            if not 0 <= element <= end:
                yield self.violation("bounds", f"it reaches element {element}, and {self.buffer.name} has 0 to {end}.")

    def _sizes(self) -> Iterator[Violation]:
        sizes, limit = self.sizes, LIMITS["shim"].wrap
        if sizes[0] > ITERATIONS:
            text = f"sizes[0] is {sizes[0]}, and can be {ITERATIONS}; use sizes[1]."
            yield self.violation("size", text)
        if sizes[2] > limit:
            yield self.violation("size", f"sizes[2] is {sizes[2]}, and can be {limit}; use sizes[1].")
        words = sizes[3] * self.itemsize // WORD
        linear = sizes[1:3] == (1, 1) and self.strides[1:] == (0, 0, 1)
        if words > limit and not linear:
            text = f"sizes[3] is {words} words, and can be {limit} unless the next are 1 with strides of 0."
            yield self.violation("size", text)
        length, limit = math.prod(sizes[1:]) * self.itemsize // WORD, LIMITS["shim"].length
        if length > limit:
            yield self.violation("length", f"sizes[1:] have {length} words, and can have {limit}.")

    def _strides(self) -> Iterator[Violation]:
        sizes, strides = self.sizes, self.strides
        limit = LIMITS["shim"].stride
        for position, (size, stride) in enumerate(zip(sizes, strides, strict=True)):
            least = 0 if position == 0 else 1
            if size > 1 and stride < least:
                text = f"strides[{position}] is {stride}; only strides[0] can be 0, and none negative."
                yield self.violation("stride", text)
            words = stride * self.itemsize // WORD
            if words > limit and (size > 1 or position == 3):
                yield self.violation("stride", f"strides[{position}] is {words} words, and can be {limit}.")
        if sizes[3] == 1 or strides[3] == 1:
            return
        if self.itemsize != WORD:
            text = f"strides[3] is {strides[3]}, and must be 1 for elements of {self.itemsize} bytes."
            yield self.violation("stride", text)
        elif sizes[1:3] == (1, 1):
            # Older releases of mlir-aie moved adjacent elements instead (its issue 2930). Not tried with 1.4.
            text = f"strides[3] is {strides[3]}, and can only be 1 after two sizes of 1; use sizes[2] and strides[2]."
            yield self.violation("stride", text)

    def _alignment(self) -> Iterator[Violation]:
        aligned = {f"strides[{position}]": stride for position, stride in enumerate(self.strides)}
        if self.strides[3] == 1:
            del aligned["strides[3]"]
        aligned["the offset"] = self.offset
        aligned["sizes[3]"] = self.sizes[3]
        for what, elements in aligned.items():
            nbytes = elements * self.itemsize
            if nbytes % WORD:
                yield self.violation("alignment", f"{what} is {nbytes} bytes, and must be a multiple of {WORD}.")


def static_dims(index: Index) -> Iterator[Violation]:
    """Check all fifo ends with dims."""
    for end in index.ends:
        if end.dims:
            yield from _static(index, end)


def _static(index: Index, end: FifoEnd) -> Iterator[Violation]:
    fifo, kind, dims = end.fifo, end.tile.kind, end.dims
    limits = LIMITS[kind]
    side = "dims_to_stream" if end.direction == "out" else "dims_from_stream"
    walk = f"{side} {[tuple(dim) for dim in dims]} of fifo {fifo.name} at {end.tile}"

    def violation(what: str, text: str) -> Violation:
        return Violation(f"dims {what}", fifo.name, f"{walk}: {text}")

    if len(dims) > limits.dimensions:
        hint = "; use the access pattern of the transfer" if kind == "shim" else ""
        yield violation("count", f"{len(dims)} dimensions, and a {kind} can walk {limits.dimensions}{hint}.")
        return
    sizes = [size for size, _ in dims]
    if min(sizes) < 1:
        yield violation("size", "a size is below 1.")
        return
    walked, itemsize = _walked(index, end), fifo.type.itemsize
    moved = math.prod(sizes)
    for part in walked:
        if moved != part.elements:
            yield violation("product", f"they walk {moved} elements of {part.elements}.")
        if part.dtype != fifo.type.dtype:
            yield violation("dtype", f"the memtile holds {part}, not {fifo.type}.")
    elements = min(part.elements for part in walked)
    reach = sum((size - 1) * stride for size, stride in dims)
    if reach >= elements:
        yield violation("reach", f"they reach element {reach} of 0 to {elements - 1}.")
    for position, (size, stride) in enumerate(dims):
        innermost = position == len(dims) - 1
        if not 1 <= stride <= elements:
            yield violation("stride", f"the stride {stride} must be 1 to {elements}.")
        if size > 1 and stride * itemsize > limits.stride * WORD:
            words = stride * itemsize // WORD
            yield violation("stride", f"a stride is {words} words, and can be {limits.stride}.")
        if size > STATIC_SIZE:
            yield violation("size", f"the size {size} is over {STATIC_SIZE}.")
        words = size * itemsize // WORD if innermost else size
        if words > limits.wrap:
            unit = " words" if innermost else ""
            yield violation("size", f"a size is {words}{unit}, and a {kind} counts to {limits.wrap}.")
        whole = size if innermost else stride
        if whole * itemsize % WORD and (innermost or size > 1):
            what = "innermost size" if innermost else "stride"
            text = f"the {what} {whole} has {whole * itemsize} bytes, and must have a multiple of {WORD}."
            yield violation("alignment", text)
    innermost_stride = dims[-1][1]
    if itemsize != WORD and innermost_stride != 1:
        text = f"the innermost stride is {innermost_stride}, and must be 1 for elements of {itemsize} bytes."
        yield violation("stride", text)


def _walked(index: Index, end: FifoEnd) -> list[ObjectType]:
    """Return the objects that one buffer descriptor at a fifo's end moves.

    That is an object, or any of its parts in a split or join. A forward moves the larger of its two objects on both
    sides, because the memtile holds that one.
    """
    link = index.link_at.get((end.fifo.name, end.tile))
    if link is None or end.fifo.name in link.parts:
        return [end.fifo.type]
    return [index.fifos[name].type for name in link.parts] or [index.stored(link).type]
