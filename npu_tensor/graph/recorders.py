"""The functions that record ops, written as Python source from the declarations.

Recording is what a program spends most of its own time on, so these bind no signatures and have no loops.
"""

from __future__ import annotations

import inspect
import linecache
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from npu_tensor.ops.declare import Attribute, Op, keep
from npu_tensor.ops.rules import unpacked

__all__ = ["KEYWORDS", "SYNONYMS", "compile_recorder", "given_twice"]

SYNONYMS: Final = {"dim": "axis", "keepdim": "keepdims", "split_size_or_sections": "split_size"}
"""NumPy's and PyTorch's other names of parameters, which public functions take by keyword in place of these."""

KEYWORDS: Final = {"dims": ("dims",), "repeats": ("repeats",), "shape": ("shape", "size"), "size": ("size",)}
"""By which names numbers that are given one by one, as in f(2, 3), may be given as one sequence."""


class _Absent:
    """The default of a parameter where None is a value of its own."""

    def __repr__(self) -> str:
        return "absent"


def compile_recorder(op: Op, names: Mapping[str, Any]) -> Callable[..., Any]:
    """The function that records `op`, with its name and its text.

    names: `Tensor`, and as `_operand`, `_resolve` and `_finish` the steps that `tensor.record` takes, the last of which
    also gets the tensor that a view is of; `_fit` is called with a Python integer that int64 cannot hold.
    """
    source = _source(op)
    filename = f"<npu_tensor.{op.name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    namespace: dict[str, Any] = {
        **names,
        "_absent": _Absent(),
        "_by_keyword": _by_keyword,
        "_calls": {},
        "_flat": _flat,
        "_getframe": sys._getframe,
        "_keep": keep,
        "_only": _only,
        "_op": op,
        **{f"_default{number}": attribute.default for number, attribute in enumerate(op.attributes)},
    }
    exec(compile(source, filename, "exec"), namespace)
    function: Callable[..., Any] = namespace[op.name]
    function.__doc__ = op.doc
    function.__module__ = "npu_tensor"
    function.__qualname__ = op.name
    function.__signature__ = _signature(op)  # type: ignore[attr-defined]
    return function


def _signature(op: Op) -> inspect.Signature:
    """What help and documentation show: the declaration, without synonyms."""
    operands = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in op.operands]
    attributes = [inspect.Parameter(each.name, each.kind, default=each.default) for each in op.attributes]
    return inspect.Signature([*operands, *attributes])


def _parameters(op: Op) -> str:
    """The parameter list of the generated function. As in PyTorch, tensors may be passed by name too."""
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
    return ", ".join([*parts, *synonyms])


def _has_synonym(op: Op, attribute: Attribute) -> bool:
    return op.public and attribute.name in SYNONYMS


def _default(op: Op, number: int) -> str:
    """What stands for an attribute's default; nothing if it must be given, and Python itself can say so."""
    if op.attributes[number].default is not inspect.Parameter.empty:
        return f"_default{number}"
    return "_absent" if any(_has_synonym(op, attribute) for attribute in op.attributes[: number + 1]) else ""


def _only(value: Any, default: Any, name: str, synonym: Any) -> Any:
    """The value of a parameter that was given as its synonym."""
    if value is not default:
        raise given_twice(name)
    return synonym


def given_twice(name: str) -> TypeError:
    """The error for a parameter that was given under its own name and as its synonym."""
    return TypeError(f"{name} and {SYNONYMS[name]} mean the same: give one of them")


def _attribute_values(op: Op) -> str:
    """The tuple of attribute values; sequences become tuples, which can be keys."""
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
    """The numbers that were given as one sequence. TypeError if there are others."""
    if given:
        raise TypeError(f"{op.name}() got its numbers twice")
    return (value,)


def _flat(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """f(2, 3), f((2, 3)) and f([2, 3]) mean the same."""
    return tuple(int(v) if type(v) is not int and hasattr(v, "__index__") else v for v in unpacked(values))


INT64 = np.iinfo(np.int64)


def _source(op: Op) -> str:
    """Source of the recording function."""
    lines = [f"def {op.name}({_parameters(op)}):", "    frame = _getframe(1)"]
    for number, attribute in enumerate(op.attributes):
        name, default = attribute.name, _default(op, number)
        if _has_synonym(op, attribute):
            synonym = SYNONYMS[name]
            lines.append(f"    if {synonym} is not _absent: {name} = _only({name}, {default}, {name!r}, {synonym})")
        if default == "_absent":
            missing = f"{op.name}() missing 1 required argument: {name!r}"
            lines.append(f"    if {name} is _absent: raise TypeError({missing!r})")
        if attribute.kind is inspect.Parameter.VAR_POSITIONAL:
            for keyword in KEYWORDS[attribute.name]:
                lines.append(f"    if {keyword} is not None: given = _by_keyword(_op, given, {keyword})")
    names = [f"n{i}" for i in range(len(op.operands))]
    if names:
        lines.append("    numbers = False")
    for i, operand in enumerate(op.operands):
        lines += [
            f"    if type({operand}) is Tensor:",
            f"        n{i} = {operand}._node; s{i} = n{i}.spec; d{i} = n{i}.depth",
            f"    else: n{i}, s{i}, d{i} = _operand({operand}); numbers = True",
        ]
    specs = f"({''.join(f's{i}, ' for i in range(len(names)))})"
    attributes = _attribute_values(op)
    lines.append(f"    specs = {specs}")
    if not op.attributes:
        lines += [
            "    call = _calls.get(specs)",
            "    if call is None: call = _keep(_calls, specs, _resolve(_op, specs, (), frame))",
        ]
    elif all(a.default is not inspect.Parameter.empty for a in op.attributes):
        # With nothing but defaults, which is most calls, the specs alone are the key.
        defaults = " and ".join(f"{a.name} is _default{number}" for number, a in enumerate(op.attributes))
        lines += [
            f"    if {defaults}:",
            "        call = _calls.get(specs)",
            f"        if call is None: call = _keep(_calls, specs, _resolve(_op, specs, {attributes}, frame))",
            f"    else: call = _resolve(_op, specs, {attributes}, frame)",
        ]
    else:
        lines.append(f"    call = _resolve(_op, specs, {attributes}, frame)")
    depth = {0: "0", 1: "d0", 2: "(d0 if d0 > d1 else d1)"}.get(
        len(names), f"max({', '.join(f'd{i}' for i in range(len(names)))})"
    )
    if names:
        lines.append("    if numbers:")
    for i in range(len(names)):
        lines.append(f"        if s{i} is int and not {INT64.min} <= n{i} <= {INT64.max}: _fit(call, {i}, n{i}, frame)")
    viewed = f", {op.operands[0]}" if op.kind == "view" else ""
    lines.append(f"    return _finish(call, ({''.join(name + ', ' for name in names)}), {depth} + 1, frame{viewed})")
    return "\n".join(lines) + "\n"
