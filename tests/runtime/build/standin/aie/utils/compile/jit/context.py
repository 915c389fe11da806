"""What a program is compiled for, for whatever is called while its module is made."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

__all__ = ["compile_context", "get_compile_arg"]

_given: ContextVar[dict[str, Any]] = ContextVar("standin_compile_context")


@contextmanager
def compile_context(**kwargs: Any) -> Iterator[dict[str, Any]]:
    """Add arguments to those of the blocks around this one."""
    merged = {**_given.get({}), **kwargs}
    token = _given.set(merged)
    try:
        yield merged
    finally:
        _given.reset(token)


def get_compile_arg(key: str, default: Any = None) -> Any:
    """An argument of the blocks around, or the default."""
    return _given.get({}).get(key, default)
