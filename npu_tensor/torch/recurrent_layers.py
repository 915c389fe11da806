"""Recurrent layers as single operators, also in training, where AOTAutograd would unroll their steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import fx

torch._dynamo.config.allow_rnn = True  # Otherwise Dynamo breaks its graph at each of these layers.

KINDS: Final = ("gru", "lstm", "rnn_relu", "rnn_tanh")
"""Functions of PyTorch's layers."""


def _run(
    kind: str,
    x: torch.Tensor,
    states: Sequence[torch.Tensor],
    weights: Sequence[torch.Tensor],
    bias: bool,
    layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> list[torch.Tensor]:
    """Return the result of a layer, and its last states, contiguous as `_shapes` promises."""
    hidden = states if kind == "lstm" else states[0]
    results = getattr(torch, kind)(x, hidden, weights, bias, layers, 0.0, False, bidirectional, batch_first)
    return [each.contiguous() for each in results]


def _shapes(
    kind: str, x: Any, states: Any, weights: Any, bias: bool, layers: int, bidirectional: bool, batch_first: bool
) -> list[torch.Tensor]:
    size = weights[1].shape[-1] * (1 + bidirectional)
    return [x.new_empty(*x.shape[:2], size), *map(_contiguous_like, states)]


def _contiguous_like(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def _run_backward(
    gradients: Sequence[torch.Tensor],
    kind: str,
    x: torch.Tensor,
    states: Sequence[torch.Tensor],
    weights: Sequence[torch.Tensor],
    bias: bool,
    layers: int,
    bidirectional: bool,
    batch_first: bool,
) -> list[torch.Tensor]:
    """Return the gradients of the operand, the states and the weights."""
    count = 1 + len(states)
    leaves = [each.detach().requires_grad_() for each in (x, *states, *weights)]
    with torch.enable_grad():
        results = _run(kind, leaves[0], leaves[1:count], leaves[count:], bias, layers, bidirectional, batch_first)
        return [each.contiguous() for each in torch.autograd.grad(results, leaves, gradients)]


def _gradient_shapes(gradients: Any, kind: str, x: Any, states: Any, weights: Any, *_: Any) -> list[torch.Tensor]:
    return [*map(_contiguous_like, (x, *states, *weights))]


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    kind, x, states, weights, *ctx.attributes = inputs
    ctx.kind, ctx.count = kind, len(states)
    ctx.save_for_backward(x, *states, *weights)


def _differentiate(ctx: Any, gradients: Sequence[torch.Tensor]) -> Any:
    x, *rest = ctx.saved_tensors
    states, weights = rest[: ctx.count], rest[ctx.count :]
    of_x, *others = _backward(gradients, ctx.kind, x, states, weights, *ctx.attributes)
    return None, of_x, others[: ctx.count], others[ctx.count :], None, None, None, None


_forward = torch.library.custom_op("npu_tensor::recurrent", _run, mutates_args=())
_forward.register_fake(_shapes)
_forward.register_autograd(_differentiate, setup_context=_save)
_backward = torch.library.custom_op("npu_tensor::recurrent_backward", _run_backward, mutates_args=())
_backward.register_fake(_gradient_shapes)


def keep_recurrent_layers(graph: fx.GraphModule) -> None:
    """Replace the recurrent layers of a graph of Dynamo by single operators. AOTAutograd would unroll their steps.

    Layers that draw dropout masks, project their states or take packed sequences stay as they are, and so do all layers
    under autocast, which converts what they read.
    """
    casts = (node.target is torch.amp.autocast_mode._enter_autocast for node in graph.graph.nodes)
    if torch.is_autocast_enabled("cpu") or any(casts):
        return
    functions = {getattr(torch, kind): kind for kind in KINDS}
    for node in graph.graph.nodes:
        if node.op != "call_function" or (kind := functions.get(node.target)) is None or len(node.args) != 9:
            continue
        x, states, weights, bias, layers, dropout, training, bidirectional, batch_first = node.args
        per_layer = (4 if bias else 2) * (1 + bidirectional)
        if isinstance(bias, bool) and len(weights) == layers * per_layer and not (dropout and training):
            node.args = (
                kind, x, list(states) if kind == "lstm" else [states], list(weights), bias, layers, bidirectional,
                batch_first,
            )  # fmt: skip
            node.target = torch.ops.npu_tensor.recurrent.default
    graph.recompile()
