"""Gradients of ops without programs: products, views, moved elements, scans.

A rule takes a `Recording` of an op and the number of an operand, and records the gradient of that operand.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from npu_tensor import ops
from npu_tensor.functions.register import wide
from npu_tensor.ops.conv import CONVOLUTIONS, TRANSPOSED
from npu_tensor.ops.declare import Call, Layout
from npu_tensor.ops.movement import padded_places
from npu_tensor.ops.places import places_of
from npu_tensor.spec import Spec, contiguous_strides
from npu_tensor.tensor import Tensor, from_array, record


@dataclass(frozen=True, slots=True)
class Recording:
    """A recorded op: its call, operands and result, and the gradient of the result.

    Attributes:
        shared: Tensors that the rules of several operands use, by any key.
    """

    call: Call
    operands: Sequence[Any]
    result: Tensor
    gradient: Tensor
    shared: dict[Any, Tensor] = field(default_factory=dict)

    def spec(self, number: int) -> Spec:
        """Return the spec of an operand that is a tensor."""
        spec = self.call.operands[number]
        assert isinstance(spec, Spec)
        return spec

    def zeros(self, number: int) -> Tensor:
        """Return zeros in the shape and dtype of an operand."""
        return _filled(self.spec(number), 0)


Rule = Callable[[Recording, int], Tensor]


def _filled(spec: Spec, value: float) -> Tensor:
    return ops.fill(value, spec.shape, spec.dtype)


def _places(values: Any) -> Tensor:
    return from_array(np.asarray(values, np.int64))


def summed_to(gradient: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Sum a gradient over the dimensions along which its operand, of this shape, was broadcast."""
    if gradient.shape == shape:
        return gradient
    added = gradient.ndim - len(shape)
    dims = [*range(added)]
    dims += [axis for axis, extent in enumerate(shape, added) if extent == 1 != gradient.shape[axis]]
    return gradient.sum(dims, keepdim=True).reshape(*shape) if dims else gradient.reshape(*shape)


# --- products


def _contract(of: Recording, number: int) -> Tensor:
    other, spec = of.operands[1 - number], of.spec(number)
    gradient = of.gradient.to(spec.dtype)
    if _is_transposed(of.operands[number]) and gradient.dtype is other.dtype:  # The gradient gets the same layout.
        left, right = (other, gradient.swapaxes(-1, -2)) if number == 0 else (gradient.swapaxes(-1, -2), other)
        result = ops.contract(left, right, spec.dtype).swapaxes(-1, -2)
    else:
        left, right = (gradient, other.swapaxes(-1, -2)) if number == 0 else (other.swapaxes(-1, -2), gradient)
        result = ops.contract(left, right, spec.dtype)
    return summed_to(result, spec.shape)


def _is_transposed(matrix: Tensor) -> bool:
    """Return True if a matrix is a view that exchanges the last two dimensions."""
    call, last = matrix._node.call, matrix.ndim - 1
    return call is not None and call.op is ops.permute.op and call.attributes["dims"][-2:] == (last, last - 1)


def _rotate(of: Recording, number: int) -> Tensor:
    """Rotate back by the negative angles, with the same common factor."""
    _, positions, *factors = of.operands
    return ops.rotate(of.gradient, -positions, *factors, **of.call.attributes)


# --- convolutions, each of which is a gradient of the others


def _convolution(of: Recording, number: int) -> Tensor:
    image, weight = of.operands
    gradient, geometry = of.gradient.to(of.spec(number).dtype), _geometry(of)
    if number == 0:
        return _transposed(gradient, weight, places_of(image, geometry["channels_last"]), geometry)
    return ops.conv_weight_gradient(image, gradient, weight.shape[2:], **geometry)


def _transposed_convolution(of: Recording, number: int) -> Tensor:
    image, weight = of.operands
    gradient, geometry = of.gradient.to(of.spec(number).dtype), _geometry(of)
    if number == 0:
        return _convolved(gradient, weight, places_of(image, geometry["channels_last"]), geometry)
    return ops.conv_weight_gradient(gradient, image, weight.shape[2:], **geometry)


def _gradient_of_weight(of: Recording, number: int) -> Tensor:
    weight, geometry = of.gradient.to(of.spec(number).dtype), _geometry(of)
    places = places_of(of.operands[number], geometry["channels_last"])
    return (_transposed, _convolved)[number](of.operands[1 - number], weight, places, geometry)


