"""Writes through views reach everything that shares the memory, as in NumPy, which runs the same programs."""

import gc
import linecache
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from running import heard

import npu_tensor as nt
from npu_tensor._util.forks import locks_are_free
from npu_tensor.graph import aliasing


def row(a: Any) -> Any:
    r = a[0]
    r[1] = 5
    return a, r


def without_a_name(a: Any) -> Any:
    a[0][1] = 5
    a[1][1:][0] = 6
    return (a,)


def parts_of_a_value_that_has_no_name(a: Any) -> Any:
    parts = list((a + 1).reshape(8, 2))
    whole_row = parts[0]
    inner = whole_row[1:]
    inner += 5
    parts[7][:] = 3
    return *parts, inner


def halves(a: Any) -> Any:
    top, bottom = a[:2], a[2:]
    top += 1
    bottom *= 2
    return a, top, bottom


def rows_in_a_loop(a: Any) -> Any:
    for number, each in enumerate(a):
        each += number
    return (a,)


def diagonal(a: Any) -> Any:
    if isinstance(a, np.ndarray):
        return (a + np.eye(4, dtype=a.dtype), a.diagonal() + 1)
    d = a.diagonal()
    d += 1
    return a, d


def flat(a: Any) -> Any:
    b = a.reshape(16)
    a += 1
    b[3] = 0
    return a, b


def transposed(a: Any) -> Any:
    t = a.T
    copy = t.reshape(16)
    t[0] *= 2
    copy += 100
    return a, t, copy


def backwards(a: Any) -> Any:
    b = a[::-1, ::2]
    b[0] = 7
    a[0, 0] = 9
    return a, b


def chains(a: Any) -> Any:
    b = a.reshape(2, 2, 4)[1]
    c = b.T[1:3]
    d = c[0]
    d -= 50
    c[1] = 3
    a[3] *= 2
    return a, b, c, d


def masked(a: Any) -> Any:
    r = a[1:3]
    r[r > 5] = 0
    return a, r


def overwritten(a: Any) -> Any:
    left, right, everything = a[:, :2], a[:, 2:], a.reshape(4, 4)
    left += 1
    right += 2
    left += 3
    everything *= 2
    right[:] = left
    return a, left, right, everything


def of_itself(a: Any) -> Any:
    a[1:] += a[:-1].copy() if isinstance(a, np.ndarray) else a[:-1]
    a[0] += a[0]
    return (a,)


def read_in_between(a: Any) -> Any:
    r = a[0]
    values = []
    for step in range(3):
        r += step
        values.append(a.sum() + 0)
        a *= 2
        values.append(r.sum() + 0)
    return a, r, *values


def handles_that_end(a: Any) -> Any:
    v = a.reshape(16)
    w = v[:4]
    del a
    v += 1
    first = w + 0
    del v
    w[0] = 0
    return w, first


def branches(a: Any) -> Any:
    r = a[0]
    a += 1
    b = a
    a = a + 1
    a[0, 0] = 100
    b[0, 1] = 50
    return a, b, r


PROGRAMS = [
    *(row, without_a_name, parts_of_a_value_that_has_no_name, halves, rows_in_a_loop, diagonal, flat, transposed),
    *(backwards, chains, masked, overwritten, of_itself, read_in_between, handles_that_end, branches),
]


