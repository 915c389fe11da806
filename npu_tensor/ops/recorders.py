"""Functions that record ops, generated as Python source from the declarations.

Recording dominates the host time of a program. The generated functions therefore bind no signatures and have no loops.
"""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Callable
from types import FunctionType
from typing import Any, Final

import numpy as np

from npu_tensor.ops.declare import Attribute, Op
from npu_tensor.ops.documentation import described
from npu_tensor.ops.rules import comparison, unpacked

__all__ = ["KEYWORDS", "STEPS", "SYNONYMS", "given_twice", "operator_recorder", "recorder"]

SYNONYMS: Final = {"dim": "axis", "keepdim": "keepdims", "split_size_or_sections": "split_size"}
"""Parameter names with their NumPy or PyTorch synonyms, which public functions accept by keyword."""

KEYWORDS: Final = {"dims": ("dims",), "repeats": ("repeats",), "shape": ("shape", "size"), "size": ("size",)}
"""Keywords that pass variadic numbers, as in f(2, 3), as one sequence."""


class _Absent:
    """Default of a parameter for which None is a valid value."""

    def __repr__(self) -> str:
        return "absent"


_absent: Final = _Absent()


STEPS: Final[dict[str, Any]] = {}
"""Globals of the generated functions, such as `Tensor`, `_operand` and `_resolve`, registered by npu_tensor.tensor."""


def recorder(op: Op) -> Callable[..., Any]:
    """Create the function that records `op`. Its source is generated and compiled on the first call."""
    if op.variadic:
        function = _variadic(op)
        function.__name__, function.__doc__ = op.name, op.doc
    else:
        function = _compiled_late(op, op.name, lambda: _source(op, op.name))
        function.__signature__ = _signature(op)  # type: ignore[attr-defined]
    if op.public:
        required = len(op.operands) + sum(each.default is inspect.Parameter.empty for each in op.attributes)
        parameters = [*op.operands, *(each.name for each in op.attributes)]
        function.__doc__ = described(op.name, op.doc, parameters, required, (), op.dtypes, op.ggml, op.domain)
    # Functions of the package are pickled by their public names.
    own = (op.body.__module__ or "").startswith("npu_tensor.")
    function.__module__ = "npu_tensor" if own else op.body.__module__
    function.__qualname__ = op.name if own else op.body.__qualname__
    function.op = op  # type: ignore[attr-defined]
    return function


def operator_recorder(op: Op, name: str, *, reflected: bool = False) -> Callable[..., Any]:
    """Create an operator method, such as __add__, which returns NotImplemented for operands of unknown types.

    With `reflected`, the first parameter is the second operand.
    """
    function = _compiled_late(op, name, lambda: _operator_source(op, name, reflected))
    function.__module__, function.__qualname__ = "npu_tensor", f"Tensor.{name}"
    function.__doc__ = f"As {op.name}: {op.doc}"
    function.__signature__ = _OPERATOR_SIGNATURES[len(op.operands) - 1]  # type: ignore[attr-defined]
    return function


_SELF: Final = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation="Tensor")
_OTHER: Final = inspect.Parameter("other", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation="Any")
_OPERATOR_SIGNATURES: Final = (
    inspect.Signature([_SELF], return_annotation="Any"),
    inspect.Signature([_SELF, _OTHER], return_annotation="Any"),
)


def _variadic(op: Op) -> Callable[..., Any]:
    def function(*operands: Any, **attributes: Any) -> Any:
        values = tuple([attributes.pop(attribute.name, attribute.default) for attribute in op.attributes])
        if attributes or inspect.Parameter.empty in values:
            raise TypeError(f"{op.name}() takes the attributes {', '.join(each.name for each in op.attributes)}")
        return STEPS["_record"](op, operands, values)

    return function