def _geometry(of: Recording) -> dict[str, Any]:
    """Return the attributes that a convolution shares with its gradients."""
    names = "stride", "padding", "dilation", "groups", "channels_last"
    return {name: of.call.attributes[name] for name in names}


def _convolved(image: Tensor, weight: Tensor, counts: Sequence[int], geometry: Mapping[str, Any]) -> Tensor:
    """Convolve at `counts` positions, which the padding at the end allows for."""
    extents = places_of(image, geometry["channels_last"])
    sizes = weight.shape[2:], extents, geometry["stride"], geometry["padding"], geometry["dilation"]
    padding = tuple(
        (before, (count - 1) * step + gap * (size - 1) + 1 - extent - before)
        for count, size, extent, step, (before, _), gap in zip(counts, *sizes, strict=True)
    )
    return CONVOLUTIONS[len(counts) - 1](image, weight, **{**geometry, "padding": padding})


def _transposed(image: Tensor, weight: Tensor, extents: Sequence[int], geometry: Mapping[str, Any]) -> Tensor:
    return TRANSPOSED[len(extents) - 1](image, weight, extents, **geometry)


# --- sums, whose gradients are views


def with_rows(of: Recording) -> Tensor:
    """Return the gradient of the result of a reduction, with extent 1 in the reduced dimensions."""
    shape = of.spec(0).shape
    return of.gradient.reshape(*(1 if axis in of.call.dims else extent for axis, extent in enumerate(shape)))


def _sum(of: Recording, number: int) -> Tensor:
    return with_rows(of).to(of.spec(number).dtype).expand(*of.spec(number).shape)


def _mean(of: Recording, number: int) -> Tensor:
    count = math.prod(of.spec(number).shape[axis] for axis in of.call.dims)
    return _sum(replace(of, gradient=of.gradient / count), number)


# --- norms


def _statistics(x: Tensor, dims: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor]:
    """Record the mean of the rows and the scale of their deviations, of extent 1 in `dims`."""
    mean = ops.mean(x, dims, True, dtype=x.dtype.register)
    return mean, ops.inverse_deviation(ops.mean_square(x, mean, dims), eps)


def _layer_norm(of: Recording, number: int) -> Tensor:
    x, weight, *_ = (*of.operands, 1.0)
    if number == 2:
        return summed_to(of.gradient, of.spec(number).shape).to(of.spec(number).dtype)
    mean, scale = _statistics(x, of.call.dims, of.call.attributes["eps"])
    if number == 1:
        return _of_norm_weight(of, mean, scale)
    return ops.layer_norm_gradient(x, mean, scale, weight, of.gradient, of.call.dims)


def _rms_norm(of: Recording, number: int) -> Tensor:
    x, weight, *_ = (*of.operands, 1.0)
    scale = ops.inverse_deviation(ops.mean_square(x, 0.0, of.call.dims), of.call.attributes["eps"])
    if number == 1:
        return _of_norm_weight(of, 0.0, scale)
    return ops.rms_norm_gradient(x, scale, weight, of.gradient, of.call.dims)


def _of_norm_weight(of: Recording, mean: Any, scale: Tensor) -> Tensor:
    spec, ndim = of.spec(1), of.gradient.ndim
    shape = (1,) * (ndim - len(spec.shape)) + spec.shape
    repeated = tuple(axis for axis in range(ndim) if shape[axis] == 1)
    if repeated:
        gradient = ops.norm_weight_gradient(of.operands[0], mean, scale, of.gradient, repeated)
    else:
        gradient = (of.operands[0] - mean) * scale * of.gradient
    return gradient.reshape(*spec.shape).to(spec.dtype)


def _cross_entropy(of: Recording, number: int) -> Tensor:
    x, target = of.operands
    dim, ignore_index = of.call.attributes["dim"], of.call.attributes["ignore_index"]
    return ops.cross_entropy_rows_gradient(x, target, of.gradient, dim, ignore_index)


def _mean_square(of: Recording, number: int) -> Tensor:
    x, mean = of.operands
    count = math.prod(x.shape[axis] for axis in of.call.dims)
    gradient = (x - mean) * (of.gradient * (2 / count))
    return (summed_to(-gradient, of.spec(1).shape) if number else gradient).to(of.spec(number).dtype)


