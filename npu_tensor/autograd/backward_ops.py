"""For each operand of an element-wise or row-wise op an op that computes its gradient, made when it is first needed.

    backward(mul, 0)        # mul_backward_0(input, other, gradient, /): gradient * other

Its body runs the reverse pass over the op's program, so its own program is fused, compiled, predicted and
differentiated as that of any op.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from npu_tensor.autograd.adjoints import pull_back
from npu_tensor.ops.declare import Op, Operand, Resolution
from npu_tensor.ops.expression import Program, ProgramBuilder, Symbol
from npu_tensor.ops.rows import constant_like
from npu_tensor.runtime.reference import evaluate
from npu_tensor.spec import Spec

__all__ = ["backward"]


@cache
def backward(op: Op, number: int) -> Op:
    """The op from all operands of `op` and the gradient of its result to the gradient of operand `number`.

    Its attributes are those of the Call. The gradient that it takes has the extents of the operands of a row op, each
    dimension that was reduced with extent 1. The gradient that it gives has the extents of all operands, broadcast.
    """
    gradient = "gradient" * (1 + sum(name.startswith("gradient") for name in op.operands))  # of a gradient
    arguments = ", ".join((*op.operands, gradient))
    names = ", ".join((arguments, "/", *(attribute.name for attribute in op.attributes)))
    attributes = ", ".join(f"{attribute.name}={attribute.name}" for attribute in op.attributes)
    namespace: dict[str, Any] = {"run": _body(op, number)}
    name = f"{op.name}_backward_{number}"
    exec(f"def {name}({names}):\n    return run(({arguments},), dict({attributes}))", namespace)
    body = namespace[name]
    body.__doc__ = f"The gradient of operand {number} of {op.name}, before it is summed over what was broadcast."
    return Op(body, kind=op.kind, rule=_rule(op, number), public=False)


def _rule(op: Op, number: int) -> Callable[[tuple[Operand, ...], dict[str, Any]], Resolution]:
    def rule(operands: tuple[Operand, ...], attributes: dict[str, Any]) -> Resolution:
        *own, _ = operands
        forward = op.rule(tuple(own), attributes)
        wanted = own[number]
        assert isinstance(wanted, Spec)
        shape = np.broadcast_shapes(*(operand.shape for operand in own if isinstance(operand, Spec)))
        registers = (*forward.registers, forward.spec.dtype.register)
        return Resolution(Spec.of(shape, wanted.dtype), registers, forward.attributes, forward.dims)

    return rule


def _body(op: Op, number: int) -> Callable[[Sequence[Any], dict[str, Any]], Any]:
    def body(operands: Sequence[Any], attributes: dict[str, Any]) -> Any:
        *own, gradient = operands
        if not isinstance(gradient, Symbol):
            program = _recorded(lambda *symbols: body(symbols, attributes), [x.dtype.name for x in operands])
            return evaluate(program, list(operands), own[0].shape[-1] if own[0].ndim else 1)[0]
        forward = _recorded(lambda *x: op.body(*x, **attributes).astype(gradient.dtype), [x.dtype for x in own])
        result = pull_back(forward, own, gradient, number)
        return constant_like(own[number], 0.0) if result is None else result

    return body


def _recorded(body: Callable[..., Symbol], dtypes: Sequence[str]) -> Program:
    builder = ProgramBuilder()
    return builder.program([body(*(builder.load(slot, dtype) for slot, dtype in enumerate(dtypes)))])
