"""Nested arguments and results: a key for their structure, and the same structure with other tensors."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from types import AsyncGeneratorType, CoroutineType, GeneratorType, NoneType
from typing import Any, Final, NamedTuple

import numpy as np

from npu_tensor.errors import ArgumentError
from npu_tensor.spec import Spec
from npu_tensor.tensor import Tensor

MOST_NESTED: Final = 100
"""Upper bound on the nesting of lists, tuples and dicts. A deeper one most likely contains itself."""

MOST_PARTS: Final = 1000
"""Upper bound on the parts of a Python value that is compared by its parts. Larger values are compared by identity."""

_PLAIN: Final = frozenset((bool, int, str, bytes, NoneType))
"""Types whose equal values are interchangeable."""


# Methods that classes inherit from `object`.
_by_identity: Final = object.__eq__
_attributes: Final = object.__getstate__
_new_object: Final = object().__reduce_ex__(4)[0]


class _Slot(NamedTuple):
    """Position of a tensor in flattened arguments or results."""

    number: int


class _Same:
    """A value that is compared by identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


class _Constant:
    """A Python value of a class that defines equality. Two are equal only if no function can distinguish them."""

    __slots__ = ("key", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        try:
            self.key = _key(value, {})
        except RecursionError:
            self.key = _Same(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Constant) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def flatten(value: Any, tensors: list[Tensor], depth: int = 0) -> Any:
    """Return a hashable description of nested tuples, lists and dicts. Tensors become slots and are appended."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return _Slot(len(tensors) - 1)
    if isinstance(value, (tuple, list, dict)):
        kind = type(value)
        if depth > MOST_NESTED:
            raise ArgumentError(
                f"jit follows at most {MOST_NESTED} nested lists, tuples and dicts; this {kind.__name__} is nested "
                "deeper or contains itself; pass its tensors as a flat list"
            )
        if getattr(value, "__dict__", None):
            raise TypeError(f"jit does not follow the attributes of a {kind.__name__}; use a plain {_plain(kind)}")
        if isinstance(value, dict):
            items = ((_constant(key), flatten(part, tensors, depth + 1)) for key, part in value.items())
            return (kind, getattr(value, "default_factory", None), *items)
        return (kind, *(flatten(part, tensors, depth + 1) for part in value))
    if isinstance(value, np.ndarray):
        raise TypeError("jit takes and gives tensors, not arrays; use npu_tensor.from_numpy(array)")
    return _constant(value)


def _plain(kind: type) -> str:
    return next(plain.__name__ for plain in (dict, list, tuple) if issubclass(kind, plain))


def _constant(value: Any) -> Any:
    """Return a hashable description of a Python value. Raises TypeError for a generator and a value without a hash."""
    kind = type(value)
    if isinstance(value, (GeneratorType, CoroutineType, AsyncGeneratorType)):
        raise TypeError(f"a function captured by jit cannot take or return a {kind.__name__}; use a list of tensors")
    try:
        hash(value)
    except TypeError as error:
        remedy = "use tuples, lists and dicts of tensors"
        raise TypeError(f"jit cannot take or return {kind.__name__}, which is not hashable; {remedy}") from error
    return _equal_if_same(value) or _Constant(value)


def _equal_if_same(value: Any) -> tuple[Any, ...] | None:
    """Describe a value that is compared by identity or whose equal values are interchangeable; None for others."""
    kind: Any = type(value)
    if kind in _PLAIN or kind.__eq__ is _by_identity:
        return (kind, value)
    # 0.0 equals -0.0, and NaN does not equal itself.
    return (kind, repr(value)) if kind is float else None


def _key(value: Any, seen: dict[int, tuple[int, Any]]) -> Any:
    """Describe a value by its type and its parts, because 1 == 1.0 == Decimal("1.00"), also inside containers.

    `seen` numbers the values described so far by identity: a value may contain itself. Raises RecursionError for too
    many or too deeply nested parts.
    """
    key = _equal_if_same(value)
    if key is not None:
        return key
    if id(value) in seen:
        return seen[id(value)][0]
    if len(seen) >= MOST_PARTS:
        raise RecursionError
    seen[id(value)] = (len(seen), value)  # Keeps it alive, so that its identity is not reused.
    kind = type(value)
    if isinstance(value, np.generic):  # NumPy numbers equal numbers of other types.
        return (kind, value.dtype, value.tobytes())
    if kind in (set, frozenset):  # The order of the parts is arbitrary.
        return (kind, frozenset(_key(part, seen) for part in value))
    parts = value if kind is tuple else _parts(value)
    return _Same(value) if parts is None else (kind, *(_key(part, seen) for part in parts))


_DESCRIBING: Final = ("__reduce_ex__", "__reduce__", "__getstate__", "__getnewargs_ex__", "__getnewargs__")


@lru_cache(maxsize=256)
def _is_described(kind: type) -> bool:
    """Return True if only Python's own methods describe a value. Methods of other classes may leave out a part."""
    methods = [method for name in _DESCRIBING if (method := getattr(kind, name, None)) is not None]
    modules = (getattr(getattr(method, "__objclass__", method), "__module__", None) or "" for method in methods)
    return all(module.partition(".")[0] in sys.stdlib_module_names for module in modules)


def _parts(value: Any) -> tuple[Any, ...] | None:
    """Return the parts of a value by the protocol of `pickle`; None if they are not known."""
    kind: Any = type(value)
    if not _is_described(kind):
        return None
    try:
        reduced = value.__reduce_ex__(4)
    except TypeError:  # It has parts that Python does not know.
        return None
    if not isinstance(reduced, tuple):  # the name of a global object
        return None
    function, arguments, *state = reduced
    contents = (tuple(items) for items in state[1:3] if items is not None)
    parts = (function, *arguments, *state[:1], *contents)
    if function is _new_object and kind.__getstate__ is _attributes:
        return parts
    return (*parts, _attributes(value))  # The methods of base classes leave out what a subclass has added.


def call_text(structure: Any, specs: Sequence[Spec]) -> str:
    """Format the flattened (args, kwargs) of a call as in a program, with specs in place of tensors."""
    _, (_, *args), (_, _, *kwargs) = structure
    named = (f"{name}={_text(part, specs)}" for (_, name), part in kwargs)
    return ", ".join([*(_text(part, specs) for part in args), *named])


def _text(structure: Any, specs: Sequence[Spec]) -> str:
    if isinstance(structure, _Slot):
        return str(specs[structure.number])
    if isinstance(structure, _Constant):
        return str(structure.value) if isinstance(structure.value, np.generic) else repr(structure.value)
    kind, *parts = structure
    if issubclass(kind, (tuple, list)):
        inside = ", ".join(_text(part, specs) for part in parts)
        return f"({inside})" if issubclass(kind, tuple) else f"[{inside}]"
    if issubclass(kind, dict):
        return f"{{{', '.join(f'{_text(key, specs)}: {_text(part, specs)}' for key, part in parts[1:])}}}"
    return parts[0] if kind is float else repr(parts[0])


def unflatten(structure: Any, tensors: Sequence[Any]) -> Any:
    """Return the nested value that `flatten` describes, with other tensors."""
    if isinstance(structure, _Slot):
        return tensors[structure.number]
    if isinstance(structure, _Constant):
        return structure.value
    kind, *parts = structure
    if issubclass(kind, dict):
        factory, *items = parts
        pairs = {unflatten(key, tensors): unflatten(part, tensors) for key, part in items}
        return kind(factory, pairs) if issubclass(kind, defaultdict) else kind(pairs)
    if issubclass(kind, (tuple, list)):
        values = [unflatten(part, tensors) for part in parts]
        return kind(*values) if hasattr(kind, "_fields") else kind(values)
    return float(parts[0]) if kind is float else parts[0]


def rebuild(value: Any, tensors: list[Tensor]) -> Any:
    """Return a copy of a nested value with other tensors, in order."""
    return _replace(value, iter(tensors))


def _replace(part: Any, remaining: Iterator[Tensor]) -> Any:
    if isinstance(part, Tensor):
        return next(remaining)
    if isinstance(part, tuple) and hasattr(part, "_fields"):
        return type(part)(*(_replace(value, remaining) for value in part))
    if isinstance(part, (tuple, list)):
        return type(part)(_replace(value, remaining) for value in part)
    if isinstance(part, dict):
        items = {key: _replace(value, remaining) for key, value in part.items()}
        return type(part)(part.default_factory, items) if isinstance(part, defaultdict) else type(part)(items)
    return part