def _standardize(of: Recording, number: int) -> Tensor:
    """Differentiate by the input also through its statistics, which have no gradients of their own."""
    x, _, _, weight, _ = of.operands
    dims, eps = of.call.attributes["dim"], of.call.attributes["eps"]
    if number in (1, 2):
        return of.zeros(number)
    mean, scale = _statistics(x, dims, eps)
    of_bias = of.gradient.sum(dims, True, dtype=scale.dtype)
    of_weight = ops.norm_weight_gradient(x, mean, scale, of.gradient, dims)
    if number:
        spec = of.spec(number)
        return (of_weight if number == 3 else of_bias).reshape(*spec.shape).to(spec.dtype)
    count = math.prod(x.shape[axis] for axis in dims)
    return ops.standardize_gradient(x, mean, scale, weight, of.gradient, of_weight, of_bias, count)


# --- views


def _permute(of: Recording, number: int) -> Tensor:
    inverse = np.argsort(of.call.attributes["dims"])
    return of.gradient.permute(*map(int, inverse))


def _windows(of: Recording, number: int) -> Tensor:
    """Add all elements of the windows, which may overlap, to the elements that they show."""
    dim, step, gap = (of.call.attributes[name] for name in ("dim", "step", "gap"))
    spec = of.spec(number)
    order, front = _with_windows_last(of.operands[number]._node, dim)
    moved = Spec.of(tuple(spec.shape[axis] for axis in order), spec.dtype)
    strides = list(contiguous_strides(moved.shape))
    own = strides[order.index(dim)]
    strides[order.index(dim)] = own * step
    gradient = of.gradient.permute(*order[:front], len(order), *order[front:])
    places = (*strides[:front], own * gap, *strides[front:])
    total = ops.write_strided(_filled(moved, 0), gradient, 0, strides=places, add=True)
    return total.permute(*map(int, np.argsort(order)))


def _with_windows_last(node: Any, dim: int) -> tuple[list[int], int]:
    """Return an order of dimensions that ends with the dimensions that windows were cut from, and the number before.

    Dimensions of window elements come before them, so that neighbours in an image stay neighbours.
    """
    axes, inside, first = [*range(len(node.spec.shape))], 0, dim
    while node.call is not None and node.call.op is ops.windows.op and node.inputs:
        inside, first = inside + 1, min(first, node.call.attributes["dim"])
        node = node.inputs[0]
    end = len(axes) - inside
    return axes[:first] + axes[end:] + axes[first:end], first + inside


def _view(of: Recording, number: int) -> Tensor:
    """Write the gradient to the elements of a zero tensor that a view without overlap shows."""
    zeros, view = of.zeros(number), of.call
    assert view.op.layout is not None
    whole = Layout(zeros.shape, contiguous_strides(zeros.shape))
    layout = view.op.layout(whole, view.spec.shape, view.attributes)
    assert layout is not None
    return ops.write_strided(zeros, of.gradient, layout.offset, strides=layout.strides)


def _write_strided(of: Recording, number: int) -> Tensor:
    _, value, offset = of.operands
    strides, add = of.call.attributes["strides"], of.call.attributes["add"]
    if number == 0 and add:
        return of.gradient
    if number == 0:
        return ops.write_strided(of.gradient, _filled(value._node.spec, 0), offset, strides=strides)
    places = np.zeros((), np.int64)
    for extent, stride in zip(value.shape, strides, strict=True):
        places = np.add.outer(places, np.arange(extent) * stride)
    flat = of.gradient.reshape(-1)
    return ops.take_op(flat, _places(places) + offset, dim=0)


# --- what moves elements


def _concat(of: Recording, number: int) -> Tensor:
    dim = of.call.attributes["dim"]
    start = sum(of.spec(before).shape[dim] for before in range(number))
    return of.gradient.narrow(dim, start, of.spec(number).shape[dim])


def _pad(of: Recording, number: int) -> Tensor:
    widths, mode = of.call.attributes["widths"], of.call.attributes["mode"]
    gradient = of.gradient
    if mode == "constant" and all(width >= 0 for each in widths for width in each):
        pairs = zip(widths, of.spec(number).shape, strict=True)
        return ops.slice_(gradient, tuple((before, before + extent, 1) for (before, _), extent in pairs))
    if mode == "constant":
        return ops.pad_widths(gradient, tuple((-before, -after) for before, after in widths))
    for dim, width in enumerate(widths):
        if any(width):
            extent = of.spec(number).shape[dim]
            shape = (*gradient.shape[:dim], extent, *gradient.shape[dim + 1 :])
            places = _places(padded_places(mode, extent, *width))
            gradient = _added(_filled(Spec.of(shape, gradient.dtype), 0), gradient.movedim(dim, 0), [places], (dim,))
    return gradient


