"""Inverses and factorizations, with the names and results of torch.linalg. They read their operands at once.

NumPy's LAPACK computes them on the CPU, in float64 for float64 and in float32 for the other float types, whose
results are rounded. Leading dimensions are a batch. Singular matrices and the like raise ArgumentError.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from npu_tensor.dtypes import DType, int64
from npu_tensor.errors import ArgumentError, DTypeError, ShapeError
from npu_tensor.graph.history import require_constant
from npu_tensor.tensor import Tensor, from_array

__all__ = [
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "inv_ex",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]

Array = np.ndarray[Any, Any]


class QR(NamedTuple):
    """Factors of A = Q @ R."""

    Q: Tensor
    R: Tensor


class SVD(NamedTuple):
    """Factors of A = U @ diag(S) @ Vh, with S in descending order."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class Eigh(NamedTuple):
    """Solution of A @ eigenvectors = eigenvectors * eigenvalues, with ascending eigenvalues."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class SignLogDet(NamedTuple):
    """Parts of the determinant sign * exp(logabsdet)."""

    sign: Tensor
    logabsdet: Tensor


class LeastSquares(NamedTuple):
    """Solution of least squares; residuals are empty unless A has full rank and more rows than columns."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


class LU(NamedTuple):
    """Factors of A = P @ L @ U."""

    P: Tensor
    L: Tensor
    U: Tensor


class LUFactor(NamedTuple):
    """L below and U above the diagonal of one matrix, and the row, from 1, that each row was exchanged with."""

    LU: Tensor
    pivots: Tensor


class LUFactorEx(NamedTuple):
    """Parts of `LUFactor`, and for each matrix the number of the first pivot that is 0, or 0."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


class InverseEx(NamedTuple):
    """Inverses, and for each matrix the number of the first pivot that is 0, or 0."""

    inverse: Tensor
    info: Tensor


class CholeskyEx(NamedTuple):
    """Cholesky factors, and for each matrix the order of the first minor that is not positive definite, or 0."""

    L: Tensor
    info: Tensor


class SolveEx(NamedTuple):
    """Solutions, and for each matrix the number of the first pivot that is 0, or 0."""

    result: Tensor
    info: Tensor


def _operand(name: str, value: Any) -> Tensor:
    """Return a Tensor, also for a NumPy array. Raise TypeError for anything else."""
    if isinstance(value, np.ndarray):
        return from_array(value)
    if not isinstance(value, Tensor):
        raise TypeError(f"linalg.{name} takes tensors and NumPy arrays, not {type(value).__name__}; use nt.tensor")
    return value


def _arrays(name: str, *operands: Any, square: bool = False) -> tuple[DType, list[Array]]:
    """Return the common dtype of matrices and their values as arrays. Raise DTypeError, ShapeError."""
    tensors = [_operand(name, operand) for operand in operands]
    require_constant(f"linalg.{name}", *(tensor._node for tensor in tensors))
    dtype = tensors[0].dtype
    if not all(tensor.dtype is dtype and tensor.is_floating_point() for tensor in tensors):
        dtypes = " and ".join(tensor.dtype.name for tensor in tensors)
        raise DTypeError(f"linalg.{name} takes floats of one dtype, not {dtypes}; convert with .to(npu_tensor.float32)")
    shape = tensors[0].shape
    if len(shape) < 2 or (square and shape[-1] != shape[-2]):
        raise ShapeError(f"linalg.{name} takes {'square ' if square else ''}matrices, not {list(shape)}")
    return dtype, [tensor.numpy().astype(dtype.register, copy=False) for tensor in tensors]


def _computed(name: str, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Return NumPy's result. Raise ArgumentError for operands that NumPy refuses."""
    try:
        with np.errstate(all="ignore"):
            return function(*arguments, **options)
    except (np.linalg.LinAlgError, ValueError) as error:
        shapes = " and ".join(str(list(argument.shape)) for argument in arguments)
        raise ArgumentError(f"linalg.{name} of {shapes}: {error}") from None


def _applied(name: str, function: Callable[..., Any], *operands: Any, square: bool = False, **options: Any) -> Tensor:
    """Return NumPy's result for matrices as a Tensor of their dtype."""
    dtype, arrays = _arrays(name, *operands, square=square)
    return from_array(np.asarray(_computed(name, function, *arrays, **options)), dtype)


