"""Shape and dtype rules, each shared by many ops. Derived tests check them against NumPy and PyTorch.

A rule takes the operands (specs or number types) and the attributes by name, and returns a Resolution or raises.
`rule.dtypes` is the text that the op table prints; rules without it take all dtypes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from npu_tensor.dtypes import DType, as_dtype, bool_, default_dtype, float32, int32, int64, promote, uint8
from npu_tensor.errors import ArgumentError, DimensionError, DTypeError, ShapeError
from npu_tensor.ops.declare import Operand, Resolution, Rule
from npu_tensor.spec import Spec, broadcast_shapes

Attributes = dict[str, Any]


def _dtypes(text: str) -> Callable[[Rule], Rule]:
    def mark(rule: Rule) -> Rule:
        rule.dtypes = text  # type: ignore[attr-defined]
        return rule

    return mark


def broadcast_of(operands: Iterable[Operand]) -> tuple[int, ...]:
    """Broadcast the shapes of all tensors among the operands."""
    return broadcast_shapes(*(operand.shape for operand in operands if isinstance(operand, Spec)))


def promoted(operands: Sequence[Operand]) -> DType:
    """Return the promoted dtype of tensors and numbers."""
    return promote(
        ((operand.dtype, operand.ndim) for operand in operands if isinstance(operand, Spec)),
        (operand for operand in operands if not isinstance(operand, Spec)),
    )


def dtype_of(operand: Operand) -> DType:
    """Return the dtype of a tensor, or the default dtype of a Python number."""
    return operand.dtype if isinstance(operand, Spec) else default_dtype(operand)


def unpacked(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return (2, 3) for the arguments of f(2, 3), f((2, 3)) and f([2, 3])."""
    return tuple(values[0]) if len(values) == 1 and isinstance(values[0], (tuple, list)) else values


def integer_extents(shape: Iterable[Any]) -> tuple[int, ...]:
    """Convert extents to Python integers. Raises TypeError for anything but integers."""
    shape = tuple(shape)
    if {*map(type, shape)} == {int}:  # The most frequent case.
        return shape
    for extent in shape:
        if isinstance(extent, bool) or not hasattr(extent, "__index__"):
            raise TypeError(f"a shape is made of integers, not {extent!r}")
    return tuple(extent.__index__() for extent in shape)


def dimension(dim: Any, ndim: int) -> int:
    """Return `dim` counted from the front. A zero-dimensional tensor has one dimension 0, as in PyTorch.

    Raises:
        TypeError: `dim` is not an integer.
        DimensionError: `dim` is out of range.
    """
    if type(dim) is int and -ndim <= dim < ndim:
        return dim % ndim
    if isinstance(dim, bool) or not hasattr(dim, "__index__"):
        raise TypeError(f"a dimension must be an integer, not {dim!r}")
    dim = dim.__index__()
    extent = max(ndim, 1)
    if not -extent <= dim < extent:
        raise DimensionError(f"dimension {dim} is out of range [{-extent}, {extent - 1}]")
    return int(dim % extent)


def dimensions(dim: Any, ndim: int) -> tuple[int, ...]:
    """Return, in ascending order, the dimensions for None (all), an integer or a sequence (empty = all).

    Raises:
        ArgumentError: A dimension appears twice.
    """
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(ndim))
    if not isinstance(dim, (tuple, list)):
        dim = (dim,)
    dims = sorted(dimension(d, ndim) for d in dim)
    if len(set(dims)) != len(dims):
        raise ArgumentError(f"a dimension appears twice in {tuple(dim)}")
    return tuple(dims) if ndim else ()


def _map(operands: Sequence[Operand], out: DType, register: str, attributes: Attributes) -> Resolution:
    spec = Spec.of(broadcast_of(operands), out)
    return Resolution(spec, (register,) * len(operands), attributes)


def _require_whole_alpha(dtype: DType, attributes: Attributes) -> None:
    """Raise ArgumentError if integers would be multiplied by a float."""
    alpha = attributes.get("alpha")
    if not dtype.is_floating_point and isinstance(alpha, float):
        raise ArgumentError(f"alpha must be an integer for operands of {dtype.name}, not {alpha}")


def arithmetic(operands: tuple[Operand, ...], attributes: Attributes) -> Resolution:
    """Resolve to the promoted dtype."""
    dtype = promoted(operands)
    _require_whole_alpha(dtype, attributes)
    return _map(operands, dtype, dtype.register, attributes)


@_dtypes("all but bool")
def numeric(operands: tuple[Operand, ...], attributes: Attributes) -> Resolution:
    """Resolve to the promoted dtype. Raises DTypeError for bool."""
    dtype = promoted(operands)
    if dtype is bool_:
        raise DTypeError("not defined for bool; use logical ops, or convert with .to(...)")
    _require_whole_alpha(dtype, attributes)
    return _map(operands, dtype, dtype.register, attributes)