def _added(zeros: Tensor, value: Tensor, indices: Sequence[Tensor], dims: tuple[int, ...]) -> Tensor:
    """Add `value`, whose leading dimensions are those of the indices, to the indexed elements of zeros."""
    bounds = tuple((0, extent, 1) for extent in zeros.shape)
    return ops.put_op(zeros, value, *indices, bounds=bounds, dims=dims, reduce="add")


def _take(of: Recording, number: int) -> Tensor:
    index, dim = of.operands[1], of.call.attributes["dim"]
    front = [*range(dim, dim + index.ndim)]
    rest = [axis for axis in range(of.gradient.ndim) if axis not in front]
    return _added(of.zeros(number), of.gradient.permute(*front, *rest), [index], (dim,))


def _gather_along(of: Recording, number: int) -> Tensor:
    index, dim, spec = of.operands[1], of.call.attributes["dim"], of.spec(number)
    axes = range(index.ndim)
    if index.shape == (*spec.shape[:dim], 1, *spec.shape[dim + 1 :]):  # One index per row.
        places = _places(np.arange(spec.shape[dim])).reshape(*(-1 if axis == dim else 1 for axis in axes))
        # Gathering checks the indices, also if the forward result is never computed.
        chosen = ops.gather_along(places.expand(*spec.shape), index, dim=dim)
        return ops.where_op(places == chosen, of.gradient, 0.0)
    return ops.scatter_along(of.zeros(number), of.gradient, index, dim, "add")


def _take_points(of: Recording, number: int) -> Tensor:
    indices = of.operands[1:]
    return _added(of.zeros(number), of.gradient, indices, tuple(range(len(indices))))


def _put(of: Recording, number: int) -> Tensor:
    _, value, *indices = of.operands
    attributes = of.call.attributes
    if attributes["reduce"] not in ("", "add"):
        raise NotImplementedError(f"reduce={attributes['reduce']!r}")
    if number == 0:
        if attributes["reduce"]:
            return of.gradient
        return ops.put_op(of.gradient, _filled(value._node.spec, 0), *indices, **attributes)
    part = ops.slice_(of.gradient, attributes["bounds"])
    dims = attributes["dims"]
    front = part.permute(*dims, *(axis for axis in range(part.ndim) if axis not in dims))
    return ops.take_points(front, *indices) if indices else front


def _scatter_along(of: Recording, number: int) -> Tensor:
    _, value, index = of.operands
    dim, reduce = of.call.attributes["dim"], of.call.attributes["reduce"]
    if reduce not in ("", "add"):
        raise NotImplementedError(f"reduce={reduce!r}")
    if number:
        return ops.gather_along(of.gradient, index, dim)
    return of.gradient if reduce else ops.scatter_along(of.gradient, _filled(value._node.spec, 0), index, dim)


# --- pools and resized images


def _resample(of: Recording, number: int) -> Tensor:
    if of.call.attributes["mode"] != "max":
        return ops.resample_backward(of.gradient, of.call)
    gradient = ops.max_pool_backward(wide(of.operands[0]), wide(of.gradient), of.call)
    return gradient.to(of.spec(number).dtype)


def _resample_backward(of: Recording, number: int) -> Tensor:
    call = of.call.attributes["of"]
    return record(call.op, (of.gradient,), tuple([call.attributes[each.name] for each in call.op.attributes]))


def _max_pool_backward(of: Recording, number: int) -> Tensor:
    if number == 0:
        return of.zeros(number)
    call = of.call.attributes["of"]
    dim = 1 if call.attributes["channels_last"] else 2
    positions = ops.max_pool_positions(of.operands[0], call)
    taken = ops.gather_along(of.gradient.flatten(dim, dim - 3), positions.flatten(dim, dim - 3), dim=dim)
    return taken.reshape(*of.spec(number).shape)


def _samples_at(of: Recording, number: int) -> Tensor:
    x, grid = of.operands
    if number == 0:
        return ops.samples_at_backward_0(grid, of.gradient, of.call)
    if of.call.attributes["mode"] == "nearest":
        return of.zeros(number)
    return ops.samples_at_backward_1(x, grid, of.gradient, of.call)


# --- scans and remainders