def norm(
    A: Tensor,
    ord: float | Literal["fro", "nuc"] | None = None,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
) -> Tensor:
    """Return the norm of vectors, which is recorded, or of matrices.

    Args:
        A: Floats of any shape.
        ord: Order of the norm: for vectors a number (by default 2), see `npu_tensor.norm`; for matrices "fro" (the
            default), "nuc", inf, -inf, 1, -1, 2 or -2.
        dim: One dimension for vectors, two for matrices. None takes a vector or matrices, or, without `ord`, A as one
            vector.
        keepdim: True to keep the reduced dimensions with extent 1.
        dtype: Dtype to convert A to first.
        axis: NumPy's name of `dim`.
        keepdims: NumPy's name of `keepdim`.
    """
    A = _operand("norm", A) if dtype is None else _operand("norm", A).to(dtype)
    if axis is not None:
        if dim is not None:
            raise TypeError("linalg.norm: dim and axis mean the same: give one of them")
        dim = axis
    keepdim = keepdim or keepdims
    dims = (dim,) if isinstance(dim, int) else dim if dim is None else tuple(dim)
    if (len(dims) == 1) if dims is not None else (ord is None or A.ndim == 1):
        return A.norm(2.0 if ord is None else ord, dims, keepdim)
    if dims is not None and len(dims) != 2:
        raise ArgumentError(f"linalg.norm of matrices reduces two dimensions, not {dims}")
    return _applied("norm", lambda a: np.linalg.norm(a, ord, dims, keepdim), A)


def inv(A: Tensor) -> Tensor:
    """Return the inverse of square matrices."""
    return _applied("inv", np.linalg.inv, A, square=True)


def det(A: Tensor) -> Tensor:
    """Return the determinant of square matrices."""
    return _applied("det", np.linalg.det, A, square=True)


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """Solve A @ X = B for square matrices A. B has columns, or is one vector for each matrix.

    Args:
        A: Matrices (..., n, n).
        B: Columns, or one vector for each matrix.
        left: False to solve X @ A = B.
    """
    if not left:
        return solve(_operand("solve", A).mT, _operand("solve", B).mT).mT
    dtype, (a, b) = _arrays("solve", A, B, square=True)
    if _are_vectors(b, a):
        return from_array(_computed("solve", np.linalg.solve, a, b[..., None])[..., 0], dtype)
    return from_array(_computed("solve", np.linalg.solve, a, b), dtype)


def _are_vectors(b: Array | Tensor, a: Array) -> bool:
    """Return True if the right sides of equations with the matrices `a` are vectors."""
    return b.ndim == 1 or tuple(b.shape) == a.shape[:-1]


def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> LeastSquares:
    """Return the X that minimizes A @ X - B, for one matrix A.

    Args:
        A: Matrix (m, n).
        B: Matrix (m, k) or vector (m).
        rcond: Singular values below rcond times the largest count as 0; by default epsilon times the larger extent of
            A.
        driver: Has no effect: LAPACK's "gelsd" is always used.
    """
    dtype, (a, b) = _arrays("lstsq", A, B)
    if a.ndim != 2 or b.ndim not in (1, 2):
        raise ShapeError(f"linalg.lstsq takes one matrix and columns, not {list(a.shape)} and {list(b.shape)}")
    solution, residuals, rank, values = _computed("lstsq", lambda a, b: np.linalg.lstsq(a, b, rcond), a, b)
    parts = (from_array(solution, dtype), from_array(residuals, dtype))
    return LeastSquares(*parts, from_array(np.asarray(rank, np.int64)), from_array(values, dtype))


def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """Return the lower triangular L with A = L @ L.mT for symmetric positive definite matrices, or its transpose."""
    return _applied("cholesky", np.linalg.cholesky, A, square=True, upper=upper)


