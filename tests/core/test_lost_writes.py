"""Writes to tensors without a name are told of, and no others."""

import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import npu_tensor as nt


def item(a: nt.Tensor) -> None:
    a[0][1] = 5


def item_of_a_method(a: nt.Tensor) -> None:
    a.view(-1)[0] = 5


def method(a: nt.Tensor) -> None:
    a[0].fill_(5)


def method_of_a_method(a: nt.Tensor) -> None:
    a.diagonal().fill_(1)


def chain(a: nt.Tensor) -> None:
    a.t().mul_(2).add_(1)


def of_an_item(a: nt.Tensor) -> None:
    rows = {"a": a}
    rows["a"][0].zero_()


LOST = [item, item_of_a_method, method, method_of_a_method, chain, of_an_item]


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="references of the stack are not counted")
@pytest.mark.parametrize("write", LOST)
@pytest.mark.parametrize("lazy", [True, False])
def test_lost_writes_are_told_of(write: Callable[[nt.Tensor], None], lazy: bool) -> None:
    a = nt.zeros(2, 2) if lazy else nt.zeros(2, 2).realize()
    with pytest.warns(UserWarning, match="write is lost") as caught:
        write(a)
    assert [warning.filename for warning in caught] == [__file__]
    assert caught[0].lineno == write.__code__.co_firstlineno + (2 if write is of_an_item else 1)
    assert a.tolist() == [[0, 0], [0, 0]]


class Holder:
    def __init__(self) -> None:
        self.weight = nt.zeros(2, 2)

    @property
    def same(self) -> nt.Tensor:
        return self.weight


def named(a: nt.Tensor) -> Any:
    b = a[0]
    b.fill_(5)
    b[1] = 6
    b.clamp_(min=5.5)
    return b.tolist(), [5.5, 6]


def in_a_container(a: nt.Tensor) -> Any:
    rows, by_name = list(a), {"x": a[1]}
    rows[0].fill_(5)
    rows[1][0] = 5
    by_name["x"].add_(2)
    return [rows[0].tolist(), rows[1].tolist(), by_name["x"].tolist()], [[5, 5], [5, 0], [2, 2]]


def of_an_object(a: nt.Tensor) -> Any:
    holder = Holder()
    holder.weight.fill_(3)
    holder.same[0] = 4
    holder.same.add_(1)
    return holder.weight.tolist(), [[5, 5], [4, 4]]


def used(a: nt.Tensor) -> Any:
    b = a[0].fill_(5)
    c = [a[1].add_(1), nt.add(a[0].add_(2), 1)]
    return [b.tolist(), *(t.tolist() for t in c)], [[5, 5], [1, 1], [3, 3]]


def in_a_loop(a: nt.Tensor) -> Any:
    rows = []
    for row in a:
        row.add_(1)
        row[0] = 7
        rows.append(row)
    return [row.tolist() for row in rows], [[7, 1], [7, 1]]


def returned(a: nt.Tensor) -> Any:
    def inner(row: nt.Tensor) -> nt.Tensor:
        row.mul_(2)
        return row.add_(1)

    return inner(a[0]).tolist(), [1, 1]


def augmented(a: nt.Tensor) -> Any:
    a[0] += 1
    a[0, 1] *= 3
    return a.tolist(), [[1, 3], [0, 0]]


def closures(a: nt.Tensor) -> Any:
    b = a[0]

    def write() -> None:
        nonlocal b
        b.add_(1)
        b[0] = 9

    write()
    (lambda: b.add_(1))()
    return b.tolist(), [10, 2]


def walrus(a: nt.Tensor) -> Any:
    (b := a[0]).fill_(5)
    return b.tolist(), [5, 5]


def unpacked(a: nt.Tensor) -> Any:
    b, c = a
    b.fill_(1)
    nt.Tensor.fill_(c, 2)
    c.__setitem__(0, 3)
    nt.Tensor.__setitem__(c, 1, 4)
    return [b.tolist(), c.tolist()], [[1, 1], [3, 4]]


KEPT = [named, in_a_container, of_an_object, used, in_a_loop, returned, augmented, closures, walrus, unpacked]


@pytest.mark.parametrize("write", KEPT)
@pytest.mark.parametrize("lazy", [True, False])
def test_writes_that_can_be_seen_are_not(write: Callable[[nt.Tensor], Any], lazy: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, expected = write(nt.zeros(2, 2) if lazy else nt.zeros(2, 2).realize())
    assert found == expected


module_level = nt.zeros(2)
module_level.fill_(3)
module_level[0] = 4


def test_writes_of_a_module() -> None:
    assert module_level.tolist() == [4, 3]