def _scanned_back(values: Tensor, dim: int) -> Tensor:
    """Sum each element and all elements after it."""
    return values.flip(dim).cumsum(dim).flip(dim)


def _cumsum(of: Recording, number: int) -> Tensor:
    return _scanned_back(of.gradient, of.call.attributes["dim"]).to(of.spec(number).dtype)


def _cumprod(of: Recording, number: int) -> Tensor:
    """Divide up to the first zero, use the products without it at the zero, and return 0 after it."""
    x, dim = of.operands[0].to(of.result.dtype), of.call.attributes["dim"]
    gradient, zero = of.gradient, x == 0
    zeros = zero.to("int64").cumsum(dim)
    before = _scanned_back(ops.where_op(zeros == 0, gradient * of.result, 0.0), dim) / x
    first = zero & (zeros == 1)
    without = ops.where_op(first, 1.0, x).cumprod(dim)
    there = _scanned_back(ops.where_op(zeros >= 1, gradient * without, 0.0), dim)
    return ops.where_op(zeros == 0, before, ops.where_op(first, there, 0.0)).to(of.spec(number).dtype)


def _clamp(of: Recording, number: int) -> Tensor:
    """Pass the gradient within the bounds, inclusive, as in PyTorch."""
    return ops.where_op(of.result == of.operands[0], of.gradient, 0.0)


def _remainder(rounded: Callable[[Tensor], Tensor]) -> Rule:
    """Make the rule of input - rounded(input / other) * other."""

    def rule(of: Recording, number: int) -> Tensor:
        gradient = of.gradient
        if number == 1:
            gradient = -gradient * rounded(of.operands[0] / of.operands[1])
        return summed_to(gradient, of.spec(number).shape)

    return rule


# --- element-wise ops whose formulas overflow, or are undefined at points where the op has a derivative


def _binary(factors: Callable[[Any, Any], tuple[Any, ...]]) -> Rule:
    """Make a rule from the partial derivatives with respect to two operands, which may be broadcast."""

    def rule(of: Recording, number: int) -> Tensor:
        return summed_to(of.gradient * factors(*of.operands)[number], of.spec(number).shape)

    return rule


def _angle(y: Any, x: Any) -> tuple[Any, ...]:
    """Return 0 at the origin, as in PyTorch."""
    square = x * x + y * y
    return tuple(ops.where_op(square == 0, 0.0, part / square) for part in (x, -y))


def _xlogy(x: Any, y: Any) -> tuple[Any, Any]:
    """Return log(y) also where x is 0, but 0 where x is 0 and y is not positive, as in PyTorch."""
    gap = (x == 0) & (y <= 0)
    return ops.where_op(gap, 0.0, ops.xlogy(1.0, ops.where_op(gap, 1.0, y))), x / y


def _softplus(of: Recording, number: int) -> Tensor:
    scaled, threshold = of.operands[0] * of.call.attributes["beta"], of.call.attributes["threshold"]
    return of.gradient * ops.where_op(scaled > threshold, 1.0, scaled.sigmoid())


def _logit(of: Recording, number: int) -> Tensor:
    x, eps = of.operands[0], of.call.attributes["eps"]
    inside = of.gradient / (x * (1 - x))
    return ops.where_op((x < (eps or 0)) | (x > 1 - (eps or 0)), math.nan if eps is None else 0.0, inside)


def _sinc(x: Tensor) -> Tensor:
    angle = x * math.pi
    square = angle * angle
    near = angle * (-math.pi / 3) * (1 - square / 10 + square * square / 280 - square * square * square / 15120)
    turned = (x - 2 * (x * 0.5).round()) * math.pi  # Remove whole turns, as in the op itself.
    return ops.where_op(x.abs() < 0.03, near, (turned.cos() - x.sinc()) / x)


_TRIGAMMA: Final = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


def _trigamma(x: Tensor) -> Tensor:
    """Differentiate digamma by Stirling's series from 8 on, by recurrence below, and by reflection below 0.5."""
    reflected = ops.where_op(x < 0.5, 1 - x, x)
    y = reflected + 8
    square = 1 / (y * y)
    series = square * _TRIGAMMA[-1]
    for coefficient in reversed(_TRIGAMMA[:-1]):
        series = (series + coefficient) * square
    value = (series + 1) / y + square / 2
    for number in range(8):
        value = value + 1 / (reflected + number).square()
    cosecant = math.pi / ((x - x.round()) * math.pi).sin()
    return ops.where_op(x < 0.5, cosecant * cosecant - value, value)


