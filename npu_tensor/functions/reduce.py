"""Reductions that need more than one op: extremes with indices, variance, norms, quantiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npu_tensor import linalg, ops
from npu_tensor.dtypes import as_dtype, float32, float64
from npu_tensor.errors import ArgumentError, DimensionError, DTypeError
from npu_tensor.functions.register import Operand, composite, require_float
from npu_tensor.functions.shape import ValuesIndices, gather
from npu_tensor.ops.rules import dimension
from npu_tensor.tensor import Tensor, from_array

Dims = int | Sequence[int] | None


def values_at(input: Tensor, dim: Any, keepdim: bool, indices: Tensor) -> ValuesIndices:
    """Return the elements at indices, of extent 1 along dim, and the indices."""
    values = gather(input, dim, indices)
    if keepdim or not input.ndim:
        return ValuesIndices(values, indices)
    place = dimension(dim, input.ndim)
    return ValuesIndices(values.squeeze(place), indices.squeeze(place))


def _extreme(name: str, superlative: str, places: Callable[..., Tensor]) -> None:
    """Publish max or min. `places` returns the indices of these elements along a dimension."""
    pairwise, whole = getattr(ops, f"{name}imum"), getattr(ops, f"a{name}")

    def extreme(
        input: Tensor, dim: int | Operand | None = None, keepdim: bool = False, *, other: Operand | None = None
    ) -> Any:
        # The second operand may be passed as dim. A NumPy integer is a dimension, as in PyTorch.
        if other is None and isinstance(dim, (Tensor, np.ndarray, np.inexact, np.bool_, float)):
            other = dim
        if other is not None:
            return pairwise(input, other)
        return whole(input) if dim is None else values_at(input, dim, keepdim, places(input, dim, True))

    extreme.__doc__ = f"""
        Return the {superlative} element; with dim, (values, indices) along it; with a tensor, elementwise {name}ima.

        Args:
            input: First operand.
            dim: Dimension to reduce, or the second operand.
            other: Second operand.
    """
    composite(name)(extreme)


_extreme("max", "largest", ops.argmax)
_extreme("min", "smallest", ops.argmin)


def _spread(name: str, op: Callable[..., Tensor], text: str) -> Callable[..., Tensor]:
    """Publish var or std."""

    def spread(
        input: Tensor,
        dim: Dims = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> Tensor:
        if isinstance(dim, bool):  # var(unbiased), an older form of PyTorch
            dim, unbiased = None, dim
        if correction is None:
            correction = 0 if unbiased is False else 1
        return op(input, dim, keepdim, correction=correction)

    spread.__doc__ = f"""
        Return the {text}.

        Args:
            input: Floats of any shape.
            dim: Dimensions to reduce; None for all.
            unbiased: PyTorch's older argument: False for a correction of 0.
            correction: Subtracted from the number of elements; 1 by default.
    """
    return composite(name)(spread)


var = _spread("var", ops.var_op, "variance over dim: the sum of squared deviations divided by n - correction")
std = _spread("std", ops.std_op, "standard deviation over dim: the square root of `var`")


def _with_mean(name: str, spread: Callable[..., Tensor], text: str) -> None:
    """Publish var_mean or std_mean."""

    def spread_and_mean(
        input: Tensor,
        dim: Dims = None,
        unbiased: bool | None = None,
        keepdim: bool = False,
        *,
        correction: float | None = None,
    ) -> tuple[Tensor, Tensor]:
        dims = None if isinstance(dim, bool) else dim
        return spread(input, dim, unbiased, keepdim, correction=correction), input.mean(dims, keepdim)

    spread_and_mean.__doc__ = f"Return {text} and mean over dim, with the arguments of `{name}`."
    composite(f"{name}_mean")(spread_and_mean)


_with_mean("var", var, "variance")
_with_mean("std", std, "standard deviation")


@composite()
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """Return the smallest and the largest element over dim (None for all)."""
    dims = () if dim is None else dim
    return input.amin(dims, keepdim), input.amax(dims, keepdim)


@composite()
def count_nonzero(input: Tensor, dim: Dims = None) -> Tensor:
    """Return the number of elements over dim that are not zero, as int64."""
    return (input != 0).sum(dim)


@composite()
def norm(input: Tensor, p: float | str = 2.0, dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """Return the vector p-norm over dim: sum(|input| ** p) ** (1 / p).

    Args:
        input: Floats of any shape.
        p: Order, which may be infinite or 0; "fro" is 2; "nuc" is the sum of the singular values of matrices.
        dim: Dimensions to reduce; None for all.
        dtype: Dtype to convert input to first.
    """
    if dtype is not None:
        input = input.to(dtype)
    require_float(input)
    if p == "fro":
        p = 2.0
    if p == "nuc":
        dims = range(input.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
        return linalg.matrix_norm(input, "nuc", dims, keepdim)
    if isinstance(p, str):
        raise ArgumentError(f"p must be a number, 'fro' or 'nuc', not {p!r}")
    return ops.norm_op(input, dim, keepdim, p=p)


@composite()
def nansum(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Return the sum over dim (None for all) of the elements that are not NaN."""
    return ops.where_op(input.isnan(), 0, input).sum(dim, keepdim, dtype=dtype)


