"""GGML's recurrences over tokens: state-space models, RWKV, gated linear attention, the gated delta rule.

Every token is a few recorded ops, which the planner runs as the iterations of a loop. Shapes are in NumPy's order; the
tokens of all sequences are concatenated as in GGML. Each function returns its outputs and the last states, which GGML
concatenates in one tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from npu_tensor import ops
from npu_tensor.errors import ArgumentError, ShapeError
from npu_tensor.functions.register import composite
from npu_tensor.functions.shape import stack
from npu_tensor.tensor import Tensor

Outcome = tuple[Tensor, Tensor]


def _scan(step: Callable[..., Outcome], state: Tensor, inputs: Sequence[Tensor], dim: int = 1) -> tuple[Tensor, Tensor]:
    """Run `step` along `dim`: from the state and a slice of each input to an output and the next state."""
    outputs = []
    for token in range(inputs[0].shape[dim]):
        output, state = step(state, *(ops.select(each, dim, token) for each in inputs))
        outputs.append(output)
    return stack(outputs, dim), state


def _sequences(state: Tensor, *inputs: Tensor) -> list[Tensor]:
    """Reshape inputs (tokens of all sequences, heads, features) to (sequences, tokens, heads, features).

    Raise ShapeError unless they have one shape and the state (sequences, heads, features, features) fits.
    """
    tokens, heads, features = inputs[0].shape if inputs[0].ndim == 3 else (0, 0, 0)
    if not tokens or any(each.shape != inputs[0].shape for each in inputs):
        raise ShapeError("needs operands of one shape (tokens, heads, features)")
    count = state.shape[0] if state.ndim == 4 else 0
    if state.shape[1:] != (heads, features, features) or not count or tokens % count:
        raise ShapeError(f"state {list(state.shape)} must be (sequences, {heads}, {features}, {features})")
    return [each.reshape(count, tokens // count, heads, features) for each in inputs]


def _joined(outcome: Outcome) -> tuple[Tensor, Tensor]:
    """Reshape the outputs to (tokens of all sequences, heads, features)."""
    outputs, state = outcome
    return outputs.flatten(0, 1), state


def _column(x: Tensor) -> Tensor:
    return x.unsqueeze(-1)


def _row(x: Tensor) -> Tensor:
    return x.unsqueeze(-2)


@composite(method=False, ggml="SSM_CONV")
def ssm_conv(input: Tensor, weight: Tensor) -> Tensor:
    """Convolve each channel of a sequence with its weights.

    Args:
        input: Tensor (sequences, channels, width - 1 + tokens).
        weight: Tensor (channels, width).

    Returns:
        Tensor (sequences, tokens, channels).

    >>> nt.ssm_conv(nt.arange(5.0).reshape(1, 1, 5), nt.tensor([[1.0, 1.0]]))
    """
    if input.ndim != 3 or weight.ndim != 2 or input.shape[1] != weight.shape[0] or input.shape[2] < weight.shape[1]:
        raise ShapeError("needs (sequences, channels, width - 1 + tokens) and (channels, width)")
    tokens = input.shape[2] - weight.shape[1] + 1
    windows = ops.windows(input, 2, tokens, weight.shape[1], 1, 1)
    return (windows * weight.unsqueeze(1)).sum(-1).transpose(1, 2)


@composite(method=False, ggml="SSM_SCAN")
def ssm_scan(
    state: Tensor, x: Tensor, dt: Tensor, a: Tensor, b: Tensor, c: Tensor, ids: Tensor
) -> tuple[Tensor, Tensor]:
    """Run Mamba's selective scan.

    For each token, state = exp(softplus(dt) a) state + softplus(dt) x b, and the output is sum(state c) over the
    states.

    Args:
        state: Entries (entries, heads, features, states).
        x: Tensor (sequences, tokens, heads, features).
        dt: Tensor (sequences, tokens, heads).
        a: Tensor (heads, states) or (heads, 1).
        b: Tensor (sequences, tokens, groups, states). Each group serves a group of heads.
        c: Tensor of the shape of `b`.
        ids: Index of each sequence's entry in `state`, (sequences).

    Returns:
        Outputs of the shape of `x`, and the last states.

    >>> nt.ssm_scan(*(nt.ones([1] * ndim) for ndim in (4, 4, 3, 2, 4, 4)), nt.tensor([0]))
    """
    if x.ndim != 4 or state.ndim != 4 or b.ndim != 4 or b.shape != c.shape or dt.shape != x.shape[:3]:
        raise ShapeError("needs state, x, b and c of four dimensions, and dt (sequences, tokens, heads)")
    heads, groups = x.shape[2], b.shape[2]
    if state.shape[1:3] != x.shape[2:] or state.shape[3] != b.shape[3] or heads % groups or a.shape[0] != heads:
        raise ShapeError(f"state {list(state.shape)}, x {list(x.shape)}, a {list(a.shape)} and b {list(b.shape)}")
    step_sizes = ops.softplus(dt)
    b, c = (each.repeat_interleave(heads // groups, 2) for each in (b, c))

    def step(before: Tensor, x: Tensor, dt: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        decay = _row((dt.unsqueeze(-1) * a).exp())
        after = before * decay + _column(x * dt.unsqueeze(-1)) * _row(b)
        return (after * _row(c)).sum(-1), after

    return _scan(step, ops.take_op(state, ids, 0), (x, step_sizes, b, c))


@composite(method=False, ggml="RWKV_WKV6")
def rwkv_wkv6(k: Tensor, v: Tensor, r: Tensor, tf: Tensor, td: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Run RWKV 6: output = r (state + tf k v^T), state = td state + k v^T.

    Args:
        k: Tensor (tokens of all sequences, heads, features).
        v: Tensor of the shape of `k`.
        r: Tensor of the shape of `k`.
        tf: Tensor (heads, features).
        td: Tensor of the shape of `k`.
        state: Tensor (sequences, heads, features of k, features of v).

    Returns:
        Outputs of the shape of `v`, and the last states.

    >>> nt.rwkv_wkv6(*[nt.ones(2, 1, 2)] * 3, nt.ones(1, 2), nt.ones(2, 1, 2), nt.zeros(1, 1, 2, 2))
    """

    def step(before: Tensor, k: Tensor, v: Tensor, r: Tensor, td: Tensor) -> tuple[Tensor, Tensor]:
        product = _column(k) * _row(v)
        return (_column(r) * (before + _column(tf) * product)).sum(-2), before * _column(td) + product

    return _joined(_scan(step, state, _sequences(state, k, v, r, td)))


