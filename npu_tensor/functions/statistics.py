"""Statistics of rows and samples: covariance, histograms, ranks, runs, integrals, derivatives, windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from npu_tensor import ops
from npu_tensor.dtypes import default_dtype, int64
from npu_tensor.errors import ArgumentError, DimensionError, ShapeError
from npu_tensor.functions import signal_windows
from npu_tensor.functions.arithmetic import result_type
from npu_tensor.functions.creation import arange, zeros
from npu_tensor.functions.reduce import norm, values_at
from npu_tensor.functions.register import Operand, composite, converted, require_float, wide
from npu_tensor.functions.scattering import index_add
from npu_tensor.functions.search import bucketize
from npu_tensor.functions.shape import ValuesIndices, gather, joined, sort
from npu_tensor.graph.history import require_constant
from npu_tensor.ops.rules import dimension
from npu_tensor.tensor import Tensor, from_array

# --- moments of several variables


@composite()
def cov(
    input: Tensor, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """Return the covariances of the rows of a matrix, whose columns are samples; for one row, the variance.

    Args:
        input: Matrix (variables, samples), or a vector.
        correction: Subtracted from the number of samples.
        fweights: Integer number of occurrences of each sample.
        aweights: Weight of each sample.
    """
    if input.ndim > 2:
        raise ShapeError(f"needs a matrix or a vector, not {list(input.shape)}")
    rows = input.reshape(-1, input.shape[-1] if input.ndim else 1)
    rows = rows if rows.is_floating_point() else rows.to(default_dtype(float))
    dtype = rows.dtype if aweights is None else result_type(rows, aweights)
    rows = wide(rows)
    weights = fweights if aweights is None else aweights if fweights is None else fweights * aweights
    count: Any = rows.shape[1] if weights is None else weights.sum()
    mean = (rows if weights is None else rows * weights).sum(1, True) / count
    centred = rows - mean
    if aweights is not None and weights is not None:
        freedom = count - correction * (weights * aweights).sum() / count
    else:
        freedom = count - correction
    freedom = freedom.clamp(min=0) if isinstance(freedom, Tensor) else max(freedom, 0)
    scaled = centred if weights is None else centred * weights
    result: Tensor = (scaled.to(rows.dtype) @ centred.mT) / freedom
    return result.to(dtype).reshape(()) if result.shape[0] == 1 else result.to(dtype)


@composite()
def corrcoef(input: Tensor) -> Tensor:
    """Return the correlations of the rows of a matrix, whose columns are samples."""
    covariance = cov(input)
    if not covariance.ndim:
        return covariance / covariance
    deviations = ops.diagonal(covariance).sqrt()
    return (covariance / deviations.unsqueeze(1) / deviations).clamp(-1, 1)


@composite()
def dist(input: Tensor, other: Tensor, p: float = 2.0) -> Tensor:
    """Return the p-norm of the difference of all elements."""
    return norm(input - other, p)


@composite(in_place=True)
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """Scale slices along dim whose p-norm is above maxnorm down to it.

    >>> nt.renorm(nt.tensor([[3.0, 4.0], [0.3, 0.4]]), 2, 0, 1.0)
    """
    place = dimension(dim, input.ndim)
    norms = norm(input, p, tuple(axis for axis in range(input.ndim) if axis != place), True)
    return (input * ops.where_op(norms > maxnorm, maxnorm / (norms + 1e-7), 1.0)).to(input.dtype)


# --- histograms


def _limits(input: Tensor, low: float, high: float, margin: float = 1) -> tuple[Any, Any]:
    """Return the limits of a histogram. Equal limits become those of the elements; equal elements widen by a margin."""
    if low > high:
        raise ArgumentError(f"min {low} is above max {high}")
    if low != high or not input.numel():
        return (low, high) if low != high else (low - margin, high + margin)
    least, most = input.amin(), input.amax()
    alike = (least == most).to(input.dtype) * margin
    return least - alike, most + alike


@composite()
def histc(input: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Count the elements in equal intervals from min to max, or between the extremes if these are equal."""
    require_float(input)
    flat = input.reshape(input.numel())
    low, high = _limits(flat, min, max)
    place = ((flat - low) / (high - low) * bins).floor()
    inside = (flat >= low) & (flat <= high)
    index = ops.where_op(inside, place.clamp(0, bins - 1), 0).to(int64)
    return index_add(zeros(bins, dtype=input.dtype), 0, index, inside.to(input.dtype))


class Histogram(NamedTuple):
    """Counts, or densities, and the edges of their intervals."""

    hist: Tensor
    bin_edges: Tensor


