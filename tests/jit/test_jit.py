"""jit: replays return the results of the plain function, and every trap is an error or harmless."""

import gc
import inspect
import math
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor._util.cache_sizes import CAPTURES
from npu_tensor.jit import MANY_SIGNATURES


def test_tensors_of_positional_and_keyword_arguments_differ() -> None:
    difference = nt.jit(lambda x, y: x - y)
    assert difference(nt.tensor([5.0]), y=nt.tensor([3.0])).tolist() == [2]
    assert difference(nt.tensor([5.0]), y=nt.tensor([4.0])).tolist() == [1]


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


def of_defaults(values: dict[str, Any]) -> dict[str, Any]:
    return defaultdict(lambda: nt.ones(2), values)


@pytest.mark.parametrize("make", [dict, OrderedDict, of_defaults])
def test_dicts_stay_what_they_are(make: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    seen: list[dict[str, Any]] = []

    @nt.jit
    def function(given: dict[str, Any]) -> dict[str, Any]:
        seen.append(given)
        return make({"b": given["a"] + 1, "c": (given["a"],)})

    given = make({"a": nt.zeros(2), "n": 1})
    for start in (0.0, 5.0):
        given["a"] = nt.full((2,), start)
        result = function(given)
        assert type(result) is type(given)
        if isinstance(result, defaultdict):
            assert result["missing"].tolist() == [1.0, 1.0]
            del result["missing"]
        assert list(result) == ["b", "c"]
        assert result["b"].tolist() == [start + 1] * 2
        assert result["c"][0].tolist() == [start] * 2
    assert function.captures == 1
    assert type(seen[0]) is type(given)


def test_tensors_from_outside_are_read_at_each_call() -> None:
    weight = nt.tensor([1.0, 2.0])
    f = nt.jit(lambda x: x * weight)
    assert f(nt.ones(2)).tolist() == [1.0, 2.0]
    weight += 10
    assert f(nt.ones(2)).tolist() == [11.0, 12.0]


def test_same_tensor_twice_and_argument_returned() -> None:
    f = nt.jit(lambda x, y: (x + y, x))
    t = nt.tensor([1.0])
    total, same = f(t, t)
    assert total.tolist() == [2.0]
    assert same is t


def _line_of(function: Callable[..., object], offset: int) -> str:
    return f"test_jit.py:{inspect.getsourcelines(function)[1] + offset}"


@pytest.mark.parametrize("pending", [False, True])
def test_tensors_outside_are_changed_at_each_call(pending: bool) -> None:
    def fresh() -> nt.Tensor:
        return nt.tensor([1.0, 2.0]) if not pending else nt.arange(1, 3).to(nt.float32)

    total = fresh()

    def operator(x: nt.Tensor) -> nt.Tensor:
        nonlocal total
        total += x
        return total * 2

    def unused(x: nt.Tensor) -> nt.Tensor:
        total.add_(x).mul_(x)
        return x * 2

    def item(x: nt.Tensor) -> nt.Tensor:
        total[0] = x[0]
        return x

    def returned(x: nt.Tensor) -> nt.Tensor:
        return total.copy_(x)

    for function in (operator, unused, item, returned):
        x = nt.tensor([3.0, 4.0])
        total = fresh()
        expected = [(function(x).tolist(), total.tolist()) for _ in range(3)]
        total = handle = fresh()
        seen = total[1:]
        jitted = nt.jit(function)
        jitted.explain(x)
        assert total.tolist() == [1.0, 2.0]
        assert [(jitted(x).tolist(), total.tolist()) for _ in range(3)] == expected
        assert jitted.captures == 1
        assert total is handle
        assert seen.tolist() == expected[-1][1][1:]


def _row_writer(table: nt.Tensor) -> Callable[[nt.Tensor, nt.Tensor], nt.Tensor]:
    """A captured function that writes a row of a table from outside and returns the sums of all rows."""

    @nt.jit
    def write(row: nt.Tensor, value: nt.Tensor) -> nt.Tensor:
        table[row] = value
        return table.sum(1)

    return write


def test_rows_are_written_without_a_copy_of_the_table() -> None:
    table = nt.zeros(1000, 3).realize()
    write = _row_writer(table)
    addresses = set()
    for row in range(4):
        sums = write(nt.tensor([row]), nt.ones(1, 3) * row)
        assert sums.tolist() == [3.0 * min(i, row) if i <= row else 0 for i in range(1000)]
        addresses.add(table.realize()._node.value.address)
    assert len(addresses) == 1
    np.testing.assert_array_equal(table.numpy()[:5], [[0] * 3, [1] * 3, [2] * 3, [3] * 3, [0] * 3])


@pytest.mark.parametrize(
    "reader",
    [
        lambda table: table.numpy(),
        lambda table: table + 0,  # recorded, not computed
        lambda table: table.clone().realize(),
        lambda table: table.detach().numpy(),
        lambda table: nt.from_numpy(table.numpy()),
    ],
)
def test_what_was_read_before_a_row_is_written_stays(reader: Callable[[nt.Tensor], Any]) -> None:
    table = nt.zeros(4, 3).realize()
    write = _row_writer(table)
    write(nt.tensor([0]), nt.ones(1, 3))
    seen = reader(table)
    write(nt.tensor([1]), nt.ones(1, 3))
    expected = [[1] * 3, [0] * 3, [0] * 3, [0] * 3]
    assert (seen.numpy() if isinstance(seen, nt.Tensor) else seen).tolist() == expected
    assert table.numpy().tolist() == [[1] * 3, [1] * 3, [0] * 3, [0] * 3]


def test_views_see_rows_that_a_captured_function_writes() -> None:
    table = nt.zeros(4, 3)
    view = table[1:]
    write = _row_writer(table)
    for row in (1, 2):
        write(nt.tensor([row]), nt.ones(1, 3))
        assert view.sum().item() == 3 * row


def test_changing_an_argument_is_an_error() -> None:
    def f(x: nt.Tensor) -> nt.Tensor:
        x *= 2
        return x

    given = nt.ones(2)
    with pytest.raises(nt.CaptureError, match=f"argument.*{_line_of(f, 1)}"):
        nt.jit(f)(given)
    assert given.tolist() == [1.0, 1.0]


def test_a_failing_function_leaves_tensors_outside_alone() -> None:
    total = nt.tensor([1.0, 2.0])

    @nt.jit
    def f(x: nt.Tensor) -> nt.Tensor:
        total.add_(x)
        total[0].zero_()
        if fails:
            raise KeyError("mine")
        return x.tolist()

    fails = True
    with pytest.raises(KeyError, match="mine"):
        f(nt.ones(2))
    fails = False
    with pytest.raises(nt.CaptureError, match=r"x\.tolist\(\)"):
        f(nt.ones(2))
    assert total.tolist() == [1.0, 2.0]
    total += 1  # not watched any more
    assert total.tolist() == [2.0, 3.0]


def test_changing_tensors_made_inside_is_fine() -> None:
    @nt.jit
    def f(x: nt.Tensor) -> tuple[nt.Tensor, nt.Tensor]:
        constant = nt.tensor([1.0, 2.0])
        constant += x
        doubled = x * 2
        doubled[0] = 9.0
        known = (nt.ones(2) + 1).realize()
        known += doubled
        return constant, known

    for start in (1.0, 5.0):
        constant, known = f(nt.full((2,), start))
        assert constant.tolist() == [1 + start, 2 + start]
        assert known.tolist() == [11.0, 2 + 2 * start]


@pytest.mark.parametrize("make", [lambda: nt.tensor([1.0, 2.0]), lambda: nt.arange(1, 3).to(nt.float32).realize()])
def test_constant_results_are_fresh(make: Callable[[], nt.Tensor]) -> None:
    def twice(x: nt.Tensor) -> tuple[nt.Tensor, nt.Tensor]:
        constant = make()
        return constant, x + constant

    alone, both = nt.jit(lambda x: make()), nt.jit(twice)
    for _ in range(3):
        constant = alone(nt.ones(2))
        assert constant.tolist() == [1.0, 2.0]
        constant += 5
        constant, total = both(nt.ones(2))
        assert constant.tolist() == [1.0, 2.0]
        assert total.tolist() == [2.0, 3.0]
        constant += 5


@pytest.mark.parametrize("pending", [False, True])
def test_a_tensor_from_outside_is_returned_itself(pending: bool) -> None:
    weight = nt.ones(2) * 3 if pending else nt.tensor([3.0, 3.0])
    alone, both = nt.jit(lambda x: weight), nt.jit(lambda x: (x, weight, x + weight))
    for step in range(2):
        argument = nt.ones(2)
        assert alone(argument) is weight
        first, second, total = both(argument)
        assert first is argument
        assert second is weight
        assert total.tolist() == [4.0 + step] * 2
        weight += 1


def test_floats_are_told_apart_by_their_bits() -> None:
    f = nt.jit(lambda x, number: x * number)
    ones = nt.ones(2)
    signs = [math.copysign(1.0, value) for number in (0.0, -0.0) for value in f(ones, number).tolist()]
    assert signs == [1.0, 1.0, -1.0, -1.0]
    for _ in range(5):
        assert all(map(math.isnan, f(ones, math.nan).tolist()))
    assert f.captures == 3


def test_numbers_of_equal_value_and_other_type_are_told_apart() -> None:
    f = nt.jit(lambda x, number: x + number)
    numbers = (1, True, 1.0, np.int64(1), np.float32(1))
    whole = nt.tensor([1, 2])
    for _ in range(2):
        assert [f(whole, number).dtype for number in numbers] == [(whole + number).dtype for number in numbers]
    assert f.captures == len(numbers)


@dataclass(frozen=True)
class Setting:
    """A value that hashes and compares by another one in it."""

    value: Any


class Pair(NamedTuple):
    first: Any


class Level(IntEnum):
    HIGH = 1


class Everything:
    """Object that equals all others."""

    def __init__(self, content: object) -> None:
        self.content = content

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1


EQUAL = [
    (Setting(1), Setting(1.0)),
    (Setting((0.0,)), Setting((-0.0,))),
    (Setting(np.float32(1)), Setting(np.float64(1))),
    (Pair(0.0), Pair(-0.0)),
    (frozenset([Setting(1)]), frozenset([Setting(1.0)])),
    (complex(0, 0.0), complex(0, -0.0)),
    (Decimal("1"), Decimal("1.0")),
    (range(2), range(0, 2, 3)),
    (Level.HIGH, 1),
    (Everything(1), Everything(2)),
    ({0.0: 1}, {-0.0: 1}),
]


@pytest.mark.parametrize(("one", "other"), EQUAL, ids=lambda value: type(value).__name__)
def test_equal_values_that_are_not_the_same_have_captures_of_their_own(one: Any, other: Any) -> None:
    seen: list[Any] = []
    f = nt.jit(lambda x, value: seen.append(value) or x + len(seen))
    x = nt.zeros(1)
    for _ in range(2):
        assert [f(x, value).item() for value in (one, [one, one], other, [one, other])] == [1, 2, 3, 4]
    assert list(map(repr, seen)) == list(map(repr, (one, [one, one], other, [one, other])))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Setting((1, math.nan, None)),
        lambda: frozenset(["a", 1.5, (2, b"c")]),
        lambda: Fraction(1, 3),
        lambda: range(0, 5, 2),
        lambda: Level(1),
    ],
)
def test_values_that_are_the_same_share_a_capture(make: Callable[[], Any]) -> None:
    f = nt.jit(lambda x, value: x + 1)
    for _ in range(3):
        f(nt.ones(2), make())
    assert f.captures == 1