def _logcumsumexp(of: Recording, number: int) -> Tensor:
    """Compute exp(x) * sum(gradient / exp(result)) from each element on, by logarithms for each sign."""
    dim = of.call.attributes["dim"]
    x, result, gradient = of.operands[0], of.result, of.gradient

    def part(positive: Tensor) -> Tensor:
        logarithms = ops.where_op(positive > 0, positive.log() - result, -math.inf)
        return Tensor.exp(logarithms.flip(dim).logcumsumexp(dim).flip(dim) + x)

    return part(gradient) - part(-gradient) if x.ndim else gradient


def _unary(derivative: Callable[[Tensor], Tensor]) -> Rule:
    """Make a rule from the derivative with respect to the only operand."""
    return lambda of, number: of.gradient * derivative(of.operands[0])


RULES: Final[dict[str, Rule]] = {
    "acos": _unary(lambda x: -1 / (1 - x * x).sqrt()),
    "acosh": _unary(lambda x: 1 / (x * x - 1).sqrt()),
    "asin": _unary(lambda x: 1 / (1 - x * x).sqrt()),
    "asinh": _unary(lambda x: 1 / (x * x + 1).sqrt()),
    "atan2": _binary(_angle),
    "atanh": _unary(lambda x: 1 / (1 - x * x)),
    "digamma": _unary(_trigamma),
    "erfinv": _unary(lambda x: x.erfinv().square().exp() * (math.sqrt(math.pi) / 2)),
    "lgamma": _unary(Tensor.digamma),
    "logcumsumexp": _logcumsumexp,
    "logit": _logit,
    "sinc": _unary(_sinc),
    "logaddexp": _binary(lambda a, b: (ops.sigmoid(a - b), ops.sigmoid(b - a))),
    "logaddexp2": _binary(lambda a, b: (ops.sigmoid((a - b) * math.log(2)), ops.sigmoid((b - a) * math.log(2)))),
    "logsigmoid": _unary(lambda x: (-x).sigmoid()),
    "sinh": _unary(lambda x: x.cosh()),
    "xlogy": _binary(_xlogy),
    "softplus": _softplus,
    "sum": _sum,
    "mean": _mean,
    "contract": _contract,
    **dict.fromkeys(["conv_1d", "conv_2d", "conv_2d_dw", "conv_3d"], _convolution),
    **dict.fromkeys(["conv_transpose_1d", "conv_transpose_2d", "conv_transpose_3d"], _transposed_convolution),
    "conv_weight_gradient": _gradient_of_weight,
    "cross_entropy_rows": _cross_entropy,
    "layer_norm": _layer_norm,
    "mean_square": _mean_square,
    "norm_rows": _layer_norm,
    "rms_norm": _rms_norm,
    "rms_norm_rows": _rms_norm,
    "standardize": _standardize,
    "linear_quantized": lambda of, number: (of.gradient.float() @ of.operands[1].dequantize()).to(
        of.spec(number).dtype
    ),
    "rotate": _rotate,
    "reshape": lambda of, number: of.gradient.reshape(*of.spec(number).shape),
    "permute": _permute,
    "expand": lambda of, number: summed_to(of.gradient, of.spec(number).shape),
    "slice": _view,
    "select": _view,
    "diagonal": _view,
    "windows": _windows,
    "write_strided": _write_strided,
    **dict.fromkeys(("pool_1d", "pool_2d", "pool_3d", "adaptive_pool", "upscale"), _resample),
    "resample_backward": _resample_backward,
    "samples_at": _samples_at,
    "max_pool_backward": _max_pool_backward,
    "concat": _concat,
    "pad_widths": _pad,
    "tril": lambda of, number: ops.tril(of.gradient, of.call.attributes["diagonal"]),
    "triu": lambda of, number: ops.triu(of.gradient, of.call.attributes["diagonal"]),
    "cumsum": _cumsum,
    "cumprod": _cumprod,
    "gather_along": _gather_along,
    "take": _take,
    "take_points": _take_points,
    "put": _put,
    "scatter_along": _scatter_along,
    "clamp": _clamp,
    "remainder_float": _remainder(lambda x: x.floor()),
    "fmod_float": _remainder(lambda x: x.trunc()),
    "floor_divide_float": lambda of, number: of.zeros(number),
}