@composite()
def histogram(
    input: Tensor,
    bins: int | Tensor,
    *,
    range: tuple[float, float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Histogram:
    """Sum the weights of the elements between edges, the last one included.

    Args:
        input: Floats of any shape.
        bins: Ascending edges, or the number of equal intervals.
        range: First and last edge, if `bins` is a number.
        weight: Weight of each element; None for 1.
        density: True to divide by the total and by the widths.

    >>> nt.histogram(nt.tensor([1.0, 2.0, 2.5, 4.0]), 3)
    """
    flat = input.reshape(input.numel())
    if isinstance(bins, Tensor):
        edges = bins
    else:
        first, last = range or (0, 0)
        low, high = _limits(flat, first, last, 0.5)
        edges = ops.linspace_between(low, high, (bins + 1,), input.dtype)
    count = edges.shape[0] - 1
    place = bucketize(flat, edges, right=True) - 1
    place = ops.where_op(flat == edges[-1], count - 1, place)
    inside = (place >= 0) & (place < count)
    values = ops.where_op(inside, 1.0 if weight is None else weight.reshape(flat.shape), 0.0).to(input.dtype)
    hist = index_add(zeros(count, dtype=input.dtype), 0, ops.where_op(inside, place, 0), values)
    return Histogram(hist / (hist.sum() * (edges[1:] - edges[:-1])) if density else hist, edges)


# --- ranks


def _rows(input: Tensor, dim: int) -> tuple[Tensor, int]:
    """Return a number as a row of one element, and dim counted from the front. Raise DimensionError for empty rows."""
    place = dimension(dim, input.ndim)
    rows = input if input.ndim else input.reshape(1)
    if not rows.shape[place]:
        raise DimensionError("an empty row has no such element")
    return rows, place


@composite()
def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """Return the k-th smallest element of each row along dim, counted from 1, and its index."""
    rows, place = _rows(input, dim)
    if not 1 <= k <= rows.shape[place]:
        raise DimensionError(f"k = {k} is out of range for {rows.shape[place]} elements")
    index = ops.top_indices(rows, k, place, False).narrow(place, k - 1, 1)
    return values_at(rows, place, keepdim and bool(input.ndim), index)


@composite()
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """Return the most frequent element of each row along dim, the smallest of several, and its last index."""
    rows, place = _rows(input, dim)
    ordered = sort(rows, place)
    values, extent = ordered.values, rows.shape[place]
    position = arange(extent).reshape(-1, *(1 for _ in rows.shape[place + 1 :])).expand(rows.shape)
    starts = values != values.roll(1, place)
    run = position - cummax(ops.where_op(starts, position, 0), place).values
    index = gather(ordered.indices, place, run.argmax(place, True))
    return values_at(rows, place, keepdim and bool(input.ndim), index)


@composite()
def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the lower median of all elements that are not NaN, or (values, indices) along dim."""
    if dim is None:
        return nanmedian(input.reshape(input.numel()), 0)[0]
    rows, place = _rows(input, dim)
    count = (rows == rows).sum(place, True)  # sorting puts NaN last
    middle = ((count - 1).clamp(min=0) / 2).floor().to(int64)
    return values_at(rows, place, keepdim and bool(input.ndim), gather(rows.argsort(place), place, middle))


@composite()
def msort(input: Tensor) -> Tensor:
    """Sort along the first dimension."""
    return sort(input, 0).values


def _running(name: str, superlative: str, largest: bool) -> Callable[..., ValuesIndices]:
    def running(input: Tensor, dim: int) -> ValuesIndices:
        indices = ops.running_extreme(input, dim, largest)
        return ValuesIndices(gather(input, dim, indices), indices)

    running.__doc__ = f"Return the {superlative} element up to each one along dim, and the last index of it. NaN wins."
    return composite(name)(running)


cummax = _running("cummax", "largest", True)
cummin = _running("cummin", "smallest", False)


@composite()
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Return the elements, or slices along dim, that differ from the previous one. Reads the value.

    Args:
        return_inverse: True to also return the position of each element in the result.
        return_counts: True to also return the number of repetitions.
        dim: Dimension of the slices; None for elements.
    """
    require_constant("unique_consecutive", input._node)
    place = 0 if dim is None else dimension(dim, input.ndim)
    array = np.moveaxis(wide(input).numpy().reshape(-1) if dim is None else wide(input).numpy(), place, 0)
    rows = array.reshape(len(array), math.prod(array.shape[1:]))
    starts = np.append(np.ones(min(len(rows), 1), bool), np.any(rows[1:] != rows[:-1], axis=1))
    results = [from_array(np.moveaxis(array[starts], 0, place), input.dtype)]
    if return_inverse:
        inverse = np.cumsum(starts) - 1
        results.append(from_array(inverse.reshape(input.shape) if dim is None else inverse, int64))
    if return_counts:
        results.append(from_array(np.diff(np.append(np.flatnonzero(starts), len(rows))), int64))
    return results[0] if len(results) == 1 else tuple(results)


# --- samples of a function


def _areas(y: Tensor, x: Tensor | None, dx: float, dim: int) -> tuple[Tensor, int]:
    """Return the areas of the trapezoids between neighbours along dim, and dim counted from the front."""
    if not y.ndim:
        raise DimensionError("y has no dimension to integrate along")
    place = dimension(dim, y.ndim)
    count = max(y.shape[place] - 1, 0)
    heights = y.narrow(place, y.shape[place] - count, count) + y.narrow(place, 0, count)
    if x is None:
        return heights * (dx / 2), place
    if x.ndim == 1:
        x = x.reshape(-1, *(1 for _ in y.shape[place + 1 :]))
    along = place - y.ndim
    return heights * (x.narrow(along, 1, count) - x.narrow(along, 0, count)) / 2, place


@composite(method=False, aliases=("trapz",))
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1, dim: int = -1) -> Tensor:
    """Integrate samples y along dim by the trapezoidal rule, at places x or with a distance of dx."""
    areas, place = _areas(y, x, dx, dim)
    return areas.sum(place)


@composite(method=False)
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1, dim: int = -1) -> Tensor:
    """Return the integrals up to each sample except the first, like `trapezoid`."""
    areas, place = _areas(y, x, dx, dim)
    return areas.cumsum(place)


