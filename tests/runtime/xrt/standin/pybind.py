"""Classes whose methods check and document their arguments as those that pybind11 makes.

    @bound("run")
    class run:
        def set_arg(self, arg0: int32, arg1: bo | int32) -> None: ...

    texts()["run.set_arg"]      # ["set_arg(self: pyxrt.run, arg0: int, arg1: pyxrt.bo) -> None", ...]

Annotations are names of bound classes, `str`, or integer types of C++, which pybind11 documents as int. A parameter of
two types that has two names is called `a_or_b`. Arguments are passed by position.
"""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Callable
from functools import wraps
from itertools import cycle, product
from typing import Any, Final

int32 = int
uint32 = int
size_t = int
INTEGERS: Final = {"int32": (-(1 << 31), (1 << 31) - 1), "uint32": (0, (1 << 32) - 1), "size_t": (0, (1 << 64) - 1)}

_classes: Final[dict[str, tuple[type[Any], str]]] = {}
"""The classes by the names that annotations have, with those of pyxrt."""

_functions: Final[dict[str, inspect.Signature]] = {}


def bound(name: str) -> Callable[[type[Any]], Any]:
    """Name a class as its repr does with pybind11, and let its methods check their arguments."""

    def bind(cls: type[Any]) -> Any:
        _classes[cls.__name__] = cls, f"pyxrt.{name}"
        for key, member in list(vars(cls).items()):
            if inspect.isfunction(member) and (key == "__init__" or not key.startswith("_")):
                setattr(cls, key, function(f"{name}.{key}")(member))
        cls.__module__, _, cls.__name__ = f"pyxrt.{name}".rpartition(".")
        cls.__qualname__ = cls.__name__
        return cls

    return bind


def function(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a function, or a method, check its arguments."""

    def checked(call: Callable[..., Any]) -> Callable[..., Any]:
        signature = _functions[name] = inspect.signature(call)
        first = "self" in signature.parameters
        types = [_kinds(parameter) for parameter in list(signature.parameters.values())[first:]]
        if not types:
            return call  # Python itself refuses any argument. The benchmark of launches calls these most often.
        last = name.rpartition(".")[2]
        text = f"{last}(): incompatible {'constructor' if last == '__init__' else 'function'} arguments."

        @wraps(call)
        def wrapper(*arguments: Any) -> Any:
            if len(arguments) != len(types) + first:
                raise TypeError(text)
            values = [*map(_converted, arguments[first:], types)]
            if _NO in values:
                raise TypeError(text)
            return call(*arguments[:first], *values)

        return wrapper

    return checked


_NO: Final = object()


def _converted(value: Any, names: list[str]) -> Any:
    """Convert a value like pybind11 for the first type that accepts it, or return _NO."""
    if type(value) is int and names[-1] in INTEGERS:  # The benchmark of launches passes many of these.
        least, most = INTEGERS[names[-1]]
        return value if least <= value <= most else _NO
    for name in names:
        if name in _classes:
            if isinstance(value, _classes[name][0]):
                return value
        elif name == "str":
            if isinstance(value, str):
                return value
        elif hasattr(value, "__index__"):
            least, most = INTEGERS[name]
            if least <= operator.index(value) <= most:
                return operator.index(value)
    return _NO


def texts() -> dict[str, list[str]]:
    """The overloads of every function by its name, as the docstrings of pyxrt list them."""
    return {name: _overloads(name, signature) for name, signature in _functions.items()}


def _overloads(name: str, signature: inspect.Signature) -> list[str]:
    owner, _, last = name.rpartition(".")
    parameters = [
        [f"{each}: {_text(kind)}" for each, kind in zip(cycle(parameter.name.split("_or_")), _kinds(parameter))]
        for parameter in signature.parameters.values()
        if parameter.name != "self"
    ]
    this = [[f"self: pyxrt.{owner}"]] if owner else []
    result = _text(signature.return_annotation)
    return [f"{last}({', '.join(overload)}) -> {result}" for overload in product(*this, *parameters)]


def _kinds(parameter: inspect.Parameter) -> list[str]:
    return str(parameter.annotation).split(" | ")


def _text(annotation: str) -> str:
    def named(word: re.Match[str]) -> str:
        return "int" if word[0] in INTEGERS else _classes[word[0]][1] if word[0] in _classes else word[0]

    return re.sub(r"\w+", named, annotation)
