"""Functions that PyTorch does not have, with GGML's names and meaning. Shapes are in NumPy's order."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npu_tensor import ops
from npu_tensor.dtypes import float32, int32
from npu_tensor.errors import DTypeError, ShapeError
from npu_tensor.functions.creation import arange
from npu_tensor.functions.dot_product_attention import is_fused
from npu_tensor.functions.products import mul_mat
from npu_tensor.functions.register import composite
from npu_tensor.functions.shape import chunk, cut, joined, repeat
from npu_tensor.functions.templated import templated
from npu_tensor.ops.contraction import rope_rates
from npu_tensor.ops.rules import dimension
from npu_tensor.planner.selection import accelerators, current
from npu_tensor.tensor import Tensor, from_array

# --- gated linear units


def _halves(input: Tensor, gate: Tensor | None, swapped: bool) -> tuple[Tensor, Tensor]:
    """Return the activated half and the gate."""
    if gate is None:
        if not input.ndim or input.shape[-1] % 2:
            raise ShapeError(f"the last dimension of {list(input.shape)} must be even to be split in halves")
        input, gate = chunk(input, 2, -1) if input.shape[-1] else (input, input)
        if swapped:
            input, gate = gate, input
    elif gate.shape != input.shape:
        raise ShapeError(f"input {list(input.shape)} and gate {list(gate.shape)} must have one shape")
    return input, gate


def _gated(name: str, gate_op: Callable[[Tensor, Tensor], Tensor], text: str) -> None:
    def gated(input: Tensor, gate: Tensor | None = None, *, swapped: bool = False) -> Tensor:
        return gate_op(*_halves(input, gate, swapped))

    gated.__name__ = name
    gated.__doc__ = (
        f"Return {text} * gate. Without a gate, x and gate are the first and second half of the last dimension, or "
        "the second and first if `swapped`."
    )
    composite(ggml=f"GLU_{name.upper()}")(gated)


_gated("reglu", ops.reglu_gate, "relu(x)")
_gated("geglu", ops.geglu_gate, "gelu(x, tanh form)")
_gated("geglu_erf", ops.geglu_erf_gate, "gelu(x, exact form)")
_gated("geglu_quick", ops.geglu_quick_gate, "gelu_quick(x)")
_gated("swiglu", ops.swiglu_gate, "silu(x)")


@composite(ggml="GLU_SWIGLU_OAI")
def swiglu_oai(
    input: Tensor, gate: Tensor | None = None, *, alpha: float = 1.702, limit: float = 7.0, swapped: bool = False
) -> Tensor:
    """Return x * sigmoid(alpha * x) * (gate + 1), with x at most `limit` and gate in [-limit, limit].

    Without a gate, the last dimension is split into halves as in `swiglu`.
    """
    return ops.swiglu_oai_gate(*_halves(input, gate, swapped), alpha, limit)


@composite()
@templated
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Multiply the first half of dim by the sigmoid of the second, PyTorch's gated linear unit."""
    place = dimension(dim, input.ndim)
    if not input.ndim or input.shape[place] % 2:
        raise ShapeError(f"dimension {place} of {list(input.shape)} must be even to be split in halves")
    middle = input.shape[place] // 2
    halves = cut(input, place, 0, middle), cut(input, place, middle, 2 * middle)
    return ops.glu_gate(*halves)


# --- masked softmax


def _alibi_slopes(heads: int, max_bias: float) -> np.ndarray[Any, Any]:
    """Return one slope per head (Press et al., 2022): a geometric sequence, then interleaved values."""
    power = 1 << (heads.bit_length() - 1)
    head = np.arange(heads)
    first = 2.0 ** (-max_bias * (head + 1) / power)
    second = 2.0 ** (-max_bias * (2 * (head - power) + 1) / (2 * power))
    return np.where(head < power, first, second).astype(np.float32)


