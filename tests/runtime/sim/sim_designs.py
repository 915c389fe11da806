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

SHIM, MEMTILE, CORE = Tile(0, 0), Tile(0, 1), Tile(0, 2)
TYPE = ObjectType("int32", (16,))
VALUES = np.arange(1000, dtype=np.int32)

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


def one_core(
    body: Callable[..., None],
    objects: int = 2,
    declare: Callable[[Builder], Sequence[Any]] = lambda d: (),
    *,
    type: ObjectType = TYPE,
    filled: int | None = None,
    drained: int | None = None,
    wait_fill: bool = False,
) -> Design:
    """A core between the host buffers x and y, both of `objects` objects.

    Args:
        body: Gets both fifos, the functions and what is declared.
        filled: Elements that are sent, if others.
        drained: Elements that are fetched, if others.
    """
    d = Builder("one core", "aie2p", columns=1)
    total = objects * type.elements
    x, y = d.host_buffer("x", type.dtype, total), d.host_buffer("y", type.dtype, total)
    fx, fy = d.fifo("x0", type, SHIM, [CORE]), d.fifo("y0", type, CORE, [SHIM])
    d.worker(CORE, body, [fx, fy, functions(d, type), *declare(d)])
    d.fill(fx, x, AccessPattern.linear(total if filled is None else filled), wait=wait_fill)
    d.drain(fy, y, AccessPattern.linear(total if drained is None else drained))
    return d.build()


def copy_design(objects: int, **transfers: Any) -> Design:
    """`objects` objects from x through a core to y."""
    return one_core(each(lambda a, b, names: names.copy(a, b, TYPE.nbytes)), objects, **transfers)


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
