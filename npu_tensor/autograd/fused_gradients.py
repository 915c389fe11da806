"""Gradients of attention and recurrences, which one op computes for several operands.

Where there is no such op, as for second derivatives, a composite form of the op is differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from npu_tensor import ops
from npu_tensor.autograd.structured import RULES, Recording
from npu_tensor.autograd.transforms import vjp
from npu_tensor.functions.dot_product_attention import attention_by_products
from npu_tensor.functions.register import wide
from npu_tensor.functions.shape import cat
from npu_tensor.tensor import Tensor


def _of_composite(of: Recording, number: int, composite: Callable[..., Any], operands: Mapping[int, Tensor]) -> Tensor:
    """Return the gradient of an operand of `composite`, which computes the result from these operands by number."""
    if number not in of.shared:
        _, pulled_back = vjp(composite, *operands.values())
        of.shared.update(zip(operands, pulled_back(of.gradient), strict=True))
    return of.shared[number]


# --- attention


def _by_products(of: Recording, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Record the result of `attention` with the scores as a tensor."""
    return attention_by_products(query, key, value, mask, enable_gqa=True, **of.call.attributes).transpose(1, 2)


def _attention(of: Recording, number: int) -> Tensor:
    """Return the gradient of query, key, value or mask."""
    spec, settings = of.spec(number), {**of.call.attributes}
    query, key, value, *masks = of.operands
    if number > 2:
        return _of_composite(of, number, lambda mask: _by_products(of, query, key, value, mask), {3: masks[0]})
    if settings.pop("softcap"):
        return _of_composite(of, number, lambda *each: _by_products(of, *each, *masks), {0: query, 1: key, 2: value})
    if "changes" not in of.shared:
        gradient = wide(of.gradient)
        delta = (gradient * wide(of.result)).sum(-1)
        of.shared["changes"] = ops.attention_backward(gradient, delta, *of.operands, **settings)
    sizes = [of.spec(operand).size for operand in range(number + 1)]
    batch, heads, tokens, features = spec.shape
    own = of.shared["changes"][sum(sizes[:number]) : sum(sizes)]
    return own.reshape(batch, tokens, heads, features).transpose(1, 2).to(spec.dtype)


def _attention_backward(of: Recording, number: int) -> Tensor:
    """Return the gradient of an operand of `attention_backward`.

    The sums are a function of the other operands, and constant beside them.
    """
    gradient, _, query, key, value, *masks = of.operands
    if number == 1:
        return of.zeros(1)
    if number > 4:
        raise NotImplementedError("a mask in its second derivative")

    def composite(gradient: Tensor, *operands: Tensor) -> Tensor:
        _, pulled_back = vjp(lambda *each: _by_products(of, *each, *masks), *operands)
        parts = pulled_back(gradient.to(operands[0].dtype))
        return cat([wide(part).transpose(1, 2).reshape(-1) for part in parts])

    return _of_composite(of, number, composite, {0: gradient, 2: query, 3: key, 4: value})


# --- recurrences

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
    if "changes" not in of.shared:
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


def _recurrence_backward(of: Recording, number: int) -> Tensor:
    """Return the gradient of an operand of a gradient op, from its body recorded on tensors.

    The states are a function of the operands of the recurrence, and constant beside them.
    """
    if number == 1:
        return of.zeros(1)
    forward = ops.OPS[of.call.op.name.removesuffix("_backward")]
    with_gates = {"gates": True} if "gates" in {each.name for each in forward.attributes} else {}

    def composite(gradient: Tensor, *operands: Tensor) -> Any:
        values = forward.body(*operands, **of.call.attributes, **with_gates)
        return of.call.op.body(gradient, values, *operands, **of.call.attributes)

    operands = {place: each for place, each in enumerate(of.operands) if place != 1}
    return _of_composite(of, number, composite, operands)


RULES["attention"] = _attention
RULES["attention_backward"] = _attention_backward
RULES.update(dict.fromkeys(_BACKWARD, _recurrence))
RULES.update(dict.fromkeys((f"{name}_backward" for name in _BACKWARD), _recurrence_backward))
