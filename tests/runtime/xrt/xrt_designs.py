"""Small kernels for the tests of the stand-in and of the reader of kernel files."""

from typing import Any

from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.design import AccessPattern, Builder, Design, ObjectType, Source, range_

ELEMENTS = 1024

SOURCE = Source(
    "standin kernels",
    r"""
#include <cstdint>
extern "C" {
void nt_standin_affine(const int32_t *words, const int32_t *x, int32_t *y) {
    for (int i = 0; i < 256; i++) y[i] = words[0] * x[i] + words[1];
}
void nt_standin_add(const int32_t *x, int32_t *y, int32_t n) {
    for (int i = 0; i < 256; i++) y[i] = x[i] + n;
}
}
""",
)


def affine(arch: str = "aie2p") -> Design:
    """y = w0 * x + w1, with both words as a runtime parameter."""
    return _design("affine", arch, None)


def add(number: int, arch: str = "aie2p") -> Design:
    """y = x + number."""
    return _design(f"add_{number}", arch, number)


def _design(name: str, arch: str, number: int | None) -> Design:
    d = Builder(name, arch, columns=1)
    tile, core = ObjectType("int32", (256,)), Tile(0, 2)
    x, y = d.host_buffer("x", "int32", ELEMENTS), d.host_buffer("y", "int32", ELEMENTS)
    pair = ObjectType("int32", (2,))
    apply_affine = d.function("nt_standin_affine", [pair, tile, tile], SOURCE, cycles=256)
    apply_add = d.function("nt_standin_add", [tile, tile, "int32"], SOURCE, cycles=256)
    words = d.parameter("words", core, 2) if number is None else None
    source = d.fifo("x", tile, producer=Tile(0, 0), consumers=[core])
    result = d.fifo("y", tile, producer=core, consumers=[Tile(0, 0)])

    def body(source: Any, result: Any) -> None:
        for _ in range_(ELEMENTS // 256):
            a, b = source.acquire(1), result.acquire(1)
            if words is None:
                apply_add(a, b, number)
            else:
                apply_affine(words, a, b)
            source.release(1)
            result.release(1)

    d.worker(core, body, [source, result])
    d.fill(source, x, AccessPattern.linear(ELEMENTS))
    d.drain(result, y, AccessPattern.linear(ELEMENTS))
    return d.build()
