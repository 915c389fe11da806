"""Inverses and factorizations, with the names and results of torch.linalg. They read their operands at once.

NumPy's LAPACK computes them on the CPU, in float64 for float64 and in float32 for the other float types, whose
results are rounded. Leading dimensions are a batch. Singular matrices and the like raise ArgumentError.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from npu_tensor.dtypes import DType, int64
from npu_tensor.errors import ArgumentError, DTypeError, ShapeError
from npu_tensor.graph.history import require_constant
from npu_tensor.tensor import Tensor, from_array

__all__ = [
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "lstsq",
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


def solve(A: Tensor, B: Tensor) -> Tensor:
    """Solve A @ X = B for square matrices A. B has columns, or is one vector for each matrix."""
    dtype, (a, b) = _arrays("solve", A, B, square=True)
    if b.ndim == 1 or b.shape == a.shape[:-1]:
        return from_array(_computed("solve", np.linalg.solve, a, b[..., None])[..., 0], dtype)
    return from_array(_computed("solve", np.linalg.solve, a, b), dtype)


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


def _smallest_counted(values: Array, shape: Sequence[int], atol: float | None, rtol: float | None) -> Array:
    """Return the limit below which singular values count as 0: max(atol, rtol * the largest)."""
    if rtol is None:
        rtol = 0.0 if atol else float(np.finfo(values.dtype).eps) * max(shape[-2:])
    largest = values.max(-1, keepdims=True, initial=0)
    limit: Array = np.maximum(largest * rtol, atol or 0.0)
    return limit


def pinv(
    A: Tensor,
    rcond: float | None = None,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    hermitian: bool = False,
) -> Tensor:
    """Return the pseudoinverse of matrices. Singular values up to max(atol, rtol * the largest) count as 0.

    Args:
        A: Matrices of any shape.
        rcond: Older name of `rtol`.
        atol: Absolute limit.
        rtol: Relative limit, by default epsilon times the larger extent.
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


def matrix_rank(A: Tensor, *, atol: float | None = None, rtol: float | None = None, hermitian: bool = False) -> Tensor:
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
