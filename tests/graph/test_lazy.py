"""Time of computation, lifetime and sharing of values."""

import copy
import gc
import math
import pickle
import re
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from running import heard, python

import npu_tensor as nt
from npu_tensor.config import config
from npu_tensor.events import KernelRan, PlanBuilt
from npu_tensor.planner import pressure


def graph() -> nt.Tensor:
    x = nt.tensor([[1.0, 2.0], [3.0, 4.0]])
    return (x @ nt.ones(2, 2) + 1).softmax(-1)[:, 0]


def test_recording_computes_nothing() -> None:
    with heard(KernelRan) as ran:
        y = graph()
        assert (y.shape, y.dtype, y.ndim, y.numel(), y.nbytes, len(y)) == ((2,), nt.float32, 1, 2, 8, 2)
        assert y.graph.number_of_nodes() > 4
        nt.explain(y)
        y.add_(1).to(nt.bfloat16).reshape(1, 2).T.expand(2, 2)
        y[0] = 5
        y.clone()
        nt.rand(3)
        assert not y.is_realized
    assert ran == []


def test_looking_at_parts_of_a_value_plans_nothing() -> None:
    x = nt.arange(24).reshape(2, 3, 4).realize()
    with heard(KernelRan) as ran, heard(PlanBuilt) as made:
        parts = [x[1], x[1, 2], x[0, 1:], x[:1], x.reshape(6, 4)[5], x[1].flatten(), x[0, 0, 3], *x, *x.unbind(0)]
        parts += [x.squeeze(0), x[None], x[1:, None], x.narrow(0, 1, 1), *x.split(1), x[1].T[None].mT[0].T.T]
        assert not [part for part in parts[:-1] if not part.is_realized]
        assert sum(int(element) for row in x for line in row for element in line) == sum(range(24))
        assert (x[1, 2, 3].item(), x[0, 1:].tolist()) == (23, [[4, 5, 6, 7], [8, 9, 10, 11]])
    assert ran == []
    assert made == []


def test_a_small_part_does_not_keep_a_large_value() -> None:
    before = nt.memory_stats()["in_use"]
    parts = [nt.ones(1024, 1024).realize()[0, :4] for _ in range(4)]
    gc.collect()
    assert nt.memory_stats()["in_use"] - before < 1 << 20
    assert [part.tolist() for part in parts] == [[1.0] * 4] * 4


def test_parts_with_gaps_are_recorded() -> None:
    x = nt.arange(6).reshape(2, 3).realize()
    for part in (x[:, 1], x[:, ::-1], x[::-1], x.T, x[0, ::2], x[:, :2], x[0].expand(2, 3)):
        assert not part.is_realized
        assert part.clone().tolist() == part.tolist()


def test_writes_at_one_place_after_another_share_a_plan_or_need_none() -> None:
    m, expected = nt.zeros(5, 6).realize(), np.zeros((5, 6))
    with heard(PlanBuilt) as made:
        for i in range(5):
            for j in range(-6, 0):
                m[i, j] = i * j
                m.realize()
                expected[i, j] = i * j
        for i in range(5):
            m[i, 1:3] = float(i)
            m.realize()
            expected[i, 1:3] = i
    assert m.tolist() == expected.tolist()
    assert len(made) == 1


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("cuda", re.escape("nt.set_default_device('npu')")),
        ("nonsense", "no attribute 'nonsense'$"),
    ],
)
def test_what_there_is_not_is_explained(name: str, hint: str) -> None:
    assert not hasattr(nt.Tensor, name)
    with pytest.raises(AttributeError, match=hint) as caught:
        getattr(nt.ones(2), name)
    assert caught.value.name == name


LOOKS: list[Callable[[nt.Tensor], Any]] = [
    print,
    str,
    repr,
    nt.Tensor.numpy,
    nt.Tensor.tolist,
    nt.Tensor.realize,
    np.asarray,
    lambda t: t[0].item(),
    lambda t: bool(t[0] > 0),
    lambda t: float(t[0]),
    lambda t: f"{t[0]:.2f}",
    lambda t: 0.5 in t,
    pickle.dumps,
    lambda t: [element.item() for element in t],
]


@pytest.mark.parametrize("look", LOOKS)
def test_looking_computes(look: Callable[[nt.Tensor], Any]) -> None:
    y = graph()
    with heard(KernelRan) as ran:
        look(y)
    assert ran


def test_realizing_several_tensors_shares_work() -> None:
    base = nt.tensor(np.arange(12.0).reshape(3, 4)) @ nt.tensor(np.ones((4, 4)))
    a, b = base.exp(), base.tanh()
    with heard(KernelRan) as ran:
        nt.realize(a, b)
    assert sum("contract" in event.kernel or "matmul" in event.kernel for event in ran) == 1
    np.testing.assert_allclose(a.numpy(), np.exp(base.numpy()))


