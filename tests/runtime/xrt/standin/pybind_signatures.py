"""Argument lists as pybind11 checks and documents them.

    SET = Signatures("run.set_arg", "arg0: int32, arg1: pyxrt.bo -> None", "arg0: int32, arg1: int32 -> None")
    overload, values = SET.match(arguments, keywords)     # or TypeError with the overloads, as pybind11 words it

A type is `pyxrt.X`, `str`, an integer type of C++, which pybind11 documents as int, or something that Python can never
pass because the bindings do not convert it (std::chrono).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

__all__ = ["ALL", "INTEGERS", "TYPES", "Parameter", "Signatures", "bound", "index"]

INTEGERS: Final = {
    "int32": (-(1 << 31), (1 << 31) - 1),
    "uint32": (0, (1 << 32) - 1),
    "size_t": (0, (1 << 64) - 1),
}

TYPES: Final[dict[str, type[Any]]] = {}
"""The classes of the stand-in by the names that stand in signatures."""

ALL: Final[dict[str, Signatures]] = {}
"""Every signature, by "class.method" or the function's name."""


def bound(name: str) -> Callable[[type[Any]], Any]:
    """Name a class as signatures do, and as its repr does with pybind11."""

    def register(cls: type[Any]) -> Any:
        TYPES[f"pyxrt.{name}"] = cls
        cls.__module__, _, cls.__name__ = f"pyxrt.{name}".rpartition(".")
        cls.__qualname__ = cls.__name__
        return cls

    return register


class Parameter(NamedTuple):
    """name: argN cannot be passed by keyword."""

    name: str
    type: str


class Overload(NamedTuple):
    """One argument list, without self."""

    parameters: tuple[Parameter, ...]
    result: str

    def values(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> list[Any] | None:
        """The arguments in order and converted; None if they do not fit."""
        names = [parameter.name for parameter in self.parameters]
        if len(arguments) + len(keywords) != len(names) or not set(keywords) <= set(names[len(arguments) :]):
            return None
        if any(re.fullmatch(r"arg\d+", name) for name in keywords):
            return None
        given = [*arguments, *(keywords[name] for name in names[len(arguments) :])]
        found = []
        for value, parameter in zip(given, self.parameters, strict=True):
            converted = _convert(value, parameter.type)
            if converted is _NO:
                return None
            found.append(converted)
        return found

    def text(self, name: str, with_self: str | None) -> str:
        """As pybind11 documents it, with every integer as int."""
        shown = [f"self: {with_self}"] if with_self else []
        shown += [f"{name}: {'int' if type in INTEGERS else type}" for name, type in self.parameters]
        return f"{name}({', '.join(shown)}) -> {self.result}"


_NO: Final = object()


def _convert(value: Any, type_name: str) -> Any:
    if type_name in INTEGERS:
        number = index(value, *INTEGERS[type_name])
        return _NO if number is None else number
    if type_name == "str":
        return value.decode() if isinstance(value, bytes) else value if isinstance(value, str) else _NO
    known = TYPES.get(type_name)
    return value if known is not None and isinstance(value, known) else _NO


def index(value: Any, least: int, most: int) -> int | None:
    """The integer that pybind11 would make of a value: of whatever has __index__, never of a float."""
    try:
        number = operator.index(value)
    except TypeError:
        return None
    return number if least <= number <= most else None


class Signatures:
    """The overloads of one function, in the order in which they are tried. Registers itself in ALL."""

    def __init__(self, name: str, *overloads: str) -> None:
        self.name = name
        self.owner, _, self.function = name.rpartition(".")
        self.overloads = tuple(map(_parse, overloads))
        ALL[name] = self

    def match(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[int, list[Any]]:
        """The number of the first overload that takes the arguments, and these, converted."""
        for number, overload in enumerate(self.overloads):
            values = overload.values(arguments, keywords)
            if values is not None:
                return number, values
        raise self.error(arguments)

    def error(self, arguments: Sequence[Any]) -> TypeError:
        """What pybind11 says if no overload fits."""
        what = "constructor" if self.function == "__init__" else "function"
        lines = [f"    {number}. {text}" for number, text in enumerate(self.texts(), 1)]
        given = ", ".join(map(repr, arguments))
        return TypeError(
            f"{self.function}(): incompatible {what} arguments. The following argument types are supported:\n"
            + "\n".join(lines)
            + f"\n\nInvoked with: {given}"
        )

    def texts(self) -> list[str]:
        """The overloads as the docstring lists them."""
        owner = f"pyxrt.{self.owner}" if self.owner else None
        return [overload.text(self.function, owner) for overload in self.overloads]


def _parse(text: str) -> Overload:
    parameters, _, result = text.rpartition("->")
    named = [part.strip().partition(": ") for part in parameters.split(",") if part.strip()]
    return Overload(tuple(Parameter(name, type) for name, _, type in named), result.strip())
