"""ResNet-18 in int8 with generated weights, predicted for NPUs: python -m benchmarks.int8_resnet.

Sums of convolutions are int32. A bias is added to them; they are rescaled, by one number per output in most layers, and
rounded to int8. The results of a block are as coarse as those of its sum with the shortcut, which is rescaled.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np

import npu_tensor as nt
from npu_tensor import ops
from npu_tensor.dataflow.array import ARRAYS
from npu_tensor.kernels.offer import Target

from . import kernels
from .predicted import npu_tasks
from .report import Outcome, benchmark, table

_ops: Any = ops

SHORTCUT: Final = 0.6
"""Factor of the numbers of a shortcut in its sum with a block."""


class Layer(NamedTuple):
    """Convolution of int8 numbers. `least` is the lower bound on its results: 0 after an activation."""

    weight: Any
    bias: Any
    scale: Any
    stride: int = 1
    least: int = -128

    def __call__(self, x: nt.Tensor) -> nt.Tensor:
        """Convolve an image, which is padded by half of the kernel."""
        padding = ((self.weight.shape[-1] // 2,) * 2,) * 2
        sums: nt.Tensor = _ops.conv_2d(x, self.weight, (self.stride,) * 2, padding, (1, 1), out_dtype="int32")
        scale = self.scale if isinstance(self.scale, float) else self.scale.reshape(-1, 1, 1)
        return rescaled((sums + self.bias.reshape(-1, 1, 1)).to("float32") * scale, self.least)


class Block(NamedTuple):
    """Two convolutions, and the convolution of the shortcut if there is one."""

    first: Layer
    second: Layer
    shortcut: Layer | None

    def __call__(self, x: nt.Tensor) -> tuple[nt.Tensor, nt.Tensor]:
        """Return the bounded sum of the convolutions and the shortcut, and the shortcut."""
        y, shortcut = self.second(self.first(x)), self.shortcut(x) if self.shortcut else x
        return rescaled(y.to("float32") + shortcut.to("float32") * SHORTCUT, 0), shortcut


class Int8ResNet(NamedTuple):
    """ResNet-18 (He et al., 2015). `last` multiplies the means of all pixels, which are int8 too."""

    stem: Layer
    blocks: tuple[Block, ...]
    last: Layer

    @classmethod
    def generated(cls, wrap: Callable[[Any], Any], width: int = 64, classes: int = 1000) -> Int8ResNet:
        """Generate weights. wrap: function that turns an array into a constant of the network."""
        random = np.random.default_rng(0)

        def layer(
            inputs: int, outputs: int, kernel: int, stride: int = 1, least: int = -128, is_last: bool = False
        ) -> Layer:
            weight = random.integers(-127, 128, (outputs, inputs, kernel, kernel), np.int8)
            deviation = 4500 * math.sqrt(inputs) * kernel
            bias = (random.standard_normal(outputs) * deviation / 4).astype(np.int32)
            scale = (random.uniform(20, 40, outputs) / deviation).astype(np.float32)
            # Host buffers suffice for a bias and another image, and not for scales then.
            return Layer(wrap(weight), wrap(bias), 30 / deviation if is_last else wrap(scale), stride, least)

        def blocks() -> Iterator[Block]:
            inputs = width
            for number in range(8):
                outputs, stride = width << number // 2, 2 if number in (2, 4, 6) else 1
                shortcut = layer(inputs, outputs, 1, stride) if stride > 1 else None
                yield Block(layer(inputs, outputs, 3, stride, 0), layer(outputs, outputs, 3, is_last=True), shortcut)
                inputs = outputs

        last = layer(width * 8, classes, 1, is_last=True)
        return cls(layer(3, width, 7, 2, 0), tuple(blocks()), last._replace(weight=last.weight.reshape(classes, -1)))

    def __call__(self, image: nt.Tensor) -> list[nt.Tensor]:
        """Return the int8 scores of int8 images (batch, channels, height, width), the last image, and the shortcuts.

        As results of a graph, shortcuts and the last image are computed by kernels of their own.
        """
        x, shortcuts = nt.max_pool2d(self.stem(image), 3, 2, 1), []
        for block in self.blocks:
            x, shortcut = block(x)
            shortcuts += [shortcut] if block.shortcut else []
        means = rescaled(x.to("float32").mean((2, 3)))
        scores = nt.mul_mat(self.last.weight, means) + self.last.bias
        return [rescaled(scores.to("float32") * self.last.scale), x, *shortcuts]


def rescaled(x: nt.Tensor, least: int = -128) -> nt.Tensor:
    """Round numbers and bound them by `least` and 127."""
    return x.round().clamp(least, 127).to("int8")


class Bound(NamedTuple):
    """Least microseconds of a network on an array: products on all cores, and weights, which are read once."""

    products: float
    weights: float


def measured(arch: str, size: int = 224) -> tuple[list[dict[str, Any]], Bound]:
    """Predict the kernels of the network for one image on a whole array; return a row of each, and the bound."""
    array = ARRAYS[arch]
    network = Int8ResNet.generated(lambda values: nt.from_numpy(values).realize())
    image = nt.zeros(1, 3, size, size, dtype="int8").realize()
    tasks = npu_tasks(*network(image))
    rows = []
    # Copies bring shortcuts, which are results only to be kept, into PyTorch's order.
    for task in (task for task in tasks if task.ops != ("copy",)):
        row: dict[str, Any] = {"task": task.name, "shape": "x".join(map(str, task.shape)), "mmacs": task.macs / 1e6}
        row |= kernels.predicted(task, Target(array, array.columns))
        row["bound_us"] = row["array_us"] * row["roofline_fraction"] if row["array_us"] else None
        rows.append(row)
    products = [task for task in tasks if task.macs]
    rate = array.macs_per_cycle["int8"] * array.core_rows * array.columns * array.clock_hz
    read = sum(math.prod(task.tensors[1].layout.shape) for task in products)
    seconds = sum(task.macs for task in products) / rate, read / array.ddr_bytes_per_second
    return rows, Bound(*(1e6 * each for each in seconds))


@benchmark("Only the array of npu2.", timed=False)
def main(quick: bool) -> Outcome:
    """Predicted times of the kernels of ResNet-18 in int8, one image, without launches."""
    results, tables, notes = {}, [], []
    for arch in ("aie2p",) if quick else ARRAYS:
        rows, bound = measured(arch)
        total = sum(row["array_us"] or 0 for row in rows)
        results[arch] = {"rows": rows, "array_us": total, **bound._asdict()}
        tables.append(
            table(
                f"predicted for {arch}",
                rows,
                *("task", "shape", "cores", "million products = mmacs:,.0f", "us of the array = array_us:,.1f"),
                *("its limit = limit", "its bound = bound_us:,.1f", "no kernel = refused"),
            )
        )
        notes.append(
            f"{arch}: {total:,.0f} us; bounds: {bound.weights:,.0f} us by weights, {bound.products:,.0f} us by products"
        )
    return Outcome({"predicted": True, "arrays": results}, tables, notes)


if __name__ == "__main__":
    main()
