"""Functions that PyTorch does not have, with GGML's names and meaning. Shapes are in NumPy's order."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from npu_tensor import ops
from npu_tensor.dtypes import float32, int32
from npu_tensor.errors import DTypeError, ShapeError
from npu_tensor.functions.creation import arange
from npu_tensor.functions.register import composite
from npu_tensor.functions.shape import chunk, cut, joined, repeat
from npu_tensor.ops.rules import dimension
from npu_tensor.tensor import Tensor, from_array

__all__: list[str] = []

# --- gated linear units


def _halves(input: Tensor, gate: Tensor | None, swapped: bool) -> tuple[Tensor, Tensor]:
    """The activated half and the gate."""
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
        f"{text} * gate. Without a gate, x and gate are the first and second half of the last dimension; "
        "swapped: second and first."
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
    """x * sigmoid(alpha x) * (gate + 1) with x at most `limit` and gate in [-limit, limit]; halves as in swiglu."""
    return ops.swiglu_oai_gate(*_halves(input, gate, swapped), alpha, limit)


@composite()
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """PyTorch's gated linear unit: the first half of dim times the sigmoid of the second."""
    place = dimension(dim, input.ndim)
    if not input.ndim or input.shape[place] % 2:
        raise ShapeError(f"dimension {place} of {list(input.shape)} must be even to be split in halves")
    middle = input.shape[place] // 2
    halves = cut(input, place, 0, middle), cut(input, place, middle, 2 * middle)
    return ops.glu_gate(*halves)


# --- masked softmax


def _alibi_slopes(heads: int, max_bias: float) -> np.ndarray[Any, Any]:
    """One slope per head (Press et al., 2022): a geometric sequence, and a second one between it for heads
    beyond a power of two."""
    power = 1 << (heads.bit_length() - 1)
    head = np.arange(heads)
    first = 2.0 ** (-max_bias * (head + 1) / power)
    second = 2.0 ** (-max_bias * (2 * (head - power) + 1) / (2 * power))
    return np.where(head < power, first, second).astype(np.float32)


