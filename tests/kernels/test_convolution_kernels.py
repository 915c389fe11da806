"""Convolutions on the simulated array against PyTorch's in float64."""

from typing import Any, Final, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joint_sources import compiled_together
from kernel_tasks import TARGETS, WHOLE, accepted, arrays, computed, conv_of, nmse, target
from running import needs_compiler

import npu_tensor as nt
from npu_tensor.kernels import conv
from npu_tensor.kernels.offer import Offer, Target
from npu_tensor.planner.channels_last import FEW_CHANNELS
from npu_tensor.runtime.npu.agreement import as_read
from npu_tensor.task import Refusal, Task

torch = pytest.importorskip("torch", reason="PyTorch, the oracle of these tests, cannot be imported")

Array = np.ndarray[Any, Any]
Pair = tuple[int, int]

pytestmark = needs_compiler

CLOSE: Final = 5e-6
"""Limit of the normalized mean square error of many results that are rounded to bfloat16 once. The mean is 2.8e-6."""
ROUNDED: Final = 2**-16 * 1.01
"""The same for few results, of which each is rounded by up to half a step."""


class Case(NamedTuple):
    """A convolution of random bfloat16 numbers."""

    batch: int
    channels: int
    extents: Pair
    outputs: int
    kernel: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)
    bias: bool = False
    groups: int = 1

    def operands(self) -> list[Array]:
        """Return the image, the weight, and the bias if there is one."""
        shapes = [
            (self.batch, self.channels, *self.extents),
            (self.outputs, self.channels // self.groups, *self.kernel),
        ]
        generator = np.random.default_rng(0)
        shapes += [(self.outputs,)] * self.bias  # type: ignore[list-item]
        return [generator.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in shapes]

    def attributes(self) -> dict[str, Any]:
        """Return the arguments of `conv2d`."""
        return {"stride": self.stride, "padding": self.padding, "dilation": self.dilation, "groups": self.groups}

    def expected(self) -> Array:
        """Return PyTorch's result."""
        tensors = [torch.from_numpy(each.astype(np.float64)) for each in self.operands()]
        return np.asarray(torch.nn.functional.conv2d(*tensors, **self.attributes()))


CASES = {
    "3x3, several boxes and images": Case(3, 16, (33, 21), 24, (3, 3), padding=(1, 1)),
    "3 channels, 7x7": Case(2, 3, (27, 31), 20, (7, 7), (2, 2), (3, 3), bias=True),
    "3 channels, 7x7, skipped pixels that become channels": Case(1, 3, (28, 32), 20, (7, 7), (2, 2), (3, 3)),
    "joined pixels, whose channels become whole objects": Case(1, 132, (9, 8), 16, (3, 2), (3, 2)),
    "5x5, objects with a part of the channels": Case(1, 40, (13, 11), 70, (5, 5), padding=(2, 2), bias=True),
    "1x1, skipped pixels": Case(1, 64, (15, 18), 32, (1, 1), (2, 2)),
    "1x1 with a border": Case(2, 8, (9, 7), 16, (1, 1), padding=(1, 2)),
    "smaller than a core's part": Case(1, 8, (2, 3), 5, (3, 3), padding=(1, 1)),
    "uneven": Case(1, 20, (30, 37), 12, (2, 3), (3, 2), (0, 2), (2, 3)),
    "more than 64 pieces of channels": Case(1, 520, (5, 4), 9, (1, 3)),
    "groups": Case(2, 72, (11, 14), 48, (3, 3), padding=(1, 1), bias=True, groups=3),
    "groups of several parts": Case(1, 256, (7, 9), 256, (3, 3), (2, 2), (1, 1), groups=2),
    "many channels": Case(1, 136, (7, 7), 130, (3, 3), padding=(1, 1)),
}


def task_of(case: Case, dtype: Any = nt.bfloat16, in_place: bool = False) -> tuple[Task, list[Array]]:
    """Return the task of a convolution and the buffers of its operands. in_place: channels last in memory."""
    arrays = case.operands()
    if in_place:
        arrays[0] = np.ascontiguousarray(arrays[0].transpose(0, 2, 3, 1))
    tensors = [nt.from_numpy(each).to(dtype).realize() for each in arrays]
    image = tensors[0].permute(0, 3, 1, 2) if in_place else tensors[0]
    result = nt.conv2d(image, *tensors[1:], **case.attributes())
    stored = np.asarray(tensors[0].numpy())
    if case.channels < FEW_CHANNELS:
        stored = np.pad(stored.transpose(0, 2, 3, 1), [(0, 0), *((each, each) for each in case.padding), (0, 0)])
    return conv_of(result), [stored, np.asarray(tensors[1].numpy()), *[each.astype(np.float32) for each in arrays[2:]]]


def error(case: Case, where: Target, **options: Any) -> float:
    task, buffers = task_of(case, **options)
    result = computed(task, where, buffers)
    return nmse(result.transpose(0, 3, 1, 2), case.expected())


_compiled = compiled_together(
    lambda: [accepted(conv.claim(task_of(case)[0], where)) for case in CASES.values() for where in WHOLE.values()]
)


@pytest.mark.parametrize("case", list(CASES))
@arrays
def test_against_pytorch(case: str, where: Target) -> None:
    assert error(CASES[case], where) <= CLOSE


@pytest.mark.parametrize("where", [target("aie2", 1), target("aie2p", 3)], ids=["aie2, 1 column", "aie2p, 3 columns"])
def test_fewer_columns(where: Target) -> None:
    assert error(CASES["3x3, several boxes and images"], where) <= CLOSE


@arrays
def test_images_with_channels_last_are_read_in_place(where: Target) -> None:
    """Boxes extend beyond the last image, whose padding the core knows."""
    for case in (CASES["many channels"], CASES["1x1, skipped pixels"]):
        task, _ = task_of(case, in_place=True)
        offer = conv.claim(task, where)
        assert isinstance(offer, Offer)
        assert offer.operands[0].padding is None
        assert error(case, where, in_place=True) <= CLOSE


@arrays
def test_numbers_outside_of_the_image_are_not_read(where: Target) -> None:
    """The image is a part of a larger one, whose border is NaN."""
    case = CASES["uneven"]._replace(channels=8, padding=(3, 2))
    values, weight = case.operands()
    larger = np.full((1, 34, 45, 8), np.nan, ml_dtypes.bfloat16)
    larger[:, 2:32, 4:41] = values.transpose(0, 2, 3, 1)
    image = nt.from_numpy(larger).realize()[:, 2:32, 4:41].permute(0, 3, 1, 2)
    result = nt.conv2d(image, nt.from_numpy(weight), **case.attributes())
    task = conv_of(result)
    found = computed(task, where, [larger, weight])
    assert nmse(found.transpose(0, 3, 1, 2), case.expected()) <= CLOSE


@arrays
def test_numbers_that_are_not_finite(where: Target) -> None:
    case = Case(1, 8, (12, 9), 16, (3, 3), padding=(1, 1))
    image, weight = case.operands()
    image[0, 5, 4, 3] = np.inf
    task = conv_of(nt.conv2d(nt.from_numpy(image), nt.from_numpy(weight), padding=1))
    result = computed(task, where, [image, weight])
    finite = np.isfinite(result.astype(np.float32)).all((0, 3))
    assert not finite[3:6, 2:5].any()
    assert finite.sum() == 12 * 9 - 9


@arrays
def test_bias_scale_and_activation(where: Target) -> None:
    case = Case(2, 16, (9, 10), 36, (3, 3), padding=(1, 1), bias=True)
    image, weight, bias = case.operands()
    gain = np.linspace(0.5, 2.0, 36).astype(np.float32)
    tensors = [nt.from_numpy(each) for each in (image, weight, bias)]
    factors = nt.from_numpy(gain).reshape(36, 1, 1)
    task = conv_of((nt.conv2d(*tensors, padding=1).float() * factors * 0.25).relu())
    buffers = [image, weight, bias.astype(np.float32), gain, 0.25]
    result = computed(task, where, buffers)
    expected = np.maximum(case.expected() * gain[:, None, None] * 0.25, 0)
    assert nmse(result.transpose(0, 3, 1, 2), expected) <= CLOSE


RESIDUALS = {
    "one object": Case(2, 16, (13, 11), 24, (3, 3), padding=(1, 1), bias=True),
    "a group with several objects": Case(1, 72, (9, 10), 68, (3, 3), padding=(1, 1), bias=True),
    "objects with more channels than a group": Case(1, 128, (14, 15), 136, (3, 3), padding=(1, 1)),
    "a part of every box": Case(1, 64, (17, 22), 20, (3, 3), (2, 2), (0, 1), bias=True),
    "smaller than a core's part": Case(3, 8, (2, 3), 5, (3, 3), padding=(1, 1)),
    "groups": Case(1, 48, (9, 11), 96, (3, 3), padding=(1, 1), groups=2),
    "single pixels": Case(1, 40, (15, 18), 32, (1, 1), (2, 2)),
}


def residual_task(case: Case, is_first: bool, in_place: bool) -> tuple[Task, list[Array], Array]:
    """Return the task of relu(convolution + image), its buffers, and PyTorch's result.

    is_first: True if the image is the first operand of the sum. in_place: channels last in memory.
    """
    _, buffers = task_of(case)
    tensors = [nt.from_numpy(each).realize() for each in case.operands()]
    expected = case.expected()
    image = np.random.default_rng(1).standard_normal(expected.transpose(0, 2, 3, 1).shape).astype(ml_dtypes.bfloat16)
    added = image.transpose(0, 3, 1, 2)
    stored = image if in_place else np.ascontiguousarray(added)
    other = nt.from_numpy(stored).realize().permute(0, 3, 1, 2) if in_place else nt.from_numpy(stored).realize()

    def product() -> nt.Tensor:  # A name would keep it: the kernel would have several results.
        return nt.conv2d(*tensors, **case.attributes())

    task = conv_of((other + product() if is_first else product() + other).relu())
    return task, [*buffers, stored], np.maximum(expected + added.astype(np.float64), 0)


@pytest.mark.parametrize("number", range(len(RESIDUALS)), ids=list(RESIDUALS))
@arrays
def test_another_image_is_added(number: int, where: Target) -> None:
    """The sum is rounded to bfloat16 twice, as the graph says."""
    case = list(RESIDUALS.values())[number]
    task, buffers, expected = residual_task(case, number % 2 == 0, number % 3 == 0)
    assert "relu" in task.ops
    result = computed(task, where, buffers)
    assert nmse(result.transpose(0, 3, 1, 2), expected) <= 2 * ROUNDED


def test_another_image_with_block_floats() -> None:
    where = WHOLE["aie2p"]._replace(bfloat16="bfp16")
    task, buffers, expected = residual_task(RESIDUALS["one object"], False, False)
    result = computed(task, where, buffers)
    assert nmse(result.transpose(0, 3, 1, 2), expected) <= 5e-4


def test_another_image_of_float32() -> None:
    """The image has the dtype of the operands on the array; rounding it to bfloat16 would lose digits."""
    case = RESIDUALS["smaller than a core's part"]
    x, weight = (nt.from_numpy(each).float().realize() for each in case.operands())
    generator = np.random.default_rng(1)
    values = generator.standard_normal(case.expected().shape, np.float32)
    task = conv_of(nt.conv2d(x, weight, padding=1) * 2 + nt.from_numpy(values))
    where = WHOLE["aie2p"]._replace(float32="emulate")
    buffers = [np.asarray(x.numpy()), np.asarray(weight.numpy()), 2.0, values]
    result = computed(task, where, buffers)
    assert nmse(result.transpose(0, 3, 1, 2), case.expected() * 2 + values) <= 1e-12
    refusal = conv.claim(task, where._replace(float32="bfloat16"))
    assert refusal == Refusal("conv_2d: bfloat16 operands and another image of float32")


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (lambda y, z, b: y.float() * 3 + z, None),
        (lambda y, z, b: (y + z) * b, "conv_2d: an epilogue that reads more after another image"),
        (lambda y, z, b: y + z + z.square(), None),
        (lambda y, z, b: (y.float() * 3 + z).to(nt.bfloat16), "conv_2d: another image is added to more digits"),
    ],
)
def test_what_is_read_with_another_image(end: Any, reason: str | None) -> None:
    x, weight = nt.zeros(1, 16, 6, 6, dtype=nt.bfloat16).realize(), nt.zeros(16, 16, 3, 3, dtype=nt.bfloat16).realize()
    bias = nt.zeros(16, 1, 1, dtype=nt.bfloat16).realize()
    task = conv_of(end(nt.conv2d(x, weight, padding=1), x, bias))
    answer = conv.claim(task, WHOLE["aie2"])
    assert isinstance(answer, Offer) if reason is None else answer.reason.startswith(reason), (answer, task.program)


