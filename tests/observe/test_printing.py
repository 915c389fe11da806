"""`repr` and `print` show the same text as PyTorch; `repr` never raises and never waits."""

import logging
import os
import re
import sys
from collections import namedtuple
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
import pytest
from running import in_thread

import npu_tensor as nt
from npu_tensor._util.forks import locks_are_free
from npu_tensor.observe import printing
from npu_tensor.planner import selection
from npu_tensor.runtime import memory
from npu_tensor.runtime.cpu import engine
from npu_tensor.runtime.devices import host

PACKAGE = os.path.dirname(nt.__file__)


@pytest.fixture(autouse=True)
def _own_options() -> Iterator[None]:
    token = printing._options.set(printing._options.get())
    yield
    printing._options.reset(token)


def new() -> nt.Tensor:
    """A tensor that was not computed, of a structure that no plan is known for."""
    selection.reset_plans()
    return nt.tensor([1.0, 2.5]) * 2


VALUES = "Tensor([2., 5.], dtype=float32)"
RECORDED = "Tensor(float32[2], lazy: mul)"


def not_computed(reason: str) -> str:
    return f"{RECORDED[:-1]}; not computed: {reason})"


# --- shown values


Pair = namedtuple("Pair", "first second")

CONTAINERS: list[tuple[Callable[[Any], str], str]] = [
    (repr, VALUES),
    (str, VALUES),
    ("{}".format, VALUES),
    (lambda t: repr([t, t]), f"[{VALUES}, {VALUES}]"),
    (lambda t: str({"loss": t}), f"{{'loss': {VALUES}}}"),
    (lambda t: repr(Pair(1, t)), f"Pair(first=1, second={VALUES})"),
    (lambda t: f"loss {t}", f"loss {VALUES}"),
    (lambda t: logging.LogRecord("", 0, "", 0, "%s %r", (t, [t]), None).getMessage(), f"{VALUES} [{VALUES}]"),
]


@pytest.mark.parametrize(("show", "expected"), CONTAINERS)
def test_values_are_shown_wherever_a_tensor_is(show: Callable[[Any], str], expected: str) -> None:
    assert show(new()) == expected


def test_the_recorded_op_is_shown_on_request() -> None:
    nt.set_printoptions(lazy=True)
    x = new()
    assert (repr([x]), str(x)) == (f"[{RECORDED}]", RECORDED)
    assert not x.is_realized
    nt.set_printoptions(precision=2)
    assert repr(x) == RECORDED
    nt.set_printoptions(lazy=False)
    assert repr(x) == VALUES


def ours(x: nt.Tensor) -> str:
    """Without the dtype, which PyTorch leaves out of some texts."""
    return re.sub(r"(, shape=\[[\d, ]*\])?, dtype=\w+\)$", "", repr(x))


def theirs(x: Any) -> str:
    return re.sub(r"(,\s*(size=\([\d, ]*\)|dtype=[\w.]+))*\)$", "", repr(x)).replace("tensor(", "Tensor(")


def both(values: Any, dtype: str) -> tuple[nt.Tensor, Any]:
    torch = pytest.importorskip("torch")
    x = torch.tensor(np.asarray(values, np.float64)).to(getattr(torch, dtype))
    return nt.from_dlpack(x.contiguous()), x


@contextmanager
def options(**chosen: Any) -> Iterator[None]:
    """Set print options of PyTorch and of npu_tensor."""
    torch = pytest.importorskip("torch")
    before = vars(torch._tensor_str.PRINT_OPTS).copy()
    try:
        torch.set_printoptions(profile="default")
        torch.set_printoptions(**chosen)
        nt.set_printoptions(profile="default")
        nt.set_printoptions(**chosen)
        yield
    finally:
        vars(torch._tensor_str.PRINT_OPTS).update(before)


TABLE: list[tuple[Any, str]] = [
    ([0.1, 0.25, 1.0], "float32"),
    ([1.0, 2.0, -3.0], "float32"),
    ([0.0, 0.0], "float32"),
    ([1e-5, 1.0], "float32"),
    ([1e-5, 2e-5], "float64"),
    ([1.0, 1234.5678], "float32"),
    ([123456.0, 1.0], "float32"),
    ([1e9], "float32"),
    ([1e300, 1e-300], "float64"),
    ([1.5, float("nan")], "float32"),
    ([float("inf"), 2.5], "float32"),
    (float("nan"), "float32"),
    (3.25, "float64"),
    (7, "int64"),
    (True, "bool"),
    ([1, -20, 300], "int16"),
    ([True, False], "bool"),
    ([[1.5, 2.0], [100.25, -1.0]], "bfloat16"),
    ([0.1, 65504.0], "float16"),
    ([], "float32"),
    (np.zeros((2, 0, 3)), "float32"),
    (np.arange(24.0).reshape(2, 3, 4), "float32"),
    (np.arange(60.0) / 7, "float32"),
    (np.arange(3 * 40).reshape(3, 40), "int64"),
]


