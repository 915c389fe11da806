"""The operators of ONNX as functions of tensors.

Names, operands and attributes are those of https://onnx.ai/onnx/operators. An operand that later versions take in place
of an attribute, such as `axes`, is a parameter of that name, so one function serves opsets 13 to 28.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, Final

import numpy as np

import npu_tensor as nt
from npu_tensor.errors import ArgumentError, ShapeError
from npu_tensor.interop.onnx_images import IMAGE_OPERATORS
from npu_tensor.interop.onnx_operands import (
    MOST_FOLDED,
    Array,
    Operator,
    Value,
    array_dtype,
    as_array,
    as_tensor,
    dtype_name,
    ints,
    padded,
    tensor_dtype,
    text_of,
)
from npu_tensor.interop.onnx_quantized import QUANTIZED_OPERATORS
from npu_tensor.interop.onnx_sequences import ACTIVATIONS, SEQUENCE_OPERATORS
from npu_tensor.nn import functional
from npu_tensor.tensor import Tensor

F: Any = functional

# --- arithmetic


def _div(x: Any, y: Any) -> Any:
    is_float = any(isinstance(each, float) or getattr(each, "is_floating_point", bool)() for each in (x, y))
    return nt.div(x, y) if is_float else nt.div(x, y, rounding_mode="trunc")


def _div_arrays(x: Array, y: Array) -> Any:
    if not np.issubdtype(x.dtype, np.integer):
        return x / y
    quotient = x // y
    return quotient + ((quotient < 0) & (quotient * y != x))


def _pow(x: Any, y: Any) -> Any:
    return nt.pow(as_tensor(x), y).to(as_tensor(x).dtype)


def _mod(x: Any, y: Any, *, fmod: int = 0) -> Any:
    return (nt.fmod if fmod else nt.remainder)(x, y)


def _variadic(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda *operands: reduce(function, operands)


def _shift(x: Tensor, y: Tensor, *, direction: Any) -> Tensor:
    return x << y if text_of(direction) == "LEFT" else x >> y


def _clip(x: Any, low: Any = None, high: Any = None) -> Any:
    x = as_tensor(x)
    # In this order, the upper bound holds where it is below the lower one.
    if low is not None:
        x = nt.maximum(x, low)
    return x if high is None else nt.minimum(x, high)


def _where(condition: Any, x: Any, y: Any) -> Any:
    x = x if isinstance(x, Tensor) or isinstance(y, Tensor) else as_tensor(x)
    return nt.where(as_tensor(condition), x, y)


def _cast(x: Value, *, to: int, saturate: int = 1, round_mode: Any = "up") -> Any:
    dtype = array_dtype(to)
    return x.to(tensor_dtype(dtype)) if isinstance(x, Tensor) else np.asarray(x).astype(dtype)


def _cast_like(x: Value, like: Any, *, saturate: int = 1, round_mode: Any = "up") -> Any:
    if isinstance(x, Tensor):
        return x.to(tensor_dtype(np.dtype(like.dtype.name if isinstance(like, Tensor) else like.dtype)))
    return np.asarray(x).astype(like.dtype.numpy if isinstance(like, Tensor) else like.dtype)


def _is_inf(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    positive, negative = x == math.inf, x == -math.inf
    return (positive & bool(detect_positive)) | (negative & bool(detect_negative))


# --- activations


def _selu(x: Tensor, *, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805) -> Tensor:
    return F.elu(x, alpha) * gamma  # type: ignore[no-any-return]


def _shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    return nt.where(x < -lambd, x + bias, nt.where(x > lambd, x - bias, 0))  # type: ignore[no-any-return]


def _gelu(x: Tensor, *, approximate: Any = "none") -> Tensor:
    return F.gelu(x, text_of(approximate))  # type: ignore[no-any-return]


def _hardmax(x: Tensor, *, axis: int = -1) -> Tensor:
    places = nt.arange(x.shape[axis]).reshape([-1 if d == axis % x.ndim else 1 for d in range(x.ndim)])
    return (places == x.argmax(axis, keepdim=True)).to(x.dtype)


# --- products


def _gemm(
    a: Tensor, b: Tensor, c: Tensor | None = None, *, alpha: float = 1.0, beta: float = 1.0, transA: int = 0,
    transB: int = 0,
) -> Tensor:  # fmt: skip
    product = (a.T if transA else a) @ (b.T if transB else b)
    product = product if alpha == 1 else (product * alpha).to(a.dtype)
    return product if c is None or beta == 0 else product + (c if beta == 1 else (c * beta).to(c.dtype))


def _einsum(*operands: Tensor, equation: Any) -> Tensor:
    return nt.einsum(text_of(equation).replace(" ", ""), *operands)


# --- norms


def _batch_norm(
    x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor, *, count: int = 1, epsilon: float = 1e-5,
    momentum: float = 0.9, training_mode: int = 0,
) -> tuple[Tensor, ...]:  # fmt: skip
    if not training_mode:
        return (F.batch_norm(x, mean, variance, scale, bias, False, 0.0, epsilon),)
    dims = [d for d in range(x.ndim) if d != 1]
    now, spread = x.mean(dims), x.var(dims, correction=0)
    y = F.batch_norm(x, now, spread, scale, bias, False, 0.0, epsilon)
    return y, mean * momentum + now * (1 - momentum), variance * momentum + spread * (1 - momentum)


def _layer_norm(
    x: Tensor, scale: Tensor | None = None, bias: Tensor | None = None, *, count: int = 1, axis: int = -1,
    epsilon: float = 1e-5, stash_type: int = 1,
) -> tuple[Tensor, ...]:  # fmt: skip
    shape = x.shape[axis:]
    y = _affine_norm(partial(F.layer_norm, x, shape, eps=epsilon), shape, scale, bias)
    if count == 1:
        return (y,)
    dims = list(range(axis % x.ndim, x.ndim))
    exact = x.float() if x.itemsize < 4 else x
    return y, exact.mean(dims, True), (exact.var(dims, correction=0, keepdim=True) + epsilon).rsqrt()


def _affine_norm(norm: Callable[..., Tensor], shape: Any, scale: Tensor | None, bias: Tensor | None) -> Tensor:
    """Scale and shift inside the norm if the parameters have its shape, else after it."""
    if (scale is None or scale.shape == shape) and (bias is None or bias.shape == shape):
        return norm(scale, bias)
    y = norm(None, None)
    y = y if scale is None else y * scale
    return y if bias is None else y + bias


def _rms_norm(
    x: Tensor, scale: Tensor | None = None, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    shape = x.shape[axis:]
    return _affine_norm(lambda weight, _: F.rms_norm(x, shape, weight, epsilon), shape, scale, None)


def _group_norm(
    x: Tensor, scale: Tensor, bias: Tensor, *, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1
) -> Tensor:
    channels = x.shape[1]
    if scale.shape[0] == num_groups != channels:  # Before opset 21, one pair of parameters served a group.
        scale, bias = (each.repeat_interleave(channels // num_groups) for each in (scale, bias))
    return F.group_norm(x, num_groups, scale, bias, epsilon)  # type: ignore[no-any-return]


def _lrn(x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Tensor:
    channels = x.shape[1]
    before, after = min((size - 1) // 2, channels), min(size // 2, channels)
    squares = padded((x * x).movedim(1, -1), [before], [after]).movedim(-1, 1)
    total = sum(squares.narrow(1, start, channels) for start in range(before + after + 1))
    return x / (total * (alpha / size) + bias) ** beta


def _lp_normalization(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    norm = nt.linalg.vector_norm(x, p, axis, True)
    return nt.where(norm == 0, norm, x / norm)  # type: ignore[no-any-return]


def _mean_variance_normalization(x: Tensor, *, axes: Any = (0, 2, 3)) -> Tensor:
    dims = ints(axes)
    centred = x - x.mean(dims, True)
    return centred / ((centred * centred).mean(dims, True).sqrt() + 1e-9)


# --- reductions


def _reduction(function: Callable[..., Any], of_one: Callable[[Any], Any] = lambda x: x) -> Callable[..., Any]:
    """Return a reduction over `axes`; `of_one` is that of single elements."""

    def reduced(x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
        dims = [] if axes is None else ints(axes)
        if not dims and noop_with_empty_axes:
            return of_one(x)
        return function(x, tuple(dims) or tuple(range(x.ndim)), bool(keepdims))

    return reduced


def _extreme(function: Callable[..., Any], sign: int) -> Callable[..., Any]:
    def extreme(x: Tensor, dims: Sequence[int], keepdim: bool) -> Any:
        if not x.ndim or all(x.shape[d] for d in dims):
            return function(x, dims, keepdim)
        limits: Any = (math.inf, -math.inf)
        if not x.is_floating_point():
            limits = (
                (1, 0) if dtype_name(x) == "bool" else [getattr(np.iinfo(dtype_name(x)), e) for e in ("max", "min")]
            )
        empty = x.sum(dims, keepdim, dtype=x.dtype)
        return nt.full(empty.shape, limits[sign], dtype=x.dtype)

    return extreme


def _sum(x: Tensor, dims: Sequence[int], keepdim: bool) -> Tensor:
    return x.sum(dims, keepdim, dtype=x.dtype)


def _mean(x: Tensor, dims: Sequence[int], keepdim: bool) -> Tensor:
    return x.mean(dims, keepdim) if x.is_floating_point() else x.double().mean(dims, keepdim).to(x.dtype)


def _log_sum_exp(x: Tensor, dims: Sequence[int], keepdim: bool) -> Tensor:
    if all(x.shape[d] for d in dims):
        return nt.logsumexp(x, dims, keepdim)
    return x.exp().sum(dims, keepdim).log()


_ON_ARRAYS: Final[dict[str, Callable[..., Any]]] = {
    "Sum": lambda x, dims, keepdims: np.sum(x, dims, x.dtype, keepdims=keepdims),
    "Mean": lambda x, dims, keepdims: np.mean(x, dims, keepdims=keepdims).astype(x.dtype),
    "Prod": lambda x, dims, keepdims: np.prod(x, dims, x.dtype, keepdims=keepdims),
    "Max": lambda x, dims, keepdims: np.max(x, dims, keepdims=keepdims),
    "Min": lambda x, dims, keepdims: np.min(x, dims, keepdims=keepdims),
}

_REDUCTIONS: Final = {
    "Sum": _reduction(_sum),
    "Mean": _reduction(_mean),
    "Prod": _reduction(lambda x, dims, keepdim: x.prod(dims, keepdim, dtype=x.dtype)),
    "Max": _reduction(_extreme(nt.amax, 1)),
    "Min": _reduction(_extreme(nt.amin, 0)),
    "L1": _reduction(lambda x, dims, keepdim: _sum(x.abs(), dims, keepdim), nt.abs),
    "L2": _reduction(lambda x, dims, keepdim: _sum(x * x, dims, keepdim).sqrt().to(x.dtype), nt.abs),
    "LogSum": _reduction(lambda x, dims, keepdim: _sum(x, dims, keepdim).log(), nt.log),
    "LogSumExp": _reduction(_log_sum_exp),
    "SumSquare": _reduction(lambda x, dims, keepdim: _sum(x * x, dims, keepdim), lambda x: x * x),
}


def _arg(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def place(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
        if not select_last_index:
            return function(x, axis, bool(keepdims))
        return x.shape[axis] - 1 - function(x.flip(axis), axis, bool(keepdims))

    return place


def _top_k(x: Tensor, k: Array, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> tuple[Tensor, ...]:
    return tuple(nt.topk(x, int(k.item()), axis, bool(largest), bool(sorted)))


def _cumulative(function: Callable[..., Tensor], first: int) -> Callable[..., Tensor]:
    def running(x: Tensor, axis: Array, *, exclusive: int = 0, reverse: int = 0) -> Tensor:
        d = int(axis.item())
        x = x.flip(d) if reverse else x
        if exclusive:
            shape = [1 if each == d % x.ndim else size for each, size in enumerate(x.shape)]
            x = nt.cat([nt.full(shape, first, dtype=x.dtype), x], d).narrow(d, 0, x.shape[d])
        y = function(x, d, dtype=x.dtype)
        return y.flip(d) if reverse else y

    return running


# --- shapes


def _shape(x: Any, *, start: int = 0, end: int | None = None) -> Array:
    return np.array(x.shape[start:end], np.int64)


def _reshape(x: Any, shape: Array, *, allowzero: int = 0) -> Any:
    sizes = ints(shape)
    if not allowzero:
        if len(sizes) > x.ndim and 0 in sizes[x.ndim :]:
            raise ShapeError(f"shape {sizes} copies a size that operand {list(x.shape)} does not have")
        sizes = [x.shape[d] if size == 0 else size for d, size in enumerate(sizes)]
    return x.reshape(sizes)


def _flatten(x: Any, *, axis: int = 1) -> Any:
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape([math.prod(x.shape[:axis]), math.prod(x.shape[axis:])])


def _transpose(x: Any, *, perm: Any = None) -> Any:
    order = list(range(x.ndim))[::-1] if perm is None else ints(perm)
    return x.permute(*order) if isinstance(x, Tensor) else np.transpose(x, order)


def _concat(*operands: Any, axis: int) -> Any:
    return nt.cat(operands, axis)


def _split(x: Any, split: Any = None, *, count: int, axis: int = 0, num_outputs: int | None = None) -> tuple[Any, ...]:
    size = x.shape[axis]
    if split is None:
        parts = num_outputs or count
        largest = -(-size // parts)
        sizes = [min(largest, max(0, size - start * largest)) for start in range(parts)]
    else:
        sizes = ints(split)
    if isinstance(x, Tensor):
        return tuple(nt.split(x, sizes, axis))
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis))


def _slice(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    first, last = ints(starts), ints(ends)
    dims, step = range(len(first)) if axes is None else ints(axes), ints(steps, len(first))
    places = [slice(None)] * x.ndim
    for d, start, end, by in zip(dims, first, last, step, strict=True):
        places[d] = slice(start, end, by)
    return x[tuple(places)]


def _squeeze(x: Any, axes: Any = None) -> Any:
    dims = None if axes is None else {d % x.ndim for d in ints(axes)}
    if dims is not None and any(x.shape[d] != 1 for d in dims):
        raise ShapeError(f"dimensions {sorted(dims)} of {list(x.shape)} are not all 1")
    return x.reshape([size for d, size in enumerate(x.shape) if (size != 1 if dims is None else d not in dims)])


def _unsqueeze(x: Any, axes: Any) -> Any:
    dims = ints(axes)
    ndim = x.ndim + len(dims)
    new, old = {d % ndim for d in dims}, iter(x.shape)
    if len(new) != len(dims):
        raise ShapeError(f"axes {dims} are not all different")
    return x.reshape([1 if d in new else next(old) for d in range(ndim)])


def _expand(x: Any, shape: Array) -> Any:
    sizes = nt.broadcast_shapes(tuple(x.shape), tuple(ints(shape)))
    if isinstance(x, np.ndarray) and math.prod(sizes) <= MOST_FOLDED:
        return np.broadcast_to(x, sizes)
    return nt.broadcast_to(as_tensor(x), sizes)


def _tile(x: Any, repeats: Array) -> Any:
    if isinstance(x, np.ndarray) and x.size * math.prod(ints(repeats)) <= MOST_FOLDED:
        return np.tile(x, ints(repeats))
    return nt.tile(as_tensor(x), *ints(repeats))


def _range(start: Array, limit: Array, delta: Array, *, stash_type: int = 1) -> Any:
    count = max(0, math.ceil((limit.item() - start.item()) / delta.item()))
    if count > MOST_FOLDED:
        return nt.arange(count, dtype=start.dtype.name) * delta.item() + start.item()
    return (start.astype(np.float64 if start.dtype.kind == "f" else start.dtype) + np.arange(count) * delta).astype(
        start.dtype
    )


def _constant_of_shape(shape: Array, *, value: Array | None = None) -> Any:
    fill = np.zeros(1, np.float32) if value is None else value.reshape(1)
    if min(ints(shape), default=0) < 0:
        raise ShapeError(f"shape {ints(shape)} has a negative size")
    if math.prod(ints(shape)) <= MOST_FOLDED:
        return np.full(ints(shape), fill[0], fill.dtype)
    return nt.full(ints(shape), fill[0].item(), dtype=tensor_dtype(fill.dtype))


def _pad(x: Tensor, pads: Any, value: Any = None, axes: Array | None = None, *, mode: Any = "constant") -> Tensor:
    widths = ints(pads)
    dims = range(x.ndim) if axes is None else [d % x.ndim for d in ints(axes)]
    before, after = [0] * x.ndim, [0] * x.ndim
    for number, d in enumerate(dims):
        before[d], after[d] = widths[number], widths[len(widths) // 2 + number]
    kind = text_of(mode)
    if kind == "constant":
        fill = 0 if value is None else value.item()
        if dtype_name(x) == "bool":
            return padded(x.to("uint8"), before, after, int(fill)).to("bool")
        return padded(x, before, after, fill)
    for d in range(x.ndim):  # Negative widths crop first.
        if before[d] < 0 or after[d] < 0:
            start = max(0, -before[d])
            x = x.narrow(d, start, x.shape[d] - start - max(0, -after[d]))
        x = _extend(x, d, max(0, before[d]), max(0, after[d]), kind)
    return x


def _extend(x: Tensor, d: int, before: int, after: int, kind: str) -> Tensor:
    """Pad a dimension with its own elements."""
    if not before and not after:
        return x
    if kind not in ("edge", "reflect", "wrap"):
        raise ArgumentError(f"mode {kind!r} is not known; choose from constant, edge, reflect, wrap")
    places = np.pad(np.arange(x.shape[d]), (before, after), kind)  # type: ignore[call-overload]
    return x.index_select(d, as_tensor(places))


def _depth_to_space(x: Tensor, *, blocksize: int, mode: Any = "DCR") -> Tensor:
    if text_of(mode) == "CRD":
        return F.pixel_shuffle(x, blocksize)  # type: ignore[no-any-return]
    n, c, h, w = x.shape
    parts = x.reshape(n, blocksize, blocksize, c // blocksize**2, h, w).permute(0, 3, 4, 1, 5, 2)
    return parts.reshape(n, c // blocksize**2, h * blocksize, w * blocksize)


def _space_to_depth(x: Tensor, *, blocksize: int, mode: Any = "DCR") -> Tensor:
    if text_of(mode) == "CRD":
        return F.pixel_unshuffle(x, blocksize)  # type: ignore[no-any-return]
    n, c, h, w = x.shape
    parts = x.reshape(n, c, h // blocksize, blocksize, w // blocksize, blocksize).permute(0, 3, 5, 1, 2, 4)
    return parts.reshape(n, c * blocksize**2, h // blocksize, w // blocksize)


def _trilu(x: Any, k: Array | None = None, *, upper: int = 1) -> Any:
    diagonal = 0 if k is None else min(max(int(k.item()), -x.shape[-2]), x.shape[-1])
    if isinstance(x, np.ndarray):
        return (np.triu if upper else np.tril)(x, diagonal)
    return (nt.triu if upper else nt.tril)(x, diagonal)


def _eye_like(x: Any, *, dtype: int | None = None, k: int = 0) -> Array:
    rows, columns = x.shape
    own = x.dtype.numpy if isinstance(x, Tensor) else x.dtype
    return np.eye(rows, columns, k, own if dtype is None else array_dtype(dtype))


def _reverse_sequence(x: Tensor, lengths: Array, *, batch_axis: int = 1, time_axis: int = 0) -> Tensor:
    steps = np.arange(x.shape[time_axis])
    places = np.stack([np.where(steps < n, n - 1 - steps, steps) for n in lengths], 1 - time_axis)
    shape = [size if d < 2 else 1 for d, size in enumerate(x.shape)]
    return nt.gather(x, time_axis, as_tensor(places.reshape(shape)).expand(*x.shape))


def _center_crop_pad(x: Tensor, shape: Array, *, axes: Any = None) -> Tensor:
    before, after = [0] * x.ndim, [0] * x.ndim
    for d, size in zip(range(x.ndim) if axes is None else ints(axes), ints(shape), strict=True):
        more = size - x.shape[d]
        before[d] = more // 2 if more > 0 else -(-more // 2)
        after[d] = more - before[d]
    return padded(x, before, after)


def _col2im(
    x: Tensor, image: Array, block: Array, *, dilations: Any = None, pads: Any = None, strides: Any = None
) -> Tensor:
    n = len(ints(block))
    pad = ints(pads, 2 * n, 0)
    if n != 2 or pad[:n] != pad[n:]:
        raise ArgumentError("only two-dimensional images with equal pads on both sides are supported")
    return F.fold(x, ints(image), ints(block), ints(dilations, n), pad[:n], ints(strides, n))  # type: ignore[no-any-return]


# --- indices


def _positive(places: Tensor, size: int) -> Tensor:
    return nt.where(places < 0, places + size, places)  # type: ignore[no-any-return]


def _gather(x: Any, places: Any, *, axis: int = 0) -> Any:
    return x[(slice(None),) * (axis % x.ndim) + (places,)]


def _gather_elements(x: Tensor, places: Tensor, *, axis: int = 0) -> Tensor:
    return nt.gather(x, axis, _positive(places, x.shape[axis]).to("int64"))


def _gather_nd(x: Tensor, places: Tensor, *, batch_dims: int = 0) -> Tensor:
    batch = [
        nt.arange(size).reshape([-1 if d == each else 1 for each in range(places.ndim - 1)])
        for d, size in enumerate(x.shape[:batch_dims])
    ]
    return x[(*batch, *(places.select(-1, number) for number in range(places.shape[-1])))]


_SCATTERED: Final = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def _scatter_elements(x: Tensor, places: Tensor, updates: Tensor, *, axis: int = 0, reduction: Any = "none") -> Tensor:
    index = _positive(places, x.shape[axis]).to("int64")
    if text_of(reduction) == "none":
        return x.scatter(axis, index, updates)
    return x.scatter_reduce(axis, index, updates, _SCATTERED[text_of(reduction)])


def _scatter_nd(x: Tensor, places: Tensor, updates: Tensor, *, reduction: Any = "none") -> Tensor:
    depth, kind = places.shape[-1], text_of(reduction)
    index = tuple(places.select(-1, number) for number in range(depth))
    if kind in ("none", "add"):
        return nt.index_put(x, index, updates, kind == "add")
    flat: Any = 0
    for size, place in zip(x.shape[:depth], index, strict=True):
        flat = flat * size + _positive(place, size)
    rows, length = x.reshape([math.prod(x.shape[:depth]), -1]), math.prod(x.shape[depth:])
    index_rows = flat.reshape(-1, 1).to("int64").expand(-1, length)
    return rows.scatter_reduce(0, index_rows, updates.reshape(-1, length), _SCATTERED[kind]).reshape(x.shape)


def _one_hot(places: Tensor, depth: Array, values: Tensor, *, axis: int = -1) -> Tensor:
    size = int(depth.item())
    at = axis % (places.ndim + 1)
    index = places.to("int64").unsqueeze(at)
    shape = [-1 if d == at else 1 for d in range(index.ndim)]
    chosen = nt.where(index < 0, index + size, index) == nt.arange(size).reshape(shape)
    return nt.where(chosen, values[1], values[0])  # type: ignore[no-any-return]


def _compress(x: Tensor, condition: Array, *, axis: int | None = None) -> Tensor:
    places = as_tensor(np.flatnonzero(condition))
    return x.reshape(-1)[places] if axis is None else x.index_select(axis, places)


def _unique(x: Array, *, count: int = 1, axis: int | None = None, sorted: int = 1) -> tuple[Any, ...]:
    values, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        values = np.take(values, order, 0 if axis is None else axis)
        first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
    return values, first.astype(np.int64), inverse.astype(np.int64), counts.astype(np.int64)


def _tensor_scatter(
    past: Tensor, update: Tensor, starts: Tensor | None = None, *, axis: int = -2, mode: Any = "linear"
) -> Tensor:
    size, d = past.shape[axis], axis % past.ndim
    steps = nt.arange(update.shape[d])
    places = steps.unsqueeze(0) if starts is None else starts.unsqueeze(1) + steps
    if text_of(mode) == "circular":
        places = nt.remainder(places, size)
    shape = [1] * past.ndim
    shape[0], shape[d] = places.shape
    return past.scatter(d, places.reshape(shape).expand(*update.shape).to("int64"), update)


def _non_max_suppression(
    boxes: Array, scores: Array, most: Array | None = None, overlap: Array | None = None,
    least_score: Array | None = None, *, center_point_box: int = 0,
) -> Array:  # fmt: skip
    limit = 0 if most is None else int(most.item())
    allowed = 0.0 if overlap is None else float(overlap.item())
    floor = None if least_score is None else float(least_score.item())
    if center_point_box:
        centre, half = boxes[..., :2], boxes[..., 2:] / 2
        low, high = centre - half, centre + half
    else:
        low, high = np.minimum(boxes[..., :2], boxes[..., 2:]), np.maximum(boxes[..., :2], boxes[..., 2:])
    chosen = []
    for image, label in np.ndindex(*scores.shape[:2]):
        score, first, last = scores[image, label], low[image], high[image]
        order = np.argsort(-score, kind="stable")
        order = order if floor is None else order[score[order] > floor]
        kept = 0
        while len(order) and kept < limit:
            best, order, kept = order[0], order[1:], kept + 1
            chosen.append((image, label, best))
            shared = np.clip(np.minimum(last[best], last[order]) - np.maximum(first[best], first[order]), 0, None)
            common = shared.prod(-1)
            areas = (last[order] - first[order]).prod(-1) + (last[best] - first[best]).prod()
            order = order[common <= allowed * (areas - common)]
    return np.array(chosen, np.int64).reshape(-1, 3)


# --- losses


def _negative_log_likelihood(
    x: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index: int = -(1 << 40), reduction: Any = "mean"
) -> Tensor:
    ignored = target == ignore_index
    index = nt.where(ignored, 0, target).to("int64")
    weights = nt.where(ignored, 0, nt.ones((), dtype=x.dtype) if weight is None else weight[index])
    losses = nt.where(ignored, 0, -nt.gather(x, 1, index.unsqueeze(1)).squeeze(1) * weights)
    kind = text_of(reduction)
    if kind == "none":
        return losses  # type: ignore[no-any-return]
    return losses.sum() if kind == "sum" else losses.sum() / weights.sum()  # type: ignore[no-any-return]


def _softmax_cross_entropy(
    x: Tensor, target: Tensor, weight: Tensor | None = None, *, count: int = 1, **attributes: Any
) -> tuple[Tensor, ...]:
    logarithms = x.log_softmax(1)
    return _negative_log_likelihood(logarithms, target, weight, **attributes), logarithms


# --- random numbers


def _random(draw: Callable[..., Tensor]) -> Callable[..., Any]:
    def drawn(
        *like: Tensor, dtype: int | None = None, shape: Any = None, seed: float | None = None, **bounds: float
    ) -> Tensor:
        sizes = like[0].shape if like else ints(shape)
        name = dtype_name(like[0]) if like and dtype is None else tensor_dtype(array_dtype(dtype or 1))
        generator = None if seed is None else nt.Generator().manual_seed(int(seed))
        return draw(tuple(sizes), generator, **bounds).to(name)

    return drawn


def _normal(sizes: tuple[int, ...], generator: Any, mean: float = 0.0, scale: float = 1.0) -> Tensor:
    return nt.randn(*sizes, generator=generator) * scale + mean


def _uniform(sizes: tuple[int, ...], generator: Any, low: float = 0.0, high: float = 1.0) -> Tensor:
    return nt.rand(*sizes, generator=generator) * (high - low) + low


def _dropout(
    x: Tensor, ratio: Array | None = None, training: Array | None = None, *, count: int = 1, seed: int = 0
) -> tuple[Tensor, ...]:
    rate = 0.5 if ratio is None else float(ratio.item())
    if training is None or not training.item() or rate == 0:
        return x, nt.ones(*x.shape, dtype="bool")
    kept = nt.rand(*x.shape) >= rate
    return nt.where(kept, x / (1 - rate), x * 0), kept


def _window(*weights: float) -> Callable[..., Array]:
    def window(size: Array, *, output_datatype: int = 1, periodic: int = 1) -> Array:
        count = int(size.item())
        angle = 2 * np.pi * np.arange(count) / (count if periodic else max(count - 1, 1))
        terms = (weight * np.cos(number * angle) for number, weight in enumerate(weights))
        return np.asarray(sum(terms)).astype(array_dtype(output_datatype))

    return window


# --- control flow

_MOST_STEPS: Final = 1 << 16


def _if(condition: Array, *, captured: tuple[Any, ...], then_branch: Any, else_branch: Any, count: int) -> Any:
    return (then_branch if condition.item() else else_branch)(*captured)


def _loop(
    most: Array | None, condition: Array | None, *carried: Any, captured: tuple[Any, ...], body: Any, count: int
) -> tuple[Any, ...]:
    limit = _MOST_STEPS if most is None else int(most.item())
    scanned: list[list[Any]] = [[] for _ in range(count - len(carried))]
    step, states = 0, carried
    while step < limit and (condition is None or condition.item()):
        if step == _MOST_STEPS:
            raise ArgumentError(f"a loop of more than {_MOST_STEPS} steps")
        after, *results = body(np.array(step, np.int64), np.array(True), *states, *captured)
        condition = None if condition is None else as_array(after, 0)
        states = tuple(results[: len(states)])
        for values, value in zip(scanned, results[len(states) :], strict=False):  # The last ones may have no reader.
            values.append(value)
        step += 1
    return *states, *(nt.stack([as_tensor(value) for value in values]) for values in scanned)


def _scan(
    *operands: Tensor, captured: tuple[Any, ...], body: Any, count: int, num_scan_inputs: int,
    scan_input_axes: Any = None, scan_input_directions: Any = None, scan_output_axes: Any = None,
    scan_output_directions: Any = None,
) -> Any:  # fmt: skip
    first = len(operands) - num_scan_inputs
    states, inputs = operands[:first], operands[first:]
    axes, reversed_inputs = (ints(each, len(inputs), 0) for each in (scan_input_axes, scan_input_directions))
    steps = inputs[0].shape[axes[0]]
    rows = []
    for step in range(steps):
        places = [steps - 1 - step if backward else step for backward in reversed_inputs]
        parts = [each.select(axis, place) for each, axis, place in zip(inputs, axes, places, strict=True)]
        results = [as_tensor(each) for each in body(*states, *parts, *captured)]
        states = tuple(results[:first])
        rows.append(results[first:])
    columns = list(zip(*rows, strict=True))
    axes, backward_outputs = (ints(each, len(columns), 0) for each in (scan_output_axes, scan_output_directions))
    outputs = [
        nt.stack(column[::-1] if backward else column, axis)
        for column, axis, backward in zip(columns, axes, backward_outputs, strict=True)
    ]
    return *states, *outputs


# --- com.microsoft


def _skip_norm(
    x: Tensor, skip: Tensor, scale: Tensor, shift: Tensor | None = None, bias: Tensor | None = None, *, count: int = 1,
    epsilon: float = 1e-12,
) -> tuple[Tensor, ...]:  # fmt: skip
    total = x + skip if bias is None else x + skip + bias
    return F.layer_norm(total, total.shape[-1:], scale, shift, epsilon), None, None, total  # type: ignore[return-value]


def _skip_rms_norm(
    x: Tensor, skip: Tensor, scale: Tensor, bias: Tensor | None = None, *, count: int = 1, epsilon: float = 1e-12
) -> tuple[Tensor, ...]:
    total = x + skip if bias is None else x + skip + bias
    return F.rms_norm(total, total.shape[-1:], scale, epsilon), None, None, total  # type: ignore[return-value]


def _fused_matmul(
    a: Tensor, b: Tensor, *, alpha: float = 1.0, transA: int = 0, transB: int = 0, transBatchA: int = 0,
    transBatchB: int = 0,
) -> Tensor:  # fmt: skip
    if transBatchA or transBatchB:
        raise ArgumentError("transBatchA and transBatchB are not supported")
    product = (a.mT if transA else a) @ (b.mT if transB else b)
    return product if alpha == 1 else product * alpha


# --- the table

_SAME: Final = """
Acos Acosh Asin Asinh Atan Atanh Cos Cosh Det Erf Exp HardSwish IsNaN Log Mish Reciprocal Round Sign Sin Sinh Tan
"""
"""Operators with a function of the same name in lower case."""

_ARITHMETIC: Final[dict[str, Callable[..., Any]]] = {
    "Abs": operator.abs,
    "Add": operator.add,
    "And": operator.and_,
    "BitwiseAnd": operator.and_,
    "BitwiseNot": operator.invert,
    "BitwiseOr": operator.or_,
    "BitwiseXor": operator.xor,
    "Equal": operator.eq,
    "Greater": operator.gt,
    "GreaterOrEqual": operator.ge,
    "Less": operator.lt,
    "LessOrEqual": operator.le,
    "Mul": operator.mul,
    "Neg": operator.neg,
    "Not": operator.invert,
    "Or": operator.or_,
    "Sub": operator.sub,
    "Xor": operator.xor,
}
"""Python's operators, of tensors and of arrays."""