def _tiled(mask: Tensor, lead: tuple[int, ...]) -> Tensor:
    """The mask repeated over the leading dimensions, which it must divide."""
    own = (1,) * (len(lead) + 2 - mask.ndim) + mask.shape
    if any(not a or b % a for a, b in zip(own, lead, strict=False)):
        raise ShapeError(f"mask {list(mask.shape)} does not repeat over {list(lead)}")
    times = [b // a if a != 1 else 1 for a, b in zip(own, lead, strict=False)]
    mask = mask.reshape(own)
    return mask if max(times, default=1) == 1 else repeat(mask, *times, 1, 1)


@composite(ggml="SOFT_MAX")
def soft_max_ext(
    input: Tensor,
    mask: Tensor | None = None,
    scale: float = 1.0,
    max_bias: float = 0.0,
    sinks: Tensor | None = None,
) -> Tensor:
    """softmax(input * scale + slope * mask) over the last dimension of (..., heads, rows, columns).

    The mask repeats over the leading dimensions and may have more rows than input. slope is 1, or one ALiBi slope
    per head where max_bias > 0. sinks (heads,) are further logits that take probability and give no column.
    """
    scores = input.to(float32) * scale if scale != 1 else input.to(float32)
    if mask is not None:
        if mask.ndim < 2 or input.ndim < 2 or mask.shape[-2] < input.shape[-2] or mask.shape[-1] != input.shape[-1]:
            raise ShapeError(f"mask {list(mask.shape)} does not cover rows and columns of {list(input.shape)}")
        mask = _tiled(cut(mask, mask.ndim - 2, 0, input.shape[-2]), input.shape[:-2]).to(float32)
        if max_bias > 0:
            if input.ndim < 3:
                raise ShapeError("max_bias needs (..., heads, rows, columns)")
            heads = input.shape[-3]
            mask = mask * from_array(_alibi_slopes(heads, max_bias).reshape(heads, 1, 1))
        scores = scores + mask
    if sinks is None:
        return scores.softmax(-1).to(input.dtype)
    if input.ndim < 3 or sinks.shape != (input.shape[-3],):
        raise ShapeError("sinks need (..., heads, rows, columns) and one number per head")
    column = sinks.to(float32).reshape(sinks.shape[0], 1, 1).expand(*scores.shape[:-1], 1)
    weights = joined([scores, column], scores.ndim - 1).softmax(-1)
    return cut(weights, scores.ndim - 1, 0, input.shape[-1]).to(input.dtype)


def _beyond_diagonal(input: Tensor, n_past: int) -> Tensor:
    if input.ndim < 2:
        raise ShapeError("needs two dimensions or more")
    rows, columns = input.shape[-2:]
    return arange(columns) > (arange(rows) + n_past).unsqueeze(1)


@composite(ggml="DIAG_MASK_INF")
def diag_mask_inf(input: Tensor, n_past: int) -> Tensor:
    """Minus infinity where column > row + n_past in the last two dimensions."""
    return ops.where_op(_beyond_diagonal(input, n_past), -math.inf, input)


@composite(ggml="DIAG_MASK_ZERO")
def diag_mask_zero(input: Tensor, n_past: int) -> Tensor:
    """Zero where column > row + n_past in the last two dimensions."""
    return ops.where_op(_beyond_diagonal(input, n_past), 0, input)


# --- rows


def _batch_indices(lead: tuple[int, ...]) -> list[Tensor]:
    """One index tensor per leading dimension; together with row indices (*lead, n) they name every row."""
    return [
        arange(extent).reshape(*(extent if other == axis else 1 for other in range(len(lead))), 1)
        for axis, extent in enumerate(lead)
    ]


@composite(ggml="GET_ROWS")
def get_rows(input: Tensor, rows: Tensor) -> Tensor:
    """Rows of input (..., entries, features) at the indices in rows (..., n): (..., n, features).

    Floats of up to 32 bits come out as float32.
    """
    if input.ndim < 2 or rows.ndim != input.ndim - 1 or rows.shape[:-1] != input.shape[:-2]:
        raise ShapeError("needs (..., entries, features) and indices (..., n) with equal leading dimensions")
    if rows.ndim == 1:
        selected = ops.take_op(input, rows, 0)
    else:
        selected = ops.take_points(input, *_batch_indices(rows.shape[:-1]), rows)
    return selected.to(float32) if selected.is_floating_point() and selected.dtype.itemsize < 4 else selected


@composite(ggml="SET_ROWS")
def set_rows(input: Tensor, source: Tensor, rows: Tensor) -> Tensor:
    """input (..., entries, features) with the rows at the indices `rows` (..., n) taken from source (..., n, features).

    The indices repeat over leading dimensions.
    """
    if input.ndim < 2 or source.ndim != input.ndim or source.shape[-2] != rows.shape[-1]:
        raise ShapeError("needs input (..., entries, features), source (..., n, features) and indices (..., n)")
    lead, own = input.shape[:-2], (1,) * (input.ndim - 1 - rows.ndim) + rows.shape[:-1]
    if any(not a or b % a for a, b in zip(own, lead, strict=True)):
        raise ShapeError(f"indices {list(rows.shape)} do not repeat over {list(lead)}")
    index = rows.reshape(*own, rows.shape[-1])
    if lead:
        index = repeat(index, *(b // a for a, b in zip(own, lead, strict=True)), 1)
    indices = [*_batch_indices(lead), index]
    bounds = tuple((0, extent, 1) for extent in input.shape)
    return ops.put_op(input, source, *indices, bounds=bounds, dims=tuple(range(len(indices))), wrap=False)


@composite(function=False, ggml="REPEAT")
def repeat_as(input: Tensor, other: Tensor) -> Tensor:
    """input repeated as a whole to the shape of other, which it must divide."""
    own = (1,) * (other.ndim - input.ndim) + input.shape
    if input.ndim > other.ndim or any(not a or b % a for a, b in zip(own, other.shape, strict=True)):
        raise ShapeError(f"{list(input.shape)} does not divide {list(other.shape)}")
    return repeat(input, *(b // a for a, b in zip(own, other.shape, strict=True)))


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
) -> Tensor:
    """Rotary position embedding of input (..., tokens, heads, features) at integer positions (tokens,).

    mode "normal" rotates neighbouring pairs (2i, 2i+1), "neox" pairs (i, i + n_dims/2). Features from n_dims on are
    copied. freq_factors (n_dims/2,) divide the angles; n_ctx_orig and what follows it are YaRN's parameters.
    """
    factors = () if freq_factors is None else (freq_factors,)
    return ops.rotate(
        input,
        positions,
        *factors,
        n_dims=n_dims,
        mode=mode,
        base=freq_base,
        scale=freq_scale,
        n_ctx_orig=n_ctx_orig,
        ext_factor=ext_factor,
        attn_factor=attn_factor,
        beta_fast=beta_fast,
        beta_slow=beta_slow,
    )


@composite(method=False, ggml="CROSS_ENTROPY_LOSS")
def cross_entropy_loss(input: Tensor, labels: Tensor) -> Tensor:
    """-sum(labels * log_softmax(input)) over the number of rows; labels are probabilities of the input's shape."""
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
    """input + the one element of other."""
    if other.numel() != 1:
        raise ShapeError(f"other must have one element, not {list(other.shape)}")
    return input + other.reshape(())


@composite(ggml="TOP_K")
def top_k(input: Tensor, k: int) -> Tensor:
    """int32 indices of the k largest elements of each row."""
    return input.topk(k, -1).indices.to(int32)


@composite(ggml="SILU_BACK")
def silu_back(grad: Tensor, input: Tensor) -> Tensor:
    """grad times the derivative of silu at input."""
    if grad.dtype is not input.dtype:
        raise DTypeError(f"both operands must have one dtype, not {grad.dtype.name} and {input.dtype.name}")
    sigmoid = input.sigmoid()
    return grad * sigmoid * (input * (1 - sigmoid) + 1)