@_dtypes("all but bool")
def limits(operands: tuple[Operand, ...], attributes: Attributes) -> Resolution:
    """Resolve as `numeric`, with the limits min_val and max_val."""
    low, high = attributes["min_val"], attributes["max_val"]
    if low > high:
        raise ArgumentError(f"min_val {low} is greater than max_val {high}")
    resolution = numeric(operands, attributes)
    if resolution.spec.dtype is uint8 and low < 0:
        raise ArgumentError(f"min_val {low} is negative, which uint8 cannot hold")
    return resolution


@_dtypes("all; integers become float32")
def floating(operands: tuple[Operand, ...], attributes: Attributes) -> Resolution:
    """Resolve to the promoted float dtype; integers and bool become the default float."""
    dtype = promoted(operands)
    if not dtype.is_floating_point:
        dtype = default_dtype(float)
    return _map(operands, dtype, dtype.register, attributes)


def comparison(operands: tuple[Operand, ...], attributes: Attributes) -> Resolution:
    """Resolve to bool, compared in the promoted dtype."""
    return _map(operands, bool_, promoted(operands).register, attributes)


def predicate(operands: tuple[Operand, ...], attributes: Attributes) -> Resolution:
    """Resolve to bool for a property of floats; integers are converted to float32."""
    dtype = promoted(operands)
    return _map(operands, bool_, dtype.register if dtype.is_floating_point else "float32", attributes)


def logical(operands: tuple[Operand, ...], attributes: Attributes) -> Resolution:
    """Resolve to bool, from truth values."""
    return _map(operands, bool_, "bool", attributes)


@_dtypes("integers and bool")
def bitwise(operands: tuple[Operand, ...], attributes: Attributes) -> Resolution:
    """Resolve integers or bool to the promoted dtype. Raises DTypeError for floats."""
    dtype = promoted(operands)
    if dtype.is_floating_point:
        raise DTypeError(f"takes integers or bool, not {dtype.name}")
    return _map(operands, dtype, dtype.register, attributes)


def select(operands: tuple[Operand, ...], attributes: Attributes) -> Resolution:
    """Resolve a bool condition and two values to the promoted dtype of the values."""
    condition, *values = operands
    if dtype_of(condition) is not bool_:
        raise DTypeError(f"the condition must be bool, not {dtype_of(condition).name}")
    dtype = promoted(values)
    return Resolution(Spec.of(broadcast_of(operands), dtype), ("bool", dtype.register, dtype.register), attributes)


def conversion(operands: tuple[Operand, ...], attributes: Attributes) -> Resolution:
    """Resolve to the attribute `dtype` and the same shape."""
    (operand,) = operands
    dtype = as_dtype(attributes["dtype"])
    return Resolution(
        Spec.of(broadcast_of(operands), dtype), (dtype_of(operand).register,), {**attributes, "dtype": dtype}
    )


def creation(operands: tuple[Operand, ...], attributes: Attributes) -> Resolution:
    """Resolve to the attributes `shape` and `dtype`, with numbers as operands."""
    dtype = as_dtype(attributes["dtype"])
    spec = Spec.of(attributes["shape"], dtype)
    return Resolution(spec, (dtype.register,) * len(operands), {**attributes, "dtype": dtype})


def sequence(operands: tuple[Operand, ...], attributes: Attributes) -> Resolution:
    """Resolve as `creation`, with unconverted numbers: a step of 0.1 must not be rounded before it is multiplied."""
    return replace(creation(operands, attributes), registers=(None,) * len(operands))


def require_tensor(operand: Operand) -> Spec:
    """Return the spec of a tensor operand. Raises DTypeError for Python numbers."""
    if not isinstance(operand, Spec):
        raise DTypeError(f"takes a tensor, not a Python {operand.__name__}")
    return operand


def require_floats(dtype: DType) -> None:
    """Raise DTypeError unless a dtype is floating point."""
    if not dtype.is_floating_point:
        raise DTypeError(f"takes floats, not {dtype.name}; convert with .to(npu_tensor.float32)")


def product_dtypes(a: Spec, b: Spec, out_dtype: Any, mixed: bool = False) -> tuple[DType, str]:
    """Return the dtype of a product, and the register type of operands and sums.

    Small integers accumulate in int32, as the NPU and VNNI do; the result is then wrapped to its dtype. With `mixed`,
    the dtypes of the operands may differ.
    """
    dtype = a.dtype
    if dtype is not b.dtype and not mixed:
        names = f"{dtype.name} and {b.dtype.name}"
        raise DTypeError(f"both operands must have one dtype, not {names}; convert one with .to({dtype.name!r})")
    if dtype is bool_:
        raise DTypeError("not defined for bool")
    out = dtype if out_dtype is None else as_dtype(out_dtype)
    if out.category != dtype.category:
        raise DTypeError(f"out_dtype {out.name} does not fit operands of {dtype.name}")
    return out, "int32" if not dtype.is_floating_point and dtype.itemsize < 4 else dtype.register