def test_objects_that_define_equality_are_compared_by_their_parts() -> None:
    f = nt.jit(lambda x, value: x + value.content)
    for _ in range(2):
        assert f(nt.ones(2), Everything(1)).tolist() == [2.0, 2.0]
    assert f.captures == 1
    changed = Everything(1)
    changed.content = 2
    assert f(nt.ones(2), changed).tolist() == [3.0, 3.0]
    assert f.captures == 2


def nested(depth: int) -> list[Any]:
    value: list[Any] = [nt.ones(2)]
    for _ in range(depth - 1):
        value = [value]
    return value


def endless() -> list[Any]:
    value: list[Any] = [nt.ones(2)]
    value += [value, value]
    return value


@pytest.mark.parametrize("make", [endless, lambda: nested(100_000), lambda: {"a": (endless(),)}])
def test_nesting_without_an_end_is_an_error(make: Callable[[], Any]) -> None:
    message = r"^jit follows at most 100 nested lists, tuples and dicts; .* a flat list$"
    with pytest.raises(nt.ArgumentError, match=message):
        nt.jit(lambda x: nt.ones(2))(make())
    with pytest.raises(nt.ArgumentError, match=message):
        nt.jit(lambda x: [x, make()])(nt.ones(2))


def test_methods() -> None:
    class Layer:
        __hash__ = None  # type: ignore[assignment]  # as of a class that compares by value

        def __init__(self, factor: float) -> None:
            self.factor = factor
            self.weight = nt.full((2,), factor)
            self.calls = 0

        def __eq__(self, other: object) -> bool:
            return True

        @nt.jit
        def forward(self, x: nt.Tensor, *, bias: float = 0.0) -> nt.Tensor:
            """x * weight + bias."""
            self.calls += 1
            return x * self.weight + bias

    two, three = Layer(2.0), Layer(3.0)
    for _ in range(3):
        assert two.forward(nt.ones(2)).tolist() == [2.0, 2.0]
        assert three.forward(nt.ones(2)).tolist() == [3.0, 3.0]
    assert (two.calls, three.calls) == (1, 1)
    assert two.forward(nt.ones(2), bias=1.0).tolist() == [3.0, 3.0]
    two.weight += 1
    assert two.forward(nt.ones(2)).tolist() == [3.0, 3.0]
    assert Layer(4.0).forward(nt.ones(2)).tolist() == [4.0, 4.0]
    assert Layer.forward.__doc__ == "x * weight + bias."
    outer = nt.jit(lambda x: two.forward(x + 1) * 2)
    assert outer(nt.ones(2)).tolist() == [12.0, 12.0]

    gone = weakref.ref(three)
    weight = weakref.ref(three.weight)
    del three
    gc.collect()
    assert gone() is None
    assert weight() is None
    assert Layer.forward.captures == 2  # those of `two`


