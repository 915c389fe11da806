"""The cost model on the tiles of published matrix products, beside what was measured.

The figures are those of arXiv 2512.13282 (tables 2 and 3): tiles, sizes and throughput on an NPU of each generation.
Its kernels keep the sums in the dtype of the result, so that a register block loads and stores less than ours.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from npu_tensor.dataflow.array import ARRAYS, Arch, Blocks, Tile
from npu_tensor.dataflow.cost import Channel, Counters, Prediction, host_bytes, predict
from npu_tensor.dataflow.design import AccessPattern
from npu_tensor.kernels.gemm.tiling import BLOCK_CYCLES

__all__ = ["ASKED", "PUBLISHED", "SOURCE", "Published", "comparison", "predicted"]

ROWS: Final = 4
SIZES: Final = {"int8": 1, "int16": 2, "int32": 4, "bfloat16": 2}

# bfloat16 on npu2 was multiplied as block floats, 8x8x8 at once.
BLOCK_FLOAT: Final = Blocks(8, 8, 8, 2, 2)
BLOCK_FLOAT_MACS: Final = 512

SOURCE: Final = "arXiv 2512.13282"

ASKED: Final = 0.25
"""The model should be within this of three quarters of the rows."""


class Published(NamedTuple):
    """One measurement. size: M, K, N. tile: m, k, n of a core. gathered: elements of a row that the shim reads at once.

    Where that is not published, 4 steps in k.
    """

    arch: Arch
    operand: str
    result: str
    size: tuple[int, int, int]
    tile: tuple[int, int, int]
    tera: float
    gathered: int = 0
    remark: str = ""

    @property
    def seconds(self) -> float:
        """What was measured."""
        m, k, n = self.size
        return 2 * m * k * n / (self.tera * 1e12)


PUBLISHED: Final = (
    Published("aie2", "int8", "int8", (4032, 4032, 4032), (112, 112, 112), 6.52),
    Published("aie2", "int8", "int16", (4224, 4032, 4224), (96, 112, 96), 5.85),
    Published("aie2", "int8", "int32", (4160, 4224, 4224), (80, 88, 96), 4.42),
    Published(
        "aie2", "bfloat16", "bfloat16", (4224, 4032, 4224), (96, 56, 96), 3.12, 224,
        "host memory gave 17 GB/s where the model has 15",
    ),
    Published("aie2", "bfloat16", "bfloat16", (4224, 4032, 4224), (96, 56, 96), 1.27, 56, "rows of 56 elements"),
    Published(
        "aie2p", "int8", "int8", (4032, 4320, 4608), (144, 72, 144), 37.35, 0,
        "the rate needs a clock of 1.7 GHz at least; the model has 1.5",
    ),
    Published("aie2p", "int8", "int16", (4096, 4320, 4480), (128, 72, 112), 30.77),
    Published(
        "aie2p", "int8", "int32", (4224, 4224, 4608), (96, 64, 96), 24.74, 0,
        "host memory gave 60 GB/s where the model has 50",
    ),
    Published(
        "aie2p", "bfloat16", "bfloat16", (4032, 4224, 4608), (112, 48, 96), 14.52, 0, "multiplied as block floats"
    ),
)  # fmt: skip


def predicted(row: Published) -> Prediction:
    """What the model says. Compare `busy`: the published throughputs are of many runs in a row."""
    array = ARRAYS[row.arch]
    (m, k, n), (tile_m, tile_k, tile_n) = row.size, row.tile
    size, result_size = SIZES[row.operand], SIZES[row.result]
    tiles = m // (ROWS * tile_m) * (n // (array.columns * tile_n))
    gathered = row.gathered or 4 * tile_k
    a = host_bytes(AccessPattern(0, (1, k // gathered, ROWS * tile_m, gathered), (0, gathered, k, 1)), size)
    b = host_bytes(AccessPattern(0, (1, k // gathered, array.columns * tile_n, gathered), (0, gathered, k, 1)), size)
    c = host_bytes(AccessPattern(0, (1, 1, ROWS * tile_m, array.columns * tile_n), (0, 0, n, 1)), result_size)
    stream = tiles * max(tile_m * k * size, tile_n * k * size, ROWS * tile_m * tile_n * result_size)
    counters = Counters(
        {Tile(0, 2): round(tiles * (k // tile_k) * _kernel_cycles(row))},
        {Channel(Tile(0, 0), "a", "out"): stream},
        tiles * (a + b + c),
        0,
    )
    return predict(counters, array)


def _kernel_cycles(row: Published) -> float:
    """Of one m x k x n product: loads, products and stores of a register block one after another."""
    array = ARRAYS[row.arch]
    blocks, macs = array.blocks[row.operand], array.macs_per_cycle[row.operand]
    if row.arch == "aie2p" and row.operand == "bfloat16":
        blocks, macs = BLOCK_FLOAT, BLOCK_FLOAT_MACS
    r, s, t, rows, columns = blocks
    m, k, n = row.tile
    sums = rows * columns * r * t * SIZES[row.result]
    products = rows * columns * r * s * t / macs * k / s
    block = products + sums / array.load_bytes + sums / array.store_bytes + BLOCK_CYCLES
    return m * n / (rows * r * columns * t) * block


def comparison() -> list[dict[str, Any]]:
    """One row per measurement: published and predicted milliseconds, their ratio and what limits the model."""
    rows = []
    for row in PUBLISHED:
        model = predicted(row)
        ratio = model.busy / row.seconds
        rows.append(
            {
                "arch": row.arch,
                "dtype": f"{row.operand} -> {row.result}",
                "shape": "x".join(map(str, row.size)),
                "tile": "x".join(map(str, row.tile)),
                "published_ms": row.seconds * 1e3,
                "predicted_ms": model.busy * 1e3,
                "ratio": ratio,
                "limit": model.limit,
                "within": abs(ratio - 1) <= ASKED,
                "remark": row.remark,
            }
        )
    return rows