_SHAPES: Final[dict[str, tuple[Callable[..., Any], tuple[int, ...]]]] = {
    "Cast": (_cast, ()),
    "Expand": (_expand, (1,)),
    "Flatten": (_flatten, ()),
    "Identity": (lambda x: x, ()),
    "Reshape": (_reshape, (1,)),
    "Shape": (_shape, ()),
    "Size": (lambda x: np.array(math.prod(x.shape), np.int64), ()),
    "Slice": (_slice, (1, 2, 3, 4)),
    "Squeeze": (_squeeze, (1,)),
    "Tile": (_tile, (1,)),
    "Transpose": (_transpose, ()),
    "Trilu": (_trilu, (1,)),
    "Unsqueeze": (_unsqueeze, (1,)),
}
"""Functions of tensors and of arrays, and the positions of constants."""

_FROM_CONSTANTS: Final[dict[str, tuple[Callable[..., Any], tuple[int, ...]]]] = {
    "BitCast": (lambda x, *, to: x.view(array_dtype(to)), (0,)),
    "BlackmanWindow": (_window(0.42, -0.5, 0.08), (0,)),
    "ConstantOfShape": (_constant_of_shape, (0,)),
    "HammingWindow": (_window(25 / 46, -21 / 46), (0,)),
    "HannWindow": (_window(0.5, -0.5), (0,)),
    "NonMaxSuppression": (_non_max_suppression, (0, 1, 2, 3, 4)),
    "Range": (_range, (0, 1, 2)),
}
"""Functions of constants alone."""

