"""Gradients at points where the formula is undefined, against PyTorch's."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import npu_tensor as nt

F = torch.nn.functional
functional = nt.nn.functional

EDGES: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[Any]]] = {
    "std of equal elements": (lambda x: x.std(-1), lambda x: x.std(-1), [np.ones((2, 3))]),
    "normalize zeros": (
        lambda x: functional.normalize(x, dim=-1), lambda x: F.normalize(x, dim=-1), [np.zeros((2, 3))]
    ),
    "norm of zeros": (lambda x: x.norm(dim=-1), lambda x: x.norm(dim=-1), [[[0.0, 0.0], [3.0, 4.0]]]),
    "distance of equals": (lambda x: nt.cdist(x, x), lambda x: torch.cdist(x, x), [[[1.0, 2.0], [4.0, 4.5]]]),
    "atan2 on the axes": (nt.atan2, torch.atan2, [[1.0, -1.0, 0.0, 0.0, 2.0], [0.0, 0.0, 1.0, -1.0, -2.0]]),
    "atan2 broadcast": (nt.atan2, torch.atan2, [[[1.0], [-2.0]], [1.0, -3.0, 0.5]]),
    "logaddexp of equals": (nt.logaddexp, torch.logaddexp, [[1.0, 2.0, -800.0], [1.0, 5.0, 800.0]]),
    "softplus at its threshold": (functional.softplus, F.softplus, [[-30.0, 0.0, 19.0, 20.0, 21.0]]),
    "softplus with beta": (
        lambda x: functional.softplus(x, 2.0, 5.0), lambda x: F.softplus(x, 2.0, 5.0), [[-1.0, 2.0, 2.5, 3.0]]
    ),
    "logcumsumexp of both signs": (
        lambda x: (x.logcumsumexp(1) * nt.tensor([1.0, -2.0, 3.0])).to(x.dtype),
        lambda x: (x.logcumsumexp(1) * torch.tensor([1.0, -2.0, 3.0], dtype=x.dtype)),
        [[[1.0, -90.0, 2.0], [800.0, 0.5, -800.0]]],
    ),
    "logit at its limits": (lambda x: nt.logit(x, 0.2), lambda x: torch.logit(x, 0.2), [[0.1, 0.25, 0.7, 0.9]]),
    "erfinv near 1": (nt.erfinv, torch.erfinv, [[-0.999, 0.0, 0.5, 0.99]]),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", EDGES)
def test_edges(name: str, dtype: str) -> None:
    ours, theirs, values = EDGES[name]
    leaves = [torch.tensor(np.array(value, dtype), requires_grad=True) for value in values]
    expected = torch.autograd.grad(theirs(*leaves).sum(), leaves)
    tensors = [nt.tensor(np.array(value, dtype)) for value in values]
    computed = nt.grad(lambda *x: ours(*x).sum(), tuple(range(len(tensors))))(*tensors)
    for own, other in zip(computed, expected, strict=True):
        np.testing.assert_allclose(own.numpy(), other.numpy(), rtol=1e-5, atol=1e-7)
