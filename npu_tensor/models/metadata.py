"""Typed values from the metadata of a GGUF file, or from a file config.json."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from npu_tensor.errors import ArgumentError


@dataclass(frozen=True, slots=True)
class ValueType:
    """Type of values: a description and a test."""

    text: str
    accepts: Callable[[Any], bool]


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
    """Return the value of a key, or the default if it is missing.

    Args:
        metadata: Values by key.
        key: Key.
        kind: Required type of the value.
        default: Value for a missing key, of any type.

    Raises:
        ArgumentError: The value has another type, or is missing without a default.
    """
    if key not in metadata:
        if default is REQUIRED:
            raise ArgumentError(f"the file has no {key}")
        return default
    value = metadata[key]
    if not kind.accepts(value):
        raise ArgumentError(f"{key} must be {kind.text}, not {value!r:.80}")
    return value
