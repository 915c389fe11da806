"""Long graphs run in parts: loops whose values are read at the end only, and deep models."""

import random
import sys
from collections.abc import Callable

import numpy as np
import pytest
from running import heard

import npu_tensor as nt
from npu_tensor import events
from npu_tensor.events import KernelRan, PlanBuilt
from npu_tensor.planner import selection
from npu_tensor.planner.parts import LONGEST

Loop = Callable[[int, Callable[..., None]], list[nt.Tensor]]
"""Runs a number of iterations, each of which passes its tensors to a function, and returns results."""

MATRIX = (np.random.default_rng(0).standard_normal((24, 24)) / 6).astype(np.float32)


def regression(steps: int, read: Callable[..., None]) -> list[nt.Tensor]:
    x, y = nt.tensor(MATRIX), nt.tensor(MATRIX[:, :1] > 0).to(nt.float32)
    w, b = nt.zeros(24, 1), nt.zeros(1)
    for _ in range(steps):
        error = (x @ w + b).sigmoid() - y
        w, b = w - 0.1 * (x.T @ error / 24), b - 0.1 * error.mean()
        read(w, b)
    return [w, b]


def every_loss(steps: int, read: Callable[..., None]) -> list[nt.Tensor]:
    a, w, losses = nt.tensor(MATRIX), nt.ones(24, 1), []
    for step in range(steps):
        p = (a @ w).tanh()
        losses.append(((p - 0.3) ** 2).mean())
        w = w - 0.01 * (a.T @ p) + step * 0.001
        read(w, losses[-1])
    return [nt.stack(losses), *losses, w]


def in_place(steps: int, read: Callable[..., None]) -> list[nt.Tensor]:
    x, rows = nt.zeros(4), nt.zeros(16, 16)
    for step in range(steps):
        x *= 0.5
        x += 1
        rows[step % 16] = rows[(step + 3) % 16] * 0.5 + x[0]
        read(x, rows)
    return [x, rows]


def nested(steps: int, read: Callable[..., None]) -> list[nt.Tensor]:
    a, w = nt.tensor(MATRIX), nt.ones(24, 1)
    for _ in range(steps):
        inner = w
        for _ in range(5):
            inner = (a @ inner).tanh() + 0.1
        w = w * 0.9 + inner.mean()
        read(w)
    return [w]


def irregular(steps: int, read: Callable[..., None]) -> list[nt.Tensor]:
    chance, a, w = random.Random(0), nt.tensor(MATRIX), nt.ones(24, 1)
    for _ in range(steps):
        w = (a @ w).tanh() + 0.1
        if chance.random() < 0.3:
            w = w - w.mean()
        read(w)
    return [w]


def views(steps: int, read: Callable[..., None]) -> list[nt.Tensor]:
    transposed, w = nt.tensor(MATRIX).T, nt.ones(24, 1)
    for _ in range(steps):
        w = (transposed @ w).tanh().reshape(1, 24).T + 0.01
        read(w)
    return [w.T, w[3:7]]


def growing(steps: int, read: Callable[..., None]) -> list[nt.Tensor]:
    rows = nt.ones(1, 8)
    for _ in range(steps):
        rows = nt.cat([rows, (rows[-1:] * 0.5 + 0.1).tanh()])
        read(rows)
    return [rows]


def without_repetition(steps: int, read: Callable[..., None]) -> list[nt.Tensor]:
    chance, w = random.Random(0), nt.ones(24, 1)
    namespace = {"w": w, "a": nt.tensor(MATRIX), "read": read}
    ops = ["w.tanh()", "w - w.mean()", "a @ w", "w * 0.5 + 0.1", "w.exp() * 0.2"]
    lines = [f"w = {chance.choice(ops)}" for _ in range(steps)]
    exec("\n".join(lines), namespace)
    return [namespace["w"]]  # type: ignore[list-item]


LOOPS = [regression, every_loss, in_place, nested, irregular, views, growing, without_repetition]


def unread(*tensors: nt.Tensor) -> None:
    """Stand for an iteration of a loop that never reads its tensors."""


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("steps", [1, 60, pytest.param(150, marks=pytest.mark.slow)])
def test_an_unread_loop_gives_what_the_one_that_reads_gives(
    loop: Loop, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = [tensor.numpy() for tensor in loop(steps, nt.realize)]
    for max_depth in (4096, 50, 1):
        monkeypatch.setattr(sys.modules["npu_tensor.tensor"], "MAX_DEPTH", max_depth)
        for tensor, value in zip(loop(steps, unread), expected, strict=True):
            np.testing.assert_allclose(tensor.numpy(), value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "loop", [views, *(pytest.param(loop, marks=pytest.mark.slow) for loop in (regression, nested))]
)
def test_nothing_is_planned_after_the_first_iterations(loop: Loop) -> None:
    selection.reset_plans()
    planned = []
    for steps in (100, 400, 1600):
        with heard(PlanBuilt) as built:
            nt.realize(*loop(steps, unread))
        planned.append(sum(event.nodes for event in built))
    assert planned[0] <= LONGEST
    assert planned[1] + planned[2] < 500
    with heard(PlanBuilt) as built:
        nt.realize(*loop(1600, unread))
    assert built == []


def test_what_is_read_one_by_one_is_not_computed_from_the_start_each_time() -> None:
    selection.reset_plans()
    with heard(KernelRan) as ran, heard(PlanBuilt) as built:
        _, *losses, _ = every_loss(100, unread)
        for loss in losses:
            loss.item()
    assert len(built) <= 5
    assert len(ran) < 100 * 12


def test_values_of_parts_end_with_them() -> None:
    def largest(steps: int) -> int:
        x = nt.zeros(1 << 16)
        for _ in range(steps):
            x = x - x.mean() + 1
        nt.memory_stats()
        sizes = []
        with events.listen(lambda event: sizes.append(nt.memory_stats()["in_use"])):
            x.realize()
        return max(sizes)

    assert largest(1000) < largest(100) + (1 << 20)


def test_a_captured_function_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["npu_tensor.tensor"], "MAX_DEPTH", 100)

    @nt.jit
    def steps(x: nt.Tensor) -> nt.Tensor:
        for _ in range(500):
            x = (x * 0.5).tanh() + 1
        return x

    x = nt.ones(3).realize()
    with heard(PlanBuilt) as built:
        result = steps(x).numpy()
    assert [event.nodes for event in built] == [1500]
    value = 1.0
    for _ in range(500):
        value = np.tanh(value * 0.5) + 1
    np.testing.assert_allclose(result, value, rtol=1e-6)


def test_explain_plans_the_parts_that_will_run() -> None:
    selection.reset_plans()
    results = regression(100, unread)
    with heard(PlanBuilt) as built:
        table = nt.explain(*results)
        first = len(built)
        with table.measure():
            nt.realize(*results)
    assert first == len(built) > 1
    assert len(table) > 1000
    assert {row.device for row in table} <= {"cpu", "-"}
    assert sum(total.kernels for total in table.totals) > 300
    assert any(row.measured for row in table)
    assert "<svg" in table.svg()
