"""Small designs, kernel functions and brute force for the tests of the simulated NPU."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from npu_tensor.dataflow.array import ARRAYS, Tile
from npu_tensor.dataflow.cost import Counters
from npu_tensor.dataflow.design import AccessPattern, Builder, Design, KernelFunction, ObjectType, Source
from npu_tensor.runtime.sim.host_compiler import reason
from npu_tensor.runtime.sim.simulated_array import LoadedDesign, SimulatedArray
from npu_tensor.runtime.sim.tile_memory import DeviceBuffer

Ints = npt.NDArray[np.int32]

SOURCE = Source(
    "test kernels",
    r"""
#include <cstdint>
#include <cstring>
#include <nt_host.hpp>

extern "C" {
void nt_copy(const void *source, void *result, int32_t nbytes) { std::memcpy(result, source, nbytes); }
void nt_add(const int32_t *a, const int32_t *b, int32_t *result, int32_t n) {
    for (int i = 0; i < n; i++) result[i] = a[i] + b[i];
}
void nt_affine(const int32_t *words, const int32_t *x, int32_t *result, int32_t n) {
    for (int i = 0; i < n; i++) result[i] = words[0] * x[i] + words[1];
}
void nt_scale(const float *x, float *result, float factor, int32_t n) {
    for (int i = 0; i < n; i++) result[i] = x[i] * factor;
}
void nt_refuse_negative(const int32_t *x, int32_t *result, int32_t n) {
    for (int i = 0; i < n; i++) {
        if (x[i] < 0) nt_host::fail("a negative number");
        result[i] = x[i];
    }
}
}
""",
)


class Functions(NamedTuple):
    """The functions of SOURCE for objects of one type. All are declared in every design: one compilation does."""

    copy: KernelFunction
    add: KernelFunction
    affine: KernelFunction
    scale: KernelFunction
    refuse_negative: KernelFunction


def functions(d: Builder, type: ObjectType) -> Functions:
    parameter = ObjectType("int32", (2,))
    return Functions(
        d.function("nt_copy", [type, type, "int32"], SOURCE, cycles=7),
        d.function("nt_add", [type, type, type, "int32"], SOURCE, cycles=11),
        d.function("nt_affine", [parameter, type, type, "int32"], SOURCE, cycles=13),
        d.function("nt_scale", [type, type, "float32", "int32"], SOURCE, cycles=17),
        d.function("nt_refuse_negative", [type, type, "int32"], SOURCE, cycles=19),
    )


def each(call: Callable[..., object]) -> Callable[..., None]:
    """Return the body of a core that calls this with each object, a buffer for its result and further arguments."""

    def body(source: Any, result: Any, *others: Any) -> None:
        call(source.acquire(1), result.acquire(1), *others)
        source.release(1)
        result.release(1)

    return body


def load(design: Design) -> LoadedDesign:
    """On an array of its own."""
    if (missing := reason()) is not None:
        pytest.skip(missing)
    return SimulatedArray(ARRAYS[design.arch]).load(design)


def run(loaded: LoadedDesign, *inputs: npt.ArrayLike, words: Sequence[int] = ()) -> tuple[Counters, list[Ints]]:
    """Counters, and all host buffers (int32) after a run that found `inputs` in the first ones and -1 in the others."""
    buffers = [DeviceBuffer(buffer.type.nbytes) for buffer in loaded.design.host_buffers]
    for number, buffer in enumerate(buffers):
        buffer.bytes.view(np.int32)[:] = inputs[number] if number < len(inputs) else -1
        buffer.to_device()
    counters = loaded.run([buffer.device for buffer in buffers], words)
    for buffer in buffers:
        buffer.from_device()
    return counters, [buffer.bytes.view(np.int32) for buffer in buffers]


def copy_design(
    objects: int, *, filled: int | None = None, drained: int | None = None, wait_fill: bool = False
) -> Design:
    """`objects` objects of 16 int32 from host buffer x through a core to y. filled and drained: elements, if others."""
    d = Builder("copy", "aie2p", columns=1)
    total = objects * 16
    x, y = d.host_buffer("x", "int32", total), d.host_buffer("y", "int32", total)
    type = ObjectType("int32", (16,))
    copy = functions(d, type).copy
    fx = d.fifo("x0", type, Tile(0, 0), [Tile(0, 2)])
    fy = d.fifo("y0", type, Tile(0, 2), [Tile(0, 0)])

    d.worker(Tile(0, 2), each(lambda a, b: copy(a, b, type.nbytes)), [fx, fy])
    d.fill(fx, x, AccessPattern.linear(total if filled is None else filled), wait=wait_fill)
    d.drain(fy, y, AccessPattern.linear(total if drained is None else drained))
    return d.build()


def offsets(dims: Sequence[tuple[int, int]]) -> list[int]:
    """Return the offsets that nested loops visit, in order."""
    places = []
    for index in itertools.product(*(range(size) for size, _ in dims)):
        places.append(sum(i * stride for i, (_, stride) in zip(index, dims, strict=True)))
    return places


def pattern_offsets(pattern: AccessPattern) -> list[int]:
    """Return the offsets of the elements that a transfer moves."""
    dims = list(zip(pattern.sizes, pattern.strides, strict=True))
    return [pattern.offset + place for place in offsets(dims)]
