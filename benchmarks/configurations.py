"""Number of binaries that the kernel families need for new shapes: python -m benchmarks.configurations.

Random shapes of each family run on a simulated NPU with an empty cache, and every result is compared with NumPy in
float64. A binary belongs to a configuration; `FAMILIES` bounds their number for one program. The cost of a new shape of
an existing configuration is also measured: its sequence and the instruction stream.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any, Final, NamedTuple

import click
import ml_dtypes
import numpy as np

import npu_tensor as nt
from npu_tensor import events
from npu_tensor.config import config
from npu_tensor.dataflow.design import Configuration, Design
from npu_tensor.kernels import families
from npu_tensor.kernels.offer import Offer, Target
from npu_tensor.runtime.build.instructions import instructions
from npu_tensor.runtime.sim.kind import SIMULATED

from .predicted import npu_tasks
from .report import Outcome, benchmark, table

Array = np.ndarray[Any, Any]

TOLERANCE: Final = 2**-6
"""Tolerance of bfloat16 results, relative to each and to their root mean square: four units in the last place."""


def _values(rng: np.random.Generator, *shape: int) -> tuple[nt.Tensor, Array]:
    """Return random bfloat16 values and their exact float64 values."""
    x = rng.uniform(-1, 1, shape).astype(ml_dtypes.bfloat16)
    return nt.from_numpy(x), x.astype(np.float64)


def _extent(rng: np.random.Generator, most: int) -> int:
    """Draw an extent with log-uniform distribution."""
    return int(2 ** rng.uniform(0, np.log2(most)))


def _elementwise(rng: np.random.Generator) -> tuple[nt.Tensor, Array]:
    x, exact = _values(rng, _extent(rng, 64), _extent(rng, 3000))
    y, other = _values(rng, *exact.shape)
    return x * y, exact * other


def _with_row(rng: np.random.Generator) -> tuple[nt.Tensor, Array]:
    x, exact = _values(rng, 2 + _extent(rng, 64), 32 * _extent(rng, 60))
    y, other = _values(rng, exact.shape[1])
    return x * y, exact * other


def _product(rng: np.random.Generator) -> tuple[nt.Tensor, Array]:
    m, k, n = (9 + _extent(rng, 200) for _ in range(3))  # Fewer rows belong to another family.
    (x, exact), (y, other) = _values(rng, m, k), _values(rng, n, k)
    return x @ y.T, exact @ other.T


def _rows(rng: np.random.Generator) -> tuple[nt.Tensor, Array]:
    x, exact = _values(rng, _extent(rng, 100), 2 + _extent(rng, 2000))
    exponentials = np.exp(exact - exact.max(1, keepdims=True))
    return x.softmax(1), exponentials / exponentials.sum(1, keepdims=True)


def _long_rows(rng: np.random.Generator) -> tuple[nt.Tensor, Array]:
    """Return a softmax of rows of 32 to 80 kB, which do not fit in a core as a whole."""
    x, exact = _values(rng, _extent(rng, 20), 16_000 + _extent(rng, 24_000))
    exponentials = np.exp(exact - exact.max(1, keepdims=True))
    return x.softmax(1), exponentials / exponentials.sum(1, keepdims=True)


def _turned(rng: np.random.Generator) -> tuple[nt.Tensor, Array]:
    tokens, heads = _extent(rng, 100), _extent(rng, 20)
    x, exact = _values(rng, tokens, heads, 32)
    positions = rng.integers(0, 1000, tokens).astype(np.int32)
    angles = positions[:, None, None] * 10000.0 ** (-np.arange(16) / 16)
    even, odd = exact[..., 0::2], exact[..., 1::2]
    pairs = [even * np.cos(angles) - odd * np.sin(angles), even * np.sin(angles) + odd * np.cos(angles)]
    return nt.rope(x, nt.from_numpy(positions)), np.stack(pairs, -1).reshape(exact.shape)


def _attended(rng: np.random.Generator) -> tuple[nt.Tensor, Array]:
    groups, heads, queries, keys = (1 + int(rng.integers(most)) for most in (4, 3, 200, 100))
    (x, query), (y, key), (z, value) = (
        _values(rng, 1, count, rows, 64) for count, rows in ((groups * heads, queries), (groups, keys), (groups, keys))
    )
    scores = query @ np.repeat(key, heads, 1).swapaxes(2, 3) / 8
    weights = np.exp(scores - scores.max(3, keepdims=True))
    exact = weights @ np.repeat(value, heads, 1) / weights.sum(3, keepdims=True)
    return nt.scaled_dot_product_attention(x, y, z, enable_gqa=True).transpose(1, 2), exact.swapaxes(1, 2)


def _taken(rng: np.random.Generator) -> tuple[nt.Tensor, Array]:
    table, exact = _values(rng, _extent(rng, 300), 2 * _extent(rng, 500))
    index = rng.integers(0, len(exact), _extent(rng, 100)).astype(np.int32)
    return nt.embedding(nt.from_numpy(index), table), exact[index]


def _pooled(rng: np.random.Generator) -> tuple[nt.Tensor, Array]:
    x, exact = _values(rng, 1 + int(rng.integers(3)), _extent(rng, 200), 3 + _extent(rng, 60), 3 + _extent(rng, 60))
    windows = np.lib.stride_tricks.sliding_window_view(exact, (3, 3), (2, 3))
    return nt.max_pool2d(x, 3, 2), windows[:, :, ::2, ::2].max((4, 5))


def _dequantized(rng: np.random.Generator) -> tuple[nt.Tensor, Array]:
    x, exact = _values(rng, _extent(rng, 50), 32 * _extent(rng, 40))
    weights = nt.quantize(nt.from_numpy(rng.uniform(-1, 1, (_extent(rng, 2000), exact.shape[1])).astype("f4")), "q4_1")
    return nt.linear(x, weights.realize()), exact @ weights.dequantize().numpy().astype(np.float64).T


def _transposed(rng: np.random.Generator) -> tuple[nt.Tensor, Array]:
    x, exact = _values(rng, 2 + _extent(rng, 300), 2 + _extent(rng, 300))
    return x.T.contiguous(), exact.T


def _joined(rng: np.random.Generator) -> tuple[nt.Tensor, Array]:
    rows = _extent(rng, 100)
    (x, exact), (y, other) = (_values(rng, rows, 32 + 2 * _extent(rng, 500)) for _ in range(2))
    return nt.cat([x, y], 1), np.concatenate([exact, other], 1)


class Family(NamedTuple):
    """A kernel family. `case` creates a random pending tensor and its expected values.

    `most` is the upper bound on configurations for one program.
    """

    case: Callable[[np.random.Generator], tuple[nt.Tensor, Array]]
    most: int


FAMILIES: Final[Mapping[str, Family]] = {
    # One core or all with small tiles, all with large ones.
    "elementwise": Family(_elementwise, 3),
    "elementwise, with a row": Family(_with_row, 3),
    # The best tiles of eleven products.
    "gemm": Family(_product, 11),
    # One row or many in an object, for each of 11 classes of lengths, with whole and with part vectors.
    "rowwise": Family(_rows, 2 * 2 * 11),
    # Long or short chunks, whole or part ones; 1, 2, 4 or 8 columns share a row, or have rows of their own.
    "longer rows": Family(_long_rows, 2 * 2 * (4 + 4)),
    # Few or many heads in an object.
    "rope": Family(_turned, 2),
    # 16 or 64 queries of a core, or 16 of all; 1, 2, 4 or 8 columns.
    "attention": Family(_attended, 12),
    # 1, 2, 4 or 8 columns.
    "get_rows": Family(_taken, 4),
    "quantized": Family(_dequantized, 1),
    # 32, 64 or 96 channels; 1, 4, 7 or 28 results of a row; 1, 2, 4, 8 or 16 cores.
    "windows": Family(_pooled, 3 * 4 * 5),
    # Sides of 2, 4, 16, 64 and 256, of which the last meets the first two only; 1, 4 or all pairs of shim channels.
    "transposes of 2 bytes": Family(_transposed, 3 * (4 * 4 + 2 * 2)),
    # Objects of 16, 64, 256 and 1024 words; 1, 4 or all pairs of shim channels.
    "concat": Family(_joined, 3 * 4),
}


class Served(NamedTuple):
    """Builds for random shapes of a family.

    Attributes:
        shapes: Number of shapes.
        configurations: Number of configurations.
        binaries: Number of binaries.
        latest: Number of the last shape that needed a new binary.
        unlike: Number of shapes whose results differ from NumPy's.
        sequences: Seconds per sequence of a new shape.
    """

    shapes: int
    configurations: int
    binaries: int
    latest: int
    unlike: int
    sequences: tuple[float, ...]


def served(family: str, generation: str, shapes: int) -> Served:
    """Compute random shapes of a family on the simulated "npu1" or "npu2".

    Raises:
        AssertionError: The family has no kernel for one of its shapes.
    """
    rng, target = np.random.default_rng(0), Target(SIMULATED[generation], SIMULATED[generation].columns)
    built: list[events.BuildFinished] = []
    configurations: set[Configuration] = set()
    sequences = []
    latest = unlike = 0

    def note(event: events.Event) -> None:
        if isinstance(event, events.BuildFinished):
            built.append(event)

    with nt.default_device(f"sim:{generation}"), events.listen(note):
        for shape in range(1, shapes + 1):
            result, expected = FAMILIES[family].case(rng)
            for task in npu_tasks(result):
                offer = families.claim(task, target)
                assert isinstance(offer, Offer), offer
                configurations.add(offer.design().configuration)
                sequences.append(_sequence_seconds(offer.design))
            before = len(built)
            computed = result.numpy().astype(np.float64)
            if len(built) > before:
                latest = shape
            limit = TOLERANCE * (np.abs(expected) + np.sqrt(np.mean(expected**2)))
            unlike += not (np.abs(computed - expected) <= limit).all()
    return Served(shapes, len(configurations), len(built), latest, unlike, tuple(sequences))


def _sequence_seconds(recipe: Callable[[], Design]) -> float:
    """Measure the thread seconds to create a design of an existing configuration and its instruction stream."""
    start = time.thread_time()
    design = recipe()
    instructions(design, dict.fromkeys([parameter.name for parameter in design.parameters], 0))
    return time.thread_time() - start


@benchmark("A dozen shapes of each family.")
@click.option("--shapes", default=200, show_default=True, help="Shapes of each family on each array.")
def main(quick: bool, shapes: int) -> Outcome:
    """Binaries that random shapes need, and the time of a new sequence."""
    rows: list[dict[str, Any]] = []
    for generation in SIMULATED:
        for family, (_, most) in FAMILIES.items():
            with tempfile.TemporaryDirectory() as cache, config.scope(cache_path=cache):
                result = served(family, generation, 12 if quick else shapes)
            row = {"array": generation, "family": family, "most": most, "sequence_ms": median(result.sequences) * 1e3}
            rows.append(result._asdict() | row)
    columns = ("family", "array", "shapes", "binaries", "at most = most", "last for shape = latest")
    figures = ("not NumPy's = unlike", "new sequence, ms = sequence_ms:.2f")
    return Outcome({"rows": rows}, [table("random shapes on simulated NPUs", rows, *columns, *figures)])


if __name__ == "__main__":
    main()
