"""Kernels that follow each other and run as one call: the same results as one by one, beside NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor import ops
from npu_tensor.runtime.cpu.cpu_device import KERNELS
from npu_tensor.runtime.cpu.data_ops import COMPILED
from npu_tensor.runtime.devices.host import host_devices

torch = pytest.importorskip("torch")

Array = np.ndarray[Any, Any]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Numbers of loops that each call has run."""
    pool, seen = host_devices()[0].pool, []  # type: ignore[attr-defined]
    run_loops = pool.run_loops

    def counted(*arguments: Any) -> int:
        seen.append(run_loops(*arguments))
        return seen[-1]

    monkeypatch.setattr(pool, "run_loops", counted)
    with nt.default_device("cpu"):
        yield seen


def softmax(x: Array) -> Array:
    shifted = np.exp(x - x.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def runs(f: Callable[..., Any], expected: Callable[..., Any], *shapes: tuple[int, ...]) -> None:
    """Compare the results of several runs on different values."""
    random = np.random.default_rng(0)
    for _ in range(3):
        arrays = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
        results, others = f(*map(nt.from_numpy, arrays)), expected(*arrays)
        for result, other in zip(results, others, strict=True):
            np.testing.assert_allclose(result.numpy(), other, rtol=1e-5, atol=1e-5)


def test_intermediate_results_and_several_results(calls: list[int]) -> None:
    @nt.jit
    def f(x: nt.Tensor, w: nt.Tensor) -> tuple[nt.Tensor, ...]:
        a = (x @ w).softmax(-1)
        b = (a @ w).softmax(-1)
        return a, (a + b).sum(0), b.t().contiguous()

    def expected(x: Array, w: Array) -> tuple[Array, ...]:
        a = softmax(x @ w)
        b = softmax(a @ w)
        return a, (a + b).sum(0), b.T

    runs(f, expected, (5, 16), (16, 16))
    assert max(calls) >= 4


def test_results_that_are_views_or_operands(calls: list[int]) -> None:
    @nt.jit
    def f(x: nt.Tensor) -> tuple[nt.Tensor, ...]:
        a = x.softmax(-1)
        return a[1:], x, (a * 2).softmax(0), a.reshape(-1)

    def expected(x: Array) -> tuple[Array, ...]:
        a = softmax(x)
        return a[1:], x, softmax(2 * a.T).T, a.reshape(-1)

    runs(f, expected, (4, 6))
    assert calls


def test_numbers_may_change_from_run_to_run(calls: list[int]) -> None:
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
    for number in range(3):
        scale = 0.5 + number
        result = ((nt.from_numpy(x) * scale).softmax(-1) * scale).softmax(0)
        expected = softmax((softmax(x * np.float32(scale)) * np.float32(scale)).T).T
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5)
    assert calls


class Table(nt.nn.Module):
    """A buffer that a captured function changes in place."""

    def __init__(self) -> None:
        self.register_buffer("rows", nt.zeros(6, 4))

    @nt.jit
    def put(self, row: nt.Tensor, value: nt.Tensor) -> nt.Tensor:
        self.rows[row] = value.softmax(-1)
        return self.rows.softmax(-1).softmax(0)


def test_memory_that_is_overwritten(calls: list[int]) -> None:
    table, random, state = np.zeros((6, 4), np.float32), np.random.default_rng(0), Table()
    for number in range(8):
        value = random.standard_normal((2, 4)).astype(np.float32)
        rows = np.array([number % 6, -1 - number % 3])
        table[rows] = softmax(value)
        result = state.put(nt.from_numpy(rows), nt.from_numpy(value))
        np.testing.assert_allclose(result.numpy(), softmax(softmax(table).T).T, rtol=1e-5)
        np.testing.assert_allclose(state.rows.numpy(), table, rtol=1e-5)
    assert calls


@pytest.mark.parametrize("computed", [False, True])
def test_a_wrong_index_raises_the_error_of_its_op(calls: list[int], computed: bool) -> None:
    """If `computed`, rows and values are in memory that only the call can access."""

    @nt.jit
    def f(state: nt.Tensor, row: nt.Tensor, value: nt.Tensor) -> nt.Tensor:
        new = state.softmax(-1)
        new[row + row - 1 if computed else row] = value.softmax(-1) if computed else value
        return new.softmax(0).softmax(-1)

    state, value = nt.zeros(6, 4).realize(), nt.ones(1, 4).realize()
    for row in [3] * 2:
        f(state, nt.tensor([row]), value).realize()
    assert calls
    for row in (6, -7):
        with pytest.raises(IndexError, match=r"out of range .*test_loop_table"):
            f(state, nt.tensor([row]), value).realize()
    np.testing.assert_allclose(f(state, nt.tensor([3]), value).sum(-1).numpy(), np.ones(6), rtol=1e-6)


def test_memory_from_outside_that_is_overwritten_again(calls: list[int]) -> None:
    """The gradients of a recurrence that is recorded step by step do this: NumPy and loops alternate."""
    layer, other = nt.nn.LSTM(5, 7), torch.nn.LSTM(5, 7)
    other.load_state_dict({name: torch.from_numpy(value.numpy().copy()) for name, value in layer.state_dict().items()})
    x = np.random.default_rng(0).standard_normal((4, 3, 5)).astype(np.float32)
    products = nt.nn.functional.linear(nt.from_numpy(x), layer.weight_ih_l0, layer.bias_ih_l0)
    zero = nt.zeros(3, 7)
    ops.lstm.op.body(products, layer.weight_hh_l0, layer.bias_hh_l0, zero, zero)[0].square().sum().backward()
    other(torch.from_numpy(x))[0].square().sum().backward()
    gradients = dict(other.named_parameters())
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None
        expected = gradients[name].grad
        assert expected is not None
        np.testing.assert_allclose(parameter.grad.numpy(), expected.numpy(), rtol=1e-4, atol=1e-6)
    assert calls


def test_threads_run_one_plan(calls: list[int]) -> None:
    @nt.jit
    def f(x: nt.Tensor) -> nt.Tensor:
        return (x.softmax(-1) * 2).softmax(0)

    def run(seed: int) -> bool:
        x = np.random.default_rng(seed).standard_normal((8, 16)).astype(np.float32)
        expected = softmax(2 * softmax(x).T).T
        return all(np.allclose(f(nt.from_numpy(x)).numpy(), expected, atol=1e-6) for _ in range(50))

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(run, range(4)))
    assert calls


def test_the_names_of_compiled_ops_are_those_of_the_kernels() -> None:
    assert set(KERNELS) == COMPILED
