"""What an accelerator refuses as a whole is cut into what it has kernels for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor.fuse import Cutter
from npu_tensor.graph import capture
from npu_tensor.task import Fusion, Task
from npu_tensor.tensor import Tensor
from tests.core.test_fusion import RandomProgram

NPU = "sim:npu2"


def bf16(*shape: int, seed: int = 0) -> tuple[Tensor, np.ndarray]:
    values = np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)
    tensor = nt.from_numpy(values).to(nt.bfloat16).realize()
    return tensor, tensor.to(nt.float64).numpy()


def placed(y: Tensor) -> list[tuple[str, str]]:
    """Device and ops of every kernel, in order."""
    with nt.default_device(NPU, policy="always"):
        rows = nt.explain(y)
    kernels: dict[int, list[int]] = {}
    for number, row in enumerate(rows):
        last = int(row.kernel.rpartition("#")[2]) if row.kernel.startswith("fused into") else number
        kernels.setdefault(last, []).append(number)
    return [(rows[last].device, "+".join(rows[n].op for n in kernels[last])) for last in sorted(kernels)]


def softmax(a: np.ndarray) -> np.ndarray:
    e = np.exp(a - a.max(-1, keepdims=True))
    result: np.ndarray = e / e.sum(-1, keepdims=True)
    return result


SOFTMAX = [
    (lambda t: t.tanh(), np.tanh, ["tanh", "softmax"]),
    (lambda t: t.silu(), lambda a: a / (1 + np.exp(-a)), ["silu", "softmax"]),
    (lambda t: t.tanh() * 0.5 + 1, lambda a: np.tanh(a) * 0.5 + 1, ["tanh", "mul+add+softmax"]),
]


@pytest.mark.parametrize(("compute", "expected", "kernels"), SOFTMAX)
def test_softmax_and_what_comes_before_it(
    compute: Callable[[Tensor], Tensor], expected: Callable[[np.ndarray], np.ndarray], kernels: list[str]
) -> None:
    t, a = bf16(32, 128)
    assert placed(compute(t).softmax(-1)) == [(NPU, ops) for ops in kernels]
    y = compute(t).softmax(-1).realize(device=NPU)
    np.testing.assert_allclose(y.to(nt.float64).numpy(), softmax(expected(a)), rtol=0.03)


def test_a_product_takes_what_was_cut_off_behind_it() -> None:
    """With softmax, the bias and the activation were no epilogue."""
    (x, a), (w, c), (b, d) = bf16(32, 64), bf16(64, 128, seed=1), bf16(128, seed=2)
    y = (x @ w + b).tanh().softmax(-1)
    assert placed(y) == [(NPU, "contract+add+tanh"), (NPU, "softmax")]
    y.realize(device=NPU)
    np.testing.assert_allclose(y.to(nt.float64).numpy(), softmax(np.tanh(a @ c + d)), rtol=0.04)


def test_an_epilogue_that_is_too_large_is_continued_elsewhere() -> None:
    (x, a), (w, c) = bf16(32, 64), bf16(64, 64, seed=1)
    y, expected = x @ w, a @ c
    for _ in range(8):
        y, expected = y.tanh() * 2, np.tanh(expected) * 2
    kernels = placed(y)
    assert {device for device, _ in kernels} == {NPU}
    assert 1 < len(kernels) < 5
    y.realize(device=NPU)
    np.testing.assert_allclose(y.to(nt.float64).numpy(), expected, atol=0.05)


def test_a_long_chain_is_cut_into_few_kernels() -> None:
    t, a = bf16(32, 64)
    y, expected = t, a
    for _ in range(10):
        y, expected = (y.tanh() + 1) * 0.7, (np.tanh(expected) + 1) * 0.7
    kernels = placed(y)
    assert {device for device, _ in kernels} == {NPU}
    sizes = [len(ops.split("+")) for _, ops in kernels]
    assert sum(sizes) == 30
    assert len(sizes) < 6
    assert min(sizes[1:]) > 5  # Only the first one is what remains.
    y.realize(device=NPU)
    np.testing.assert_allclose(y.to(nt.float64).numpy(), expected, rtol=0.03)


def test_what_has_no_kernel_stays_in_one_piece_on_the_processor() -> None:
    t, a = bf16(32, 64)
    y = (t.tanh().to(nt.float64).exp() + 1).sqrt().to(nt.bfloat16).relu() * 2
    assert placed(y) == [(NPU, "tanh"), ("cpu", "convert+exp+add+sqrt+convert"), (NPU, "relu+mul")]
    with nt.default_device(NPU, policy="always"):
        assert "not on sim:npu2: float64" in nt.explain(y)[5].why
        y.realize()
    np.testing.assert_allclose(y.to(nt.float64).numpy(), np.sqrt(np.exp(np.tanh(a)) + 1) * 2, rtol=0.02)


def test_a_conversion_alone_is_not_worth_a_kernel() -> None:
    t, _ = bf16(32, 64)
    y = t.to(nt.float32).exp().softmax(-1)
    assert placed(y) == [("cpu", "convert+exp+softmax")]
    with nt.default_device(NPU, policy="always"):
        assert "float32 is exact on the CPU" in nt.explain(y)[-1].why


def test_what_is_made_of_numbers_is_filled_by_the_processor() -> None:
    assert placed(nt.ones(32, 64, dtype=nt.bfloat16).exp()) == [("cpu", "fill"), (NPU, "exp")]


@pytest.mark.parametrize("seed", range(12))
def test_every_task_is_taken_that_can_be(seed: int) -> None:
    """A device that takes three ops at most, and no sum of rows: what it refuses is one op of these or has one."""
    program = RandomProgram(seed)
    for _ in range(25):
        program.step()
    cutter = Cutter(capture([t._node for t, _ in program.pool]))

    def takes(task: Task) -> bool:
        return len(task.ops) <= 3 and "sum" not in task.ops

    tasks = list(cutter.cuts(Fusion(), takes))[-1].tasks
    whole = cutter.cut(Fusion()).tasks
    assert sorted(item for task in tasks for item in task.items) == sorted(
        item for task in whole for item in task.items
    )
    made: set[int] = set()
    for task in tasks:
        read = {operand.item for operand in task.inputs}
        assert all("call" not in cutter.graph.nodes[item] or item in made for item in read)
        made |= {output.item for output in task.outputs}
        if not takes(task) and "sum" not in task.ops:
            # Conversions and copies alone are left with what they serve.
            assert not any(step.primitive != "load" for step in task.program.instructions if task.program)


@pytest.mark.parametrize("seed", range(12))
def test_what_takes_nothing_changes_nothing(seed: int) -> None:
    program = RandomProgram(seed)
    for _ in range(25):
        program.step()
    cutter = Cutter(capture([t._node for t, _ in program.pool]))
    assert len([*cutter.cuts(Fusion(), lambda task: False)]) == 1
    assert len([*cutter.cuts(Fusion(), lambda task: True)]) == 1