def qr(A: Tensor, mode: str = "reduced") -> QR:
    """Return Q with orthonormal columns and upper triangular R.

    Args:
        A: Matrices (..., m, n).
        mode: "reduced", "complete" (square Q) or "r" (empty Q).
    """
    if mode not in ("reduced", "complete", "r"):
        raise ArgumentError(f"linalg.qr: mode must be 'reduced', 'complete' or 'r', not {mode!r}")
    dtype, (array,) = _arrays("qr", A)
    factors = _computed("qr", np.linalg.qr, array, mode=mode)
    q, r = (np.zeros(0), factors) if mode == "r" else factors
    return QR(from_array(q, dtype), from_array(r, dtype))


def svd(A: Tensor, full_matrices: bool = True) -> SVD:
    """Return the singular value decomposition. full_matrices=False omits vectors that S does not multiply."""
    dtype, (array,) = _arrays("svd", A)
    parts = _computed("svd", np.linalg.svd, array, full_matrices=full_matrices)
    return SVD(*(from_array(part, dtype) for part in parts))


def eigh(A: Tensor, UPLO: str = "L") -> Eigh:
    """Return eigenvalues and eigenvectors of symmetric matrices. UPLO selects the triangle to read, "L" or "U"."""
    if UPLO not in ("L", "U"):
        raise ArgumentError(f"linalg.eigh: UPLO must be 'L' or 'U', not {UPLO!r}")
    dtype, (array,) = _arrays("eigh", A, square=True)
    return Eigh(*(from_array(part, dtype) for part in _computed("eigh", np.linalg.eigh, array, UPLO=UPLO)))


def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """Return the eigenvalues of symmetric matrices, like `eigh`."""
    return eigh(A, UPLO).eigenvalues


def svdvals(A: Tensor) -> Tensor:
    """Return the singular values in descending order."""
    return _applied("svdvals", np.linalg.svd, A, compute_uv=False)


def slogdet(A: Tensor) -> SignLogDet:
    """Return sign and logarithm of the magnitude of the determinant of square matrices."""
    dtype, (array,) = _arrays("slogdet", A, square=True)
    return SignLogDet(*(from_array(np.asarray(part), dtype) for part in _computed("slogdet", np.linalg.slogdet, array)))


def cond(A: Tensor, p: float | Literal["fro", "nuc"] | None = None) -> Tensor:
    """Return the condition number of matrices: the p-norm (by default 2) times that of the inverse; may be infinite."""
    return _applied("cond", lambda a: np.linalg.cond(a, p), A, square=p not in (None, 2, -2))


def _smallest_counted(values: Array, shape: Sequence[int], atol: Any, rtol: Any) -> Array:
    """Return the limit below which singular values count as 0: max(atol, rtol * the largest)."""
    absolute = np.asarray(0.0 if atol is None else atol)[..., None]
    usual = np.where(absolute > 0, 0.0, np.finfo(values.dtype).eps * max(shape[-2:]))
    relative = usual if rtol is None else np.asarray(rtol)[..., None]
    limit: Array = np.maximum(values.max(-1, keepdims=True, initial=0) * relative, absolute)
    return limit


def pinv(
    A: Tensor,
    rcond: float | Tensor | None = None,
    *,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
    hermitian: bool = False,
) -> Tensor:
    """Return the pseudoinverse of matrices. Singular values up to max(atol, rtol * the largest) count as 0.

    Args:
        A: Matrices of any shape.
        rcond: Older name of `rtol`.
        atol: Absolute limit, or one for each matrix.
        rtol: Relative limit, or one for each matrix; by default epsilon times the larger extent.
        hermitian: True to read only the lower triangle of symmetric matrices.
    """
    dtype, (array,) = _arrays("pinv", A, square=hermitian)
    rtol = rcond if rtol is None else rtol
    if hermitian:
        array = np.tril(array) + np.swapaxes(np.tril(array, -1), -1, -2)
    u, s, vh = _computed("pinv", np.linalg.svd, array, full_matrices=False)
    kept = s > _smallest_counted(s, array.shape, atol, rtol)
    inverse = np.divide(1, s, out=np.zeros_like(s), where=kept)
    return from_array(np.swapaxes(vh, -1, -2) * inverse[..., None, :] @ np.swapaxes(u, -1, -2), dtype)


