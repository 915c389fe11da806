"""Gradients of every function made of ops, with the arguments of its cases, against torch.autograd."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from comparison import TORCH_DTYPES, from_torch
from op_examples import Case
from test_functional import CASES, identifier, mapped, resolve

import npu_tensor as nt
from npu_tensor.config import config
from npu_tensor.planner import selection

torch = pytest.importorskip("torch", reason="PyTorch, the oracle of these tests, cannot be imported")


def floats_in(value: Any) -> Iterator[Any]:
    """The float tensors, of either library, inside of arguments or results."""
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from floats_in(item)
    elif isinstance(value, dict):
        yield from floats_in(list(value.values()))
    elif isinstance(value, (torch.Tensor, nt.Tensor)) and value.dtype.is_floating_point:
        yield value


def filled(value: Any, floats: Iterator[Any], convert: Callable[[Any], Any]) -> Any:
    """The value with other float tensors in the places of those in it, and its other tensors converted."""
    if isinstance(value, dict):
        return {key: filled(each, floats, convert) for key, each in value.items()}

    def replaced(each: Any) -> Any:
        if not isinstance(each, torch.Tensor):
            return each
        return next(floats) if each.dtype.is_floating_point else convert(each)

    return mapped(replaced, value)


SCALED = "PyTorch does not use this scale_factor backward as it does forward"
TIES = "PyTorch gives all to one of equal elements or NaNs; here they share"
PYTORCH_DIFFERS = {
    "quantile([3,3] 0.5 1)": "PyTorch gives something to a number in a row with NaN, whose quantile is NaN",
    "nanmean([2,3] 1)": "PyTorch gives NaN to a row without numbers, whose elements change nothing",
    "median([3,3])": "PyTorch lets equal elements share",
    "binary_cross_entropy([3] [3] reduction=none)": "PyTorch divides by 1e-12 where the logarithm is clamped",
    "max_pool2d([1,3,3] 2 stride=1)": TIES,
    "max_pool2d([2,42,30] (26, 9) (3, 4))": TIES,
    "interpolate([1,1,5] scale_factor=1.1 mode=nearest)": SCALED,
    "interpolate([1,1,5] scale_factor=2.1 mode=nearest)": SCALED,
    "interpolate([1,1,2,2,2] scale_factor=1.4)": SCALED,
    "interpolate([1,1,2,2,2] scale_factor=2.3)": SCALED,
}
"""Cases with other gradients than PyTorch's, and why."""


def gradients(case: Case, dtype: str) -> list[tuple[nt.Tensor, Any]]:
    """Ours, and those of PyTorch in float64 for what the dtype holds, by the operands for which PyTorch has one."""
    name, arguments, keywords = case
    ours, theirs = resolve(name)
    narrow = [each.to(TORCH_DTYPES[dtype]) for each in floats_in([*arguments, keywords])]

    def pytorch(count: int) -> tuple[list[Any], list[Any]]:
        """The first operands as leaves, and the float results."""
        leaves = [each.double().clone().requires_grad_(number < count) for number, each in enumerate(narrow)]
        copies = iter([each.clone() for each in leaves])  # which functions may change in place
        called = theirs(*filled(arguments, copies, torch.clone), **filled(keywords, copies, torch.clone))
        return leaves[:count], list(floats_in([called]))

    try:
        leaves, results = pytorch(len(narrow))
    except RuntimeError:  # "not differentiable with respect to weight"
        leaves, results = pytorch(1)
    numbers = [number for number, each in enumerate(results) if each.requires_grad]
    if not numbers:
        return []
    seeds = [torch.randn(results[number].shape, dtype=torch.float64).to(TORCH_DTYPES[dtype]) for number in numbers]
    wide = [seed.double() for seed in seeds]
    try:
        expected = torch.autograd.grad([results[number] for number in numbers], leaves, wide, allow_unused=True)
    except RuntimeError:  # "derivative is not implemented"
        return []

    def function(*tensors: nt.Tensor) -> list[nt.Tensor]:
        operands = iter([*tensors, *map(from_torch, narrow[len(leaves) :])])
        called = ours(*filled(arguments, operands, from_torch), **filled(keywords, operands, from_torch))
        every = list(floats_in([called]))
        return [every[number] for number in numbers]

    _, pull_back = nt.vjp(function, *map(from_torch, narrow[: len(leaves)]))
    exact = [torch.zeros(leaf.shape) if e is None else e for leaf, e in zip(leaves, expected, strict=True)]
    return list(zip(pull_back(list(map(from_torch, seeds))), exact, strict=True))


def check(case: Case, dtype: str, tolerance: float) -> None:
    torch.manual_seed(0)
    for actual, exact in gradients(case, dtype):
        assert actual.dtype.name == dtype
        largest = abs(np.nan_to_num(exact.numpy())).max(initial=1)
        np.testing.assert_allclose(actual.double().numpy(), exact.numpy(), tolerance, tolerance * largest)


@pytest.fixture
def reference() -> Iterator[None]:
    """NumPy computes, as compiling the kernels of every case would take long."""
    with config.scope(cpu_compile=False):
        selection.reset()
        yield
    selection.reset()


@pytest.mark.usefixtures("reference")
@pytest.mark.parametrize("case", CASES, ids=identifier)
def test_against_pytorch(case: Case) -> None:
    with pytest.raises(AssertionError) if identifier(case) in PYTORCH_DIFFERS else nullcontext():
        check(case, "float64", 1e-9)


def test_where_pytorch_differs() -> None:
    assert not set(PYTORCH_DIFFERS) - set(map(identifier, CASES))


FIRST = list({case[0]: case for case in reversed(CASES)}.values())


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 3e-5), ("bfloat16", 0.12)])
@pytest.mark.parametrize("case", FIRST, ids=identifier)
def test_dtypes(case: Case, dtype: str, tolerance: float) -> None:
    """One case of each function, with compiled kernels."""
    if (case[0], dtype) == ("quantile", "bfloat16"):
        pytest.skip("quantile takes float32 and float64, as in PyTorch")
    check(case, dtype, tolerance)
