"""Predicted times of CPU kernels, against numbers computed by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cost_tasks import cost, opened, tensor

import npu_tensor as nt
from npu_tensor.runtime.rates import Level, ProcessorRates

pytestmark = pytest.mark.usefixtures("own_rates")

RATES = ProcessorRates(
    lanes=16,
    launch_seconds=1e-6,
    fork_seconds=2e-6,
    levels=(Level(1e5, 100e9, 150e9, 1e-9), Level(1e18, 10e9, 15e9, 20e-9)),
    flops=1e9,
    row_seconds=1e-8,
    macs={"float32": 1e9, "bfloat16_pair": 2e9, "int8_quad": 4e9, "int16_pair": 2e9, "int32": 1e9, "float64": 5e8}
    | {"int64": 1e8},
    tiles={},
    tile_seconds=1e-7,
    packed_bytes=1e9,
    scattered_elements=1e8,
    reference_seconds=1e-5,
    reference_elements=1e9,
    reference_macs={"float": 1e9, "integer": 1e8},
    thread_watts=2.0,
)
"""Round numbers, so that results can be worked out by hand."""


@pytest.fixture
def device() -> object:
    """The CPU device with two threads and those rates."""
    result = opened("cpu")
    result.__dict__["rates"] = RATES
    before = result.threads
    result.set_threads(2)
    yield result
    result.set_threads(before)


def test_little_work_takes_a_launch(device: object) -> None:
    result = cost(device, tensor("float32", 16) + tensor("float32", 16))
    assert result.expense.seconds == pytest.approx(1e-6 + 16 / 1e9)  # one operation per element
    assert result.nbytes == 3 * 4 * 16
    assert (result.context, result.reads, result.writes) == (None, (), ())


def test_arithmetic_is_shared_by_the_threads(device: object) -> None:
    n = 1 << 20
    result = cost(device, tensor("float32", n).exp())  # 16 operations
    assert result.expense.seconds == pytest.approx(1e-6 + 2e-6 + 16 * n / 1e9 / 2)
    assert result.expense.processor_seconds == pytest.approx(1e-6 + 2e-6 + 16 * n / 1e9)
    assert result.expense.joules == pytest.approx(2 * result.expense.processor_seconds)


def test_memory_has_the_rate_of_the_level_that_holds_what_is_moved(device: object) -> None:
    device.__dict__["rates"] = replace(RATES, flops=1e15)
    inside, beyond = 8192, 1 << 20
    result = cost(device, tensor("float32", inside) + tensor("float32", inside))
    assert result.expense.seconds == pytest.approx(1e-6 + 12 * inside / 100e9)  # one thread
    result = cost(device, tensor("float32", beyond) + tensor("float32", beyond))
    assert result.expense.seconds == pytest.approx(3e-6 + 12 * beyond / 15e9)  # all that two threads get


def test_products_that_share_an_operand_are_one(device: object) -> None:
    weights = tensor("float32", 32, 64)
    stack = cost(device, tensor("float32", 8, 4, 32) @ weights)
    whole = cost(device, tensor("float32", 32, 32) @ weights)
    assert stack.expense == whole.expense


@pytest.mark.parametrize("family", ["add", "exp", "softmax", "product", "turned", "table"])
def test_more_never_takes_less(device: object, family: str) -> None:
    before = 0.0
    for n in (8, 16, 32, 64, 128, 256, 512):
        x = tensor("float32", n, n)
        result = {
            "add": lambda x: x + 1,
            "exp": lambda x: x.exp(),
            "softmax": lambda x: nt.softmax(x, -1),
            "product": lambda x: x @ x,
            "turned": lambda x: x.T.contiguous(),
            "table": lambda x: x.sum(0),
        }[family](x)
        processor = cost(device, result).expense.processor_seconds
        assert processor > before
        before = processor
