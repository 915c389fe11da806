"""Gradients of attention. One op computes those of query, key and value without stored scores."""

from __future__ import annotations

from npu_tensor import ops
from npu_tensor.autograd.structured import RULES, Recording
from npu_tensor.autograd.transforms import vjp
from npu_tensor.functions.dot_product_attention import attention_by_products
from npu_tensor.functions.neural import wide
from npu_tensor.functions.shape import cat
from npu_tensor.tensor import Tensor


def _by_products(of: Recording, *operands: Tensor) -> Tensor:
    """Record the result of `attention` with the scores as a tensor."""
    query, key, value, *masks = operands
    mask = masks[0] if masks else None
    return attention_by_products(query, key, value, mask, enable_gqa=True, **of.call.attributes).transpose(1, 2)


def _attention(of: Recording, number: int) -> Tensor:
    """Return the gradient of query, key, value or mask."""
    spec, settings = of.spec(number), {**of.call.attributes}
    if settings.pop("softcap"):
        if not of.shared:
            _, pulled_back = vjp(lambda *operands: _by_products(of, *operands), *of.operands)
            of.shared.update(enumerate(pulled_back(of.gradient)))
        return of.shared[number]
    if number > 2:
        _, pulled_back = vjp(lambda mask: _by_products(of, *of.operands[:3], mask), of.operands[3])
        of_mask: Tensor = pulled_back(of.gradient)[0]
        return of_mask
    if not of.shared:
        gradient = wide(of.gradient)
        delta = (gradient * wide(of.result)).sum(-1)
        of.shared["changes"] = ops.attention_backward(gradient, delta, *of.operands, **settings)
    sizes = [of.spec(operand).size for operand in range(number + 1)]
    batch, heads, tokens, features = spec.shape
    own = of.shared["changes"][sum(sizes[:number]) : sum(sizes)]
    return own.reshape(batch, tokens, heads, features).transpose(1, 2).to(spec.dtype)


def _backward(of: Recording, number: int) -> Tensor:
    """Return the gradient of an operand of `attention_backward`.

    The sums are a function of the other operands, and constant beside them.
    """
    gradient, _, *operands = of.operands
    if number == 1:
        return of.zeros(1)
    if number > 4:
        raise NotImplementedError("a mask in its second derivative")
    if not of.shared:
        masks = operands[3:]

        def composite(gradient: Tensor, *operands: Tensor) -> Tensor:
            _, pulled_back = vjp(lambda *each: _by_products(of, *each, *masks), *operands)
            parts = pulled_back(gradient.to(operands[0].dtype))
            return cat([wide(part).transpose(1, 2).reshape(-1) for part in parts])

        _, pulled_back = vjp(composite, gradient, *operands[:3])
        for place, each in enumerate(pulled_back(of.gradient)):
            of.shared[place and place + 1] = each
    return of.shared[number]


RULES["attention"] = _attention
RULES["attention_backward"] = _backward