_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **ACTIVATIONS,
    "BitShift": _shift,
    "Celu": lambda x, *, alpha=1.0: F.celu(x, alpha),
    "DepthToSpace": _depth_to_space,
    "Einsum": _einsum,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Gelu": _gelu,
    "Gemm": _gemm,
    "GroupNormalization": _group_norm,
    "Hardmax": _hardmax,
    "InstanceNormalization": lambda x, scale, bias, *, epsilon=1e-5: F.group_norm(x, x.shape[1], scale, bias, epsilon),
    "IsInf": _is_inf,
    "LRN": _lrn,
    "LogSoftmax": lambda x, *, axis=-1: x.log_softmax(axis),
    "LpNormalization": _lp_normalization,
    "MatMul": operator.matmul,
    "MeanVarianceNormalization": _mean_variance_normalization,
    "NegativeLogLikelihoodLoss": _negative_log_likelihood,
    "PRelu": lambda x, slope: nt.where(x < 0, x * slope, x),
    "RMSNormalization": _rms_norm,
    "RandomNormal": _random(_normal),
    "RandomNormalLike": _random(_normal),
    "RandomUniform": _random(_uniform),
    "RandomUniformLike": _random(_uniform),
    "ScatterElements": _scatter_elements,
    "ScatterND": _scatter_nd,
    "Selu": _selu,
    "Shrink": _shrink,
    "SimplifiedLayerNormalization": _rms_norm,
    "Softmax": lambda x, *, axis=-1: x.softmax(axis),
    "SpaceToDepth": _space_to_depth,
    "SwiGLU": lambda a, b, *, alpha=1.0: a * nt.sigmoid(a * alpha) * b,
    "Swish": lambda x, *, alpha=1.0: F.silu(x) if alpha == 1 else x * nt.sigmoid(x * alpha),
    "TensorScatter": _tensor_scatter,
    "com.microsoft.BiasGelu": lambda x, bias: F.gelu(x + bias),
    "com.microsoft.FastGelu": lambda x, bias=None: F.gelu(x if bias is None else x + bias, "tanh"),
    "com.microsoft.FusedMatMul": _fused_matmul,
    "com.microsoft.Gelu": lambda x: F.gelu(x),
    "com.microsoft.QuickGelu": lambda x, *, alpha=1.702: x * nt.sigmoid(x * alpha),
    "com.microsoft.SimplifiedLayerNormalization": _rms_norm,
}
"""Functions of tensors with one result."""