@pytest.mark.parametrize("mode", ["lazy", "realized", "eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_programs(program: Callable[[Any], Any], mode: str) -> None:
    array = np.arange(16, dtype=np.float32).reshape(4, 4)
    expected = [np.array(each) for each in program(array.copy())]
    tensor = nt.from_numpy(array) + 0
    with nt.config.scope(eager=mode == "eager"):
        results = program(tensor.realize() if mode == "realized" else tensor)
        np.testing.assert_equal([each.numpy() for each in results], expected)
        np.testing.assert_equal([each.numpy() for each in reversed(results)], expected[::-1])


@pytest.mark.parametrize("program", PROGRAMS[:-2], ids=lambda program: program.__name__)
def test_captured_programs(program: Callable[[Any], Any]) -> None:
    array = np.arange(16, dtype=np.float32).reshape(4, 4)
    jitted = nt.jit(lambda a: program(a + 0))
    for factor in (1, 1, 2):
        expected = [np.array(each) for each in program(array * np.float32(factor))]
        results = jitted(nt.from_numpy(array * np.float32(factor)))
        np.testing.assert_equal([each.numpy() for each in results], expected)


def test_results_of_captured_functions_alias() -> None:
    outside = nt.zeros(2, 2)

    @nt.jit
    def views(x: nt.Tensor) -> Any:
        y = x * 1
        return y, y.T, x[0], y[1], y, outside[1]

    for _ in range(2):  # captured, replayed
        x = nt.arange(4).reshape(2, 2)
        y, turned, first, second, same, other = views(x)
        y += 10
        first.fill_(7)
        second[0] = 5
        other += 1
        assert y.tolist() == same.tolist() == [[10, 11], [5, 13]]
        assert turned.tolist() == [[10, 5], [11, 13]]
        assert x.tolist() == [[7, 7], [2, 3]]
    assert outside.tolist() == [[0, 0], [2, 2]]


def test_captured_functions_read_what_was_written_through_a_view() -> None:
    weight = nt.zeros(2, 2)
    part = weight[0]
    double = nt.jit(lambda x: weight * 2 + x)
    for step in range(1, 4):
        part += 1
        assert double(nt.zeros(())).tolist() == [[2 * step, 2 * step], [0, 0]]
    weight += 1
    assert nt.jit(lambda: part + 0)().tolist() == [4, 4]


@pytest.mark.parametrize("through", [lambda x: x[0], lambda x: x.T, lambda x: x])
def test_captured_functions_write_outside_but_not_to_arguments(through: Callable[[nt.Tensor], nt.Tensor]) -> None:
    outside = nt.zeros(2, 2)
    known = outside[1]
    known += 1  # outside derives its value when it is next used: in the function

    @nt.jit
    def write(x: nt.Tensor) -> nt.Tensor:
        through(outside).add_(1)
        return x

    @nt.jit
    def write_argument(x: nt.Tensor) -> nt.Tensor:
        through(x).add_(1)
        return x

    x = nt.ones(2, 2)
    with pytest.raises(nt.CaptureError, match="cannot change its arguments"):
        write_argument(x)
    expected = nt.tensor([[0.0, 0.0], [1.0, 1.0]])
    for _ in range(3):
        write(x)
        through(expected).add_(1)
        assert (x.tolist(), outside.tolist()) == ([[1, 1], [1, 1]], expected.tolist())
        assert known.tolist() == expected[1].tolist()


def test_what_is_a_view() -> None:
    x = nt.arange(12).reshape(3, 4)
    assert (x.T.stride(), x.T.is_contiguous(), x[1:].is_contiguous(), x[:, 1].stride()) == ((1, 4), False, True, (4,))
    assert (x + 0).T.contiguous().stride() == (3, 1)
    assert x.contiguous() is x
    assert (x.T + 0).is_contiguous()  # results of ops are row-major
    with pytest.raises(nt.ArgumentError, match=r"strides \(1, 4\) allow no view of shape \[12\]; use reshape"):
        x.T.view(12)
    copy = x.T.reshape(12)
    copy += 1
    for function in (nt.flip, nt.flipud, nt.clone, lambda t: nt.roll(t, 1, 0), lambda t: t.tile(1, 1), nt.diag):
        function(x).add_(1)
    assert x.tolist() == np.arange(12).reshape(3, 4).tolist()


@pytest.mark.covers("write_strided")
def test_writes_to_what_was_expanded() -> None:
    x = nt.zeros(3)
    wide = x.expand(2, 3)
    with pytest.raises(RuntimeError, match=r"add_\(.*one element at several positions.*clone\(\) it first"):
        wide.add_(1)
    wide.fill_(2)
    assert (x.tolist(), wide.tolist()) == ([2, 2, 2], [[2, 2, 2]] * 2)
    wide[0] = nt.tensor([1.0, 2.0, 3.0])
    assert (x.tolist(), wide.tolist()) == ([1, 2, 3], [[1, 2, 3]] * 2)


def test_writes_compute_nothing_and_are_cheap_to_drop() -> None:
    x = nt.ones(4, 4) + 1
    x.realize()
    with heard() as ran:
        for each in x:
            each += 1
        view = x.view(16)
        view *= 2
    assert not ran
    assert x.sum().item() == 96


def test_the_unseen_is_not_kept() -> None:
    gc.collect()
    before = nt.memory_stats()["in_use"]
    x = nt.zeros(1 << 20).realize()
    part = x[: 1 << 18]
    for _ in range(100):
        part += 1
        part.realize()
    storage = weakref.ref(part._alias[0])  # type: ignore[index]
    assert nt.memory_stats()["in_use"] - before < 3 * x.nbytes
    assert x.sum().item() == 100 * (1 << 18)
    del x, part
    gc.collect()
    assert storage() is None
    assert nt.memory_stats()["in_use"] == before


def test_writes_to_nothing() -> None:
    x = nt.zeros(0, 3)
    x[:].add_(1)
    x.view(3, 0).zero_()
    assert x.tolist() == []
    assert nt.jit(lambda y: x + y)(nt.ones(3)).shape == (0, 3)
    assert (x.stride(), x.is_contiguous()) == ((3, 1), True)


def test_threads_may_view_what_another_one_writes() -> None:
    x = nt.zeros(200, 4).realize()
    rows, errors, ended = list(x), [], threading.Event()

    def view() -> None:
        try:
            while not ended.is_set():
                x[3:5], x.T
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=view)
    thread.start()
    for each in rows:
        each += 1
    ended.set()
    thread.join()
    assert not errors
    assert x.sum().item() == 800


@pytest.mark.parametrize("written", [True, False])
def test_an_interrupt_in_a_write_leaves_all_members_alike(written: bool) -> None:
    """At every line that a write executes in the module of storages."""

    class Interrupt(BaseException):
        pass

    def interrupting(place: int) -> Callable[..., Any]:
        count = 0

        def trace(frame: Any, event: str, argument: Any) -> Any:
            nonlocal count
            if frame.f_code.co_filename != aliasing.__file__:
                return None
            # Lines begin also where Python handles no signal: at the end of a with block, before the lock is released,
            # and at a `try`, whose empty instruction is not part of the with block around it.
            line = linecache.getline(aliasing.__file__, frame.f_lineno).strip()
            if event == "line" and line not in ("with _lock:", "try:"):
                count += 1
                if count == place:
                    raise Interrupt
            return trace

        return trace

    for place in range(1, 400):
        x = nt.arange(6).reshape(2, 3) + 0
        row, column = x[0], x[:, 0]
        if written:
            row += 1
        else:
            x = nt.tensor([[1, 2, 3], [3, 4, 5]])
            row, column = x[0], x[:, 0]
        sys.settrace(interrupting(place))
        try:
            column += 10
            column.tolist()
            row.tolist()
            done = True
        except Interrupt:
            done = False
        finally:
            sys.settrace(None)
        assert locks_are_free(), place
        now = x.tolist()
        assert now in ([[1, 2, 3], [3, 4, 5]], [[11, 2, 3], [13, 4, 5]])
        assert [row.tolist(), column.tolist()] == [now[0], [now[0][0], now[1][0]]], place
        row += 1
        assert x.tolist() == [[each + 1 for each in now[0]], now[1]]
        if done:
            break
    assert done
