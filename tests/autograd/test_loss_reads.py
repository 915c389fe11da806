"""Training loops that read a loss before the gradients are computed: no costly op runs twice."""

import gc
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from running import heard

import npu_tensor as nt
from npu_tensor import events


class _Recurrent(nt.nn.Module):
    def __init__(self) -> None:
        self.layer, self.head = nt.nn.LSTM(8, 4, batch_first=True), nt.nn.Linear(4, 3)

    def forward(self, x: nt.Tensor) -> Any:
        return self.head(self.layer(x)[0][:, -1])


def _convolutional() -> nt.nn.Module:
    layers = nt.nn.Conv2d(1, 4, 3), nt.nn.ReLU(), nt.nn.MaxPool2d(2), nt.nn.Conv2d(4, 4, 3), nt.nn.GELU()
    return nt.nn.Sequential(*layers, nt.nn.Flatten(), nt.nn.Linear(4 * 3 * 3, 3))


def _dense() -> nt.nn.Module:
    return nt.nn.Sequential(nt.nn.Linear(8, 8), nt.nn.Tanh(), nt.nn.Linear(8, 3))


MODELS: dict[str, tuple[Callable[[], nt.nn.Module], tuple[int, ...]]] = {
    "convolutions": (_convolutional, (2, 1, 12, 12)),
    "a recurrence": (_Recurrent, (2, 5, 8)),
    "products": (_dense, (4, 8)),
}


def _before(loss: nt.Tensor, optimizer: nt.optim.Optimizer) -> float:
    value: float = loss.item()
    loss.backward()
    optimizer.step()
    return value


def _between(loss: nt.Tensor, optimizer: nt.optim.Optimizer) -> float:
    loss.backward()
    value: float = loss.item()
    optimizer.step()
    return value


def _after(loss: nt.Tensor, optimizer: nt.optim.Optimizer) -> float:
    loss.backward()
    optimizer.step()
    return float(loss)


def _trained(name: str, finish: Callable[..., float]) -> tuple[list[float], Counter[str]]:
    """Make three steps and return the losses and how often each costly op ran in the last one."""
    nt.manual_seed(0)
    make, shape = MODELS[name]
    model = make()
    optimizer = nt.optim.SGD(model.parameters(), lr=0.1)
    x = nt.from_numpy(np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    y, losses = nt.tensor([0, 2, 1, 2][: shape[0]]), []
    for _ in range(3):
        with heard(events.KernelRan) as ran:
            optimizer.zero_grad()
            losses.append(finish(nt.nn.functional.cross_entropy(model(x), y), optimizer))
    names = ("conv", "lstm", "contract", "matmul")
    return losses, Counter(part for event in ran for part in event.kernel.split("+") if part.startswith(names))


@pytest.mark.parametrize("finish", [_before, _between])
@pytest.mark.parametrize("name", MODELS)
def test_a_loss_that_is_read_early_computes_no_costly_op_twice(name: str, finish: Callable[..., float]) -> None:
    expected, once = _trained(name, _after)
    losses, ran = _trained(name, finish)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert ran == once
    assert once


CONVOLVED = 16 * 4 * 10 * 10 * 4
"""Bytes of the result of the first convolution."""


def test_results_are_released_with_the_loss() -> None:
    model = _convolutional()
    gc.collect()
    before = nt.memory_stats()["in_use"]
    loss = model(nt.zeros(16, 1, 12, 12)).sum()
    loss.item()
    assert nt.memory_stats()["in_use"] - before > CONVOLVED  # A backward pass may follow.
    del loss
    assert nt.memory_stats()["in_use"] - before < CONVOLVED


def test_nothing_is_kept_without_a_loss_or_gradients() -> None:
    model = _convolutional()
    gc.collect()
    before = nt.memory_stats()["in_use"]
    result = model(nt.zeros(16, 1, 12, 12)).realize()
    with nt.no_grad():
        total = model(nt.zeros(16, 1, 12, 12)).sum()
    total.item()
    assert nt.memory_stats()["in_use"] - before < CONVOLVED
    assert result.shape == (16, 3)