def matrix_rank(
    A: Tensor, *, atol: float | Tensor | None = None, rtol: float | Tensor | None = None, hermitian: bool = False
) -> Tensor:
    """Return the number of singular values of matrices above max(atol, rtol * the largest)."""
    _, (array,) = _arrays("matrix_rank", A, square=hermitian)
    if hermitian:
        array = np.tril(array) + np.swapaxes(np.tril(array, -1), -1, -2)
    values = _computed("matrix_rank", np.linalg.svd, array, compute_uv=False)
    return from_array(np.asarray((values > _smallest_counted(values, array.shape, atol, rtol)).sum(-1), np.int64))


def matrix_power(A: Tensor, n: int) -> Tensor:
    """Raise square matrices to an integer power; negative ones use the inverse."""
    return _applied("matrix_power", lambda a: np.linalg.matrix_power(a, n), A, square=True)


def matrix_exp(A: Tensor) -> Tensor:
    """Return the exponential of square matrices: the Taylor series of A / 2^n, squared n times."""
    dtype, (array,) = _arrays("matrix_exp", A, square=True)
    wide = array.astype(np.float64)
    largest = np.abs(wide).sum(-1).max(initial=0)
    halvings = max(int(np.ceil(np.log2(largest))) + 1, 0) if 0 < largest < np.inf else 0
    scaled = wide / 2.0**halvings
    total = term = np.broadcast_to(np.eye(wide.shape[-1]), wide.shape)
    for number in range(1, 19):  # 0.5**18 / 18! is below the precision of float64
        term = term @ scaled / number
        total = total + term
    for _ in range(halvings):
        total = total @ total
    return from_array(total, dtype)


def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """Return the product of matrices in the cheapest order; the first and the last may be vectors."""
    if not tensors[0].is_floating_point():
        return functools.reduce(matmul, tensors)
    dtype, arrays = _arrays("multi_dot", *(tensor.reshape(1, -1) if tensor.ndim == 1 else tensor for tensor in tensors))
    shaped = [array.reshape(tensor.shape) for array, tensor in zip(arrays, tensors, strict=True)]
    return from_array(np.asarray(np.linalg.multi_dot(shaped)), dtype)


# --- factors with exchanged rows, and results with the number of the step that failed


def _factored(array: Array) -> tuple[Array, Array, Array]:
    """Return L and U in one array, pivots, and the number of the first pivot that is 0, by Gaussian elimination."""
    *batch, rows, columns = array.shape
    lu = array.reshape(math.prod(batch), rows, columns).copy()
    every, count = np.arange(len(lu)), min(rows, columns)
    pivots = np.zeros((len(lu), count), np.int32)
    for step in range(count):
        best = step + np.abs(lu[:, step:, step]).argmax(1)
        pivots[:, step] = best + 1
        lu[every, step], lu[every, best] = lu[every, best], lu[every, step]
        pivot = lu[:, step, step, None]
        lu[:, step + 1 :, step] /= np.where(pivot == 0, 1, pivot)
        lu[:, step + 1 :, step + 1 :] -= lu[:, step + 1 :, step, None] * lu[:, step, None, step + 1 :]
    is_zero = np.diagonal(lu, axis1=1, axis2=2) == 0
    info = np.where(is_zero.any(1), is_zero.argmax(1) + 1, 0) if count else np.zeros(len(lu))
    return lu.reshape(array.shape), pivots.reshape(*batch, count), info.astype(np.int32).reshape(batch)


def _require_pivot(name: str, pivot: bool) -> None:
    if not pivot:
        raise ArgumentError(f"linalg.{name}: pivot=False is not supported; rows are always exchanged")


def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> LUFactorEx:
    """Return the LU factorization with exchanged rows, and its failures.

    Args:
        A: Matrices (..., m, n).
        pivot: True, as in PyTorch on the CPU.
        check_errors: True to raise ArgumentError for a pivot that is 0.
    """
    return _lu_factor("lu_factor_ex", A, pivot, check_errors)


def _lu_factor(name: str, A: Tensor, pivot: bool, check_errors: bool) -> LUFactorEx:
    _require_pivot(name, pivot)
    dtype, (array,) = _arrays(name, A)
    lu, pivots, info = _factored(array)
    _require_success(name, array, info if check_errors else info * 0)
    return LUFactorEx(from_array(lu, dtype), from_array(pivots), from_array(info))


