"""Operators of ONNX on sequences: attention, rotary embeddings and recurrences."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial, reduce
from typing import Any, Final

import npu_tensor as nt
from npu_tensor import ops
from npu_tensor.errors import ArgumentError
from npu_tensor.interop.onnx_operands import Operator, array_dtype, dtype_name, padded, tensor_dtype, text_of
from npu_tensor.nn import functional
from npu_tensor.tensor import Tensor

F: Any = functional
_ops: Any = ops

# --- attention


def _heads(x: Tensor, count: int) -> Tensor:
    return x.reshape([*x.shape[:2], count, -1]).transpose(1, 2)


def _attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, past_key: Tensor | None = None,
    past_value: Tensor | None = None, lengths: Tensor | None = None, *, count: int = 1, is_causal: int = 0,
    kv_num_heads: int = 0, left_window_size: int = -1, q_num_heads: int = 0, qk_matmul_output_mode: int = 0,
    right_window_size: int = -1, scale: float | None = None, softcap: float = 0.0, softmax_precision: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    is_flat = q.ndim == 3
    if is_flat:
        q, k, v = _heads(q, q_num_heads), _heads(k, kv_num_heads), _heads(v, kv_num_heads)
    past = 0 if past_key is None else past_key.shape[2]
    if past_key is not None and past_value is not None:
        k, v = nt.cat([past_key, k], 2), nt.cat([past_value, v], 2)
    queries, keys = q.shape[2], k.shape[2]
    if mask is not None and 1 < mask.shape[-1] < keys:
        missing = keys - mask.shape[-1]
        fill = 0 if dtype_name(mask) == "bool" else -math.inf
        mask = padded(mask.to("uint8"), [0], [missing]).to("bool") if not fill else padded(mask, [0], [missing], fill)
    steps, places = nt.arange(queries).reshape(-1, 1), nt.arange(keys)
    allowed: list[Tensor] = []
    offset: Any = past if lengths is None else lengths.reshape(-1, 1, 1, 1) - queries
    if lengths is not None:
        allowed.append(places < lengths.reshape(-1, 1, 1, 1))
    ahead = 0 if is_causal else right_window_size
    simple = past == 0 and lengths is None
    if ahead >= 0 and not (is_causal and simple and mask is None and left_window_size < 0 and queries <= keys):
        allowed.append(places <= steps + offset + ahead)
    if left_window_size >= 0:
        allowed.append(places >= steps + offset - left_window_size)
    if mask is not None and dtype_name(mask) == "bool":
        allowed.append(mask)
        mask = None
    visible = reduce(operator.and_, allowed) if allowed else None
    groups = q.shape[1] // max(1, k.shape[1])
    present = k, v
    if not softcap and count < 4 and not (mask is not None and visible is not None):
        joined = visible if mask is None else mask.to(q.dtype)
        causal = bool(is_causal) and visible is None
        y = F.scaled_dot_product_attention(q, k, v, joined, 0.0, causal, scale, enable_gqa=groups > 1)
        if joined is not None:
            empty = ~visible if visible is not None else joined == -math.inf
            y = nt.where(empty.all(-1, keepdim=True), nt.zeros((), dtype=y.dtype), y)
        return _join_heads(y, is_flat), *present
    if groups > 1:
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    root = math.sqrt(q.shape[-1] ** -0.5 if scale is None else scale)
    scores = (q * root) @ (k * root).mT
    capped = nt.tanh(scores / softcap) * softcap if softcap else scores
    if visible is None and is_causal:
        visible = places <= steps
    masked = capped if mask is None else capped + mask
    if visible is not None:
        masked = nt.where(visible, masked, nt.full((), -math.inf, dtype=masked.dtype))
    exact = masked.to(tensor_dtype(array_dtype(softmax_precision))) if softmax_precision else masked
    hidden = (exact == -math.inf).all(-1, keepdim=True)
    weights = exact.softmax(-1).to(q.dtype)
    weights = nt.where(hidden, nt.zeros((), dtype=weights.dtype), weights)
    stages = scores, capped, masked, weights
    return _join_heads(weights @ v, is_flat), *present, stages[qk_matmul_output_mode]


def _join_heads(x: Tensor, is_flat: bool) -> Tensor:
    return x.transpose(1, 2).flatten(2) if is_flat else x


def _rotary_embedding(
    x: Tensor, cosine: Tensor, sine: Tensor, places: Tensor | None = None, *, interleaved: int = 0, num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Tensor:  # fmt: skip
    is_flat = x.ndim == 3
    if is_flat:
        x = _heads(x, num_heads or x.shape[-1] // (rotary_embedding_dim or 2 * cosine.shape[-1]))
    size = rotary_embedding_dim or x.shape[-1]
    rotated, rest = x[..., :size], x[..., size:]
    if places is not None:
        cosine, sine = (each[places] for each in (cosine, sine))
    cosine, sine = cosine.unsqueeze(1)[..., : size // 2], sine.unsqueeze(1)[..., : size // 2]
    if interleaved:
        a, b = rotated[..., ::2], rotated[..., 1::2]
        y = nt.stack([a * cosine - b * sine, a * sine + b * cosine], -1).flatten(-2)
    else:
        a, b = rotated[..., : size // 2], rotated[..., size // 2 :]
        y = nt.cat([a * cosine - b * sine, a * sine + b * cosine], -1)
    return _join_heads(nt.cat([y, rest], -1) if rest.shape[-1] else y, is_flat)


def _rotary_of_microsoft(x: Tensor, places: Tensor, cosine: Tensor, sine: Tensor, **attributes: Any) -> Tensor:
    if math.prod(places.shape) == 1:  # The position of the first token.
        places = places.reshape(1, 1) + nt.arange(x.shape[-2]).unsqueeze(0)
    names = ("interleaved", "num_heads", "rotary_embedding_dim")
    return _rotary_embedding(x, cosine, sine, places, **{key: attributes[key] for key in names if key in attributes})


def _group_query_attention(
    q: Tensor, k: Tensor | None, v: Tensor | None, past_key: Tensor | None, past_value: Tensor | None, last: Tensor,
    total: Any = None, cosine: Tensor | None = None, sine: Tensor | None = None, *, count: int = 1,
    do_rotary: int = 0, kv_num_heads: int, local_window_size: int = -1, num_heads: int, rotary_interleaved: int = 0,
    scale: float = 0.0, softcap: float = 0.0, smooth_softmax: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Attend to the present and to past keys. `last` is the position of the last valid key of each sequence."""
    if smooth_softmax:
        raise ArgumentError("smooth_softmax is not supported")
    if k is None or v is None:  # Packed queries, keys and values.
        size = q.shape[-1] // (num_heads + 2 * kv_num_heads)
        q, k, v = nt.split(q, [num_heads * size, kv_num_heads * size, kv_num_heads * size], -1)
    past = 0 if past_key is None else past_key.shape[2]
    if do_rotary and cosine is not None and sine is not None:
        places = (nt.arange(q.shape[1]) + past).unsqueeze(0)
        turn = partial(_rotary_embedding, cosine=cosine, sine=sine, places=places, interleaved=rotary_interleaved)
        q, k = turn(q, num_heads=num_heads), turn(k, num_heads=kv_num_heads)
    valid = (nt.arange(past + q.shape[1]) <= last.reshape(-1, 1)).reshape(-1, 1, 1, past + q.shape[1])
    return _attention(
        q, k, v, valid, past_key, past_value,
        is_causal=1, kv_num_heads=kv_num_heads, q_num_heads=num_heads, scale=scale or None, softcap=softcap,
        left_window_size=local_window_size - 1 if local_window_size > 0 else -1,
    )  # fmt: skip