@pytest.mark.parametrize("warm", [False, True])
def test_jit_inside_jit_of_computed_arguments(warm: bool) -> None:
    inner = nt.jit(lambda x, y: (x * y, nt.tensor([7.0, 7.0])))
    if warm:
        inner(nt.ones(2), nt.ones(2))

    @nt.jit
    def outer(x: nt.Tensor) -> tuple[nt.Tensor, ...]:
        product, _ = inner(x + 1, nt.full((2,), 3.0))
        bare, seven = inner(x, product)
        constant, _ = inner(nt.ones(2), nt.ones(2))
        constant += x
        return product, bare, seven, constant

    for start in (1.0, 2.0):
        product, bare, seven, constant = outer(nt.full((2,), start))
        assert product.tolist() == [3 * (start + 1)] * 2
        assert bare.tolist() == [3 * (start + 1) * start] * 2
        assert seven.tolist() == [7.0, 7.0]
        assert constant.tolist() == [1 + start] * 2
        seven += 1
    assert inner.captures == int(warm)


@pytest.mark.filterwarnings("ignore:.*has been captured")
def test_signatures_are_bounded() -> None:
    kept: list[weakref.ref[nt.Tensor]] = []

    @nt.jit
    def f(x: nt.Tensor, number: int) -> nt.Tensor:
        weight = nt.tensor([float(number)])
        outside.append(weight)
        kept.append(weakref.ref(weight))
        return x + weight

    outside: list[nt.Tensor] = []
    extra = 3
    x = nt.ones(1)
    for number in range(CAPTURES + extra):
        assert f(x, number).item() == number + 1
    assert f.captures == CAPTURES + extra
    assert f(x, extra).item() == extra + 1  # still there
    assert f.captures == CAPTURES + extra
    outside.clear()
    gc.collect()
    assert [number for number, weight in enumerate(kept) if weight() is None] == list(range(extra))
    assert f(x, 0).item() == 1.0
    assert f.captures == CAPTURES + extra + 1


