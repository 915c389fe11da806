"""Which ops and functions a test touches, and which tests promise to: no oracle is a claim alone."""

import ast
import functools
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from paths import ROOT

import npu_tensor as nt
from npu_tensor.graph.nodes import Node
from npu_tensor.ops import OPS, registry


@contextmanager
def recorded_ops() -> Iterator[set[str]]:
    """The names of the ops that are recorded inside the block."""
    names: set[str] = set()

    class Watched(Node):
        __slots__ = ()

        def __setattr__(self, name: str, value: Any) -> None:
            if name == "call" and value is not None:
                names.add(value.op.name)
            super().__setattr__(name, value)

    with pytest.MonkeyPatch.context() as patch:
        for module in ("tensor", "graph.aliasing"):
            patch.setattr(sys.modules[f"npu_tensor.{module}"], "Node", Watched)
        patch.setattr("npu_tensor.graph.templates._new", lambda _: object.__new__(Watched))
        yield names


@contextmanager
def touched(names: Iterable[str]) -> Iterator[set[str]]:
    """Those of the names that are recorded inside the block, as ops, or called, as functions or methods."""
    called: set[str] = set()

    def noting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            called.add(name)
            return function(*args, **kwargs)

        return wrapper

    with recorded_ops() as ops, pytest.MonkeyPatch.context() as patch:
        for name in set(names) - set(OPS):
            for owner, public in ((nt, registry.functions()), (nt.Tensor, registry.methods())):
                if name in public:
                    patch.setattr(owner, name, noting(name, public[name]))
        yield called
        called |= ops & set(OPS)


@functools.cache
def covered() -> set[str]:
    """All names that tests are marked to cover. That a marked test touches them is checked when it runs."""
    sources = (path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    return {
        name.value
        for source in sources
        if "pytest.mark.covers" in source
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.covers"
        for name in call.args
        if isinstance(name, ast.Constant)
    }