# --- recurrences

_GATES: Final = {
    "RNN": (1, ("Tanh",), [0]),
    "GRU": (3, ("Sigmoid", "Tanh"), [1, 0, 2]),
    "LSTM": (4, ("Sigmoid", "Tanh", "Tanh"), [0, 2, 3, 1]),
}
"""For each kind of layer: its gates, usual activations, and the order of the gates in PyTorch."""

ACTIVATIONS: Final[dict[str, Callable[..., Tensor]]] = {
    "Elu": lambda x, *, alpha=1.0: F.elu(x, alpha),
    "HardSigmoid": lambda x, *, alpha=0.2, beta=0.5: (x * alpha + beta).clamp(0, 1),
    "LeakyRelu": lambda x, *, alpha=0.01: F.leaky_relu(x, alpha),
    "Relu": nt.relu,
    "Sigmoid": nt.sigmoid,
    "Softplus": nt.softplus,
    "Softsign": nt.softsign,
    "Tanh": nt.tanh,
    "ThresholdedRelu": lambda x, *, alpha=1.0: nt.where(x > alpha, x, 0),
}
"""Activations that are also operators."""

_ACTIVATIONS: Final[dict[str, Callable[..., Tensor]]] = {
    **ACTIVATIONS,
    "Affine": lambda x, alpha=1.0, beta=0.0: x * alpha + beta,
    "ScaledTanh": lambda x, alpha=1.0, beta=1.0: alpha * nt.tanh(x * beta),
}


