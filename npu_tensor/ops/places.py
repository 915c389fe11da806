"""Ops on the places of (batch, channels, *places): pools, resized images, and their gradients.

Each result is a sum or a maximum of elements along one place dimension after the other. `Taps` lists these elements.
The gradient of a sum is a sum over the same taps in the opposite direction.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from npu_tensor._util.cache_sizes import PROGRAMS
from npu_tensor.dtypes import int64
from npu_tensor.errors import ShapeError
from npu_tensor.ops.declare import Call, Resolution
from npu_tensor.ops.registry import Recorder, op
from npu_tensor.ops.rules import of_tensors, require_tensor
from npu_tensor.spec import Spec

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Taps:
    """Elements of a place dimension from which each result is computed.

    Attributes:
        index: Positions (results, taps); -1 where a result has fewer elements.
        weight: Factors (results, taps), 0 where the position is -1; None for 1.
        divisor: Divisor of each sum; None for 1.
        regular: Position of the first tap of the first result, steps between results and between taps, if all
            positions follow from them; else None.
    """

    index: Array
    weight: Array | None = None
    divisor: Array | None = None
    regular: tuple[int, int, int] | None = None


def _parts(starts: Array, ends: Array, mode: str) -> Taps:
    """Return the taps of results that each combine the elements from a start to an end."""
    index = starts[:, None] + np.arange(max((ends - starts).max(initial=1), 1))
    return Taps(np.where(index < ends[:, None], index, -1), None, ends - starts if mode == "avg" else None)


def _pool_taps(extents: Sequence[int], *, mode: str, divisor: int | None, **attributes: Any) -> list[Taps]:
    names = "kernel", "stride", "padding", "dilation", "counts"
    taps = list[Taps]()
    for extent, size, step, (before, after), gap, count in zip(
        extents, *(attributes[name] for name in names), strict=True
    ):
        start = np.arange(count) * step - before
        index = start[:, None] + np.arange(size) * gap
        divisors = None
        if mode == "avg" and divisor is not None:
            divisors = np.full(count, divisor if not taps else 1)
        elif mode == "avg":
            low, high = (-before, extent + after) if attributes["count_include_pad"] else (0, extent)
            divisors = np.minimum(start + size, high) - np.maximum(start, low)
        inside = (index >= 0) & (index < extent)
        taps.append(Taps(np.where(inside, index, -1), None, divisors, (-before, step, gap)))
    return taps


def _adaptive_taps(extents: Sequence[int], *, mode: str, counts: Sequence[int], **_: Any) -> list[Taps]:
    places = [(extent, count, np.arange(count)) for extent, count in zip(extents, counts, strict=True)]
    return [_parts(i * extent // count, -(-(i + 1) * extent // count), mode) for extent, count, i in places]


def _centres(extent: int, count: int, scale: float, align_corners: bool) -> Array:
    """Return the positions of the results in the input."""
    if align_corners:
        return np.arange(count) * ((extent - 1) / max(count - 1, 1))
    return (np.arange(count) + 0.5) * scale - 0.5


def _nearest(extent: int, count: int, scale: float, shift: float) -> Taps:
    index = np.floor((np.arange(count, dtype=np.float32) + np.float32(shift)) * np.float32(scale))
    return Taps(np.minimum(index, extent - 1).astype(np.int64)[:, None])


def _linear(extent: int, count: int, scale: float, align_corners: bool) -> Taps:
    place = np.maximum(_centres(extent, count, scale, align_corners), 0)
    lower = np.minimum(place.astype(np.int64), extent - 1)
    weight = place - lower
    return Taps(np.stack([lower, np.minimum(lower + 1, extent - 1)], 1), np.stack([1 - weight, weight], 1))


def _cubic_weights(distance: Array, a: float) -> Array:
    """Evaluate the kernel of R. Keys, Cubic Convolution Interpolation for Digital Image Processing, 1981."""
    x = np.abs(distance)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def _cubic(extent: int, count: int, scale: float, align_corners: bool) -> Taps:
    place = _centres(extent, count, scale, align_corners)
    index = np.floor(place).astype(np.int64)[:, None] + np.arange(-1, 3)
    return Taps(index.clip(0, extent - 1), _cubic_weights(place[:, None] - index, -0.75))


def _antialiased(function: Callable[[Array], Array], support: int) -> Callable[..., Taps]:
    """Resize like Pillow: average neighbours, weighted by a function as wide as the step between results."""

    def method(extent: int, count: int, scale: float, align_corners: bool) -> Taps:
        step = (extent - 1) / max(count - 1, 1) if align_corners else scale
        width, centre = max(step, 1.0), step * (np.arange(count) + 0.5)
        first = np.maximum((centre - support * width + 0.5).astype(np.int64), 0)
        end = np.minimum((centre + support * width + 0.5).astype(np.int64), extent)
        index = _parts(first, end, "").index
        weights = np.where(index < 0, 0, function((index - centre[:, None] + 0.5) / width))
        return Taps(index, weights / weights.sum(1, keepdims=True))

    return method


RESIZINGS: Final[Mapping[tuple[str, bool], Callable[[int, int, float, bool], Taps]]] = {
    ("nearest", False): lambda extent, count, scale, _: _nearest(extent, count, scale, 0),
    ("nearest-exact", False): lambda extent, count, scale, _: _nearest(extent, count, scale, 0.5),
    ("linear", False): _linear,
    ("cubic", False): _cubic,
    ("linear", True): _antialiased(lambda x: np.maximum(1 - np.abs(x), 0), 1),
    ("cubic", True): _antialiased(lambda x: _cubic_weights(x, -0.5), 2),
}
"""Taps of a dimension from its extent, the number of results, their distance and align_corners, by mode and antialias.
"""


def _upscale_taps(
    extents: Sequence[int],
    *,
    mode: str,
    counts: Sequence[int],
    scales: Sequence[float],
    align_corners: bool,
    antialias: bool,
    **_: Any,
) -> list[Taps]:
    taps, is_nearest = list[Taps](), mode.startswith("nearest")
    for extent, count, scale in zip(extents, counts, scales, strict=True):
        if count == extent and (not is_nearest or len(extents) == 2):
            # PyTorch copies an unchanged extent whatever the factor; by "nearest" only with two places.
            taps.append(Taps(np.arange(count)[:, None]))
        elif mode == "nearest" and len(extents) == 2 and count == 2 * extent:  # Whatever the factor, too.
            taps.append(Taps(np.arange(count)[:, None] // 2))
        else:
            taps.append(RESIZINGS[mode, antialias](extent, count, scale, align_corners))
    return taps


_TAPS: Final[Mapping[str, Callable[..., list[Taps]]]] = {
    **dict.fromkeys(("pool_1d", "pool_2d", "pool_3d"), _pool_taps),
    "adaptive_pool": _adaptive_taps,
    "upscale": _upscale_taps,
}


def places_of(image: Any, channels_last: bool) -> tuple[int, ...]:
    """Return the extents of the place dimensions of a spec, array or tensor."""
    extents: tuple[int, ...] = image.shape[1:-1] if channels_last else image.shape[2:]
    return extents


@lru_cache(maxsize=PROGRAMS)
def taps_of(call: Call) -> tuple[Taps, ...]:
    """Return the taps of each place dimension of an op of this module."""
    if "of" not in call.attributes:
        spec = require_tensor(call.operands[0])
        return tuple(_TAPS[call.op.name](places_of(spec, call.attributes["channels_last"]), **call.attributes))
    of = call.attributes["of"]
    return _transposed_taps(of) if call.op is resample_backward.op else taps_of(of)


def _transposed_taps(of: Call) -> tuple[Taps, ...]:
    extents = places_of(of.operands[0], of.attributes["channels_last"])
    return tuple(_transposed(taps, extent) for taps, extent in zip(taps_of(of), extents, strict=True))


def _transposed(taps: Taps, extent: int) -> Taps:
    """Return the results that each element contributes to, as taps in the opposite direction."""
    results = np.broadcast_to(np.arange(len(taps.index))[:, None], taps.index.shape)
    weight = np.ones(taps.index.shape) if taps.weight is None else taps.weight
    if taps.divisor is not None:
        weight = weight / taps.divisor[:, None]
    inside = taps.index >= 0
    elements = taps.index[inside]
    order = np.argsort(elements, kind="stable")
    elements = elements[order]
    counts = np.bincount(elements, minlength=extent)
    column = np.arange(elements.size) - (np.cumsum(counts) - counts)[elements]
    index = np.full((extent, max(counts.max(initial=0), 1)), -1)
    weights = np.zeros(index.shape)
    index[elements, column] = results[inside][order]
    weights[elements, column] = weight[inside][order]
    return Taps(index, None if (weight[inside] == 1).all() else weights)


def _combined(x: Array, call_taps: Sequence[Taps], mode: str, channels_last: bool) -> Array:
    """Combine the elements of all taps, along one dimension after the other."""
    lowest = (-math.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min) if mode == "max" else 0
    for axis, taps in enumerate(call_taps, 1 if channels_last else 2):
        nothing = np.full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), lowest, x.dtype)  # Position -1.
        taken = np.take(np.concatenate([x, nothing], axis), taps.index, axis)
        after = (1,) * (x.ndim - axis - 1)
        if mode == "max":
            x = taken.max(axis + 1)
            continue
        if taps.weight is not None:
            taken = taken * taps.weight.reshape(*taps.index.shape, *after).astype(x.dtype)
        x = taken.take(0, axis + 1) if taps.index.shape[1] == 1 else taken.sum(axis + 1, dtype=x.dtype)
        if taps.divisor is not None:
            x = x / taps.divisor.reshape(-1, *after).astype(x.dtype)
    return x


@of_tensors()
def _places_rule(x: Spec, counts: tuple[int, ...], **attributes: Any) -> Resolution:
    if x.ndim != len(counts) + 2:
        raise ShapeError(f"needs batch, channels and {len(counts)} places, not {list(x.shape)}")
    batch, channels = x.shape[0], x.shape[-1 if attributes["channels_last"] else 1]
    shape = (batch, *counts, channels) if attributes["channels_last"] else (batch, channels, *counts)
    return Resolution(Spec.of(shape, x.dtype), (x.dtype.register,), {"counts": counts, **attributes})


def _pool(name: str, places: str, ggml: str = "") -> Recorder[...]:
    # mode: "max" or "avg". kernel, stride, dilation: per place. padding: (before, after) per place.
    # counts: results per place, which may reach beyond the padding. count_include_pad: True if averages count padding.
    # divisor: divisor of sums in place of the number of elements. channels_last: True for (batch, *places, channels).
    def pool(
        input,
        /,
        mode,
        kernel,
        stride,
        padding,
        dilation,
        counts,
        count_include_pad=True,
        divisor=None,
        channels_last=False,
    ):
        geometry = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation, "counts": counts}
        options = {"mode": mode, "count_include_pad": count_include_pad, "divisor": divisor}
        taps = _pool_taps(places_of(input, channels_last), **geometry, **options)
        return _combined(input, taps, mode, channels_last)

    pool.__name__, pool.__doc__ = name, f"Combine the elements of windows of (batch, channels, {places})."
    return op(kind="data", rule=_places_rule, ggml=ggml, public=False)(pool)


pool_1d = _pool("pool_1d", "width", "POOL_1D")
pool_2d = _pool("pool_2d", "height, width", "POOL_2D")
pool_3d = _pool("pool_3d", "depth, height, width")


@op(kind="data", rule=_places_rule, public=False)
def adaptive_pool(input, /, mode, counts, channels_last=False):
    """Combine the elements of `counts` parts per place, which overlap if the extents do not divide."""
    taps = _adaptive_taps(places_of(input, channels_last), mode=mode, counts=counts)
    return _combined(input, taps, mode, channels_last)


@op(kind="data", rule=_places_rule, public=False)
def upscale(input, /, mode, counts, scales, align_corners=False, antialias=False, channels_last=False):
    """Resize the places to `counts`; `scales` are the distances of the results in the input."""
    options = {"scales": scales, "align_corners": align_corners, "antialias": antialias}
    taps = _upscale_taps(places_of(input, channels_last), mode=mode, counts=counts, **options)
    return _combined(input, taps, mode, channels_last)


# --- gradients


@of_tensors()
def _backward_rule(gradient: Spec, of: Call) -> Resolution:
    return Resolution(Spec.of(of.operands[0].shape, gradient.dtype), (gradient.dtype.register,), {"of": of})  # type: ignore[union-attr]


@op(kind="data", rule=_backward_rule, public=False)
def resample_backward(gradient, /, of: Call):
    """Compute the gradient of the input of an average pool or resized image, which was the call `of`."""
    return _combined(gradient, _transposed_taps(of), "sum", of.attributes["channels_last"])


@of_tensors()
def _positions_rule(x: Spec, of: Call) -> Resolution:
    return Resolution(Spec.of(of.spec.shape, int64), (x.dtype.register,), {"of": of})


@op(kind="data", rule=_positions_rule, public=False)
def max_pool_positions(input, /, of: Call):
    """Return the positions in the channel of the largest elements of windows: the first one, or the last NaN."""
    channels_last = of.attributes["channels_last"]
    planes = np.moveaxis(input, -1, 1) if channels_last else input
    flat, inside, count = np.zeros((1, 1), np.int64), np.ones((1, 1), np.bool_), 1
    for taps, extent in zip(taps_of(of), planes.shape[2:], strict=True):
        index = taps.index
        results, taps_count = flat.shape[0] * index.shape[0], flat.shape[1] * index.shape[1]
        flat = (flat[:, None, :, None] * extent + index[:, None]).reshape(results, taps_count)
        inside = (inside[:, None, :, None] & (index >= 0)[:, None]).reshape(results, taps_count)
        count *= extent
    first = np.take_along_axis(flat, inside.argmax(1)[:, None], 1)
    flat = np.where(inside, flat, first)  # A position twice, in place of padding.
    taken = planes.reshape(*planes.shape[:2], count)[..., flat]
    missing = np.isnan(taken) & inside
    last = flat.shape[1] - 1 - missing[..., ::-1].argmax(-1)
    chosen = np.where(missing.any(-1), last, taken.argmax(-1))
    positions = flat[np.arange(len(flat)), chosen]
    shape = of.spec.shape
    return np.moveaxis(positions.reshape(shape[0], shape[-1], -1), 1, -1).reshape(shape) if channels_last else positions


@of_tensors()
def _max_backward_rule(x: Spec, gradient: Spec, of: Call) -> Resolution:
    return Resolution(Spec.of(x.shape, gradient.dtype), (x.dtype.register, gradient.dtype.register), {"of": of})


@op(kind="data", rule=_max_backward_rule, public=False)
def max_pool_backward(input, gradient, /, of: Call):
    """Add the gradient of each window of the maximum pool `of` to its largest element."""
    positions, channels_last = max_pool_positions.op.body(input, of), of.attributes["channels_last"]
    batch, channels = input.shape[0], input.shape[-1 if channels_last else 1]
    result = np.zeros((batch, channels, input.size // max(batch * channels, 1)), gradient.dtype)
    rows, planes = np.ogrid[:batch, :channels]
    order = (lambda x: np.moveaxis(x, -1, 1)) if channels_last else (lambda x: x)
    shape = batch, channels, of.spec.size // max(batch * channels, 1)
    np.add.at(
        result,
        (rows[..., None], planes[..., None], order(positions.reshape(of.spec.shape)).reshape(shape)),
        order(gradient).reshape(shape),
    )
    return np.moveaxis(result, 1, -1) if channels_last else result
