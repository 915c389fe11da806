"""Normalization of rows and channels, and the gradients of it that are one pass over the rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from npu_tensor.dtypes import as_dtype
from npu_tensor.ops import rules
from npu_tensor.ops.declare import Operand, Resolution
from npu_tensor.ops.registry import op
from npu_tensor.ops.rows import row_mean, row_sum
from npu_tensor.spec import Spec


def _wide(operands: tuple[Operand, ...], attributes: dict[str, Any]) -> Resolution:
    """Resolve as `like_first`, in the dtype of the computation."""
    resolution = rules.like_first(operands, attributes)
    return replace(resolution, spec=Spec.of(resolution.spec.shape, as_dtype(resolution.spec.dtype.register)))


def _statistic(operands: tuple[Operand, ...], attributes: dict[str, Any]) -> Resolution:
    """Resolve to one element per row of the first operand, in float32 if its floats are narrower."""
    dtype = as_dtype(rules.require_tensor(operands[0]).dtype.register)
    resolution = rules.reduction("float")(operands[:1], {**attributes, "keepdim": True, "dtype": dtype})
    return replace(resolution, registers=resolution.registers * len(operands))


def _scale_of_rows(squares, eps):
    return 1 / np.sqrt(row_mean(squares) + eps)


@op(kind="row", rule=rules.rowwise, ggml="NORM")
def norm_rows(input, /, dim, eps: float = 1e-5):
    """Return (input - mean) / sqrt(variance + eps) over dim: layer norm without weights."""
    deviation = input - row_mean(input)
    return deviation * _scale_of_rows(deviation * deviation, eps)


@op(kind="row", rule=rules.rowwise, ggml="RMS_NORM")
def rms_norm_rows(input, /, dim, eps: float = 1e-5):
    """Return input / sqrt(mean(input^2) + eps) over dim: RMS norm without weights."""
    return input * _scale_of_rows(input * input, eps)


@op(kind="row", rule=rules.rowwise, ggml="L2_NORM")
def l2_norm(input, /, dim=-1, eps: float = 1e-12):
    """Return input / max(sqrt(sum(input^2)), eps) over dim."""
    return input * (1 / np.maximum(np.sqrt(row_sum(input * input)), eps))


@op(kind="row", rule=rules.rows_like_first, public=False)
def layer_norm_op(input, weight, bias, /, dim, eps: float):
    """Return norm_rows(input) * weight + bias in the dtype of input."""
    return norm_rows.op.body(input, dim, eps) * weight + bias


@op(kind="row", rule=rules.rows_like_first, public=False)
def rms_norm_op(input, weight, /, dim, eps: float):
    """Return rms_norm_rows(input) * weight in the dtype of input."""
    return rms_norm_rows.op.body(input, dim, eps) * weight


@op(kind="map", rule=_wide, public=False, domain=(0.1, 4.0))
def channel_scale(variance, weight, /, eps: float):
    """Return weight / sqrt(variance + eps), in float32 if the variance is narrower."""
    return 1 / np.sqrt(variance + eps) * weight


@op(kind="map", rule=_wide, public=False)
def channel_shift(mean, scale, bias, /):
    """Return bias - mean * scale, in float32 if the mean is narrower."""
    return bias - mean * scale


@op(kind="map", rule=rules.like_first, public=False)
def batch_norm_op(input, scale, shift, /):
    """Return input * scale + shift in the dtype of input: batch norm whose statistics do not depend on the input."""
    return input * scale + shift


@op(kind="map", rule=rules.like_first, public=False)
def standardize(input, mean, scale, weight, bias, /, dim, eps: float):
    """Return (input - mean) * scale * weight + bias with mean and scale of the rows, on which gradients depend too."""
    return (input - mean) * scale * weight + bias


# --- gradients, from the mean and the scale of rows: 1 / sqrt(mean square deviation + eps)


@op(kind="row", rule=_statistic, public=False)
def mean_square(input, mean, /, dim):
    """Return the mean of (input - mean)^2 over dim, whose extents become 1. 16-bit floats give float32."""
    deviation = input - mean
    return row_mean(deviation * deviation)


@op(kind="map", rule=rules.floating, public=False, domain=(0.1, 4.0))
def inverse_deviation(variance, /, eps: float):
    """Return 1 / sqrt(variance + eps)."""
    return 1 / np.sqrt(variance + eps)


@op(kind="row", rule=rules.rows_like_first, public=False)
def layer_norm_gradient(input, mean, scale, weight, gradient, /, dim):
    """Compute the gradient of the input of layer_norm from that of its result."""
    normal, weighted = (input - mean) * scale, gradient * weight
    return scale * (weighted - row_mean(weighted) - normal * row_mean(weighted * normal))


@op(kind="row", rule=rules.rows_like_first, public=False)
def rms_norm_gradient(input, scale, weight, gradient, /, dim):
    """Compute the gradient of the input of rms_norm from that of its result."""
    normal, weighted = input * scale, gradient * weight
    return scale * (weighted - normal * row_mean(weighted * normal))


@op(kind="row", rule=_statistic, public=False)
def norm_weight_gradient(input, mean, scale, gradient, /, dim):
    """Compute the gradient of the weight of a norm, which is broadcast along dim."""
    return row_sum((input - mean) * scale * gradient)


@op(kind="map", rule=rules.like_first, public=False)
def standardize_gradient(input, mean, scale, weight, gradient, of_weight, of_bias, /, count: float):
    """Compute the gradient of the input of standardize, whose rows have `count` elements, from those of the others."""
    return weight * scale * (gradient - ((input - mean) * scale * of_weight + of_bias) * (1 / count))
