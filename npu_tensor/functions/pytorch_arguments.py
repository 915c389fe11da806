"""PyTorch's functions for gradients, default dtypes and limits, PyTorch's other names, and its linear algebra."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from npu_tensor import linalg
from npu_tensor.dtypes import DType, as_dtype, bool_, default_dtype, set_default_float, uint8
from npu_tensor.errors import DTypeError
from npu_tensor.functions.register import composite
from npu_tensor.graph.history import GradMode, grad_mode
from npu_tensor.linalg import QR
from npu_tensor.ops import registry
from npu_tensor.planner.selection import before_reset
from npu_tensor.tensor import Tensor, from_array

# --- gradients


@composite(method=False)
def no_grad(function: Any = None) -> Any:
    """Disable gradients in a with block or a decorated function."""
    return GradMode(False) if function is None else GradMode(False)(function)


@composite(method=False)
def enable_grad(function: Any = None) -> Any:
    """Enable gradients in a with block or a decorated function, also inside of `no_grad`."""
    return GradMode(True) if function is None else GradMode(True)(function)


@composite(method=False)
def inference_mode(mode: Any = True) -> Any:
    """Disable gradients like `no_grad`; with mode=False, change nothing."""
    return no_grad(mode) if callable(mode) else GradMode(grad_mode.enabled and not mode)


class _Entered(GradMode):
    """Mode that is active at once and also a context. As a decorator it is active in the function only."""

    def __init__(self, enabled: bool) -> None:
        super().__init__(enabled)
        super().__enter__()

    def __enter__(self) -> None:
        pass

    def __call__(self, func: Any) -> Any:
        super().__exit__()
        return super().__call__(func)


@composite(method=False)
def set_grad_enabled(mode: bool) -> Any:
    """Enable or disable gradients for this thread from now on, in a with block or in a decorated function.

    >>> nt.set_grad_enabled(True)
    """
    return _Entered(mode)


@composite(method=False)
def is_grad_enabled() -> bool:
    """Return True if operations of this thread are recorded for gradients."""
    return grad_mode.enabled


@composite(function=False)
def backward(input: Tensor, gradient: Tensor | None = None, retain_graph: bool = False) -> None:
    """Add the gradients of this tensor to `grad` of the leaves it was computed from. They are recorded, not computed.

    Args:
        input: Tensor to differentiate.
        gradient: Gradient of this tensor, of its shape; None for 1, if it has a single element.
        retain_graph: True if there will be another backward pass through the same graph.

    Raises:
        GradientError: The tensor does not require a gradient.
    """
    importlib.import_module("npu_tensor.autograd").backward(input, gradient, retain_graph)


# --- other names

registry.publish("nelement", registry.Public(None, Tensor.numel))


@composite("type", function=False)
def type_of(input: Tensor, dtype: Any = None) -> Any:
    """Convert to a dtype. Without one, return the name of the tensor's dtype."""
    return str(input.dtype) if dtype is None else input.to(dtype)


@composite(method=False)
def is_floating_point(input: Tensor) -> bool:
    """Return True if the dtype is floating point."""
    return input.is_floating_point()


@composite()
def is_signed(input: Tensor) -> bool:
    """Return True if the dtype has negative numbers."""
    return input.dtype not in (uint8, bool_)


composite("detach", method=False, view=True)(Tensor.detach)
registry.publish("ndimension", registry.Public(None, Tensor.dim))


# --- the default dtype


@composite(method=False)
def get_default_dtype() -> DType:
    """Return the dtype of Python floats, float32 unless `set_default_dtype` has changed it."""
    return default_dtype(float)


@composite(method=False)
def set_default_dtype(d: Any) -> None:
    """Set the dtype of Python floats, `zeros` and other constants, and quotients of integers for the whole process.

    Functions wrapped by `jit` are captured again.

    Raises:
        DTypeError: The dtype is not floating point.

    >>> nt.set_default_dtype(nt.float32)
    """
    dtype = as_dtype(d)
    if not dtype.is_floating_point:
        raise DTypeError(f"the default is a float dtype, not {dtype.name}")
    set_default_float(dtype)
    for op in registry.OPS.values():
        op.calls.clear()
    for forget in before_reset:
        forget()


# --- limits of dtypes


class FloatLimits(NamedTuple):
    """Limits of a float dtype as Python numbers; `tiny` and `smallest_normal` are the same number."""

    bits: int
    eps: float
    max: float
    min: float
    tiny: float
    smallest_normal: float
    resolution: float
    dtype: str


