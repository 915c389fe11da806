"""The operators of ONNX as functions of tensors.

Names, operands and attributes are those of https://onnx.ai/onnx/operators. An operand that later versions take in place
of an attribute, such as `axes`, is a parameter of that name, so one function serves opsets 13 to 28.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Final

import ml_dtypes
import numpy as np

import npu_tensor as nt
from npu_tensor import Tensor, ops
from npu_tensor.errors import ArgumentError, CaptureError, DTypeError, NpuTensorError, ShapeError
from npu_tensor.nn import functional
from npu_tensor.observe.printing import brief

__all__ = ["DTYPE_NAMES", "OPERATORS", "Operator", "array_dtype"]

F: Any = functional
_ops: Any = ops
Array = np.ndarray[Any, Any]
Value = Tensor | Array | None
"""An operand: a tensor, an array if it is known while the graph is recorded, or None if it is left out."""

_MOST_FOLDED: Final = 1 << 22
"""Elements of an array that is created while the graph is recorded. Larger values are tensors."""

DTYPE_NAMES: Final = (
    *("undefined", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16"),
    *("float64", "uint32", "uint64", "complex64", "complex128", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "uint4", "int4", "float4_e2m1fn", "float8_e8m0fnu", "uint2", "int2"),
)
"""Names of ONNX's dtypes, by number."""


def array_dtype(number: int) -> np.dtype[Any]:
    """Return NumPy's dtype of one of ONNX's."""
    name = DTYPE_NAMES[number] if 0 <= number < len(DTYPE_NAMES) else f"number {number}"
    try:
        return np.dtype(getattr(ml_dtypes, name, name))
    except TypeError:
        raise DTypeError(f"there is no dtype {name}") from None


@dataclass(frozen=True, slots=True)
class Operator:
    """An operator of ONNX.

    Attributes:
        function: Function of tensors, with attributes as keywords.
        constants: Positions of operands that determine shapes. The function gets them as arrays; tensors are read.
        fold: Function of arrays. It computes the result while the graph is recorded if all operands are arrays.
        numbers: True if the function takes Python numbers in place of arrays without dimensions.
        counts: True if the function takes the number of results as keyword `count` and returns a tuple.
    """

    function: Callable[..., Any]
    constants: tuple[int, ...] = ()
    fold: Callable[..., Any] | None = None
    numbers: bool = False
    counts: bool = False

    def __call__(self, *operands: Any, **attributes: Any) -> Any:
        """Compute the result: a tensor, an array, or a tuple.

        Raises:
            ArgumentError: Operands or attributes do not fit the operator.
            CaptureError: A shape depends on values, which `jit` does not have.
        """
        try:
            if self.fold is not None and not any(isinstance(each, Tensor) for each in operands):
                with np.errstate(all="ignore"):
                    return _folded(self.fold(*operands, **attributes))
            values = [
                _read(each, position) if position in self.constants else self._converted(each)
                for position, each in enumerate(operands)
            ]
            if self.numbers and not any(isinstance(each, Tensor) for each in values):
                values = [None if each is None else _tensor(each) for each in operands]
            return self.function(*values, **attributes)
        except NpuTensorError:
            raise
        except _UNFIT as error:
            shown = ", ".join(brief(each) for each in operands)
            raise ArgumentError(f"operands ({shown}) or attributes {sorted(attributes)} do not fit: {error}") from error

    def _converted(self, value: Value) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        is_number = self.numbers and value.ndim == 0 and value.dtype.name in ("float32", "int64", "bool")
        return value.item() if is_number else _tensor(value)


_UNFIT: Final = (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, TypeError, ValueError)
"""Errors of operators whose operands or attributes are not those that ONNX requires."""