def _first_call(*args: Any, **kwargs: Any) -> Any:
    return _compile()(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821 - in the globals of each copy


def _compiled_late(op: Op, name: str, source: Callable[[], str]) -> FunctionType:
    """Create a function that compiles `source` on the first call and then becomes the compiled function."""

    def compile_now() -> FunctionType:
        text = source()
        filename = f"<npu_tensor.{name}>"
        linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
        namespace.update(STEPS)
        namespace.update(
            {
                "_absent": _absent,
                "_by_keyword": _by_keyword,
                "_calls": op.calls,
                "_comparable": _comparable,
                "_flat": _flat,
                "_getframe": sys._getframe,
                "_only": _only,
                "_op": op,
                **{f"_default{number}": attribute.default for number, attribute in enumerate(op.attributes)},
            }
        )
        exec(compile(text, filename, "exec"), namespace)
        compiled = namespace[name]
        # The code is replaced last. Another thread that calls the function meanwhile also compiles it.
        function.__defaults__, function.__kwdefaults__ = compiled.__defaults__, compiled.__kwdefaults__
        function.__code__ = compiled.__code__
        return function

    namespace: dict[str, Any] = {"_compile": compile_now}
    function = FunctionType(_first_call.__code__, namespace, name)
    function.__doc__ = op.doc
    return function


def _signature(op: Op) -> inspect.Signature:
    """Return the signature for help and documentation, without synonyms."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    operands = [inspect.Parameter(name, kind, annotation="Operand") for name in op.operands]
    attributes = [
        inspect.Parameter(each.name, each.kind, default=each.default, annotation=each.annotation)
        for each in op.attributes
    ]
    return inspect.Signature([*operands, *attributes], return_annotation="Tensor")


def _parameters(op: Op) -> str:
    """Return the parameter list of the generated function. Tensors may be passed by name, as in PyTorch."""
    parts = [*op.operands]
    keyword_only = False
    for number, attribute in enumerate(op.attributes):
        if attribute.kind is inspect.Parameter.VAR_POSITIONAL:
            parts += ["*given", *(f"{keyword}=None" for keyword in KEYWORDS[attribute.name])]
            keyword_only = True
            continue
        if attribute.kind is inspect.Parameter.KEYWORD_ONLY and not keyword_only:
            parts.append("*")
            keyword_only = True
        default = _default(op, number)
        parts.append(f"{attribute.name}={default}" if default else attribute.name)
    synonyms = [f"{SYNONYMS[attribute.name]}=_absent" for attribute in op.attributes if _has_synonym(op, attribute)]
    if synonyms and not keyword_only:
        parts.append("*")
    out = ["out=None"] if _takes_out(op) else []
    if out and not keyword_only and not synonyms:
        parts.append("*")
    return ", ".join([*parts, *synonyms, *out])


def _takes_out(op: Op) -> bool:
    """Return True if the function has PyTorch's `out=`, the tensor that receives the result."""
    return op.public and op.kind != "view"


def _has_synonym(op: Op, attribute: Attribute) -> bool:
    return op.public and attribute.name in SYNONYMS


def _default(op: Op, number: int) -> str:
    """Return the source of an attribute's default; empty if it is required and Python can report its absence."""
    if op.attributes[number].default is not inspect.Parameter.empty:
        return f"_default{number}"
    return "_absent" if any(_has_synonym(op, attribute) for attribute in op.attributes[: number + 1]) else ""


def _only(value: Any, default: Any, name: str, synonym: Any) -> Any:
    """Return the value of a parameter that was passed as its synonym."""
    if value is not default:
        raise given_twice(name)
    return synonym


def given_twice(name: str) -> TypeError:
    """Create the error for a parameter that was passed under its own name and as its synonym."""
    return TypeError(f"{name} and {SYNONYMS[name]} mean the same: give one of them")


def _attribute_values(op: Op) -> str:
    """Return the source of the attribute values. Sequences become tuples, which are hashable."""
    values = []
    for attribute in op.attributes:
        if attribute.kind is inspect.Parameter.VAR_POSITIONAL:
            values.append("_flat(given)")
        elif attribute.annotation.partition(" | ")[0] not in ("bool", "float", "int", "str"):
            values.append(f"tuple({attribute.name}) if type({attribute.name}) is list else {attribute.name}")
        else:
            values.append(attribute.name)
    return f"({''.join(value + ', ' for value in values)})"


def _by_keyword(op: Op, given: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    """Return the numbers passed as one sequence by keyword. Raises TypeError if there are positional ones."""
    if given:
        raise TypeError(f"{op.name}() got its numbers twice")
    return (value,)


def _flat(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Flatten variadic numbers: f(2, 3), f((2, 3)) and f([2, 3]) are equal."""
    return tuple(int(v) if type(v) is not int and hasattr(v, "__index__") else v for v in unpacked(values))


def _comparable(number: Any, other: Any) -> Any:
    """Round a number to the 16-bit float that it is compared with, so that bfloat16(0.1) == 0.1, as in PyTorch."""
    dtype = other._node.spec.dtype if isinstance(other, STEPS["Tensor"]) else None
    if dtype is None or not dtype.is_floating_point or dtype.itemsize != 2:
        return number
    # NumPy's operators pass scalars as arrays.
    plain = number.item() if isinstance(number, (np.generic, np.ndarray)) and not number.ndim else number
    if type(plain) not in (int, float):
        return number
    with np.errstate(over="ignore"):
        return float(dtype.numpy.type(plain))


INT64 = np.iinfo(np.int64)


def _source(op: Op, name: str) -> str:
    """Return the source of the recording function."""
    lines = [f"def {name}({_parameters(op)}):", "    frame = _getframe(1)"]
    for number, attribute in enumerate(op.attributes):
        parameter, default = attribute.name, _default(op, number)
        if _has_synonym(op, attribute):
            synonym = SYNONYMS[parameter]
            only = f"_only({parameter}, {default}, {parameter!r}, {synonym})"
            lines.append(f"    if {synonym} is not _absent: {parameter} = {only}")
        if default == "_absent":
            missing = f"{op.name}() missing 1 required argument: {parameter!r}"
            lines.append(f"    if {parameter} is _absent: raise TypeError({missing!r})")
        if attribute.kind is inspect.Parameter.VAR_POSITIONAL:
            for keyword in KEYWORDS[parameter]:
                lines.append(f"    if {keyword} is not None: given = _by_keyword(_op, given, {keyword})")
    lines += _operand_lines(op, "else:")
    resolved = f"_resolve(_op, specs, {_attribute_values(op)}, frame)"
    if not op.attributes:
        lines += _default_call()
    elif all(attribute.default is not inspect.Parameter.empty for attribute in op.attributes):
        # Most calls use only defaults. The specs alone are then the key.
        defaults = " and ".join(f"{each.name} is _default{number}" for number, each in enumerate(op.attributes))
        lines += [f"    if {defaults}:", *(f"    {line}" for line in _default_call()), f"    else: call = {resolved}"]
    else:
        lines.append(f"    call = {resolved}")
    *recorded, result = _finishing_lines(op)
    if _takes_out(op):
        recorded.append(f"    if out is not None: return _into(out, {result.removeprefix('    return ')})")
    return "\n".join([*lines, *recorded, result]) + "\n"


def _operator_source(op: Op, name: str, reflected: bool) -> str:
    """Return the source of an operator's method. Its attributes have their defaults."""
    order = reversed(op.operands) if reflected else op.operands
    # An array of another library raises a TypeError that explains the conversion. Comparisons are left to that library.
    refused = "NotImplemented" if op.rule is comparison else "_refused({})"
    lines = [f"def {name}({', '.join(order)}):", "    frame = _getframe(1)"]
    lines += _operand_lines(op, "elif isinstance({}, _accepted):", f"    else: return {refused}")
    return "\n".join([*lines, *_default_call(), *_finishing_lines(op)]) + "\n"


def _operand_lines(op: Op, otherwise: str, *last: str) -> list[str]:
    """Return the source lines for nodes, specs and depths of the operands."""
    lines = [f"    if watches: _note_reads({', '.join(op.operands)})", "    numbers = False"] if op.operands else []
    for i, operand in enumerate(op.operands):
        value = f"_comparable({operand}, {op.operands[1 - i]})" if op.rule is comparison else operand
        lines += [
            f"    if type({operand}) is Tensor:",
            f"        n{i} = {operand}._node; s{i} = n{i}.spec; d{i} = n{i}.depth",
            f"    {otherwise.format(operand)} n{i}, s{i}, d{i} = _operand({value}); numbers = True",
            *(line.format(operand) for line in last),
        ]
    return [*lines, f"    specs = ({''.join(f's{i}, ' for i in range(len(op.operands)))})"]


def _default_call() -> list[str]:
    """Return the source lines for the call of an op with default attributes."""
    return [
        "    call = _calls.get(specs)",
        "    if call is None: call = _resolve_default(_op, specs, frame)",
    ]


def _finishing_lines(op: Op) -> list[str]:
    count = len(op.operands)
    largest = f"max({', '.join(f'd{i}' for i in range(count))})"
    depth = {0: "0", 1: "d0", 2: "(d0 if d0 > d1 else d1)"}.get(count, largest)
    lines = ["    if numbers:"] if count else []
    for i in range(count):
        lines.append(f"        if s{i} is int and not {INT64.min} <= n{i} <= {INT64.max}: _fit(call, {i}, n{i}, frame)")
    nodes = "".join(f"n{i}, " for i in range(count))
    finish = f"_finish_view(call, ({nodes}), {depth} + 1, frame, {op.operands[0]})"
    return [*lines, f"    return {finish if op.kind == 'view' else f'_finish(call, ({nodes}), {depth} + 1, frame)'}"]