@pytest.mark.parametrize(("values", "dtype"), TABLE)
def test_texts_are_those_of_pytorch(values: Any, dtype: str) -> None:
    x, expected = both(values, dtype)
    with options():
        assert ours(x) == theirs(expected)


@pytest.mark.parametrize("seed", range(60))
def test_options_mean_what_they_mean_in_pytorch(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(map(int, rng.integers(1, 12, rng.integers(0, 4))))
    values = rng.normal(0, 1, shape) * 10.0 ** rng.integers(-5, 8, shape if seed % 3 else ())
    values = values if seed % 2 else np.round(values)
    dtype = ("float32", "float64", "bfloat16", "int64")[seed // 2 % 4]
    chosen = {
        "precision": int(rng.integers(0, 7)),
        "threshold": int(rng.integers(0, 300)),
        "edgeitems": int(rng.integers(1, 5)),
        "linewidth": int(rng.integers(20, 120)),
        "sci_mode": (None, True, False)[rng.integers(3)],
    }
    x, expected = both(np.nan_to_num(values.astype(np.float32), posinf=0, neginf=0) + 0.0, dtype)  # no -0.
    with options(**chosen):
        a, b = ours(x), theirs(expected)
    if "..." in b:  # which has another space before it, and breaks lines elsewhere
        a, b = "".join(a.split()), "".join(b.split())
    assert a == b


def test_only_what_is_shown_is_looked_at() -> None:
    """The width is that of the edges, and a large tensor is not converted."""
    values = np.ones(100_000, np.float32)
    values[5000] = 1e30
    assert repr(nt.from_numpy(values)) == "Tensor([1., 1., 1., ..., 1., 1., 1.], dtype=float32)"


@pytest.mark.parametrize(
    "wrong",
    [
        {"precision": -1},
        {"precision": 2.5},
        {"threshold": float("nan")},
        {"edgeitems": "3"},
        {"linewidth": -1},
        {"profile": "long"},
        {"sci_mode": 2},
        {"lazy": "yes"},
    ],
)
def test_wrong_options_are_errors_and_change_nothing(wrong: dict[str, Any]) -> None:
    before = printing._options.get()
    (name,) = wrong
    with pytest.raises(nt.ArgumentError, match=f"set_printoptions: {name} must be"):
        nt.set_printoptions(**{"precision": 1, **wrong})
    assert printing._options.get() == before


# --- without values


def test_an_error_is_shown_in_one_line_and_printing_raises_it() -> None:
    x = nt.tensor([7]) // nt.tensor([0])
    for _ in range(2):
        assert re.fullmatch(r"\[Tensor\(int64\[1\], <DivisionError: [^\n]*>\)\]", repr([x]))
    for look in (print, str, "{}".format):
        with pytest.raises(ZeroDivisionError):
            look(x)


def test_a_captured_function_may_print() -> None:
    outside, seen = new(), []

    @nt.jit
    def step(x: nt.Tensor) -> nt.Tensor:
        y = x * 2
        seen.extend((repr(x), str(x), repr(y), str(y), repr(outside), f"{[y]}"))
        return y + outside

    assert step(nt.ones(2)).tolist() == [4.0, 7.0]
    argument = "Tensor(float32[2], argument of a function that is being captured)"
    captured = not_computed("a function is being captured")
    assert seen == [argument, argument, captured, captured, captured, f"[{captured}]"]
    assert step(nt.ones(2)).tolist() == [4.0, 7.0]


# --- never waiting


@pytest.mark.parametrize("lock", [selection.lock, host._lock, engine._lock, memory._lock])
def test_repr_does_not_wait_for_a_lock(lock: Any) -> None:
    x = new()
    with lock:
        assert in_thread(lambda: repr([x])) == f"[{not_computed('another thread is computing')}]"
    assert not x.is_realized
    assert repr(x) == VALUES
    with lock:
        assert in_thread(lambda: repr(x)) == VALUES


@contextmanager
def at_every_line(look: Callable[[], object]) -> Iterator[None]:
    """Call `look` before every line of the package, like a debugger that has stopped the program."""

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        look()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def test_repr_wherever_a_debugger_stops() -> None:
    x, seen = new(), set()
    kept = [nt.ones(300, 300).realize()]

    def run() -> float:
        with at_every_line(lambda: seen.add(repr(x))):
            kept.append((kept[0] @ kept[0] + 1).softmax(-1)[:, 0])
            kept.append(nt.arange(70_000.0) * 3)  # a block of its own
            kept.clear()
            return float(nt.jit(lambda y: (y + 2).sum())(nt.ones(5)))

    assert in_thread(run) == 15.0
    captured = not_computed("a function is being captured")
    assert seen == {not_computed("npu_tensor is at work in this thread"), captured}
    assert not x.is_realized
    assert locks_are_free()