@composite(method=False, ggml="RWKV_WKV7")
def rwkv_wkv7(r: Tensor, w: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Run RWKV 7: state = state diag(w) + v k^T + (state a) b^T, output = state r.

    Args:
        r: Tensor (tokens of all sequences, heads, features).
        w: Tensor of the shape of `r`.
        k: Tensor of the shape of `r`.
        v: Tensor of the shape of `r`.
        a: Tensor of the shape of `r`.
        b: Tensor of the shape of `r`.
        state: Tensor (sequences, heads, features of v, features of k).

    Returns:
        Outputs of the shape of `v`, and the last states.

    >>> nt.rwkv_wkv7(*[nt.ones(2, 1, 2)] * 6, nt.zeros(1, 1, 2, 2))
    """

    def step(before: Tensor, r: Tensor, w: Tensor, k: Tensor, v: Tensor, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        removed = (before * _row(a)).sum(-1)
        after = before * _row(w) + _column(v) * _row(k) + _column(removed) * _row(b)
        return (after * _row(r)).sum(-1), after

    return _joined(_scan(step, state, _sequences(state, r, w, k, v, a, b)))


@composite(method=False, ggml="GATED_LINEAR_ATTN")
def gated_linear_attn(
    k: Tensor, v: Tensor, q: Tensor, g: Tensor, state: Tensor, scale: float = 1.0
) -> tuple[Tensor, Tensor]:
    """Run gated linear attention: state = diag(g) state + k v^T, output = scale q state.

    Args:
        k: Tensor (tokens of all sequences, heads, features).
        v: Tensor of the shape of `k`.
        q: Tensor of the shape of `k`.
        g: Tensor of the shape of `k`.
        state: Tensor (sequences, heads, features of k, features of v).
        scale: Factor of the outputs.

    Returns:
        Outputs of the shape of `v`, and the last states.

    >>> nt.gated_linear_attn(*[nt.ones(2, 1, 2)] * 4, nt.zeros(1, 1, 2, 2), 0.5)
    """

    def step(before: Tensor, k: Tensor, v: Tensor, q: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
        after = before * _column(g) + _column(k) * _row(v)
        return (_column(q) * after).sum(-2) * scale, after

    return _joined(_scan(step, state, _sequences(state, k, v, q, g)))


@composite(method=False, ggml="GATED_DELTA_NET")
def gated_delta_net(q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Run the gated delta rule.

    For each token, S = exp(g) state, state = S + beta (v - S k) k^T, and the output is state q / sqrt(features).

    Args:
        q: Tensor (sequences, tokens, heads of keys, features). The heads of keys repeat.
        k: Tensor of the shape of `q`.
        v: Tensor (sequences, tokens, heads, features).
        g: Tensor (sequences, tokens, heads, 1), or with one element for each feature of k.
        beta: Tensor (sequences, tokens, heads, 1).
        state: Tensor (sequences, heads, features of v, features of k).

    Returns:
        Outputs of the shape of `v`, and the last states.

    >>> nt.gated_delta_net(*[nt.ones(1, 2, 1, 2)] * 3, nt.zeros(1, 2, 1, 1), nt.ones(1, 2, 1, 1), nt.zeros(1, 1, 2, 2))
    """
    if any(each.ndim != 4 or each.shape[:2] != v.shape[:2] for each in (q, k, v, g, beta)) or q.shape != k.shape:
        raise ShapeError("needs q, k, v, g and beta (sequences, tokens, heads, features)")
    heads, features = v.shape[2:]
    if heads % k.shape[2] or state.shape != (v.shape[0], heads, features, k.shape[3]):
        raise ShapeError(f"state {list(state.shape)} and k {list(k.shape)} do not fit v {list(v.shape)}")
    times = heads // k.shape[2]
    q, k = q.repeat(1, 1, times, 1) * (1 / math.sqrt(features)), k.repeat(1, 1, times, 1)

    def step(before: Tensor, q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor) -> tuple[Tensor, Tensor]:
        kept = before * _row(g.exp())
        change = (v - (kept * _row(k)).sum(-1)) * beta
        after = kept + _column(change) * _row(k)
        return (after * _row(q)).sum(-1), after

    return _scan(step, state, (q, k, v, g, beta))


@composite(method=False, ggml="SOLVE_TRI")
def solve_tri(a: Tensor, b: Tensor, left: bool = True, lower: bool = True, unit_diagonal: bool = False) -> Tensor:
    """Solve a x = b, or x a = b, for triangular matrices a, row by row. GGML supports the defaults only.

    Args:
        a: Triangular matrices (..., n, n).
        b: Right-hand sides (..., n, m), or (..., m, n) if not `left`.
        left: True for a x = b, False for x a = b.
        lower: True for lower triangles.
        unit_diagonal: True to take the diagonal as ones.
    """
    if not left:
        return solve_tri(a.mT, b.mT, True, not lower, unit_diagonal).mT
    if min(a.ndim, b.ndim) < 2 or a.shape[-1] != a.shape[-2] or b.shape[-2] != a.shape[-1]:
        raise ShapeError(f"needs a (..., n, n) and b (..., n, m), not {list(a.shape)} and {list(b.shape)}")
    count = a.shape[-1]
    order = range(count) if lower else reversed(range(count))
    rows: dict[int, Tensor] = {}
    for number in order:
        rest = ops.select(b, -2, number)
        for known, row in rows.items():
            rest = rest - row * a[..., number, known].unsqueeze(-1)
        rows[number] = rest if unit_diagonal else rest / a[..., number, number].unsqueeze(-1)
    if not rows:
        raise ArgumentError("needs one row or more")
    return stack([rows[number] for number in range(count)], -2)