def _require_success(name: str, array: Array, info: Array) -> None:
    if info.any():
        raise ArgumentError(f"linalg.{name} of {list(array.shape)}: step {info.max()} fails; the matrix is singular")


def lu_factor(A: Tensor, *, pivot: bool = True) -> LUFactor:
    """Return the LU factorization with exchanged rows, for `lu_solve`; see `lu_factor_ex`."""
    return LUFactor(*_lu_factor("lu_factor", A, pivot, False)[:2])


def lu_parts(LU: Tensor, pivots: Tensor) -> tuple[Array, Array, Array]:
    """Return P, L and U as arrays from the parts of `LUFactor`."""
    _, (lu,) = _arrays("lu_solve", LU)
    rows, count = lu.shape[-2], min(lu.shape[-2:])
    exchanges = _operand("lu_solve", pivots).numpy()
    if exchanges.shape != (*lu.shape[:-2], count) or not ((exchanges >= 1) & (exchanges <= rows)).all():
        raise ShapeError(f"linalg: pivots {list(exchanges.shape)} do not fit factors {list(lu.shape)}")
    flat = exchanges.reshape(math.prod(lu.shape[:-2]), count) - 1
    order = np.tile(np.arange(rows), (len(flat), 1))
    every = np.arange(len(flat))
    for step in range(count):
        order[every, step], order[every, flat[:, step]] = order[every, flat[:, step]], order[every, step]
    p = np.eye(rows, dtype=lu.dtype)[order].reshape(*lu.shape[:-2], rows, rows).swapaxes(-1, -2)
    return p, np.tril(lu[..., :count], -1) + np.eye(rows, count, dtype=lu.dtype), np.triu(lu[..., :count, :])


def lu(A: Tensor, *, pivot: bool = True) -> LU:
    """Return a permutation P, lower triangular L with a diagonal of 1, and upper triangular U with A = P @ L @ U."""
    _require_pivot("lu", pivot)
    dtype, (array,) = _arrays("lu", A)
    factors, pivots, _ = _factored(array)
    return LU(*(from_array(part, dtype) for part in lu_parts(from_array(factors), from_array(pivots))))


def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """Solve A @ X = B for the matrices A that `lu_factor` has factored.

    Args:
        LU: Factors of square matrices.
        pivots: Exchanged rows.
        B: Columns.
        left: False to solve X @ A = B.
        adjoint: True to use the transpose of A.
    """
    dtype, (factors, b) = _arrays("lu_solve", LU, B, square=True)
    p, lower, upper = lu_parts(from_array(factors), pivots)
    a = p @ lower @ upper
    a = a if left != adjoint else a.swapaxes(-1, -2)
    result = _computed("lu_solve", np.linalg.solve, a, b if left else b.swapaxes(-1, -2))
    return from_array(result if left else result.swapaxes(-1, -2), dtype)


def inv_ex(A: Tensor, *, check_errors: bool = False) -> InverseEx:
    """Return the inverse of square matrices, NaN for singular ones, and their failures.

    Args:
        A: Matrices (..., n, n).
        check_errors: True to raise ArgumentError for a singular matrix.
    """
    result, info = _solved("inv_ex", A, None, check_errors)
    return InverseEx(result, info)


def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> SolveEx:
    """Solve A @ X = B like `solve`, with NaN for singular matrices, and return their failures.

    Args:
        A: Matrices (..., n, n).
        B: Columns, or one vector for each matrix.
        left: False to solve X @ A = B.
        check_errors: True to raise ArgumentError for a singular matrix.
    """
    A, B = _operand("solve_ex", A), _operand("solve_ex", B)
    if left:
        return SolveEx(*_solved("solve_ex", A, B, check_errors))
    result, info = _solved("solve_ex", A.mT, B.mT, check_errors)
    return SolveEx(result.mT, info)


def _solved(name: str, A: Tensor, B: Tensor | None, check_errors: bool) -> tuple[Tensor, Tensor]:
    """Return the solution for columns B, or the inverse, and the failures."""
    dtype, (array,) = _arrays(name, A, square=True)
    _, _, info = _factored(array)
    _require_success(name, array, info if check_errors else info * 0)
    failed = (info != 0)[..., None, None]
    regular = from_array(np.where(failed, np.eye(array.shape[-1], dtype=array.dtype), array), dtype)
    result = inv(regular) if B is None else solve(regular, B)
    shown = from_array(np.asarray(failed[..., 0] if B is not None and _are_vectors(B, array) else failed))
    return result.masked_fill(shown, float("nan")), from_array(info)