def test_a_view_of_a_whole_value_is_computed_with_it() -> None:
    layer = nt.nn.Linear(4, 4)
    layer(nt.ones(1, 4)).realize()
    assert layer.weight.is_realized
    total = nt.ones(2, 3) + 1
    turned, flat, part = total.T, total.reshape(6), total[1]
    (turned.sum() + flat.sum() + part.sum()).realize()
    assert (total.is_realized, flat.is_realized, turned.is_realized) == (True, True, False)
    assert flat.tolist() == [2.0] * 6
    assert turned.tolist() == [[2.0] * 2] * 3
    flat += 1
    assert (total.tolist(), part.tolist()) == ([[3.0] * 3] * 2, [3.0] * 3)


def test_copies() -> None:
    x = nt.tensor([1.0, 2.0]) + 1
    for made in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.clone()):
        made += 1
        assert x.tolist() == [2.0, 3.0]
        assert made.tolist() == [3.0, 4.0]


def test_a_loop_does_not_grow_without_bound() -> None:
    x = nt.zeros(4)
    for _ in range(10_000):
        x += 1
        assert x._node.depth <= 4096
    assert x.tolist() == [10_000.0] * 4


def test_eager_mode() -> None:
    with config.scope(eager=True), heard(KernelRan) as ran:
        y = nt.tensor([1.0, 2.0]) * 2
        assert y.is_realized
        assert (y + 1).sum().is_realized
    assert len(ran) == 3
    program = "import npu_tensor as nt; print((nt.ones(2) + 1).is_realized)"
    for text, expected in (("1", "True\n"), ("0", "False\n")):
        assert python("-c", program, NPU_TENSOR_EAGER=text).stdout == expected


def test_the_graph_names_ops_and_slots() -> None:
    x = nt.tensor([1.0, 2.0])
    result = (x * x - 3).graph
    assert sorted(data["op"] for _, data in result.nodes(data=True)) == ["data", "mul", "number", "sub"]
    product = next(node for node, data in result.nodes(data=True) if data["op"] == "mul")
    assert [slots for *_, slots in result.in_edges(product, data="slots")] == [(0, 1)]


# --- numbers that == takes for one are not mixed up where ops, plans and kernels are kept


@pytest.mark.parametrize("number", [0.0, -0.0])
def test_the_sign_of_a_zero_attribute_counts(number: float) -> None:
    for _ in range(2):
        for each in (number, -number):
            padded = nt.pad(nt.ones(1), (1, 0), value=each)
            assert math.copysign(1, padded[0].item()) == math.copysign(1, each)


# --- memory of unread values


def _means(batches: Iterator[nt.Tensor]) -> nt.Tensor:
    return nt.stack([batch.mean() for batch in batches])


def _sum_in_place(batches: Iterator[nt.Tensor]) -> nt.Tensor:
    total = nt.zeros(())
    for batch in batches:
        total.add_(batch.mean())
    return total


def _moving_average(batches: Iterator[nt.Tensor]) -> nt.Tensor:
    average = nt.zeros(1000)
    for batch in batches:
        average = average * 0.5 + batch * 0.5
    return average


def _two_results_each(batches: Iterator[nt.Tensor]) -> nt.Tensor:
    both = [(batch.mean(), (batch > 50).sum()) for batch in batches]
    return nt.stack([mean + count for mean, count in both])


def _part_of_each(batches: Iterator[nt.Tensor]) -> nt.Tensor:
    return nt.stack([(batch * 2)[:1] for batch in batches])


def _gradients(batches: Iterator[nt.Tensor]) -> nt.Tensor:
    weight = nt.ones(1000, requires_grad=True)
    for batch in batches:
        (weight * batch).mean().backward()
    assert weight.grad is not None
    return weight.grad


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (_means, np.arange(200.0)),
        (_sum_in_place, 19900.0),
        (_moving_average, 198.0),
        (_two_results_each, np.arange(200.0) + 1000 * (np.arange(200) > 50)),
        (_part_of_each, 2 * np.arange(200.0)[:, None]),
        (_gradients, 19.9),
    ],
)
def test_pending_graphs_keep_a_bounded_part_of_their_inputs(
    program: Callable[[Iterator[nt.Tensor]], nt.Tensor], expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most half of the budget, 50 of 200 batches, and what has been counted before."""
    monkeypatch.setattr(pressure, "BUDGET", 100 * 4000)
    monkeypatch.setattr(pressure.pressure, "remembers", False)
    living: list[weakref.ref[object]] = []
    most = 0

    def batches() -> Iterator[nt.Tensor]:
        nonlocal most
        for number in range(200):
            array = np.full(1000, number, np.float32)
            living.append(weakref.ref(array))
            yield nt.from_numpy(array)
            del array
            most = max(most, sum(reference() is not None for reference in living))

    np.testing.assert_allclose(program(batches()).tolist(), expected, rtol=1e-5)
    assert most <= 52


def test_early_computation_leaves_errors_to_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pressure, "BUDGET", 4000)
    monkeypatch.setattr(pressure.pressure, "remembers", True)
    wrong = nt.ones(2, dtype=nt.int32) // nt.zeros(2, dtype=nt.int32)
    for _ in range(10):
        assert nt.from_numpy(np.ones(1000, np.float32)).sum().item() == 1000
    with pytest.raises(ZeroDivisionError):
        wrong.tolist()