class IntegerLimits(NamedTuple):
    """Limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: str


@composite(method=False)
def finfo(type: Any = None) -> FloatLimits:
    """Return the limits of a float dtype, by default float32. eps is the distance from 1 to the next number."""
    dtype = as_dtype(type or default_dtype(float))
    if not dtype.is_floating_point:
        raise DTypeError(f"takes float dtypes, not {dtype.name}{'; use iinfo' if dtype.is_integer else ''}")
    limits = ml_dtypes.finfo(dtype.numpy)  # type: ignore[no-untyped-call]
    tiny = float(limits.smallest_normal)
    numbers = (float(limits.eps), float(limits.max), float(limits.min), tiny, tiny, float(limits.resolution))
    return FloatLimits(dtype.itemsize * 8, *numbers, dtype.name)


@composite(method=False)
def iinfo(type: Any) -> IntegerLimits:
    """Return bits, max and min of an integer dtype.

    >>> nt.iinfo(nt.int8)
    """
    dtype = as_dtype(type)
    if not dtype.is_integer:
        raise DTypeError(f"takes integer dtypes, not {dtype.name}")
    limits = np.iinfo(dtype.numpy)
    return IntegerLimits(limits.bits, limits.max, limits.min, dtype.name)


# --- linear algebra with other names or results than in torch.linalg

for _function in (linalg.det, linalg.slogdet, linalg.matrix_power, linalg.matrix_exp):
    composite()(_function)
composite("inverse")(linalg.inv)


@composite()
def logdet(input: Tensor) -> Tensor:
    """Return the logarithm of the determinant of square matrices; NaN if it is negative."""
    return linalg.det(input).log()


@composite()
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """Return the pseudoinverse of matrices. Singular values up to rcond times the largest count as 0."""
    return linalg.pinv(input, rtol=rcond)


@composite()
def qr(input: Tensor, some: bool = True) -> QR:
    """Return the QR decomposition, like `linalg.qr`; some=False makes Q square."""
    return linalg.qr(input, "reduced" if some else "complete")


@composite()
def svd(input: Tensor, some: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """Return U, S and V with input = U @ diag(S) @ V.mT; some=False makes U and V square.

    `linalg.svd` returns V.mT instead of V.
    """
    u, s, vh = linalg.svd(input, not some)
    return u, s, vh.mT


@composite()
def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """Return the Cholesky factor, like `linalg.cholesky`.

    >>> nt.cholesky(nt.tensor([[4.0, 2.0], [2.0, 5.0]]))
    """
    return linalg.cholesky(input, upper=upper)


@composite()
def cholesky_solve(input: Tensor, input2: Tensor, upper: bool = False) -> Tensor:
    """Solve A @ X = input for the matrices A whose Cholesky factors are input2.

    >>> nt.cholesky_solve(nt.tensor([[2.0], [4.0]]), 2 * nt.eye(2))
    """
    factor = input2.mT if upper else input2
    half = linalg.solve_triangular(factor, input, upper=False)
    return linalg.solve_triangular(factor.mT, half, upper=True)


@composite()
def cholesky_inverse(input: Tensor, upper: bool = False) -> Tensor:
    """Return the inverse of the matrices whose Cholesky factors are input."""
    inverse = linalg.inv(input.triu() if upper else input.tril())
    return inverse @ inverse.mT if upper else inverse.mT @ inverse


@composite()
def lu(input: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
    """Return the LU factorization like `linalg.lu_factor`; get_infos adds the failures of `linalg.lu_factor_ex`."""
    parts = linalg.lu_factor_ex(input, pivot=pivot)
    return tuple(parts) if get_infos else tuple(parts[:2])


@composite()
def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """Solve A @ X = input for the matrices A that `linalg.lu_factor` has factored.

    >>> nt.lu_solve(nt.tensor([[2.0], [4.0]]), *nt.linalg.lu_factor(2 * nt.eye(2)))
    """
    return linalg.lu_solve(LU_data, LU_pivots, input)


@composite(method=False)
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> linalg.LU:
    """Return P, L and U from the parts of `linalg.lu_factor`.

    Args:
        LU_data: L below and U above the diagonal.
        LU_pivots: Exchanged rows.
        unpack_data: False to return empty tensors for L and U.
        unpack_pivots: False to return an empty tensor for P.

    >>> nt.lu_unpack(*nt.linalg.lu_factor(2 * nt.eye(2)))
    """
    parts = linalg.lu_parts(LU_data, LU_pivots)
    wanted = (unpack_pivots, unpack_data, unpack_data)
    arrays = (part if shown else np.zeros(0) for part, shown in zip(parts, wanted, strict=True))
    return linalg.LU(*(from_array(array, LU_data.dtype) for array in arrays))


@composite()
def triangular_solve(
    input: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, Tensor]:
    """Return X with A @ X = input for triangular A, and A. transpose solves A.mT @ X = input.

    >>> nt.triangular_solve(nt.tensor([[2.0], [4.0]]), 2 * nt.eye(2))
    """
    matrix = A.mT if transpose else A
    solution = linalg.solve_triangular(matrix, input, upper=upper != transpose, unitriangular=unitriangular)
    return solution, A
