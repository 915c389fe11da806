"""Running plans: results, kept values, errors and events, for structures that come once and again."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor import events
from npu_tensor.config import config
from npu_tensor.errors import CaptureError, DeviceError
from npu_tensor.runtime.sim import host_compiler

X, Y, Z = (np.random.default_rng(seed).standard_normal((3, 5)).astype(np.float32) for seed in range(3))


def tensors() -> list[nt.Tensor]:
    return [nt.from_numpy(array) for array in (X, Y, Z)]


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "one op": (lambda x, y, z: x + y, lambda x, y, z: x + y),
    "the same operand twice": (lambda x, y, z: x * x, lambda x, y, z: x * x),
    "a chain": (lambda x, y, z: ((x * y + z) * y + x).relu(), lambda x, y, z: np.maximum((x * y + z) * y + x, 0)),
    "a result that is read twice": (
        lambda x, y, z: (lambda s: s * s + s)((x + y).sum(axis=1)),
        lambda x, y, z: (lambda s: s * s + s)((x + y).sum(axis=1)),
    ),
    "numbers": (lambda x, y, z: (x * 2 + 0.5) * 2, lambda x, y, z: (x * 2 + 0.5) * 2),
    "views": (lambda x, y, z: (x.T @ y)[1:].T, lambda x, y, z: (x.T @ y)[1:].T),
    "a view of data": (lambda x, y, z: x[1:] + y[1:], lambda x, y, z: x[1:] + y[1:]),
    "no operand": (lambda x, y, z: nt.arange(3) * 2, lambda x, y, z: np.arange(3) * 2),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_structure_that_comes_again(name: str) -> None:
    program, expected = PROGRAMS[name]
    x, y, z = tensors()
    program(y, z, x).realize()
    np.testing.assert_allclose(program(x, y, z).numpy(), expected(X, Y, Z), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(program(x, x, x).numpy(), expected(X, X, X), rtol=1e-5, atol=1e-6)


def test_named_results_are_kept() -> None:
    x, y, z = tensors()
    (x * y + z).realize()
    product = x * y
    (product + z).realize()
    assert product._node.value is not None
    np.testing.assert_array_equal(product.numpy(), X * Y)


def test_a_result_that_was_not_kept_is_computed_again_and_kept() -> None:
    x, y, z = tensors()
    for _ in range(2):
        product = x * y
        first, second = product + z, product - z
        node = product._node
        del product
        first.realize()
        assert node.value is None
        np.testing.assert_array_equal(second.numpy(), X * Y - Z)
        assert node.value is not None


def test_in_place_ops() -> None:
    x, y, z = tensors()

    def step() -> nt.Tensor:
        total = x * y
        total += z
        total *= y
        return total

    step().realize()
    np.testing.assert_allclose(step().numpy(), (X * Y + Z) * Y, rtol=1e-6)


def test_sharing_is_part_of_a_structure() -> None:
    x, y, z = tensors()
    for program, expected in (
        (lambda: (x + y) * (x + y), (X + Y) ** 2),
        (lambda: (lambda s: s * s)(x + y), (X + Y) ** 2),
        (lambda: (x + y) * (x + z), (X + Y) * (X + Z)),
        (lambda: x * y + x, X * Y + X),
        (lambda: x * y + z, X * Y + Z),
    ) * 2:
        np.testing.assert_allclose(program().numpy(), expected, rtol=1e-6)


def test_types_of_numbers_are_part_of_a_structure() -> None:
    x = nt.from_numpy(np.arange(4))
    for _ in range(2):
        assert (x * 2).tolist() == [0, 2, 4, 6]
        assert (x * 0.5).tolist() == [0, 0.5, 1, 1.5]


@pytest.mark.parametrize("seed", range(20))
def test_random_programs(seed: int) -> None:
    """Programs of a few forms share cached plans, with different results kept."""
    choose = random.Random(seed)
    for _ in range(30):
        values = [*zip(tensors(), (X, Y, Z), strict=True)]
        for _ in range(choose.randint(1, 4)):
            (a, left), (b, right) = choose.choice(values), choose.choice(values[-2:])
            values.append((a + b, left + right) if choose.random() < 0.7 else (a * b, left * right))
        values = [*values[3:-1:2], values[-1]] if choose.random() < 0.5 else values[-1:]
        values[-1][0].realize()
        for tensor, expected in values:
            np.testing.assert_allclose(tensor.numpy(), expected, rtol=1e-4, atol=1e-5)


def test_an_operand_without_a_value() -> None:
    x, y, _ = tensors()
    (x + y).realize()
    with pytest.raises(CaptureError, match="there are no values yet"):
        nt.jit(lambda a: (a + y).numpy())(x)


def test_events_name_the_lines() -> None:
    x, y, z = tensors()
    heard: list[events.Event] = []
    for _ in range(2):
        result = x * y + z
        with events.listen(heard.append):
            result.realize()
    first, second = (event for event in heard if isinstance(event, events.KernelRan))
    assert first.lines == second.lines
    assert len(second.lines) == 1


def test_errors_name_the_line() -> None:
    x = nt.from_numpy(np.arange(4.0))
    texts = []
    for last in (3, 3, 9, 9):
        index = nt.from_numpy(np.array([0, last]))
        for _ in range(5):  # else its values are known when the op is recorded
            index = index + 0
        picked = nt.index_select(x, 0, index)
        try:
            picked.realize()
        except Exception as error:
            texts.append(str(error))
    assert len(texts) == 2
    assert texts[0] == texts[1]
    assert "recorded at test_run.py:" in texts[0]


@pytest.mark.skipif(host_compiler.reason() is not None, reason=str(host_compiler.reason()))
def test_what_an_npu_may_refuse_asks_the_setting_each_time() -> None:
    with nt.default_device("sim:npu2", policy="always"):
        x = nt.from_numpy(np.arange(4.0))  # float64 is for the processor only
        for _ in range(2):
            assert (x + 1).tolist() == [1, 2, 3, 4]
        with config.scope(fallback="error"), pytest.raises(DeviceError):
            (x + 1).realize()
