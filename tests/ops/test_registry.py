"""Public names of declarations, also of ops and functions that a program declares at run time."""

import inspect
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor.ops import OPS, op, registry, rules


@pytest.fixture(autouse=True)
def _nothing_is_added() -> Iterator[None]:
    tables: tuple[dict[Any, Any], ...] = (OPS, registry.PUBLIC, registry.UFUNCS)
    before = [{**table} for table in tables]
    yield
    for name in registry.PUBLIC.keys() - before[1].keys():
        if name in vars(nt.Tensor):
            delattr(nt.Tensor, name)
    for table, entries in zip(tables, before, strict=True):
        table.clear()
        table.update(entries)


def declare() -> Any:
    @op(kind="map", rule=rules.numeric, aliases=("tripled",), ufunc=np.spacing)
    def triple(input, /, plus: float = 0.0):  # type: ignore[no-untyped-def]
        """Return 3 * input + plus."""
        return input * 3 + plus

    return triple


def test_an_op_is_public_at_once() -> None:
    triple = declare()
    x = nt.tensor([1.0, 2.0])
    for result in (triple(x), x.triple(), nt.triple(x), nt.tripled(x), x.tripled(), np.spacing(x)):  # type: ignore[attr-defined]
        assert result.tolist() == [3.0, 6.0]
        assert not result.is_realized or result.device == "cpu"
    assert triple(x, plus=1.0).tolist() == [4.0, 7.0]
    assert x.triple_() is x  # type: ignore[attr-defined]
    assert x.tolist() == [3.0, 6.0]
    assert OPS["triple"] is triple.op
    assert inspect.signature(triple).parameters.keys() == {"input", "plus"}
    assert [row.op for row in nt.explain((x + 1).triple())] == ["add", "triple"]  # type: ignore[attr-defined]


def test_a_new_op_has_a_gradient() -> None:
    triple = declare()
    x = nt.tensor([1.0, 2.0])
    assert nt.grad(lambda x: (triple(x) * x).sum())(x).tolist() == [6.0, 12.0]


def test_an_error_of_a_new_op_names_it_and_the_line() -> None:
    triple = declare()
    with pytest.raises(nt.NpuTensorError, match=r"triple\(bool\[2\]\): .*\(recorded at test_reg.*:\d+\)") as caught:
        triple(nt.ones(2) > 0)
    assert caught.value.recorded_at == pickle.loads(pickle.dumps(caught.value)).recorded_at
    assert caught.value.recorded_at.startswith("test_registry.py:")


@pytest.mark.parametrize(
    ("name", "declaration"),
    [
        *((name, {}) for name in ("item", "T", "_alias", "jit", "linalg", "silu")),
        ("quadruple", {"aliases": ("silu",)}),
        ("quadruple", {"aliases": ("quadruple",)}),
        ("copy", {"in_place": True}),
        ("quadruple", {"operators": ("neg",)}),
        ("quadruple", {"ufunc": np.negative}),
    ],
)
def test_a_name_that_is_taken_publishes_nothing(name: str, declaration: dict[str, Any]) -> None:
    def body(input, /):  # type: ignore[no-untyped-def]
        return input * 4

    body.__name__ = name
    before = {*registry.PUBLIC}, {*vars(nt.Tensor)}
    with pytest.raises(ValueError, match=r"is public already|is declared twice|belongs to another op|appears twice"):
        op(kind="map", rule=rules.floating, **declaration)(body)
    assert ({*registry.PUBLIC}, {*vars(nt.Tensor)}) == before
