"""Values from the metadata of a GGUF file, or a file config.json, with the types that their keys must have."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from npu_tensor.errors import ArgumentError

__all__ = [
    "COUNT",
    "FLAG",
    "INTEGERS",
    "NUMBER",
    "NUMBERS",
    "REQUIRED",
    "STRING",
    "STRINGS",
    "TOKEN",
    "ValueType",
    "entry",
]


class ValueType(NamedTuple):
    """A type of values, in words, and whether a value is one."""

    text: str
    has: Callable[[Any], bool]


def _is_array(value: Any, kinds: str) -> bool:
    return isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in kinds


COUNT: Final = ValueType("a positive integer", lambda value: type(value) is int and value > 0)
TOKEN: Final = ValueType("the number of a token", lambda value: type(value) is int)
NUMBER: Final = ValueType("a positive number", lambda value: type(value) in (int, float) and 0 < value < math.inf)
FLAG: Final = ValueType("true or false", lambda value: type(value) is bool)
STRING: Final = ValueType("a string", lambda value: isinstance(value, str))
STRINGS: Final = ValueType(
    "a list of strings", lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value)
)
INTEGERS: Final = ValueType("an array of integers", lambda value: _is_array(value, "iu"))
NUMBERS: Final = ValueType("an array of numbers", lambda value: _is_array(value, "iuf"))

REQUIRED: Final = object()


def entry(metadata: Mapping[str, Any], key: str, kind: ValueType, default: Any = REQUIRED) -> Any:
    """The value of a key, or the default. Raises ArgumentError if it is another kind of value, or required and missing.

    The default may be of any type, and is not checked.
    """
    if key not in metadata:
        if default is REQUIRED:
            raise ArgumentError(f"the file has no {key}")
        return default
    value = metadata[key]
    if not kind.has(value):
        raise ArgumentError(f"{key} must be {kind.text}, not {value!r:.80}")
    return value
