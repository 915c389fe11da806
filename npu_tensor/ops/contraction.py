"""Matrix products, rotary position embeddings and counts of equal elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from npu_tensor.dtypes import float32, int64
from npu_tensor.errors import ArgumentError, ShapeError
from npu_tensor.ops import rules
from npu_tensor.ops.declare import Resolution
from npu_tensor.ops.registry import op
from npu_tensor.ops.rows import cast, row_sum
from npu_tensor.spec import Spec, broadcast_shapes


@rules.of_tensors("all but bool")
def _matmul_rule(a: Spec, b: Spec, out_dtype: Any) -> Resolution:
    if a.ndim < 2 or b.ndim < 2:
        raise ShapeError("needs two dimensions or more")
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(f"inner dimensions differ: {a.shape[-1]} and {b.shape[-2]}")
    mixed = a.dtype is float32 and b.dtype.register == "float32" and out_dtype is not None
    out, register = rules.product_dtypes(a, b, out_dtype, mixed)
    shape = (*broadcast_shapes(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1])
    return Resolution(Spec.of(shape, out), (register, register), {"out_dtype": out})


@op(kind="matmul", rule=_matmul_rule, ggml="MUL_MAT", public=False)
def contract(input, other, /, out_dtype=None):
    """Multiply matrices in the last two dimensions; leading ones broadcast. Float sums are float32, rounded once.

    With out_dtype, `other` may be float16 or bfloat16 if `input` is float32.
    """
    return np.matmul(input, other)


@rules.of_tensors("floats")
def _rope_rule(x: Spec, positions: Spec, *factors: Spec, n_dims: int | None, mode: str, **yarn: Any) -> Resolution:
    if x.ndim < 3:
        raise ShapeError("needs (..., tokens, heads, features)")
    if positions.shape != (x.shape[-3],):
        raise ShapeError(f"positions must have one entry per token: ({x.shape[-3]},)")
    rules.index_dtype(positions.dtype)
    rules.require_floats(x.dtype)
    n_dims = x.shape[-1] if n_dims is None else n_dims
    if n_dims % 2 or not 0 < n_dims <= x.shape[-1]:
        raise ShapeError(f"n_dims must be even and at most {x.shape[-1]}, not {n_dims}")
    if mode not in ("normal", "neox"):
        raise ArgumentError(f"mode must be 'normal' or 'neox', not {mode!r}")
    registers = (x.dtype.register, None, *("float32" for _ in factors))
    return Resolution(x, registers, {"n_dims": n_dims, "mode": mode, **yarn})


@op(kind="data", rule=_rope_rule, ggml="ROPE", public=False)
def rotate(
    *tensors,
    n_dims: int | None = None,
    mode: str = "normal",
    base: float = 10000.0,
    scale: float = 1.0,
    n_ctx_orig: int = 0,
    ext_factor: float = 0.0,
    attn_factor: float = 1.0,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
):
    """Rotate features (..., tokens, heads, features) by position: GGML's ROPE with its YaRN parameters.

    "normal" rotates neighbouring pairs (2i, 2i+1), "neox" pairs (i, i + n_dims/2). Features from n_dims on are copied.
    """
    x, positions, *factors = tensors
    assert n_dims is not None
    half = n_dims // 2
    rates, magnitude = rope_rates(
        n_dims, base, scale, n_ctx_orig, ext_factor, attn_factor, beta_fast, beta_slow, *factors
    )
    angle = positions.astype(np.float64)[:, None] * rates
    cosine, sine = (magnitude * np.cos(angle))[:, None, :], (magnitude * np.sin(angle))[:, None, :]
    out = np.array(x, dtype=np.float64)
    if mode == "normal":
        first, second = slice(0, n_dims, 2), slice(1, n_dims, 2)
    else:
        first, second = slice(0, half), slice(half, n_dims)
    a, b = x[..., first].astype(np.float64), x[..., second].astype(np.float64)
    out[..., first] = a * cosine - b * sine
    out[..., second] = a * sine + b * cosine
    return out


def rope_rates(
    n_dims: int,
    base: float,
    scale: float,
    n_ctx_orig: int,
    ext_factor: float,
    attn_factor: float,
    beta_fast: float,
    beta_slow: float,
    factors: np.ndarray[Any, Any] | None = None,
) -> tuple[np.ndarray[Any, Any], float]:
    """Return the rotation per position of each of the n_dims/2 pairs, in radians, and the common factor of the results.

    The parameters are those of `rotate`.
    """
    pair = np.arange(n_dims // 2, dtype=np.float64)
    rates = base ** (-2 * pair / n_dims)
    if factors is not None:
        rates = rates / factors[: n_dims // 2].astype(np.float64)
    if ext_factor == 0.0:
        return scale * rates, attn_factor
    low, high = (_yarn_dimension(n_dims, n_ctx_orig, beta, base) for beta in (beta_fast, beta_slow))
    low, high = max(0.0, np.floor(low)), min(n_dims - 1.0, np.ceil(high))
    ramp = 1 - np.clip((pair - low) / max(0.001, high - low), 0, 1)
    mix = ramp * ext_factor
    return scale * rates * (1 - mix) + rates * mix, attn_factor * (1 + 0.1 * np.log(1 / scale))


def _yarn_dimension(n_dims: int, n_ctx_orig: int, beta: float, base: float) -> float:
    """Return the pair that rotates `beta` times over the original context (YaRN, Peng et al. 2023)."""
    return float(n_dims * np.log(n_ctx_orig / (beta * 2 * np.pi)) / (2 * np.log(base)))


@rules.of_tensors()
def _count_equal_rule(a: Spec, b: Spec) -> Resolution:
    if a.shape != b.shape:
        raise ShapeError("shapes must be equal")
    register = rules.promoted((a, b)).register
    return Resolution(Spec.of((), int64), (register, register), {}, tuple(range(a.ndim)), True)


@op(kind="row", rule=_count_equal_rule, ggml="COUNT_EQUAL")
def count_equal(input, other, /):
    """Count the equal elements, as int64."""
    return row_sum(cast(input == other, "int64"))