def test_float32_needs_a_policy() -> None:
    case = Case(1, 8, (9, 10), 16, (3, 3), padding=(1, 1))
    for exact in WHOLE.values():
        task, _ = task_of(case, nt.float32)
        assert isinstance(conv.claim(task, exact), Refusal)
        rounded = exact._replace(float32="bfloat16")
        offer = conv.claim(task, rounded)
        assert isinstance(offer, Offer)
        assert as_read(offer.operands[1], np.array([1 + 2**-9], np.float32)) == 1.0
        assert error(case, rounded, dtype=nt.float32) <= 1e-12
        assert error(case, exact._replace(float32="emulate"), dtype=nt.float32) <= 1e-12


def test_block_floats() -> None:
    where = WHOLE["aie2p"]._replace(bfloat16="bfp16")
    case = CASES["3x3, several boxes and images"]
    assert CLOSE < error(case, where) <= 5e-4
    assert CLOSE < error(CASES["3 channels, 7x7"], where) <= 5e-4


@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_every_offer_builds_and_runs(data: st.DataObject) -> None:
    def pair(strategy: st.SearchStrategy[int]) -> Pair:
        return data.draw(st.tuples(strategy, strategy))

    kernel = pair(st.sampled_from([1, 3, 5]))
    case = Case(
        data.draw(st.integers(1, 3)),
        data.draw(st.integers(8, 70)),
        pair(st.integers(5, 40)),
        data.draw(st.integers(1, 140)),
        kernel,
        pair(st.integers(1, 2)),
        pair(st.integers(0, 2)),
        bias=data.draw(st.booleans()),
    )
    assert error(case, data.draw(st.sampled_from(TARGETS)), in_place=data.draw(st.booleans())) <= ROUNDED


