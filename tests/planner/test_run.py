"""Running plans: results, kept values, errors and events, for structures that come once and again."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import npu_tensor as nt

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


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(5, 20))])
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
