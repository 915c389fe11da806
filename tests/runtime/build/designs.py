"""The designs that the lowering is tested with: the representative kernels on any columns, and some without an entry.

A float32 kernel is there for each policy that an offer may follow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache, partial
from typing import Any, Final, NamedTuple

from npu_tensor.dataflow.array import ARRAYS, Arch, Tile
from npu_tensor.dataflow.design import AccessPattern, Builder, Design, ObjectType, Source, range_
from npu_tensor.ggml_hsa import representative
from npu_tensor.ggml_hsa.config_file import Entry
from npu_tensor.kernels.block_order import FORMATS
from npu_tensor.kernels.offer import Float32
from npu_tensor.kernels.quantized import between_products

WHOLE: Final = tuple((arch, array.columns) for arch, array in ARRAYS.items())
NARROW: Final[tuple[tuple[Arch, int], ...]] = (("aie2", 1), ("aie2p", 3))


SHORT: Final = {
    "elementwise-gelu-bf16": "gelu",
    "elementwise-kept_column-bf16": "kept-column",
    "elementwise-number-bf16": "runtime-word",
    "gemm-bias_gelu-bf16": "linear-gelu",
    "get_rows-one_pass-bf16": "get-rows",
    "movement-concat_rows-i32": "concat",
    "movement-permute-bf16": "permute",
    "movement-transpose_words-i32": "transpose-int32",
    "rope-factors-bf16": "rope-factors",
    "rope-halves-bf16": "rope",
    "rowwise-parts-bf16": "softmax-parts",
}
"""Short names of the kernels that tests refer to."""


class Example(NamedTuple):
    """Design for any number of columns of any array. Raises ArgumentError if its family does not support the number."""

    id: str
    make: Callable[[Arch, int], Design]


@cache
def _entries(arch: Arch) -> dict[str, Entry]:
    return {entry.exported_name: entry for entry in representative.entries(arch)}


@cache
def _representative(name: str, float32: Float32 | None, arch: Arch, columns: int) -> Design:
    entry = _entries(arch)[name]
    return dataclasses.replace(entry, cols=columns, float32=float32 or entry.float32).request().design


@cache
def _window(arch: Arch, columns: int) -> Design:
    """A core that holds three objects and gives one on per round."""
    builder = Builder("window", arch, columns)
    line, count = ObjectType("int32", (64,)), 32
    x, y = builder.host_buffer("x", "int32", 64 * count), builder.host_buffer("y", "int32", 64 * (count - 2))
    source = Source("window", 'extern "C" void nt_window(int *, int *, int *, int *) {}')
    function = builder.function("nt_window", [line] * 4, source)
    fx = builder.fifo("x0", line, Tile(0, 0), [Tile(0, 2)], depth=4)
    fy = builder.fifo("y0", line, Tile(0, 2), [Tile(0, 0)])

    def body(lines: Any, results: Any) -> None:
        for _ in range_(count - 2):
            held, result = lines.acquire(3), results.acquire(1)
            function(*held, result)
            lines.release(1)
            results.release(1)
        lines.release(2)

    builder.worker(Tile(0, 2), body, [fx, fy])
    builder.fill(fx, x, AccessPattern.linear(64 * count))
    builder.drain(fy, y, AccessPattern.linear(64 * (count - 2)))
    return builder.build()


def _between_products(op: str, arch: Arch, columns: int) -> Design:
    """Return a row op between quantized products, which only the offer of a product has."""
    bits = {"rms_norm": 0x3727C000, "rope": 63 << 13}.get(op, 0)  # eps of 1e-5, heads of 64 features
    problem = between_products.RowProblem(arch, columns, FORMATS["q4_0"], op, 2048, bits, (0, 0))
    return between_products.design(problem)


def _example(name: str, float32: Float32 | None = None) -> Example:
    suffix = f"-{float32}" if float32 else ""
    return Example(SHORT.get(name, name) + suffix, partial(_representative, name, float32))


EXAMPLES: Final = (
    Example("window", _window),
    _example("elementwise-two_streams-f32", "bfloat16"),
    _example("gemm-by_columns-f32", "bfloat16"),
    *(Example(f"between_products-{op}", partial(_between_products, op)) for op in between_products.OPS),
    *map(_example, sorted(_entries("aie2"), key=lambda name: name.startswith("movement"))),
)
"""Those that may be without cores are the last."""


def example(id: str) -> Example:
    """The example of that id."""
    (result,) = [example for example in EXAMPLES if example.id == id]
    return result