@arrays
def test_shapes_share_configurations(where: Target) -> None:
    """Extents, channels and padding are not part of the binary: 5 tiles, on 1, 2, 4 or 8 columns."""
    generator = np.random.default_rng(0)
    designs = []
    for _ in range(40):
        batch, channels, height, width, outputs, padding = generator.integers(
            [1, 1, 4, 4, 16, 0], [4, 4, 80, 80, 200, 2]
        )
        image = nt.zeros(batch, channels * 64, height, width, dtype=nt.bfloat16)
        weight = nt.zeros(outputs, channels * 64, 3, 3, dtype=nt.bfloat16)
        task = conv_of(nt.conv2d(image, weight, padding=int(padding)))
        designs.append(accepted(conv.claim(task, where)))
    assert len({id(design.configuration) for design in designs}) <= 5 * where.columns.bit_length()


@pytest.mark.parametrize(
    ("channels", "kernel", "groups", "reason"),
    [
        (16, (3, 3), 2, "conv_2d: 2 groups of 8 channels and 8 outputs"),
        (16, (13, 13), 1, "conv_2d: a kernel of 13 x 13 does not fit a core"),
        (4104, (1, 3), 1, "conv_2d: 4160 channels; 4096 are the most"),
    ],
)
def test_refusals(channels: int, kernel: Pair, groups: int, reason: str) -> None:
    image = nt.zeros(1, channels, 20, 20, dtype=nt.bfloat16).realize()
    weight = nt.zeros(16, channels // groups, *kernel, dtype=nt.bfloat16).realize()
    task = conv_of(nt.conv2d(image, weight, groups=groups))
    assert conv.claim(task, WHOLE["aie2"]) == Refusal(reason)


@pytest.mark.parametrize("device", ["sim:npu1", "sim:npu2"])
def test_a_residual_block_on_a_device(device: str) -> None:
    case = Case(1, 16, (14, 11), 16, (3, 3), padding=(1, 1))
    image, weight = case.operands()
    x, w = (nt.from_numpy(each).realize() for each in (image, weight))
    with nt.default_device(device):
        pending = (nt.conv2d(nt.conv2d(x, w, padding=1).relu(), w, padding=1) + x).relu()
        kernels = [row.kernel for row in nt.explain(pending) if row.predicted is not None and row.device == device]
        assert kernels.count("conv") == 2
        result = pending.numpy()
    first, factors = torch.from_numpy(image.astype(np.float64)), torch.from_numpy(weight.astype(np.float64))
    hidden = torch.relu(torch.nn.functional.conv2d(first, factors, padding=1))
    expected = torch.relu(torch.nn.functional.conv2d(hidden, factors, padding=1) + first)
    assert nmse(result, np.asarray(expected)) <= 3 * CLOSE


@pytest.mark.parametrize("device", ["sim:npu1", "sim:npu2"])
def test_two_layers_on_a_device(device: str) -> None:
    """The second layer reads the result of the first one in place."""
    first, second = Case(2, 3, (24, 25), 16, (3, 3), padding=(1, 1), bias=True), Case(2, 16, (24, 25), 32, (3, 3))
    image, weight, bias = (nt.from_numpy(each) for each in first.operands())
    further = second.operands()[1]
    with nt.default_device(device):
        pending = nt.conv2d(nt.conv2d(image, weight, bias, padding=1).relu(), nt.from_numpy(further), stride=2)
        assert [row.device for row in nt.explain(pending) if row.kernel == "conv"] == [device, device]
        result = pending.numpy()
    hidden = torch.relu(torch.from_numpy(first.expected()))
    expected = torch.nn.functional.conv2d(hidden, torch.from_numpy(further.astype(np.float64)), stride=2)
    assert nmse(result, np.asarray(expected)) <= 2 * CLOSE
