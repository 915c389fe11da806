"""Gradients of recurrences. One op computes the gradients of all gates; all others are products with these."""

from __future__ import annotations

from typing import Any, Final

from npu_tensor import ops
from npu_tensor.autograd.structured import RULES, Recording
from npu_tensor.autograd.transforms import vjp
from npu_tensor.functions.shape import cat
from npu_tensor.tensor import Tensor

_BACKWARD: Final[dict[str, Any]] = {"lstm": ops.lstm_backward, "gru": ops.gru_backward, "rnn": ops.rnn_backward}


def _changes(of: Recording) -> Tensor:
    """Return the result of the gradient op."""
    call = of.call
    attributes: dict[str, Any] = dict(call.attributes)
    values: Any = of.result
    if not attributes.pop("gates", True):  # The op was recorded while no gradient was to be expected.
        values = call.op.record(*of.operands, **attributes, gates=True)
    changes: Tensor = _BACKWARD[call.op.name](of.gradient, values, *of.operands, **attributes)
    return changes


def _recurrence(of: Recording, number: int) -> Tensor:
    """Return the gradient of `products`, of `weight`, of `bias`, of `hidden` or of `cell`."""
    name, reverse = of.call.op.name, of.call.attributes["reverse"]
    products, weight, _, hidden, *_ = of.operands
    if not of.shared:
        of.shared["changes"] = _changes(of)
    changes = of.shared["changes"]
    steps, batch, rows = products.shape
    size = products.numel()
    start = size if name == "gru" else 0
    carried, own = changes[start + size :], changes[start : start + size].reshape(steps, batch, rows)
    if number == 0:
        result = changes[:size].reshape(steps, batch, rows)
    elif number == 1:
        states, first = of.result[0], hidden.to(of.result.dtype).unsqueeze(0)
        before = cat([states[1:], first] if reverse else [first, states[:-1]])
        result = own.reshape(-1, rows).T @ before.reshape(-1, weight.shape[1])
    elif number == 2:
        result = own.sum((0, 1))
    elif number == 3:
        result = own[-1 if reverse else 0] @ weight.to(own.dtype)
        result = result + carried.reshape(*hidden.shape) if name == "gru" else result
    else:
        result = carried.reshape(*hidden.shape)
    return result.to(of.spec(number).dtype)


def _gradient(of: Recording, number: int) -> Tensor:
    """Return the gradient of an operand of a gradient op, from its body recorded on tensors.

    The states are a function of the operands of the recurrence, and constant beside them.
    """
    gradient, _, *operands = of.operands
    if number == 1:
        return of.zeros(1)
    if not of.shared:
        forward = ops.OPS[of.call.op.name.removesuffix("_backward")]
        with_gates = {"gates": True} if "gates" in {each.name for each in forward.attributes} else {}

        def composite(gradient: Tensor, *operands: Tensor) -> Any:
            values = forward.body(*operands, **of.call.attributes, **with_gates)
            return of.call.op.body(gradient, values, *operands, **of.call.attributes)

        _, pulled_back = vjp(composite, gradient, *operands)
        for place, each in enumerate(pulled_back(of.gradient)):
            of.shared[place and place + 1] = each
    return of.shared[number]


RULES.update(dict.fromkeys(_BACKWARD, _recurrence))
RULES.update(dict.fromkeys((f"{name}_backward" for name in _BACKWARD), _gradient))
