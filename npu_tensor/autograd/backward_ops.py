"""For each operand of an element-wise or row-wise op an op that computes its gradient, made when it is first needed.

    backward_op(call, 0)        # of x * y: mul_backward_0(other, gradient, /, of): gradient * other

Its body runs the reverse pass over the op's program, so its own program is fused, compiled, predicted and
differentiated as that of any op. It takes the operands that the derivative needs, and no others. A few derivatives are
short formulas of the result, which is read by the next op and there anyway; then what it was computed from need not be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from npu_tensor.autograd.adjoints import pull_back
from npu_tensor.ops.declare import Call, Op, Operand, Resolution
from npu_tensor.ops.expression import Program, ProgramBuilder, Symbol, as_parameter
from npu_tensor.ops.rows import constant_like, row_sum
from npu_tensor.runtime.reference import evaluate
from npu_tensor.spec import Spec

__all__ = ["Backward", "backward_op"]

_where: Any = np.where

_FROM_RESULT: Final[dict[str, Callable[[Any, Any], Symbol]]] = {
    "relu": lambda y, g: _where(y <= 0, constant_like(g, 0.0), g),
    "softmax": lambda y, g: (g - row_sum(g * y)) * y,
    "log_softmax": lambda y, g: g - np.exp(y) * row_sum(g),
}
"""By op, the gradient of the operand from the result and its gradient."""


class Backward(NamedTuple):
    """An op for the gradient of an operand, what it takes before the gradient of the result, and its attributes.

    used: positions of operands of the call; that behind the last one is the result. The gradient of the result of a row
    op has extent 1 in each dimension that was reduced. The gradient that the op gives has the extents of all operands,
    broadcast.
    """

    op: Op
    used: tuple[int, ...]
    attributes: tuple[Any, ...]


@lru_cache(maxsize=4096)
def backward_op(call: Call, number: int) -> Backward | None:
    """For the gradient of operand `number` of a call of a map or row op; None if it is that of the result."""
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
    # The first operand of a row op has the extents of its rows, as the result has from which a gradient is computed.
    whole = call.op.kind == "row" and call.op.name not in _FROM_RESULT
    used = tuple(n for n in range(count) if n in loads or (n == 0 and whole))
    return Backward(_made(call.op, number, used), used, (*attributes, call.operands))


@cache
def _made(op: Op, number: int, used: tuple[int, ...]) -> Op:
    """of: the operands of the call, an attribute."""
    gradient = "gradient" * (1 + sum(name.startswith("gradient") for name in op.operands))  # of a gradient
    of = "of" * (1 + sum(attribute.name.startswith("of") for attribute in op.attributes))
    arguments = ", ".join((*((*op.operands, "result")[n] for n in used), gradient))
    names = ", ".join((arguments, "/", *(attribute.name for attribute in op.attributes), of))
    attributes = ", ".join(f"{attribute.name}={attribute.name}" for attribute in op.attributes)
    namespace: dict[str, Any] = {"run": _body(op, number, used)}
    name = f"{op.name}_backward_{number}"
    exec(f"def {name}({names}):\n    return run(({arguments},), dict({attributes}), {of})", namespace)
    body = namespace[name]
    body.__doc__ = f"The gradient of operand {number} of {op.name}, before it is summed over what was broadcast."

    def rule(operands: tuple[Operand, ...], attributes: dict[str, Any]) -> Resolution:
        own = {key: value for key, value in attributes.items() if key != of}
        forward, wanted = op.rule(attributes[of], own), attributes[of][number]
        shapes = [operand.shape for operand in attributes[of] if isinstance(operand, Spec)]
        shape = np.broadcast_shapes(*shapes, *(() if forward.reduces else (forward.spec.shape,)))
        result = forward.spec.dtype.register
        registers = (*((*forward.registers, result)[n] for n in used), result)
        return Resolution(Spec.of(shape, wanted.dtype), registers, attributes, forward.dims)

    return Op(body, kind=op.kind, rule=rule, public=False)


def _body(op: Op, number: int, used: tuple[int, ...]) -> Callable[..., Any]:
    def body(operands: Sequence[Any], attributes: dict[str, Any], of: tuple[Operand, ...]) -> Any:
        if not isinstance(operands[-1], Symbol):
            program = _recorded(lambda *x: body(x, attributes, of), [x.dtype.name for x in operands])
            return evaluate(program, list(operands), operands[0].shape[-1] if operands[0].ndim else 1)[0]
        *given, gradient = operands
        # What the derivative does not need stands for itself in its program and goes with the rest of it.
        own = [given[used.index(n)] if n in used else gradient for n in range(len(op.operands) + 1)]
        return _derivative(op, attributes, own, gradient, number)

    return body


def _derivative(op: Op, attributes: dict[str, Any], own: Sequence[Symbol], gradient: Symbol, number: int) -> Symbol:
    """own: what stands for the operands and the result."""
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
