"""Python values, specs and calls of ops as JSON, in files of functions and in checkpoints."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from npu_tensor._util.version import VERSION
from npu_tensor.dtypes import DType, as_dtype
from npu_tensor.errors import ArgumentError
from npu_tensor.interop.op_limits import require_integers, require_within_limits
from npu_tensor.ops.declare import Call, Op
from npu_tensor.ops.registry import OPS
from npu_tensor.spec import Size, Spec
from npu_tensor.tensor import Tensor

_GRADIENTS: Final = re.compile("_backward|gradient")
"""Part of the names of ops that compute gradients. Their rules trust operands and attributes."""


def encoded_value(value: Any, leaf: Callable[[Tensor], Any]) -> Any:
    """Return a nested value as JSON, with the result of `leaf` for each tensor."""
    if isinstance(value, Tensor):
        return leaf(value)
    kind = type(value)
    if kind in (type(None), bool, int, float, str):
        return value
    if kind is tuple:
        return [encoded_value(part, leaf) for part in value]
    if kind in _SEQUENCES:
        return {_SEQUENCES[kind]: [encoded_value(part, leaf) for part in value]}
    if kind is dict:
        return {"dict": [[encoded_value(key, leaf), encoded_value(part, leaf)] for key, part in value.items()]}
    if kind is DType:
        return {"dtype": value.name}
    if kind is Spec:
        return {"tensor": [value.dtype.name, list(value.shape)]}
    if kind is Call:
        operands = [each.__name__ if isinstance(each, type) else encoded_value(each, leaf) for each in value.operands]
        return {"call": [value.op.name, operands, encoded_attributes(value, leaf)]}
    raise ArgumentError(
        f"save: the file cannot hold {value!r:.80}; use tensors, numbers, strings, and plain tuples, lists and dicts"
    )


def encoded_attributes(call: Call, leaf: Callable[[Tensor], Any]) -> dict[str, Any]:
    values = zip(call.op.attributes, attributes_of(call), strict=True)
    return {attribute.name: encoded_value(value, leaf) for attribute, value in values}


def attributes_of(call: Call) -> tuple[Any, ...]:
    """Return the attributes in the form and order in which `Op.call` takes them."""
    values = []
    for attribute in call.op.attributes:
        value = call.attributes[attribute.name]
        if (attribute.annotation, type(value)) == ("int", tuple) and attribute.kind is not _VARIADIC:
            value = value[0] if value else 0  # The rule of softmax keeps its dimension as a tuple.
        values.append(value)
    return tuple(values)


_VARIADIC: Final = inspect.Parameter.VAR_POSITIONAL


def decoded_value(value: Any, leaf: Callable[[str, Any], Any]) -> Any:
    """Return the value of `encoded_value`, with the result of `leaf` for "tensor" and "value"."""
    if isinstance(value, list):
        return tuple([decoded_value(part, leaf) for part in value])
    if not isinstance(value, dict):
        return value
    kind, content = next(iter(value.items()))
    if kind in ("tensor", "value"):
        return leaf(kind, content)
    if kind in ("list", "size"):
        return (list if kind == "list" else Size)([decoded_value(part, leaf) for part in content])
    if kind == "dict":
        return {decoded_value(key, leaf): decoded_value(part, leaf) for key, part in content}
    if kind == "dtype":
        return _named_dtype(content)
    if kind == "call":
        name, operands, attributes = content
        return checked_call(
            name,
            [_NUMBERS[each] if isinstance(each, str) else spec_named(*each["tensor"]) for each in operands],
            attributes,
        )
    raise ValueError(f"a value of the kind {kind!r}")


_SEQUENCES: Final[Mapping[Any, str]] = {list: "list", Size: "size"}
_NUMBERS: Final = {"bool": bool, "int": int, "float": float}


def _named_dtype(name: Any) -> DType:
    if not isinstance(name, str):
        raise ValueError(f"{name!r} is not the name of a dtype")
    return as_dtype(name)


def spec_named(dtype: Any, shape: Any) -> Spec:
    if not all(type(extent) is int and extent >= 0 for extent in shape):
        raise ValueError(f"the shape {shape}")
    return Spec.of(tuple(shape), _named_dtype(dtype))


def refuse_tensors(kind: str, content: Any) -> Any:
    raise ValueError(f"a {kind} among attributes")


def checked_call(name: str, operands: Sequence[Any], attributes: Mapping[str, Any]) -> Call:
    """Return the checked call of an op on specs, numbers in lists, and types of numbers that are not known yet."""
    op = require_op(name)
    values = {key: decoded_value(value, refuse_tensors) for key, value in attributes.items()}
    if values.keys() != {each.name for each in op.attributes}:
        raise ValueError(f"the attributes {sorted(values)}")
    if not op.variadic and len(operands) != len(op.operands):
        raise ValueError(f"{len(operands)} operands")
    require_integers(values)
    kinds = tuple([type(each[0]) if isinstance(each, list) else each for each in operands])
    if not all(isinstance(kind, Spec) or kind in (bool, int, float) for kind in kinds):
        raise ValueError(f"operands of the types {kinds}")
    call = op.call(kinds, tuple([values[each.name] for each in op.attributes]))
    require_within_limits(call, operands)
    return call


def require_op(name: str) -> Op:
    if _GRADIENTS.search(name):
        raise ArgumentError(f"the op {name!r} computes gradients; a saved function only computes results")
    if name not in OPS:
        raise ArgumentError(f"it needs the op {name!r}, which npu-tensor {VERSION} does not have")
    return OPS[name]
