"""Limits of attributes in files.

The functions of the package compute the attributes of ops that have no public name, and the rules of these ops trust
them. A file can hold anything, so that these checks keep its ops from reading or writing outside their operands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from npu_tensor.ops.conv import CONVOLUTIONS, TRANSPOSED, conv_2d_dw
from npu_tensor.ops.declare import Call, Layout
from npu_tensor.ops.places import RESIZINGS, places_of
from npu_tensor.spec import Spec, contiguous_strides

SLACK: Final = 1 + 1e-6
"""Factor by which the results of a resized image may exceed it, as their distance is rounded."""


def require_integers(attributes: Mapping[str, Any]) -> None:
    """Raise ValueError for a tuple of other values than integers, before a rule computes with them."""
    for name, value in attributes.items():
        if isinstance(value, tuple) and not (name == "scales" or _are_integers(value)):
            raise ValueError(f"{name} = {value!r:.80}")


def _are_integers(value: Any) -> bool:
    return all(map(_are_integers, value)) if isinstance(value, tuple) else type(value) is int


def require_within_limits(call: Call, operands: Sequence[Any]) -> None:
    """Raise ValueError if an op would access memory outside of its operands: specs, types of numbers, lists."""
    if not all(type(extent) is int and extent >= 0 for extent in call.spec.shape):
        raise ValueError(f"the shape {call.spec.shape}")
    # A stop of -1 ends a range in front of the first element.
    if any(stop < 0 and (stop, step < 0) != (-1, True) for _, stop, step in call.attributes.get("bounds", ())):
        raise ValueError(f"bounds = {call.attributes['bounds']}")
    check = _view if call.op.kind == "view" else _LIMITS.get(call.op.name)
    if check is not None and not check(call, operands, **call.attributes):
        raise ValueError(f"{call} with the attributes {call.attributes}")


def _view(call: Call, operands: Any, **attributes: Any) -> bool:
    viewed = _shape(call)
    assert call.op.layout is not None
    layout = call.op.layout(Layout(viewed, contiguous_strides(viewed)), call.spec.shape, call.attributes)
    return layout is None or _is_inside(math.prod(viewed), call.spec.shape, layout.strides, layout.offset)


def _shape(call: Call, operand: int = 0) -> tuple[int, ...]:
    spec = call.operands[operand]
    assert isinstance(spec, Spec)
    return spec.shape


def _places(call: Call) -> tuple[int, ...]:
    spec = call.operands[0]
    assert isinstance(spec, Spec)
    return places_of(spec, call.attributes["channels_last"])


def _is_inside(size: int, shape: Sequence[int], strides: Sequence[int], offset: int) -> bool:
    if not math.prod(shape):
        return True
    first, last = Layout(tuple(shape), tuple(strides), offset).bounds
    return first >= 0 and last < size


def _write_strided(call: Call, operands: Any, *, strides: Any, add: Any) -> bool:
    offset = operands[2]
    known = isinstance(offset, list) and type(offset[0]) is int
    return known and _is_inside(math.prod(_shape(call)), _shape(call, 1), strides, offset[0])


_REDUCTIONS: Final = ("", "add", "multiply", "maximum", "minimum")


def _scatter(call: Call, operands: Any, *, dim: Any, reduce: Any) -> bool:
    return reduce in _REDUCTIONS


def _put(call: Call, operands: Any, *, bounds: Any, dims: Any, wrap: Any, reduce: Any) -> bool:
    shape = _shape(call)
    ranges = [range(*bound) for bound in bounds]
    inside = all(not part or (min(part) >= 0 and max(part) < n) for part, n in zip(ranges, shape, strict=True))
    return inside and reduce in _REDUCTIONS and len({*dims} & {*range(len(shape))}) == len(dims)


def _pool(call: Call, operands: Any, *, mode: Any, divisor: Any, **attributes: Any) -> bool:
    if mode not in ("max", "avg") or not (divisor is None or (type(divisor) is int and divisor != 0)):
        return False
    names = "kernel", "stride", "padding", "dilation", "counts"
    windows = zip(_places(call), *(attributes[name] for name in names), strict=True)
    return _are_flags(attributes, "channels_last", "count_include_pad") and all(
        min(size, step, gap) >= 1
        and min(before, after, count) >= 0
        and max(before, after) <= gap * (size - 1)  # Each window reaches the image.
        and (count - 1) * step < extent + before
        for extent, size, step, (before, after), gap, count in windows
    )


def _adaptive_pool(call: Call, operands: Any, *, mode: Any, counts: Any, **attributes: Any) -> bool:
    is_known = mode in ("max", "avg") and _are_flags(attributes, "channels_last")
    return is_known and min(*counts, *_places(call), 1) >= 1


def _upscale(call: Call, operands: Any, *, mode: Any, counts: Any, scales: Any, **attributes: Any) -> bool:
    is_known = (mode, attributes["antialias"]) in RESIZINGS and _are_flags(attributes, "channels_last", "align_corners")
    places = zip(_places(call), counts, scales, strict=True)
    return is_known and all(extent >= 1 and 0 < step * max(n, 1) <= extent * SLACK for extent, n, step in places)


def _are_flags(attributes: Mapping[str, Any], *names: str) -> bool:
    return all(type(attributes[name]) is bool for name in names)


def _max_pool_positions(call: Call, operands: Any, *, of: Any) -> bool:
    pool = isinstance(of, Call) and of.op.name in ("pool_1d", "pool_2d", "pool_3d")
    return pool and of.attributes["mode"] == "max" and of.operands == call.operands


def _steps(call: Call, operands: Any, *, stride: Any, dilation: Any, **attributes: Any) -> bool:
    return all(step >= 1 for step in (*stride, *dilation))


def _transposed(call: Call, operands: Any, *, extents: Any, padding: Any, **attributes: Any) -> bool:
    stride, dilation = attributes["stride"], attributes["dilation"]
    if min(*stride, *dilation) < 1:
        return False
    # A convolution of the result reaches all places of the image.
    reached = zip(extents, _shape(call, 1)[2:], padding, stride, dilation, strict=True)
    counts = [(extent + sum(pair) - gap * (size - 1) - 1) // step + 1 for extent, size, pair, step, gap in reached]
    places = _places(call)
    return all(count >= place for count, place in zip(counts, places, strict=True))


_LIMITS: Final[Mapping[str, Callable[..., bool]]] = {
    "adaptive_pool": _adaptive_pool,
    "max_pool_positions": _max_pool_positions,
    "put": _put,
    "scatter_along": _scatter,
    "upscale": _upscale,
    "write_strided": _write_strided,
    **dict.fromkeys(("pool_1d", "pool_2d", "pool_3d"), _pool),
    **{each.op.name: _steps for each in (*CONVOLUTIONS, conv_2d_dw)},
    **{each.op.name: _transposed for each in TRANSPOSED},
}