def _tiled(input: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Repeat a tensor until it broadcasts to a shape, whose extents its own must divide."""
    own = (1,) * (len(shape) - input.ndim) + input.shape
    if input.ndim > len(shape) or any(a != b and (not a or b % a) for a, b in zip(own, shape, strict=True)):
        raise ShapeError(f"{list(input.shape)} does not divide {list(shape)}")
    times = [1 if a in (1, b) else b // a for a, b in zip(own, shape, strict=True)]
    input = input.reshape(own)
    return input if max(times, default=1) == 1 else repeat(input, *times)


@composite(ggml="SOFT_MAX")
def soft_max_ext(
    input: Tensor, mask: Tensor | None = None, scale: float = 1.0, max_bias: float = 0.0, sinks: Tensor | None = None
) -> Tensor:
    """Return softmax(input * scale + slope * mask) over the last dimension.

    Args:
        input: Floats (..., heads, rows, columns).
        mask: Added to the scores. It repeats over the leading dimensions and may have more rows than input.
        scale: Factor of the scores.
        max_bias: Above 0, slope is one ALiBi slope per head; otherwise it is 1.
        sinks: Further logits (heads), which take probability and have no column in the result.

    Raises:
        ShapeError: `mask` does not cover the rows and columns, or `sinks` does not fit the heads.
    """
    scores = input.to(float32) * scale if scale != 1 else input.to(float32)
    if mask is not None:
        scores = scores + _bias(mask, input.shape, max_bias)
    if sinks is None:
        return scores.softmax(-1).to(input.dtype)
    if input.ndim < 3 or sinks.shape != (input.shape[-3],):
        raise ShapeError("sinks need (..., heads, rows, columns) and one number per head")
    column = sinks.to(float32).reshape(sinks.shape[0], 1, 1).expand(*scores.shape[:-1], 1)
    weights = joined([scores, column], scores.ndim - 1).softmax(-1)
    return cut(weights, scores.ndim - 1, 0, input.shape[-1]).to(input.dtype)


def _bias(mask: Tensor, shape: tuple[int, ...], max_bias: float) -> Tensor:
    """Return what a mask adds to scores of a shape."""
    if mask.ndim < 2 or len(shape) < 2 or mask.shape[-2] < shape[-2] or mask.shape[-1] != shape[-1]:
        raise ShapeError(f"mask {list(mask.shape)} does not cover rows and columns of {list(shape)}")
    bias = _tiled(cut(mask, mask.ndim - 2, 0, shape[-2]), shape).to(float32)
    if max_bias > 0:
        if len(shape) < 3:
            raise ShapeError("max_bias needs (..., heads, rows, columns)")
        bias = bias * from_array(_alibi_slopes(shape[-3], max_bias).reshape(shape[-3], 1, 1))
    return bias


def _diagonal_mask(name: str, value: float, text: str) -> None:
    def function(input: Tensor, n_past: int) -> Tensor:
        if input.ndim < 2:
            raise ShapeError("needs two dimensions or more")
        rows, columns = input.shape[-2:]
        return ops.where_op(arange(columns) > (arange(rows) + n_past).unsqueeze(1), value, input)

    function.__doc__ = f"Set elements with column > row + n_past in the last two dimensions to {text}."
    composite(f"diag_mask_{name}", ggml=f"DIAG_MASK_{name.upper()}")(function)


_diagonal_mask("inf", -math.inf, "minus infinity")
_diagonal_mask("zero", 0, "zero")


# --- rows


def _batch_indices(lead: tuple[int, ...]) -> list[Tensor]:
    """Return one index tensor per leading dimension, to be combined with row indices (*lead, n)."""
    return [
        arange(extent).reshape(*(extent if other == axis else 1 for other in range(len(lead))), 1)
        for axis, extent in enumerate(lead)
    ]


@composite(ggml="GET_ROWS")
def get_rows(input: Tensor, rows: Tensor) -> Tensor:
    """Return rows of a tensor. Floats of up to 32 bits and quantized numbers give float32.

    Args:
        input: Tensor (..., entries, features).
        rows: Integer indices (..., n).

    Returns:
        Tensor (..., n, features).

    >>> nt.get_rows(nt.arange(6.0).reshape(3, 2), nt.tensor([2, 0]))
    """
    if input.dtype.is_quantized and rows.ndim == 1 and input.ndim == 2:
        return ops.dequantize(ops.take_op(input, rows, 0, "rows", "get_rows"))
    if input.ndim < 2 or rows.ndim != input.ndim - 1 or rows.shape[:-1] != input.shape[:-2]:
        raise ShapeError("needs (..., entries, features) and indices (..., n) with equal leading dimensions")
    if rows.ndim == 1:
        selected = ops.take_op(input, rows, 0)
    else:
        selected = ops.take_points(input, *_batch_indices(rows.shape[:-1]), rows)
    return selected.to(float32) if selected.is_floating_point() and selected.dtype.itemsize < 4 else selected


@composite(ggml="SET_ROWS")
def set_rows(input: Tensor, source: Tensor, rows: Tensor) -> Tensor:
    """Return input with some rows replaced.

    Args:
        input: Tensor (..., entries, features).
        source: New rows (..., n, features).
        rows: Indices (..., n) of the rows in `input`; they repeat over leading dimensions.

    >>> nt.set_rows(nt.zeros(3, 2), nt.ones(1, 2), nt.tensor([1]))
    """
    if input.ndim < 2 or source.ndim != input.ndim or source.shape[-2] != rows.shape[-1]:
        raise ShapeError("needs input (..., entries, features), source (..., n, features) and indices (..., n)")
    lead = input.shape[:-2]
    indices = [*_batch_indices(lead), _tiled(rows, (*lead, rows.shape[-1]))]
    bounds = tuple((0, extent, 1) for extent in input.shape)
    return ops.put_op(input, source, *indices, bounds=bounds, dims=tuple(range(len(indices))), wrap=False)


@composite(function=False, ggml="REPEAT")
def repeat_as(input: Tensor, other: Tensor) -> Tensor:
    """Repeat input as a whole to the shape of other, which it must divide."""
    return _tiled(input, other.shape).expand(other.shape)


# --- mixtures of experts


@composite(method=False, ggml="MUL_MAT_ID")
def mul_mat_id(a: Tensor, b: Tensor, ids: Tensor) -> Tensor:
    """Multiply each token with its selected experts' matrices, like `mul_mat`.

    Args:
        a: Matrices (experts, m, k).
        b: Tokens (tokens, used, k), or (tokens, 1, k) for all experts that a token uses. Floats are converted to the
            dtype of a.
        ids: Indices of experts (tokens, used).

    Returns:
        Tensor (tokens, used, m).

    >>> nt.mul_mat_id(nt.arange(3.0).reshape(3, 1, 1), nt.ones(2, 1, 1), nt.tensor([[0, 1], [2, 1]]))
    """
    tokens, used = ids.shape if ids.ndim == 2 else (0, 0)
    if a.ndim != 3 or b.shape not in ((tokens, used, a.shape[-1]), (tokens, 1, a.shape[-1])):
        raise ShapeError("needs a (experts, m, k), b (tokens, used or 1, k) and ids (tokens, used)")
    if tokens * used <= a.shape[0]:  # not all matrices are read
        return mul_mat(ops.take_op(a, ids, 0), b.expand(tokens, used, b.shape[-1]).unsqueeze(-2)).squeeze(-2)
    count = b.shape[1]
    rows = b.reshape(1, tokens * count, b.shape[2]).expand(a.shape[0], tokens * count, b.shape[2])
    products = mul_mat(a, rows).reshape(a.shape[0], tokens, count, a.shape[1])
    of_token, of_use = arange(tokens).unsqueeze(1), arange(used) if count == used else arange(1)
    return ops.take_points(products, ids, of_token, of_use)


@composite(method=False, ggml="ADD_ID")
def add_id(input: Tensor, other: Tensor, ids: Tensor) -> Tensor:
    """Add the selected rows of other to input.

    Args:
        input: Tensor (tokens, used, n).
        other: Tensor (experts, n).
        ids: Indices of rows (tokens, used).

    >>> nt.add_id(nt.zeros(2, 1, 2), nt.tensor([[1.0, 2.0], [3.0, 4.0]]), nt.tensor([[1], [0]]))
    """
    if other.ndim != 2 or ids.shape != input.shape[:-1]:
        raise ShapeError(f"needs (..., n), (experts, n) and indices {list(input.shape[:-1])}, not {list(ids.shape)}")
    return input + ops.take_op(other, ids, 0)


# --- blocks


def _block(input: Tensor, source: Tensor, start: tuple[int, ...]) -> tuple[slice, ...]:
    """Return the slices of the last dimensions of input that `source` covers from the indices `start`."""
    if len(start) != source.ndim or source.ndim > input.ndim:
        raise ShapeError(f"start {list(start)} must have an index for each dimension of {list(source.shape)}")
    extents = zip(start, source.shape, input.shape[input.ndim - source.ndim :], strict=True)
    if any(first < 0 or first + extent > whole for first, extent, whole in extents):
        raise ShapeError(f"{list(source.shape)} from {list(start)} on does not fit {list(input.shape)}")
    return tuple(slice(first, first + extent) for first, extent in zip(start, source.shape, strict=True))


def _block_function(name: str, text: str, adds: bool) -> None:
    def function(input: Tensor, source: Tensor, start: tuple[int, ...]) -> Tensor:
        place = (..., *_block(input, source, start))
        result = input.clone()
        result[place] = input[place] + source if adds else source
        return result

    function.__doc__ = f"""
        Return input with {text}.

        Args:
            source: Tensor of the block.
            start: Index of the block in each dimension of `source`.

        >>> nt.{name}(nt.ones(2, 3), nt.ones(1, 2), (1, 1))
    """
    composite(name, method=False, ggml=name.upper())(function)


_block_function("set", "a block of the last dimensions replaced by source", adds=False)
_block_function("acc", "source added to a block of the last dimensions", adds=True)


# --- others


@composite(method=False, ggml="ROPE")
def rope(
    input: Tensor,
    positions: Tensor,
    freq_factors: Tensor | None = None,
    *,
    n_dims: int | None = None,
    mode: str = "normal",
    freq_base: float = 10000.0,
    freq_scale: float = 1.0,
    n_ctx_orig: int = 0,
    ext_factor: float = 0.0,
    attn_factor: float = 1.0,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    sections: Sequence[int] = (),
) -> Tensor:
    """Apply rotary position embedding.

    Args:
        input: Floats (..., tokens, heads, features).
        positions: Integers (tokens), or (4, tokens) for time, height, width and another position in the modes "mrope",
            "imrope" and "vision".
        freq_factors: Divisors (n_dims/2) of the angles.
        n_dims: Number of features that determines the frequencies; None for all, in "vision" for half of them.
            Features that are not rotated are copied.
        mode: "normal" rotates neighbouring pairs (2i, 2i+1), the other modes pairs (i, i + n_dims/2).
        freq_base: Base of the frequencies.
        freq_scale: Factor of the angles.
        n_ctx_orig: Parameter of YaRN.
        ext_factor: Parameter of YaRN.
        attn_factor: Parameter of YaRN.
        beta_fast: Parameter of YaRN.
        beta_slow: Parameter of YaRN.
        sections: Number of pairs that rotate by each of the four positions. In "imrope", the first three positions
            alternate; in "vision", the frequencies of each section restart.

    >>> nt.rope(nt.ones(2, 1, 4), nt.arange(2))
    """
    yarn: dict[str, Any] = {
        "base": freq_base,
        "scale": freq_scale,
        "n_ctx_orig": n_ctx_orig,
        "ext_factor": ext_factor,
        "attn_factor": attn_factor,
        "beta_fast": beta_fast,
        "beta_slow": beta_slow,
    }
    if mode in ("mrope", "imrope", "vision"):
        return _rotated_by_sections(input, positions, freq_factors, n_dims, mode, tuple(sections), yarn)
    factors = () if freq_factors is None else (freq_factors,)
    return ops.rotate(input, positions, *factors, n_dims=n_dims, mode=mode, **yarn)


def _rotated_by_sections(
    input: Tensor,
    positions: Tensor,
    freq_factors: Tensor | None,
    n_dims: int | None,
    mode: str,
    sections: tuple[int, ...],
    yarn: dict[str, Any],
) -> Tensor:
    """Apply `rope` in a mode with sections."""
    if input.ndim < 3 or len(sections) != 4 or sum(sections) < 1 or positions.shape != (4, input.shape[-3]):
        raise ShapeError("needs (..., tokens, heads, features), positions (4, tokens) and four sections")
    features = input.shape[-1]
    dims = n_dims or (features // 2 if mode == "vision" else features)
    pairs = dims if mode == "vision" else dims // 2
    if dims % 2 or not 0 < 2 * pairs <= features:
        raise ShapeError(f"n_dims must be even and fit {features} features, not {dims}")
    starts = np.cumsum((0, *sections))
    sector = np.arange(pairs) % starts[-1]
    which = np.searchsorted(starts[1:], sector, "right")
    rates, magnitude = rope_rates(dims, **yarn)
    if mode == "vision":
        rates = rates[(sector - starts[which]) % len(rates)]
    elif mode == "imrope":
        which = np.where(sector < 3 * np.asarray(sections)[sector % 3], sector % 3, 3)
    angles = ops.take_op(positions, from_array(which), 0).double().transpose(0, 1) * from_array(rates)
    if freq_factors is not None:
        angles = angles / freq_factors
    angles = angles.unsqueeze(1)
    cosine, sine = ((part * magnitude).float() for part in (angles.cos(), angles.sin()))
    a, b, rest = (cut(input, input.ndim - 1, *ends) for ends in ((0, pairs), (pairs, 2 * pairs), (2 * pairs, features)))
    turned = [(a * cosine - b * sine).to(input.dtype), (a * sine + b * cosine).to(input.dtype)]
    return joined([*turned, rest] if 2 * pairs < features else turned, input.ndim - 1)


@composite(method=False, ggml="FLASH_ATTN_EXT")
def flash_attn_ext(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    scale: float = 1.0,
    max_bias: float = 0.0,
    logit_softcap: float = 0.0,
    sinks: Tensor | None = None,
) -> Tensor:
    """Compute attention of (batch, heads, tokens, features). Sums are float32.

    Args:
        query: Floats (batch, heads, queries, features).
        key: Floats (batch, key heads, keys, features). Each key head serves a group of consecutive query heads.
        value: Floats (batch, key heads, keys, value features).
        mask: Mask of `soft_max_ext`.
        scale: Factor of the scores.
        max_bias: Bias of `soft_max_ext`.
        logit_softcap: c, if not 0: the scores become c * tanh(score / c).
        sinks: Sinks of `soft_max_ext`.

    Returns:
        Tensor (batch, queries, heads, value features).

    >>> nt.flash_attn_ext(nt.ones(1, 2, 3, 4), nt.ones(1, 1, 5, 4), nt.ones(1, 1, 5, 2)).shape
    """
    if sinks is None and {query.dtype, key.dtype, value.dtype} == {float32} and query.ndim == 4:
        bias = None if mask is None else _bias(mask, (*query.shape[:3], key.shape[-2]), max_bias)
        # The CPU's kernel has no soft cap.
        if (not logit_softcap or accelerators(current())) and is_fused(query, key, value, bias, True):
            addends = [] if bias is None else [bias]
            return ops.attention(query, key, value, *addends, scale=scale, softcap=logit_softcap)
    scores = mul_mat(key, query) * scale
    if logit_softcap:
        scores = (scores / logit_softcap).tanh() * logit_softcap
    weights = soft_max_ext(scores, mask, 1.0, max_bias, sinks)
    return mul_mat(value.transpose(-1, -2), weights).transpose(-2, -3)


@composite(method=False, ggml="CROSS_ENTROPY_LOSS")
def cross_entropy_loss(input: Tensor, labels: Tensor) -> Tensor:
    """Return -sum(labels * log_softmax(input)) divided by the number of rows.

    The labels are probabilities of the input's shape.
    """
    if labels.shape != input.shape or not input.ndim:
        raise ShapeError(f"input {list(input.shape)} and labels {list(labels.shape)} must have one shape")
    rows = math.prod(input.shape[:-1])
    return -(labels * input.log_softmax(-1)).sum() / rows


@composite(ggml="SUM_ROWS")
def sum_rows(input: Tensor) -> Tensor:
    """Sum over the last dimension, which is kept with extent 1."""
    return input.sum(-1, True)


@composite(ggml="ADD1")
def add1(input: Tensor, other: Tensor) -> Tensor:
    """Return input + the one element of other.

    >>> nt.add1(nt.tensor([1.0, 2.0]), nt.tensor([5.0]))
    """
    if other.numel() != 1:
        raise ShapeError(f"other must have one element, not {list(other.shape)}")
    return input + other.reshape(())


@composite(ggml="TOP_K")
def top_k(input: Tensor, k: int) -> Tensor:
    """Return int32 indices of the k largest elements of each row."""
    return input.topk(k, -1).indices.to(int32)


@composite(ggml="SILU_BACK")
def silu_back(grad: Tensor, input: Tensor) -> Tensor:
    """Return grad times the derivative of silu at input."""
    if grad.dtype is not input.dtype:
        raise DTypeError(f"both operands must have one dtype, not {grad.dtype.name} and {input.dtype.name}")
    sigmoid = input.sigmoid()
    return grad * sigmoid * (input * (1 - sigmoid) + 1)
