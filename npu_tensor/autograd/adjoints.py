"""Derivatives of programs. They are programs themselves, recorded by one reverse pass over the instructions.

Every primitive has a rule that maps the gradient of its result to the gradients of its operands. The gradient of a
value that is constant along the row, such as a mean, is summed over the row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from npu_tensor.ops.expression import Program, Symbol
from npu_tensor.ops.primitives import PRIMITIVES
from npu_tensor.ops.rows import constant_like, row_prod, row_sum

Value = Any
"""A Symbol, whose operators are not declared for type checkers."""

Rule = Callable[..., tuple[Value | None, ...]]

_where: Any = np.where


def _selected(g: Value, own: Value, other: Value, wins: Value) -> Value:
    """Return the gradient of the selected operand. Ties split it equally unless the other operand is constant.

    So relu has the derivative 0 at 0, as in PyTorch.
    """
    tie_share = constant_like(g, 0.0 if g.builder.is_constant(other) else 0.5)
    return g * _where(own == other, tie_share, wins.astype(g.dtype))


def _or_zero(g: Value, factor: Value) -> Value:
    """Return g * factor, but 0 where g is 0 even if the factor has overflowed, as in 1 / (1 + exp(-x))."""
    return _where(g == 0, constant_like(g, 0.0), g * factor)


def _over(g: Value, divisor: Value) -> Value:
    """Return g / divisor, but 0 where g is 0, as after a clamp, even if the divisor is 0."""
    return _where(g == 0, constant_like(g, 0.0), g / divisor)


def _row_prod(g: Value, y: Value, a: Value) -> tuple[Value]:
    """Return g times the product of all other elements, also if elements are 0."""
    zero = a == 0
    zeros = row_sum(zero.astype(g.dtype))
    others = row_prod(_where(zero, constant_like(a, 1.0), a))
    single_zero = _where(zero, others, constant_like(g, 0.0))
    return (g * _where(zeros == 0, y / a, _where(zeros == 1, single_zero, constant_like(g, 0.0))),)


def _row_extreme(g: Value, y: Value, a: Value) -> tuple[Value]:
    """Split the gradient among the elements that equal the extreme, or among the NaNs if there are any."""
    chosen = ((a == y) | (a != a)).astype(g.dtype)
    return (g * chosen / row_sum(chosen),)


def _pow(g: Value, y: Value, a: Value, b: Value) -> tuple[Value, Value]:
    """Differentiate a ** b, also for zero exponents and bases, whose logarithms are undefined."""
    zero = constant_like(g, 0.0)
    base = _where(b == 0, zero, g * b * np.power(a, b - 1))
    is_zero = (a == 0) & (b >= 0)
    return base, _where(is_zero, zero, g * y * np.log(_where(is_zero, constant_like(a, 1.0), a)))


ADJOINTS: Final[dict[str, Rule]] = {
    "cast": lambda g, y, a: (g.astype(a.dtype),),
    "round_bfloat16": lambda g, y, a: (g,),
    "round_float16": lambda g, y, a: (g,),
    "add": lambda g, y, a, b: (g, g),
    "sub": lambda g, y, a, b: (g, -g),
    "mul": lambda g, y, a, b: (g * b, g * a),
    "div": lambda g, y, a, b: (g / b, -(g / b) * y),
    "maximum": lambda g, y, a, b: (_selected(g, a, b, (a > b) | (a != a)), _selected(g, b, a, (b > a) | (b != b))),
    "minimum": lambda g, y, a, b: (_selected(g, a, b, (a < b) | (a != a)), _selected(g, b, a, (b < a) | (b != b))),
    "neg": lambda g, y, a: (-g,),
    "abs": lambda g, y, a: (_where(a > 0, g, _where(a < 0, -g, constant_like(g, 0.0))),),
    "sqrt": lambda g, y, a: (_over(g, y * 2),),
    "exp": lambda g, y, a: (_or_zero(g, y),),
    "expm1": lambda g, y, a: (_or_zero(g, y + 1),),
    "log": lambda g, y, a: (_over(g, a),),
    "log1p": lambda g, y, a: (_over(g, a + 1),),
    "log2": lambda g, y, a: (_over(g, a * math.log(2)),),
    "log10": lambda g, y, a: (_over(g, a * math.log(10)),),
    "sin": lambda g, y, a: (g * np.cos(a),),
    "cos": lambda g, y, a: (-g * np.sin(a),),
    "tanh": lambda g, y, a: (g * (1 - y * y),),
    "atan": lambda g, y, a: (g / (a * a + 1),),
    "erf": lambda g, y, a: (g * np.exp(-(a * a)) * (2 / math.sqrt(math.pi)),),
    "pow": _pow,
    "select": lambda g, y, c, a, b: (None, _where(c, g, constant_like(g, 0.0)), _where(c, constant_like(g, 0.0), g)),
    "row_sum": lambda g, y, a: (g,),
    "row_prod": _row_prod,
    "row_max": _row_extreme,
    "row_min": _row_extreme,
}
"""Rules by primitive: functions from the gradient of the result, the result and the operands to the gradients of the
operands. A primitive without an entry, such as floor or a comparison, is constant where it is differentiable."""


def pull_back(program: Program, operands: Sequence[Symbol], gradient: Symbol, slot: int) -> Symbol | None:
    """Return the gradient of the operand in a slot of a program; None if the one result does not depend on it.

    `operands` are the values of the loads, and `gradient` is that of the result.
    """
    values: list[Value] = []
    varies: list[bool] = []
    depends: list[bool] = []
    builder = gradient.builder
    for primitive, arguments, dtype, value in program.instructions:
        load = primitive == "load"
        parts = [values[argument] for argument in arguments]
        values.append(operands[value] if load else builder.emit(primitive, parts, dtype, value))
        varies.append(
            load or primitive == "index" or (not PRIMITIVES[primitive].reduces and any(varies[i] for i in arguments))
        )
        depends.append((load and value == slot) or any(depends[i] for i in arguments))
    (result,) = program.outputs
    gradients: dict[int, Value] = {result: gradient}
    slot_gradient: Value | None = None
    for index in range(result, -1, -1):
        value_gradient = gradients.pop(index, None)
        if value_gradient is None or not depends[index]:
            continue
        primitive, arguments, _, value = program.instructions[index]
        if primitive == "load":
            slot_gradient = value_gradient
        rule = ADJOINTS.get(primitive)
        if rule is None:
            continue
        parts = [values[argument] for argument in arguments]
        for argument, part in zip(arguments, rule(value_gradient, values[index], *parts), strict=True):
            if part is None or not depends[argument] or not part.dtype.startswith("float"):
                continue
            if primitive == "sqrt" and not varies[index]:  # The norm of a row of zeros has gradient 0, as in PyTorch.
                part = _where(values[index] == 0, constant_like(part, 0.0), part)
            if not varies[argument] and (varies[index] or PRIMITIVES[primitive].reduces):
                part = row_sum(part)
            gradients[argument] = gradients[argument] + part if argument in gradients else part
    return slot_gradient
