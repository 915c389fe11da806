"""Functions that record ops, made from their declarations.

Recording dominates the host time of small programs. A call that passes only operands therefore binds no signature.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from npu_tensor.ops.declare import Op
from npu_tensor.ops.documentation import described
from npu_tensor.ops.rules import comparison, unpacked

SYNONYMS: Final = {"dim": "axis", "keepdim": "keepdims", "split_size_or_sections": "split_size"}
"""Parameter names with their NumPy or PyTorch synonyms, which public functions accept by keyword."""

KEYWORDS: Final = {"dims": ("dims",), "repeats": ("repeats",), "shape": ("shape", "size"), "size": ("size",)}
"""Keywords that pass variadic numbers, as in f(2, 3), as one sequence."""

Arguments = tuple[Sequence[Any], tuple[Any, ...], Any]
"""Operands, attributes in the order of the declaration, and `out`."""


class Steps:
    """Parts of recording that `npu_tensor.tensor`, a module above this one, provides on import.

    Attributes:
        tensor: Class of tensors.
        accepted: Types of the other operand of an operator. Python tries the reflected operator of other types.
        record: The function `record` of that module.
        into: Function that writes a result to the tensors of PyTorch's `out=`.
        refused: Function that returns the result of an operator for an operand of another type.
    """

    __slots__ = ("accepted", "into", "record", "refused", "tensor")

    tensor: type[Any]
    accepted: tuple[type, ...]
    record: Callable[..., Any]
    into: Callable[[Any, Any], Any]
    refused: Callable[[Any], Any]


STEPS: Final = Steps()

_MISSING: Final = inspect.Parameter.empty


def recorder(op: Op) -> Callable[..., Any]:
    """Create the function that records `op`."""
    function: Any = _variadic(op) if op.variadic else _function(op)
    function.__name__, function.__doc__ = op.name, op.doc
    if not op.variadic:
        function.__signature__ = _signature(op)
    if op.public:
        required = len(op.operands) + sum(each.default is _MISSING for each in op.attributes)
        parameters = [*op.operands, *(each.name for each in op.attributes)]
        function.__doc__ = described(op.name, op.doc, parameters, required, (), op.dtypes, op.ggml, op.domain)
    # Functions of the package are pickled by their public names.
    own = (op.body.__module__ or "").startswith("npu_tensor.")
    function.__module__ = "npu_tensor" if own else op.body.__module__
    function.__qualname__ = op.name if own else op.body.__qualname__
    function.op = op
    return function  # type: ignore[no-any-return]


def operator_recorder(op: Op, name: str, *, reflected: bool = False) -> Callable[..., Any]:
    """Create an operator method, such as __add__, which returns NotImplemented for operands of unknown types.

    With `reflected`, the first parameter is the second operand.
    """
    compares = op.rule is comparison

    def unary(self: Any) -> Any:
        return STEPS.record(op, (self,), None, sys._getframe(1))

    def binary(self: Any, other: Any) -> Any:
        if type(other) is not STEPS.tensor:
            if not isinstance(other, STEPS.accepted):
                # An array of another library raises a TypeError that explains the conversion. Comparisons are left
                # to that library.
                return NotImplemented if compares else STEPS.refused(other)
            if compares:
                other = _comparable(other, self)
        return STEPS.record(op, (other, self) if reflected else (self, other), None, sys._getframe(1))

    function: Any = (unary, binary)[len(op.operands) - 1]
    function.__name__ = name
    function.__module__, function.__qualname__ = "npu_tensor", f"Tensor.{name}"
    function.__doc__ = f"Apply `{op.name}` as an operator. {op.doc}"
    function.__signature__ = _OPERATOR_SIGNATURES[len(op.operands) - 1]
    return function  # type: ignore[no-any-return]


_SELF: Final = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation="Tensor")
_OTHER: Final = inspect.Parameter("other", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation="Any")
_OPERATOR_SIGNATURES: Final = (
    inspect.Signature([_SELF], return_annotation="Any"),
    inspect.Signature([_SELF, _OTHER], return_annotation="Any"),
)


def _variadic(op: Op) -> Callable[..., Any]:
    def function(*operands: Any, **attributes: Any) -> Any:
        values = tuple([attributes.pop(attribute.name, attribute.default) for attribute in op.attributes])
        if attributes or _MISSING in values:
            names = ", ".join(each.name for each in op.attributes)
            wrong = f"has no {', '.join(attributes)}" if attributes else "needs all"
            raise TypeError(f"{op.name}() {wrong}; its attributes are {names}")
        return STEPS.record(op, operands, values, sys._getframe(1))

    return function


def _function(op: Op) -> Callable[..., Any]:
    count = len(op.operands)
    compares, is_view = op.rule is comparison, op.kind == "view"
    required = _MISSING in op.defaults
    bind = _binder(op)

    def function(*args: Any, **kwargs: Any) -> Any:
        operands: Sequence[Any] = args
        attributes = out = None
        if kwargs or len(args) != count or required:
            operands, attributes, out = bind(args, kwargs)
        if compares:
            first, second = operands
            operands = _comparable(first, second), _comparable(second, first)
        result = STEPS.record(op, operands, attributes, sys._getframe(1), is_view)
        return result if out is None else STEPS.into(out, result)

    return function


def _binder(op: Op) -> Callable[[tuple[Any, ...], dict[str, Any]], Arguments]:
    """Create the function that sorts the arguments of a call. Tensors may be passed by name, as in PyTorch."""
    name, count = op.name, len(op.operands)
    variadic = bool(op.attributes) and op.attributes[0].kind is inspect.Parameter.VAR_POSITIONAL
    most = count + sum(each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for each in op.attributes)
    defaults: tuple[Any, ...] = ((),) if variadic else op.defaults
    least = count + defaults.count(_MISSING)
    names = [*op.operands, *(each.name for each in op.attributes)]
    unset = [*[_MISSING] * count, *defaults]
    places = {each: place for place, each in enumerate(names)}
    if variadic:
        places |= dict.fromkeys(KEYWORDS[names[count]], count)
    if op.public:
        places |= {SYNONYMS[each]: place for place, each in enumerate(names) if each in SYNONYMS}
    takes_out = op.public and op.kind != "view"

    def bind(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        if not kwargs and len(args) >= least and (variadic or len(args) <= most):
            own = (_flat(args[count:]),) if variadic else _hashable(args[count:] + defaults[len(args) - count :])
            return args[:count], own, None
        if variadic and len(args) > count:
            args = (*args[:count], args[count:])
        elif len(args) > most:
            wanted = f"{most} positional argument{'s' * (most != 1)}"
            range_of = f"from {least} to {wanted}" if least < most else wanted
            raise TypeError(f"{name}() takes {range_of} but {len(args)} were given")
        values = unset.copy()
        values[: len(args)] = args
        # As in PyTorch, `out` is the tensor that receives the result.
        out = kwargs.pop("out", None) if takes_out else None
        for keyword, value in kwargs.items():
            place = places.get(keyword)
            if place is None:
                raise TypeError(f"{name}() got an unexpected keyword argument {keyword!r}")
            if variadic and place == count:
                value = () if value is None else (value,)
            if values[place] is unset[place]:
                values[place] = value
            elif value is not unset[place]:
                twice = f"{name}() got multiple values for argument {names[place]!r}"
                raise given_twice(names[place]) if names[place] in SYNONYMS else TypeError(twice)
        for parameter, value in zip(names, values, strict=True):
            if value is _MISSING:
                raise TypeError(f"{name}() missing 1 required argument: {parameter!r}")
        return values[:count], (_flat(values[count]),) if variadic else _hashable(values[count:]), out

    return bind


def _hashable(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple([tuple(value) if type(value) is list else value for value in values])


def _signature(op: Op) -> inspect.Signature:
    """Return the signature for help and documentation, without synonyms."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    operands = [inspect.Parameter(name, kind, annotation="Operand") for name in op.operands]
    attributes = [
        inspect.Parameter(each.name, each.kind, default=each.default, annotation=each.annotation)
        for each in op.attributes
    ]
    return inspect.Signature([*operands, *attributes], return_annotation="Tensor")


def given_twice(name: str) -> TypeError:
    """Create the error for a parameter that was passed under its own name and as its synonym."""
    return TypeError(f"{name} and {SYNONYMS[name]} mean the same: give one of them")


def _flat(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Flatten variadic numbers: f(2, 3), f((2, 3)) and f([2, 3]) are equal."""
    return tuple([int(v) if type(v) is not int and hasattr(v, "__index__") else v for v in unpacked(values)])


def _comparable(number: Any, other: Any) -> Any:
    """Round a number to the 16-bit float that it is compared with, so that bfloat16(0.1) == 0.1, as in PyTorch."""
    if isinstance(number, STEPS.tensor) or not isinstance(other, STEPS.tensor):
        return number
    dtype = other.dtype
    if not dtype.is_floating_point or dtype.itemsize != 2:
        return number
    # NumPy's operators pass scalars as arrays.
    plain = number.item() if isinstance(number, (np.generic, np.ndarray)) and not number.ndim else number
    if type(plain) not in (int, float):
        return number
    with np.errstate(over="ignore"):
        return float(dtype.numpy.type(plain))
