"""Design of sliding windows: tiles of results, whose rows of the image stream through one core.

The channels of an image are neighbours in memory, so vectors run over channels, and all strides cost the same. A tile
has some rows and columns of results and a block of channels. Its rows of the image come one by one. The core frames
them with the padding in a ring with a row for each row of a window, and computes a row of results once it has all rows
of the windows. In place of rows outside of the image come its first or last row, which the core replaces.

Every core has a channel of the shim in each direction, so there are two in a column. Weights and operands of the
epilogue come before the tiles of their block of channels. Extents are words: one binary serves all images.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import zip_longest
from typing import Any, Final, Literal, NamedTuple

from npu_tensor.dataflow.array import ARRAYS, Arch, Tile
from npu_tensor.dataflow.checks.limits import CORE_RESERVE, LIMITS
from npu_tensor.dataflow.columns import Step, pipeline
from npu_tensor.dataflow.design import (
    DEFAULT_STACK,
    AccessPattern,
    Builder,
    Configuration,
    Design,
    ObjectType,
    SequenceBuilder,
    Source,
    range_,
)
from npu_tensor.kernels.codegen.cycles import SCALAR_STEP, LoopWork, function
from npu_tensor.kernels.codegen.emitter import MEMORY
from npu_tensor.kernels.gemm.epilogue import Epilogue
from npu_tensor.kernels.offer import Located

TILES, MORE_ROWS, WORDS = 0, 1, 7
"""Places of the words that are rounds of loops, and number of words; see nt/windows.hpp."""
GROUPS: Final = 2
"""Upper bound on groups of transfers in flight."""
SMALL_BYTES: Final = 256
"""Bytes for small buffers of a core."""
COMPUTE_BYTES: Final = 10240
"""Upper bound on `compute_bytes`; the other functions and the calls take up to 6 KB."""

Combine = Literal["maximum", "sum", "product"]


class Window(NamedTuple):
    """Windows, as far as the binary depends on them.

    Attributes:
        combine: Largest element, mean, or sum of products with weights.
        dtype: Dtype of the image and the weights in host memory.
        result: Dtype of the result in host memory.
        kernel: Rows and columns of a window.
        stride: Rows and columns between windows.
        padding: Rows above and columns to the left of the image.
        counted: Rows above and below, and columns to the left and right, that count in a mean.
    """

    combine: Combine
    dtype: str
    result: str
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    counted: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def program_bytes(self) -> int:
        """Estimated machine code of the function that combines the rows of windows."""
        is_emulated = self.combine == "product" and self.dtype == "float32"
        return 1024 + self.kernel[1] * (768 if is_emulated else 128)


class WindowTiles(NamedTuple):
    """Part of the binary.

    Attributes:
        arch: Generation of the array.
        window: Windows.
        epilogue: Code that is applied to sums of products.
        vectors: Operands of the epilogue with one number per channel.
        width: Results of a row of a tile.
        channels: Channels of a block.
        cores: Cores in use, two in a column.
    """

    arch: Arch
    window: Window
    epilogue: Epilogue | None
    vectors: int
    width: int
    channels: int
    cores: int

    @property
    def pixels(self) -> int:
        """Pixels of a row of the image in a tile."""
        return (self.width - 1) * self.window.stride[1] + self.window.kernel[1]

    @property
    def row(self) -> ObjectType:
        """Row of the image in a tile."""
        return ObjectType(self.window.dtype, (self.pixels * self.channels,))

    @property
    def result(self) -> ObjectType:
        """Row of results in a tile."""
        return ObjectType(self.window.result, (self.width * self.channels,))

    @property
    def held(self) -> list[int]:
        """Words of the weights and of the epilogue's operands that a core holds."""
        if self.epilogue is None:
            return []
        weights = self.window.kernel[0] * self.window.kernel[1] * self.channels * self.row.itemsize // 4
        return [weights, *[self.channels] * self.vectors]

    def objects(self, words: int) -> int:
        """Return the number of objects that bring some words."""
        return -(-4 * words // self.row.nbytes)

    @property
    def buffers(self) -> dict[str, ObjectType]:
        """Memory of a core besides the objects of fifos."""
        largest, rank = self.window.combine == "maximum", f"int{8 * self.row.itemsize}"
        return {
            "ring": ObjectType(rank if largest else self.window.dtype, (self.window.kernel[0] * self.row.elements,)),
            "totals": ObjectType(rank if largest else "float32", self.result.shape),
            "held": ObjectType("float32", (sum(self.held) or 16,)),
            "state": ObjectType("int32", (5,)),
        }

    @property
    def compute_bytes(self) -> int:
        """Estimated machine code of the function that computes a row of results."""
        return self.window.program_bytes + (self.epilogue.program_bytes if self.epilogue else 1024)

    @property
    def fits(self) -> bool:
        """True if a core has enough memory for data."""
        buffers = sum(each.nbytes for each in (*self.buffers.values(), *[self.row, self.result] * 2))
        return DEFAULT_STACK + buffers + SMALL_BYTES <= LIMITS["core"].memory - CORE_RESERVE

    @property
    def cycles(self) -> dict[str, int]:
        """Predicted cycles of a call of each function."""
        window, lanes = self.window, 64 // self.row.itemsize
        kind, vectors = f"{window.combine} {window.dtype}", self.result.elements // lanes
        keep, one, two = (function(f"windows_{name} {kind}", self.arch) for name in ("keep", "combine1", "combine2"))
        # Every further column of a window adds the same work.
        combine = LoopWork._make(a + (window.kernel[1] - 1) * (b - a) for a, b in zip(one, two, strict=True))
        compute = self.buffers["totals"].nbytes // ARRAYS[self.arch].store_bytes
        compute += window.kernel[0] * (self.channels // lanes) * combine.loop(self.width)
        if self.epilogue is not None:
            compute += self.result.elements // 16 * self.epilogue.vector_cycles
        elif window.combine == "maximum":
            compute += function(f"windows_finish {kind}", self.arch).loop(vectors)
        else:
            finish = function(f"windows_finish sum {window.result}", self.arch)
            compute += self.width * (2 * SCALAR_STEP + finish.loop(self.channels // 16))
        return {
            "hold": self.row.nbytes // 32,
            "keep": keep.loop(self.row.elements // lanes) + 2 * SCALAR_STEP,
            "compute": compute,
        }


def _source(tiles: WindowTiles) -> Source:
    window, epilogue = tiles.window, tiles.epilogue
    numbers = ", ".join(map(str, (*window.kernel, *window.stride, *window.padding, *window.counted)))
    if epilogue is not None:
        vectors = [f"const float *row{i} = held + {sum(tiles.held[: i + 1])};" for i in range(tiles.vectors)]
        head = "\n    ".join((*vectors, *epilogue.hoisted))
        body = "\n            ".join(epilogue.body)
        finish = f"""{head}
    for (unsigned across = 0; across < Tile::channels; across += 16) {{
        {epilogue.hint}
        for (unsigned j = across; j < Tile::width * Tile::channels; j += Tile::channels) {{
            {body}
            nt::store(result + j, {epilogue.value});
        }}
    }}"""
    elif window.combine == "maximum":
        finish = "nt::store_maxima<Tile>(sums, result);"
    else:
        precision = "half" if window.result == "bfloat16" else "full"
        finish = f"nt::store_means<Tile, nt::{precision}>(sums, result, state, words);"
    own = f"words + {epilogue.scalars}" if epilogue else "words"
    text = f"""#include <aie_api/aie.hpp>

#include "nt/windows.hpp"

using Tile = nt::WindowTile<nt::Combine::{window.combine.upper()}, {MEMORY[window.dtype]}, nt::Window{{{numbers}}},
                            {tiles.width}, {tiles.channels}>;

extern "C" void nt_windows_keep(const Tile::T *__restrict object, Tile::Kept *__restrict ring,
                                int32 *__restrict state, const int32 *__restrict words) {{
    nt::keep_row<Tile>(object, ring, state, {own});
}}

extern "C" void nt_windows_compute(const Tile::Kept *__restrict ring, const float *__restrict held,
                                   Tile::Total *__restrict sums, {MEMORY[window.result]} *__restrict result,
                                   const int32 *__restrict state, const int32 *__restrict words) {{
    aie::set_rounding(aie::rounding_mode::conv_even);
    nt::clear_totals<Tile>(sums);
    nt::combine_rows<Tile>(ring, reinterpret_cast<const Tile::T *>(held), sums, state);
    {finish}
}}
"""
    if tiles.held:
        text += """
extern "C" void nt_windows_hold(const Tile::T *__restrict object, float *__restrict held, int32 first, int32 count) {
    const auto *from = reinterpret_cast<const float *>(object);
    for (int32 i = 0; i < count; i += 16) aie::store_v(held + first + i, aie::load_v<16>(from + i));
}
"""
    return Source("nt_windows", text)


@lru_cache(maxsize=64)
def configuration(tiles: WindowTiles) -> Configuration:
    """Return the configuration that serves all images."""
    window, code, held = tiles.window, _source(tiles), tiles.held
    builder = Builder(f"windows_{window.combine}_{window.dtype}", tiles.arch, -(-tiles.cores // 2), 2 + len(held))
    scalars = tiles.epilogue.scalars if tiles.epilogue else 0
    ring, totals, kept, state = tiles.buffers.values()
    words = ObjectType("int32", (-(-(scalars + WORDS) // 4) * 4,))  # Vectors of the next buffer begin at its end.
    signatures: dict[str, tuple[list[ObjectType | str], int]] = {
        "hold": ([tiles.row, kept, "int32", "int32"], 256),
        "keep": ([tiles.row, ring, state, words], 1536),
        "compute": ([ring, kept, totals, tiles.result, state, words], tiles.compute_bytes),
    }
    functions = {
        name: builder.function(f"nt_windows_{name}", arguments, code, tiles.cycles[name], program_bytes)
        for name, (arguments, program_bytes) in signatures.items()
        if name != "hold" or held
    }

    def body(rows: Any, results: Any, memory: list[Any], words: Any) -> None:
        ring, totals, kept, state = memory

        def hold() -> None:
            for number, count in enumerate(held):
                first = sum(held[:number])
                for start in range(0, count, tiles.row.nbytes // 4):
                    functions["hold"](rows.acquire(1), kept, first + start, min(tiles.row.nbytes // 4, count - start))
                    rows.release(1)

        def keep() -> None:
            functions["keep"](rows.acquire(1), ring, state, words)
            rows.release(1)

        def compute() -> None:
            functions["compute"](ring, kept, totals, results.acquire(1), state, words)
            results.release(1)

        def tile() -> None:
            for _ in range_(window.kernel[0]):
                keep()
            compute()
            for _ in range_(words[scalars + MORE_ROWS]):
                for _ in range_(window.stride[0]):
                    keep()
                compute()

        hold()
        for _ in range_(words[scalars + TILES]) if held else (0,):
            tile()

    for number in range(tiles.cores):
        column, core = divmod(number, 2)
        shim, place = Tile(column, 0), Tile(column, 2 + core)
        rows = builder.fifo(f"rows{number}", tiles.row, shim, [place])
        results = builder.fifo(f"results{number}", tiles.result, place, [shim])
        memory = [
            builder.core_buffer(f"{name}{number}", place, type_, bytes(type_.nbytes) if name == "state" else None)
            for name, type_ in tiles.buffers.items()
        ]
        builder.worker(place, body, [rows, results, memory, builder.parameter(f"words{number}", place, *words.shape)])
    return builder.configuration


def _part(located: Located, place: tuple[int, int, int, int], sizes: tuple[int, int, int, int]) -> AccessPattern:
    """Return the pattern of a part of an image that begins at an image, row, column and channel.

    sizes: repetitions of all rows, rows, pixels and channels.
    """
    _, row, pixel = located.strides
    return AccessPattern(located.at(*place[:3]) + place[3], sizes, (0, row, pixel, 1))


class WindowProblem(NamedTuple):
    """Windows of one run.

    Attributes:
        tiles: Part of the binary.
        image: Images, rows, columns and channels.
        results: Rows and columns of the result.
        band: Rows of results of a tile.
        shares: Cores among which the blocks of channels are divided. Groups of as many cores share the tiles.
    """

    tiles: WindowTiles
    image: tuple[int, int, int, int]
    results: tuple[int, int]
    band: int
    shares: int

    @property
    def rows(self) -> int:
        """Rows of the image for a tile."""
        return (self.band - 1) * self.tiles.window.stride[0] + self.tiles.window.kernel[0]

    @property
    def starts(self) -> list[int]:
        """First channels of the blocks. The last one begins earlier if there are not enough channels."""
        channels, block = self.image[3], self.tiles.channels
        return [min(start, channels - block) for start in range(0, channels, block)]

    @property
    def parts(self) -> tuple[int, int, int]:
        """Images, columns of tiles and bands of an image."""
        return self.image[0], -(-self.results[1] // self.tiles.width), -(-self.results[0] // self.band)

    @property
    def groups(self) -> int:
        """Groups of cores that share the tiles."""
        return self.tiles.cores // self.shares

    def work(self, core: int) -> tuple[list[int], range]:
        """Return the blocks of channels of a core, by their first channels, and its tiles of each block."""
        group, share = divmod(core, self.shares)

        def part(count: int, number: int, of: int) -> range:
            return range(count * number // of, count * (number + 1) // of)

        blocks = part(len(self.starts), share, self.shares)
        return self.starts[blocks.start : blocks.stop], part(math.prod(self.parts), group, self.groups)

    @property
    def weight_rows(self) -> int:
        """Elements of a window for which there are weights in the host buffer, so that objects are filled."""
        return self.tiles.objects(self.tiles.held[0]) * self.tiles.pixels

    @property
    def vector_elements(self) -> int:
        """Elements of the host buffer of an operand of the epilogue, so that objects are filled."""
        return self.starts[-1] + self.tiles.objects(self.tiles.channels) * self.tiles.row.nbytes // 4


def design(problem: WindowProblem, image: Located, result: Located, others: tuple[tuple[str, int], ...]) -> Design:
    """Build the design. Its host buffers are the image, the weights, operands of the epilogue, and the result.

    others: dtypes and elements of the buffers between the image and the result.
    """
    tiles, (_, height, width, channels) = problem.tiles, problem.image
    window, block = tiles.window, tiles.channels
    builder = SequenceBuilder(configuration(tiles))
    shared = builder.configuration
    pixels = builder.host_buffer("image", window.dtype, image.elements)
    held = [builder.host_buffer(f"held{number}", *other) for number, other in enumerate(others)]
    output = builder.host_buffer("result", window.result, result.elements)
    scalars = tiles.epilogue.scalars if tiles.epilogue else 0
    extents = (height, width, *problem.results)
    for core, parameter in enumerate(shared.parameters):
        own = problem.work(core)[1]
        values = [len(own), problem.band - 1, own.start, *extents]
        builder.write(parameter, values + [0] * (parameter.words - scalars - len(values)))

    def hold(core: int, channel: int) -> Iterator[Step]:
        """Yield the transfers of weights and operands of the epilogue for a block of channels."""
        for number, buffer in enumerate(held):
            pattern = AccessPattern(channel, (1, 1, problem.weight_rows, block), (0, 0, channels, 1))
            if number:
                pattern = AccessPattern.linear(problem.vector_elements - problem.starts[-1], channel)
            yield Step(shared.fifo(f"rows{core}"), buffer, pattern, wait=number + 1 == len(held))

    def compute(core: int, channel: int, tile: int) -> Iterator[Step]:
        """Yield the transfers of a tile."""
        _, columns, bands = problem.parts
        plane, x, y = tile // bands // columns, tile // bands % columns, tile % bands
        row = min(y * problem.band, problem.results[0] - problem.band)
        column = min(x * tiles.width, problem.results[1] - tiles.width)
        first = row * window.stride[0] - window.padding[0]
        left = max(min(column * window.stride[1] - window.padding[1], width - tiles.pixels), 0)
        above, below = (min(max(n, 0), problem.rows) for n in (-first, first + problem.rows - height))
        inside = problem.rows - above - below
        for start, repeats, rows in ((0, above, 1), (max(first, 0), 1, inside), (height - 1, below, 1)):
            if repeats and rows:
                part = _part(image, (plane, start, left, channel), (repeats, rows, tiles.pixels, block))
                yield Step(shared.fifo(f"rows{core}"), pixels, part)
        part = _part(result, (plane, row, column, channel), (1, problem.band, tiles.width, block))
        yield Step(shared.fifo(f"results{core}"), output, part)

    def groups(core: int) -> Iterator[list[Step]]:
        """Yield the groups of transfers of a core."""
        blocks, own = problem.work(core)
        for channel in blocks:
            if held:
                yield list(hold(core, channel))
            yield from (list(compute(core, channel, tile)) for tile in own)

    rounds = zip_longest(*map(groups, range(len(shared.parameters))), fillvalue=())
    pipeline(builder, ([step for part in parts for step in part] for parts in rounds), GROUPS)
    return builder.build()
