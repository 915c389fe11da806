"""Operators of ONNX on images: convolutions, pools, resizing and sampling."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

import numpy as np

import npu_tensor as nt
from npu_tensor.errors import ArgumentError, ShapeError
from npu_tensor.interop.onnx_operands import Array, Operator, as_tensor, dtype_name, ints, padded, text_of
from npu_tensor.nn import functional
from npu_tensor.tensor import Tensor

F: Any = functional

# --- windows


def _extents(kernel: Sequence[int], dilations: Sequence[int]) -> list[int]:
    return [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)]


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
        kernel = ints(kernel_shape)
        n = len(kernel)
        if len(image) != n or not 1 <= n <= 3:
            raise ShapeError(f"a kernel of {n} dimensions for an image of {len(image)}; 1 to 3 are supported")
        stride, dilation, pad = ints(strides, n), ints(dilations, n), ints(pads, 2 * n, 0)
        sizes = *stride, *dilation, *kernel
        if len(sizes) != 3 * n or len(stride) != n or len(pad) != 2 * n or not 1 <= min(sizes) <= max(sizes) < 1 << 31:
            raise ShapeError(f"kernel {kernel}, strides {stride}, dilations {dilation} and pads {pad} do not fit")
        before, after, mode = pad[:n], pad[n:], text_of(auto_pad)
        for d, (size, extent) in enumerate(zip(image, _extents(kernel, dilation), strict=True)):
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

    @property
    def extents(self) -> list[int]:
        return _extents(self.kernel, self.dilations)

    @property
    def is_symmetric(self) -> bool:
        return self.before == self.after

    def padded(self, x: Tensor, value: float = 0.0) -> Tensor:
        """Pad an image."""
        return padded(x, self.before, self.after, value)


def windows_of_weight(x: Tensor, w: Tensor, kernel_shape: Any = None, **window: Any) -> _Windows:
    """Return the windows of a convolution."""
    if kernel_shape is not None and ints(kernel_shape) != [*w.shape[2:]]:
        raise ShapeError(f"kernel_shape {ints(kernel_shape)} contradicts the weight {list(w.shape)}")
    return _Windows.of(x.shape[2:], w.shape[2:], **window)


def image_columns(
    x: Tensor, w: Tensor, kernel_shape: Any = None, *, outside: Any, **window: Any
) -> tuple[Tensor, list[int]]:
    """Return the windows of an image of integers as columns, [N, C * window, positions], and the result's extents.

    Padding has the value `outside`, a number or a tensor with one element.
    """
    windows = windows_of_weight(x, w, kernel_shape, **window)
    n = len(windows.kernel)
    if any((*windows.before, *windows.after)):
        x = windows.padded(x ^ outside) ^ outside  # Widths may be padded with numbers only.
    for d, extent in enumerate(windows.extents):
        x = x.unfold(2 + d, extent, windows.strides[d])
    extents = list(x.shape[2 : 2 + n])
    x = x[(..., *(slice(None, None, dilation) for dilation in windows.dilations))]
    x = x.permute(0, 1, *range(2 + n, 2 + 2 * n), *range(2, 2 + n))
    return x.flatten(2 + n).flatten(1, 1 + n), extents


def convolve(
    x: Tensor, w: Tensor, b: Tensor | None = None, *, group: int = 1, kernel_shape: Any = None, **window: Any
) -> Tensor:
    windows = windows_of_weight(x, w, kernel_shape, **window)
    padding: Any = windows.before
    if not windows.is_symmetric:
        x, padding = windows.padded(x), 0
    convolve = (F.conv1d, F.conv2d, F.conv3d)[len(windows.kernel) - 1]
    return convolve(x, w, b, windows.strides, padding, windows.dilations, group)  # type: ignore[no-any-return]


def _conv_transpose(
    x: Tensor, w: Tensor, b: Tensor | None = None, *, auto_pad: Any = "", group: int = 1, kernel_shape: Any = None,
    output_padding: Any = None, output_shape: Any = None, **window: Any,
) -> Tensor:  # fmt: skip
    windows = windows_of_weight(x, w, kernel_shape, **window)
    n, mode, before, after = len(windows.kernel), text_of(auto_pad), windows.before, windows.after
    extra = ints(output_padding, n, 0)
    whole = [
        stride * (size - 1) + (kernel - 1) * dilation + 1
        for size, kernel, stride, dilation in zip(
            x.shape[2:], windows.kernel, windows.strides, windows.dilations, strict=True
        )
    ]
    wanted = ints(output_shape) if output_shape is not None else None
    if wanted is None and mode in ("SAME_UPPER", "SAME_LOWER"):
        wanted = [size * stride for size, stride in zip(x.shape[2:], windows.strides, strict=True)]
    if wanted is not None:
        totals = [size + more - goal for size, more, goal in zip(whole, extra, wanted[-n:], strict=True)]
        # A larger result is extended at its end.
        before = [(max(total, 0) + (mode != "SAME_UPPER")) // 2 for total in totals]
        after = [total - width for total, width in zip(totals, before, strict=True)]
    convolve = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[n - 1]
    fits = all(more < max(s, d) for more, s, d in zip(extra, windows.strides, windows.dilations, strict=True))
    if before == after and min(before) >= 0 and fits:
        return convolve(x, w, b, windows.strides, before, extra, group, windows.dilations)  # type: ignore[no-any-return]
    y = convolve(x, w, None, windows.strides, 0, 0, group, windows.dilations)
    y = padded(y, [-width for width in before], [more - width for more, width in zip(extra, after, strict=True)])
    return y if b is None else y + b.reshape([-1, *[1] * n])


def _lowest(x: Tensor) -> float:
    if x.is_floating_point():
        return -math.inf
    return 0 if dtype_name(x) == "bool" else int(np.iinfo(dtype_name(x)).min)


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
    planes = nt.arange(math.prod(x.shape[:2])).reshape([*x.shape[:2], *[1] * n])
    return values, planes * math.prod(sizes) + flat


def _window_sums(x: Tensor, windows: _Windows) -> Tensor:
    """Sum padded images over windows."""
    n = len(windows.kernel)
    if windows.dilations == [1] * n:
        pool = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[n - 1]
        return pool(x, windows.kernel, windows.strides) * math.prod(windows.kernel)  # type: ignore[no-any-return]
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
        counted = padded(counted, [0] * len(ends), ends)
    else:
        counted = windows.padded(counted)
    return _window_sums(windows.padded(x), windows) / _window_sums(counted, windows)


def _lp_pool(x: Tensor, *, p: int = 2, **window: Any) -> Tensor:
    windows = _Windows.of(x.shape[2:], **window)
    return _window_sums(windows.padded(x.abs() ** p), windows) ** (1 / p)


def _max_unpool(
    x: Tensor, places: Tensor, shape: Array | None = None, *, kernel_shape: Any, pads: Any = None, strides: Any = None
) -> Tensor:
    kernel = ints(kernel_shape)
    n = len(kernel)
    stride, pad = ints(strides, n), ints(pads, 2 * n, 0)
    own = [
        *x.shape[:2],
        *((x.shape[2 + d] - 1) * stride[d] + kernel[d] - pad[d] - pad[n + d] for d in range(n)),
    ]
    flat = nt.zeros(math.prod(own), dtype=x.dtype).scatter(0, places.reshape(-1), x.reshape(-1)).reshape(own)
    if shape is None:
        return flat
    return padded(flat, [0] * len(own), [size - old for size, old in zip(ints(shape), own, strict=True)])


def _over_space(function: Callable[..., Tensor], **keywords: Any) -> Callable[..., Tensor]:
    return lambda x, **attributes: function(x, list(range(2, x.ndim)), True, **keywords, **attributes)


def _lp_norm(x: Tensor, dims: list[int], keepdim: bool, *, p: int = 2) -> Tensor:
    return x.abs().sum(dims, keepdim) if p == 1 else (x.abs() ** p).sum(dims, keepdim) ** (1 / p)


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
    dims = list(range(x.ndim)) if axes is None else [d % x.ndim for d in ints(axes)]
    kind, transformation = text_of(mode), text_of(coordinate_transformation_mode)
    if kind != "nearest" and not x.is_floating_point():
        limits = np.iinfo(dtype_name(x))
        exact = _resize(
            x.double(), roi, scales, sizes, antialias=antialias, axes=axes, cubic_coeff_a=cubic_coeff_a,
            coordinate_transformation_mode=transformation, exclude_outside=exclude_outside, mode=kind,
            extrapolation_value=extrapolation_value, keep_aspect_ratio_policy=keep_aspect_ratio_policy,
        )  # fmt: skip
        return nt.round(exact).clamp(limits.min, limits.max).to(x.dtype)
    if sizes is not None and sizes.size:
        wanted = ints(sizes)
        factors = [size / x.shape[d] for d, size in zip(dims, wanted, strict=True)]
        policy = text_of(keep_aspect_ratio_policy)
        if policy != "stretch":
            factors = [(min if policy == "not_larger" else max)(factors)] * len(dims)
            wanted = [int(factor * x.shape[d] + 0.5) for d, factor in zip(dims, factors, strict=True)]
    elif scales is not None:
        factors = [float(each) for each in scales]
        wanted = [int(x.shape[d] * factor) for d, factor in zip(dims, factors, strict=True)]
    else:
        raise ArgumentError("neither scales nor sizes are given")
    corners = [0.0] * len(dims) + [1.0] * len(dims) if roi is None or not roi.size else [float(each) for each in roi]
    fast = _interpolate(x, dims, wanted, factors, kind, transformation, antialias or exclude_outside, cubic_coeff_a)
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
            x = x.index_select(
                d, as_tensor(np.clip(_nearest(places, text_of(nearest_mode)), 0, size - 1).astype(np.int64))
            )
        else:
            weights = _resize_weights(size, places, kind, scale, cubic_coeff_a, bool(antialias), bool(exclude_outside))
            matrix = as_tensor(weights).to(x.dtype)
            x = (matrix @ x.movedim(d, -1).unsqueeze(-1)).squeeze(-1).movedim(-1, d)
        if transformation == "tf_crop_and_resize":
            beyond = ((places < 0) | (places > size - 1)).reshape([-1 if d == each else 1 for each in range(x.ndim)])
            outside = beyond if outside is None else outside | beyond
    return x if outside is None else nt.where(as_tensor(outside), extrapolation_value, x)


def _interpolate(
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
    name = {"linear": "bilinear", "cubic": "bicubic"}.get(text_of(mode), text_of(mode))
    if name == "bicubic" and text_of(padding_mode) == "border":  # PyTorch clamps the elements, not the positions.
        last = as_tensor(np.array([1.0 if align_corners else 1 - 1 / size for size in x.shape[:1:-1]], np.float32))
        grid = nt.where(grid.abs() > 1, grid.sign() * last.to(grid.dtype), grid)
    return F.grid_sample(x, grid, name, text_of(padding_mode), bool(align_corners))  # type: ignore[no-any-return]


def _affine_grid(theta: Tensor, size: Array, *, align_corners: int = 0) -> Tensor:
    return F.affine_grid(theta, ints(size), bool(align_corners))  # type: ignore[no-any-return]


def _roi_align(
    x: Tensor, rois: Array, batch: Array, *, coordinate_transformation_mode: Any = "half_pixel", mode: Any = "avg",
    output_height: int = 1, output_width: int = 1, sampling_ratio: int = 0, spatial_scale: float = 1.0,
) -> Tensor:  # fmt: skip
    """Average or maximize samples of regions. The regions are read, as they determine the number of samples."""
    offset = 0.5 if text_of(coordinate_transformation_mode) == "half_pixel" else 0.0
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
        if text_of(mode) == "avg":
            down, across = (m.reshape(-1, n, m.shape[1]).mean(1) for m, n in weights)
            results.append(as_tensor(down.astype(np.float32)) @ plane @ as_tensor(across.astype(np.float32)).T)
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
            weights = [as_tensor(each.astype(np.float32)) for each in (rows, columns)]
            corners.append(weights[0] @ plane @ weights[1].T)
    return reduce(nt.maximum, corners)


def _corner_taps(matrix: Array) -> tuple[Array, Array]:
    """Split interpolation weights into those of the first and of the second element."""
    first = np.zeros_like(matrix)
    rows = np.arange(len(matrix))
    places = (matrix != 0).argmax(1)
    first[rows, places] = matrix[rows, places]
    return first, matrix - first


IMAGE_OPERATORS: Final[dict[str, Operator]] = {
    "AffineGrid": Operator(_affine_grid, (1,)),
    "AveragePool": Operator(_average_pool),
    "Conv": Operator(convolve),
    "ConvTranspose": Operator(_conv_transpose),
    "GlobalAveragePool": Operator(_over_space(nt.mean)),
    "GlobalLpPool": Operator(_over_space(_lp_norm)),
    "GlobalMaxPool": Operator(_over_space(nt.amax)),
    "GridSample": Operator(_grid_sample),
    "LpPool": Operator(_lp_pool),
    "MaxPool": Operator(_max_pool, counts=True),
    "MaxUnpool": Operator(_max_unpool, (2,)),
    "Resize": Operator(_resize, (1, 2, 3)),
    "RoiAlign": Operator(_roi_align, (1, 2)),
}
