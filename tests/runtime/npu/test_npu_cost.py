"""Predicted costs of NPU kernels against numbers computed by hand."""

import math

import pytest
from cost_tasks import cost, kernels, opened, tensor

from npu_tensor.errors import BuildError
from npu_tensor.ggml_hsa import representative
from npu_tensor.runtime import rates
from npu_tensor.runtime.rates import MAX_LAUNCH_SECONDS, too_long
from npu_tensor.task import Cost, Expense, Refusal

pytestmark = pytest.mark.usefixtures("own_rates")


def test_what_memory_limits_takes_its_bytes() -> None:
    n = 1 << 24
    result = cost(opened("sim:npu2"), tensor("bfloat16", n) + tensor("bfloat16", n))
    assert result.nbytes == pytest.approx(3 * 2 * n, rel=1e-3)  # and the padding of the last object
    assert result.expense.seconds == pytest.approx(3 * 2 * n / 55e9, rel=1e-2)  # 14 us for parameters and waits


def test_the_tensors_own_bytes_have_no_form() -> None:
    result = cost(opened("sim:npu2"), tensor("bfloat16", 1 << 16) + tensor("bfloat16", 1 << 16))
    assert [move.form for move in (*result.reads, *result.writes)] == [None, None, None]
    into, _ = result.reads
    (back,) = result.writes
    nbytes = 2 << 16
    assert into.expense.seconds == pytest.approx(nbytes / 20e9 + nbytes * 13.5e-12)  # copied and synced
    assert back.expense.seconds == pytest.approx(nbytes * 13.5e-12)  # read where it is
    assert into.expense.processor_seconds == into.expense.seconds


def test_what_is_converted_has_a_form_that_equal_readers_share() -> None:
    device = opened("sim:npu2?float32=bfloat16")
    x, y = tensor("float32", 256, 256), tensor("float32", 256, 256)
    product, other, turned = (cost(device, result) for result in (x @ y, y @ x, x.T @ y))
    form = product.reads[0].form
    assert form is not None
    hash(form)
    assert product.reads[0].expense.seconds >= 256 * 256 / 1e9  # one element a nanosecond, padding too
    assert other.reads[0].form == form
    assert turned.reads[1].form == product.reads[1].form
    assert turned.reads[0].form not in (None, form)  # in another order


def test_a_launch_near_the_watchdog_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    (kernel,) = kernels(opened("sim:npu2"), tensor("bfloat16", 1 << 16).relu())
    assert not kernel.is_too_long
    assert too_long(Cost(Expense(MAX_LAUNCH_SECONDS, 0, 0), 0)) is None
    long = Cost(Expense(0.73, 0, 0), 0)
    assert "predicted to take 0.73 s" in (too_long(long) or "")
    monkeypatch.setattr(rates, "MAX_LAUNCH_SECONDS", 1e-6)
    assert kernel.is_too_long
    with pytest.raises(BuildError, match=r"relu-.*predicted to take 0.00 s"):
        kernel.bind()
    kernel.owner.prepare([kernel])  # Nothing is built that must not be launched.
    assert kernel.origin == "none"


@pytest.mark.parametrize("uri", ["sim:npu1?float32=bfloat16", "sim:npu2?cols=2", "cpu"])
def test_every_kind_of_kernel_has_a_cost(uri: str) -> None:
    device = opened(uri)
    counted = 0
    for entry in representative.entries("aie2p")[::7]:
        task = entry.planned.task
        answer = device.claim(task)
        if isinstance(answer, Refusal):
            continue
        counted += 1
        result = answer.cost
        moves = (*result.reads, *result.writes)
        for expense in (result.expense, *(move.expense for move in moves)):
            assert all(0 <= value < math.inf for value in expense), task.name
        assert result.expense.seconds > 0
        assert len(moves) == (0 if uri == "cpu" else len(task.inputs) + len(task.outputs))
        hash((result.context, *(move.form for move in moves)))
    assert counted > 30