def _folded(result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(_folded(each) for each in result)
    return result if isinstance(result, Tensor) else np.asarray(result)


def _tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else nt.from_numpy(np.asarray(value, order="C"), copy=False)


def _read(value: Value, position: int) -> Array | None:
    """Return an operand that determines a shape."""
    if not isinstance(value, Tensor):
        return value
    try:
        return value.numpy()
    except CaptureError as error:
        text = f"operand {position} must be known while the graph is recorded, and depends on values of tensors"
        raise CaptureError(f"{text}; call the model without jit, or make the operand a constant of the file") from error


def _ints(value: Any, count: int = 0, default: int = 1) -> list[int]:
    """Return an attribute or constant as a list; `count` defaults if it is left out."""
    return [default] * count if value is None else [int(each) for each in np.ravel(value)]


def _product(values: Iterable[int]) -> int:
    return math.prod(values)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _dtype(x: Any) -> str:
    return str(x.dtype.name)


# --- arithmetic


def _div(x: Any, y: Any) -> Any:
    is_float = any(isinstance(each, float) or getattr(each, "is_floating_point", bool)() for each in (x, y))
    return nt.div(x, y) if is_float else nt.div(x, y, rounding_mode="trunc")


def _div_arrays(x: Array, y: Array) -> Any:
    return x / y if not np.issubdtype(x.dtype, np.integer) else np.trunc(x / y).astype(x.dtype)


def _pow(x: Any, y: Any) -> Any:
    return nt.pow(_tensor(x), y).to(_tensor(x).dtype)


def _mod(x: Any, y: Any, *, fmod: int = 0) -> Any:
    return (nt.fmod if fmod else nt.remainder)(x, y)


def _variadic(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda *operands: reduce(function, operands)


def _shift(x: Tensor, y: Tensor, *, direction: Any) -> Tensor:
    return x << y if _text(direction) == "LEFT" else x >> y


def _clip(x: Any, low: Any = None, high: Any = None) -> Any:
    x = _tensor(x)
    # In this order, the upper bound holds where it is below the lower one.
    if low is not None:
        x = nt.maximum(x, low)
    return x if high is None else nt.minimum(x, high)


def _where(condition: Any, x: Any, y: Any) -> Any:
    x = x if isinstance(x, Tensor) or isinstance(y, Tensor) else _tensor(x)
    return nt.where(_tensor(condition), x, y)


def _cast(x: Value, *, to: int, saturate: int = 1, round_mode: Any = "up") -> Any:
    dtype = array_dtype(to)
    return x.to(_known(dtype)) if isinstance(x, Tensor) else np.asarray(x).astype(dtype)


def _cast_like(x: Value, like: Any, *, saturate: int = 1, round_mode: Any = "up") -> Any:
    if isinstance(x, Tensor):
        return x.to(_known(np.dtype(like.dtype.name if isinstance(like, Tensor) else like.dtype)))
    return np.asarray(x).astype(like.dtype.numpy if isinstance(like, Tensor) else like.dtype)


def _known(dtype: np.dtype[Any]) -> str:
    if dtype.name not in _TENSOR_DTYPES:
        raise DTypeError(f"tensors cannot be {dtype.name}")
    return dtype.name


_TENSOR_DTYPES: Final = {
    *("float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool"),
}


def _bit_cast(x: Tensor, *, to: int) -> Tensor:
    name = _known(array_dtype(to))
    return x.to(name) if _dtype(x) == "bool" else x.view(getattr(nt, name))


def _is_inf(x: Tensor, *, detect_negative: int = 1, detect_positive: int = 1) -> Tensor:
    positive, negative = x == math.inf, x == -math.inf
    return (positive & bool(detect_positive)) | (negative & bool(detect_negative))


# --- activations


def _hard_sigmoid(x: Tensor, *, alpha: float = 0.2, beta: float = 0.5) -> Tensor:
    return (x * alpha + beta).clamp(0, 1)


def _selu(x: Tensor, *, alpha: float = 1.6732632423543772, gamma: float = 1.0507009873554805) -> Tensor:
    return F.elu(x, alpha) * gamma  # type: ignore[no-any-return]


def _shrink(x: Tensor, *, bias: float = 0.0, lambd: float = 0.5) -> Tensor:
    return nt.where(x < -lambd, x + bias, nt.where(x > lambd, x - bias, x * 0))  # type: ignore[no-any-return]


def _gelu(x: Tensor, *, approximate: Any = "none") -> Tensor:
    return F.gelu(x, _text(approximate))  # type: ignore[no-any-return]


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
    return nt.einsum(_text(equation).replace(" ", ""), *operands)


# --- windows


@dataclass(frozen=True, slots=True)
class _Windows:
    """Windows over the spatial dimensions of an image, with the padding of each."""

    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    before: list[int]
    after: list[int]

    @classmethod
    def of(
        cls, image: Sequence[int], kernel_shape: Any, auto_pad: Any = "", strides: Any = None, pads: Any = None,
        dilations: Any = None, ceil_mode: int = 0,
    ) -> _Windows:  # fmt: skip
        """Return the windows. Padding after the image is what the last of them needs."""
        kernel = _ints(kernel_shape)
        n = len(kernel)
        if len(image) != n or not 1 <= n <= 3:
            raise ShapeError(f"a kernel of {n} dimensions for an image of {len(image)}; 1 to 3 are supported")
        stride, dilation, pad = _ints(strides, n), _ints(dilations, n), _ints(pads, 2 * n, 0)
        if len(stride) != n or len(dilation) != n or len(pad) != 2 * n or min(*stride, *dilation, *kernel) < 1:
            raise ShapeError(f"kernel {kernel}, strides {stride}, dilations {dilation} and pads {pad} do not fit")
        before, after, mode = pad[:n], pad[n:], _text(auto_pad)
        for d, (size, extent) in enumerate(zip(image, cls._extents(kernel, dilation), strict=True)):
            if mode in ("SAME_UPPER", "SAME_LOWER"):
                total = max((math.ceil(size / stride[d]) - 1) * stride[d] + extent - size, 0)
                before[d] = total // 2 if mode == "SAME_UPPER" else total - total // 2
                after[d] = total - before[d]
            elif mode == "VALID":
                before[d] = after[d] = 0
            if ceil_mode:
                count = -(-(size + before[d] + after[d] - extent) // stride[d]) + 1
                if (count - 1) * stride[d] >= size + before[d]:
                    count -= 1  # A window that starts in the padding after the image is left out.
                after[d] = max(after[d], (count - 1) * stride[d] + extent - size - before[d])
        return cls(kernel, stride, dilation, before, after)

    @staticmethod
    def _extents(kernel: Sequence[int], dilations: Sequence[int]) -> list[int]:
        return [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)]

    @property
    def is_symmetric(self) -> bool:
        return self.before == self.after

    def padded(self, x: Tensor, value: float = 0.0) -> Tensor:
        """Pad an image."""
        return _padded(x, self.before, self.after, value)


def _padded(
    x: Tensor, before: Sequence[int], after: Sequence[int], value: float = 0.0, mode: str = "constant"
) -> Tensor:
    """Pad the last dimensions; negative widths crop."""
    pairs = [width for pair in zip(reversed(before), reversed(after), strict=True) for width in pair]
    if not any(pairs):
        return x
    return F.pad(x, pairs, mode, value) if mode == "constant" else F.pad(x, pairs, mode)  # type: ignore[no-any-return]


def _conv(
    x: Tensor, w: Tensor, b: Tensor | None = None, *, group: int = 1, kernel_shape: Any = None, **window: Any
) -> Tensor:
    windows = _Windows.of(x.shape[2:], w.shape[2:], **window)
    padding: Any = windows.before
    if not windows.is_symmetric:
        x, padding = windows.padded(x), 0
    convolve = (F.conv1d, F.conv2d, F.conv3d)[len(windows.kernel) - 1]
    return convolve(x, w, b, windows.strides, padding, windows.dilations, group)  # type: ignore[no-any-return]


def _conv_transpose(
    x: Tensor, w: Tensor, b: Tensor | None = None, *, auto_pad: Any = "", group: int = 1, kernel_shape: Any = None,
    output_padding: Any = None, output_shape: Any = None, **window: Any,
) -> Tensor:  # fmt: skip
    windows = _Windows.of(x.shape[2:], w.shape[2:], **window)
    n, mode, before, after = len(windows.kernel), _text(auto_pad), windows.before, windows.after
    extra = _ints(output_padding, n, 0)
    whole = [
        stride * (size - 1) + (kernel - 1) * dilation + 1
        for size, kernel, stride, dilation in zip(
            x.shape[2:], windows.kernel, windows.strides, windows.dilations, strict=True
        )
    ]
    wanted = _ints(output_shape) if output_shape is not None else None
    if wanted is None and mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [size * stride for size, stride in zip(x.shape[2:], windows.strides, strict=True)]
    if wanted is not None:
        totals = [size + more - goal for size, more, goal in zip(whole, extra, wanted[-n:], strict=True)]
        halves = [total // 2 for total in totals]
        others = [total - half for total, half in zip(totals, halves, strict=True)]
        before, after = (halves, others) if mode == "SAME_UPPER" else (others, halves)
    convolve = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[n - 1]
    fits = all(more < max(s, d) for more, s, d in zip(extra, windows.strides, windows.dilations, strict=True))
    if before == after and min(before) >= 0 and fits:
        return convolve(x, w, b, windows.strides, before, extra, group, windows.dilations)  # type: ignore[no-any-return]
    y = convolve(x, w, None, windows.strides, 0, 0, group, windows.dilations)
    y = _padded(y, [-width for width in before], [more - width for more, width in zip(extra, after, strict=True)])
    return y if b is None else y + b.reshape([-1, *[1] * n])


def _lowest(x: Tensor) -> float:
    return -math.inf if x.is_floating_point() else 0 if _dtype(x) in ("uint8", "bool") else int(np.iinfo(_dtype(x)).min)


def _max_pool(x: Tensor, *, count: int = 1, storage_order: int = 0, **window: Any) -> tuple[Tensor, ...]:
    windows = _Windows.of(x.shape[2:], **window)
    n = len(windows.kernel)
    pool = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[n - 1]
    fits = all(2 * pad <= size for pad, size in zip(windows.before, windows.kernel, strict=True))
    image, padding = (x, windows.before) if windows.is_symmetric and fits else (windows.padded(x, _lowest(x)), [0] * n)
    arguments = image, windows.kernel, windows.strides, padding, windows.dilations, False
    if count == 1:
        return (pool(*arguments),)
    values, places = pool(*arguments, return_indices=True)
    sizes = x.shape[2:]
    spatial: list[Any] = []
    for size, pad, own in zip(reversed(image.shape[2:]), reversed(windows.before), reversed(padding), strict=True):
        spatial.append(nt.remainder(places, size) - (pad - own))
        places = nt.div(places, size, rounding_mode="floor")
    coordinates = spatial if storage_order else spatial[::-1]
    lengths = sizes[::-1] if storage_order else sizes
    flat: Any = 0
    for size, place in zip(lengths, coordinates, strict=True):
        flat = flat * size + place
    planes = nt.arange(_product(x.shape[:2])).reshape([*x.shape[:2], *[1] * n])
    return values, planes * _product(sizes) + flat


def _window_sums(x: Tensor, windows: _Windows) -> Tensor:
    """Sum padded images over windows."""
    n = len(windows.kernel)
    if windows.dilations == [1] * n:
        pool = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[n - 1]
        return pool(x, windows.kernel, windows.strides) * _product(windows.kernel)  # type: ignore[no-any-return]
    convolve = (F.conv1d, F.conv2d, F.conv3d)[n - 1]
    planes = x.reshape([-1, 1, *x.shape[2:]])
    sums = convolve(planes, nt.ones(1, 1, *windows.kernel, dtype=x.dtype), None, windows.strides, 0, windows.dilations)
    return sums.reshape([*x.shape[:2], *sums.shape[2:]])  # type: ignore[no-any-return]


def _average_pool(x: Tensor, *, count_include_pad: int = 0, ceil_mode: int = 0, **window: Any) -> Tensor:
    floor = _Windows.of(x.shape[2:], **window)
    windows = _Windows.of(x.shape[2:], ceil_mode=ceil_mode, **window)
    fits = all(2 * pad <= size for pad, size in zip(windows.before, windows.kernel, strict=True))
    if windows.is_symmetric and fits and windows == floor and set(windows.dilations) == {1}:
        pool = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[len(windows.kernel) - 1]
        include = bool(count_include_pad)
        return pool(x, windows.kernel, windows.strides, windows.before, False, include)  # type: ignore[no-any-return]
    counted = nt.ones(1, 1, *x.shape[2:], dtype=x.dtype)
    if count_include_pad:
        counted = floor.padded(counted, 1.0)
        ends = [late - early for late, early in zip(windows.after, floor.after, strict=True)]
        counted = _padded(counted, [0] * len(ends), ends)
    else:
        counted = windows.padded(counted)
    return _window_sums(windows.padded(x), windows) / _window_sums(counted, windows)


def _lp_pool(x: Tensor, *, p: int = 2, **window: Any) -> Tensor:
    windows = _Windows.of(x.shape[2:], **window)
    return _window_sums(windows.padded(x.abs() ** p), windows) ** (1 / p)


def _max_unpool(
    x: Tensor, places: Tensor, shape: Array | None = None, *, kernel_shape: Any, pads: Any = None, strides: Any = None
) -> Tensor:
    kernel = _ints(kernel_shape)
    n = len(kernel)
    stride, pad = _ints(strides, n), _ints(pads, 2 * n, 0)
    own = [
        *x.shape[:2],
        *((x.shape[2 + d] - 1) * stride[d] + kernel[d] - pad[d] - pad[n + d] for d in range(n)),
    ]
    flat = nt.zeros(_product(own), dtype=x.dtype).scatter(0, places.reshape(-1), x.reshape(-1)).reshape(own)
    if shape is None:
        return flat
    return _padded(flat, [0] * len(own), [size - old for size, old in zip(_ints(shape), own, strict=True)])


def _over_space(function: Callable[..., Tensor], **keywords: Any) -> Callable[..., Tensor]:
    return lambda x, **attributes: function(x, list(range(2, x.ndim)), True, **keywords, **attributes)


def _lp_norm(x: Tensor, dims: list[int], keepdim: bool, *, p: int = 2) -> Tensor:
    return x.abs().sum(dims, keepdim) if p == 1 else (x.abs() ** p).sum(dims, keepdim) ** (1 / p)


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
    squares = (x * x).movedim(1, -1)
    squares = _padded(squares, [(size - 1) // 2], [size // 2]).movedim(-1, 1)
    total = sum(squares.narrow(1, start, x.shape[1]) for start in range(size))
    return x / (total * (alpha / size) + bias) ** beta


def _lp_normalization(x: Tensor, *, axis: int = -1, p: int = 2) -> Tensor:
    norm = _lp_norm(x, [axis], True, p=p)
    return nt.where(norm == 0, norm, x / norm)  # type: ignore[no-any-return]


def _mean_variance_normalization(x: Tensor, *, axes: Any = (0, 2, 3)) -> Tensor:
    dims = _ints(axes)
    centred = x - x.mean(dims, True)
    return centred / ((centred * centred).mean(dims, True).sqrt() + 1e-9)


# --- reductions


def _reduction(function: Callable[..., Any], of_one: Callable[[Any], Any] = lambda x: x) -> Callable[..., Any]:
    """Return a reduction over `axes`; `of_one` is that of single elements."""

    def reduced(x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
        dims = [] if axes is None else _ints(axes)
        if not dims and noop_with_empty_axes:
            return of_one(x)
        return function(x, tuple(dims) or tuple(range(x.ndim)), bool(keepdims))

    return reduced


def _extreme(function: Callable[..., Any], sign: int) -> Callable[..., Any]:
    def extreme(x: Tensor, dims: Sequence[int], keepdim: bool) -> Any:
        if not x.ndim or all(x.shape[d] for d in dims):
            return function(x, dims, keepdim)
        limits = {"bool": (True, False)}.get(_dtype(x)) or (
            (math.inf, -math.inf) if x.is_floating_point() else (np.iinfo(_dtype(x)).max, np.iinfo(_dtype(x)).min)
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


_of_arrays: Final[dict[str, Callable[..., Any]]] = {
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
            x = nt.cat([nt.full(shape, first, dtype=x.dtype), x.narrow(d, 0, x.shape[d] - 1)], d)
        y = function(x, d, dtype=x.dtype)
        return y.flip(d) if reverse else y

    return running


# --- shapes


def _shape(x: Any, *, start: int = 0, end: int | None = None) -> Array:
    return np.array(x.shape[start:end], np.int64)


def _reshape(x: Any, shape: Array, *, allowzero: int = 0) -> Any:
    sizes = _ints(shape)
    if not allowzero:
        if len(sizes) > x.ndim and 0 in sizes[x.ndim :]:
            raise ShapeError(f"shape {sizes} copies a size that operand {list(x.shape)} does not have")
        sizes = [x.shape[d] if size == 0 else size for d, size in enumerate(sizes)]
    return x.reshape(sizes)


def _flatten(x: Any, *, axis: int = 1) -> Any:
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape([_product(x.shape[:axis]), _product(x.shape[axis:])])


def _transpose(x: Any, *, perm: Any = None) -> Any:
    order = list(range(x.ndim))[::-1] if perm is None else _ints(perm)
    return x.permute(*order) if isinstance(x, Tensor) else np.transpose(x, order)


def _concat(*operands: Any, axis: int) -> Any:
    return nt.cat(operands, axis)


def _split(x: Any, split: Any = None, *, count: int, axis: int = 0, num_outputs: int | None = None) -> tuple[Any, ...]:
    size = x.shape[axis]
    if split is None:
        largest = -(-size // count)
        sizes = [min(largest, max(0, size - start * largest)) for start in range(count)]
    else:
        sizes = _ints(split)
    if isinstance(x, Tensor):
        return tuple(nt.split(x, sizes, axis))
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis))


def _slice(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    first, last = _ints(starts), _ints(ends)
    dims, step = range(len(first)) if axes is None else _ints(axes), _ints(steps, len(first))
    places = [slice(None)] * x.ndim
    for d, start, end, by in zip(dims, first, last, step, strict=True):
        places[d] = slice(start, end, by)
    return x[tuple(places)]


def _squeeze(x: Any, axes: Any = None) -> Any:
    dims = None if axes is None else {d % x.ndim for d in _ints(axes)}
    if dims is not None and any(x.shape[d] != 1 for d in dims):
        raise ShapeError(f"dimensions {sorted(dims)} of {list(x.shape)} are not all 1")
    return x.reshape([size for d, size in enumerate(x.shape) if (size != 1 if dims is None else d not in dims)])


def _unsqueeze(x: Any, axes: Any) -> Any:
    dims = _ints(axes)
    ndim = x.ndim + len(dims)
    new, old = {d % ndim for d in dims}, iter(x.shape)
    return x.reshape([1 if d in new else next(old) for d in range(ndim)])


def _expand(x: Any, shape: Array) -> Any:
    sizes = nt.broadcast_shapes(tuple(x.shape), tuple(_ints(shape)))
    if isinstance(x, np.ndarray) and _product(sizes) <= _MOST_FOLDED:
        return np.broadcast_to(x, sizes)
    return nt.broadcast_to(_tensor(x), sizes)


def _tile(x: Any, repeats: Array) -> Any:
    if isinstance(x, np.ndarray) and x.size * _product(_ints(repeats)) <= _MOST_FOLDED:
        return np.tile(x, _ints(repeats))
    return nt.tile(_tensor(x), *_ints(repeats))


def _range(start: Array, limit: Array, delta: Array, *, stash_type: int = 1) -> Any:
    count = max(0, math.ceil((limit.item() - start.item()) / delta.item()))
    if count > _MOST_FOLDED:
        return nt.arange(count, dtype=start.dtype.name) * delta.item() + start.item()
    return (start.astype(np.float64 if start.dtype.kind == "f" else start.dtype) + np.arange(count) * delta).astype(
        start.dtype
    )


def _constant_of_shape(shape: Array, *, value: Array | None = None) -> Any:
    fill = np.zeros(1, np.float32) if value is None else value.reshape(1)
    if min(_ints(shape), default=0) < 0:
        raise ShapeError(f"shape {_ints(shape)} has a negative size")
    if _product(_ints(shape)) <= _MOST_FOLDED:
        return np.full(_ints(shape), fill[0], fill.dtype)
    return nt.full(_ints(shape), fill[0].item(), dtype=_known(fill.dtype))


def _pad(x: Tensor, pads: Any, value: Any = None, axes: Array | None = None, *, mode: Any = "constant") -> Tensor:
    widths = _ints(pads)
    dims = range(x.ndim) if axes is None else [d % x.ndim for d in _ints(axes)]
    before, after = [0] * x.ndim, [0] * x.ndim
    for number, d in enumerate(dims):
        before[d], after[d] = widths[number], widths[len(widths) // 2 + number]
    kind = _text(mode)
    if kind == "constant":
        fill = 0 if value is None else value.item()
        if _dtype(x) == "bool":
            return _padded(x.to("uint8"), before, after, int(fill)).to("bool")
        return _padded(x, before, after, fill)
    for d in range(x.ndim):  # Negative widths crop first.
        if before[d] < 0 or after[d] < 0:
            start = max(0, -before[d])
            x = x.narrow(d, start, x.shape[d] - start - max(0, -after[d]))
        x = _extended(x, d, max(0, before[d]), max(0, after[d]), kind)
    return x


_FOLDED_PLACES: Final[Mapping[str, str]] = {"edge": "edge", "reflect": "reflect", "wrap": "wrap"}


def _extended(x: Tensor, d: int, before: int, after: int, kind: str) -> Tensor:
    """Pad a dimension with its own elements."""
    if not before and not after:
        return x
    if kind not in _FOLDED_PLACES:
        raise ArgumentError(f"mode {kind!r} is not known; choose from constant, {', '.join(_FOLDED_PLACES)}")
    places = np.pad(np.arange(x.shape[d]), (before, after), kind)  # type: ignore[call-overload]
    return x.index_select(d, _tensor(places))


def _depth_to_space(x: Tensor, *, blocksize: int, mode: Any = "DCR") -> Tensor:
    if _text(mode) == "CRD":
        return F.pixel_shuffle(x, blocksize)  # type: ignore[no-any-return]
    n, c, h, w = x.shape
    parts = x.reshape(n, blocksize, blocksize, c // blocksize**2, h, w).permute(0, 3, 4, 1, 5, 2)
    return parts.reshape(n, c // blocksize**2, h * blocksize, w * blocksize)


def _space_to_depth(x: Tensor, *, blocksize: int, mode: Any = "DCR") -> Tensor:
    if _text(mode) == "CRD":
        return F.pixel_unshuffle(x, blocksize)  # type: ignore[no-any-return]
    n, c, h, w = x.shape
    parts = x.reshape(n, c, h // blocksize, blocksize, w // blocksize, blocksize).permute(0, 3, 5, 1, 2, 4)
    return parts.reshape(n, c * blocksize**2, h // blocksize, w // blocksize)


def _trilu(x: Any, k: Array | None = None, *, upper: int = 1) -> Any:
    diagonal = 0 if k is None else int(k.item())
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
    return nt.gather(x, time_axis, _tensor(places.reshape(shape)).expand(*x.shape))


def _center_crop_pad(x: Tensor, shape: Array, *, axes: Any = None) -> Tensor:
    before, after = [0] * x.ndim, [0] * x.ndim
    for d, size in zip(range(x.ndim) if axes is None else _ints(axes), _ints(shape), strict=True):
        more = size - x.shape[d]
        before[d] = more // 2 if more > 0 else -(-more // 2)
        after[d] = more - before[d]
    return _padded(x, before, after)


def _col2im(
    x: Tensor, image: Array, block: Array, *, dilations: Any = None, pads: Any = None, strides: Any = None
) -> Tensor:
    n = len(_ints(block))
    pad = _ints(pads, 2 * n, 0)
    if n != 2 or pad[:n] != pad[n:]:
        raise ArgumentError("only two-dimensional images with equal pads on both sides are supported")
    return F.fold(x, _ints(image), _ints(block), _ints(dilations, n), pad[:n], _ints(strides, n))  # type: ignore[no-any-return]


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
    if _text(reduction) == "none":
        return x.scatter(axis, index, updates)
    return x.scatter_reduce(axis, index, updates, _SCATTERED[_text(reduction)])


def _scatter_nd(x: Tensor, places: Tensor, updates: Tensor, *, reduction: Any = "none") -> Tensor:
    depth, kind = places.shape[-1], _text(reduction)
    index = tuple(places.select(-1, number) for number in range(depth))
    if kind in ("none", "add"):
        return nt.index_put(x, index, updates, kind == "add")
    flat: Any = 0
    for size, place in zip(x.shape[:depth], index, strict=True):
        flat = flat * size + _positive(place, size)
    rows, length = x.reshape([_product(x.shape[:depth]), -1]), _product(x.shape[depth:])
    index_rows = flat.reshape(-1, 1).to("int64").expand(-1, length)
    return rows.scatter_reduce(0, index_rows, updates.reshape(-1, length), _SCATTERED[kind]).reshape(x.shape)


def _one_hot(places: Tensor, depth: Array, values: Tensor, *, axis: int = -1) -> Tensor:
    size = int(depth.item())
    at = axis % (places.ndim + 1)
    index = places.to("int64").unsqueeze(at)
    shape = [-1 if d == at else 1 for d in range(index.ndim)]
    chosen = nt.where(index < 0, index + size, index) == nt.arange(size).reshape(shape)
    return nt.where(chosen, values[1], values[0])  # type: ignore[no-any-return]


def _non_zero(x: Tensor) -> Tensor:
    return nt.nonzero(x).T  # type: ignore[no-any-return]


def _compress(x: Tensor, condition: Array, *, axis: int | None = None) -> Tensor:
    places = _tensor(np.flatnonzero(condition))
    return x.reshape(-1)[places] if axis is None else x.index_select(axis, places)


def _unique(x: Array, *, count: int = 1, axis: int | None = None, sorted: int = 1) -> tuple[Any, ...]:
    found = np.unique(x, True, True, True, axis=axis)
    values, first, inverse, counts = found
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
    if _text(mode) == "circular":
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


# --- images


def _cubic(distance: Array, a: float) -> Array:
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0))


def _resized_places(size: int, out: int, scale: float, transformation: str, start: float, end: float) -> Array:
    """Return the positions of the results of `Resize` in a dimension of the operand."""
    x = np.arange(out, dtype=np.float64)
    if transformation == "align_corners":
        return x * (size - 1) / (size * scale - 1) if out > 1 else x * 0
    if transformation == "asymmetric":
        return x / scale
    if transformation == "tf_crop_and_resize":
        if out == 1:
            return np.array([(start + end) * (size - 1) / 2])
        return start * (size - 1) + x * (end - start) * (size - 1) / (out - 1)
    if transformation == "half_pixel_symmetric":
        return size / 2 * (1 - out / (size * scale)) + (x + 0.5) / scale - 0.5
    if transformation == "pytorch_half_pixel" and out == 1:
        return x * 0
    if transformation in ("half_pixel", "pytorch_half_pixel"):
        return (x + 0.5) / scale - 0.5
    raise ArgumentError(f"coordinate_transformation_mode {transformation!r} is not known")


def _nearest(places: Array, mode: str) -> Array:
    if mode == "round_prefer_floor":
        return np.ceil(places - 0.5)
    if mode == "round_prefer_ceil":
        return np.floor(places + 0.5)
    return np.floor(places) if mode == "floor" else np.ceil(places)


def _resize_weights(
    size: int, places: Array, mode: str, scale: float, cubic: float, antialias: bool, exclude: bool
) -> Array:
    """Return the matrix (results, elements) of a resized dimension."""
    reach = max(1.0, 1 / scale) if antialias else 1.0
    radius = math.ceil((2 if mode == "cubic" else 1) * reach)
    taps = np.floor(places)[:, None] + np.arange(1 - radius, radius + 1)
    distance = np.abs(places[:, None] - taps) / reach
    weights = _cubic(distance, cubic) if mode == "cubic" else np.clip(1 - distance, 0, None)
    if exclude:
        weights = np.where((taps < 0) | (taps >= size), 0, weights)
    if exclude or antialias:
        weights = weights / weights.sum(1, keepdims=True)
    matrix = np.zeros((len(places), size))
    np.add.at(matrix, (np.arange(len(places))[:, None], np.clip(taps, 0, size - 1).astype(int)), weights)
    return matrix


def _resize(
    x: Tensor, roi: Array | None = None, scales: Array | None = None, sizes: Array | None = None, *,
    antialias: int = 0, axes: Any = None, coordinate_transformation_mode: Any = "half_pixel",
    cubic_coeff_a: float = -0.75, exclude_outside: int = 0, extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: Any = "stretch", mode: Any = "nearest", nearest_mode: Any = "round_prefer_floor",
) -> Tensor:  # fmt: skip
    dims = list(range(x.ndim)) if axes is None else [d % x.ndim for d in _ints(axes)]
    kind, transformation = _text(mode), _text(coordinate_transformation_mode)
    if sizes is not None and sizes.size:
        wanted = _ints(sizes)
        factors = [size / x.shape[d] for d, size in zip(dims, wanted, strict=True)]
        policy = _text(keep_aspect_ratio_policy)
        if policy != "stretch":
            factors = [(min if policy == "not_larger" else max)(factors)] * len(dims)
            wanted = [int(factor * x.shape[d] + 0.5) for d, factor in zip(dims, factors, strict=True)]
    elif scales is not None:
        factors = [float(each) for each in scales]
        wanted = [int(x.shape[d] * factor) for d, factor in zip(dims, factors, strict=True)]
    else:
        raise ArgumentError("neither scales nor sizes are given")
    corners = [0.0] * len(dims) + [1.0] * len(dims) if roi is None or not roi.size else [float(each) for each in roi]
    fast = _interpolated(x, dims, wanted, factors, kind, transformation, antialias or exclude_outside, cubic_coeff_a)
    if fast is not None:
        return fast
    outside: Any = None
    for number, (d, out, scale) in enumerate(zip(dims, wanted, factors, strict=True)):
        if out == x.shape[d] and scale == 1 and transformation != "tf_crop_and_resize":
            continue
        size = x.shape[d]
        start, end = corners[number], corners[len(dims) + number]
        places = _resized_places(size, out, scale, transformation, start, end)
        if kind == "nearest":
            x = x.index_select(d, _tensor(np.clip(_nearest(places, _text(nearest_mode)), 0, size - 1).astype(np.int64)))
        else:
            weights = _resize_weights(size, places, kind, scale, cubic_coeff_a, bool(antialias), bool(exclude_outside))
            matrix = _tensor(weights.astype(np.float32)).to(x.dtype)
            x = (matrix @ x.movedim(d, -1).unsqueeze(-1)).squeeze(-1).movedim(-1, d)
        if transformation == "tf_crop_and_resize":
            beyond = ((places < 0) | (places > size - 1)).reshape([-1 if d == each else 1 for each in range(x.ndim)])
            outside = beyond if outside is None else outside | beyond
    return x if outside is None else nt.where(_tensor(outside), extrapolation_value, x)  # type: ignore[no-any-return]


def _interpolated(
    x: Tensor, dims: list[int], wanted: list[int], factors: list[float], kind: str, transformation: str, special: int,
    cubic: float,
) -> Tensor | None:  # fmt: skip
    """Resize the last two of four dimensions by one op, or return None if it does not serve this case."""
    spatial = [(d, out) for d, out in zip(dims, wanted, strict=True) if out != x.shape[d]]
    usual = transformation in ("half_pixel", "pytorch_half_pixel", "align_corners") and cubic == -0.75 and not special
    exact = all(out == x.shape[d] * factor for d, out, factor in zip(dims, wanted, factors, strict=True))
    if x.ndim != 4 or not usual or not exact or kind == "nearest" or any(d < 2 for d, _ in spatial) or 1 in wanted[-2:]:
        return None
    size = [*x.shape[2:]]
    for d, out in spatial:
        size[d - 2] = out
    name = {"linear": "bilinear", "cubic": "bicubic"}[kind]
    return F.interpolate(x, size, None, name, transformation == "align_corners")  # type: ignore[no-any-return]


def _grid_sample(
    x: Tensor, grid: Tensor, *, align_corners: int = 0, mode: Any = "linear", padding_mode: Any = "zeros"
) -> Tensor:
    name = {"linear": "bilinear", "cubic": "bicubic"}.get(_text(mode), _text(mode))
    return F.grid_sample(x, grid, name, _text(padding_mode), bool(align_corners))  # type: ignore[no-any-return]


def _affine_grid(theta: Tensor, size: Array, *, align_corners: int = 0) -> Tensor:
    return F.affine_grid(theta, _ints(size), bool(align_corners))  # type: ignore[no-any-return]


def _roi_align(
    x: Tensor, rois: Array, batch: Array, *, coordinate_transformation_mode: Any = "half_pixel", mode: Any = "avg",
    output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0,
) -> Tensor:  # fmt: skip
    """Average or maximize samples of regions. The regions are read, as they determine the number of samples."""
    offset = 0.5 if _text(coordinate_transformation_mode) == "half_pixel" else 0.0
    results = []
    for (left, top, right, bottom), image in zip(rois.astype(np.float64), batch, strict=True):
        plane = x[int(image)]
        weights = []
        for low, high, out, size in ((top, bottom, output_height, x.shape[2]), (left, right, output_width, x.shape[3])):
            start, end = low * spatial_scale - offset, high * spatial_scale - offset
            extent = end - start if offset else max(end - start, 1.0)
            samples = sampling_ratio if sampling_ratio > 0 else max(1, math.ceil(extent / out))
            places = start + (np.arange(out * samples) + 0.5) * extent / (out * samples)
            matrix = _resize_weights(size, np.clip(places, 0, size - 1), "linear", 1.0, 0.0, False, False)
            matrix[(places < -1) | (places > size)] = 0
            weights.append((matrix, samples))
        (down, each_down), (across, each_across) = weights
        if _text(mode) == "avg":
            down, across = (m.reshape(-1, n, m.shape[1]).mean(1) for m, n in weights)
            results.append(_tensor(down.astype(np.float32)) @ plane @ _tensor(across.astype(np.float32)).T)
            continue
        parts = _largest_products(plane, down, across)
        shape = plane.shape[0], output_height, each_down, output_width, each_across
        results.append(parts.reshape(*shape).amax((2, 4)))
    return nt.stack(results)


def _largest_products(plane: Tensor, down: Array, across: Array) -> Tensor:
    """Return the largest of the four weighted corners of each sample."""
    corners = []
    for rows in _corner_taps(down):
        for columns in _corner_taps(across):
            weights = [_tensor(each.astype(np.float32)) for each in (rows, columns)]
            corners.append(weights[0] @ plane @ weights[1].T)
    return reduce(nt.maximum, corners)


def _corner_taps(matrix: Array) -> tuple[Array, Array]:
    """Split interpolation weights into those of the first and of the second element."""
    first = np.zeros_like(matrix)
    rows = np.arange(len(matrix))
    places = (matrix != 0).argmax(1)
    first[rows, places] = matrix[rows, places]
    return first, matrix - first


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
        fill = 0 if _dtype(mask) == "bool" else -math.inf
        mask = _padded(mask.to("uint8"), [0], [missing]).to("bool") if not fill else _padded(mask, [0], [missing], fill)
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
    if mask is not None and _dtype(mask) == "bool":
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
        return _joined_heads(y, is_flat), *present
    if groups > 1:
        k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = (q * math.sqrt(q.shape[-1] ** -0.5 if scale is None else scale)) @ (
        k * math.sqrt(q.shape[-1] ** -0.5 if scale is None else scale)
    ).mT
    stages = [scores]
    scores = nt.tanh(scores / softcap) * softcap if softcap else scores
    stages.append(scores)
    if visible is None and is_causal:
        visible = places <= steps
    if mask is not None:
        scores = scores + mask
    if visible is not None:
        scores = nt.where(visible, scores, nt.full((), -math.inf, dtype=scores.dtype))
    stages.append(scores)
    exact = scores.to(_known(array_dtype(softmax_precision))) if softmax_precision else scores
    weights = exact.softmax(-1).to(q.dtype)
    hidden = (exact == -math.inf).all(-1, keepdim=True)
    weights = nt.where(hidden, nt.zeros((), dtype=weights.dtype), weights)
    stages.append(weights)
    return _joined_heads(weights @ v, is_flat), *present, stages[qk_matmul_output_mode]


def _joined_heads(x: Tensor, is_flat: int | bool) -> Tensor:
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
        cosine, sine = (_gather(each, places) for each in (cosine, sine))
    cosine, sine = cosine.unsqueeze(1)[..., : size // 2], sine.unsqueeze(1)[..., : size // 2]
    if interleaved:
        a, b = rotated[..., ::2], rotated[..., 1::2]
        y = nt.stack([a * cosine - b * sine, a * sine + b * cosine], -1).flatten(-2)
    else:
        a, b = rotated[..., : size // 2], rotated[..., size // 2 :]
        y = nt.cat([a * cosine - b * sine, a * sine + b * cosine], -1)
    return _joined_heads(nt.cat([y, rest], -1) if rest.shape[-1] else y, is_flat)


# --- recurrences

_GATES: Final = {
    "RNN": (1, ("Tanh",), [0]),
    "GRU": (3, ("Sigmoid", "Tanh"), [1, 0, 2]),
    "LSTM": (4, ("Sigmoid", "Tanh", "Tanh"), [0, 2, 3, 1]),
}
"""For each kind of layer: its gates, usual activations, and the order of the gates in PyTorch."""

_ACTIVATIONS: Final[dict[str, Callable[..., Tensor]]] = {
    "Affine": lambda x, alpha=1.0, beta=0.0: x * alpha + beta,
    "Elu": lambda x, alpha=1.0: F.elu(x, alpha),
    "HardSigmoid": lambda x, alpha=0.2, beta=0.5: _hard_sigmoid(x, alpha=alpha, beta=beta),
    "LeakyRelu": lambda x, alpha=0.01: F.leaky_relu(x, alpha),
    "Relu": lambda x: F.relu(x),
    "ScaledTanh": lambda x, alpha=1.0, beta=1.0: alpha * nt.tanh(x * beta),
    "Sigmoid": lambda x: nt.sigmoid(x),
    "Softplus": lambda x: F.softplus(x),
    "Softsign": lambda x: F.softsign(x),
    "Tanh": lambda x: nt.tanh(x),
    "ThresholdedRelu": lambda x, alpha=1.0: nt.where(x > alpha, x, x * 0),
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
    names = [_text(each) for each in activations] if activations else [*usual] * directions
    functions = _activation_functions(names, activation_alpha, activation_beta)
    special = clip or input_forget or peepholes is not None or lengths is not None
    usual_cell = not special and (kind != "GRU" or linear_before_reset)
    results, ends, cells = [], [], []
    for d in range(directions):
        reverse = d == 1 or _text(direction) == "reverse"
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


def _clipped(x: Tensor, clip: float) -> Tensor:
    return x.clamp(-clip, clip) if clip else x


def _rnn_cell(
    x: Any, w: Tensor, b: Any, states: list[Tensor], at: Any, peep: Any, clip: float, *_: bool
) -> list[Tensor]:
    return [at[0](_clipped(x[0] + F.linear(states[0], w, b[0]), clip))]


def _gru_cell(
    x: Any, w: Tensor, b: Any, states: list[Tensor], at: Any, peep: Any, clip: float, _: bool, linear_before_reset: bool
) -> list[Tensor]:
    (h,), parts = states, nt.split(w, w.shape[-1])
    update = at[0](_clipped(x[0] + F.linear(h, parts[0], b[0]), clip))
    reset = at[0](_clipped(x[1] + F.linear(h, parts[1], b[1]), clip))
    content = reset * F.linear(h, parts[2], b[2]) if linear_before_reset else F.linear(reset * h, parts[2], b[2])
    new = at[1](_clipped(x[2] + content, clip))
    return [(1 - update) * new + update * h]


def _lstm_cell(
    x: Any, w: Tensor, b: Any, states: list[Tensor], at: Any, peep: Any, clip: float, input_forget: bool, _: bool
) -> list[Tensor]:
    h, c = states
    products = nt.split(F.linear(h, w), w.shape[-1], -1)
    enter, leave, forget, content = (each + more + bias for each, more, bias in zip(x, products, b, strict=True))
    if peep is not None:
        enter, forget = enter + peep[0] * c, forget + peep[2] * c
    enter = at[0](_clipped(enter, clip))
    forget = 1 - enter if input_forget else at[0](_clipped(forget, clip))
    c = forget * c + enter * at[1](_clipped(content, clip))
    leave = at[0](_clipped(leave if peep is None else leave + peep[1] * c, clip))
    return [leave * at[2](c), c]


_CELLS: Final[dict[str, Callable[..., list[Tensor]]]] = {"RNN": _rnn_cell, "GRU": _gru_cell, "LSTM": _lstm_cell}


# --- quantization


def _spread(parameter: Tensor | None, x: Tensor, axis: int, block_size: int) -> Any:
    """Reshape a scale or zero point so that it broadcasts along the other dimensions."""
    if parameter is None or parameter.numel() == 1:
        return None if parameter is None else parameter.reshape([])
    if block_size:
        return parameter.repeat_interleave(block_size, axis).narrow(axis, 0, x.shape[axis])
    return parameter.reshape([-1 if d == axis % x.ndim else 1 for d in range(x.ndim)])


def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    info: Any = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _quantize(
    x: Tensor, scale: Tensor, zero: Tensor | None = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0,
    precision: int = 0, saturate: int = 1,
) -> Tensor:  # fmt: skip
    dtype = np.dtype(_dtype(zero)) if zero is not None else array_dtype(output_dtype or 2)
    name = _known(dtype)
    low, high = _limits(dtype)
    y = nt.round(x.to("float32") / _spread(scale, x, axis, block_size).to("float32"))
    if zero is not None:
        y = y + _spread(zero, x, axis, block_size).to("float32")
    return y.clamp(low, high).to(name)


def _dequantize(
    x: Tensor, scale: Tensor, zero: Tensor | None = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> Tensor:
    name = _known(array_dtype(output_dtype)) if output_dtype else _dtype(scale)
    scale, zero = _spread(scale, x, axis, block_size), _spread(zero, x, axis, block_size)
    if zero is not None and x.itemsize == 4:  # Differences of such integers are exact as integers only.
        x, zero = x - zero, None
    centred = x.to("float32") if zero is None else x.to("float32") - zero.to("float32")
    return (centred * scale.to("float32")).to(name)


def _dynamic_quantize(x: Tensor) -> tuple[Tensor, ...]:
    low, high = nt.clamp(x.min(), max=0.0), nt.clamp(x.max(), min=0.0)
    scale = (high - low) / 255
    safe = nt.where(scale == 0, 1.0, scale)
    zero = nt.round((-low / safe).clamp(0, 255))
    return (nt.round(x / safe) + zero).clamp(0, 255).to("uint8"), scale, zero.to("uint8")


def _signed(x: Tensor, zero: Tensor | None) -> tuple[Tensor, Any]:
    """Return 8-bit numbers as int8, and their zero point as int32 or 0."""
    point = 0 if zero is None else zero.to("int32")
    if _dtype(x) != "uint8":
        return x, point
    return (x.to("int16") - 128).to("int8"), point - 128


def _row_zero(zero: Any, x: Tensor) -> Any:
    return zero.unsqueeze(-1) if isinstance(zero, Tensor) and zero.ndim == 1 and zero.shape[0] > 1 else zero


def _matmul_integer(a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None) -> Tensor:
    """Multiply 8-bit matrices as int8 with int32 sums, and correct for the zero points."""
    (x, x_zero), (y, y_zero) = _signed(a, a_zero), _signed(b, b_zero)
    x_zero = _row_zero(x_zero, x)
    product = _int8_product(x, y)
    if isinstance(y_zero, Tensor) or y_zero:
        product = product - x.sum(-1, keepdim=x.ndim > 1 and y.ndim > 1, dtype="int32") * y_zero
    if isinstance(x_zero, Tensor) or x_zero:
        sums = y.sum(-2 if y.ndim > 1 else 0, keepdim=y.ndim > 1 and x.ndim > 1, dtype="int32")
        product = product - x_zero * (sums - y_zero * x.shape[-1])
    return product


def _int8_product(x: Tensor, y: Tensor) -> Tensor:
    rows = x.unsqueeze(0) if x.ndim == 1 else x
    columns = y.unsqueeze(1) if y.ndim == 1 else y
    product: Tensor = _ops.contract(rows, columns, "int32")
    product = product.squeeze(-1) if y.ndim == 1 else product
    return product.squeeze(-2 if y.ndim > 1 else -1) if x.ndim == 1 else product


def _conv_integer(
    x: Tensor, w: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None, **attributes: Any
) -> Tensor:
    image, weight = x.to("int32"), w.to("int32")
    image = image if x_zero is None else image - x_zero.to("int32").reshape([])
    if w_zero is not None:
        weight = weight - (w_zero.to("int32").reshape([-1, *[1] * (w.ndim - 1)]))
    return _conv(image, weight, **attributes)


def _requantized(y: Tensor, scale: Any, out_scale: Tensor, out_zero: Tensor) -> Tensor:
    low, high = _limits(np.dtype(_dtype(out_zero)))
    rounded = nt.round(y.to("float32") * (scale / out_scale.to("float32"))) + out_zero.to("float32")
    return rounded.clamp(low, high).to(out_zero.dtype)


def _qlinear_matmul(
    a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor, y_scale: Tensor,
    y_zero: Tensor,
) -> Tensor:  # fmt: skip
    product = _matmul_integer(a, b, a_zero, b_zero)
    scale = _row_zero(a_scale.to("float32"), a) * b_scale.to("float32")
    return _requantized(product, scale, y_scale, y_zero)


def _qlinear_conv(
    x: Tensor, x_scale: Tensor, x_zero: Tensor, w: Tensor, w_scale: Tensor, w_zero: Tensor, y_scale: Tensor,
    y_zero: Tensor, b: Tensor | None = None, **attributes: Any,
) -> Tensor:  # fmt: skip
    y = _conv_integer(x, w, x_zero, w_zero, **attributes)
    channels = [-1, *[1] * (x.ndim - 2)]
    y = y if b is None else y + b.reshape(channels)
    scale = x_scale * (w_scale.reshape(channels) if w_scale.ndim else w_scale)
    return _requantized(y, scale, y_scale, y_zero)


def _quantized_matmul(
    a: Tensor, a_scale: Tensor, a_zero: Tensor | None, b: Tensor, b_scale: Tensor, b_zero: Tensor | None
) -> Tensor:
    """Multiply matrices that the file dequantizes before a product, as integers."""
    return (_matmul_integer(a, b, a_zero, b_zero).to("float32") * (a_scale * b_scale)).to(a_scale.dtype)


def _unpacked(codes: Tensor, bits: int) -> Tensor:
    """Return the numbers of `bits` bits in bytes, lowest bits first, along the last dimension."""
    if bits == 8:
        return codes
    shifts = [nt.bitwise_right_shift(codes, shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return nt.stack(shifts, -1).flatten(-2)


def _matmul_nbits(
    a: Tensor, b: Tensor, scales: Tensor, zeros: Tensor | None = None, groups: Tensor | None = None,
    bias: Tensor | None = None, *, K: int, N: int, accuracy_level: int = 0, bits: int = 4, block_size: int,
    weight_prepacked: int = 0,
) -> Tensor:  # fmt: skip
    if bits not in (2, 4, 8) or groups is not None or weight_prepacked:
        raise ArgumentError(f"weights of {bits} bits, with g_idx or prepacked, are not supported; use 2, 4 or 8 bits")
    blocks = -(-K // block_size)
    codes = _unpacked(b.reshape(N, blocks, -1), bits).to("float32")
    if zeros is None:
        point: Any = 1 << (bits - 1)
    elif zeros.is_floating_point():
        point = zeros.reshape(N, blocks, 1).to("float32")
    else:
        point = _unpacked(zeros.reshape(N, -1), bits)[:, :blocks].unsqueeze(-1).to("float32")
    weight = ((codes - point) * scales.reshape(N, blocks, 1).to("float32")).flatten(1)[:, :K].to(a.dtype)
    return F.linear(a, weight, bias)  # type: ignore[no-any-return]


# --- losses


def _negative_log_likelihood(
    x: Tensor, target: Tensor, weight: Tensor | None = None, *, ignore_index: int = -(1 << 40), reduction: Any = "mean"
) -> Tensor:
    ignored = target == ignore_index
    index = nt.where(ignored, 0, target).to("int64")
    losses = -nt.gather(x, 1, index.unsqueeze(1)).squeeze(1)
    weights = nt.ones((), dtype=x.dtype) if weight is None else weight[index]
    weights = nt.where(ignored, nt.zeros((), dtype=x.dtype), weights)
    losses, kind = losses * weights, _text(reduction)
    if kind == "none":
        return losses
    return losses.sum() if kind == "sum" else losses.sum() / weights.sum()


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
        sizes = like[0].shape if like else _ints(shape)
        name = _dtype(like[0]) if like and dtype is None else _known(array_dtype(dtype or 1))
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


def _if(condition: Array, *, captured: tuple[Any, ...], then_branch: Any, else_branch: Any) -> Any:
    results = (then_branch if condition.item() else else_branch)(*captured)
    return results if len(results) > 1 else results[0]


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
        condition = None if condition is None else _read(after, 0)
        states = tuple(results[: len(states)])
        for values, value in zip(scanned, results[len(states) :], strict=True):
            values.append(value)
        step += 1
    return *states, *(nt.stack([_tensor(value) for value in values]) for values in scanned)


def _scan(
    *operands: Tensor, captured: tuple[Any, ...], body: Any, num_scan_inputs: int, scan_input_axes: Any = None,
    scan_input_directions: Any = None, scan_output_axes: Any = None, scan_output_directions: Any = None,
) -> Any:  # fmt: skip
    first = len(operands) - num_scan_inputs
    states, inputs = operands[:first], operands[first:]
    axes, reversed_inputs = (_ints(each, len(inputs), 0) for each in (scan_input_axes, scan_input_directions))
    steps = inputs[0].shape[axes[0]]
    rows = []
    for step in range(steps):
        places = [steps - 1 - step if backward else step for backward in reversed_inputs]
        parts = [each.select(axis, place) for each, axis, place in zip(inputs, axes, places, strict=True)]
        results = [_tensor(each) for each in body(*states, *parts, *captured)]
        states = tuple(results[:first])
        rows.append(results[first:])
    columns = list(zip(*rows, strict=True))
    axes, backward_outputs = (_ints(each, len(columns), 0) for each in (scan_output_axes, scan_output_directions))
    outputs = [
        nt.stack(column[::-1] if backward else column, axis)
        for column, axis, backward in zip(columns, axes, backward_outputs, strict=True)
    ]
    results = [*states, *outputs]
    return results if len(results) > 1 else results[0]


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


def _rotary_of_microsoft(x: Tensor, places: Tensor, cosine: Tensor, sine: Tensor, **attributes: Any) -> Tensor:
    if _product(places.shape) == 1:  # The position of the first token.
        places = places.reshape(1, 1) + nt.arange(x.shape[-2]).unsqueeze(0)
    names = ("interleaved", "num_heads", "rotary_embedding_dim")
    return _rotary_embedding(x, cosine, sine, places, **{key: attributes[key] for key in names if key in attributes})


def _group_query_attention(
    q: Tensor, k: Tensor | None, v: Tensor | None, past_key: Tensor | None, past_value: Tensor | None, last: Tensor,
    total: Value = None, cosine: Tensor | None = None, sine: Tensor | None = None, *, count: int = 1,
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


# --- the table

_SAME: Final = """
Acos Acosh Asin Asinh Atan Atanh Cos Cosh Det Erf Exp Log Mish Reciprocal Relu Round Sigmoid Sign Sin Sinh Softplus
Softsign Tan Tanh HardSwish
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
    "Size": (lambda x: np.array(_product(x.shape), np.int64), ()),
    "Slice": (_slice, (1, 2, 3, 4)),
    "Squeeze": (_squeeze, (1,)),
    "Tile": (_tile, (1,)),
    "Transpose": (_transpose, ()),
    "Trilu": (_trilu, (1,)),
    "Unsqueeze": (_unsqueeze, (1,)),
}
"""Functions of tensors and of arrays, and the positions of constants."""

_FROM_CONSTANTS: Final[dict[str, tuple[Callable[..., Any], tuple[int, ...]]]] = {
    "BlackmanWindow": (_window(0.42, -0.5, 0.08), (0,)),
    "ConstantOfShape": (_constant_of_shape, (0,)),
    "HammingWindow": (_window(25 / 46, -21 / 46), (0,)),
    "HannWindow": (_window(0.5, -0.5), (0,)),
    "NonMaxSuppression": (_non_max_suppression, (0, 1, 2, 3, 4)),
    "Range": (_range, (0, 1, 2)),
}
"""Functions of constants alone."""

_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "BitCast": _bit_cast,
    "BitShift": _shift,
    "Celu": lambda x, *, alpha=1.0: F.celu(x, alpha),
    "Conv": _conv,
    "ConvInteger": _conv_integer,
    "ConvTranspose": _conv_transpose,
    "DepthToSpace": _depth_to_space,
    "DequantizeLinear": _dequantize,
    "Einsum": _einsum,
    "Elu": lambda x, *, alpha=1.0: F.elu(x, alpha),
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Gelu": _gelu,
    "Gemm": _gemm,
    "GlobalAveragePool": _over_space(_mean),
    "GlobalLpPool": _over_space(_lp_norm),
    "GlobalMaxPool": _over_space(nt.amax),
    "GridSample": _grid_sample,
    "GroupNormalization": _group_norm,
    "HardSigmoid": _hard_sigmoid,
    "Hardmax": _hardmax,
    "InstanceNormalization": lambda x, scale, bias, *, epsilon=1e-5: F.group_norm(x, x.shape[1], scale, bias, epsilon),
    "IsInf": _is_inf,
    "IsNaN": nt.isnan,
    "LRN": _lrn,
    "LeakyRelu": lambda x, *, alpha=0.01: F.leaky_relu(x, alpha),
    "LogSoftmax": lambda x, *, axis=-1: x.log_softmax(axis),
    "LpNormalization": _lp_normalization,
    "LpPool": _lp_pool,
    "MatMul": operator.matmul,
    "MatMulInteger": _matmul_integer,
    "MeanVarianceNormalization": _mean_variance_normalization,
    "NegativeLogLikelihoodLoss": _negative_log_likelihood,
    "NonZero": _non_zero,
    "PRelu": lambda x, slope: nt.where(x < 0, x * slope, x),
    "QLinearConv": _qlinear_conv,
    "QLinearMatMul": _qlinear_matmul,
    "QuantizeLinear": _quantize,
    "QuantizedMatMul": _quantized_matmul,
    "RMSNormalization": _rms_norm,
    "RandomNormal": _random(_normal),
    "RandomNormalLike": _random(_normal),
    "RandomUniform": _random(_uniform),
    "RandomUniformLike": _random(_uniform),
    "RotaryEmbedding": _rotary_embedding,
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
    "ThresholdedRelu": lambda x, *, alpha=1.0: nt.where(x > alpha, x, x * 0),
    "com.microsoft.BiasGelu": lambda x, bias: F.gelu(x + bias),
    "com.microsoft.FastGelu": lambda x, bias=None: F.gelu(x if bias is None else x + bias, "tanh"),
    "com.microsoft.FusedMatMul": _fused_matmul,
    "com.microsoft.Gelu": lambda x: F.gelu(x),
    "com.microsoft.MatMulNBits": _matmul_nbits,
    "com.microsoft.QuickGelu": lambda x, *, alpha=1.702: x * nt.sigmoid(x * alpha),
    "com.microsoft.RotaryEmbedding": _rotary_of_microsoft,
    "com.microsoft.SimplifiedLayerNormalization": _rms_norm,
}
"""Functions of tensors with one result."""

OPERATORS: Final[dict[str, Operator]] = {
    **{name: Operator(getattr(nt, name.lower())) for name in _SAME.split()},
    **{name: Operator(function, fold=function, numbers=True) for name, function in _ARITHMETIC.items()},
    **{name: Operator(function, constants, function) for name, (function, constants) in _SHAPES.items()},
    **{name: Operator(function, constants, function) for name, (function, constants) in _FROM_CONSTANTS.items()},
    **{name: Operator(function) for name, function in _FUNCTIONS.items()},
    **{
        f"Reduce{name}": Operator(function, (1,), _reduction(_of_arrays[name]) if name in _of_arrays else None)
        for name, function in _REDUCTIONS.items()
    },
    **{name: Operator(partial(_recurrence, name), counts=True) for name in _GATES},
    "AffineGrid": Operator(_affine_grid, (1,)),
    "ArgMax": Operator(_arg(nt.argmax)),
    "ArgMin": Operator(_arg(nt.argmin)),
    "Attention": Operator(_attention, counts=True),
    "AveragePool": Operator(_average_pool),
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
    "DynamicQuantizeLinear": Operator(_dynamic_quantize),
    "If": Operator(_if, (0,)),
    "Loop": Operator(_loop, (0, 1), counts=True),
    "EyeLike": Operator(_eye_like, fold=_eye_like),
    "Floor": Operator(nt.floor, fold=np.floor),
    "Gather": Operator(_gather, fold=_gather, numbers=True),
    "LayerNormalization": Operator(_layer_norm, counts=True),
    "Max": Operator(_variadic(nt.maximum), fold=_variadic(np.maximum), numbers=True),
    "MaxPool": Operator(_max_pool, counts=True),
    "MaxUnpool": Operator(_max_unpool, (2,)),
    "Mean": Operator(lambda *operands: reduce(operator.add, operands) / len(operands), numbers=True),
    "Min": Operator(_variadic(nt.minimum), fold=_variadic(np.minimum), numbers=True),
    "Mod": Operator(_mod, fold=lambda x, y, *, fmod=0: (np.fmod if fmod else np.mod)(x, y), numbers=True),
    "OneHot": Operator(_one_hot, (1,)),
    "Pad": Operator(_pad, (1, 2, 3)),
    "Pow": Operator(_pow, fold=lambda x, y: np.power(x, y).astype(x.dtype), numbers=True),
    "Resize": Operator(_resize, (1, 2, 3)),
    "ReverseSequence": Operator(_reverse_sequence, (1,)),
    "RoiAlign": Operator(_roi_align, (1, 2)),
    "SoftmaxCrossEntropyLoss": Operator(_softmax_cross_entropy, counts=True),
    "Split": Operator(_split, (1,), _split, counts=True),
    "Scan": Operator(_scan),
    "Sqrt": Operator(nt.sqrt, fold=np.sqrt),
    "Sum": Operator(_variadic(operator.add), fold=_variadic(operator.add), numbers=True),
    "TopK": Operator(_top_k, (1,)),
    "Unique": Operator(_unique, (0,), _unique, counts=True),
    "Where": Operator(_where, fold=np.where, numbers=True),
    "tensors": Operator(lambda *values: tuple(map(_tensor, values))),
    "com.microsoft.GroupQueryAttention": Operator(_group_query_attention, counts=True),
    "com.microsoft.SkipLayerNormalization": Operator(_skip_norm, counts=True),
    "com.microsoft.SkipSimplifiedLayerNormalization": Operator(_skip_rms_norm, counts=True),
}
"""Operators by name; those of a domain other than ONNX's own have its name before a dot."""