@composite()
def nanmean(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """Return the mean over dim (None for all) of the elements that are not NaN; NaN if there are none."""
    target = input.dtype if dtype is None else as_dtype(dtype)
    if not target.is_floating_point:
        raise DTypeError(f"takes floats, not {target.name}; convert with .to(npu_tensor.float32)")
    values = input.to(float32 if target.itemsize == 2 else target)
    return (nansum(values, dim, keepdim) / (~values.isnan()).sum(dim, keepdim)).to(target)


# For a rank between two elements: the rank to select, or the weight of the upper element. A selection by a weight of 0
# or 1 would give NaN if the other element is infinite.
_ROUNDINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "lower": Tensor.floor,
    "higher": Tensor.ceil,
    "nearest": Tensor.round,
}
_WEIGHTS: dict[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda rank: rank - rank.floor(),
    "midpoint": lambda rank: (rank - rank.floor()).ceil() * 0.5,
}


@composite()
def quantile(
    input: Tensor,
    q: float | Sequence[float] | Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """Return the q-th quantile of the elements along dim. NaN wins.

    Args:
        input: float32 or float64 of any shape.
        q: Number in [0, 1], or a vector of them, which adds a first dimension.
        dim: Dimension to reduce; None for all elements.
        interpolation: Value between two neighbours: "linear", "lower", "higher", "nearest" or "midpoint".

    Raises:
        ArgumentError: A number q is outside [0, 1], or `interpolation` has another value.
        DimensionError: An element of a tensor q is outside [0, 1], raised where the value is read; or there are no
            elements.
    """
    return _quantile(input, q, dim, keepdim, interpolation, False)


@composite()
def nanquantile(
    input: Tensor,
    q: float | Sequence[float] | Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """Return the q-th quantile along dim of the elements that are not NaN, like `quantile`; NaN if there are none.

    Args:
        input: float32 or float64 of any shape.
        q: Number in [0, 1], or a vector of them, which adds a first dimension.
        dim: Dimension to reduce; None for all elements.
        interpolation: Value between two neighbours: "linear", "lower", "higher", "nearest" or "midpoint".
    """
    return _quantile(input, q, dim, keepdim, interpolation, True)


def _quantile(input: Tensor, q: Any, dim: int | None, keepdim: bool, interpolation: str, skips_nan: bool) -> Tensor:
    known = (*_WEIGHTS, *_ROUNDINGS)
    if interpolation not in known:
        raise ArgumentError(f"interpolation must be one of {', '.join(known)}, not {interpolation!r}")
    if not isinstance(q, Tensor):
        numbers = np.asarray(q, np.float64)
        if not np.all((numbers >= 0) & (numbers <= 1)):
            raise ArgumentError(f"q must be from 0 to 1, not {q}")
        q = from_array(numbers)
    if input.dtype not in (float32, float64):
        raise DTypeError(f"takes float32 and float64, not {input.dtype.name}")
    place = 0 if dim is None else dimension(dim, input.ndim)
    whole = dim is None or not input.ndim
    rows = input.reshape(input.numel()) if whole else input
    if not rows.numel():
        raise DimensionError("an empty tensor has no quantile")
    ordered = rows.movedim(place, -1).sort(-1).values
    count: Any = ordered.shape[-1]
    ranks = q.to(input.dtype)
    if skips_nan:  # Sorting puts NaN last.
        count = (ordered == ordered).sum(-1, keepdim=True).clamp(min=1).to(input.dtype)
        ranks = ranks.reshape(-1)
    # A wrong q becomes a rank that is out of range, which `take` refuses when it runs.
    rank = ops.where_op((ranks >= 0) & (ranks <= 1), ranks * (count - 1), float(ordered.shape[-1]))

    def select(number: Tensor) -> Tensor:
        take = ops.gather_along if skips_nan else ops.take_op
        return take(ordered, number.long(), -1, "q must be from 0 to 1; the rank")

    if interpolation in _ROUNDINGS:
        result = select(_ROUNDINGS[interpolation](rank))
    else:
        result = ops.lerp(select(rank.floor()), select(rank.ceil()), _WEIGHTS[interpolation](rank))
    if skips_nan:
        result = result if q.ndim else result.squeeze(-1)
    else:
        last = ordered[..., -1]
        result = ops.where_op((last.unsqueeze(-1) if q.ndim else last).isnan(), math.nan, result)
    if q.ndim:
        result = result.movedim(-1, 0)
    if not keepdim:
        return result
    trailing = (1,) * input.ndim if whole else (*input.shape[:place], 1, *input.shape[place + 1 :])
    return result.reshape(*q.shape, *trailing)


@composite()
def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the lower median of all elements, or (values, indices) along dim. NaN wins.

    The median of an empty tensor is NaN.

    Raises:
        DimensionError: There are no elements along `dim`, or an integer tensor is empty.
    """
    if dim is None:
        if not input.numel() and input.is_floating_point():
            return input.sum() * math.nan
        return median(input.reshape(input.numel()), 0)[0]
    place = dimension(dim, input.ndim)
    if not input.ndim:
        return ValuesIndices(input.clone(), input.argsort())
    if not input.shape[place]:
        raise DimensionError("an empty row has no median")
    before = (input.shape[place] - 1) // 2
    middle = ops.top_indices(input, before + 1, place, False).narrow(place, before, 1)
    if input.is_floating_point():
        missing = input.isnan()
        first = missing.argmax(place, True)
        middle = ops.where_op(missing.any(place, True), first, middle)
    return values_at(input, place, keepdim, middle)
