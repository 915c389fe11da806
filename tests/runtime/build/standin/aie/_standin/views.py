"""A module as MLIR's Python bindings show it to those who walk through it, as far as a program changes attributes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

__all__ = ["Attributes", "BoolAttr", "View", "block"]


class BoolAttr:
    """A value of an attribute. It belongs to a context, which is the module's."""

    def __init__(self, value: bool) -> None:
        self.value = value

    @staticmethod
    def get(value: bool, context: Any = None) -> BoolAttr:
        """RuntimeError outside of a context."""
        if not isinstance(value, bool):
            raise TypeError(f"get(): incompatible function arguments: {value!r}")
        from .record import Module, current

        if not isinstance(context if context is not None else current(), Module):
            raise TypeError(f"get(): incompatible function arguments: {context!r}")
        return BoolAttr(value)

    def __bool__(self) -> bool:
        return self.value

    def __str__(self) -> str:
        return str(self.value).lower()


class Attributes(dict[str, BoolAttr]):
    """Of an operation, by name."""

    def __setitem__(self, name: str, value: BoolAttr) -> None:
        if not isinstance(value, BoolAttr):
            raise TypeError(f"__setitem__(): incompatible function arguments: {name!r}, {value!r}")
        super().__setitem__(name, value)


class View:
    """An operation: its name, its attributes, and what is in it as regions of one block."""

    def __init__(self, name: str, attributes: Attributes, operations: list[View] | None = None) -> None:
        self.name = name
        self.attributes = attributes
        self.regions = [] if operations is None else [SimpleNamespace(blocks=[block(operations)])]

    @property
    def operation(self) -> View:
        """Itself."""
        return self


def block(operations: list[View]) -> Any:
    """What has `operations`."""
    return SimpleNamespace(operations=operations)