def test_the_warning_shows_the_latest_calls() -> None:
    @nt.jit
    def step(x: nt.Tensor, number: float, *rest: Any, **named: Any) -> nt.Tensor:
        return x + number

    for n in range(MANY_SIGNATURES - 2):
        step(nt.ones(2), n)
    step(nt.ones(2), 0.5, [nt.ones(1), True], scale=nt.zeros(3, dtype=nt.int8))
    step(nt.ones(2), np.float32(1.5), ("a", None), by={"k": 3})
    with pytest.warns(UserWarning, match="captured 9 times") as caught:
        step(nt.ones(9), 1)
    calls = (
        "step(float32[2], 0.5, [float32[1], True], scale=int8[3])",
        "step(float32[2], 1.5, ('a', None), by={'k': 3})",
        "step(float32[9], 1)",
    )
    assert str(caught[0].message).endswith(f"The latest calls were: {'; '.join(calls)}")


def test_eager_mode_does_not_break_capture() -> None:
    with nt.config.scope(eager=True):
        f = nt.jit(lambda x: (x + 1) * 2)
        assert f(nt.ones(2)).tolist() == [4.0, 4.0]
        assert f(nt.zeros(2)).tolist() == [2.0, 2.0]
        weight = nt.ones(2)
        scaled = nt.jit(lambda x: x * (weight * 2))
        assert scaled(nt.ones(2)).tolist() == [2.0, 2.0]
        weight += 1
        assert scaled(nt.ones(2)).tolist() == [4.0, 4.0]


def test_an_intermediate_result_that_is_left_outside_has_no_value() -> None:
    left: list[nt.Tensor] = []

    @nt.jit
    def function(x: nt.Tensor) -> nt.Tensor:
        left.append(x + 1)
        return left[-1] * 2

    assert function(nt.ones(3)).tolist() == [4, 4, 4]
    for read in (left[0].numpy, (left[0] * 2).numpy):
        with pytest.raises(nt.CaptureError, match=r"outside.*test_jit\.py:\d+: left\.append\(x \+ 1\).*Return it"):
            read()
    assert function(nt.zeros(3)).tolist() == [2, 2, 2]
    assert function.captures == 1


def test_a_run_that_fails_leaves_nothing_else_in_what_it_would_have_changed() -> None:
    weight = nt.arange(12, dtype=nt.float32).reshape(3, 4).clone().realize()

    @nt.jit
    def step(index: nt.Tensor) -> None:
        weight.copy_((weight * 2).gather(0, index))

    step(nt.zeros(3, 4, dtype=nt.int64))
    before = weight.tolist()
    with pytest.raises(IndexError):
        step(nt.full((3, 4), 7, dtype=nt.int64))
    assert weight.tolist() == before