def _recurrence(
    kind: str, x: Tensor, weight: Tensor, weight_h: Tensor, bias: Tensor | None = None, lengths: Tensor | None = None,
    hidden: Tensor | None = None, cell: Tensor | None = None, peepholes: Tensor | None = None, *, count: int = 1,
    activation_alpha: Any = (), activation_beta: Any = (), activations: Any = None, clip: float = 0.0,
    direction: Any = "forward", hidden_size: int = 0, input_forget: int = 0, layout: int = 0,
    linear_before_reset: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    gates, usual, order = _GATES[kind]
    x = x.transpose(0, 1) if layout else x
    steps, batch, directions, size = x.shape[0], x.shape[1], weight.shape[0], weight_h.shape[-1]
    names = [text_of(each) for each in activations] if activations else [*usual] * directions
    functions = _activation_functions(names, activation_alpha, activation_beta)
    special = clip or input_forget or peepholes is not None or lengths is not None
    usual_cell = not special and (kind != "GRU" or linear_before_reset)
    results, ends, cells = [], [], []
    for d in range(directions):
        reverse = d == 1 or text_of(direction) == "reverse"
        first, second = (None, None) if bias is None else nt.split(bias[d], gates * size)
        starts = [
            nt.zeros(batch, size, dtype=x.dtype) if each is None else (each.transpose(0, 1) if layout else each)[d]
            for each in ((hidden, cell) if kind == "LSTM" else (hidden,))
        ]
        own = names[d * len(usual) : (d + 1) * len(usual)]
        products = F.linear(x, weight[d], first)
        second = nt.zeros(gates * size, dtype=x.dtype) if second is None else second
        if usual_cell and (tuple(own) == usual or (kind == "RNN" and own == ["Relu"])):
            products, own_weight, second = (
                nt.cat([nt.split(each, size, dim)[gate] for gate in order], dim)
                for each, dim in ((products, -1), (weight_h[d], 0), (second, 0))
            )
            keep = nt.is_grad_enabled() and any(e.requires_grad for e in (products, own_weight, second, *starts))
            keywords: Any = {"nonlinearity": own[0].lower()} if kind == "RNN" else {"gates": keep}
            run = {"RNN": _ops.rnn, "GRU": _ops.gru, "LSTM": _ops.lstm}[kind]
            planes = run(products, own_weight, second, *starts, reverse=reverse, **keywords)
            last = 0 if reverse else steps - 1
            results.append(planes[0])
            ends.append(planes[0, last])
            cells.append(planes[1, last] if kind == "LSTM" else planes[0, last])
            continue
        states: list[Tensor] = starts
        rows: list[Any] = [None] * steps
        at = functions[d * len(usual) : (d + 1) * len(usual)]
        peep = None if peepholes is None else nt.split(peepholes[d], size)
        for step in reversed(range(steps)) if reverse else range(steps):
            new = _CELLS[kind](
                nt.split(products[step], size, -1), weight_h[d], nt.split(second, size), states, at, peep,
                clip, bool(input_forget), bool(linear_before_reset),
            )  # fmt: skip
            if lengths is not None:
                runs = (lengths > step).reshape(-1, 1)
                rows[step] = nt.where(runs, new[0], new[0] * 0)
                new = [nt.where(runs, after, before) for after, before in zip(new, states, strict=True)]
            else:
                rows[step] = new[0]
            states = new
        results.append(nt.stack(rows))
        ends.append(states[0])
        cells.append(states[-1])
    axes = ((1, 0), (2, 1), (1, 1)) if layout else ((0, 0), (1, 0), (0, 0))
    y = nt.stack(results, 1)
    y = y.permute(2, 0, 1, 3) if layout else y
    states_at = 1 if axes[0][0] else 0
    return y, nt.stack(ends, states_at), nt.stack(cells, states_at)


def _activation_functions(names: list[str], alphas: Any, betas: Any) -> list[Callable[[Tensor], Tensor]]:
    known = {name.lower(): name for name in _ACTIVATIONS}
    alpha, beta = iter(alphas), iter(betas)
    functions: list[Callable[[Tensor], Tensor]] = []
    for name in names:
        if name.lower() not in known:
            raise ArgumentError(f"activation {name!r} is not known; choose from {', '.join(_ACTIVATIONS)}")
        name = known[name.lower()]
        keywords = {}
        if name not in ("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh"):
            keywords = {key: value for key, value in (("alpha", next(alpha, None)),) if value is not None}
        if name in ("Affine", "HardSigmoid", "ScaledTanh") and (value := next(beta, None)) is not None:
            keywords["beta"] = value
        functions.append(partial(_ACTIVATIONS[name], **keywords))
    return functions


def _clip(x: Tensor, clip: float) -> Tensor:
    return x.clamp(-clip, clip) if clip else x


def _rnn_cell(
    x: Any, w: Tensor, b: Any, states: list[Tensor], at: Any, peep: Any, clip: float, *_: bool
) -> list[Tensor]:
    return [at[0](_clip(x[0] + F.linear(states[0], w, b[0]), clip))]


def _gru_cell(
    x: Any, w: Tensor, b: Any, states: list[Tensor], at: Any, peep: Any, clip: float, _: bool, linear_before_reset: bool
) -> list[Tensor]:
    (h,), parts = states, nt.split(w, w.shape[-1])
    update = at[0](_clip(x[0] + F.linear(h, parts[0], b[0]), clip))
    reset = at[0](_clip(x[1] + F.linear(h, parts[1], b[1]), clip))
    content = reset * F.linear(h, parts[2], b[2]) if linear_before_reset else F.linear(reset * h, parts[2], b[2])
    new = at[1](_clip(x[2] + content, clip))
    return [(1 - update) * new + update * h]


def _lstm_cell(
    x: Any, w: Tensor, b: Any, states: list[Tensor], at: Any, peep: Any, clip: float, input_forget: bool, _: bool
) -> list[Tensor]:
    h, c = states
    products = nt.split(F.linear(h, w), w.shape[-1], -1)
    enter, leave, forget, content = (each + more + bias for each, more, bias in zip(x, products, b, strict=True))
    if peep is not None:
        enter, forget = enter + peep[0] * c, forget + peep[2] * c
    enter = at[0](_clip(enter, clip))
    forget = 1 - enter if input_forget else at[0](_clip(forget, clip))
    c = forget * c + enter * at[1](_clip(content, clip))
    leave = at[0](_clip(leave if peep is None else leave + peep[1] * c, clip))
    return [leave * at[2](c), c]


_CELLS: Final[dict[str, Callable[..., list[Tensor]]]] = {"RNN": _rnn_cell, "GRU": _gru_cell, "LSTM": _lstm_cell}


SEQUENCE_OPERATORS: Final[dict[str, Operator]] = {
    **{name: Operator(partial(_recurrence, name), counts=True) for name in _GATES},
    "Attention": Operator(_attention, counts=True),
    "RotaryEmbedding": Operator(_rotary_embedding),
    "com.microsoft.GroupQueryAttention": Operator(_group_query_attention, counts=True),
    "com.microsoft.RotaryEmbedding": Operator(_rotary_of_microsoft),
}
