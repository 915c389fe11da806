"""Loops on the core."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .._standin.record import Loop, current
from .._standin.signatures import checked
from .._standin.types import Scalar, Value

__all__ = ["range_"]


@checked("range_", method=False)
def range_(start: Any, stop: Any, step: Any) -> Iterator[Value]:
    """The body is run once, to record it."""
    if not isinstance(start, (int, np.integer, Value)):
        raise ValueError(f"MLIR SCF for loops can only use integer types, not {type(start)}")
    begin, end = (0, start) if stop is None else (start, stop)
    module = current()
    rounds = end.name if isinstance(end, Value) else int(end)
    loop = Loop(int(begin), rounds, 1 if step is None else int(step), [])
    module.add(loop)
    with module.block(loop.body):
        yield Value(Scalar("int64", module), f"i{module.number()}")
