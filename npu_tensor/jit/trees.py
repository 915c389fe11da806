"""Nested arguments and results: their structure as a key, and the same structure with other tensors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from npu_tensor.spec import Spec
from npu_tensor.tensor import Tensor

__all__ = ["call_text", "flatten", "rebuild"]


class _Slot(NamedTuple):
    """The place of a tensor in flattened arguments or results."""

    number: int


def flatten(value: Any, tensors: list[Tensor]) -> Any:
    """A hashable description of nested tuples, lists and dicts in which tensors, appended to the list, are slots."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return _Slot(len(tensors) - 1)
    if isinstance(value, (tuple, list)):
        return (type(value), *(flatten(part, tensors) for part in value))
    if isinstance(value, dict):
        if getattr(value, "__dict__", None):
            raise TypeError(f"jit does not follow the attributes of a {type(value).__name__}; use a plain dict")
        items = ((type(key), key, flatten(part, tensors)) for key, part in value.items())  # 1 == True == 1.0
        return (type(value), getattr(value, "default_factory", None), *items)
    # As values 0.0 and -0.0 are equal, NaN is not even equal to itself, and NumPy numbers equal those of other types.
    if isinstance(value, np.generic):
        return (type(value), value.tobytes())
    if isinstance(value, float):
        return (type(value), float.__repr__(value))
    if isinstance(value, np.ndarray):
        raise TypeError("jit takes and gives tensors, not arrays; use npu_tensor.from_numpy(array)")
    hash(value)  # raises the TypeError that names the type
    return (type(value), value)


def call_text(structure: Any, specs: Sequence[Spec]) -> str:
    """The flattened (args, kwargs) of a call as a program would write them, with specs in place of tensors."""
    _, (_, *args), (_, _, *kwargs) = structure
    named = (f"{name}={_text(part, specs)}" for _, name, part in kwargs)
    return ", ".join([*(_text(part, specs) for part in args), *named])


def _text(structure: Any, specs: Sequence[Spec]) -> str:
    if isinstance(structure, _Slot):
        return str(specs[structure.number])
    kind, *parts = structure
    if issubclass(kind, np.generic):
        return str(np.frombuffer(parts[0], kind)[0])
    if issubclass(kind, (tuple, list)):
        inside = ", ".join(_text(part, specs) for part in parts)
        return f"({inside})" if issubclass(kind, tuple) else f"[{inside}]"
    if issubclass(kind, dict):
        return f"{{{', '.join(f'{key!r}: {_text(part, specs)}' for _, key, part in parts[1:])}}}"
    return parts[0] if issubclass(kind, float) else repr(parts[0])


def rebuild(value: Any, tensors: list[Tensor]) -> Any:
    """The nested value, from its original, with other tensors in order."""
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