@composite(method=False)
def gradient(
    input: Tensor,
    *,
    spacing: Operand | Sequence[Operand] | None = None,
    dim: int | Sequence[int] | None = None,
    edge_order: int = 1,
) -> tuple[Tensor, ...]:
    """Return derivatives along dims by central differences of second order.

    Args:
        input: Samples.
        spacing: Distance of samples, or their coordinates as a vector; one for all dimensions or one for each. None is
            a distance of 1.
        dim: Dimensions of the derivatives; None for all.
        edge_order: Order of the differences at the ends, 1 or 2.
    """
    if edge_order not in (1, 2):
        raise ArgumentError(f"edge_order must be 1 or 2, not {edge_order}")
    named = (dim,) if isinstance(dim, int) else range(input.ndim) if dim is None else dim
    places = [dimension(each, input.ndim) for each in named]
    several = isinstance(spacing, (tuple, list))
    spacings: Any = spacing if several else (1 if spacing is None else spacing,) * len(places)
    if len(spacings) != len(places):
        raise ArgumentError(f"{len(spacings)} spacings for {len(places)} dimensions")
    return tuple(_derivative(input, place, step, edge_order) for place, step in zip(places, spacings, strict=True))


def _derivative(input: Tensor, dim: int, spacing: Operand, edge_order: int) -> Tensor:
    extent = input.shape[dim]
    if extent <= edge_order:
        raise ShapeError(f"needs more than {edge_order} samples along dimension {dim}, not {extent}")
    f = (input if input.is_floating_point() else input.float()).movedim(dim, -1)
    points = converted(spacing, f.dtype)
    steps = points[1:] - points[:-1] if points.ndim else points.expand(extent - 1)
    slopes = (f[..., 1:] - f[..., :-1]) / steps
    before, after = steps[:-1], steps[1:]
    inner = (slopes[..., :-1] * after + slopes[..., 1:] * before) / (before + after)
    first, last = slopes[..., :1], slopes[..., -1:]
    if edge_order == 2:  # the parabola through three samples
        first = first + (first - slopes[..., 1:2]) * (steps[:1] / (steps[:1] + steps[1:2]))
        last = last + (last - slopes[..., -2:-1]) * (steps[-1:] / (steps[-1:] + steps[-2:-1]))
    return joined([first, inner, last], f.ndim - 1).movedim(-1, dim)


# --- windows of signals


def _window_function(name: str, window: Callable[..., Tensor]) -> None:
    """Publish a window of `npu_tensor.signal.windows` with PyTorch's older arguments."""

    def function(window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None) -> Tensor:
        return window(window_length, sym=not periodic, dtype=dtype, device=device)

    function.__doc__ = f"{window.__doc__} periodic omits the last element of the symmetric window."
    composite(f"{name}_window", method=False, creates=True)(function)


_window_function("bartlett", signal_windows.bartlett)
_window_function("blackman", signal_windows.blackman)
_window_function("hann", signal_windows.hann)


@composite(method=False, creates=True)
def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Return alpha - beta cos(x) over a turn. periodic omits the last element of the symmetric window."""
    return signal_windows.general_cosine(window_length, a=(alpha, beta), sym=not periodic, dtype=dtype, device=device)


@composite(method=False, creates=True)
def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None, device: Any = None
) -> Tensor:
    """Return Kaiser's window with a shape parameter. periodic omits the last element of the symmetric window."""
    return signal_windows.kaiser(window_length, beta=beta, sym=not periodic, dtype=dtype, device=device)
