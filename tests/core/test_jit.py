"""jit: replays give what the plain function gives, and every trap is an error or harmless."""

from __future__ import annotations

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor import events


def test_replay_equals_plain_function() -> None:
    def f(x: nt.Tensor, y: nt.Tensor) -> nt.Tensor:
        return (x @ y).relu().sum(0)

    fast = nt.jit(f)
    for seed in range(3):
        nt.manual_seed(seed)
        x, y = nt.randn(4, 5), nt.randn(5, 6)
        np.testing.assert_allclose(fast(x, y).numpy(), np.maximum(x.numpy() @ y.numpy(), 0).sum(0), rtol=1e-5)
    assert fast.captures == 1


def test_python_runs_only_while_capturing() -> None:
    calls = []

    @nt.jit
    def f(x: nt.Tensor) -> nt.Tensor:
        calls.append(1)
        return x + 1

    for _ in range(5):
        f(nt.ones(3))
    assert len(calls) == 1
    f(nt.ones(4))
    f(nt.ones(3).to(nt.bfloat16))
    assert len(calls) == 3


def test_results_are_fresh() -> None:
    f = nt.jit(lambda x: x * 2)
    first = f(nt.tensor([1.0, 2.0]))
    second = f(nt.tensor([5.0, 6.0]))
    assert first.tolist() == [2.0, 4.0]
    assert second.tolist() == [10.0, 12.0]


def test_nested_arguments_and_results() -> None:
    @nt.jit
    def f(state: dict[str, nt.Tensor], *, scale: float) -> dict[str, object]:
        return {"sum": state["a"] + state["b"] * scale, "pair": (state["a"], [state["b"] - 1])}

    out = f({"a": nt.ones(2), "b": nt.full((2,), 3.0)}, scale=2.0)
    assert out["sum"].tolist() == [7.0, 7.0]  # type: ignore[attr-defined]
    assert out["pair"][1][0].tolist() == [2.0, 2.0]  # type: ignore[index]
    again = f({"a": nt.ones(2), "b": nt.full((2,), 3.0)}, scale=3.0)
    assert again["sum"].tolist() == [10.0, 10.0]  # type: ignore[attr-defined]
    assert f.captures == 2


def test_tensors_from_outside_are_read_at_each_call() -> None:
    weight = nt.tensor([1.0, 2.0])
    f = nt.jit(lambda x: x * weight)
    assert f(nt.ones(2)).tolist() == [1.0, 2.0]
    weight += 10
    assert f(nt.ones(2)).tolist() == [11.0, 12.0]


def test_pending_tensor_from_outside_is_computed_once() -> None:
    weight = nt.ones(2) * 3
    f = nt.jit(lambda x: x + weight)
    f(nt.ones(2))
    seen: list[events.Event] = []
    with events.listen(seen.append):
        assert f(nt.ones(2)).tolist() == [4.0, 4.0]
    assert sum(isinstance(event, events.KernelRan) for event in seen) == 2  # ones and the sum


def test_same_tensor_twice_and_argument_returned() -> None:
    f = nt.jit(lambda x, y: (x + y, x))
    t = nt.tensor([1.0])
    total, same = f(t, t)
    assert total.tolist() == [2.0]
    assert same is t


@pytest.mark.parametrize(
    "body",
    [
        lambda x: x * 2 if x.sum() > 0 else x,
        lambda x: x * x.sum().item(),
        lambda x: x + nt.tensor(x.numpy()),
        lambda x: nt.tensor(x.tolist()),
    ],
)
def test_reading_a_value_while_capturing_is_an_error(body) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(nt.CaptureError, match="Use npu_tensor"):
        nt.jit(body)(nt.ones(2))


def test_changing_a_tensor_outside_is_an_error() -> None:
    total = nt.zeros(2)

    @nt.jit
    def f(x: nt.Tensor) -> nt.Tensor:
        nonlocal total
        total += x
        return total * 2

    with pytest.raises(nt.CaptureError, match="outside"):
        f(nt.ones(2))


def test_jit_inside_jit() -> None:
    inner = nt.jit(lambda x: x + 1)
    inner(nt.ones(2))
    outer = nt.jit(lambda x: inner(x) * 2)
    assert outer(nt.ones(2)).tolist() == [4.0, 4.0]
    assert outer(nt.zeros(2)).tolist() == [2.0, 2.0]


def test_many_signatures_warn() -> None:
    f = nt.jit(lambda x: x + 1)
    for n in range(8):
        f(nt.ones(n + 1))
    with pytest.warns(UserWarning, match="captured 9 times"):
        f(nt.ones(9))


def test_wrong_arguments_raise_like_the_function() -> None:
    f = nt.jit(lambda x: x + 1)
    with pytest.raises(TypeError):
        f(nt.ones(2), nt.ones(2))
    with pytest.raises(nt.ShapeError):
        nt.jit(lambda x, y: x + y)(nt.ones(2), nt.ones(3))


def test_eager_mode_does_not_break_capture() -> None:
    with nt.config.scope(eager=True):
        f = nt.jit(lambda x: (x + 1) * 2)
        assert f(nt.ones(2)).tolist() == [4.0, 4.0]
        assert f(nt.zeros(2)).tolist() == [2.0, 2.0]


def test_captures_hold_no_data() -> None:
    f = nt.jit(lambda x: {"out": (x * 2).softmax(-1)})
    nt.empty_cache()
    before = nt.memory_stats()["in_use"]
    result = f(nt.ones(512, 512))
    del result
    assert nt.memory_stats()["in_use"] - before < 1 << 16