def of_tensors(dtypes: str = "all") -> Callable[[Callable[..., Resolution]], Rule]:
    """Turn a function of the specs of all operands and of the attributes by name into a rule that refuses numbers."""

    def decorate(function: Callable[..., Resolution]) -> Rule:
        @_dtypes(dtypes)
        def rule(operands: tuple[Operand, ...], attributes: Attributes) -> Resolution:
            return function(*map(require_tensor, operands), **attributes)

        return rule

    return decorate


@of_tensors()
def positions(x: Spec, dim: int, **options: bool) -> Resolution:
    """Resolve to int64 positions along `dim`, in the shape of the operand."""
    return Resolution(Spec.of(x.shape, int64), (x.dtype.register,), {"dim": dimension(dim, x.ndim), **options})


def reduction(result: str) -> Rule:
    """Make the rule of an op that reduces `dim` (None = all).

    If the op has an attribute `dtype`, the input is converted to it first.

    Args:
        result: Result dtype: "same", "sum" (integers widen to int64), "float" (floats only), "floating" (integers
            become float32), "int64" or "bool" (uint8 of uint8, as in PyTorch).
    """

    @_dtypes("floats" if result == "float" else "all")
    def rule(operands: tuple[Operand, ...], attributes: Attributes) -> Resolution:
        x = require_tensor(operands[0])
        dims = dimensions(attributes["dim"], x.ndim)
        if result in ("same", "int64") and x.size == 0 and any(x.shape[axis] == 0 for axis in dims):
            raise DimensionError("an empty row has no largest or smallest element")
        choice = attributes.get("dtype")
        dtype = x.dtype if choice is None else as_dtype(choice)
        if result == "sum" and not dtype.is_floating_point and choice is None:
            dtype = int64
        if result == "floating" and not dtype.is_floating_point:
            dtype = float32
        if result == "float":
            require_floats(dtype)
        out = {"int64": int64, "bool": uint8 if dtype is uint8 else bool_}.get(result, dtype)
        keep = bool(attributes["keepdim"])
        shape = tuple(1 if axis in dims else extent for axis, extent in enumerate(x.shape) if keep or axis not in dims)
        register = "bool" if result == "bool" else dtype.register
        return Resolution(Spec.of(shape, out), (register,), {**attributes, "dim": dims, "dtype": dtype}, dims, True)

    return rule


_FLOAT_REDUCTION, _ORDER_REDUCTION = reduction("float"), reduction("same")


@_dtypes("floats")
def norm(operands: tuple[Operand, ...], attributes: Attributes) -> Resolution:
    """Resolve as a reduction of floats; an infinite attribute `p` needs rows that are not empty."""
    if math.isinf(attributes["p"]):
        _ORDER_REDUCTION(operands, attributes)
    return _FLOAT_REDUCTION(operands, attributes)


def like_first(operands: tuple[Operand, ...], attributes: Attributes) -> Resolution:
    """Resolve to shape and dtype of the first operand, a float. The others are converted and broadcast to it."""
    x = require_tensor(operands[0])
    require_floats(x.dtype)
    if broadcast_of(operands) != x.shape:
        raise ShapeError("the other operands must broadcast to the first")
    return Resolution(x, (x.dtype.register,) * len(operands), attributes)


def rows_like_first(operands: tuple[Operand, ...], attributes: Attributes) -> Resolution:
    """Resolve as `like_first`; `dim` is the row."""
    resolution = like_first(operands, attributes)
    dims = dimensions(attributes["dim"], resolution.spec.ndim)
    return replace(resolution, attributes={**attributes, "dim": dims}, dims=dims)


@_dtypes("floats")
def rowwise(operands: tuple[Operand, ...], attributes: Attributes) -> Resolution:
    """Resolve one operand as `rows_like_first`, after a conversion to the attribute `dtype` if it is given."""
    (x,) = map(require_tensor, operands)
    dtype = as_dtype(attributes["dtype"]) if attributes.get("dtype") is not None else x.dtype
    return rows_like_first((Spec.of(x.shape, dtype),), {**attributes, "dtype": dtype})


def index_dtype(dtype: DType) -> None:
    """Raise DTypeError unless `dtype` can be used for indices."""
    if dtype not in (int32, int64):
        raise DTypeError(f"indices must be int32 or int64, not {dtype.name}")