def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> CholeskyEx:
    """Return Cholesky factors like `cholesky`, NaN for matrices that are not positive definite, and their failures.

    Args:
        A: Symmetric matrices (..., n, n).
        upper: True to return the transpose.
        check_errors: True to raise ArgumentError for a matrix that is not positive definite.
    """
    dtype, (array,) = _arrays("cholesky_ex", A, square=True)
    result, info = np.full_like(array, np.nan), np.zeros(array.shape[:-2], np.int32)
    for place in np.ndindex(info.shape):
        try:
            result[place] = np.linalg.cholesky(array[place], upper=upper)
        except np.linalg.LinAlgError:
            info[place] = _indefinite_minor(array[place])
    if check_errors and info.any():
        raise ArgumentError(f"linalg.cholesky_ex of {list(array.shape)}: the minor {info.max()} is not positive")
    return CholeskyEx(from_array(result, dtype), from_array(info))


def _indefinite_minor(matrix: Array) -> int:
    """Return the order of the first leading minor that is not positive definite."""
    for order in range(1, len(matrix)):
        try:
            np.linalg.cholesky(matrix[:order, :order])
        except np.linalg.LinAlgError:
            return order
    return len(matrix)


def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """Solve A @ X = B, or X @ A = B unless left, for triangular A. Only that triangle is read."""
    dtype, (a, b) = _arrays("solve_triangular", A, B, square=True)
    triangle = np.triu(a) if upper else np.tril(a)
    if unitriangular:
        np.einsum("...ii->...i", triangle)[...] = 1
    if left:
        return from_array(_computed("solve_triangular", np.linalg.solve, triangle, b), dtype)
    turned = _computed("solve_triangular", np.linalg.solve, np.swapaxes(triangle, -1, -2), np.swapaxes(b, -1, -2))
    return from_array(np.swapaxes(turned, -1, -2), dtype)


def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """Return the inverse for `tensordot`, where the first `ind` dimensions have as many elements as the others."""
    return _applied("tensorinv", lambda a: np.linalg.tensorinv(a, ind), A)


def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """Solve tensordot(A, X, X.ndim) = B; dims of A are moved to the end first."""
    dtype, (a, b) = _arrays("tensorsolve", A, B.reshape(1, *B.shape))
    return from_array(_computed("tensorsolve", lambda a, b: np.linalg.tensorsolve(a, b, dims), a, b[0]), dtype)


# --- recorded, of any dtype that the functions they are made of take


def vector_norm(
    x: Tensor,
    ord: float = 2,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Tensor:
    """Return the norm of vectors over dim (None for all); see `npu_tensor.norm`."""
    x = _operand("vector_norm", x)
    return x.norm(ord, dim, keepdim, dtype)


def matrix_norm(
    A: Tensor,
    ord: float | Literal["fro", "nuc"] = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: Any = None,
) -> Tensor:
    """Return the norm of matrices over two dimensions; see `norm`."""
    return norm(A, ord, dim, keepdim, dtype=dtype)


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """Return the matrix product, like `npu_tensor.matmul`."""
    return _operand("matmul", input) @ other


def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Return the cross products of vectors of three elements along dim."""
    return _operand("cross", input).cross(other, dim)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Return a diagonal of matrices, as a view."""
    return _operand("diagonal", A).diagonal(offset, dim1, dim2)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Return the sums of products along dim."""
    return (_operand("vecdot", x) * y).sum(dim)


def vander(x: Tensor, N: int | None = None) -> Tensor:
    """Return powers of the elements of x from 0 to N - 1 along a new dimension. Integers give int64.

    N is the last extent of x by default.
    """
    x = _operand("vander", x)
    x = (x if x.is_floating_point() else x.to(int64)).reshape(x.shape or (1,))
    count = x.shape[-1] if N is None else N
    exponents = from_array(np.arange(count))
    return x.unsqueeze(-1) ** exponents.to(x.dtype)
