"""Gradient ops of element-wise and row-wise ops: one per operand, created at first use.

    backward_op(call, 0)        # for x * y: mul_backward_0(other, gradient, /, of): gradient * other

The body runs the reverse pass over the op's program. So its own program is fused, compiled, predicted and
differentiated as that of any op. It takes only the operands that the derivative needs. A few derivatives are short
formulas of the result, which exists anyway because the next op reads it; then the operands need not be kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from inspect import Parameter
from typing import Any, Final

import numpy as np

from npu_tensor._util.cache_sizes import CALLS
from npu_tensor.autograd.adjoints import pull_back
from npu_tensor.ops.declare import Attribute, Call, Op, Operand, Resolution
from npu_tensor.ops.expression import Program, ProgramBuilder, Symbol, as_parameter
from npu_tensor.ops.rows import constant_like, row_sum
from npu_tensor.runtime.reference import evaluate
from npu_tensor.spec import Spec

_where: Any = np.where

_FROM_RESULT: Final[dict[str, Callable[[Any, Any], Symbol]]] = {
    "relu": lambda y, g: _where(y <= 0, constant_like(g, 0.0), g),
    "softmax": lambda y, g: (g - row_sum(g * y)) * y,
    "log_softmax": lambda y, g: g - np.exp(y) * row_sum(g),
}
"""Functions from the result and its gradient to the gradient of the operand, by op."""


@dataclass(frozen=True, slots=True)
class Backward:
    """An op that computes the gradient of an operand.

    The gradient of the result of a row op has extent 1 in each reduced dimension. The gradient that the op returns has
    the broadcast extents of all operands.

    Attributes:
        op: The op. Its last operand is the gradient of the result.
        used: Positions of its other operands among the operands of the call, followed by the result.
        attributes: Attributes of the op.
    """

    op: Op
    used: tuple[int, ...]
    attributes: tuple[Any, ...]


@lru_cache(maxsize=CALLS)
def backward_op(call: Call, number: int) -> Backward | None:
    """Return the op for the gradient of operand `number` of a map or row op; None if it equals that of the result."""
    attributes = tuple([call.attributes[attribute.name] for attribute in call.op.attributes])
    registers = [register or "float32" for register in call.registers]
    count, result = len(registers) + 1, call.spec.dtype.register
    every = _recorded(
        lambda *x: _derivative(call.op, call.attributes, x[:count], x[count], number), [*registers, result, result]
    )
    loads = {step.value for step in every.instructions if step.primitive == "load"}
    operand = call.operands[number]
    assert isinstance(operand, Spec)
    if len(every.instructions) == 1 and loads == {count} and call.op.kind == "map" and operand.dtype is call.spec.dtype:
        return None
    # The rows of a gradient have the extents of the first operand, or of the result if it is computed from that.
    whole = call.op.kind == "row" and call.op.name not in _FROM_RESULT
    used = tuple(n for n in range(count) if n in loads or (n == 0 and whole))
    return Backward(_gradient_op(call.op, number, used), used, (*attributes, call.operands))


@cache
def _gradient_op(op: Op, number: int, used: tuple[int, ...]) -> Op:
    """Declare the gradient op. Its attributes are those of `op`, and `of`: the operands of the call."""
    # Gradient ops of gradient ops repeat the names.
    gradient = "gradient" * (1 + sum(name.startswith("gradient") for name in op.operands))
    of = "of" * (1 + sum(attribute.name.startswith("of") for attribute in op.attributes))
    operands = (*((*op.operands, "result")[n] for n in used), gradient)

    def body(*arguments: Any, **attributes: Any) -> Any:
        if not isinstance(arguments[-1], Symbol):
            program = _recorded(lambda *x: body(*x, **attributes), [x.dtype.name for x in arguments])
            return evaluate(program, list(arguments), arguments[0].shape[-1] if arguments[0].ndim else 1)[0]
        *given, symbol = arguments
        # The gradient stands in for unused operands; their part of the program is dropped.
        own = [given[used.index(n)] if n in used else symbol for n in range(len(op.operands) + 1)]
        return _derivative(op, attributes, own, symbol, number)

    body.__name__ = f"{op.name}_backward_{number}"
    body.__doc__ = f"Compute the gradient of operand {number} of {op.name} in the broadcast shape."

    def rule(operands: tuple[Operand, ...], attributes: dict[str, Any]) -> Resolution:
        own = {key: value for key, value in attributes.items() if key != of}
        forward, wanted = op.rule(attributes[of], own), attributes[of][number]
        shapes = [operand.shape for operand in attributes[of] if isinstance(operand, Spec)]
        shape = np.broadcast_shapes(*shapes, *(() if forward.reduces else (forward.spec.shape,)))
        result = forward.spec.dtype.register
        registers = (*((*forward.registers, result)[n] for n in used), result)
        return Resolution(Spec.of(shape, wanted.dtype), registers, attributes, forward.dims)

    kind, empty = Parameter.POSITIONAL_OR_KEYWORD, Parameter.empty
    attributes = [Attribute(each, empty, kind, "Any") for each in (*(own.name for own in op.attributes), of)]
    return Op(body, kind=op.kind, rule=rule, public=False, signature=(operands, attributes))


def _derivative(op: Op, attributes: dict[str, Any], own: Sequence[Symbol], gradient: Symbol, number: int) -> Symbol:
    """Apply the derivative to `own`, the operands and the result."""
    if op.name in _FROM_RESULT:
        return _FROM_RESULT[op.name](own[-1], gradient)
    *own, _ = own
    names = {attribute.name for attribute in op.attributes}
    named = {name: as_parameter(value) for name, value in attributes.items() if name in names}
    forward = _recorded(lambda *x: op.body(*x, **named).astype(gradient.dtype), [x.dtype for x in own])
    result = pull_back(forward, own, gradient, number)
    return constant_like(own[number], 0.0) if result is None else result


def _recorded(body: Callable[..., Symbol], dtypes: Sequence[str]) -> Program:
    builder = ProgramBuilder()
    return builder.program([body(*(builder.load(slot, dtype) for slot, dtype in enumerate(dtypes)))])
