"""Convolutions, transposed convolutions and gradients of weights.

All have the same attributes, so that each is a gradient of the others. For an input x, a weight w and a result y,
element e of the kernel at position p of y meets the place p * stride + e * dilation - padding of x:

    conv                    y[o, p] = sum over c, e of w[o, c, e] * x[c, p * stride + e * dilation - padding]
    conv_transpose          the same sum over o, p, e with y given: its result has the shape of x
    conv_weight_gradient    the same sum over the batch and p with x and y given: its result has the shape of w

Tensors have a batch and channels: (batch, channels, *places), or (batch, *places, channels) with channels_last. Weights
are (outputs, channels / groups, *kernel), where outputs are the channels of y.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from npu_tensor.errors import ShapeError
from npu_tensor.ops import rules
from npu_tensor.ops.declare import Resolution
from npu_tensor.ops.registry import Recorder, op
from npu_tensor.spec import Spec

__all__ = [
    "conv_1d",
    "conv_2d",
    "conv_2d_dw",
    "conv_3d",
    "conv_transpose_1d",
    "conv_transpose_2d",
    "conv_transpose_3d",
    "conv_weight_gradient",
]

Array = np.ndarray[Any, Any]
Pairs = tuple[tuple[int, int], ...]
"""Zeros before and after each place dimension. Negative numbers remove elements."""

# --- rules


def _resolution(a: Spec, b: Spec, shape: Sequence[int], attributes: dict[str, Any]) -> Resolution:
    """Resolve dtypes as a matrix product does."""
    out, register = rules.product_dtypes(a, b, attributes["out_dtype"])
    return Resolution(Spec.of(tuple(shape), out), (register, register), {**attributes, "out_dtype": out})


def _split(image: Spec, channels_last: bool) -> tuple[int, int, list[int]]:
    """Return batch, channels and extents of the places."""
    batch, *rest = image.shape
    channels = rest.pop(-1 if channels_last else 0)
    return batch, channels, rest


def _joined(batch: int, channels: int, extents: Sequence[int], channels_last: bool) -> tuple[int, ...]:
    return (batch, *extents, channels) if channels_last else (batch, channels, *extents)


def _spans(kernel: Sequence[int], dilation: Sequence[int]) -> list[int]:
    if min(kernel) < 1:
        raise ShapeError(f"a kernel of extents {list(kernel)} has no elements")
    return [gap * (size - 1) + 1 for size, gap in zip(kernel, dilation, strict=True)]


def _counts(
    extents: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Pairs, dilation: Sequence[int]
) -> list[int]:
    """Return the number of positions of a kernel per place. Raise ShapeError if it does not fit."""
    spans = _spans(kernel, dilation)
    rests = [extent + sum(pair) - span for extent, span, pair in zip(extents, spans, padding, strict=True)]
    if min(rests) < 0:
        raise ShapeError(f"a kernel of extents {spans} does not fit {extents} with padding {list(padding)}")
    return [rest // step + 1 for rest, step in zip(rests, stride, strict=True)]


def _require_groups(outputs: int, groups: int) -> None:
    if groups < 1 or outputs % groups:
        raise ShapeError(f"groups must divide the {outputs} outputs of the weight, not be {groups}")


@rules.of_tensors("all but bool")
def _conv_rule(image: Spec, weight: Spec, **attributes: Any) -> Resolution:
    batch, channels, extents = _split(image, attributes["channels_last"])
    outputs, per_group, *kernel = weight.shape
    groups = attributes["groups"]
    _require_groups(outputs, groups)
    if channels != per_group * groups:
        raise ShapeError(f"input has {channels} channels, but weight needs {per_group * groups}, with groups={groups}")
    counts = _counts(extents, kernel, attributes["stride"], attributes["padding"], attributes["dilation"])
    return _resolution(image, weight, _joined(batch, outputs, counts, attributes["channels_last"]), attributes)


@rules.of_tensors("all but bool")
def _transpose_rule(image: Spec, weight: Spec, extents: tuple[int, ...], **attributes: Any) -> Resolution:
    batch, outputs, _ = _split(image, attributes["channels_last"])
    groups = attributes["groups"]
    if outputs != weight.shape[0] or groups < 1 or outputs % groups:
        raise ShapeError(f"a weight for {weight.shape[0]} channels in {groups} groups does not fit {outputs} channels")
    _spans(weight.shape[2:], attributes["dilation"])
    if min(extents) < 0:
        raise ShapeError(f"padding {list(attributes['padding'])} removes more than there is: {list(extents)}")
    shape = _joined(batch, weight.shape[1] * groups, extents, attributes["channels_last"])
    return _resolution(image, weight, shape, {"extents": extents, **attributes})


@rules.of_tensors("all but bool")
def _weight_rule(image: Spec, gradient: Spec, kernel: tuple[int, ...], **attributes: Any) -> Resolution:
    batch, channels, _ = _split(image, attributes["channels_last"])
    batch_of_gradient, outputs, _ = _split(gradient, attributes["channels_last"])
    groups = attributes["groups"]
    _require_groups(outputs, groups)
    if batch != batch_of_gradient or channels % groups:
        raise ShapeError(f"{batch} x {channels} channels in {groups} groups do not fit {batch_of_gradient} gradients")
    _spans(kernel, attributes["dilation"])
    return _resolution(image, gradient, (outputs, channels // groups, *kernel), {"kernel": kernel, **attributes})


# --- reference


def _grouped(image: Array, groups: int, channels_last: bool) -> Array:
    """Return an image as (batch, groups, channels / groups, *places), in the dtype of the sums."""
    image = image.astype(np.float64 if image.dtype.kind == "f" else image.dtype)
    if channels_last:
        image = np.moveaxis(image, -1, 1)
    return image.reshape(image.shape[0], groups, image.shape[1] // groups, *image.shape[2:])


def _grouped_weight(weight: Array, groups: int, dtype: np.dtype[Any]) -> Array:
    """Return a weight as (groups, outputs / groups, channels, *kernel)."""
    return weight.astype(dtype).reshape(groups, weight.shape[0] // groups, *weight.shape[1:])


def _ungrouped(image: Array, counts: Sequence[int], channels_last: bool) -> Array:
    image = image.reshape(image.shape[0], image.shape[1] * image.shape[2], *counts)
    return np.moveaxis(image, 1, -1) if channels_last else image


def _region(image: Array, starts: Sequence[int], extents: Sequence[int]) -> Array:
    """Return the places from `starts` on, with zeros outside the image."""
    lead = image.shape[: image.ndim - len(starts)]
    result = np.zeros((*lead, *extents), image.dtype)
    own, others = list[Any](), list[Any]()
    for start, extent, size in zip(starts, extents, image.shape[len(lead) :], strict=True):
        first, end = max(start, 0), min(start + extent, size)
        own.append(slice(first, max(first, end)))
        others.append(slice(max(first - start, 0), max(first, end) - start))
    if all(part.start < part.stop for part in own):
        result[(..., *others)] = image[(..., *own)]
    return result


def _slices(
    kernel: Sequence[int], counts: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Iterator[tuple[Any, Any]]:
    """Yield the index of each element of a kernel, and of the places that it meets, counted from the first one."""
    for place in itertools.product(*map(range, kernel)):
        starts = [number * gap for number, gap in zip(place, dilation, strict=True)]
        zipped = zip(starts, counts, stride, strict=True)
        yield (
            (..., *place),
            (..., *(slice(start, start + (count - 1) * step + 1, step) for start, count, step in zipped)),
        )


def _frame(kernel: Sequence[int], counts: Sequence[int], stride: Sequence[int], dilation: Sequence[int]) -> list[int]:
    """Return the distance from the first to the last place that a kernel meets, inclusive."""
    spans = _spans(kernel, dilation)
    return [max(count - 1, 0) * step + span for count, step, span in zip(counts, stride, spans, strict=True)]


def _convolution(name: str, ggml: str) -> Recorder[...]:
    def conv(
        input: Array,
        weight: Array,
        /,
        stride: tuple[int, ...],
        padding: Pairs,
        dilation: tuple[int, ...],
        groups: int = 1,
        channels_last: bool = False,
        out_dtype: Any = None,
    ) -> Array:
        """Multiply the elements under each position of a kernel by it, and add them."""
        image = _grouped(input, groups, channels_last)
        kernels = _grouped_weight(weight, groups, image.dtype)
        kernel = weight.shape[2:]
        counts = _counts(image.shape[3:], kernel, stride, padding, dilation)
        framed = _region(image, [-before for before, _ in padding], _frame(kernel, counts, stride, dilation))
        total = np.zeros((image.shape[0], *kernels.shape[:2], math.prod(counts)), image.dtype)
        for place, met in _slices(kernel, counts, stride, dilation):
            total += kernels[place] @ framed[met].reshape(*image.shape[:3], math.prod(counts))
        return _ungrouped(total, counts, channels_last)

    conv.__name__ = name
    return op(kind="conv", rule=_conv_rule, ggml=ggml, public=False)(conv)


def _transposed(name: str, ggml: str = "") -> Recorder[...]:
    def conv_transpose(
        input: Array,
        weight: Array,
        /,
        extents: tuple[int, ...],
        stride: tuple[int, ...],
        padding: Pairs,
        dilation: tuple[int, ...],
        groups: int = 1,
        channels_last: bool = False,
        out_dtype: Any = None,
    ) -> Array:
        """Add each element times the kernel to the `extents` places that it meets in a convolution."""
        image = _grouped(input, groups, channels_last)
        kernels = _grouped_weight(weight, groups, image.dtype)
        kernel = weight.shape[2:]
        counts = image.shape[3:]
        frame = _frame(kernel, counts, stride, dilation)
        total = np.zeros((image.shape[0], groups, weight.shape[1], *frame), image.dtype)
        flat = image.reshape(*image.shape[:3], math.prod(counts))
        for place, met in _slices(kernel, counts, stride, dilation) if math.prod(counts) else ():
            total[met] += (kernels[place].swapaxes(1, 2) @ flat).reshape(*total.shape[:3], *counts)
        return _ungrouped(_region(total, [before for before, _ in padding], extents), extents, channels_last)

    conv_transpose.__name__ = name
    return op(kind="data", rule=_transpose_rule, ggml=ggml, public=False)(conv_transpose)


conv_1d: Final = _convolution("conv_1d", "IM2COL")
conv_2d: Final = _convolution("conv_2d", "CONV_2D")
conv_2d_dw: Final = _convolution("conv_2d_dw", "CONV_2D_DW")
conv_3d: Final = _convolution("conv_3d", "CONV_3D")
conv_transpose_1d: Final = _transposed("conv_transpose_1d", "CONV_TRANSPOSE_1D")
conv_transpose_2d: Final = _transposed("conv_transpose_2d", "CONV_TRANSPOSE_2D")
conv_transpose_3d: Final = _transposed("conv_transpose_3d")


CONVOLUTIONS: Final = conv_1d, conv_2d, conv_3d
"""Convolutions of one, two and three places."""

TRANSPOSED: Final = conv_transpose_1d, conv_transpose_2d, conv_transpose_3d
"""Transposed convolutions of one, two and three places."""


@op(kind="data", rule=_weight_rule, public=False)
def conv_weight_gradient(
    input: Any,
    gradient: Any,
    /,
    kernel: tuple[int, ...],
    stride: tuple[int, ...],
    padding: Pairs,
    dilation: tuple[int, ...],
    groups: int = 1,
    channels_last: bool = False,
    out_dtype: Any = None,
) -> Array:
    """Compute the gradient of the weight of a convolution of `input` from the gradient of its result."""
    image, outer = _grouped(input, groups, channels_last), _grouped(gradient, groups, channels_last)
    counts = outer.shape[3:]
    framed = _region(image, [-before for before, _ in padding], _frame(kernel, counts, stride, dilation))
    total = np.zeros((groups, outer.shape[2], image.shape[2], *kernel), image.dtype)
    flat = outer.reshape(*outer.shape[:3], math.prod(counts))
    for place, met in _slices(kernel, counts, stride, dilation) if math.prod(counts) else ():
        total[place] = (flat @ framed[met].reshape(*image.shape[:3], math.prod(counts)).swapaxes(2, 3)).sum(0)
    return total.reshape(groups * outer.shape[2], *total.shape[2:])