OPERATORS: Final[dict[str, Operator]] = {
    **IMAGE_OPERATORS,
    **QUANTIZED_OPERATORS,
    **SEQUENCE_OPERATORS,
    **{name: Operator(getattr(nt, name.lower())) for name in _SAME.split()},
    **{name: Operator(function, fold=function, numbers=True) for name, function in _ARITHMETIC.items()},
    **{name: Operator(function, constants, function) for name, (function, constants) in _SHAPES.items()},
    **{name: Operator(function, constants, function) for name, (function, constants) in _FROM_CONSTANTS.items()},
    **{name: Operator(function) for name, function in _FUNCTIONS.items()},
    **{
        f"Reduce{name}": Operator(function, (1,), _reduction(_ON_ARRAYS[name]) if name in _ON_ARRAYS else None)
        for name, function in _REDUCTIONS.items()
    },
    "ArgMax": Operator(_arg(nt.argmax)),
    "ArgMin": Operator(_arg(nt.argmin)),
    "BatchNormalization": Operator(_batch_norm, counts=True),
    "CastLike": Operator(_cast_like, fold=_cast_like),
    "Ceil": Operator(nt.ceil, fold=np.ceil),
    "CenterCropPad": Operator(_center_crop_pad, (1,)),
    "Clip": Operator(_clip, numbers=True),
    "Col2Im": Operator(_col2im, (1, 2)),
    "Compress": Operator(_compress, (1,)),
    "Concat": Operator(_concat, fold=lambda *operands, axis: np.concatenate(operands, axis)),
    "CumProd": Operator(_cumulative(nt.cumprod, 1), (1,)),
    "CumSum": Operator(_cumulative(nt.cumsum, 0), (1,)),
    "Div": Operator(_div, fold=_div_arrays, numbers=True),
    "Dropout": Operator(_dropout, (1, 2), counts=True),
    "If": Operator(_if, (0,), counts=True),
    "Loop": Operator(_loop, (0, 1), counts=True),
    "EyeLike": Operator(_eye_like, fold=_eye_like),
    "Floor": Operator(nt.floor, fold=np.floor),
    "Gather": Operator(_gather, fold=_gather, numbers=True),
    "LayerNormalization": Operator(_layer_norm, counts=True),
    "Max": Operator(_variadic(nt.maximum), fold=_variadic(np.maximum), numbers=True),
    "Mean": Operator(lambda *operands: reduce(operator.add, operands) / len(operands), numbers=True),
    "Min": Operator(_variadic(nt.minimum), fold=_variadic(np.minimum), numbers=True),
    "Mod": Operator(_mod, fold=lambda x, y, *, fmod=0: (np.fmod if fmod else np.mod)(x, y), numbers=True),
    "NonZero": Operator(lambda x: nt.nonzero(x).T, fold=lambda x: np.stack(np.nonzero(x))),
    "OneHot": Operator(_one_hot, (1,)),
    "Pad": Operator(_pad, (1, 2, 3)),
    "Pow": Operator(_pow, fold=lambda x, y: np.power(x, y).astype(x.dtype), numbers=True),
    "ReverseSequence": Operator(_reverse_sequence, (1,)),
    "SoftmaxCrossEntropyLoss": Operator(_softmax_cross_entropy, counts=True),
    "Split": Operator(_split, (1,), _split, counts=True),
    "Scan": Operator(_scan, counts=True),
    "Sqrt": Operator(nt.sqrt, fold=np.sqrt),
    "Sum": Operator(_variadic(operator.add), fold=_variadic(operator.add), numbers=True),
    "TopK": Operator(_top_k, (1,)),
    "Unique": Operator(_unique, (0,), _unique, counts=True),
    "Where": Operator(_where, fold=np.where, numbers=True),
    "tensors": Operator(lambda *values: tuple(map(as_tensor, values))),
    "com.microsoft.SkipLayerNormalization": Operator(_skip_norm, counts=True),
    "com.microsoft.SkipSimplifiedLayerNormalization": Operator(_skip_rms_norm, counts=True),
}
"""Operators by name; those of a domain other than ONNX's own have its name before a dot."""
