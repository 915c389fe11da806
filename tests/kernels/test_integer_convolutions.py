"""Convolutions of int8 on the simulated array against sums that NumPy computes by brute force."""

import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joint_sources import compiled_together
from kernel_tasks import TARGETS, WHOLE, accepted, arrays, clipped, computed, conv_of
from running import needs_compiler

import npu_tensor as nt
from benchmarks.int8_resnet import SHORTCUT, Int8ResNet, rescaled
from npu_tensor import ops
from npu_tensor.graph.structure import structure_of
from npu_tensor.kernels import conv
from npu_tensor.kernels.offer import Offer, Target
from npu_tensor.planner.fuse import cut
from npu_tensor.runtime.sim.simulated_device import SimulatedDevice
from npu_tensor.task import Refusal, Task
from npu_tensor.tensor import record

torch = pytest.importorskip("torch", reason="PyTorch, the oracle of these tests, cannot be imported")

Array = np.ndarray[Any, Any]
Pair = tuple[int, int]

pytestmark = needs_compiler


class Case(NamedTuple):
    """A convolution of random int8 numbers with channels last, whose sums are rescaled to int8."""

    batch: int
    extents: Pair
    channels: int
    outputs: int
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)
    groups: int = 1

    def operands(self) -> list[Array]:
        """Return the image, the weight, the bias and the scales."""
        generator = np.random.default_rng(0)
        shapes = (self.batch, *self.extents, self.channels), (self.outputs, self.channels // self.groups, *self.kernel)
        image, weight = (generator.integers(-128, 128, shape, np.int8) for shape in shapes)
        deviation = 74 * 74 * np.sqrt(weight[0].size)
        bias = (generator.standard_normal(self.outputs) * deviation).astype(np.int32)
        scale = (generator.uniform(10, 90, self.outputs) / deviation).astype(np.float32)
        return [image, weight, bias, scale]

    def sums(self) -> Array:
        """Return the sums of products by NumPy, channels last."""
        image, weight, *_ = self.operands()
        rows, columns = self.padding
        framed = np.pad(image.astype(np.int32), ((0, 0), (rows, rows), (columns, columns), (0, 0)))
        counts = [
            (extent - (size - 1) * gap - 1) // step + 1
            for extent, size, gap, step in zip(framed.shape[1:3], self.kernel, self.dilation, self.stride, strict=True)
        ]
        groups = np.split(framed, self.groups, 3), np.split(weight.astype(np.int32), self.groups)
        sums = []
        for channels, factors in zip(*groups, strict=True):
            total = np.zeros((self.batch, *counts, len(factors)), np.int32)
            for place in itertools.product(*map(range, self.kernel)):
                met = [
                    slice(first * gap, first * gap + (count - 1) * step + 1, step)
                    for first, gap, count, step in zip(place, self.dilation, counts, self.stride, strict=True)
                ]
                total += channels[:, met[0], met[1]] @ factors[:, :, *place].T
            sums.append(total)
        return np.concatenate(sums, 3)

    def attributes(self) -> tuple[Any, ...]:
        """Return the attributes of the op, with int32 sums as its result."""
        padding = tuple((width, width) for width in self.padding)
        return self.stride, padding, self.dilation, self.groups, False, "int32"


def assert_rescaled(result: Array, case: Case) -> None:
    """Check results against float64. A product may be a unit of float32 off, which shows at ties only."""
    _, _, bias, scale = case.operands()
    numbers = np.clip((case.sums() + bias).astype(np.float64) * scale, -128, 127)
    assert np.abs(result - numbers).max() <= 0.5 + 2**-16
    assert np.count_nonzero(result != clipped(numbers)) <= 1 + result.size / 10_000


def sums_of(case: Case) -> nt.Tensor:
    """Record the int32 sums of a convolution."""
    image, weight, *_ = (nt.from_numpy(each).realize() for each in case.operands())
    return record(ops.conv_2d.op, (image.permute(0, 3, 1, 2), weight), case.attributes())


def requantized(sums: nt.Tensor, scale: Any, least: int = -128) -> nt.Tensor:
    return rescaled(sums.to(nt.float32) * scale, least)


def task_of(case: Case) -> Task:
    """Return the task of a convolution, whose image is in place."""
    *_, bias, scale = (nt.from_numpy(each).reshape(-1, 1, 1).realize() for each in case.operands())
    return conv_of(requantized(sums_of(case) + bias, scale))


CASES = {
    "3x3, several boxes and images": Case(3, (33, 21), 32, 24, (3, 3), padding=(1, 1)),
    "channels that the host pads": Case(2, (14, 15), 20, 36, (5, 5), (2, 2), (2, 2)),
    "7x7": Case(1, (30, 28), 16, 20, (7, 7), (1, 1), (3, 3)),
    "several objects": Case(1, (7, 9), 272, 130, (3, 3), (2, 2), (1, 1)),
    "1x1, skipped pixels": Case(1, (15, 18), 64, 32, (1, 1), (2, 2)),
    "smaller than a core's part": Case(2, (2, 3), 16, 5, (3, 3), padding=(1, 1)),
    "uneven": Case(1, (30, 37), 48, 12, (2, 3), (3, 2), (0, 2), (2, 3)),
    "7x7, skipped pixels that become channels": Case(2, (34, 38), 3, 20, (7, 7), (2, 2)),
    "groups": Case(1, (11, 14), 96, 64, (3, 3), padding=(1, 1), groups=2),
}

_compiled = compiled_together(
    lambda: [accepted(conv.claim(task_of(case), where)) for case in CASES.values() for where in WHOLE.values()]
)


@pytest.mark.parametrize("case", list(CASES))
@arrays
def test_sums_are_rescaled_by_one_number_per_output(case: str, where: Target) -> None:
    assert_rescaled(computed(task_of(CASES[case]), where, CASES[case].operands()), CASES[case])


@arrays
def test_images_are_read_in_place(where: Target) -> None:
    for name, in_place in (("several objects", True), ("channels that the host pads", False)):
        offer = conv.claim(task_of(CASES[name]), where)
        assert isinstance(offer, Offer)
        assert (offer.operands[0].padding is None) == in_place


@arrays
def test_large_sums_and_other_results(where: Target) -> None:
    """Sums beyond the integers that float32 has, as they are, with a bound, and rescaled by a number."""
    case = Case(1, (4, 5), 1040, 16, (2, 2))
    image, weight, *_ = case.operands()
    image, weight = image & 63 | 64, weight & 63 | 64
    sums = sum(
        image[:, row : row + 3, column : column + 4].astype(np.int32) @ weight[:, :, row, column].astype(np.int32).T
        for row in range(2)
        for column in range(2)
    )
    assert sums.min() > 1 << 24
    x, w = (nt.from_numpy(each).realize() for each in (image, weight))

    def product() -> nt.Tensor:
        return record(ops.conv_2d.op, (x.permute(0, 3, 1, 2), w), case.attributes())

    assert np.array_equal(computed(conv_of(product()), where, [image, weight]), sums)
    bounded = computed(conv_of(product().clip(0, 38_000_001)), where, [image, weight])
    assert np.array_equal(bounded, np.clip(sums, 0, 38_000_001))
    scaled = computed(conv_of(requantized(product(), 2e-6, 0)), where, [image, weight, 2e-6])
    assert np.array_equal(scaled, clipped(sums.astype(np.float32) * np.float32(2e-6), 0))
    assert 30 < scaled.min() < scaled.max() < 127


def test_results_of_the_operands_dtype_wrap() -> None:
    case = CASES["3x3, several boxes and images"]
    image, weight, *_ = (nt.from_numpy(each).realize() for each in case.operands())
    task = conv_of(nt.conv2d(image.permute(0, 3, 1, 2), weight, padding=1))
    assert np.array_equal(computed(task, WHOLE["aie2p"], case.operands()), case.sums().astype(np.int8))


RESIDUALS = {
    "several objects": Case(1, (9, 10), 272, 68, (3, 3), padding=(1, 1)),
    "a part of every box": Case(2, (17, 22), 64, 20, (3, 3), (2, 2), (0, 1)),
    "single pixels": Case(1, (15, 18), 32, 144, (1, 1), (2, 2)),
    "images of one column": Case(2, (20, 1), 16, 20, (3, 1)),
}


@pytest.mark.parametrize("case", list(RESIDUALS))
@arrays
def test_another_image_is_added(case: str, where: Target) -> None:
    """Results are rounded to int8 before the sum, and the image, that of another layer, is multiplied by a number."""
    image, weight, bias, _ = RESIDUALS[case].operands()
    sums = RESIDUALS[case].sums() + bias
    factor = np.float32(40 / sums.std())
    added = np.random.default_rng(1).integers(-128, 128, sums.shape, np.int8)
    offset = nt.from_numpy(bias.reshape(-1, 1, 1)).realize()
    other = requantized(sums_of(RESIDUALS[case]), 0.001)

    def rounded() -> nt.Tensor:  # A name would keep it: the kernel would have several results.
        return requantized(sums_of(RESIDUALS[case]) + offset, float(factor)).float()

    sum_of_both = (rounded() + other.float() * 0.3).round().clip(0, 127).to(nt.int8)
    tasks = cut(structure_of([sum_of_both._node, other._node]), SimulatedDevice.fusion).tasks
    task = next(each for each in tasks if each.kind == "conv" and len(each.inputs) == 6)
    assert task.ops.count("round") == 2
    result = computed(task, where, [image, weight, bias, float(factor), added, 0.3])
    total = clipped(sums.astype(np.float32) * factor) + added * np.float64(0.3)
    assert np.abs(result - np.clip(total, 0, 127)).max() <= 0.5 + 2**-16


@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_every_offer_builds_and_runs(data: st.DataObject) -> None:
    def pair(strategy: st.SearchStrategy[int]) -> Pair:
        return data.draw(st.tuples(strategy, strategy))

    case = Case(
        data.draw(st.integers(1, 3)),
        pair(st.integers(5, 40)),
        data.draw(st.integers(8, 70)),
        data.draw(st.integers(1, 140)),
        pair(st.sampled_from([1, 3, 5])),
        pair(st.integers(1, 2)),
        pair(st.integers(0, 2)),
    )
    assert_rescaled(computed(task_of(case), data.draw(st.sampled_from(TARGETS)), case.operands()), case)


def test_other_integers_are_refused() -> None:
    x, w = nt.zeros(1, 9, 9, 16, dtype=nt.int16).realize(), nt.zeros(16, 16, 3, 3, dtype=nt.int16).realize()
    answer = conv.claim(conv_of(nt.conv2d(x.permute(0, 3, 1, 2), w)), WHOLE["aie2"])
    assert answer == Refusal("conv_2d: int16 operands and a result of int16")


def resnet_by_pytorch(network: Int8ResNet, image: Array) -> tuple[Array, Array]:
    """Return the scores of the network and the last image, with sums in float64."""

    def convolved(layer: Any, x: Any) -> Any:
        weight, bias, scale = (torch.from_numpy(np.asarray(each, np.float64)) for each in layer[:3])
        sums = torch.nn.functional.conv2d(x, weight, bias, layer.stride, weight.shape[-1] // 2)
        return (sums * scale.reshape(-1, 1, 1)).round().clamp(layer.least, 127)

    x = torch.nn.functional.max_pool2d(convolved(network.stem, torch.from_numpy(image.astype(np.float64))), 3, 2, 1)
    for block in network.blocks:
        shortcut = convolved(block.shortcut, x) if block.shortcut else x
        x = (convolved(block.second, convolved(block.first, x)) + shortcut * SHORTCUT).round().clamp(0, 127)
    sums = np.asarray(x.mean((2, 3)).round()) @ network.last.weight.T + network.last.bias
    return np.clip(np.rint(sums * network.last.scale), -128, 127), np.asarray(x)


def test_resnet_on_a_device() -> None:
    """All but the padding of the image and the pool runs on the array; a tie may be rounded the other way."""
    image = np.random.default_rng(1).integers(-128, 128, (1, 3, 64, 64), np.int8)
    expected = resnet_by_pytorch(Int8ResNet.generated(np.asarray, 16, 20), image)
    network = Int8ResNet.generated(lambda values: nt.from_numpy(values).realize(), 16, 20)
    x = nt.from_numpy(image).realize()
    with nt.default_device("sim:npu2"):
        results = network(x)
        rows = [row for row in nt.explain(*results) if row.predicted is not None]
        assert [row.kernel for row in rows if row.device == "sim:npu2"].count("conv") == 20
        assert {row.op for row in rows if row.device == "cpu"} <= {"pad_widths", "pool_2d"}
        found = [each.numpy() for each in results[:2]]
    for result, exact in zip(found, expected, strict=True):
        assert exact.std() > 5
        assert np.abs(result - exact).max() <= 1
