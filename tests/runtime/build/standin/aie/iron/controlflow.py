"""Loops on the core."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from npu_tensor.dataflow.design import Loop, Word

from .._module import current


def range_(stop: int | Word) -> Iterator[None]:
    """The body is run once, to record it. The index is not modelled."""
    if type(stop) not in (int, Word):
        raise ValueError(f"MLIR SCF for loops can only use integer types, not {type(stop)}")
    module = current()
    body: list[Any] = []
    with module.block(body):
        yield
    module.add(Loop(stop, tuple(body)))
